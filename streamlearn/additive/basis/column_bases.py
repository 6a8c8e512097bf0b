"""The basis of every column, from what a summary knows of it."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ...numeric.bases.basis import Basis
from ...numeric.bases.breakpoints import quantile_breakpoints, uniform_of_columns, value_breakpoints
from ...numeric.bases.bsplines import Bases, make_bases, with_missing
from ...numeric.bases.means import Pieces, mean_functions, spread_points
from ...numeric.bases.registry import BASES, LEVELS, OWN, SPLINE, kind_of, make_basis
from ...numeric.bases.roughness import reference_at_zero, require_order
from ...passes.summary.summary import ColumnSummary, Summary

LARGEST_DEGREE = max(max(basis.degrees) for basis in BASES.values())
ORDERS = sorted({order for basis in BASES.values() for order in basis.orders})

BASIS_CONSTRAINTS: dict[str, list[object]] = {
    "basis": [StrOptions(set(BASES)), Basis],
    "n_bases": [Interval(Integral, 2, 256, closed="both")],
    "degree": [Interval(Integral, 1, LARGEST_DEGREE, closed="both")],
    "penalty_order": [Interval(Integral, ORDERS[0], ORDERS[-1], closed="both")],
    "penalty_scale": [StrOptions({"integral", "paper"})],
    "knots": [StrOptions({"quantile", "uniform"})],
    "missing": [StrOptions({"level", "error"})],
}


def check_basis(basis: Basis, n_bases: int, degree: int, penalty_order: int = 1) -> None:
    """Refuse fewer splines than one interval has, and what the basis does not have."""
    if degree not in basis.degrees:
        raise ValueError(
            f"degree={degree} is the degree of splines, basis={basis.name!r} has none; leave it at "
            "1, or use basis='bspline'"
        )
    require_order(basis, penalty_order)
    if basis.local and n_bases <= degree:
        raise ValueError(
            f"n_bases={n_bases} splines of degree {degree} leave no interval; "
            f"raise n_bases to at least {degree + 1}"
        )


class Shape(NamedTuple):
    """What basis a column gets: the parameters of an estimator or embedding."""

    n_bases: int
    degree: int
    knots: str
    basis: Basis = BASES["bspline"]

    @classmethod
    def of(cls, model: Any) -> Shape:
        """Those of `model`, checked."""
        basis = make_basis(model.basis)
        check_basis(basis, model.n_bases, model.degree, model.penalty_order)
        return cls(model.n_bases, model.degree, model.knots, basis)


def fit_bases(summary: Summary, shape: Shape, dtype: np.dtype) -> Bases:
    """Every column's basis: at its values if they are few, else as `shape` says.

    Columns with missing values have a level for them, categories always: what is rare, or not
    known, is on it.
    """
    breakpoints, degrees, kinds = [], [], []
    uniform, many = _uniform(summary, shape, dtype), kind_of(shape.basis)
    for d, column in enumerate(summary.columns):
        values = _present(column)
        few = values is not None and len(values) <= shape.n_bases
        if column.levels is not None:
            points, kind, degree = np.arange(len(column.levels)) * 1.0, LEVELS, 1
        elif few and values is not None:
            points, kind, degree = value_breakpoints(values, dtype), SPLINE, 1
        else:
            points = uniform[d] if uniform else _breakpoints(column, shape, dtype)
            kind, degree = many, shape.degree
        has_level = column.missing > 0 or (kind == LEVELS and len(points) > 1)
        if has_level and len(points):
            points = with_missing(points, degree)
        breakpoints.append(points if len(points) > 1 else np.empty(0))
        degrees.append(degree)
        kinds.append(kind)
    own = shape.basis if many == OWN else None
    return make_bases(breakpoints, degrees, kinds, shape.n_bases, own)


def _uniform(summary: Summary, shape: Shape, dtype: np.dtype) -> list[np.ndarray]:
    """Equally spaced breakpoints of every column, were it one of many values; none if not asked."""
    if shape.knots != "uniform":
        return []
    low, high, mean, variance = (
        np.array([getattr(column, of) for column in summary.columns])
        for of in ("min", "max", "mean", "variance")
    )
    low, high = shape.basis.ends(low, high, mean, np.sqrt(variance))
    return uniform_of_columns(
        low, high, shape.basis.n_intervals(shape.n_bases, shape.degree), dtype
    )


def _breakpoints(column: ColumnSummary, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Those of a column of many values, at quantiles."""
    n_intervals = shape.n_bases - shape.degree
    levels = shape.basis.levels(n_intervals)
    return quantile_breakpoints(*column.cdf(), n_intervals, dtype, levels=levels)


def mean_splines(summary: Summary, bases: Bases) -> np.ndarray:
    """(dim,) mean of every function over the rows, from the summary's counts."""
    return mean_functions(bases, spread_points(bases, pieces_of(summary)))


def pieces_of(summary: Summary) -> Pieces:
    """Every column's distribution; what is missing lies at +inf."""
    pieces = []
    for column in summary.columns:
        lo, hi, mass = column.cdf() if column.count else (np.empty(0),) * 3
        if column.missing:
            lo, hi = np.append(lo, np.inf), np.append(hi, np.inf)
            mass = np.append(mass, column.missing)
        pieces.append((lo, hi, mass))
    return Pieces.of(pieces)


def reference_vector(summary: Summary, bases: Bases, sparse: bool) -> np.ndarray:
    """c of Phi - c: the mean, which centres every term; Phi(0) keeps sparse rows sparse."""
    return reference_at_zero(bases) if sparse else mean_splines(summary, bases)


def _present(column: ColumnSummary) -> np.ndarray | None:
    """The distinct values with weight, if they are known."""
    if column.values is None or column.value_counts is None:
        return None
    if np.count_nonzero(column.value_counts) == len(column.values):
        return column.values
    return column.values[column.value_counts > 0]
