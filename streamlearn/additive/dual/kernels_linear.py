"""Dual epochs when every column is of degree 1, the default: look-ups instead of products.

What a step adds to a column's w depends on the penalty only through L on vectors that sum to 0, as
Phi - c does, for w matters up to a constant.  So a shape of L serves for all penalties of an order:

    POINTS  L = s I             order 0      the two active coefficients (dense rows)
    RAMPS   L = s min(i, j)     order 1      w_i += delta s min(i, u), u the coordinate
    TABLES  any                 order 2      two rows of a table (sparse rows: order 0 too)

|Psi|^2 and t'Phi of a row are found once for all epochs.  Same steps as `kernels`, which
serves every degree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.jit import inlined, kernel
from ...numeric.simd.add import add_pair, add_two_rows
from ...numeric.simd.prefetch import LINE, prefetch
from ...numeric.simd.ramps import add_ramp
from .kernels_codes import AHEAD, code_margin
from .kernels_step import class_target, dual_step
from .kernels_tables import restore_constants

POINTS, RAMPS, TABLES = 0, 1, 2
ONE, TWO, FOUR, NODE = np.uintp(1), np.uintp(2), np.uintp(4), np.uintp(8)
PIECE = np.uintp(128)
"""Columns of a dense row that are visited together, to and fro: w is larger than the first cache,
which still holds what was visited last."""


class LinearRows(NamedTuple):
    """Coordinates of a chunk's rows, dense and row-major or sparse."""

    u: np.ndarray
    """(m p,) or (nnz,) float32."""
    indices: np.ndarray
    """(nnz,) int32; dense: empty."""
    indptr: np.ndarray
    """(m + 1,) int64; dense: empty."""
    row_step: int


class Shape(NamedTuple):
    """The tables of a penalty, up to what no row sees."""

    kind: int
    scale: np.ndarray
    """(p,) s of every column."""
    t: np.ndarray
    """(dim,) L c and"""
    s: np.ndarray
    """(p,) c'L c of the centred columns; zeros for sparse rows, whose c is the value at 0."""


class Layout(NamedTuple):
    """Where columns lie in the padded coefficients and tables, unsigned."""

    first: np.ndarray
    """(p,) where column d begins in w."""
    stride: np.ndarray
    """(p,) length of its part of w, and of a row of its table."""
    begin: np.ndarray
    """(p,) where its table begins."""
    column: np.ndarray
    """(n,) the columns that are not constant."""
    used: np.ndarray
    """(p,) whether it is one of them."""


@kernel
def make_layout(columns, padded):
    """Return the `Layout`."""
    p = len(columns.degree)
    first, stride, begin = np.zeros(p, np.uintp), np.zeros(p, np.uintp), np.zeros(p, np.uintp)
    column, used, n = np.zeros(p, np.uintp), np.zeros(p, np.bool_), 0
    for d in range(p):
        first[d], begin[d] = padded.at[d], padded.begin[d]
        stride[d] = padded.at[d + 1] - padded.at[d]
        if columns.n_intervals[d] > 0:
            column[n], used[d] = d, True
            n += 1
    return Layout(first, stride, begin, column[:n], used)


@kernel
def interval_nodes(columns, padded, shape):
    """Return NODE numbers an interval: 0 to 2 give |Psi|^2 in powers of f, 3 and 4 give t'Phi."""
    nodes = np.zeros(8 * padded.room)
    for d in range(len(columns.degree)):
        stride, first = padded.at[d + 1] - padded.at[d], columns.first[d]
        for j in range(columns.n_intervals[d] + 1 if columns.n_intervals[d] > 0 else 0):
            at, place = 8 * (padded.at[d] + j), padded.begin[d] + j * (stride + 1)
            if j == columns.n_intervals[d]:  # the column's largest value: f is 0
                if shape.kind == TABLES:
                    a = padded.table[place]
                else:
                    a = shape.scale[d] * (j if shape.kind == RAMPS else 1)
                nodes[at] = a - 2.0 * shape.t[first + j] + shape.s[d]
                nodes[at + 3] = shape.t[first + j]
                continue
            if shape.kind == TABLES:
                a, b = padded.table[place], padded.table[place + 1]
                c = padded.table[place + stride + 1]
            elif shape.kind == RAMPS:
                a, b, c = shape.scale[d] * j, shape.scale[d] * j, shape.scale[d] * (j + 1)
            else:
                a, b, c = shape.scale[d], 0.0, shape.scale[d]
            low, high = shape.t[first + j], shape.t[first + j + 1]
            nodes[at] = a - 2.0 * low + shape.s[d]
            nodes[at + 1] = 2.0 * (b - a) - 2.0 * (high - low)
            nodes[at + 2] = a - 2.0 * b + c
            nodes[at + 3] = low
            nodes[at + 4] = high - low
    return nodes


