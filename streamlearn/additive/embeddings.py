"""The features in which an additive model is linear, written out for any linear solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self, TypedDict

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from ..data.dataset import Dataset
from ..data.row_ranges import largest_slice
from ..data.source import Chunk, Csr
from ..engine.planning import make_plan
from ..engine.run import Run
from ..engine.summary import column_needs, state_limit
from ..errors import SourceError
from ..estimator.facts import ShowsFacts
from ..estimator.predicting import check_finite, matched
from ..estimator.rows.inputs import (
    check_weights,
    is_dask,
    is_on_disk,
    open_data,
    open_features,
    open_pair,
)
from ..estimator.rows.streams import WithoutStream
from ..numeric.bases.basis import Basis
from ..numeric.bases.bsplines import Bases
from ..numeric.bases.registry import BASES, make_basis
from ..numeric.bases.roughness import Reference, make_reference, make_roughness
from ..numeric.checks import check_array
from ..passes.summary.reading import collect_summary
from .basis.column_bases import (
    BASIS_CONSTRAINTS,
    Shape,
    fit_bases,
    reference_vector,
    takes_missing,
)
from .basis.kernels import embed_rows

if TYPE_CHECKING:
    from sklearn.utils import Tags
_ARRAYS = 4
"""Arrays of float64 that a chunk's features take while they are made: sparse, dense, a copy."""


class EmbeddingState(TypedDict):
    """The tree of a saved embedding."""

    bases: Bases
    zero: np.ndarray
    sparse: bool


