"""Terms of two columns beside splines: a row meets four products of each pair, and no other.

Between the nodes of its columns a pair is bilinear in the row's shares v and w of its cell.  So a
decision looks up four numbers of each pair, a gradient adds r (1, w, v, v w) to the cell, and a
Gram adds what the row meets to what it meets, (2p + 4m)^2 / 2 products for m pairs of p columns.
Explicit functions take half the square of their number: for 20 columns of 36 splines and ten pairs
900,000 in place of 3,200, and 22 times as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.bases.bsplines import basis_values
from ...numeric.jit import inlined, kernel
from ...numeric.rows.tiles import add_splines, fill, interval_tables, make_scratch, tile_rows
from ...numeric.simd.quads import add_outer
from .kernels_dense import add_tile_margins, add_tile_moments, load_tile
from .kernels_loss import load_targets, make_loss_buffers, tile_losses

BLOCK_NBYTES = 1 << 21
"""Bytes of the coordinates and shares of a Gram's block of rows."""


class PairTerms(NamedTuple):
    """The terms of two columns as kernels take them; those of constant columns are left out."""

    column: np.ndarray
    """(q,) intp: the columns whose nodes some pair has."""
    n_intervals: np.ndarray
    """(q,) intp: intervals between their breakpoints."""
    begin: np.ndarray
    """(q,) intp: the place of each one's first interval in what follows."""
    node: np.ndarray
    """int32: number of the node at or below each interval."""
    low: np.ndarray
    """float64: coordinate of that node."""
    scale: np.ndarray
    """float64: 1 / the distance to the next node."""
    one: np.ndarray
    """(m,) intp: the first column of each pair, by its place in `column`, and"""
    other: np.ndarray
    """the second."""
    first: np.ndarray
    """(m,) intp: the first coefficient of each pair."""
    step: np.ndarray
    """(m,) intp: coefficients from a node of the first column to the next one."""
    cell: np.ndarray
    """(m + 1,) intp: where the cells of each pair begin."""


class Places(NamedTuple):
    """The places of a tile's rows between nodes."""

    node: np.ndarray
    """(q, n) int32: number of the node at or below."""
    share: np.ndarray
    """(q, n) float64: share of the way to the next one."""


@kernel
def make_places(terms, n):
    """Return places for tiles of n rows."""
    q = len(terms.column)
    return Places(np.empty((q, n), np.int32), np.empty((q, n)))


@kernel
def set_places(terms, U, u_step, n, places):
    """Write the places of the rows with coordinates `U`, `u_step` numbers a column, in place."""
    for i in range(len(terms.column)):
        u, last = U[terms.column[i] * u_step :], np.int32(terms.n_intervals[i] - 1)
        begin, below = terms.begin[i], terms.node
        low, scale, node, share = terms.low, terms.scale, places.node[i], places.share[i]
        for r in range(n):
            at = np.uintp(begin + min(np.int32(u[r]), last))
            node[r] = below[at]
            share[r] = (np.float64(u[r]) - low[at]) * scale[at]


@kernel
def cell_tables(terms, W):
    """Return (K, 4 cells): the coefficients of 1, w, v and v w in each cell."""
    tables = np.empty((len(W), 4 * terms.cell[-1]))
    for k in range(len(W)):
        for i in range(len(terms.one)):
            step, at = terms.step[i], 4 * terms.cell[i]
            for c in range(terms.cell[i + 1] - terms.cell[i]):
                q = terms.first[i] + c // (step - 1) * step + c % (step - 1)
                here, right = W[k, q], W[k, q + 1]
                above, across = W[k, q + step], W[k, q + step + 1]
                tables[k, at] = here
                tables[k, at + 1] = right - here
                tables[k, at + 2] = above - here
                tables[k, at + 3] = (across - above) - (right - here)
                at += 4
    return tables


@kernel
def add_pair_margins(terms, places, n, table, F):
    """Add every pair's term at the tile's places to `F` in place."""
    for i in range(len(terms.one)):
        one, other, begin, width = terms.one[i], terms.other[i], terms.cell[i], terms.step[i] - 1
        a, b, v, w = places.node[one], places.node[other], places.share[one], places.share[other]
        for r in range(n):
            at = np.uintp(4 * (begin + a[r] * width + b[r]))
            line = table[at] + w[r] * table[at + np.uintp(1)]
            slope = table[at + np.uintp(2)] + w[r] * table[at + np.uintp(3)]
            F[r] += line + v[r] * slope


@kernel
def add_pair_moments(terms, places, n, r, left, acc):
    """Add r (1, w, v, v w) to each row's cell of every pair in `acc` in place."""
    for i in range(len(terms.one)):
        one, other, begin, width = terms.one[i], terms.other[i], terms.cell[i], terms.step[i] - 1
        a, b, v, w = places.node[one], places.node[other], places.share[one], places.share[other]
        for t in range(n):
            left[2 * t], left[2 * t + 1] = r[t], r[t] * v[t]
        for t in range(n):
            add_outer(acc, np.intp(4 * (begin + a[t] * width + b[t])), left, 2 * t, w[t])


