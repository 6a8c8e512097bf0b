"""Uniform B-splines of a piecewise-linear coordinate: one map and one formula for every column.

A column's breakpoints k_0 < ... < k_M map x to u in [0, M]: u = j + (x - k_j) / (k_{j+1} - k_j),
clamped, so that equally spaced splines of degree 1 to 3 in u serve uniform knots, quantile knots and
few-valued columns (breakpoints at the values, degree 1: indicators at the values) alike, and the
difference penalty stays exact.  u is rounded to float32, and everything (solvers, the explicit
embedding, predictions, the scratch cache) computes from the rounded u, so all agree.

    j = min(floor u, M - 1),  f = u - j,  g = 1 - f;  the degree + 1 splines from number j on are
    degree 1: g, f      2: g^2/2, (1 + 2f - 2f^2)/2, f^2/2
    degree 3: g^3/6, (3f^3 - 6f^2 + 4)/6, (-3f^3 + 3f^2 + 3f + 1)/6, f^3/6
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .jit import kernel


class Bases(NamedTuple):
    """The spline basis of every column."""

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

    @property
    def dim(self) -> int:
        """Number of coefficients of all columns."""
        return int(self.first[-1])

    @property
    def n_intervals(self) -> np.ndarray:
        """(p,) M_d; 0 for a constant column."""
        return np.maximum(np.diff(self.first_knot) - 1, 0)


class Columns(NamedTuple):
    """`Bases` as the kernels take them: the map in the arithmetic of X."""

    knots: np.ndarray
    inverse: np.ndarray
    """1 / (k_{j+1} - k_j), and 0 at a column's last breakpoint."""
    first_knot: np.ndarray
    degree: np.ndarray
    first: np.ndarray
    prepared: bool


def make_bases(breakpoints: Sequence[np.ndarray], degrees: np.ndarray | Sequence[int]) -> Bases:
    """Bases from each column's strictly ascending breakpoints; fewer than two mean: constant."""
    degree = np.asarray(degrees, dtype=np.intp)
    knots = [np.asarray(k, dtype=np.float64) for k in breakpoints]
    for d, k in enumerate(knots):
        if len(k) > 1 and not (np.isfinite(k).all() and (np.diff(k) > 0).all()):
            raise ValueError(f"the breakpoints of column {d} do not ascend strictly: {k}")
    if len(degree) != len(knots) or ((degree < 1) | (degree > 3)).any():
        raise ValueError(f"{len(knots)} columns need as many degrees between 1 and 3, got {degrees}")
    size = np.array([len(k) for k in knots], dtype=np.intp)
    n_bases = np.where(size > 1, size - 1 + degree, 0)
    return Bases(
        np.concatenate([np.empty(0), *knots]),
        np.concatenate([[0], np.cumsum(size)]).astype(np.intp),
        degree,
        np.concatenate([[0], np.cumsum(n_bases)]).astype(np.intp),
        False,
    )


def as_columns(bases: Bases, dtype: np.dtype) -> Columns:
    """The map for rows of this dtype.  Breakpoints that collide in float32 make empty intervals."""
    knots = bases.knots.astype(dtype)
    inverse = np.zeros_like(knots)
    with np.errstate(divide="ignore", over="ignore"):
        np.divide(1, np.diff(knots), out=inverse[:-1])
    inverse[bases.first_knot[1:][np.diff(bases.first_knot) > 0] - 1] = 0
    # fresh arrays of one type, whatever a checkpoint or a worker made of them: one specialisation
    index = [np.array(a, dtype=np.intp) for a in (bases.first_knot, bases.degree, bases.first)]
    return Columns(knots, inverse, *index, bool(bases.prepared))


@kernel
def coordinate(x, columns, d):
    """Return u, float32, of the value x in column d."""
    if columns.prepared:
        return np.float32(x)
    first, last = columns.first_knot[d], columns.first_knot[d + 1]
    j = 0
    for i in range(first + 1, last):
        j += x >= columns.knots[i]
    # A comparison with NaN is False: inf - inf and 0 * inf, possible at the range's ends, become 0.
    t = (x - columns.knots[first + j]) * columns.inverse[first + j]
    t = t if t > 0 else x * 0
    t = t if t < 1 else x * 0 + 1
    return np.float32(t + type_of(x, j))


@kernel
def type_of(x, j):
    """Return the small integer j in the arithmetic of x."""
    return x * 0 + j


@kernel
def basis_values(u, n_intervals, degree, phi):
    """Write the degree + 1 splines active at u into `phi` in place; return the first one's number."""
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
    """All splines of column d at the values x, in the dtype of x: (len(x), n_d) float64.

    The reference the kernels are tested against; meant for plots and tables, not for rows.
    """
    x = np.asarray(x)
    x = x if x.dtype == np.float32 else x.astype(np.float64)
    columns = as_columns(bases, x.dtype)
    n = int(bases.first[d + 1] - bases.first[d])
    out = np.zeros((len(x), n))
    if n == 0:
        return out
    m, degree = int(bases.n_intervals[d]), int(bases.degree[d])
    if bases.prepared:
        u = x.astype(np.float32)
    else:
        k = slice(*bases.first_knot[d : d + 2])
        knots, inverse = columns.knots[k], columns.inverse[k]
        j = np.searchsorted(knots[1:], x, side="right")
        with np.errstate(invalid="ignore", over="ignore"):
            t = (x - knots[j]) * inverse[j]
        t = np.where(t > 0, t, x.dtype.type(0))
        t = np.where(t < 1, t, x.dtype.type(1))
        u = (t + j.astype(x.dtype)).astype(np.float32)
    phi = np.empty(degree + 1)
    for i, value in enumerate(u):
        j = basis_values.py_func(value, m, degree, phi) if hasattr(basis_values, "py_func") else (
            basis_values(value, m, degree, phi)
        )
        out[i, j : j + degree + 1] = phi
    return out


def mean_basis(bases: Bases, d: int, lo: np.ndarray, hi: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Mean of column d's splines over a histogram: `mass[i]` spread evenly over [lo[i], hi[i]].

    A value with a mass of its own has lo == hi.  Eight points a bin: the error is below that of the
    histogram itself.
    """
    points = (np.arange(8) + 0.5) / 8
    lo, hi, mass = (np.asarray(a, dtype=np.float64)[:, None] for a in (lo, hi, mass))
    x = lo * (1 - points) + hi * points
    phi = evaluate(bases, d, x.ravel())
    share = np.broadcast_to(mass / (8 * mass.sum()), x.shape).ravel()
    return share @ phi
