"""Uniform B-splines of a piecewise-linear coordinate: one map and one formula for every column.

A column's breakpoints k_0 < ... < k_M map x to u in [0, M]: u = j + (x - k_j) / (k_{j+1} - k_j),
clamped, so that equally spaced splines of degree 1 to 3 in u serve uniform knots, quantile knots
and few-valued columns (breakpoints at the values, degree 1: indicators at the values) alike, and
the difference penalty stays exact.  u is rounded to float32, and everything (solvers, the explicit
embedding, predictions, the scratch cache) computes from the rounded u, so all agree.

    j = min(floor u, M - 1),  f = u - j,  g = 1 - f;  the degree + 1 splines from number j on are
    degree 1: g, f      2: g^2/2, (1 + 2f - 2f^2)/2, f^2/2
    degree 3: g^3/6, (3f^3 - 6f^2 + 4)/6, (-3f^3 + 3f^2 + 3f + 1)/6, f^3/6

A missing value has a level of its own: `degree` more breakpoints at +inf, past the last one.  What
is finite never gets beyond u = M, and a missing value, handed over as +inf, is at u = M + degree:
none of the splines there is met by any finite value, and they sum to 1 like the others, so every
pass over splines serves missing values as it is.

Columns of another `kind` map to the same u; their `Basis` makes their functions of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..checks import check_array, check_offsets
from ..jit import inlined, kernel
from ..recent import kept_for_recent
from ..simd.add import TABLE, search_column
from .basis import Basis
from .registry import CYCLE, KINDS, LEVELS, OWN, PAIR, basis_of


class Bases(NamedTuple):
    """The basis of every column: splines, or functions that are nowhere 0."""

    knots: np.ndarray
    """(sum_d (M_d + 1),) float64 breakpoints, strictly ascending within a column."""
    first_knot: np.ndarray
    """(p + 1,) intp: column d's breakpoints are ``knots[first_knot[d]:first_knot[d + 1]]``."""
    degree: np.ndarray
    """(p,) intp, 1 to 3."""
    first: np.ndarray
    """(p + 1,) intp: column d's coefficients are ``first[d]:first[d + 1]``; none if constant."""
    prepared: bool
    """True: X already holds the coordinates u (float32)."""
    kind: np.ndarray
    """(p,) intp, the place of each column's basis in `KINDS`, or `CYCLE`."""
    own: Basis | None = None
    """The basis of columns of the kind `OWN`."""
    pairs: np.ndarray | None = None
    """(m, 3) intp: terms of two columns, which follow the p columns as so many more of the kind
    `PAIR` without breakpoints; each one's two columns, and most nodes of a column (`pairs`)."""

    def check(self) -> None:
        """Raise ValueError unless the kernels stay within the arrays: for bases from a file."""
        p = len(self.degree)
        if self.pairs is not None:
            self._check_pairs(self.pairs)
            return
        check_array("bases.knots", self.knots, (None,), finite=False)
        check_array("bases.degree", self.degree, (p,), "intp", low=1, high=3)
        check_array("bases.kind", self.kind, (p,), "intp", low=CYCLE, high=OWN)
        check_offsets("bases.first_knot", self.first_knot, p, len(self.knots))
        check_array("bases.first", self.first, (p + 1,), "intp", low=0, high=2**40)
        check_offsets("bases.first", self.first, p, self.dim)
        size = np.diff(self.first_knot)
        made = join_bases(self.knots, size, self.degree, self.kind)
        width, infinite = np.diff(self.first), np.isposinf(self.knots)
        n_infinite = np.diff(np.concatenate([[0], np.cumsum(infinite)])[self.first_knot])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            gaps = np.isposinf(1.0 / np.diff(self.knots))
        borders = self.first_knot[(self.first_knot > 0) & (self.first_knot < len(self.knots))]
        gaps[borders - 1] = False
        if (
            self.prepared is not False
            or (width != np.diff(made.first))[self.local].any()
            or ((self.kind == OWN).any() and not isinstance(self.own, Basis))
            or ((width > 0) != (size > 1)).any()
            or not np.isin(n_infinite, [0, 1, 2, 3]).all()
            or (n_infinite[n_infinite > 0] != self.degree[n_infinite > 0]).any()
            or (np.isnan(self.knots) | np.isneginf(self.knots)).any()
            or infinite[self.first_knot[:-1][size > 0]].any()
            or gaps.any()
        ):
            raise ValueError("the bases' breakpoints and numbers of functions do not agree")

    def _check_pairs(self, terms: np.ndarray) -> None:
        check_array("bases.kind", self.kind, (None,), "intp")
        check_array("bases.pairs", terms, (None, 3), "intp", low=0, high=max(len(self.kind), 256))
        main, p = self.main, self.n_columns
        main.check()
        n_terms = p + len(terms)
        check_array("bases.degree", self.degree, (n_terms,), "intp")
        check_array("bases.kind", self.kind, (n_terms,), "intp")
        check_array("bases.first", self.first, (n_terms + 1,), "intp")
        check_array("bases.first_knot", self.first_knot, (n_terms + 1,), "intp")
        columns = terms[:, :2]
        if (
            (columns >= p).any()
            or (terms[:, 2] < 2).any()
            or not main.local[columns].all()
            or (main.degree[columns] != 1).any()
            or (self.kind[p:] != PAIR).any()
            or (self.degree[p:] != 1).any()
            or (self.first_knot[p:] != len(self.knots)).any()
        ):
            raise ValueError("the bases' pairs are not of its columns")
        size = [len(nodes_of(main, a, n)) * len(nodes_of(main, b, n)) for a, b, n in terms]
        if (np.diff(self.first[p:]) != size).any():
            raise ValueError("the bases' pairs and numbers of functions do not agree")

    @property
    def n_columns(self) -> int:
        """p, the columns of the rows."""
        return len(self.degree) - (0 if self.pairs is None else len(self.pairs))

    @property
    def pair_columns(self) -> list[tuple[int, int]]:
        """The two columns of each pair."""
        return [] if self.pairs is None else [(d, e) for d, e, _ in self.pairs.tolist()]

    @property
    def main(self) -> Bases:
        """The bases of single columns alone."""
        p = self.n_columns
        return self._replace(
            first_knot=self.first_knot[: p + 1],
            degree=self.degree[:p],
            first=self.first[: p + 1],
            kind=self.kind[:p],
            pairs=None,
        )

    def basis(self, d: int) -> Basis:
        """The basis of column d."""
        return basis_of(int(self.kind[d]), self.own)

    @property
    def local(self) -> np.ndarray:
        """(p,) bool: the columns of splines and categories."""
        return self.kind <= LEVELS

    @property
    def sums_to_one(self) -> np.ndarray:
        """(p,) bool: the terms whose functions sum to 1, so that a constant is among them."""
        return self.local | (self.kind == PAIR)

    @property
    def dense(self) -> bool:
        """Whether some terms have functions that are not splines of one column."""
        return not self.local.all()

    @property
    def nowhere_zero(self) -> np.ndarray:
        """(dim,) bool: coefficients of functions that every row meets."""
        width = np.diff(self.first)
        dense = np.repeat(~self.local & (self.kind != PAIR), width)
        last = self.first[1:][self.has_missing & (width > 0)] - 1
        dense[last] = False
        return dense

    @property
    def has_missing(self) -> np.ndarray:
        """(p,) bool, not to be written to: the columns with a level for missing values."""
        return _find_missing(self)

    @property
    def dim(self) -> int:
        """Number of coefficients of all columns."""
        return int(self.first[-1])

    @property
    def n_intervals(self) -> np.ndarray:
        """(p,) M_d; 0 for a constant column."""
        return np.maximum(np.diff(self.first_knot) - 1, 0)