@kernel
def add_pair_sums(terms, acc, out):
    """Add the sums of the functions that moments of cells say to `out` (dim,) in place."""
    for i in range(len(terms.one)):
        step, at = terms.step[i], 4 * terms.cell[i]
        for c in range(terms.cell[i + 1] - terms.cell[i]):
            q = terms.first[i] + c // (step - 1) * step + c % (step - 1)
            ones, right, left, both = acc[at], acc[at + 1], acc[at + 2], acc[at + 3]
            out[q] += (ones - right) - (left - both)
            out[q + 1] += right - both
            out[q + step] += left - both
            out[q + step + 1] += both
            at += 4


@kernel
def margins(rows, columns, terms, W, F):
    """Write Phi W into `F` (m, K) in place."""
    p, n_classes = rows.n_columns, len(W)
    tile = tile_rows(rows.n_rows, p)
    x, U = np.empty(tile, rows.flat.dtype), np.empty(p * tile, np.float32)
    f, places = np.empty(tile), make_places(terms, tile)
    tables, cells = interval_tables(columns, W), cell_tables(terms, W)
    for start in range(0, rows.n_rows, tile):
        n = min(tile, rows.n_rows - start)
        load_tile(rows, columns, start, n, x, U)
        set_places(terms, U, tile, n, places)
        for k in range(n_classes):
            fill(f, n, 0.0)
            counts = columns.n_intervals
            add_tile_margins(U, tile, n, columns.degree, counts, columns.at, tables[k], f)
            add_pair_margins(terms, places, n, cells[k], f)
            for i in range(n):
                F[start + i, k] = f[i]


@kernel
def gradient(rows, columns, terms, code, point, y, weight, sums):
    """Add the rows' losses, slopes and gradients at `point` to `sums` in place."""
    n_classes, p = len(point.W), rows.n_columns
    tile = tile_rows(rows.n_rows, p)
    x, U = np.empty(tile, rows.flat.dtype), np.empty(p * tile, np.float32)
    f, r, counts = np.empty((n_classes, tile)), np.empty((n_classes, tile)), columns.n_intervals
    buffers, scratch = make_loss_buffers(tile), make_scratch(tile, columns, point.W)
    places, left = make_places(terms, tile), np.empty(2 * tile)
    tables, cells = interval_tables(columns, point.W), cell_tables(terms, point.W)
    wanted = len(sums.gradient)
    M, acc = np.zeros((wanted, 4 * columns.at[p])), np.zeros((wanted, 4 * terms.cell[-1]))
    for start in range(0, rows.n_rows, tile):
        n = min(tile, rows.n_rows - start)
        load_tile(rows, columns, start, n, x, U)
        set_places(terms, U, tile, n, places)
        for k in range(n_classes):
            fill(f[k], n, point.b[k])
            add_tile_margins(U, tile, n, columns.degree, counts, columns.at, tables[k], f[k])
            add_pair_margins(terms, places, n, cells[k], f[k])
        for k in range(n_classes):
            load_targets(y, weight, start, n, k, n_classes, buffers)
            total = tile_losses(code, n, f[k], r[k], buffers)
            sums.value[k] += total[0]
            sums.slope[k] += total[1]
        for k in range(wanted):
            add_tile_moments(U, tile, n, columns.degree, counts, columns.at, r[k], scratch, M[k])
            add_pair_moments(terms, places, n, r[k], left, acc[k])
    for k in range(wanted):
        add_splines(columns, M[k], 2, sums.gradient[k])
        add_pair_sums(terms, acc[k], sums.gradient[k])


@kernel
def gram(rows, columns, terms, part, n_parts, h, r, sums):
    """Add the pairs' part of sum h Phi Phi' (upper triangle), sum h Phi and sum r Phi in place.

    Of the pairs part, part + n_parts, ... with all columns and with all pairs from themselves on:
    threads may share the work, and every number is summed by one of them in the order of the rows.
    """
    p = rows.n_columns
    room = BLOCK_NBYTES // (4 * p + 12 * len(terms.column) + 68)
    block = max(1, min(rows.n_rows, max(1024, min(8192, room))))
    x, U = np.empty(block, rows.flat.dtype), np.empty(p * block, np.float32)
    places, at, left = make_places(terms, block), np.empty(block, np.int32), np.empty(4 * block)
    right = np.empty(4 * block)
    for start in range(0, rows.n_rows, block):
        n = min(block, rows.n_rows - start)
        load_tile(rows, columns, start, n, x, U)
        set_places(terms, U, block, n, places)
        for i in range(part, len(terms.one), n_parts):
            step = terms.step[i]
            if len(r) > 0:
                set_products(terms, i, places, n, r[start:], at, left)
                add_products(at, step, n, left, sums.b)
            set_products(terms, i, places, n, h[start:], at, left)
            add_products(at, step, n, left, sums.g)
            for d in range(p):
                m, degree, first = columns.n_intervals[d], columns.degree[d], columns.first[d]
                if m > 0 and degree == 1:
                    add_line_products(U[d * block :], n, m, first, at, step, left, sums.H)
                elif m > 0:
                    add_spline_products(U[d * block :], n, m, degree, first, at, step, left, sums.H)
            for e in range(i, len(terms.one)):
                add_pair_products(terms, e, places, n, at, step, left, right, sums.H)


