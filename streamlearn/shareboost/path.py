"""The models of a run, one after each correction, and what each can prove."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold
from .candidates import Choice, Kind, features
from .objective import margin_softmax


class Point(NamedTuple):
    """The model after one correction."""

    choices: tuple[Choice, ...]
    theta: np.ndarray
    """(K, 1 + width): intercept, coefficients."""
    loss: float
    objective: float
    """Loss and penalties."""
    inner: float
    """<gradient, theta>: 0 at the exact optimum over the selected."""
    largest: float = float("nan")
    """max |G_r|_1 over everything, selected or not."""
    promised: float = float("nan")
    """What one more candidate lowers the objective by at least; NaN if it was not looked at."""
    validation_loss: float = float("nan")
    validation_error: float = float("nan")

    @property
    def n(self) -> int:
        return len(self.choices)

    def gap(self, norm: float) -> float:
        """Bound of the objective's distance to its least value over |W|_{inf,1} <= norm (Lemma 3).

        L(W) - L(V) <= <grad, W - V> <= <grad, W> + norm max_r |G_r|_1.
        """
        return norm * self.largest + self.inner


def as_table(points: Sequence[Point]) -> dict[str, np.ndarray]:
    """The path's columns, one entry for each point."""
    return {
        "n": np.array([point.n for point in points]),
        "loss": np.array([point.loss for point in points]),
        "objective": np.array([point.objective for point in points]),
        "promised_gain": np.array([point.promised for point in points]),
        "largest_gradient": np.array([point.largest for point in points]),
        "validation_loss": np.array([point.validation_loss for point in points]),
        "validation_error": np.array([point.validation_error for point in points]),
    }


def path_fold(kind: Kind, needed: Sequence[int], points: Sequence[Point]) -> Fold:
    """Fold: (weight, losses, errors) of every point, from the columns `needed` in one read."""
    choices = list(dict.fromkeys(choice for point in points for choice in point.choices))
    where: dict[Choice, slice] = {}
    at = 0
    for choice in choices:
        where[choice] = slice(at, at + kind.width(choice))
        at += kind.width(choice)
    columns = [
        np.concatenate([np.arange(at)[where[c]] for c in p.choices]) if p.choices else np.empty(0)
        for p in points
    ]
    models = [
        (cut.astype(np.intp), point.theta) for cut, point in zip(columns, points, strict=True)
    ]
    return Fold(
        partial(_start, len(points)),
        partial(_step, kind, tuple(needed), tuple(choices), models),
        _merge,
    )


def _start(n: int) -> dict[str, Any]:
    return {"weight": 0.0, "loss": np.zeros(n), "errors": np.zeros(n)}


def _step(
    kind: Kind,
    needed: Sequence[int],
    choices: Sequence[Choice],
    models: Sequence[tuple[np.ndarray, np.ndarray]],
    state: dict[str, Any],
    chunk: Chunk,
) -> dict[str, Any]:
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    codes = np.asarray(chunk.y).astype(np.intp)
    V = features(kind, chunk.X, needed, choices).astype(np.float64) if choices else None
    state["weight"] += float(weight.sum())
    for k, (cut, theta) in enumerate(models):
        Z = np.tile(theta[:, 0], (chunk.n_rows, 1))
        if V is not None and len(cut):
            Z += V[:, cut] @ theta[:, 1:].T
        state["errors"][k] += weight @ (Z.argmax(axis=1) != codes)
        state["loss"][k] += weight @ margin_softmax(Z, codes)[0]
    return state


def _merge(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    for key in a:
        a[key] += b[key]
    return a
