"""The common part of both estimators: parameters, the path of tau, and shared reads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from functools import partial
from numbers import Integral, Real
from operator import itemgetter
from typing import ClassVar, Generic, Self, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..data.source import Chunk, Source
from ..estimator import predicting
from ..estimator.base import StreamRegressor
from ..estimator.facts import Parts
from ..estimator.fitting import share_fitted
from ..estimator.report.figures import Curve, Figure, Rows
from ..estimator.rows.encoding import column_names, column_of, feature_names, n_features
from ..estimator.rows.streams import WithoutStream
from ..numeric.sequences import number_of, numbers_of
from .columns import blocks, project
from .kernels import ScaledColumns

MOST_DRAWN, MOST_BARS = 6, 10
"""Terms that are drawn by default, and columns of a direction, at most."""
GRID_POINTS = 200
"""Points of a term's curve in `pieces_`."""
NAMED_COLUMNS = 3
"""Columns by which a direction is named, those of the largest entries."""
SAMPLE_ROWS, SAMPLE_NBYTES = 4096, 8 << 20
"""Largest number of rows, and of their bytes, from which a direction's first column is guessed."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Model = TypeVar("Model")
Fitted = TypeVar("Fitted")


class Piece(TypedDict):
    """One term of a fitted model, to be drawn."""

    direction: np.ndarray
    """(n_features,) unit-length direction."""
    grid: np.ndarray
    """Projections, or the edges of bins, where `values` are."""
    values: np.ndarray
    title: str


STRENGTHS = "a number above 0 (float('inf') for no penalty), or a sequence of them"


def check_tau(tau: float | Sequence[float] | np.ndarray) -> list[float]:
    """The strengths to fit, one or a path of several."""
    if isinstance(tau, Real):
        return [_positive(number_of("tau", tau, STRENGTHS))]
    values = [_positive(value) for value in numbers_of("tau", tau, STRENGTHS).tolist()]
    if not values:
        raise ValueError("tau is an empty sequence; give at least one value, such as tau=[15]")
    return values


def _positive(tau: float) -> float:
    if not tau > 0:
        raise ValueError(f"tau={tau!r}; expected {STRENGTHS}")
    return tau


def column_numbers(model: PursuitModel, columns: Sequence[int | str]) -> list[int]:
    """The numbers of columns that are given by number or name."""
    check_is_fitted(model)
    names = column_names(model) if hasattr(model, "feature_names_in_") else []
    found = []
    for column in columns:
        if isinstance(column, str):
            if column not in names:
                raise ValueError(f"no column {column!r}; the columns are {names[:10]}")
            found.append(names.index(column))
        elif not -model.n_features_in_ <= column < model.n_features_in_:
            raise ValueError(f"column {column} of {model.n_features_in_} columns")
        else:
            found.append(int(column) % model.n_features_in_)
    return found


class PathState(TypedDict, Generic[Fitted]):
    """The models of a path as a plain tree; of one that comes from a file anything may be wrong."""

    columns: ScaledColumns
    taus: list[float]
    path: list[Fitted]
    losses: list[float]
    tau: float


class PursuitModel(WithoutStream, Generic[Fitted]):
    """Base of both estimators: one fitted model for each tau, and the directions of one of them.

    A subclass sets ``_columns`` and the lists ``_taus``, ``_path`` (a model for each) and
    ``_losses``.
    """

    n_features_in_: int
    _columns: ScaledColumns
    _taus: list[float]
    _path: list[Fitted]
    """Models of the taus: each a `Grown` of regressors, a list of `Boosted` of classifiers."""
    _losses: list[float]
    _measure: str
    """Description of the numbers in `_weights`, in words."""
    _accepts_sparse = True
    _encodes = True
    _no_stream: ClassVar[str] = (
        "a new direction is the best for what the terms before it left of all rows, which must be "
        "read again for each; use fit"
    )
    _parameter_constraints: dict[str, list[object]] = {
        "tau": [Interval(Real, 0, None, closed="right"), "array-like"],
        "penalty": [StrOptions({"scale-free", "paper"})],
        "standardize": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "encoding": [dict, None],
    }

    @abstractmethod
    def _keep(self, model: Fitted) -> None:
        """Predict with a model of the path."""

    @abstractmethod
    def _check(self, model: Fitted, columns: ScaledColumns) -> None:
        """Raise ValueError unless a model from a file is one that a fit makes."""

    @property
    @abstractmethod
    def _alphas(self) -> list[np.ndarray]:
        """The directions of the model that predicts."""

    @property
    @abstractmethod
    def pieces_(self) -> list[Piece]:
        """Each term, to be drawn."""

    @property
    @abstractmethod
    def _weights(self) -> list[float]:
        """The weights of these directions in eq. 14."""

    def _sample_rows(self, dataset: Source) -> int:
        row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1) + 16
        return max(64, min(SAMPLE_ROWS, int(SAMPLE_NBYTES / row)))

    def select(self, tau: float) -> Self:
        """Predict with the model of another tau of the path from now on; returns self."""
        check_is_fitted(self)
        if float(tau) not in self._taus:
            raise ValueError(f"tau={tau} is not on the path {self._taus}")
        self._choose(float(tau))
        return self

    def _choose(self, tau: float) -> None:
        self._keep(self._path[self._taus.index(tau)])
        self.tau_ = tau

    def project(self, X: npt.ArrayLike, term: int) -> np.ndarray:
        """(n,) projections of rows on the direction of `pieces_[term]`.

        Arrays, frames, paths and Datasets give an array, dask collections a lazy dask array.
        """
        check_is_fitted(self)
        view = _Projection()
        shared = ("n_features_in_", "feature_names_in_", "encoding_", "certificate_")
        share_fitted(self, view, shared)
        view.columns, view.direction = self._columns, unit_length(self._alphas[term])
        return predicting.answer(view, X, "prediction")

    def irrelevant_weight(self, columns: Sequence[int | str]) -> float:
        """Share of the directions' weight that lies on some columns (eq. 14); 0 without directions.

        It is r = sum_j w_j sum_{m in columns} |a_jm| / sum_j w_j sum_m |a_jm| for directions of
        unit length; w_j is the standard deviation of a ridge function over its range, or the root
        mean square of a learner's heights over the training rows.

        Parameters
        ----------
        columns : sequence of int or str
            Numbers or names of columns.
        """
        of_columns = np.isin(column_of(self), column_numbers(self, columns))
        part = total = 0.0
        for alpha, weight in zip(self._alphas, self._weights, strict=True):
            size = np.abs(unit_length(alpha))
            part += weight * float(size[of_columns].sum())
            total += weight * float(size.sum())
        return part / total if total > 0 else 0.0

    def _parts(self) -> Parts:
        pieces, columns = self.pieces_, feature_names(self)
        names = []
        for piece in pieces:
            size = np.abs(piece["direction"])
            largest = np.argsort(-size, kind="stable")[:NAMED_COLUMNS]
            of = ", ".join(columns[m] for m in largest[size[largest] > 0])
            names.append(f"{piece['title']} of {of}")
        return Parts.by_size("terms", self._measure, names, self._weights)

    def _figures(self) -> tuple[str, Sequence[Figure]]:
        pieces, columns = self.pieces_, feature_names(self)
        order = np.argsort(-np.array(self._weights), kind="stable")[:MOST_DRAWN]
        unit = "decision" if hasattr(self, "classes_") else "units of the target"
        figures: list[Figure] = []
        for k in order:
            grid, values, title = pieces[k]["grid"], pieces[k]["values"], pieces[k]["title"]
            steps = len(grid) > len(values)
            y = np.append(values, values[-1:]) if steps else values
            alpha = pieces[k]["direction"]
            largest = np.argsort(-np.abs(alpha), kind="stable")[:MOST_BARS]
            largest = largest[alpha[largest] != 0]
            names = [columns[m] for m in largest]
            figures.append(Rows(f"{title}: direction", "entry", names, alpha[largest][:, None]))
            figures.append(
                Curve(
                    f"{title}: its function",
                    unit,
                    grid,
                    y[:, None],
                    steps=steps,
                    x_label="projection",
                )  # fmt: skip
            )
        said = "Each term is a function of one direction through the scaled columns."
        if len(pieces) > len(order):
            said += f" The {len(order)} largest of {len(pieces)} terms are drawn."
        return said, figures

    def _state(self) -> PathState[Fitted]:
        return {
            "columns": self._columns,
            "taus": self._taus,
            "path": self._path,
            "losses": self._losses,
            "tau": self.tau_,
        }

    def _restore(self, tree: PathState[Fitted]) -> None:
        columns, path = tree["columns"], tree["path"]
        if not isinstance(columns, ScaledColumns):
            raise ValueError(f"the columns are a {type(columns).__name__}")
        columns.check_scaling(n_features(self))
        if len(check_tau(tree["taus"])) != len(path) or len(tree["losses"]) != len(path):
            raise ValueError(f"{len(path)} models for {len(tree['taus'])} strengths")
        for model in path:
            self._check(model, columns)
        self._columns, self._taus, self._path = columns, tree["taus"], path
        self._losses = tree["losses"]
        self._choose(tree["tau"])


def unit_length(alpha: np.ndarray) -> np.ndarray:
    """The direction scaled to length 1."""
    unit: np.ndarray = alpha / np.sqrt(alpha @ alpha)
    return unit


def drive(
    read: Callable[[int, list[tuple[int, Request]]], list[Answer]],
    growing: Sequence[Generator[Request, Answer, Model]],
) -> list[Model]:
    """Run generators that yield requests, in step, until each has returned its model.

    ``read(number, [(k, request), ...])`` gives the answers of one round, in that order.  Which
    reads are made depends on answers only, so a resumed fit makes the same ones.
    """
    models: dict[int, Model] = {}
    requests: dict[int, Request] = {}

    def advance(k: int, step: Callable[[], Request]) -> None:
        try:
            requests[k] = step()
        except StopIteration as end:
            requests.pop(k, None)
            models[k] = end.value

    for k, one in enumerate(growing):
        advance(k, partial(next, one))
    number = 0
    while requests:
        batch = sorted(requests.items(), key=itemgetter(0))
        number += 1
        for (k, _), answer in zip(batch, read(number, batch), strict=True):
            advance(k, partial(growing[k].send, answer))
    return [models[k] for k in range(len(growing))]


class _Projection(StreamRegressor):
    """One direction of a fitted model, as a regressor that predicts the projections on it."""

    _accepts_sparse = True
    columns: ScaledColumns
    direction: np.ndarray

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        out = np.empty(chunk.n_rows)
        for part, X in blocks(chunk.X):
            out[part] = project(X, self.columns, self.direction)
        return out
