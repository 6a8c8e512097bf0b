"""Spline bases from a summary, and the same features written out for any linear solver."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.special import erf
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from ..data.dataset import Dataset
from ..engine.plan import Needs, make_plan
from ..engine.run import Run
from ..estimator.inputs import (
    check_weights,
    is_dask,
    is_named,
    is_on_disk,
    open_data,
    open_features,
    open_pair,
)
from ..estimator.predicting import check_finite
from ..numeric import fourier
from ..numeric.breakpoints import quantile_breakpoints, uniform_breakpoints, value_breakpoints
from ..numeric.bsplines import (
    LEVELS,
    SPLINE,
    Bases,
    make_bases,
    with_missing,
)
from ..numeric.means import mean_functions
from ..numeric.roughness import Reference, make_reference, make_roughness, reference_at_zero
from ..passes.summary import ColumnSummary, Summary, collect_summary, state_nbytes
from .kernels import embed_rows

BASIS_CONSTRAINTS: dict[str, list[Any]] = {
    "basis": [StrOptions({"bspline", *fourier.BASES})],
    "n_bases": [Interval(Integral, 2, 256, closed="both")],
    "degree": [Interval(Integral, 1, 3, closed="both")],
    "penalty_order": [Interval(Integral, 0, 2, closed="both")],
    "penalty_scale": [StrOptions({"integral", "paper"})],
    "knots": [StrOptions({"quantile", "uniform"})],
    "missing": [StrOptions({"level", "error"})],
}


def check_basis(n_bases: int, degree: int, basis: str = "bspline", penalty_order: int = 1) -> None:
    """Refuse fewer splines than one interval has, and what other bases do not have."""
    if basis == "bspline":
        if n_bases <= degree:
            raise ValueError(
                f"n_bases={n_bases} splines of degree {degree} leave no interval; "
                f"raise n_bases to at least {degree + 1}"
            )
    elif degree != 1:
        raise ValueError(
            f"degree={degree} is the degree of splines, basis={basis!r} has none; leave it at 1, "
            "or use basis='bspline'"
        )
    elif penalty_order == 0:
        raise ValueError(
            f"penalty_order=0 is for splines; basis={basis!r} needs 1 or 2, without which its "
            "curves are not smooth"
        )


class Shape(NamedTuple):
    """What basis a column gets: the parameters of an estimator or embedding."""

    n_bases: int
    degree: int
    knots: str
    basis: str = "bspline"

    @classmethod
    def of(cls, model: Any) -> Shape:
        """Those of `model`, checked."""
        check_basis(model.n_bases, model.degree, model.basis, model.penalty_order)
        return cls(model.n_bases, model.degree, model.knots, model.basis)


def fit_bases(summary: Summary, shape: Shape, dtype: np.dtype) -> Bases:
    """Every column's basis: at its values if they are few, else as `shape` says.

    Columns with missing values have a level for them, categories always: what is rare, or not
    known, is on it.
    """
    breakpoints, degrees, kinds = [], [], []
    for column in summary.columns:
        values = _present(column)
        few = values is not None and len(values) <= shape.n_bases
        if column.levels is not None:
            points, kind = np.arange(len(column.levels)) * 1.0, LEVELS
        elif few:
            points, kind = value_breakpoints(values, dtype), SPLINE
        else:
            points, kind = (
                _breakpoints(column, shape, dtype),
                fourier.BASES.get(shape.basis, SPLINE),
            )
        degree = shape.degree if kind == SPLINE and not few else 1
        has_level = column.missing > 0 or (kind == LEVELS and len(points) > 1)
        if has_level and len(points):
            points = with_missing(points, degree)
        breakpoints.append(points if len(points) > 1 else np.empty(0))
        degrees.append(degree)
        kinds.append(kind)
    return make_bases(breakpoints, degrees, kinds, shape.n_bases)


def _breakpoints(column: ColumnSummary, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Those of a column of many values."""
    hermite = shape.basis == "hermite"
    if shape.knots == "uniform":
        if shape.basis == "bspline":
            n_intervals, low, high = shape.n_bases - shape.degree, column.min, column.max
        else:
            n_intervals, low, high = 1, column.min, column.max
        if hermite:  # standardised
            reach = fourier.CLIP * np.sqrt(column.variance)
            low, high = column.mean - reach, column.mean + reach
        return uniform_breakpoints(low, high, n_intervals, dtype)
    n_intervals = shape.n_bases - shape.degree
    levels = None
    if hermite:  # normal scores
        z = np.linspace(-fourier.CLIP, fourier.CLIP, n_intervals + 1)
        levels = 0.5 * (1 + erf(z / np.sqrt(2)))
    return quantile_breakpoints(*column.cdf(), n_intervals, dtype, levels=levels)


