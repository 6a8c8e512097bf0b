"""Answers of fitted models for the rows of a chunk, and their losses on held-out rows."""

from __future__ import annotations

from functools import partial
from typing import TypedDict

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold
from ..passes.sums import add_sums
from .boosting.boosting import Boosted
from .columns import blocks, project
from .kernels import ScaledColumns, step_values
from .regression.growing import LossRequest
from .regression.reads import Term


def predict_rows(
    columns: ScaledColumns, terms: tuple[Term, ...], intercept: float, chunk: Chunk
) -> np.ndarray:
    """(m,) predictions of a regressor."""
    out = np.empty(chunk.n_rows)
    for part, X in blocks(chunk.X):
        f = out[part]
        f[:] = intercept
        for term in terms:
            term.add_values(project(X, columns, term.alpha), f)
    return out


def margin_rows(columns: ScaledColumns, models: list[Boosted], chunk: Chunk) -> np.ndarray:
    """(m, K) margins F, the sums of Table 6."""
    out = np.zeros((len(models), chunk.n_rows))
    for part, X in blocks(chunk.X):
        for k, model in enumerate(models):
            F = out[k, part]
            for new in model.learners:
                step_values(project(X, columns, new.alpha), *new[1:4], F)
    return out.T


def decide_rows(columns: ScaledColumns, models: list[Boosted], chunk: Chunk) -> np.ndarray:
    """(m,) or (m, K) log odds of the classes."""
    F = margin_rows(columns, models, chunk)
    out = F * np.array([model.slope for model in models])
    out += np.array([model.intercept for model in models])
    return out[:, 0] if len(models) == 1 else out


class LossSums(TypedDict):
    """State of the folds of losses."""

    loss: np.ndarray
    """(models,) weighted sums."""
    weight: float


def loss_fold(columns: ScaledColumns, requests: list[LossRequest]) -> Fold[LossSums, list[float]]:
    """Fold of the mean squared error of each model."""
    return Fold(
        partial(_no_loss, len(requests)),
        partial(_add_loss, columns, requests),
        add_sums,
        _mean_loss,
    )


def _no_loss(k: int) -> LossSums:
    return {"loss": np.zeros(k), "weight": 0.0}


def _add_loss(
    columns: ScaledColumns, requests: list[LossRequest], state: LossSums, chunk: Chunk
) -> LossSums:
    w = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    state["weight"] += float(w.sum())
    for k, request in enumerate(requests):
        r = chunk.target - predict_rows(columns, request.terms, request.intercept, chunk)
        state["loss"][k] += float(w @ r**2)
    return state


def _mean_loss(state: LossSums) -> list[float]:
    weight = state["weight"]
    return [float(total) / weight if weight else float("nan") for total in state["loss"]]


def log_loss_fold(columns: ScaledColumns, path: list[list[Boosted]]) -> Fold[LossSums, list[float]]:
    """Fold of the mean log-loss of each model of a path, one class against the rest."""
    return Fold(
        partial(_no_loss, len(path)), partial(_add_log_loss, columns, path), add_sums, _mean_loss
    )


def _add_log_loss(
    columns: ScaledColumns, path: list[list[Boosted]], state: LossSums, chunk: Chunk
) -> LossSums:
    w = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    state["weight"] += float(w.sum())
    for k, models in enumerate(path):
        f = decide_rows(columns, models, chunk).reshape(chunk.n_rows, len(models))
        labels = np.array([model.label for model in models])
        sign = np.where(chunk.target[:, None] == labels, 1.0, -1.0)
        state["loss"][k] += float(w @ np.logaddexp(0.0, -sign * f).sum(1))
    return state
