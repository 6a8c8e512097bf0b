"""Dual coordinate descent, one row at a time: Hsieh et al. 2008 (hinge), Yu et al. 2010 (log-loss).

The dual variable is rounded to float32 before the step delta is formed, so the coefficients stay
the float64 sum of alpha_i y_i Psi_i that the stored alpha say.  A step changes each column's w by
delta (L Phi - t): the rows of L of the active splines; t is subtracted at the end, once.  With
c = Phi(0) (sparse rows) the table (I - 1c')L(I - c1') does it all: since the splines sum to 1 it
gives |Psi|^2 and, up to a constant that Phi - c does not see, the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.bases.bsplines import basis_values, coordinate
from ...numeric.jit import inlined, kernel
from ...numeric.simd.add import add_two_rows
from .kernels_step import class_target, dual_step
from .kernels_tables import pad_rows, restore_constants

# Below, arrays come whole with unsigned offsets: a slice costs two atomic reference counts, a
# signed index a test for its sign, each as much as the arithmetic of a value.


@inlined
def set_splines(u, last, degree, phi, at):
    """Write the splines active at u into phi[at:at + 4] in place; return the first one's number."""
    if degree == 1:
        j = min(np.int32(u), last)
        f = np.float64(u - np.float32(j))
        phi[at], phi[at + ONE] = 1.0 - f, f
        return np.uintp(j)
    return np.uintp(basis_values(u, last + 1, degree, phi[at:]))


ONE, FOUR = np.uintp(1), np.uintp(4)


@inlined
def product(degree, phi, v, w, at):
    """Return phi[v:]'w[at:]."""
    total = phi[v] * w[at] + phi[v + ONE] * w[at + ONE]
    if degree > 1:
        for q in range(ONE + ONE, np.uintp(degree + 1)):
            total += phi[v + q] * w[at + q]
    return total


@inlined
def quadratic(degree, phi, v, table, place, stride):
    """Return phi'L phi; `place` is the diagonal entry of the first active spline."""
    if degree == 1:
        g, f = phi[v], phi[v + ONE]
        last = table[place + stride + ONE]
        return g * (g * table[place] + 2.0 * f * table[place + ONE]) + f * f * last
    total = 0.0
    for q in range(np.uintp(degree + 1)):
        for s in range(np.uintp(degree + 1)):
            total += phi[v + q] * phi[v + s] * table[place + q * stride + s]
    return total


@inlined
def add_step(delta, degree, phi, v, table, place, stride, w, at):
    """Add delta L phi of one column to w[at:] in place; `place`: the first active row of L."""
    stride, place, at = np.intp(stride), np.intp(place), np.intp(at)
    add_two_rows(w, at, table, place, stride, delta * phi[v], delta * phi[v + ONE])
    if degree > 1:
        last = delta * phi[v + np.uintp(3)] if degree == 3 else 0.0
        add_two_rows(w, at, table, place + 2 * stride, stride, delta * phi[v + np.uintp(2)], last)


class Visit(NamedTuple):
    """A row's active splines, one entry a column or stored value that counts."""

    degree: np.ndarray
    last: np.ndarray
    """The column's last interval, int32."""
    at: np.ndarray
    """Where the column begins in the padded coefficients."""
    begin: np.ndarray
    """Where its matrix begins in the tables."""
    here: np.ndarray
    """at + number of the first active spline."""
    place: np.ndarray
    """That spline's row in the tables."""
    stride: np.ndarray
    phi: np.ndarray
    """Four places an entry."""


@kernel
def make_visit(n):
    """Return room for n entries."""
    return Visit(
        np.zeros(n, np.intp), np.zeros(n, np.int32), np.zeros(n, np.uintp), np.zeros(n, np.uintp),
        np.zeros(n, np.uintp), np.zeros(n, np.uintp), np.zeros(n, np.uintp), np.zeros(4 * n),
    )  # fmt: skip


@inlined
def set_column(visit, v, columns, padded, d):
    """Write what entry v of `visit` knows of column d alone, in place."""
    visit.degree[v] = columns.degree[d]
    visit.last[v] = columns.n_intervals[d] - 1
    visit.at[v] = padded.at[d]
    visit.begin[v] = padded.begin[d]
    visit.stride[v] = padded.at[d + ONE] - padded.at[d]


@inlined
def set_value(visit, v, u, table):
    """Write what entry v of `visit` knows of its coordinate u, in place; return phi'L phi."""
    degree, stride, phi = visit.degree[v], visit.stride[v], visit.phi
    j = set_splines(u, visit.last[v], degree, phi, FOUR * v)
    place = visit.begin[v] + j * stride
    visit.here[v] = visit.at[v] + j
    visit.place[v] = place
    return quadratic(degree, phi, FOUR * v, table, place + j, stride)