class _Embedding(WithoutStream, ShowsFacts, TransformerMixin, BaseEstimator):
    """The part that explicit features of every basis share: fit and transform."""

    _parameter_constraints: dict[str, list[object]] = {
        **BASIS_CONSTRAINTS,
        "output": [StrOptions({"psi", "phi"})],
        "sparse_output": ["boolean"],
    }
    _accepts_sparse = True
    _no_stream: ClassVar[str] = (
        "knots are quantiles of all rows, and other knots would be other features; fit to a sample"
    )

    @property
    def _accepts_missing(self) -> bool:
        return self.missing == "level"

    @property
    def _has_level(self) -> np.ndarray:
        return takes_missing(self.bases_)

    def fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
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
        limit = state_limit(dataset)
        needs = column_needs(dataset, limit)
        with Run(
            dataset, make_plan(dataset, [needs]), name=type(self).__name__, identity={}
        ) as run:
            summary = collect_summary(run.fold, dataset, limit)
        summary.require_finite(dataset, missing=self.missing == "level")
        bases = fit_bases(summary, shape, dataset.dtype)
        self._keep(bases, reference_vector(summary, bases, dataset.sparse), dataset.sparse)
        return self

    def _keep(self, bases: Bases, zero: np.ndarray, sparse: bool) -> None:
        """Set the fitted attributes; `zero` (dim,) are the values phi that become psi = 0."""
        self.bases_, self._zero, self._sparse = bases, zero, sparse
        self._roughness = make_roughness(
            bases, self.penalty_order, self.penalty_scale, zero if sparse else None
        )
        self._reference: Reference = make_reference(self._roughness, zero)
        self.n_features_out_ = bases.dim

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bases_")

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("columns", f"{self.n_features_in_:,}"),
            ("features", f"{self.n_features_out_:,} that are written out"),
        ]

    def _state(self) -> EmbeddingState:
        return {"bases": self.bases_, "zero": self._zero, "sparse": self._sparse}

    def _restore(self, tree: EmbeddingState) -> None:
        bases = tree["bases"]
        if not isinstance(bases, Bases) or len(bases.degree) != self.n_features_in_:
            raise ValueError(f"the bases are not of {self.n_features_in_} columns")
        check_array("zero", tree["zero"], (bases.dim,))
        self._keep(bases, tree["zero"], bool(tree["sparse"]))

    def transform(self, X: object) -> object:
        """The features of the rows, in memory only if the rows are.

        Parameters
        ----------
        X : anything `fit` takes

        Returns
        -------
        csr_matrix or array of float64, Dataset or dask array
            A matrix of arrays, frames and sparse matrices, dense with ``sparse_output=False``.
            A path or Dataset gives a lazy `Dataset` of the same rows, target and weights, in its
            dtype, whose features are made
            chunk by chunk when it is read: `fit` takes it, ``to_zarr`` and ``to_parquet`` write it.
            A dask collection gives a lazy dask array of float64.
        """
        check_is_fitted(self)
        if is_dask(X):
            from ..data.dask.map import map_rows  # loads dask

            like = np.empty((0, self.n_features_out_))
            return map_rows(matched(self, X), _embed_block, self, like)
        dataset = open_features(self, X)
        if isinstance(X, Dataset) or is_on_disk(X):
            return self._lazy(X, dataset)
        psi = self._in_memory(dataset)
        return psi if self.sparse_output else psi.toarray()

    def _in_memory(self, dataset: Dataset) -> scipy.sparse.csr_matrix:
        parts = [self._embed(chunk) for chunk in dataset.iter_chunks()]
        if not parts:
            return scipy.sparse.csr_matrix((0, self.n_features_out_))
        return parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr")

    def _embed(self, chunk: Chunk) -> scipy.sparse.csr_matrix:
        check_finite(self, chunk)
        psi = (self._roughness, self._reference) if self.output == "psi" else None
        X = chunk.X
        if isinstance(X, Csr) and psi is not None and not self._sparse:
            X = X.dense()  # fitted to dense rows: an absent value has features that are not 0
        data, indices, indptr, dim = embed_rows(X, self.bases_, psi)
        return scipy.sparse.csr_matrix((data, indices, indptr), (chunk.n_rows, dim))

    def _lazy(self, given: object, dataset: Dataset) -> Dataset:
        """The features of a dataset, made as it is read, in slices that hold them too."""
        if isinstance(given, Dataset):
            dataset = replace(dataset, target=given.target, weight=given.weight)
        rows = largest_slice(_ARRAYS * 8 * self.n_features_out_)
        dataset = dataset.with_slice_rows(min(rows, dataset.slice_rows))
        names = tuple(self.get_feature_names_out(dataset.feature_names))
        return dataset.map(partial(_features, self, dataset.dtype), names)

    def _open(self, X: object, sample_weight: object) -> Dataset:
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
        if dataset.is_named:
            self.feature_names_in_ = np.array(dataset.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = dataset.n_features
        return dataset

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> np.ndarray:
        """``<column>_sp_<number>``, as scikit-learn's splines are called; ``_fn_`` for others."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        width, suffix = np.diff(self.bases_.first), make_basis(self.basis).suffix
        return np.array(
            [f"{name}{suffix}{j}" for name, n in zip(names, width, strict=True) for j in range(n)],
            dtype=object,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "level"
        return tags


def _features(model: _Embedding, dtype: np.dtype, X: np.ndarray | Csr) -> np.ndarray | Csr:
    """The features of a chunk's rows: an array of an array, `Csr` of `Csr`."""
    try:
        psi = model._embed(Chunk(X, rows=range(X.shape[0])))
    except SourceError as error:
        raise SourceError(f"{error} (rows are counted from the first of their chunk)") from error
    if isinstance(X, Csr):
        return Csr(psi.data, psi.indices, psi.indptr.astype(np.int64), psi.shape[1])
    return psi.astype(dtype).toarray()


def _embed_block(block: object, model: _Embedding) -> np.ndarray:
    """The features of a partition of a dask collection, (m, n_features_out_)."""
    X = np.vstack(block) if isinstance(block, list) and block else block
    features: np.ndarray = model._in_memory(open_features(model, X)).toarray()
    return features


class SplineEmbedding(_Embedding):
    """The features in which an additive model is a linear one, for any linear solver.

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
    sparse_output : bool, default=True
        Whether rows in memory become a CSR matrix or an array; ``set_output`` of pandas or polars
        needs the array.

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

    basis = "bspline"

    def __init__(
        self,
        n_bases: int = 20,
        *,
        degree: int = 1,
        penalty_order: int = 1,
        penalty_scale: str = "integral",
        knots: str = "quantile",
        output: str = "psi",
        missing: str = "level",
        sparse_output: bool = True,
    ) -> None:
        self.n_bases = n_bases
        self.degree = degree
        self.penalty_order = penalty_order
        self.penalty_scale = penalty_scale
        self.knots = knots
        self.output = output
        self.missing = missing
        self.sparse_output = sparse_output


class FourierEmbedding(_Embedding):
    """The features of an additive model with a basis of cosines or Hermite polynomials.

    Psi_k = phi_k / sqrt(P_kk) less their mean (sparse input: less their value at 0), as
    `SplineEmbedding` gives them for splines: Maji 2012, Table 1.  Columns with few values are
    embedded with a function for each value.  Reads 1 pass to fit.

    Parameters
    ----------
    n_bases : int, default=20
        Functions per column.
    basis : {"cosine", "trigonometric", "hermite"} or Basis, default="cosine"
        "cosine": half-range, forces no period on the curve; "trigonometric": as many sines as
        cosines, of curves that end where they begin; "hermite": polynomials of the standardised
        column, or, with knots="quantile", of its normal scores.  Or a basis of your own, an
        instance of a subclass of ``streamlearn.numeric.bases.basis.Basis``.
    penalty_order : {1, 2}, default=1
    penalty_scale : {"integral", "paper"}, default="integral"
        "paper": features cos(k pi z) / k^order.
    knots : {"quantile", "uniform"}, default="quantile"
        Whether the column is mapped to its ranks, or to its range.
    output : {"psi", "phi"}, default="psi"
        "phi" gives the functions themselves.
    missing : {"level", "error"}, default="level"
    sparse_output : bool, default=True
        Whether rows in memory become a CSR matrix or an array.

    Attributes
    ----------
    bases_ : Bases
    n_features_out_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import FourierEmbedding
    >>> X = np.linspace(0, 1, 4)[:, None]
    >>> phi = FourierEmbedding(2, output="phi", knots="uniform").fit_transform(X)
    >>> phi.toarray().round(2)  # cos(pi x), cos(2 pi x)
    array([[ 1. ,  1. ],
           [ 0.5, -0.5],
           [-0.5, -0.5],
           [-1. ,  1. ]])
    """

    _parameter_constraints: dict[str, list[object]] = {
        **_Embedding._parameter_constraints,
        "basis": [StrOptions({name for name, basis in BASES.items() if not basis.local}), Basis],
    }
    degree = 1

    def __init__(
        self,
        n_bases: int = 20,
        *,
        basis: str | Basis = "cosine",
        penalty_order: int = 1,
        penalty_scale: str = "integral",
        knots: str = "quantile",
        output: str = "psi",
        missing: str = "level",
        sparse_output: bool = True,
    ) -> None:
        self.n_bases = n_bases
        self.basis = basis
        self.penalty_order = penalty_order
        self.penalty_scale = penalty_scale
        self.knots = knots
        self.output = output
        self.missing = missing
        self.sparse_output = sparse_output
