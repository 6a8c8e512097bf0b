"""Dual epochs when every column is of degree 1, the default: look-ups instead of products.

In an interval |Psi|^2 is a quadratic in f and t'Phi is linear, so a value costs a look-up of five
numbers and one of two coefficients; same steps as `kernels_dual`, which serves every degree.
"""

from __future__ import annotations

import numpy as np

from ..numeric.bsplines import coordinate
from ..numeric.jit import inlined, kernel
from ..numeric.simd import add_two_rows
from .kernels_dual import class_sign
from .kernels_dual_step import dual_step
from .kernels_dual_tables import pad_rows, restore_constants

ONE, FOUR, NODE = np.uintp(1), np.uintp(4), np.uintp(8)


@kernel
def interval_nodes(columns, padded, t, s):
    """Return NODE numbers an interval: 0 to 2 give |Psi|^2 in powers of f, 3 and 4 give t'Phi."""
    nodes = np.zeros(8 * padded.room)
    for d in range(len(columns.degree)):
        stride, first = padded.at[d + 1] - padded.at[d], columns.first[d]
        for j in range(columns.n_intervals[d]):
            at, place = 8 * (padded.at[d] + j), padded.begin[d] + j * (stride + 1)
            a, b = padded.table[place], padded.table[place + 1]
            c = padded.table[place + stride + 1]
            low, high = t[first + j], t[first + j + 1]
            nodes[at] = a - 2.0 * low + s[d]
            nodes[at + 1] = 2.0 * (b - a) - 2.0 * (high - low)
            nodes[at + 2] = a - 2.0 * b + c
            nodes[at + 3] = low
            nodes[at + 4] = high - low
    return nodes


@inlined
def look_up(nodes, here, f, n):
    """Return the sums of |Psi|^2 and of t'Phi over the row's n values."""
    norm, along = 0.0, 0.0
    for v in range(n):
        at, x = NODE * here[v], f[v]
        norm += nodes[at] + x * (nodes[at + ONE] + x * nodes[at + ONE + ONE])
        along += nodes[at + FOUR - ONE] + x * nodes[at + FOUR]
    return norm, along


@inlined
def look_up_margin(w, begin, here, f, n):
    """Return the row's Phi'w; two sums, so that one addition does not wait for the last."""
    total, other = 0.0, 0.0
    for v in range(np.uintp(0), n - n % (ONE + ONE), ONE + ONE):
        at, to = begin + here[v], begin + here[v + ONE]
        total += w[at] + f[v] * (w[at + ONE] - w[at])
        other += w[to] + f[v + ONE] * (w[to + ONE] - w[to])
    if n % (ONE + ONE) > 0:
        at = begin + here[n - ONE]
        total += w[at] + f[n - ONE] * (w[at + ONE] - w[at])
    return total + other


@inlined
def step_columns(delta, table, first, strides, begins, column, here, f, n, w, begin):
    """Add delta L Phi of every value's column to the class's coefficients in place."""
    for v in range(n):
        d = column[v]
        at, stride, x = first[d], strides[d], f[v]
        place = begins[d] + (here[v] - at) * stride
        add_two_rows(
            w, np.intp(begin + at), table, np.intp(place), np.intp(stride),
            delta * (1.0 - x), delta * x,
        )  # fmt: skip


@kernel
def unsigned_layout(padded):
    """Return where columns begin in w, their row lengths and where their matrices begin."""
    p = len(padded.begin)
    first, strides = np.zeros(p, np.uintp), np.zeros(p, np.uintp)
    begins = np.zeros(p, np.uintp)
    for d in range(p):
        first[d], begins[d] = padded.at[d], padded.begin[d]
        strides[d] = padded.at[d + 1] - padded.at[d]
    return first, strides, begins


