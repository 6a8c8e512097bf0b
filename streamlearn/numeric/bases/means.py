"""Means of all columns' functions over histograms: what centres them, and what they are at 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..jit import kernel
from .bsplines import Bases, as_columns, basis_values, coordinate_column, functions_at

POINTS = 8
"""A bin's mass is spread over: the error is below that of the histogram itself."""


class Pieces(NamedTuple):
    """Histograms of columns, one column after the other."""

    lo: np.ndarray
    """(m,) float64: mass[i] is spread evenly over [lo[i], hi[i]]; what has a mass of its own has
    lo == hi, +inf if it is the missing value."""
    hi: np.ndarray
    mass: np.ndarray
    ends: np.ndarray
    """(p + 1,) where the columns begin and end."""

    @classmethod
    def of(cls, parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Pieces:
        """The pieces (lo, hi, mass) of every column, joined."""
        none = np.empty(0)
        lo, hi, mass = (np.concatenate([none, *(part[i] for part in parts)]) for i in range(3))
        return cls(lo, hi, mass, np.cumsum([0, *(len(part[0]) for part in parts)]))


class Spread(NamedTuple):
    """Histograms of columns as points with masses, one column after the other."""

    d: np.ndarray
    """(m,) intp columns."""
    u: np.ndarray
    """(m,) float32 coordinates."""
    share: np.ndarray
    """(m,) of the column's mass."""
    used: np.ndarray
    """The columns that have functions, and"""
    ends: np.ndarray
    """(len(used) + 1,) where their points begin and end."""


def spread_points(bases: Bases, pieces: Pieces) -> Spread:
    """The points of each column's histogram.

    All columns at once: one by one they cost a thousand columns half a second.
    """
    used = np.flatnonzero(np.diff(bases.first))
    lo, hi, mass = (np.asarray(part, np.float64) for part in pieces[:3])
    pieces = Pieces(lo, hi, mass, pieces.ends)
    most = len(pieces.lo) + (POINTS - 1) * np.count_nonzero(pieces.lo < pieces.hi)
    d, x, share = np.empty(most, np.intp), np.empty(most), np.empty(most)
    ends = np.zeros(len(used) + 1, np.intp)
    points_of_pieces(pieces, used, d, x, share, ends)
    n = ends[-1]
    u, columns = np.empty(n, np.float32), as_columns(bases._replace(prepared=False), x.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        coordinates_of_points(x, used, ends, columns, u)
    return Spread(d[:n], u, share[:n], used, ends)


@kernel
def points_of_pieces(pieces, used, d, x, share, ends):
    """Write the points of the columns `used`, their columns and shares, and `ends` in place."""
    n = 0
    for i in range(len(used)):
        first, last, total = pieces.ends[used[i]], pieces.ends[used[i] + 1], 0.0
        for k in range(first, last):
            total += pieces.mass[k]
        for k in range(first, last):
            lo, hi = pieces.lo[k], pieces.hi[k]
            points = POINTS if lo < hi else 1
            part = pieces.mass[k] / max(total, 1e-300) / points
            for q in range(points):
                t = (q + 0.5) / points
                x[n] = lo * (1 - t) + hi * t if lo < hi else lo
                d[n], share[n] = used[i], part
                n += 1
        ends[i + 1] = n


@kernel
def coordinates_of_points(x, used, ends, columns, u):
    """Write the coordinates of x, the points of the columns `used`, into `u` in place."""
    for i in range(len(used)):
        a, b = ends[i], ends[i + 1]
        coordinate_column(x[a:b], b - a, columns, used[i], u[a:b])


def mean_functions(bases: Bases, points: Spread) -> np.ndarray:
    """(dim,) mean of every function over its column's histogram; 0 where it has no mass."""
    out, splines = np.zeros(bases.dim), bases.local
    columns = as_columns(bases, points.u.dtype)
    add_means(points.d, points.u, points.share, columns, splines, out)
    for own, a, b in _others(bases, points):
        out[slice(*bases.first[own : own + 2])] = points.share[a:b] @ functions_at(
            bases, own, points.u[a:b]
        )
    return out


def mean_sizes(bases: Bases, points: Spread, W: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """(p,) mean of |Phi'w - shift| over each column's histogram, and over the K of W (K, dim).

    `shifts` (K, p).
    """
    out, splines = np.zeros(len(bases.degree)), bases.local
    columns, W = as_columns(bases, points.u.dtype), np.ascontiguousarray(W, np.float64)
    add_sizes(points.d, points.u, points.share, columns, splines, W, shifts, out)
    for own, a, b in _others(bases, points):
        f = functions_at(bases, own, points.u[a:b]) @ W[:, slice(*bases.first[own : own + 2])].T
        out[own] = points.share[a:b] @ np.abs(f - shifts[:, own]).mean(axis=1)
    return out


def _others(bases: Bases, points: Spread) -> list[tuple[int, int, int]]:
    """(column, its first point, its last) of the columns that have no splines."""
    ends = zip(points.used, points.ends[:-1], points.ends[1:], strict=True)
    return [(d, a, b) for d, a, b in ends if not bases.local[d]]


@kernel
def add_means(d, u, share, columns, splines, out):
    """Add the splines at the points to `out` (dim,) in place."""
    phi = np.empty(4)
    for i in range(len(d)):
        c = d[i]
        if splines[c]:
            first = columns.first[c]
            first += basis_values(u[i], columns.n_intervals[c], columns.degree[c], phi)
            for q in range(columns.degree[c] + 1):
                out[first + q] += share[i] * phi[q]


@kernel
def add_sizes(d, u, share, columns, splines, W, shifts, out):
    """Add the mean sizes of the curves at the points to `out` (p,) in place."""
    phi = np.empty(4)
    for i in range(len(d)):
        c = d[i]
        if splines[c]:
            first = columns.first[c]
            first += basis_values(u[i], columns.n_intervals[c], columns.degree[c], phi)
            for k in range(len(W)):
                f = -shifts[k, c]
                for q in range(columns.degree[c] + 1):
                    f += phi[q] * W[k, first + q]
                out[c] += share[i] * abs(f) / len(W)
