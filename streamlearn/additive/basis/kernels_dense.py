"""Dense rows: margins, gradients, explicit features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...numeric.bases.bsplines import as_columns, basis_values
from ...numeric.jit import kernel
from ...numeric.rows.dense import flat_rows
from ...numeric.rows.tiles import (
    add_margins,
    add_moments,
    add_splines,
    fill,
    interval_tables,
    load_column,
    make_scratch,
    tile_rows,
)
from .kernels_loss import load_targets, make_loss_buffers, tile_losses


@kernel
def coordinates(rows, columns, U):
    """Write every value's coordinate into `U` (p, m) float32 in place."""
    x = np.empty(rows.n_rows, rows.flat.dtype)
    for d in range(rows.n_columns):
        if columns.n_intervals[d] > 0:
            load_column(rows, columns, d, 0, rows.n_rows, x, U[d])
        else:
            fill(U[d], rows.n_rows, np.float32(0))


@kernel
def coordinates_by_row(rows, columns, U):
    """Write every value's coordinate into `U` (m, p) float32 in place."""
    tile = tile_rows(rows.n_rows, rows.n_columns)
    x, u = np.empty(tile, rows.flat.dtype), np.empty(tile, np.float32)
    for start in range(0, rows.n_rows, tile):
        n = min(tile, rows.n_rows - start)
        for d in range(rows.n_columns):
            if columns.n_intervals[d] > 0:
                load_column(rows, columns, d, start, n, x, u)
            else:
                fill(u, n, np.float32(0))
            for i in range(n):
                U[start + i, d] = u[i]


@kernel
def margins(rows, columns, W, F):
    """Write Phi W into `F` (m, K) in place."""
    tile, n_classes = tile_rows(rows.n_rows, 1), len(W)
    x, u = np.empty(tile, rows.flat.dtype), np.empty(tile, np.float32)
    f = np.empty((n_classes, tile), W.dtype)
    tables = interval_tables(columns, W)
    for start in range(0, rows.n_rows, tile):
        n = min(tile, rows.n_rows - start)
        for k in range(n_classes):
            fill(f[k], n, W.dtype.type(0))
        for d in range(rows.n_columns):
            if columns.n_intervals[d] > 0:
                load_column(rows, columns, d, start, n, x, u)
                a, b = columns.at[d], columns.at[d + 1]
                for k in range(n_classes):
                    degree, m = columns.degree[d], columns.n_intervals[d]
                    add_margins(u, n, degree, m, a, b, tables[k], f[k])
        for k in range(n_classes):
            for i in range(n):
                F[start + i, k] = f[k, i]


class TileCoordinates(NamedTuple):
    """Memory that holds, or gets, the coordinates u of a tile's rows."""

    flat: np.ndarray
    """float32: room for a tile, or all rows' own, column by column."""
    ready: bool


def tile_coordinates(X, columns):
    """The rows' own coordinates if X holds them column-major, else room for a tile's."""
    ready = columns.prepared and X.size > 0 and X.strides[0] == 4 and X.flags.writeable
    if ready and X.strides[1] >= 4 and X.strides[1] % 4 == 0:
        span = len(X) + (X.shape[1] - 1) * (X.strides[1] // 4)
        return TileCoordinates(as_strided(X, (span,), (4,)), True)
    tile = tile_rows(*X.shape)
    return TileCoordinates(np.empty(X.shape[1] * tile, np.float32), False)


@kernel
def load_tile(rows, columns, start, n, x, U):
    """Write the coordinates of rows start.. into `U` in place, len(x) numbers a column."""
    for d in range(rows.n_columns):
        if columns.n_intervals[d] > 0:
            load_column(rows, columns, d, start, n, x, U[d * len(x) :])


# The loops over a tile's columns are functions of their own, of the arrays they read: in a larger
# one numba counts the references of every slice, 200 ns a column, more where threads share arrays.


@kernel
def add_tile_margins(U, u_step, n, degree, n_intervals, at, table, F):
    """Add every column's function at the tile's coordinates to `F` in place."""
    for d in range(len(degree)):
        if n_intervals[d] > 0:
            u = U[d * u_step :]
            add_margins(u, n, degree[d], n_intervals[d], at[d], at[d + 1], table, F)


@kernel
def add_tile_moments(U, u_step, n, degree, n_intervals, at, r, scratch, M):
    """Add every column's moments of r over the tile to `M` in place."""
    for d in range(len(degree)):
        if n_intervals[d] > 0:
            add_moments(U[d * u_step :], n, degree[d], n_intervals[d], 4 * at[d], r, scratch, M)


@kernel
def gradient(rows, columns, coordinates, code, point, y, weight, sums):
    """Add the rows' losses, slopes and gradients at `point` to `sums` in place."""
    n_classes, p, dtype = len(point.W), rows.n_columns, point.W.dtype
    tile = tile_rows(rows.n_rows, p)
    x, U, ready = np.empty(tile, rows.flat.dtype), coordinates.flat, coordinates.ready
    u_step, counts = rows.column_step if ready else tile, columns.n_intervals
    f, r = np.empty((n_classes, tile), dtype), np.empty((n_classes, tile), dtype)
    buffers, scratch = make_loss_buffers(tile), make_scratch(tile, columns, point.W)
    tables = interval_tables(columns, point.W)
    wanted = len(sums.gradient)
    M = np.zeros((wanted, 4 * columns.at[p]))
    for start in range(0, rows.n_rows, tile):
        n = min(tile, rows.n_rows - start)
        if ready:
            U = coordinates.flat[start:]
        else:
            load_tile(rows, columns, start, n, x, U)
        for k in range(n_classes):
            fill(f[k], n, dtype.type(point.b[k]))
            add_tile_margins(U, u_step, n, columns.degree, counts, columns.at, tables[k], f[k])
        for k in range(n_classes):
            load_targets(y, weight, start, n, k, n_classes, buffers)
            total = tile_losses(code, n, f[k], r[k], buffers)
            sums.value[k] += total[0]
            sums.slope[k] += total[1]
        for k in range(wanted):
            add_tile_moments(U, u_step, n, columns.degree, counts, columns.at, r[k], scratch, M[k])
    for k in range(wanted):
        add_splines(columns, M[k], 2, sums.gradient[k])


@kernel
def embed_tile(rows, columns, data, indices):
    """Write every row's active splines into `data`, `indices` (m, sum of degree + 1) in place."""
    x, u = np.empty(rows.n_rows, rows.flat.dtype), np.empty(rows.n_rows, np.float32)
    phi, at = np.empty(4), 0
    for d in range(rows.n_columns):
        m, degree = columns.n_intervals[d], columns.degree[d]
        if m == 0:
            continue
        load_column(rows, columns, d, 0, rows.n_rows, x, u)
        for i in range(rows.n_rows):
            first = columns.first[d] + basis_values(u[i], m, degree, phi)
            for q in range(degree + 1):
                data[i, at + q] = phi[q]
                indices[i, at + q] = first + q
        at += degree + 1


def embed(X, bases):
    """Phi of dense rows, degree + 1 splines a column, as (data, indices, indptr, n_columns).

    Written apart from `functions.embed`, which would write and read all dim functions of a row.
    """
    width = int(((bases.degree + 1) * (bases.n_intervals > 0)).sum())
    m = len(X)
    data, indices = np.empty((m, width)), np.empty((m, width), np.int32)
    embed_tile(flat_rows(X), as_columns(bases, X.dtype), data, indices)
    return data.ravel(), indices.ravel(), np.arange(m + 1, dtype=np.int64) * width, bases.dim
