"""Scores of fitted models in one read: sums per chunk, several models and metrics at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..data.source import Chunk
from ..errors import SourceError
from ..passes.fold import Fold
from . import predicting
from .inputs import open_scored, used_columns
from .targets import encode, is_finite


@dataclass(frozen=True)
class Metric:
    """A score as sums over rows."""

    sums: Callable[[object, Chunk, np.ndarray, np.ndarray], np.ndarray]
    """(model, chunk, decisions, weights) -> sums of this chunk."""
    finish: Callable[[np.ndarray], float]
    merge: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.add
    classifies: bool = True


def _correct(model: Any, chunk: Chunk, decision: np.ndarray, weight: np.ndarray) -> np.ndarray:
    right = encode(chunk.target, model.classes_) == model._top(decision)
    return np.array([weight[right].sum(), weight.sum()])


def _log_loss(model: Any, chunk: Chunk, decision: np.ndarray, weight: np.ndarray) -> np.ndarray:
    codes = encode(chunk.target, model.classes_).astype(np.intp)
    if (codes < 0).any():
        label = chunk.target[codes < 0][0]
        raise ValueError(
            f"log loss: label {label!r} was not in the training data, so it has no probability; "
            "leave its rows out or score accuracy"
        )
    p = model._probability(decision)[np.arange(len(codes)), codes]
    return np.array([-weight @ np.log(np.maximum(p, np.finfo(np.float64).eps)), weight.sum()])


def _squared_error(
    model: Any, chunk: Chunk, decision: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    return np.array([weight @ (chunk.target - decision) ** 2, weight.sum()])


def _explained(model: Any, chunk: Chunk, decision: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weight, mean and scatter of y, and the squared error."""
    total = weight.sum()
    mean = weight @ chunk.target / total if total else 0.0
    scatter = weight @ (chunk.target - mean) ** 2
    return np.array([total, mean, scatter, weight @ (chunk.target - decision) ** 2])


def _merge_explained(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Chan, Golub & LeVeque 1983."""
    total = a[0] + b[0]
    if total == 0:
        return a
    shift = b[1] - a[1]
    mean = a[1] + shift * (b[0] / total)
    return np.array([total, mean, a[2] + b[2] + shift**2 * (a[0] * b[0] / total), a[3] + b[3]])


def _r2(sums: np.ndarray) -> float:
    _, _, scatter, error = sums
    if scatter == 0:  # as scikit-learn: a constant target is explained, or not at all
        return 1.0 if error == 0 else 0.0
    return float(1 - error / scatter)


def _mean(sums: np.ndarray) -> float:
    return float(sums[0] / sums[1])


def _negative_mean(sums: np.ndarray) -> float:
    return -_mean(sums)


METRICS = {
    "accuracy": Metric(_correct, _mean),
    "log_loss": Metric(_log_loss, _mean),
    "neg_log_loss": Metric(_log_loss, _negative_mean),
    "r2": Metric(_explained, _r2, _merge_explained, classifies=False),
    "mean_squared_error": Metric(_squared_error, _mean, classifies=False),
    "neg_mean_squared_error": Metric(_squared_error, _negative_mean, classifies=False),
}
"""Name -> metric; names as in scikit-learn.  Greater is better but for the two losses."""


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    sample_weight: object = None,
    *,
    scoring: Sequence[str],
) -> dict[str, float]:
    """Scores of one fitted model: name -> value."""
    dataset = used_columns(model, open_scored(model, X, y, sample_weight))
    return evaluate_models([model], dataset, scoring)[0]


def evaluate_models(
    models: Sequence[Any], dataset: Any, scoring: Sequence[str]
) -> list[dict[str, float]]:
    """Scores of several fitted models with the same features, in one read of `dataset`."""
    for model in models:
        for name in scoring:
            check_metric(model, name)
    fold: Fold[list[list[np.ndarray | None]], list[list[np.ndarray | None]]] = Fold(
        partial(_start, len(models), len(scoring)),
        partial(_step, tuple(models), tuple(METRICS[name] for name in scoring)),
        partial(_merge, tuple(METRICS[name] for name in scoring)),
    )
    state = predicting.run(models[0], dataset, fold, name="score", n_models=len(models))
    if not any(sums is not None for row in state for sums in row):
        raise ValueError("no rows to score: the dataset is empty, or its filters leave nothing")
    return [
        {name: METRICS[name].finish(sums) for name, sums in zip(scoring, row, strict=True)}
        for row in state
    ]


def check_metric(model: Any, name: str) -> None:
    """Refuse a metric that is unknown or does not fit the model."""
    if name not in METRICS:
        raise ValueError(f"scoring={name!r} is not known; use one of {', '.join(METRICS)}")
    classifies = model.__sklearn_tags__().estimator_type == "classifier"
    if METRICS[name].classifies != classifies:
        fitting = [key for key, metric in METRICS.items() if metric.classifies == classifies]
        raise ValueError(
            f"scoring={name!r} does not fit {type(model).__name__}; use one of {', '.join(fitting)}"
        )
    if name.endswith("log_loss"):
        model._check_probability()


def suitable_metrics(model: Any) -> list[str]:
    """The plain metrics that fit a model: accuracy and log loss, or R^2 and mean squared error."""
    if not hasattr(model, "classes_"):
        return ["r2", "mean_squared_error"]
    return ["accuracy", "log_loss"] if hasattr(model, "predict_proba") else ["accuracy"]


def check_labelled(chunk: Chunk) -> None:
    """Refuse rows whose target is missing or not finite."""
    if chunk.target.dtype == object:
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
            f"the target is {chunk.target[at]!r} in row {chunk.rows[at]}: such a row cannot be "
            "scored; leave it out with filters, or give it weight 0"
        )


def _start(n_models: int, n_metrics: int) -> list[list[np.ndarray | None]]:
    return [[None] * n_metrics for _ in range(n_models)]


def _step(models: tuple, metrics: tuple, state: list, chunk: Chunk) -> list:
    if chunk.n_rows == 0:
        return state
    if chunk.weight is not None and not chunk.weight.all() and not is_finite(chunk):
        chunk = chunk.where(chunk.weight > 0)
    check_labelled(chunk)
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
