"""Means of all columns' functions over histograms: what centres them, and what they are at 0."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..jit import kernel
from .bsplines import (
    Bases,
    Columns,
    as_columns,
    basis_values,
    coordinate_within,
    functions_at,
)

GAUSS = np.array([0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6])
"""Points of Gauss's rule of two points on [0, 1], equal weights: exact for cubic polynomials, which
splines are between two breakpoints."""
POINTS = 8
"""Evenly spaced points, between two breakpoints, of functions that are no polynomials: their error
is below that of the histogram itself."""


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


def mean_functions(bases: Bases, blocks: Iterable[Pieces]) -> np.ndarray:
    """(dim,) mean of every function over its column's histogram; 0 where it has no mass.

    Exact for splines of a mass that is spread evenly.  The blocks hold all columns, in order.
    """
    out, views, at = np.zeros(bases.dim), _views(bases), 0
    for pieces in blocks:
        add_means(pieces, at, *views, out)
        for d, u, share in _points_of_others(bases, pieces, at, views):
            out[slice(*bases.first[d : d + 2])] = share @ functions_at(bases, d, u)
        at += len(pieces.ends) - 1
    return out


def mean_sizes(
    bases: Bases, blocks: Iterable[Pieces], W: np.ndarray, shifts: np.ndarray
) -> np.ndarray:
    """(p,) mean of |Phi'w - shift| over each column's histogram, and over the K of W (K, dim).

    `shifts` (K, p).
    """
    out, views, at = np.zeros(len(bases.degree)), _views(bases), 0
    W, shifts = (np.ascontiguousarray(a, np.float64) for a in (W, shifts))
    for pieces in blocks:
        add_sizes(pieces, at, *views, W, shifts, out)
        for d, u, share in _points_of_others(bases, pieces, at, views):
            f = functions_at(bases, d, u) @ W[:, slice(*bases.first[d : d + 2])].T
            out[d] = share @ np.abs(f - shifts[:, d]).mean(axis=1)
        at += len(pieces.ends) - 1
    return out


def _views(bases: Bases) -> tuple[Columns, np.ndarray, np.ndarray]:
    """Kernels' arguments: map of float64 values, (p,) bool local, (p,) levels of missing values."""
    if bases.prepared:
        bases = bases._replace(prepared=False)
    columns = as_columns(bases, np.dtype(np.float64))
    return columns, np.array(bases.local, bool), bases.has_missing.astype(np.intp)


def _points_of_others(
    bases: Bases, pieces: Pieces, begin: int, views: tuple[Columns, np.ndarray, np.ndarray]
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(column, coordinates, shares) of the columns of a block whose functions are not local."""
    columns, local, missing = views
    used = np.diff(bases.first) > 0
    stop = begin + len(pieces.ends) - 1
    for d in begin + np.flatnonzero((used & ~local)[begin:stop]):
        u, share = np.empty((2, most_points(pieces, begin, columns)))
        n_finite = columns.n_intervals[d] - columns.degree[d] * missing[d]
        n = points_of_column(pieces, d - begin, d, columns, False, n_finite, u, share)
        yield int(d), u[:n].astype(np.float32), share[:n]


@kernel
def most_points(pieces, begin, columns):
    """The most points that any column's histogram is taken at."""
    most = 1
    for i in range(len(pieces.ends) - 1):
        n_pieces = pieces.ends[i + 1] - pieces.ends[i]
        most = max(most, n_pieces + columns.n_intervals[begin + i] + 3)
    return POINTS * most


@kernel
def points_of_column(pieces, i, d, columns, is_spline, n_finite, u, share):
    """Write the coordinates and shares of the points of column d, in place; how many.

    Its histogram is number i of the pieces.  A piece is cut at the breakpoints, so that each part
    is within one of the `n_finite` intervals; what lies outside is where the outermost one is.
    """
    n, total, within = 0, 0.0, 0
    first, last, at = pieces.ends[i], pieces.ends[i + 1], np.uintp(columns.at[d])
    knots, n_intervals = columns.knots, columns.n_intervals[d]
    for k in range(first, last):
        total += pieces.mass[k]
    total = max(total, 1e-300)
    for k in range(first, last):
        a, hi, part = pieces.lo[k], pieces.hi[k], pieces.mass[k] / total
        if part == 0.0:
            continue
        # pieces ascend: this one begins where the last one did, or not far on
        if a < knots[at + np.uintp(within)]:
            within = 0
        while within < n_intervals and a >= knots[at + np.uintp(within + 1)]:
            within += 1
        begin = coordinate_within(a, columns, at + np.uintp(within), within)
        if not a < hi:
            u[n], share[n] = begin, part
            n += 1
            continue
        width = 0.5 * hi - 0.5 * a  # halves: the difference may be beyond float64
        j = np.intp(begin)
        z = min(hi, knots[at])
        if a < z:
            u[n], share[n] = 0.0, part * ((0.5 * z - 0.5 * a) / width)
            n, a = n + 1, z
        while a < hi and j < n_finite:
            place = at + np.uintp(j)
            z = min(hi, knots[place + np.uintp(1)])
            if a < z:
                inside = 0.5 * z - 0.5 * a  # all of it, nearly always: no division
                mine = part if inside == width and width > 0.0 else part * (inside / width)
                k0, inverse = knots[place], columns.inverse[place]
                f0, f1 = (a - k0) * inverse, (z - k0) * inverse
                points = 2 if is_spline else POINTS
                for q in range(points):
                    t = GAUSS[q] if is_spline else (q + 0.5) / points
                    u[n] = j + min(max(f0 * (1.0 - t) + f1 * t, 0.0), 1.0)
                    share[n] = mine / points
                    n += 1
                a = z
            j += 1
        if a < hi:
            u[n], share[n] = n_finite, part * ((0.5 * hi - 0.5 * a) / width)
            n += 1
    return n


@kernel
def add_means(pieces, begin, columns, local, missing, out):
    """Add the mean functions of the `local` columns from `begin` on to `out` (dim,) in place."""
    most, phi = most_points(pieces, begin, columns), np.empty(4)
    u, share = np.empty(most), np.empty(most)
    for i in range(len(pieces.ends) - 1):
        d = begin + i
        first, degree = columns.first[d], columns.degree[d]
        if first == columns.first[d + 1] or not local[d]:
            continue
        n_finite = columns.n_intervals[d] - degree * missing[d]
        n = points_of_column(pieces, i, d, columns, True, n_finite, u, share)
        for k in range(n):
            at = first + basis_values(u[k], columns.n_intervals[d], degree, phi)
            for q in range(degree + 1):
                out[at + q] += share[k] * phi[q]


@kernel
def add_sizes(pieces, begin, columns, local, missing, W, shifts, out):
    """Add the mean sizes of the curves of the `local` columns to `out` (p,) in place."""
    most, phi = most_points(pieces, begin, columns), np.empty(4)
    u, share = np.empty(most), np.empty(most)
    for i in range(len(pieces.ends) - 1):
        d = begin + i
        first, degree = columns.first[d], columns.degree[d]
        if first == columns.first[d + 1] or not local[d]:
            continue
        n_finite = columns.n_intervals[d] - degree * missing[d]
        n = points_of_column(pieces, i, d, columns, True, n_finite, u, share)
        size = out[d]
        for k in range(n):
            at = first + basis_values(u[k], columns.n_intervals[d], degree, phi)
            for j in range(len(W)):
                f = -shifts[j, d]
                for q in range(degree + 1):
                    f += phi[q] * W[j, at + q]
                size += share[k] * abs(f) / len(W)
        out[d] = size
