"""The models of a fit, one after each correction, with their features and what they prove."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, NamedTuple, Self, TypedDict

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ..data.dataset import Dataset
from ..data.encoding import Encoding
from ..data.source import Chunk, Csr, Source
from ..engine.run import Run
from ..estimator.certificate import Certificate
from ..estimator.facts import Part, Parts
from ..estimator.predicting import check_finite
from ..estimator.report.figures import MOST_COLUMNS, MOST_ROWS, Curve, Figure, HeatMap
from ..estimator.rows.encoding import column_names, column_of, feature_names, n_features
from ..estimator.rows.inputs import is_dask, is_on_disk, open_features
from ..estimator.rows.streams import WithoutStream
from ..numeric.checks import check_array, check_records
from ..passes.fold import Fold
from ..passes.sums import add_sums
from .objective import margin_softmax
from .selection.candidates import Choice, Kind, Pieces, SingleColumns, features


class PathPoint(NamedTuple):
    """The model after one correction."""

    choices: tuple[Choice, ...]
    theta: np.ndarray
    """(K, 1 + width) intercept and coefficients."""
    loss: float
    objective: float
    """Sum of loss and penalties."""
    inner: float
    """Inner product of the gradient and theta: 0 at the exact optimum over the selected
    features."""
    largest: float = float("nan")
    """Largest |G_r|_1 of all candidates, selected or not."""
    promised: float = float("nan")
    """Least decrease of the objective by one more candidate; NaN if none was searched."""
    validation_loss: float = float("nan")
    validation_error: float = float("nan")

    @property
    def n(self) -> int:
        """Number of choices."""
        return len(self.choices)

    def gap(self, norm: float) -> float:
        """Bound of the objective's distance to its least value over |W|_{inf,1} <= norm (Lemma 3).

        It is L(W) - L(V) <= <grad, W - V> <= <grad, W> + norm max_r |G_r|_1.
        """
        return norm * self.largest + self.inner


def as_table(points: Sequence[PathPoint]) -> dict[str, np.ndarray]:
    """The columns of `path_`, with one entry for each point."""
    return {
        "n": np.array([point.n for point in points]),
        "loss": np.array([point.loss for point in points]),
        "objective": np.array([point.objective for point in points]),
        "promised_gain": np.array([point.promised for point in points]),
        "largest_gradient": np.array([point.largest for point in points]),
        "validation_loss": np.array([point.validation_loss for point in points]),
        "validation_error": np.array([point.validation_error for point in points]),
    }


class PathSums(TypedDict):
    """State of `path_fold`: sums over the rows, of each point."""

    weight: float
    loss: np.ndarray
    errors: np.ndarray


def path_fold(
    kind: Kind, needed: Sequence[int], points: Sequence[PathPoint]
) -> Fold[PathSums, PathSums]:
    """Fold of the loss and the errors of every point, from the columns `needed` in one read."""
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
        add_sums,
    )


def _start(n: int) -> PathSums:
    return {"weight": 0.0, "loss": np.zeros(n), "errors": np.zeros(n)}


def _step(
    kind: Kind,
    needed: Sequence[int],
    choices: Sequence[Choice],
    models: Sequence[tuple[np.ndarray, np.ndarray]],
    state: PathSums,
    chunk: Chunk,
) -> PathSums:
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    codes = np.asarray(chunk.y).astype(np.intp)
    V = None
    if choices:
        V = features(kind, chunk.of_few_columns(), needed, choices).astype(np.float64)
    state["weight"] += float(weight.sum())
    for k, (cut, theta) in enumerate(models):
        Z = np.tile(theta[:, 0], (chunk.n_rows, 1))
        if V is not None and len(cut):
            Z += V[:, cut] @ theta[:, 1:].T
        state["errors"][k] += weight @ (Z.argmax(axis=1) != codes)
        state["loss"][k] += weight @ margin_softmax(Z, codes)[0]
    return state


class PathState(TypedDict):
    """The tree of a saved model."""

    points: list[PathPoint]
    kind: Kind
    n: int
    """Number of choices of the point that is the estimator's model."""