def mean_splines(summary: Summary, bases: Bases) -> np.ndarray:
    """(dim,) mean of every function over the rows, from the summary's counts."""
    pieces = []
    for column in summary.columns:
        lo, hi, mass = column.cdf() if column.count else (np.empty(0),) * 3
        if column.missing:
            lo, hi = np.append(lo, np.inf), np.append(hi, np.inf)
            mass = np.append(mass, column.missing)
        pieces.append((lo, hi, mass))
    return mean_functions(bases, pieces)


def reference_vector(summary: Summary, bases: Bases, sparse: bool) -> np.ndarray:
    """c of Phi - c: the mean, which centres every term; Phi(0) keeps sparse rows sparse."""
    return reference_at_zero(bases) if sparse else mean_splines(summary, bases)


def _present(column: ColumnSummary) -> np.ndarray | None:
    """The distinct values with weight, if they are known."""
    if column.values is None or column.value_counts is None:
        return None
    return column.values[column.value_counts > 0]


class _Embedding(TransformerMixin, BaseEstimator):
    """What explicit features of every basis share: fit and transform."""

    _parameter_constraints: dict[str, list[Any]] = {
        **BASIS_CONSTRAINTS,
        "output": [StrOptions({"psi", "phi"})],
    }
    _accepts_sparse = True
    _suffix = "_sp_"

    @property
    def _accepts_missing(self) -> bool:
        return self.missing == "level"

    @property
    def _has_level(self) -> np.ndarray:
        return self.bases_.has_missing

    def fit(self, X, y=None, sample_weight=None):
        """Learn the knots and the reference from one read.

        Parameters
        ----------
        X : array-like, frame, sparse matrix, dask collection, path or Dataset
            Anything `open_dataset` takes.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            0 means the row is absent, k means k copies of it.
        """
        self._validate_params()
        shape = Shape.of(self)
        dataset = self._open(X, sample_weight)
        needs = Needs("summary", state_bytes=state_nbytes(dataset))
        with Run(
            dataset, make_plan(dataset, [needs]), name=type(self).__name__, identity={}
        ) as run:
            summary = collect_summary(run.fold, dataset)
        place = partial(_place, dataset)
        summary.require_finite(place, missing=self.missing == "level")
        self.bases_ = fit_bases(summary, shape, dataset.dtype)
        c = reference_vector(summary, self.bases_, dataset.sparse)
        self._roughness = make_roughness(self.bases_, self.penalty_order, self.penalty_scale)
        self._reference: Reference = make_reference(self._roughness, c)
        self.n_features_out_ = self.bases_.dim
        return self

    def transform(self, X):
        """The features of the rows as a CSR matrix of float64."""
        check_is_fitted(self)
        psi = (self._roughness, self._reference) if self.output == "psi" else None
        parts = []
        for chunk in open_features(self, X).iter_chunks():
            check_finite(self, chunk)
            data, indices, indptr, dim = embed_rows(chunk.X, self.bases_, psi)
            parts.append(scipy.sparse.csr_matrix((data, indices, indptr), (chunk.n_rows, dim)))
        if not parts:
            return scipy.sparse.csr_matrix((0, self.n_features_out_))
        return parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr")

    def _open(self, X: Any, sample_weight: Any) -> Dataset:
        """The rows to learn from; sets ``n_features_in_`` and ``feature_names_in_``."""
        if isinstance(X, Dataset) or is_on_disk(X) or is_dask(X):
            if sample_weight is not None:
                raise ValueError(
                    "sample_weight goes with rows in memory; for others name its column: "
                    "open_dataset(..., weight=...)"
                )
            dataset = open_data(X)
        else:
            dataset = open_pair(X, None, check_weights(sample_weight))
            shown = X if hasattr(X, "shape") else np.empty((1, dataset.n_features))
            validate_data(self, shown, skip_check_array=True)
        if is_named(dataset):
            self.feature_names_in_ = np.array(dataset.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = dataset.n_features
        return dataset

    def get_feature_names_out(self, input_features=None):
        """``<column>_sp_<number>``, as scikit-learn's splines are called; ``_fn_`` for others."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        width = np.diff(self.bases_.first)
        return np.array(
            [
                f"{name}{self._suffix}{j}"
                for name, n in zip(names, width, strict=True)
                for j in range(n)
            ],
            dtype=object,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "level"
        return tags


def _place(dataset: Dataset, row: int) -> str:
    return dataset.store.place(row, row + 1)


class SplineEmbedding(_Embedding):
    """The features in which an additive model is a linear one, as a sparse matrix.

    Psi = R^-T (Phi - c) with P = R'R: the penalty of the additive models is 1/2 |w|^2 in it, so any
    linear solver with that penalty reaches their optimum.  Reads 1 pass to fit.

    Parameters
    ----------
    n_bases : int, default=20
        Splines per column; columns with no more distinct values than this get one per value.
    degree : {1, 2, 3}, default=1
    penalty_order : {0, 1, 2}, default=1
        Derivative that the penalty takes.
    penalty_scale : {"integral", "paper"}, default="integral"
    knots : {"quantile", "uniform"}, default="quantile"
    output : {"psi", "phi"}, default="psi"
        "phi" gives the B-splines themselves, degree + 1 values a column.
    missing : {"level", "error"}, default="level"
        NaN is a level of its own in columns that have some in training, or refused.

    Attributes
    ----------
    bases_ : Bases
    n_features_out_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import SplineEmbedding
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> SplineEmbedding(n_bases=3, output="phi").fit_transform(np.repeat(X, 2, axis=1)).shape
    (5, 6)
    """

    basis, _suffix = "bspline", "_sp_"

    def __init__(
        self,
        n_bases=20,
        *,
        degree=1,
        penalty_order=1,
        penalty_scale="integral",
        knots="quantile",
        output="psi",
        missing="level",
    ):
        self.n_bases = n_bases
        self.degree = degree
        self.penalty_order = penalty_order
        self.penalty_scale = penalty_scale
        self.knots = knots
        self.output = output
        self.missing = missing


class FourierEmbedding(_Embedding):
    """The features of an additive model with a basis of cosines or Hermite polynomials.

    Psi_k = phi_k / sqrt(P_kk) less their mean (sparse input: less their value at 0), as
    `SplineEmbedding` gives them for splines: Maji 2012, Table 1.  Columns with few values are
    embedded with a function for each value.  Reads 1 pass to fit.

    Parameters
    ----------
    n_bases : int, default=20
        Functions per column.
    basis : {"cosine", "trigonometric", "hermite"}, default="cosine"
        "cosine": half-range, forces no period on the curve; "trigonometric": as many sines as
        cosines, of curves that end where they begin; "hermite": polynomials of the standardised
        column, or, with knots="quantile", of its normal scores.
    penalty_order : {1, 2}, default=1
    penalty_scale : {"integral", "paper"}, default="integral"
        "paper": features cos(k pi z) / k^order.
    knots : {"quantile", "uniform"}, default="quantile"
        Whether the column is mapped to its ranks, or to its range.
    output : {"psi", "phi"}, default="psi"
        "phi" gives the functions themselves.
    missing : {"level", "error"}, default="level"

    Attributes
    ----------
    bases_ : Bases
    n_features_out_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import FourierEmbedding
    >>> X = np.linspace(0, 1, 9)[:, None]
    >>> phi = FourierEmbedding(2, output="phi", knots="uniform").fit_transform(X)
    >>> bool(np.allclose(phi.toarray(), np.cos(np.pi * X * [1, 2])))
    True
    """

    degree, _suffix = 1, "_fn_"

    def __init__(
        self,
        n_bases=20,
        *,
        basis="cosine",
        penalty_order=1,
        penalty_scale="integral",
        knots="quantile",
        output="psi",
        missing="level",
    ):
        self.n_bases = n_bases
        self.basis = basis
        self.penalty_order = penalty_order
        self.penalty_scale = penalty_scale
        self.knots = knots
        self.output = output
        self.missing = missing
