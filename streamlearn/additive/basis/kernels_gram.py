"""Gram matrices of the splines, weighted row by row, in float64.

A pair of columns (d, e) needs the moments sum h f_d^s f_e^q of every pair of intervals: one packed
add a row at degree 1, none for two binary columns (a dot product).  Moments become splines once in
a block of rows.
"""

from __future__ import annotations

import numpy as np

from ...numeric.bases.bsplines import basis_values
from ...numeric.bases.splines import POLYNOMIALS
from ...numeric.jit import kernel, sum_kernel
from ...numeric.rows.tiles import copy_values, fill, load_column, tile_rows
from ...numeric.simd.add import add_quad
from ...numeric.simd.quads import add_outer

TILE = 512


@kernel
def gram(rows, columns, part, n_parts, h, r, sums):
    """Add sum h Phi Phi' (upper triangle), sum h Phi and sum r Phi to `sums` in place.

    Of the columns part, part + n_parts, ... only: threads may share the work, and every number is
    summed by one of them in the order of the rows.
    """
    p = rows.n_columns
    block = max(1, min(rows.n_rows, max(1024, min(8192, 524288 // max(p, 1)))))
    x, U = np.empty(block, rows.flat.dtype), np.empty((p, block), np.float32)
    most = 1
    for d in range(p):
        most = max(most, columns.n_intervals[d])
    left, none = np.empty((4, block)), np.zeros(block, np.uint32)
    pairs, fraction = np.empty(2 * block), np.empty(TILE)
    at, values = np.empty(TILE, np.uint32), np.empty(4 * TILE)
    here, acc, line = np.empty(block, np.uint32), np.zeros(16 * most * most), np.empty(most + 3)
    for start in range(0, rows.n_rows, block):
        n = min(block, rows.n_rows - start)
        for d in range(part, p):
            if columns.n_intervals[d] > 0:
                load_column(rows, columns, d, start, n, x, U[d])
                if (d - part) % n_parts != 0:
                    continue
                for q in range(2 if len(r) > 0 else 1):
                    weight, out = (h, sums.g) if q == 0 else (r, sums.b)
                    copy_values(weight[start:], 1, n, left[0])
                    add_powers(U[d], n, columns, d, left[0], none, 0, at, values, acc)
                    flush_line(columns, d, acc, 0, 4, line)
                    add_line(line, columns, d, 1.0, out)
                    fill(acc, 4 * columns.n_intervals[d], 0.0)
        for d in range(part, p, n_parts):
            m, degree = columns.n_intervals[d], columns.degree[d]
            if m == 0:
                continue
            copy_values(h[start:], 1, n, left[0])
            set_left(U[d], n, m, degree, left, here)
            if degree == 1:
                set_pairs(n, left, pairs)
            for e in range(d, p):
                if columns.n_intervals[e] > 0:
                    width = 4 * columns.n_intervals[e]
                    if degree == 1 and columns.degree[e] == 1:
                        if m == 1 and width == 4:
                            add_dots(U[e], n, left, acc)
                        else:
                            add_squares(U[e], n, columns, e, pairs, here, width, at, fraction, acc)
                        flush_squares(columns, d, e, acc, width, sums.H)
                        fill(acc, m * width, 0.0)
                    else:
                        for s in range(degree + 1):
                            add_powers(
                                U[e], n, columns, e, left[s], here, (degree + 1) * width,
                                at, values, acc[s * width :],
                            )  # fmt: skip
                        flush_pair(columns, d, e, acc, (degree + 1) * width, width, line, sums.H)
                        fill(acc, m * (degree + 1) * width, 0.0)


@kernel
def set_left(u, n, m, degree, left, here):
    """Write the interval of u[:n] into `here` and left[0] f^s into `left`[s] in place."""
    for i in range(n):
        here[i] = min(np.int32(u[i]), np.int32(m - 1))
    for s in range(degree):
        for i in range(n):
            left[s + 1, i] = left[s, i] * np.float64(u[i] - np.float32(here[i]))


@kernel
def add_powers(u, n, columns, e, weight, here, stride, at, values, acc):
    """Add weight (1, f, f^2, f^3) to `acc` in place, at here * stride + 4 j."""
    last = np.int32(columns.n_intervals[e] - 1)
    stride = np.uint32(stride)
    for start in range(0, n, TILE):
        stop = min(TILE, n - start)
        for i in range(stop):
            j = min(np.int32(u[start + i]), last)
            f = np.float64(u[start + i] - np.float32(j))
            at[i] = np.uint32(here[start + i] * stride) + np.uint32(4 * j)
            w = weight[start + i]
            values[4 * i] = w
            values[4 * i + 1] = w * f
            values[4 * i + 2] = w * f * f
            values[4 * i + 3] = w * f * f * f
        for i in range(stop):
            add_quad(acc, np.intp(at[i]), values, 4 * i)


@kernel
def set_pairs(n, left, pairs):
    """Write h, h f of each row to `pairs` in place."""
    for i in range(n):
        pairs[2 * i], pairs[2 * i + 1] = left[0, i], left[1, i]


@kernel
def add_squares(u, n, columns, e, pairs, here, stride, at, fraction, acc):
    """Add h (1, f_e, f_d, f_d f_e) to `acc` in place, at here * stride + 4 j."""
    last = np.int32(columns.n_intervals[e] - 1)
    stride = np.uint32(stride)
    for start in range(0, n, TILE):
        stop = min(TILE, n - start)
        for i in range(stop):
            j = min(np.int32(u[start + i]), last)
            fraction[i] = np.float64(u[start + i] - np.float32(j))
            at[i] = here[start + i] * stride + np.uint32(4 * j)
        for i in range(stop):
            add_outer(acc, np.intp(at[i]), pairs, 2 * (start + i), fraction[i])


@sum_kernel
def add_dots(u, n, left, acc):
    """Add sum h (1, u_e, u_d, u_d u_e) to acc[:4] in place: two binary columns."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        f = np.float64(u[i])
        a += left[0, i]
        b += left[0, i] * f
        c += left[1, i]
        d += left[1, i] * f
    acc[0] += a
    acc[1] += b
    acc[2] += c
    acc[3] += d


@kernel
def flush_line(columns, e, acc, begin, step, line):
    """Write column e's splines' sums, of moments acc[begin + step j + q], to `line` in place."""
    m, degree = columns.n_intervals[e], columns.degree[e]
    fill(line, m + degree, 0.0)
    for j in range(m):
        for b in range(degree + 1):
            total = 0.0
            for q in range(degree + 1):
                total += POLYNOMIALS[degree, b, q] * acc[begin + step * j + q]
            line[j + b] += total


@kernel
def add_line(line, columns, e, factor, out):
    """Add factor line to column e's part of `out` in place."""
    first, last = columns.first[e], columns.first[e + 1]
    for j in range(last - first):
        out[first + j] += factor * line[j]


@kernel
def flush_pair(columns, d, e, acc, stride, power, line, H):
    """Add the block of (d, e) that the moments acc[i stride + s power + 4 j + q] say to `H`."""
    first, degree = columns.first[d], columns.degree[d]
    for i in range(columns.n_intervals[d]):
        for s in range(degree + 1):
            flush_line(columns, e, acc, i * stride + s * power, 4, line)
            for a in range(degree + 1):
                add_line(line, columns, e, POLYNOMIALS[degree, a, s], H[first + i + a])


@kernel
def flush_squares(columns, d, e, acc, stride, H):
    """`flush_pair` of two columns of degree 1."""
    first, begin = columns.first[d], columns.first[e]
    for i in range(columns.n_intervals[d]):
        above, below = H[first + i], H[first + i + 1]
        for j in range(columns.n_intervals[e]):
            at = i * stride + 4 * j
            ones, right, left, both = acc[at], acc[at + 1], acc[at + 2], acc[at + 3]
            above[begin + j] += (ones - right) - (left - both)
            above[begin + j + 1] += right - both
            below[begin + j] += left - both
            below[begin + j + 1] += both


@kernel
def diagonal_blocks(rows, columns, h, begin, out):
    """Add each column's own block of the Gram, its upper triangle, to out[begin[d]:] in place."""
    tile, phi = tile_rows(rows.n_rows, 1), np.empty(4)
    x, u = np.empty(tile, rows.flat.dtype), np.empty(tile, np.float32)
    for start in range(0, rows.n_rows, tile):
        n = min(tile, rows.n_rows - start)
        for d in range(rows.n_columns):
            m, degree = columns.n_intervals[d], columns.degree[d]
            if m == 0:
                continue
            load_column(rows, columns, d, start, n, x, u)
            width, first = columns.first[d + 1] - columns.first[d], begin[d]
            for i in range(n):
                at = first + basis_values(u[i], m, degree, phi) * (width + 1)
                for a in range(degree + 1):
                    left = h[start + i] * phi[a]
                    for b in range(a, degree + 1):
                        out[np.uintp(at + a * width + b)] += left * phi[b]
