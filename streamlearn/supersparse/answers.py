"""The decisions of a fitted model, as targets to regress on, for any rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from ..data.dataset import Dataset
from ..data.mapped import MappedSource
from ..data.source import Chunk, Csr, Source
from ..passes.fold import Fold

Answers = Callable[["np.ndarray | Csr"], np.ndarray]
"""The (n, T) float64 decisions of rows."""


class HasFeatures(Protocol):
    """A model that is told its features."""

    n_features_in_: int
    feature_names_in_: np.ndarray


def answers_of(estimator: object) -> Answers:
    """The decisions of an estimator as a function of rows."""
    if hasattr(estimator, "classes_"):
        for method in ("decision_function", "predict_proba"):
            if hasattr(estimator, method):
                return partial(_answer, estimator, method, len(estimator.classes_))
        raise TypeError(
            f"{type(estimator).__name__} has neither decision_function nor predict_proba: there "
            "are no numbers to regress on; fit it with probabilities, or use another model"
        )
    if not hasattr(estimator, "predict"):
        raise TypeError(f"{type(estimator).__name__} has no predict; compress needs a predictor")
    return partial(_answer, estimator, "predict", 0)


def _answer(estimator: object, method: str, n_classes: int, X: np.ndarray | Csr) -> np.ndarray:
    from scipy.sparse import csr_matrix

    rows = csr_matrix(X[:3], X.shape) if isinstance(X, Csr) else X
    with warnings.catch_warnings():
        # the rows have no names here; their columns are already in the estimator's order
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        # by name: `method` also says what its numbers are
        out = np.asarray(getattr(estimator, method)(rows), np.float64)
    if method == "predict_proba" and n_classes == 2:
        out = 2.0 * out[:, 1] - 1.0
    out = out.reshape(X.shape[0], -1)
    wanted = 1 if n_classes == 2 else n_classes
    if n_classes and out.shape[1] != wanted:
        raise TypeError(
            f"{type(estimator).__name__}.{method} gives {out.shape[1]} columns for {n_classes} "
            "classes; compress needs one for each class (decision_function_shape='ovr')"
        )
    if not n_classes and out.shape[1] != 1:
        raise TypeError(
            f"{type(estimator).__name__}.predict gives {out.shape[1]} columns; compress takes "
            "regressors of one target: compress each output of its own"
        )
    if not np.isfinite(out).all():
        raise ValueError(f"{type(estimator).__name__}.{method} gave values that are not finite")
    return out


def with_features_of(estimator: object, dataset: Dataset, model: HasFeatures) -> Dataset:
    """The columns in the estimator's order; the model's feature attributes are set."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and dataset.is_named:
        dataset = dataset.select([str(name) for name in names])
        model.feature_names_in_ = np.asarray(names, dtype=object)
    wanted = getattr(estimator, "n_features_in_", dataset.n_features)
    if dataset.n_features != wanted:
        raise ValueError(
            f"X has {dataset.n_features} features, but {type(estimator).__name__} was fitted with "
            f"{wanted}"
        )
    model.n_features_in_ = dataset.n_features
    return dataset


def answered(dataset: Source, answers: Answers) -> MappedSource:
    """The dataset with an estimator's answers as `y`, evaluated at each read."""
    return MappedSource(dataset, partial(_with_answers, answers))


def counts_fold(answers: Answers, n_classes: int) -> Fold[np.ndarray, np.ndarray]:
    """Fold: (n_classes,) weight of the rows that an estimator gives each class."""
    return Fold(partial(np.zeros, n_classes), partial(_count, answers, n_classes), np.add)


def _count(answers: Answers, n_classes: int, counts: np.ndarray, chunk: Chunk) -> np.ndarray:
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    return counts + np.bincount(_codes(answers, chunk), weight, n_classes)


def weigh_answers(answers: Answers, factors: np.ndarray, chunk: Chunk) -> Chunk:
    """The chunk with its weights times the factor of the class that an estimator gives a row."""
    factor = factors[_codes(answers, chunk)]
    chunk.weight = factor if chunk.weight is None else chunk.weight * factor
    return chunk


def _codes(answers: Answers, chunk: Chunk) -> np.ndarray:
    """(m,) intp codes of the classes that the rows are given."""
    if not chunk.n_rows:
        return np.empty(0, np.intp)
    decision = answers(chunk.X)
    if decision.shape[1] == 1:
        return (decision[:, 0] > 0).astype(np.intp)
    return decision.argmax(axis=1)


def _with_answers(answers: Answers, chunk: Chunk) -> Chunk:
    chunk.y = answers(chunk.X) if chunk.n_rows else np.empty((0, 1))
    return chunk