@inlined
def row_margin(visit, n, w, begin):
    """Return the row's sum of phi'w over n entries; `begin` is where the class begins in w."""
    # two sums: the next addition does not wait for the last
    total, other = 0.0, 0.0
    for v in range(np.uintp(0), n - n % (ONE + ONE), ONE + ONE):
        u = v + ONE
        total += product(visit.degree[v], visit.phi, FOUR * v, w, begin + visit.here[v])
        other += product(visit.degree[u], visit.phi, FOUR * u, w, begin + visit.here[u])
    if n % (ONE + ONE) > 0:
        v = n - ONE
        total += product(visit.degree[v], visit.phi, FOUR * v, w, begin + visit.here[v])
    return total + other


@inlined
def step_row(visit, n, delta, table, w, begin):
    """Add delta L phi of every entry to the class's coefficients in place."""
    for v in range(n):
        add_step(
            delta, visit.degree[v], visit.phi, FOUR * v, table, visit.place[v],
            visit.stride[v], w, begin + visit.at[v],
        )  # fmt: skip


@kernel
def epoch(rows, columns, rule, problem, y, weight, order, state):
    """One visit of every row of `order`, dense coordinates; `state` in place."""
    n_classes, reference = len(state.W), problem.reference
    padded = pad_rows(columns, problem.roughness, reference.c, True, state.W)
    w, room, at, first = padded.w, padded.room, padded.at, columns.first
    t, s_all, used, n = np.zeros(room + 4), 0.0, np.zeros(rows.n_columns, np.uintp), np.uintp(0)
    for d in range(rows.n_columns):
        s_all += reference.s[d]
        if columns.n_intervals[d] > 0:
            used[n] = d
            n += ONE
            for j in range(first[d + 1] - first[d]):
                t[at[d] + j] = reference.t[first[d] + j]
    bias, flat, visit = problem.intercept_scaling**2, rows.flat, make_visit(rows.n_columns)
    row_step, column_step = np.uintp(rows.row_step), np.uintp(rows.column_step)
    shift, steps = np.zeros(n_classes), np.zeros(n_classes)
    for k in range(n_classes):
        for j in range(len(reference.c)):
            shift[k] += reference.c[j] * state.W[k, j]
    for v in range(n):
        set_column(visit, v, columns, padded, used[v])
    for i in order:
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        norm, begin = bias + s_all, np.uintp(i) * row_step
        for v in range(n):
            d = used[v]
            norm += set_value(visit, v, flat[begin + d * column_step], padded.table)
        along = row_margin(visit, n, t, np.uintp(0))
        norm -= 2.0 * along
        for k in range(n_classes):
            f = state.b[k] - shift[k] - steps[k] * (along - s_all)
            f += row_margin(visit, n, w, np.uintp(k * room))
            target = class_target(y[i], k, n_classes)
            delta = dual_step(rule, problem.C * s, state.alpha, i, k, n_classes, target, f, norm)
            if delta != 0.0:
                state.b[k] += delta * bias
                shift[k] += delta * along
                steps[k] += delta
                step_row(visit, n, delta, padded.table, w, np.uintp(k * room))
    for k in range(n_classes):
        for d in range(len(columns.degree)):
            for j in range(first[d + 1] - first[d]):
                at_w = at[d] + j
                state.W[k, first[d] + j] = w[k * room + at_w] - steps[k] * t[at_w]


@kernel
def epoch_csr(data, indices, indptr, columns, rule, problem, y, weight, order, state):
    """One visit of every row of `order`, sparse with c = Phi(0); `state` in place."""
    n_classes = len(state.W)
    padded = pad_rows(columns, problem.roughness, problem.reference.c, False, state.W)
    w, room = padded.w, padded.room
    bias, longest = problem.intercept_scaling**2, 1
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    visit = make_visit(longest)
    for i in order:
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        norm, n = bias, np.uintp(0)
        for at in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            d = np.uintp(indices[at])
            if columns.n_intervals[d] > 0:
                u = coordinate(data[at], columns, d)
                set_column(visit, n, columns, padded, d)
                norm += set_value(visit, n, u, padded.table)
                n += ONE
        for k in range(n_classes):
            f = state.b[k] + row_margin(visit, n, w, np.uintp(k * room))
            target = class_target(y[i], k, n_classes)
            delta = dual_step(rule, problem.C * s, state.alpha, i, k, n_classes, target, f, norm)
            if delta != 0.0:
                state.b[k] += delta * bias
                step_row(visit, n, delta, padded.table, w, np.uintp(k * room))
    restore_constants(columns, problem.roughness, w, room, padded.at, state.W)