@kernel
def set_products(terms, i, places, n, weight, at, left):
    """Write each row's four functions of pair i, times its weight, into `left` (4 n) in place.

    The number of the first of them goes into `at`.
    """
    one, other, first, step = terms.one[i], terms.other[i], terms.first[i], terms.step[i]
    a, b, v, w = places.node[one], places.node[other], places.share[one], places.share[other]
    for t in range(n):
        at[t] = first + a[t] * step + b[t]
        below, above = weight[t] * (1.0 - v[t]), weight[t] * v[t]
        left[4 * t], left[4 * t + 1] = below * (1.0 - w[t]), below * w[t]
        left[4 * t + 2], left[4 * t + 3] = above * (1.0 - w[t]), above * w[t]


@kernel
def add_products(at, step, n, left, out):
    """Add each row's four numbers to those functions' places in `out` (dim,) in place."""
    for t in range(n):
        q = np.uintp(at[t])
        out[q] += left[4 * t]
        out[q + np.uintp(1)] += left[4 * t + 1]
        out[q + np.uintp(step)] += left[4 * t + 2]
        out[q + np.uintp(step + 1)] += left[4 * t + 3]


@inlined
def add_to_line(H, row, q, step, factor, left, t):
    """Add factor times row t's four numbers of `left` to H[row], at q, q + 1 and a step on.

    Numbers at neighbouring places are loaded and stored together.
    """
    across, s = q + step, 4 * t
    low, high = factor * left[s], factor * left[s + 1]
    far, corner = factor * left[s + 2], factor * left[s + 3]
    low, high = H[row, q] + low, H[row, q + np.uintp(1)] + high
    far, corner = H[row, across] + far, H[row, across + np.uintp(1)] + corner
    H[row, q], H[row, q + np.uintp(1)] = low, high
    H[row, across], H[row, across + np.uintp(1)] = far, corner


@kernel
def add_line_products(u, n, m, first, at, step, left, H):
    """Add the products of a column of degree 1 with the four functions of a pair in place."""
    last, above = np.int32(m - 1), np.uintp(step)
    for t in range(n):
        j = min(np.int32(u[t]), last)
        f = np.float64(u[t] - np.float32(j))
        row, q = np.uintp(first + j), np.uintp(at[t])
        add_to_line(H, row, q, above, 1.0 - f, left, t)
        add_to_line(H, row + np.uintp(1), q, above, f, left, t)


@kernel
def add_spline_products(u, n, m, degree, first, at, step, left, H):
    """Add the products of a column of any degree with the four functions of a pair in place."""
    phi, above = np.empty(4), np.uintp(step)
    for t in range(n):
        row, q = np.uintp(first + basis_values(u[t], m, degree, phi)), np.uintp(at[t])
        for s in range(degree + 1):
            add_to_line(H, row + np.uintp(s), q, above, phi[s], left, t)


@kernel
def add_pair_products(terms, e, places, n, at, step, left, right, H):
    """Add the products of a pair's four functions with the four of pair e in place.

    Of a pair with itself both triangles, of which the lower one counts for nothing.
    """
    one, other, first, width = terms.one[e], terms.other[e], terms.first[e], terms.step[e]
    a, b, v, w = places.node[one], places.node[other], places.share[one], places.share[other]
    above, line = np.uintp(step), np.uintp(width)
    for t in range(n):
        right[4 * t], right[4 * t + 1] = (1.0 - v[t]) * (1.0 - w[t]), (1.0 - v[t]) * w[t]
        right[4 * t + 2], right[4 * t + 3] = v[t] * (1.0 - w[t]), v[t] * w[t]
    for t in range(n):
        row, q = np.uintp(at[t]), np.uintp(first + a[t] * width + b[t])
        add_to_line(H, row, q, line, left[4 * t], right, t)
        add_to_line(H, row + np.uintp(1), q, line, left[4 * t + 1], right, t)
        add_to_line(H, row + above, q, line, left[4 * t + 2], right, t)
        add_to_line(H, row + above + np.uintp(1), q, line, left[4 * t + 3], right, t)