@inlined
def load_row(rows, layout, i, here, f, column):
    """Write the row's intervals, fractions and columns in place; return how many values count."""
    u, n = rows.u, np.uintp(0)
    if len(rows.indptr) > 0:
        for at in range(np.uintp(rows.indptr[i]), np.uintp(rows.indptr[i + ONE])):
            d = np.uintp(rows.indices[at])
            if layout.used[d]:
                j = np.int32(u[at])
                f[n] = u[at] - np.float32(j)
                here[n], column[n] = layout.first[d] + np.uintp(j), d
                n += ONE
        return n
    n, begin = np.uintp(len(layout.column)), i * np.uintp(rows.row_step)
    for v in range(n):
        d = layout.column[v]
        j = np.int32(u[begin + d])
        f[v] = u[begin + d] - np.float32(j)
        here[v] = layout.first[d] + np.uintp(j)
    return n


@kernel
def row_norms(rows, columns, padded, shape, out):
    """Write |Psi|^2 and t'Phi of every row into `out` (m, 2) in place, the intercept left out."""
    layout, nodes = make_layout(columns, padded), interval_nodes(columns, padded, shape)
    most = most_values(rows, layout)
    here, f, column = np.zeros(most, np.uintp), np.zeros(most), np.zeros(most, np.uintp)
    for i in range(np.uintp(len(out))):
        norm, along = 0.0, 0.0
        for v in range(load_row(rows, layout, i, here, f, column)):
            at, x = NODE * here[v], f[v]
            norm += nodes[at] + x * (nodes[at + ONE] + x * nodes[at + TWO])
            along += nodes[at + FOUR - ONE] + x * nodes[at + FOUR]
        out[i, 0], out[i, 1] = norm, along


@kernel
def most_values(rows, layout):
    """Return the most values a row has."""
    most = len(layout.column) if len(rows.indptr) == 0 else 1
    for i in range(len(rows.indptr) - 1):
        most = max(most, rows.indptr[i + 1] - rows.indptr[i])
    return most


@inlined
def look_up_margin(w, begin, here, f, n):
    """Return the row's Phi'w; two sums, so that one addition does not wait for the last."""
    total, other = 0.0, 0.0
    for v in range(np.uintp(0), n - n % TWO, TWO):
        at, to = begin + here[v], begin + here[v + ONE]
        total += w[at] + f[v] * (w[at + ONE] - w[at])
        other += w[to] + f[v + ONE] * (w[to + ONE] - w[to])
    if n % TWO > 0:
        at = begin + here[n - ONE]
        total += w[at] + f[n - ONE] * (w[at + ONE] - w[at])
    return total + other


@inlined
def place_row(rows, first, column, i, slot, f):
    """Write the places and fractions of a dense row, one class's, in place; return how many."""
    u, n, begin = rows.u, np.uintp(len(column)), i * np.uintp(rows.row_step)
    if n == np.uintp(rows.row_step):  # every column counts: eight values at a time
        for d in range(n):
            j = np.int32(u[begin + d])
            slot[d], f[d] = np.uint32(first[d] + j), u[begin + d] - np.float32(j)
        return n
    for v in range(n):
        d = column[v]
        j = np.int32(u[begin + d])
        slot[v], f[v] = np.uint32(first[d] + j), u[begin + d] - np.float32(j)
    return n


@inlined
def piece_of(b, n, up):
    """Return where piece b of n columns begins and ends, counted from the last if not `up`."""
    last = (n - ONE) // PIECE
    begin = PIECE * (b if up else last - b)
    return begin, min(begin + PIECE, n)


