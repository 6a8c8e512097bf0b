"""Sparse rows: an absent value is 0, its splines are c = Phi(0), cost O(values stored).

Sums over all columns are restored from those over stored values.  With A = Phi - c the margins are
c'W + A W; and since the splines of a column sum to 1, what absent values owe to sum r Phi is
(sum r - sum of the stored part) c.
"""

from __future__ import annotations

import numpy as np

from ...data.source import Csr
from ...numeric.bases.bsplines import Bases, as_columns, basis_values, coordinate
from ...numeric.jit import kernel
from ...numeric.rows.tiles import add_splines, fill, interval_tables, sum_plain
from .kernels_loss import load_targets, make_loss_buffers, tile_losses

TILE = 256


@kernel
def coordinates(data, indices, columns, out):
    """Write every stored value's coordinate into `out` float32 in place."""
    for at in range(len(data)):
        d = indices[at]
        out[at] = coordinate(data[at], columns, d) if columns.n_intervals[d] > 0 else np.float32(0)


@kernel
def values_at_zero(columns, tables, u0):
    """Return (K, p): every column's function at 0."""
    p = len(columns.degree)
    out = np.zeros((len(tables), p), tables.dtype)
    for d in range(p):
        if columns.n_intervals[d] > 0:
            for k in range(len(tables)):
                out[k, d] = column_value(u0[d], columns, d, tables[k])
    return out


@kernel
def column_value(u, columns, d, table):
    """Return column d's function at coordinate u."""
    j = np.uintp(u)
    f = table.dtype.type(u - np.float32(j))
    j += np.uintp(columns.at[d])
    if columns.degree[d] == 1:
        return table[0, j] + f * table[1, j]
    return table[0, j] + f * (table[1, j] + f * (table[2, j] + f * table[3, j]))


@kernel
def add_value_moments(u, columns, d, r, M):
    """Add r (1, f, ..) of one value to its interval of `M` in place, four places an interval."""
    j = np.uintp(u)
    f = np.float64(u - np.float32(j))
    at = np.uintp(4) * (np.uintp(columns.at[d]) + j)
    M[at] += r
    M[at + np.uintp(1)] += r * f
    if columns.degree[d] > 1:
        M[at + np.uintp(2)] += r * f * f
        M[at + np.uintp(3)] += r * f * f * f


@kernel
def margins(data, indices, indptr, columns, u0, W, F):
    """Write Phi W into `F` (m, K) in place; u0 holds every column's coordinate of 0."""
    tables = interval_tables(columns, W)
    zero = values_at_zero(columns, tables, u0)
    for i in range(len(indptr) - 1):
        for k in range(len(W)):
            F[i, k] = sum_plain(zero[k], len(u0))
        for at in range(indptr[i], indptr[i + 1]):
            d = indices[at]
            if columns.n_intervals[d] > 0:
                u = coordinate(data[at], columns, d)
                for k in range(len(W)):
                    F[i, k] += column_value(u, columns, d, tables[k]) - zero[k, d]


@kernel
def gradient(data, indices, indptr, columns, u0, code, point, y, weight, sums):
    """Add the rows' losses, slopes and gradients at `point` to `sums` in place."""
    n_classes, dtype = len(point.W), point.W.dtype
    n_rows, wanted = len(indptr) - 1, len(sums.gradient)
    f, r = np.empty((n_classes, TILE), dtype), np.empty((n_classes, TILE), dtype)
    buffers = make_loss_buffers(TILE)
    tables = interval_tables(columns, point.W)
    zero = values_at_zero(columns, tables, u0)
    M = np.zeros((wanted, 4 * columns.at[len(u0)]))
    before = sums.slope.copy()
    u = np.empty(most_values(indptr), np.float32)
    for start in range(0, n_rows, TILE):
        n = min(TILE, n_rows - start)
        first = indptr[start]
        for k in range(n_classes):
            fill(f[k], n, dtype.type(point.b[k] + sum_plain(zero[k], len(u0))))
        for i in range(n):
            for at in range(indptr[start + i], indptr[start + i + 1]):
                d = indices[at]
                if columns.n_intervals[d] > 0:
                    here = coordinate(data[at], columns, d)
                    u[at - first] = here
                    for k in range(n_classes):
                        f[k, i] += column_value(here, columns, d, tables[k]) - zero[k, d]
        for k in range(n_classes):
            load_targets(y, weight, start, n, k, n_classes, buffers)
            part = tile_losses(code, n, f[k], r[k], buffers)
            sums.value[k] += part[0]
            sums.slope[k] += part[1]
        for i in range(n if wanted > 0 else 0):
            for at in range(indptr[start + i], indptr[start + i + 1]):
                d = indices[at]
                if columns.n_intervals[d] > 0:
                    for k in range(n_classes):
                        add_value_moments(u[at - first], columns, d, r[k, i], M[k])
    for k in range(wanted):
        stored = np.zeros(columns.first[len(u0)])
        add_splines(columns, M[k], 4, stored)
        add_absent(columns, u0, sums.slope[k] - before[k], stored, sums.gradient[k])


@kernel
def most_values(indptr):
    """Return the number of values of the fullest tile."""
    most, n_rows = 1, len(indptr) - 1
    for start in range(0, n_rows, TILE):
        most = max(most, indptr[min(start + TILE, n_rows)] - indptr[start])
    return most


@kernel
def add_absent(columns, u0, total, stored, out):
    """Add the stored sums and what the absent values owe to `out` (dim,) in place."""
    phi = np.empty(4)
    for d in range(len(u0)):
        a, b = columns.first[d], columns.first[d + 1]
        if a == b:
            continue
        rest = total
        for j in range(a, b):
            rest -= stored[j]
            out[j] += stored[j]
        j = a + basis_values(u0[d], columns.n_intervals[d], columns.degree[d], phi)
        for q in range(columns.degree[d] + 1):
            out[j + q] += rest * phi[q]


@kernel
def zero_coordinates(columns, u0):
    """Write every column's coordinate of 0 into `u0` in place; columns not prepared."""
    for d in range(len(u0)):
        u0[d] = coordinate(0.0, columns, d) if columns.n_intervals[d] > 0 else np.float32(0)


def coordinates_of_zero(bases, dtype):
    """(p,) float32: every column's coordinate of 0 in the arithmetic of the rows."""
    u0 = np.empty(len(bases.degree), np.float32)
    zero_coordinates(as_columns(bases._replace(prepared=False), dtype), u0)
    return u0


@kernel
def scatter_coordinates(data, indices, indptr, columns, U):
    """Write the stored values' coordinates into `U` (p, m) in place."""
    for i in range(len(indptr) - 1):
        for at in range(indptr[i], indptr[i + 1]):
            d = indices[at]
            if columns.n_intervals[d] > 0:
                U[d, i] = coordinate(data[at], columns, d)


def dense_coordinates(X: Csr, bases: Bases) -> np.ndarray:
    """The coordinates of all columns, (m, p) float32 column-major, absent values included."""
    U, bases = np.empty(X.shape[::-1], np.float32), bases.main
    U[:] = coordinates_of_zero(bases, X.data.dtype)[:, None]
    scatter_coordinates(*X[:3], as_columns(bases, X.data.dtype), U)
    return U.T
