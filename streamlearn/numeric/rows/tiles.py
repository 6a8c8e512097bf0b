"""Splines over tiles of rows, column by column: look-ups, and sums of r Phi as moments.

In interval j a spline function is a polynomial in f = u - j, so f(x) is a look-up of degree + 1
numbers, and sum r Phi follows from the moments sum r f^q of every interval (one packed add a row).
u = M, f = 0 is an interval of its own: the value at the right end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..bases.bsplines import coordinate_column
from ..bases.splines import ENDS, POLYNOMIALS
from ..jit import inlined, kernel, sum_kernel
from ..simd.add import add_pair, add_quad, lookup_column

COPIES = 4
"""Accumulators of a tile: a row waits for the fourth row before it, not for the last."""


@kernel
def tile_rows(n_rows, n_columns):
    """Return the rows of a tile: coordinates of about 256 kB, between 256 and 1,024 rows."""
    return max(1, min(n_rows, 1024, max(256, 65536 // max(n_columns, 1) // 16 * 16)))


@inlined
def fill(out, n, value):
    """Set out[:n] to `value` in place.

    ``out[:n] = value`` would compile numba's broadcasting and its messages, 2 s in all.
    """
    for i in range(n):
        out[i] = value


@inlined
def load_column(rows, columns, d, start, n_rows, x, u):
    """Write the coordinates of rows start.. of column d into `u` in place; `x` is scratch."""
    flat = rows.flat[start * rows.row_step + d * rows.column_step :]
    if columns.prepared:
        copy_values(flat, rows.row_step, n_rows, u)
    else:
        copy_values(flat, rows.row_step, n_rows, x)
        coordinate_column(x, n_rows, columns, d, u)


@inlined
def copy_values(flat, step, n_rows, out):
    """Copy every step-th value into `out` in place."""
    if step == 1:
        for i in range(n_rows):
            out[i] = flat[i]
    else:
        for i in range(n_rows):
            out[i] = flat[i * step]


@kernel
def interval_tables(columns, W):
    """Return (K, 4, room): plane q, place at[d] + j holds the coefficient of f^q in interval j."""
    tables = np.zeros((len(W), 4, columns.at[-1]), W.dtype)
    for k in range(len(W)):
        for d in range(len(columns.degree)):
            first, m, degree = columns.first[d], columns.n_intervals[d], columns.degree[d]
            for j in range(m):
                for q in range(degree + 1):
                    total = 0.0
                    for a in range(degree + 1):
                        total += POLYNOMIALS[degree, a, q] * W[k, first + j + a]
                    tables[k, q, columns.at[d] + j] = total
            total = 0.0
            for a in range(degree + 1 if m > 0 else 0):
                total += ENDS[degree, a] * W[k, first + m - 1 + a]
            tables[k, 0, columns.at[d] + m if m > 0 else 0] += total
    return tables


@inlined
def add_margins(u, n_rows, degree, m, a, b, table, F):
    """Add a column's function at u[:n_rows] to `F` in place.

    The column has m intervals and the places a..b of its class's `table` (4, room).  Numbers are
    handed over, not `Columns`: numba passes a NamedTuple word by word, counting references.
    """
    if degree == 1:
        if m == 1:
            low, slope = table[0, a], table[1, a]
            for i in range(n_rows):
                F[i] += low + F.dtype.type(u[i]) * slope
        else:
            lookup_column(u, n_rows, table[0, a:b], table[1, a:b], F)
        return
    for i in range(n_rows):
        j = np.uintp(u[i])
        f = F.dtype.type(u[i] - np.float32(j))
        j += np.uintp(a)
        F[i] += table[0, j] + f * (table[1, j] + f * (table[2, j] + f * table[3, j]))


@sum_kernel
def dot_plain(u, r, n_rows):
    """Return sum u r."""
    total = r.dtype.type(0)
    for i in range(n_rows):
        total += r.dtype.type(u[i]) * r[i]
    return total


@sum_kernel
def sum_plain(r, n_rows):
    """Return sum r in float64."""
    total = 0.0
    for i in range(n_rows):
        total += r[i]
    return total


class Scratch(NamedTuple):
    """Buffers of `add_moments` for tiles of n rows."""

    at: np.ndarray
    """(n,) uint32."""
    values: np.ndarray
    """(4 n,) in the arithmetic's dtype."""
    sums: np.ndarray
    """COPIES accumulators of `size` numbers, all 0 between calls."""
    size: int


@kernel
def make_scratch(n_rows, columns, W):
    """Return buffers in the dtype of W."""
    size = 4
    for d in range(len(columns.degree)):
        size = max(size, 4 * (columns.n_intervals[d] + 1))
    values = np.empty(max(4 * n_rows, size), W.dtype)
    return Scratch(np.empty(n_rows, np.uint32), values, np.zeros(COPIES * size, W.dtype), size)