@kept_for_recent
def _find_missing(bases: Bases) -> np.ndarray:
    """`Bases.has_missing`."""
    found = np.diff(bases.first_knot) > 1
    found[found] = np.isposinf(bases.knots[bases.first_knot[1:][found] - 1])
    found.flags.writeable = False
    return found


class Columns(NamedTuple):
    """`Bases` as the kernels take them: the map in the arithmetic of X, padded for `simd`."""

    knots: np.ndarray
    """Column d's breakpoints from ``at[d]`` on, then +inf up to ``at[d + 1]``; NaN, which no value
    reaches, if +inf is a breakpoint of its own."""
    inverse: np.ndarray
    """1 / (k_{j+1} - k_j) at the same places; 0 at the last breakpoint and after it."""
    at: np.ndarray
    n_intervals: np.ndarray
    degree: np.ndarray
    first: np.ndarray
    prepared: bool


def make_bases(
    breakpoints: Sequence[np.ndarray],
    degrees: np.ndarray | Sequence[int],
    kinds: np.ndarray | Sequence[int] | None = None,
    n_functions: int = 0,
    own: Basis | None = None,
) -> Bases:
    """Bases from each column's strictly ascending breakpoints; fewer than two mean: constant.

    `kinds` default to splines; columns of other bases have `n_functions` and a degree of 1.  `own`
    is the basis of those of the kind `OWN`.
    Breakpoints that end in +inf, as often as the degree is, give a level for missing values.
    """
    knots = [np.asarray(k, dtype=np.float64) for k in breakpoints]
    kind = np.zeros(len(knots), np.intp) if kinds is None else np.asarray(kinds, np.intp)
    size = np.array([len(k) for k in knots], dtype=np.intp)
    degree = np.asarray(degrees, dtype=np.intp)
    return join_bases(np.concatenate([np.empty(0), *knots]), size, degree, kind, n_functions, own)


