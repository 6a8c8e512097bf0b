"""The basis of every column, from what a summary knows of it."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple, Protocol, cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ...data.encoding import Encoding
from ...numeric.bases.basis import Basis
from ...numeric.bases.breakpoints import distinct_points, quantile_points, uniform_points
from ...numeric.bases.bsplines import Bases, join_bases
from ...numeric.bases.means import mean_functions
from ...numeric.bases.registry import BASES, CYCLE, LEVELS, OWN, SPLINE, kind_of, make_basis
from ...numeric.bases.roughness import reference_at_zero, require_order
from ...passes.summary.facts import ColumnFacts, ends_of
from ...passes.summary.summary import Summary
from .resolution import CountOfSplines, count_of_splines, distinct_values

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


class HasShape(Protocol):
    """An estimator or embedding, by the parameters that decide which basis a column gets."""

    basis: str | Basis
    n_bases: CountOfSplines
    degree: int
    knots: str
    penalty_order: int


class Shape(NamedTuple):
    """The parameters of an estimator or embedding that decide which basis a column gets."""

    n_bases: int
    degree: int
    knots: str
    basis: Basis = BASES["bspline"]
    cycles: tuple[float, ...] = ()
    """The period of each column that is a clock, 0 of the others; empty: there is none."""

    @classmethod
    def of(cls, model: HasShape, summary: Summary | None = None) -> Shape:
        """Shape of `model`, checked; a number of splines left to the table needs its `summary`."""
        basis = make_basis(model.basis)
        n_bases = cast("int", model.n_bases)  # where nothing is left to a table
        if summary is not None:
            n_levels = summary.columns.n_levels
            others = int((n_levels + 1)[n_levels >= 0].sum())
            values = distinct_values(summary.columns)
            n_bases = count_of_splines(model.n_bases, basis, summary.n_rows, values, others)
        check_basis(basis, n_bases, model.degree, model.penalty_order)
        encoding: Encoding | None = getattr(model, "encoding_", None)
        clocks = [] if encoding is None else encoding.clocks
        cycles = tuple(0.0 if clock is None else clock.period for clock in clocks)
        return cls(n_bases, model.degree, model.knots, basis, cycles)

    def circles(self, facts: ColumnFacts) -> dict[int, np.ndarray]:
        """The breakpoints of each column that is a clock and not constant, by its number.

        At its values if they are few, else equally spaced; the first one is 0, the last the period.
        """
        values, ends = facts.present()
        found = {}
        for d in np.flatnonzero(self.cycles).tolist():
            own, period = values[ends[d] : ends[d + 1]], self.cycles[d]
            if facts.few[d] and len(own) <= 1:
                continue
            if facts.few[d] and len(own) <= self.n_bases:
                found[d] = np.unique([0.0, *own, period])
            else:
                found[d] = np.linspace(0.0, period, self.n_bases - self.degree + 1)
        return found


def fit_bases(summary: Summary, shape: Shape, dtype: np.dtype) -> Bases:
    """Every column's basis: at its values if they are few, else as `shape` says.

    Columns with missing values have a level for them, categories always: what is rare, or not
    known, is on it.
    """
    facts = summary.columns
    values, ends = facts.present()
    n_present = np.diff(ends)
    is_levels = facts.n_levels >= 0
    circles, is_circle = shape.circles(facts), np.zeros(len(facts), bool)
    is_circle[list(circles)] = True
    few = facts.few & (n_present <= shape.n_bases) & ~is_levels & ~is_circle
    many = ~few & ~is_levels & ~is_circle
    points = _points_of_many(facts, many, shape)
    size = np.select([is_levels, few], [facts.n_levels, n_present], points.shape[1])
    size[list(circles)] = [len(own) for own in circles.values()]
    # the code of a category, the values, the points: what each column's breakpoints are before
    # they are rounded
    starts = ends_of(size)
    x = np.arange(starts[-1]) - np.repeat(starts[:-1], size).astype(np.float64)
    x[np.repeat(few, size)] = values[np.repeat(few, n_present)]
    x[np.repeat(many, size)] = points[many].ravel()
    x[np.repeat(is_circle, size)] = np.concatenate([np.empty(0), *circles.values()])
    x, starts = distinct_points(x, starts, dtype)
    n_points = np.diff(starts)
    of_many = kind_of(shape.basis)
    kind = np.select([is_levels, few, is_circle], [LEVELS, SPLINE, CYCLE], of_many).astype(np.intp)
    is_smooth = many | (is_circle & ~(facts.few & (n_present <= shape.n_bases)))
    degree = np.where(is_smooth, shape.degree, 1).astype(np.intp)
    has_level = ((facts.missing > 0) | (is_levels & (n_points > 1))) & (n_points > 0)
    size = n_points + has_level * degree
    kept = size > 1
    size = np.where(kept, size, 0)
    knots, first = np.full(size.sum(), np.inf), ends_of(size)[:-1]
    n_points = np.where(kept, n_points, 0)
    x = x[np.repeat(kept, np.diff(starts))]
    knots[np.arange(len(x)) + np.repeat(first - ends_of(n_points)[:-1], n_points)] = x
    own = shape.basis if of_many == OWN else None
    return join_bases(knots, size, degree, kind, shape.n_bases, own)


def takes_missing(bases: Bases) -> np.ndarray:
    """(p,) bool: the columns in which a missing value has a meaning.

    Their level says it; a column without functions, constant or missing in all rows, adds nothing
    whatever it holds.
    """
    return bases.has_missing | (bases.kind == LEVELS) | (np.diff(bases.first) == 0)


def _points_of_many(facts: ColumnFacts, many: np.ndarray, shape: Shape) -> np.ndarray:
    """(p, m) ascending points of the columns of `many` values, were they numbers of any precision.

    Equally spaced, or at quantiles.
    """
    if shape.knots == "uniform":
        deviation = np.sqrt(facts.variance)
        low, high = shape.basis.ends(facts.min, facts.max, facts.mean, deviation)
        return uniform_points(low, high, shape.basis.n_intervals(shape.n_bases, shape.degree))
    n_intervals = shape.n_bases - shape.degree
    shares = shape.basis.levels(n_intervals)
    if shares is None:
        shares = np.arange(n_intervals + 1) / n_intervals
    out = np.zeros((len(facts), n_intervals + 1))
    for a, z in facts.blocks():
        if many[a:z].any():
            out[a:z] = quantile_points(facts.pieces(a, z), many[a:z], shares)
    return out


def mean_splines(summary: Summary, bases: Bases) -> np.ndarray:
    """(dim,) mean of every function over the rows, from the summary's counts."""
    return mean_functions(bases, summary.columns.distributions())


def reference_vector(summary: Summary, bases: Bases, sparse: bool) -> np.ndarray:
    """c of Phi - c: the mean, which centres every term; Phi(0) keeps sparse rows sparse."""
    return reference_at_zero(bases) if sparse else mean_splines(summary, bases)


def closed(bases: Bases, W: np.ndarray) -> np.ndarray:
    """The coefficients (K, dim) with circles whose ends agree to the bit; a penalty has held them.

    Terms of two columns are left as they are.
    """
    out = W
    for d in np.flatnonzero((bases.main.kind == CYCLE) & (np.diff(bases.main.first) > 0)).tolist():
        out = W.copy() if out is W else out
        n_finite = int(bases.n_intervals[d] - bases.has_missing[d] * bases.degree[d])
        first, ends = int(bases.first[d]), np.arange(int(bases.degree[d]))
        mean = 0.5 * (out[:, first + ends] + out[:, first + n_finite + ends])
        out[:, first + ends] = out[:, first + n_finite + ends] = mean
    return out