@inlined
def add_moments(u, n_rows, degree, m, a, r, scratch, M):
    """Add a column's moments of r to M[a:] in place.

    An interval has r (1, f) at degree 1, r (1, f, f^2, f^3) otherwise.
    """
    used = m + 1
    if degree > 1:
        scatter_powers(u, n_rows, r, scratch)
        flush(scratch, 4 * used, M, a)
    elif used == 2:  # a binary column: f = u, and what u = 1 adds to interval 0 is the same
        M[a] += sum_plain(r, n_rows)
        M[a + 1] += dot_plain(u, r, n_rows)
    else:
        scatter_pairs(u, n_rows, r, scratch)
        flush(scratch, 2 * used, M, a)


@inlined
def flush(scratch, used, M, a):
    """Add the accumulators to M[a:a + used] in place and set them to 0."""
    fold(scratch, used)
    values, out = scratch.values, M[a:]
    for i in range(used):
        out[i] += values[i]


@inlined
def fold(scratch, used):
    """Write the sums of the accumulators into ``scratch.values`` and set them to 0, in place."""
    size, values = scratch.size, scratch.values
    # four slices, not four offsets: only so do the loops vectorise
    first, second = scratch.sums[:size], scratch.sums[size:]
    third, fourth = scratch.sums[2 * size :], scratch.sums[3 * size :]
    for i in range(used):
        values[i] = (first[i] + second[i]) + (third[i] + fourth[i])
    for i in range(used):
        first[i] = 0
    for i in range(used):
        second[i] = 0
    for i in range(used):
        third[i] = 0
    for i in range(used):
        fourth[i] = 0


@kernel
def add_splines(columns, M, width, G):
    """Add the splines' sums that moments say to `G` (dim,) in place.

    Moment q of interval j of column d is M[4 at[d] + j width + q]; columns of degree 2 and 3 always
    have the width 4.
    """
    for d in range(len(columns.degree)):
        first, m, degree = columns.first[d], columns.n_intervals[d], columns.degree[d]
        a, w = 4 * columns.at[d], width if degree == 1 else 4
        for j in range(m):
            for s in range(degree + 1):
                for q in range(degree + 1):
                    G[first + j + s] += POLYNOMIALS[degree, s, q] * M[a + j * w + q]
        if m > 0:
            for s in range(degree + 1):
                G[first + m - 1 + s] += ENDS[degree, s] * M[a + m * w]


@inlined
def scatter_pairs(u, n_rows, r, scratch):
    """Add (r, r f) to each row's interval of ``scratch.sums`` in place."""
    values, at, sums, size = scratch.values, scratch.at, scratch.sums, scratch.size
    for i in range(n_rows):
        j = np.int32(u[i])
        f = r.dtype.type(u[i] - np.float32(j))
        at[i] = 2 * j
        values[2 * i] = r[i]
        values[2 * i + 1] = r[i] * f
    whole = n_rows // COPIES * COPIES
    for i in range(0, whole, COPIES):
        add_pair(sums, np.intp(at[i]), values, 2 * i)
        add_pair(sums, np.intp(at[i + 1]) + size, values, 2 * i + 2)
        add_pair(sums, np.intp(at[i + 2]) + 2 * size, values, 2 * i + 4)
        add_pair(sums, np.intp(at[i + 3]) + 3 * size, values, 2 * i + 6)
    for i in range(whole, n_rows):
        add_pair(sums, np.intp(at[i]), values, 2 * i)


@kernel
def scatter_powers(u, n_rows, r, scratch):
    """Add r (1, f, f^2, f^3) to each row's interval of ``scratch.sums`` in place."""
    values, at = scratch.values, scratch.at
    for i in range(n_rows):
        j = np.int32(u[i])
        f = r.dtype.type(u[i] - np.float32(j))
        at[i] = 4 * j
        values[4 * i] = r[i]
        values[4 * i + 1] = r[i] * f
        values[4 * i + 2] = r[i] * f * f
        values[4 * i + 3] = r[i] * f * f * f
    add_quads(n_rows, scratch)


@kernel
def add_quads(n_rows, scratch):
    """Add every row's four values to its interval of ``scratch.sums`` in place."""
    values, at, sums, size = scratch.values, scratch.at, scratch.sums, scratch.size
    whole = n_rows // COPIES * COPIES
    for i in range(0, whole, COPIES):
        add_quad(sums, np.intp(at[i]), values, 4 * i)
        add_quad(sums, np.intp(at[i + 1]) + size, values, 4 * i + 4)
        add_quad(sums, np.intp(at[i + 2]) + 2 * size, values, 4 * i + 8)
        add_quad(sums, np.intp(at[i + 3]) + 3 * size, values, 4 * i + 12)
    for i in range(whole, n_rows):
        add_quad(sums, np.intp(at[i]), values, 4 * i)