class PathModel(WithoutStream):
    """A mixin over ``_points`` and ``_kind``: the fit's models, one of them the estimator's."""

    _points: list[PathPoint]
    _kind: Kind
    certificate_: Certificate
    classes_: np.ndarray
    n_features_in_: int
    encoding_: Encoding
    _no_stream: ClassVar[str] = (
        "a column's score is the gradient of all rows at the model so far, and values of a column "
        "that comes in later were not kept; use fit"
    )

    def _restore(self, tree: PathState) -> None:
        points, kind, p = tree["points"], tree["kind"], n_features(self)
        if not isinstance(kind, Kind):
            raise ValueError(f"the candidates are a {type(kind).__name__}")
        check_records("points", points, PathPoint)
        for point in points:
            for choice in point.choices:
                kind.check_choice(choice, p)
            width = sum(kind.width(choice) for choice in point.choices)
            check_array("theta", point.theta, (len(self.classes_), 1 + width))
        if all(point.n != tree["n"] for point in points):
            raise ValueError(f"no point of the path has {tree['n']!r} columns")
        self._points, self._kind = points, kind
        self._set(next(point for point in points if point.n == tree["n"]))

    def _state(self) -> PathState:
        return {"points": self._points, "kind": self._kind, "n": len(self.choices_)}

    def at(self, n: int) -> Self:
        """The model with n columns, or the largest on the path that has fewer.

        Parameters
        ----------
        n : int

        Returns
        -------
        ShareBoostClassifier
            Another model over the same path; this one stays as it is.
        """
        check_is_fitted(self)
        sizes = self.path_["n"]
        if n < 0:
            raise ValueError(f"n={n}; the path has models of {sizes.min()} to {sizes.max()}")
        other = copy.copy(self)
        point = self._points[int(np.flatnonzero(sizes <= n)[-1])]
        other._set(point)
        other.certificate_ = replace(self.certificate_, objective=point.objective)
        return other

    def gap(self, norm: float) -> float:
        """Bound of the objective's distance to the best matrix of a given norm.

        The objective minus its minimum over |W|_{inf,1} <= norm is at most this, up to the
        tolerance of the correction (Lemma 3 of the paper); all candidates count, selected or not.
        """
        check_is_fitted(self)
        return next(point for point in self._points if point.n == len(self.choices_)).gap(norm)

    def _validate(self, run: Run, validation: Source) -> None:
        """Loss and error of the whole path on held-out rows, in one read."""
        last = max(self._points, key=lambda point: point.n)
        every = list(dict.fromkeys(choice for point in self._points for choice in point.choices))
        needed = self._kind.needed(every) if every else [0]
        names = [validation.feature_names[j] for j in needed]
        fold = path_fold(self._kind, needed, self._points)
        sums = run.fold(fold, validation.with_columns(names), name="validation")
        if not sums["weight"] > 0:
            raise ValueError("validation has no rows of weight > 0; give it some, or leave it out")
        self._points = [
            point._replace(
                validation_loss=float(loss / sums["weight"]),
                validation_error=float(errors / sums["weight"]),
            )
            for point, loss, errors in zip(self._points, sums["loss"], sums["errors"], strict=True)
        ]
        run.record(n=last.n, validation_loss=self._points[-1].validation_loss)

    def _best_point(self) -> int:
        """Number of the point of least validation loss; without validation of the last one."""
        losses = np.array([point.validation_loss for point in self._points])
        return len(losses) - 1 if np.isnan(losses).all() else int(np.nanargmin(losses))

    def _set(self, point: PathPoint) -> None:
        """Make this point the estimator's model."""
        self.choices_ = list(point.choices)
        self.intercept_ = point.theta[:, 0].copy()
        self.coef_ = np.ascontiguousarray(point.theta[:, 1:])
        self.support_ = np.array(self._kind.needed(self.choices_), dtype=np.intp)
        self.columns_ = np.unique(column_of(self)[self.support_])
        self.path_ = as_table(self._points)


