"""Scores of fitted models in one read: sums per chunk, several models and metrics at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.dataset import Dataset
from ...data.source import Chunk
from ...errors import LackError, SourceError, leave_out
from ...passes.fold import Fold
from .. import predicting
from ..model import Model
from ..restored import n_outputs
from ..row_size import NUMBER_BYTES, RowSize, decision_bytes
from ..rows.inputs import open_scored, used_columns
from ..rows.targets import encode, is_finite, words_refused
from .metrics import OF_QUANTILES, Metric, Sums, check_metric, find_metric

States = list[list[Sums]]
"""The sums of each model and metric; None before the first rows."""


def evaluate(
    model: Model,
    X: object,
    y: object = None,
    sample_weight: object = None,
    *,
    scoring: Sequence[str],
) -> dict[str, float]:
    """Scores of one fitted model: name -> value."""
    dataset = used_columns(model, open_scored(model, X, y, sample_weight))
    return evaluate_models([model], dataset, scoring)[0]


def evaluate_models(
    models: Sequence[Model], dataset: Dataset, scoring: Sequence[str], *, known_only: bool = False
) -> list[dict[str, float]]:
    """Scores of several fitted models with the same features, in one read of `dataset`.

    `known_only`: rows of classes that these models, which were fitted to the same rows, have not
    seen are left out.
    """
    for model in models:
        for name in scoring:
            check_metric(model, name)
    metrics = tuple(find_metric(name) for name in scoring)
    judged = Judged(dataset.target, dataset.kind, hasattr(models[0], "classes_"))
    fold: Fold[States, States] = Fold(
        partial(_start, len(models), len(scoring)),
        partial(_step, tuple(models), metrics, known_only, judged),
        partial(_merge, metrics),
    )
    n_classes = max(len(getattr(model, "classes_", ())) for model in models)
    size = sum(metric.state_bytes(n_classes) for metric in metrics)
    state = predicting.run(
        models[0],
        dataset,
        fold,
        name="score",
        n_models=len(models),
        score_bytes=size,
        row=RowSize(scored_bytes(models[0], metrics)),
    )
    if not any(sums is not None for row in state for sums in row):
        raise LackError(
            "there are no rows to score", "the dataset is empty, or its filters leave nothing"
        )
    scores = [
        {n: metric.finish(sums) for n, metric, sums in zip(scoring, metrics, row, strict=True)}
        for row in state
    ]
    for name, metric in zip(scoring, metrics, strict=True):
        if metric.ranks and any(np.isnan(of_model[name]) for of_model in scores):
            raise LackError(
                f"{name} is not defined: it compares the rows of each class with all others, and "
                "the rows scored lack one of the two for some class",
                "score more rows, or another metric",
            )
    return scores


def scored_bytes(model: object, metrics: Sequence[Metric]) -> float:
    """Bytes of a row beside its decisions while it is scored, its weight among them."""
    most = max(metric.row_bytes(model) for metric in metrics)
    # of several models, those of the one before are there while the next decides
    return NUMBER_BYTES + max(most, decision_bytes(model))


def suitable_metrics(model: object) -> list[str]:
    """The plain metrics that fit a model: accuracy and log loss, or R^2 and mean squared error.

    Of several quantiles the pinball loss.
    """
    if not hasattr(model, "classes_") and n_outputs(model) > 1:
        return [OF_QUANTILES]
    if not hasattr(model, "classes_"):
        return ["r2", "mean_squared_error"]
    return ["accuracy", "log_loss"] if hasattr(model, "predict_proba") else ["accuracy"]


class Judged(NamedTuple):
    """Facts of the rows that are scored, for messages."""

    target: str | None
    kind: str
    classifies: bool


def check_labelled(chunk: Chunk, rows: Judged) -> None:
    """Refuse rows whose target is missing or not finite, or strings where numbers are predicted."""
    if chunk.target.dtype == object:
        if not rows.classifies:
            raise words_refused(rows.target)
        bad = np.array([label is None for label in chunk.target.tolist()])
    else:
        bad = (
            ~np.isfinite(chunk.target)
            if chunk.target.dtype.kind == "f"
            else np.zeros(chunk.n_rows, bool)
        )
    if bad.any():
        at = int(bad.argmax())
        raise SourceError(
            f"the target is {chunk.target[at : at + 1].tolist()[0]!r} in row {chunk.rows[at]}, "
            f"which cannot be scored; {leave_out(rows.kind)}"
        )


def _start(n_models: int, n_metrics: int) -> list[list[np.ndarray | None]]:
    return [[None] * n_metrics for _ in range(n_models)]


def _step(
    models: tuple, metrics: tuple, known_only: bool, rows: Judged, state: list, chunk: Chunk
) -> list:
    if chunk.weight is not None and not chunk.weight.all():
        if chunk.target.dtype == object or not is_finite(chunk):
            chunk = chunk.where(chunk.weight > 0)
    if chunk.n_rows == 0:
        return state
    check_labelled(chunk, rows)
    if known_only and hasattr(models[0], "classes_"):
        chunk = chunk.where(encode(chunk.target, models[0].classes_) >= 0)
        if chunk.n_rows == 0:
            return state
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    new = []
    for model in models:
        decision = predicting.decide(model, chunk)
        new.append([metric.sums(model, chunk, decision, weight) for metric in metrics])
    return _merge(metrics, state, new)


def _merge(metrics: tuple, a: list, b: list) -> list:
    return [
        [
            y if x is None else x if y is None else metric.merge(x, y)
            for metric, x, y in zip(metrics, row_a, row_b, strict=True)
        ]
        for row_a, row_b in zip(a, b, strict=True)
    ]