def join_bases(
    every: np.ndarray,
    size: np.ndarray,
    degree: np.ndarray,
    kind: np.ndarray,
    n_functions: int = 0,
    own: Basis | None = None,
) -> Bases:
    """`make_bases` of breakpoints that lie in one array, `size` (p,) of each column."""
    end = np.cumsum(size)
    with np.errstate(invalid="ignore"):  # +inf less +inf
        ascends = (np.diff(every) > 0) | np.isposinf(every[1:])
    ascends[end[(end > 0) & (end < len(every))] - 1] = True
    bad = np.flatnonzero(~ascends)
    if len(bad):
        d = int(np.searchsorted(end, bad[0], "right"))
        own_points = every[end[d] - size[d] : end[d]]
        raise ValueError(f"the breakpoints of column {d} do not ascend strictly: {own_points}")
    if len(degree) != len(size) or ((degree < 1) | (degree > 3)).any():
        raise ValueError(f"{len(size)} columns need degrees between 1 and 3, got {degree}")
    if len(np.unique(kind[kind > LEVELS])) > 1:
        raise ValueError(f"columns of several bases beside splines: {KINDS}, numbers {kind}")
    missing = np.zeros(len(size), bool)
    missing[size > 1] = np.isposinf(every[end[size > 1] - 1])
    n_bases = np.where(kind > LEVELS, n_functions + missing, size - 1 + degree)
    n_bases = np.where(size > 1, n_bases, 0)
    ends = end, np.cumsum(n_bases)
    first_knot, first = (np.concatenate([[0], one]).astype(np.intp) for one in ends)
    return Bases(every, first_knot, degree, first, False, kind, own)