class Selector(TransformerMixin):
    """A mixin that selects features by ``_kind``, ``choices_`` and ``support_``."""

    _kind: Kind
    choices_: list[Choice]
    classes_: np.ndarray
    coef_: np.ndarray
    path_: dict[str, np.ndarray]
    support_: np.ndarray
    n_features_in_: int
    encoding_: Encoding

    def _used_columns(self) -> list[int] | None:
        """Numbers of the columns that decisions need; None if they need all."""
        used = self.support_.tolist()
        return used if 0 < len(used) < n_features(self) else None

    def _needed_of(self, X: np.ndarray) -> np.ndarray:
        """The columns that the model uses, from rows that have all columns or only these."""
        return X if X.shape[1] == len(self.support_) else X[:, self.support_]

    def _features(self, X: np.ndarray) -> np.ndarray:
        if not self.choices_:
            return np.empty((len(X), 0), X.dtype)
        return features(self._kind, self._needed_of(X), self.support_, self.choices_)

    def get_support(self, indices: bool = False) -> np.ndarray:
        """The columns of X that the model uses.

        Returns
        -------
        (d,) bool; with `indices` the numbers of the columns, ascending
        """
        check_is_fitted(self)
        if indices:
            return self.columns_.copy()
        mask = np.zeros(self.n_features_in_, bool)
        mask[self.columns_] = True
        return mask

    def transform(self, X: object) -> np.ndarray | Dataset:
        """The selected features of the rows, for use before any other estimator.

        Columns come in their order in X; products, stumps and pieces in the order of selection.

        Parameters
        ----------
        X : array-like, frame, sparse matrix, path or Dataset

        Returns
        -------
        array of shape (n, width); for a path or a Dataset a Dataset, of which nothing is read yet
        """
        check_is_fitted(self)
        if is_dask(X):
            raise TypeError(
                "transform takes arrays, frames, paths and Datasets; open the dask collection with "
                "open_dataset, whose Dataset it returns with the selected features"
            )
        names = self.get_feature_names_out()
        if isinstance(X, Dataset) or is_on_disk(X):
            opened = open_features(self, X)
            if isinstance(X, Dataset):
                opened = replace(opened, target=X.target, weight=X.weight)
            if isinstance(self._kind, SingleColumns):
                return opened
            return opened.map(self._selected, [str(name) for name in names])
        parts = []
        for chunk in open_features(self, X).iter_chunks():
            check_finite(self, chunk)
            parts.append(np.array(self._selected(chunk.of_few_columns())))
        return np.concatenate(parts) if parts else np.empty((0, len(names)))

    def _selected(self, X: np.ndarray | Csr) -> np.ndarray:
        X = X.dense() if isinstance(X, Csr) else X
        return self._needed_of(X) if isinstance(self._kind, SingleColumns) else self._features(X)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> np.ndarray:
        """Names of the features that `transform` gives."""
        check_is_fitted(self)
        names: np.ndarray = _check_feature_names_in(self, input_features)
        if n_features(self) > self.n_features_in_:
            names = np.array(self.encoding_.renamed(names.tolist()), dtype=object)
        if isinstance(self._kind, SingleColumns):
            return names[self.support_]
        return np.array(self._kind.names(self.choices_, list(names)), dtype=object)

    def _weights_of_choices(self) -> np.ndarray:
        """(K, n) weights of the choices; of one with several features a class's norm."""
        widths = [self._kind.width(choice) for choice in self.choices_]
        if max(widths, default=1) == 1:
            return self.coef_
        norms: np.ndarray = np.sqrt(
            np.add.reduceat(self.coef_**2, np.cumsum([0, *widths[:-1]]), axis=1)
        )
        return norms

    def _parts(self) -> Parts:
        sizes = np.linalg.norm(self._weights_of_choices(), axis=0)
        parts = [Part(*part) for part in zip(self._labels(), sizes.tolist(), strict=True)]
        return Parts("selected", "norm of the weights over the classes", parts)

    def _figures(self) -> tuple[str, Sequence[Figure]]:
        path = self.path_
        lines = [("objective", path["objective"]), ("loss", path["loss"])]
        if not np.isnan(path["validation_loss"]).all():
            lines.append(("validation loss", path["validation_loss"]))
        names = [name for name, _ in lines]
        y = np.column_stack([values for _, values in lines])
        n = np.asarray(path["n"], np.float64)
        figures: list[Figure] = []
        if len(n) > 1:
            note = f"the model has {len(self.choices_)}"
            figures.append(Curve("Path", "loss", n, y, names, x_label="selected", note=note))
        weights = self._weights_of_choices()
        if weights.shape[1]:
            scale = np.abs(weights).max(axis=0)
            shown = (weights / np.where(scale > 0, scale, 1.0))[:MOST_ROWS, :MOST_COLUMNS]
            notes = ["each divided by its largest"]
            if weights.shape[1] > MOST_COLUMNS:
                notes.append(f"the first {MOST_COLUMNS} of {weights.shape[1]}")
            if len(weights) > MOST_ROWS:
                notes.append(f"the first {MOST_ROWS} of {len(weights)} classes")
            classes = [str(label) for label in self.classes_[:MOST_ROWS]]
            title, chosen = "Weights by class, in the order of selection", self._labels()
            figures.append(
                HeatMap(title, "weight", classes, chosen[:MOST_COLUMNS], shown, "; ".join(notes))
            )
        return "What was selected, how the loss fell, and which class uses it.", figures

    def _labels(self) -> list[str]:
        """The name of each choice; a group that is one column's has the column's name."""
        kind, of = self._kind, column_of(self)
        if isinstance(kind, Pieces):
            return [kind.label(choice) for choice in self.choices_]
        if all(kind.width(choice) == 1 for choice in self.choices_):
            return kind.names(self.choices_, feature_names(self))
        assert isinstance(kind, SingleColumns)
        names, labels = column_names(self), []
        for choice in self.choices_:
            columns = set(of[kind.members(choice)].tolist())
            labels.append(names[columns.pop()] if len(columns) == 1 else kind.label(choice))
        return labels