@inlined
def row_margin(w, slot, f, n, up, sums):
    """Return one class's Phi'w of a dense row, whose pieces are visited in either order."""
    for b in range((n + PIECE - ONE) // PIECE):
        begin, end = piece_of(b, n, up)
        sums[begin // PIECE] = code_margin(slot, f, w, begin, end)
    total = 0.0
    for b in range((n + PIECE - ONE) // PIECE):
        total += sums[b]
    return total


@inlined
def step_points(delta, scale, w, slot, f, n, up, pairs):
    """`step_columns` of one class's dense row where L = s I, `scale` its columns', in place."""
    for b in range((n + PIECE - ONE) // PIECE):
        begin, end = piece_of(b, n, up)
        for v in range(begin, end):
            whole, at = delta * scale[v], TWO * (v - begin)
            part = whole * np.float64(f[v])
            pairs[at], pairs[at + ONE] = whole - part, part
        for v in range(begin, end):
            add_pair(w, np.intp(slot[v]), pairs, np.intp(TWO * (v - begin)))


@inlined
def step_columns(delta, shape, table, layout, column, here, f, n, w, begin):
    """Add delta L (Phi - c) of every value's column to the class's coefficients in place."""
    if shape.kind == POINTS:
        for v in range(n):
            d, at = column[v], begin + here[v]
            whole = delta * shape.scale[d]
            part = whole * f[v]
            w[at] += whole - part
            w[at + ONE] += part
    elif shape.kind == RAMPS:
        for v in range(n):
            d = column[v]
            at = layout.first[d]
            u = np.float64(here[v] - at) + f[v]
            add_ramp(w, np.intp(begin + at), np.intp(layout.stride[d]), delta * shape.scale[d], u)
    else:
        for v in range(n):
            d = column[v]
            at, stride, x = layout.first[d], layout.stride[d], f[v]
            place = layout.begin[d] + (here[v] - at) * stride
            add_two_rows(
                w, np.intp(begin + at), table, np.intp(place), np.intp(stride),
                delta * (1.0 - x), delta * x,
            )  # fmt: skip


@kernel
def epoch_linear(rows, columns, rule, problem, shape, padded, norms, y, weight, order, state):
    """One visit of every row of `order`; `state` in place, its coefficients only in `padded.w`."""
    n_classes, p = len(state.W), len(columns.degree)
    layout, w, room, table = make_layout(columns, padded), padded.w, padded.room, padded.table
    most = most_values(rows, layout)
    here, f, column = np.zeros(most, np.uintp), np.zeros(most), np.zeros(most, np.uintp)
    column[: len(layout.column)] = layout.column[:most]
    bias, s_all = problem.intercept_scaling**2, 0.0
    for d in range(p):
        s_all += shape.s[d]
    shift, steps, C = padded.shift, padded.steps, problem.C
    alone = n_classes == 1 and len(rows.indptr) == 0
    # of one class's dense row: places and fractions, without what most rows, unmoved, do not need
    first, scale, up = padded.at.astype(np.int32), np.zeros(most), True
    for v in range(len(layout.column) if alone else 0):
        scale[v] = shape.scale[layout.column[v]]
    slot, part = np.zeros(most, np.uint32), np.zeros(most, np.float32)
    sums, pairs = np.zeros(np.intp(most) // np.intp(PIECE) + 1), np.zeros(2 * np.intp(PIECE))
    for t in range(len(order)):
        if alone and t + AHEAD < len(order):
            begin = order[t + AHEAD] * rows.row_step
            for v in range(begin, begin + rows.row_step, LINE // rows.u.itemsize):
                prefetch(rows.u, v)
        i = np.uintp(order[t])
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        n = np.uintp(0) if alone else load_row(rows, layout, i, here, f, column)
        norm, along = norms[i, 0] + bias, norms[i, 1]
        for k in range(np.uintp(n_classes)):
            begin = k * np.uintp(room)
            if alone:
                n = place_row(rows, first, layout.column, i, slot, part)
                z = row_margin(w, slot, part, n, up, sums)
                up = not up
            else:
                z = look_up_margin(w, begin, here, f, n)
            z += state.b[k] - shift[k] - steps[k] * (along - s_all)
            target = class_target(y[i], k, n_classes)
            delta = dual_step(rule, C * s, state.alpha, i, k, n_classes, target, z, norm)
            if delta != 0.0:
                state.b[k] += delta * bias
                shift[k] += delta * along
                steps[k] += delta
                if alone and shape.kind == POINTS:
                    step_points(delta, scale, w, slot, part, n, up, pairs)
                    up = not up
                    continue
                if alone:
                    n = load_row(rows, layout, i, here, f, column)
                step_columns(delta, shape, table, layout, column, here, f, n, w, begin)


@kernel
def decisions_linear(rows, columns, shape, padded, norms, b, F):
    """Write f of every row and class into `F` in place."""
    layout = make_layout(columns, padded)
    most = most_values(rows, layout)
    here, f, column = np.zeros(most, np.uintp), np.zeros(most), np.zeros(most, np.uintp)
    column[: len(layout.column)] = layout.column[:most]
    s_all = 0.0
    for d in range(len(shape.s)):
        s_all += shape.s[d]
    for i in range(np.uintp(len(F))):
        n = load_row(rows, layout, i, here, f, column)
        for k in range(np.uintp(len(b))):
            begin = k * np.uintp(padded.room)
            z = look_up_margin(padded.w, begin, here, f, n)
            along = norms[i, 1] - s_all
            F[i, k] = z + b[k] - padded.shift[k] - padded.steps[k] * along


@kernel
def finish_linear(columns, roughness, shape, padded, W):
    """Write the padded coefficients into `W` in place."""
    for k in range(len(W)):
        for d in range(len(columns.degree)):
            a, at_w = columns.first[d], k * padded.room + padded.at[d]
            for j in range(columns.first[d + 1] - a):
                padded.w[at_w + j] -= padded.steps[k] * shape.t[a + j]
            padded.shift[k] -= padded.steps[k] * shape.s[d]
        padded.steps[k] = 0.0
    restore_constants(columns, roughness, padded.w, padded.room, padded.at, W)
