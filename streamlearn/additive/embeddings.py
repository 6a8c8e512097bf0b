"""Spline bases from a summary, and the same features written out for any linear solver."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
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
from ..numeric.breakpoints import quantile_breakpoints, uniform_breakpoints, value_breakpoints
from ..numeric.bsplines import Bases, make_bases, mean_basis
from ..numeric.roughness import Reference, make_reference, make_roughness, reference_at_zero
from ..passes.summary import ColumnSummary, Summary, collect_summary, state_nbytes
from .kernels import embed_rows

BASIS_CONSTRAINTS: dict[str, list[Any]] = {
    "n_bases": [Interval(Integral, 2, 256, closed="both")],
    "degree": [Interval(Integral, 1, 3, closed="both")],
    "penalty_order": [Interval(Integral, 0, 2, closed="both")],
    "penalty_scale": [StrOptions({"integral", "paper"})],
    "knots": [StrOptions({"quantile", "uniform"})],
}


def check_basis(n_bases: int, degree: int) -> None:
    """Refuse fewer splines than one interval of this degree has."""
    if n_bases <= degree:
        raise ValueError(
            f"n_bases={n_bases} splines of degree {degree} leave no interval; "
            f"raise n_bases to at least {degree + 1}"
        )


def fit_bases(summary: Summary, n_bases: int, degree: int, knots: str, dtype: np.dtype) -> Bases:
    """Every column's splines: at its values if they are few, else on intervals."""
    check_basis(n_bases, degree)
    breakpoints, degrees = [], []
    for column in summary.columns:
        values = _present(column)
        few = values is not None and len(values) <= n_bases
        if few:
            points = value_breakpoints(values, dtype)
        elif knots == "uniform":
            points = uniform_breakpoints(column.min, column.max, n_bases - degree, dtype)
        else:
            points = quantile_breakpoints(*column.cdf(), n_bases - degree, dtype)
        breakpoints.append(points if len(points) > 1 else np.empty(0))
        degrees.append(1 if few else degree)
    return make_bases(breakpoints, degrees)


def mean_splines(summary: Summary, bases: Bases) -> np.ndarray:
    """(dim,) mean of every spline over the rows, from the summary's counts."""
    parts = [
        mean_basis(bases, d, *column.cdf())
        for d, column in enumerate(summary.columns)
        if bases.first[d] < bases.first[d + 1]
    ]
    return np.concatenate([np.empty(0), *parts])


def reference_vector(summary: Summary, bases: Bases, sparse: bool) -> np.ndarray:
    """c of Phi - c: the mean, which centres every term; Phi(0) keeps sparse rows sparse."""
    return reference_at_zero(bases) if sparse else mean_splines(summary, bases)


def _present(column: ColumnSummary) -> np.ndarray | None:
    """The distinct values with weight, if they are known."""
    if column.values is None or column.value_counts is None:
        return None
    return column.values[column.value_counts > 0]


class SplineEmbedding(TransformerMixin, BaseEstimator):
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

    _parameter_constraints: dict[str, list[Any]] = {
        **BASIS_CONSTRAINTS,
        "output": [StrOptions({"psi", "phi"})],
    }
    _accepts_sparse = True

    def __init__(
        self,
        n_bases=20,
        *,
        degree=1,
        penalty_order=1,
        penalty_scale="integral",
        knots="quantile",
        output="psi",
    ):
        self.n_bases = n_bases
        self.degree = degree
        self.penalty_order = penalty_order
        self.penalty_scale = penalty_scale
        self.knots = knots
        self.output = output

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
        dataset = self._open(X, sample_weight)
        needs = Needs("summary", state_bytes=state_nbytes(dataset))
        with Run(
            dataset, make_plan(dataset, [needs]), name=type(self).__name__, identity={}
        ) as run:
            summary = collect_summary(run.fold, dataset)
        summary.require_finite(lambda row: dataset.store.place(row, row + 1))
        self.bases_ = fit_bases(summary, self.n_bases, self.degree, self.knots, dataset.dtype)
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
        """``<column>_sp_<number>``, as scikit-learn's splines are called."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        width = np.diff(self.bases_.first)
        return np.array(
            [f"{name}_sp_{j}" for name, n in zip(names, width, strict=True) for j in range(n)],
            dtype=object,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