@kernel
def epoch_linear(rows, columns, loss, problem, y, weight, order, state):
    """One visit of every row of `order`, dense coordinates; `state` in place."""
    n_classes, p, reference = len(state.W), rows.n_columns, problem.reference
    padded = pad_rows(columns, problem.roughness, reference.c, True, state.W)
    nodes = interval_nodes(columns, padded, reference.t, reference.s)
    first, strides, begins = unsigned_layout(padded)
    w, table, room, flat = padded.w, padded.table, padded.room, rows.flat
    here, f, last = np.zeros(p, np.uintp), np.zeros(p), np.zeros(p, np.int32)
    column, n, s_all = np.zeros(p, np.uintp), np.uintp(0), 0.0
    for d in range(p):
        s_all += reference.s[d]
        if columns.n_intervals[d] > 0:
            column[n], last[n] = d, columns.n_intervals[d] - 1
            n += ONE
    bias, row_step = problem.intercept_scaling**2, np.uintp(rows.row_step)
    column_step = np.uintp(rows.column_step)
    shift, steps = np.zeros(n_classes), np.zeros(n_classes)
    for k in range(n_classes):
        state.progress[k, 0], state.progress[k, 1] = 0.0, 0.0
        for j in range(len(reference.c)):
            shift[k] += reference.c[j] * state.W[k, j]
    for i in order:
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        begin = np.uintp(i) * row_step
        for v in range(n):
            u = flat[begin + column[v] * column_step]
            j = min(np.int32(u), last[v])
            f[v] = u - np.float32(j)
            here[v] = first[column[v]] + np.uintp(j)
        norm, along = look_up(nodes, here, f, n)
        for k in range(n_classes):
            sign = class_sign(y[i], k, n_classes)
            z = state.b[k] - shift[k] - steps[k] * (along - s_all)
            z = sign * (z + look_up_margin(w, np.uintp(k * room), here, f, n))
            delta, violation = dual_step(
                loss, problem.C * s, state.alpha, i, k, n_classes, z, norm + bias
            )
            state.progress[k, 0] = max(state.progress[k, 0], violation)
            if delta != 0.0:
                delta *= sign
                state.progress[k, 1] += 1.0
                state.b[k] += delta * bias
                shift[k] += delta * along
                steps[k] += delta
                at_w = np.uintp(k * room)
                step_columns(delta, table, first, strides, begins, column, here, f, n, w, at_w)
    for k in range(n_classes):
        for d in range(p):
            a, at_w = columns.first[d], k * room + padded.at[d]
            for j in range(columns.first[d + 1] - a):
                state.W[k, a + j] = w[at_w + j] - steps[k] * reference.t[a + j]


@kernel
def epoch_csr_linear(data, indices, indptr, columns, loss, problem, y, weight, order, state):
    """One visit of every row of `order`, sparse with c = Phi(0); `state` in place."""
    n_classes, p = len(state.W), len(columns.degree)
    padded = pad_rows(columns, problem.roughness, problem.reference.c, False, state.W)
    nodes = interval_nodes(columns, padded, np.zeros(columns.first[p]), np.zeros(p))
    first, strides, begins = unsigned_layout(padded)
    w, table, room = padded.w, padded.table, padded.room
    bias, longest = problem.intercept_scaling**2, 1
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    here, f, column = np.zeros(longest, np.uintp), np.zeros(longest), np.zeros(longest, np.uintp)
    for k in range(n_classes):
        state.progress[k, 0], state.progress[k, 1] = 0.0, 0.0
    for i in order:
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        n = np.uintp(0)
        for at in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            d = np.uintp(indices[at])
            m = columns.n_intervals[d]
            if m > 0:
                u = coordinate(data[at], columns, d)
                j = min(np.int32(u), np.int32(m - 1))
                f[n] = u - np.float32(j)
                here[n], column[n] = first[d] + np.uintp(j), d
                n += ONE
        norm = bias + look_up(nodes, here, f, n)[0]
        for k in range(n_classes):
            sign = class_sign(y[i], k, n_classes)
            z = state.b[k] + look_up_margin(w, np.uintp(k * room), here, f, n)
            delta, violation = dual_step(
                loss, problem.C * s, state.alpha, i, k, n_classes, sign * z, norm
            )
            state.progress[k, 0] = max(state.progress[k, 0], violation)
            if delta != 0.0:
                delta *= sign
                state.progress[k, 1] += 1.0
                state.b[k] += delta * bias
                at_w = np.uintp(k * room)
                step_columns(delta, table, first, strides, begins, column, here, f, n, w, at_w)
    restore_constants(columns, problem.roughness, w, room, padded.at, state.W)