@kept_for_recent
def as_columns(bases: Bases, dtype: np.dtype) -> Columns:
    """The map for rows of this dtype.  Breakpoints that collide in float32 make empty intervals."""
    size = np.diff(bases.first_knot)
    room = -(-size // TABLE) * TABLE
    at = np.concatenate([[0], np.cumsum(room)])
    place = np.arange(len(bases.knots)) + np.repeat(at[:-1] - bases.first_knot[:-1], size)
    last = place[bases.first_knot[1:][size > 0] - 1]
    rest = np.where(bases.has_missing, np.nan, np.inf).astype(dtype)
    knots, inverse = np.repeat(rest, room), np.zeros(at[-1], dtype)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        own = bases.knots.astype(dtype)  # beyond float32: infinity, as no row of float32 is there
        knots[place] = own
        inverse[place[:-1]] = 1 / np.diff(own)
    inverse[last] = 0
    # fresh arrays of one type, whatever a checkpoint or a worker made of them: one specialisation
    index = [np.array(a, dtype=np.intp) for a in (at, bases.n_intervals, bases.degree, bases.first)]
    begin, n_intervals, degree, first = index
    return Columns(knots, inverse, begin, n_intervals, degree, first, bool(bases.prepared))


@kernel
def coordinate_column(x, n_rows, columns, d, u):
    """Write the coordinates of x[:n_rows], values of column d, into `u` float32 in place."""
    a, b = columns.at[d], columns.at[d + 1]
    knots, inverse = columns.knots[a:b], columns.inverse[a:b]
    search_column(x, n_rows, knots, inverse, columns.n_intervals[d], u)


@kernel
def map_columns(values, which, columns, out, at):
    """Write the coordinates of values[i], of column which[i], to ``out[which[i], at:]`` in place.

    `values` is a tuple of AT_ONCE arrays; which[i] < 0: nothing.
    """
    for i in range(len(values)):
        d = which[i]
        if d >= 0:
            x, u = values[i], out[d][at:]
            if columns.n_intervals[d] > 0:
                coordinate_column(x, len(x), columns, d, u)
            else:
                for j in range(len(x)):
                    u[j] = 0


AT_ONCE = 8
"""Columns mapped in one call: each call waits for the interpreter's lock twice."""


class Coordinates:
    """The map of all columns as a `Convert`: a reader then gives chunks of coordinates."""

    def __init__(self, bases: Bases) -> None:
        self.bases, self._may_miss = bases, bases.has_missing
        self._columns: dict[np.dtype, Columns] = {}

    def __reduce__(self) -> tuple:
        return Coordinates, (self.bases,)

    def __call__(
        self, columns: Sequence[np.ndarray], which: Sequence[int], out: np.ndarray, at: int
    ) -> None:
        dtype = columns[0].dtype
        columns = [self._present(x, d) for x, d in zip(columns, which, strict=True)]
        if dtype not in self._columns:
            self._columns[dtype] = as_columns(self.bases, dtype)
        for i in range(0, len(which), AT_ONCE):
            values, d = tuple(columns[i : i + AT_ONCE]), np.full(AT_ONCE, -1, np.intp)
            d[: len(values)] = which[i : i + AT_ONCE]
            values += (AT_ONCE - len(values)) * values[:1]
            map_columns(values, d, self._columns[dtype], out, at)

    def _present(self, values: np.ndarray, d: int) -> np.ndarray:
        """The values, missing ones as +inf where column d has a level for them."""
        if not self._may_miss[d] or not np.isnan(values).any():
            return values
        values = np.where(np.isnan(values), values.dtype.type(np.inf), values)
        values.flags.writeable = False  # as all values come here: one specialisation
        return values


@kernel
def coordinate(x, columns, d):
    """Return the coordinate of one value of column d, the same bits as `coordinate_column`."""
    if columns.prepared:
        return np.float32(x)
    a, m = np.uintp(columns.at[d]), columns.n_intervals[d]
    j, step = 0, 1
    while 2 * step <= m:
        step *= 2
    while step > 0:
        # no branch: which half it is cannot be predicted
        trial = min(j + step, m)
        j = trial if x >= columns.knots[a + np.uintp(trial)] else j
        step //= 2
    return coordinate_within(x, columns, a + np.uintp(j), j)


@inlined
def coordinate_within(x, columns, place, j):
    """Return the coordinate of a value of interval j, which begins at knots[place]."""
    kind = columns.knots.dtype.type
    t = (kind(x) - columns.knots[place]) * columns.inverse[place]
    t = t if t > 0 else kind(0)
    t = t if t < 1 else kind(1)
    return np.float32(t + kind(j))


@kernel
def basis_values(u, n_intervals, degree, phi):
    """Write the degree + 1 splines active at u into `phi` in place; return the first's number."""
    j = min(int(u), n_intervals - 1)
    f = np.float64(u) - j
    g = 1.0 - f
    if degree == 1:
        phi[0] = g
        phi[1] = f
    elif degree == 2:
        phi[0] = 0.5 * g * g
        phi[1] = 0.5 * (1.0 + 2.0 * f * g)
        phi[2] = 0.5 * f * f
    else:
        phi[0] = g * g * g / 6.0
        phi[1] = (3.0 * f * f * f - 6.0 * f * f + 4.0) / 6.0
        phi[2] = (3.0 * g * g * g - 6.0 * g * g + 4.0) / 6.0
        phi[3] = f * f * f / 6.0
    return j


def evaluate(bases: Bases, d: int, x: np.ndarray) -> np.ndarray:
    """All functions of column d at the values x, in the dtype of x: (len(x), n_d) float64.

    NaN is missing.  The reference the kernels are tested against; for plots and tables, not rows.
    """
    x = np.ascontiguousarray(x, np.float32 if np.asarray(x).dtype == np.float32 else np.float64)
    if bases.first[d + 1] == bases.first[d]:
        return np.zeros((len(x), 0))
    return functions_at(bases, d, coordinates_of(bases, d, x))


def functions_at(bases: Bases, d: int, u: np.ndarray) -> np.ndarray:
    """(len(u), n_d) float64: all functions of column d at its coordinates u."""
    n, m = int(bases.first[d + 1] - bases.first[d]), int(bases.n_intervals[d])
    basis, degree = bases.basis(d), int(bases.degree[d])
    if basis.local:
        return basis.functions(u, n, m, degree)
    missing = int(bases.has_missing[d])
    out, gone = np.zeros((len(u), n)), u > m - missing
    out[:, : n - missing] = basis.functions(np.where(gone, 0, u), n - missing, m - missing, degree)
    if missing:
        out[gone] = 0.0
        out[gone, -1] = 1.0
    return out


def coordinates_of(bases: Bases, d: int, x: np.ndarray) -> np.ndarray:
    """(len(x),) float32 coordinates of values of column d, which has breakpoints."""
    u = np.empty(len(x), np.float32)
    if bases.prepared:
        u[:] = x
    else:
        x = np.where(np.isnan(x), x.dtype.type(np.inf), x)
        columns = as_columns(select_columns(bases, [d]), x.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            coordinate_column(x, len(x), columns, 0, u)
    return u


def nodes_of(bases: Bases, d: int, most: int) -> np.ndarray:
    """(k,) intp: the breakpoints of column d, of degree 1, that are nodes of its pairs.

    At most `most` of a column's values, evenly chosen, so at quantiles if the breakpoints are; all
    categories, and the level of missing values.
    """
    n = int(bases.first[d + 1] - bases.first[d])
    if n == 0 or bases.kind[d] == LEVELS:
        return np.arange(n)
    missing = int(bases.has_missing[d])
    finite = np.round(np.linspace(0, n - missing - 1, min(most, n - missing))).astype(np.intp)
    return np.append(finite, n - 1) if missing else finite


def select_columns(bases: Bases, chosen: Sequence[int]) -> Bases:
    """The bases of some columns, in this order."""
    knots = [bases.knots[slice(*bases.first_knot[d : d + 2])] for d in chosen]
    n_functions = [
        int(bases.first[d + 1] - bases.first[d] - bases.has_missing[d])
        for d in chosen
        if bases.kind[d] > LEVELS and bases.first[d + 1] > bases.first[d]
    ]
    most = max(n_functions, default=0)
    made = make_bases(knots, bases.degree[chosen], bases.kind[chosen], most, bases.own)
    return made._replace(prepared=bases.prepared)
