"""Dual coordinate descent, one row at a time: Hsieh et al. 2008 (hinge), Yu et al. 2010 (log-loss).

The dual variable is rounded to float32 before the step delta is formed, so the coefficients stay
the float64 sum of alpha_i y_i Psi_i that the stored alpha say.  A step changes each column's w by
delta (L Phi - t): the rows of L of the active splines; t is subtracted at the end, once.  With
c = Phi(0) (sparse rows) the table (I - 1c')L(I - c1') does it all: since the splines sum to 1 it
gives |Psi|^2 and, up to a constant that Phi - c does not see, the step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba.extending import overload

from ..numeric.bsplines import basis_values, coordinate
from ..numeric.jit import kernel
from ..numeric.losses import Hinge, LogLoss, SquaredHinge, dual_value
from ..numeric.simd import ROW, add_two_rows


def dual_step(loss, C, alpha, k, n_classes, z, norm):
    """Minimise class k's dual variable of one row, in place; return (delta, |projected gradient|).

    alpha is the row's state, z = y f its margin, norm = |Psi|^2, C its weight C s.
    """
    return STEPS[type(loss)](C, alpha, k, n_classes, z, norm)


def hinge_step(C, alpha, k, n_classes, z, norm):
    old = np.float64(alpha[k])
    gradient = z - 1.0
    new = np.float32(min(max(old - gradient / norm, 0.0), C))
    if new > C:  # rounded up
        new = np.nextafter(new, np.float32(0))
    violation = abs(min(max(old - gradient, 0.0), C) - old)
    alpha[k] = new
    return np.float64(new) - old, violation


def squared_hinge_step(C, alpha, k, n_classes, z, norm):
    old = np.float64(alpha[k])
    diagonal = 0.5 / C
    gradient = z - 1.0 + diagonal * old
    new = np.float32(max(old - gradient / (norm + diagonal), 0.0))
    violation = abs(max(old - gradient, 0.0) - old)
    alpha[k] = new
    return np.float64(new) - old, violation


def log_loss_step(C, alpha, k, n_classes, z, norm):
    old, other = np.float64(alpha[k]), np.float64(alpha[n_classes + k])
    start, rest = old, other
    if start + rest == 0.0:
        start = min(1e-3 * C, 1e-8)
        rest = C - start
    # The smaller of alpha and C - alpha is the variable t; sign says which.  Minimise
    # t log t + (C - t) log(C - t) + a/2 (t - t0)^2 + b (t - t0)  by a damped Newton iteration.
    b = z - norm * (old - start)
    sign = 1.0
    t0 = start
    if 0.5 * norm * (rest - start) + b < 0.0:
        t0, sign, b = rest, -1.0, -b
    violation = abs(b + math.log(t0 / (C - t0)))
    t = t0
    if C - t0 < 0.5 * (C - t0):
        t = 0.1 * t0
    for _ in range(100):
        g = norm * (t - t0) + b + math.log(t / (C - t))
        if abs(g) < 1e-12 * (1.0 + abs(b)):
            break
        step = g / (norm + C / (t * (C - t)))
        trial = t - step
        if trial <= 0.0:
            t *= 0.1
        elif trial >= C:
            t = 0.5 * (t + C)
        elif abs(step) < 1e-15 * t:
            break
        else:
            t = trial
    small = np.float32(max(t, 1e-30 * C))
    large = np.float32(C - np.float64(small))
    if sign > 0:
        alpha[k], alpha[n_classes + k] = small, large
    else:
        alpha[k], alpha[n_classes + k] = large, small
    return np.float64(alpha[k]) - old, violation


STEPS = {Hinge: hinge_step, SquaredHinge: squared_hinge_step, LogLoss: log_loss_step}


@overload(dual_step)
def _dual_step(loss, C, alpha, k, n_classes, z, norm):
    step = kernel(STEPS[loss.instance_class])
    return lambda loss, C, alpha, k, n_classes, z, norm: step(C, alpha, k, n_classes, z, norm)


class Padded(NamedTuple):
    """Coefficients and tables with rows padded for `add_two_rows`."""

    w: np.ndarray
    """(K, room) float64."""
    at: np.ndarray
    """(p + 1,) where each column begins in w."""
    table: np.ndarray
    """Stacked matrices, row length ``at[d + 1] - at[d]``, one row of zeros after each."""
    begin: np.ndarray
    """(p,) where column d's matrix begins; columns with equal ones share it."""


@kernel
def pad_rows(columns, roughness, c, centred, W):
    """Return `Padded`: of L if `centred`, else of (I - 1c')L(I - c1') and w less c'w."""
    p = len(columns.degree)
    at, begin, size = np.zeros(p + 1, np.intp), np.zeros(p, np.intp), 0
    for d in range(p):
        n = columns.first[d + 1] - columns.first[d]
        at[d + 1] = at[d] + (n + ROW - 1) // ROW * ROW
        begin[d] = -1
        for e in range(d):
            if begin[d] < 0 and same_table(columns, roughness.table, c, centred, d, e):
                begin[d] = begin[e]
        if begin[d] < 0:
            begin[d] = size
            size += (n + 1) * (at[d + 1] - at[d])
    w, table = np.zeros((len(W), at[p])), np.zeros(size)
    for d in range(p):
        first, stride = columns.first[d], at[d + 1] - at[d]
        n = columns.first[d + 1] - first
        if n == 0:
            continue
        L = roughness.L[roughness.table[d] : roughness.table[d] + n * n].reshape((n, n)).copy()
        if not centred:
            t, s = np.zeros(n), 0.0
            for i in range(n):
                for j in range(n):
                    t[i] += L[i, j] * c[first + j]
                s += c[first + i] * t[i]
            for i in range(n):
                for j in range(n):
                    L[i, j] += s - t[i] - t[j]
        for i in range(n):
            table[begin[d] + i * stride : begin[d] + i * stride + n] = L[i]
        for k in range(len(W)):
            shift = 0.0
            for j in range(0 if centred else n):
                shift += c[first + j] * W[k, first + j]
            for j in range(n):
                w[k, at[d] + j] = W[k, first + j] - shift
    return Padded(w, at, table, begin)


@kernel
def same_table(columns, table, c, centred, d, e):
    """Return whether columns d and e have the same matrix."""
    a, b = columns.first[d], columns.first[e]
    n = columns.first[d + 1] - a
    if table[d] != table[e] or n != columns.first[e + 1] - b:
        return False
    if not centred:
        for j in range(n):
            if c[a + j] != c[b + j]:
                return False
    return True


@kernel
def product(degree, phi, w, at):
    """Return phi'w[at:]."""
    if degree == 1:
        return phi[0] * w[at] + phi[1] * w[at + 1]
    total = 0.0
    for q in range(degree + 1):
        total += phi[q] * w[at + q]
    return total


@kernel
def quadratic(degree, phi, table, place, stride):
    """Return phi'L phi; `place` is the diagonal entry of the first active spline."""
    if degree == 1:
        f, g = phi[1], phi[0]
        return g * (g * table[place] + 2.0 * f * table[place + 1]) + f * f * table[
            place + stride + 1
        ]
    total = 0.0
    for q in range(degree + 1):
        for s in range(degree + 1):
            total += phi[q] * phi[s] * table[place + q * stride + s]
    return total


@kernel
def add_step(delta, degree, phi, table, place, stride, w, at):
    """Add delta L phi of one column to w[at:] in place; `place` is the first active spline's row."""
    add_two_rows(w, at, table, place, stride, delta * phi[0], delta * phi[1])
    if degree > 1:
        last = delta * phi[3] if degree == 3 else 0.0
        add_two_rows(w, at, table, place + 2 * stride, stride, delta * phi[2], last)


@kernel
def epoch(rows, columns, loss, problem, y, weight, order, state):
    """One visit of every row of `order`, dense coordinates; `state` in place."""
    p, n_classes = rows.n_columns, len(state.W)
    c, t, s_all = problem.reference.c, problem.reference.t, problem.reference.s.sum()
    w, at, table, begin = pad_rows(columns, problem.roughness, c, True, state.W)
    first, degrees, m = columns.first, columns.degree, columns.n_intervals
    bias = problem.intercept_scaling**2
    state.progress[:] = 0.0
    shift, steps = np.zeros(n_classes), np.zeros(n_classes)
    for k in range(n_classes):
        shift[k] = (c * state.W[k]).sum()
    where, phi = np.zeros(p, np.intp), np.zeros((p, 4))
    for i in order:
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        norm, along, begin_row = bias + s_all, 0.0, i * rows.row_step
        for d in range(p):
            if m[d] > 0:
                j = basis_values(
                    rows.flat[begin_row + d * rows.column_step], m[d], degrees[d], phi[d]
                )
                stride = at[d + 1] - at[d]
                where[d] = j
                norm += quadratic(degrees[d], phi[d], table, begin[d] + j * (stride + 1), stride)
                along += product(degrees[d], phi[d], t, first[d] + j)
        norm -= 2.0 * along
        for k in range(n_classes):
            target = y[i]
            if n_classes > 1:
                target = 1.0 if y[i] == k else -1.0
            f, wk = state.b[k] - shift[k] - steps[k] * (along - s_all), w[k]
            for d in range(p):
                if m[d] > 0:
                    f += product(degrees[d], phi[d], wk, at[d] + where[d])
            delta, violation = dual_step(
                loss, problem.C * s, state.alpha[i], k, n_classes, target * f, norm
            )
            state.progress[k, 0] = max(state.progress[k, 0], violation)
            if delta != 0.0:
                state.progress[k, 1] += 1.0
                delta *= target
                state.b[k] += delta * bias
                shift[k] += delta * along
                steps[k] += delta
                for d in range(p):
                    if m[d] > 0:
                        stride = at[d + 1] - at[d]
                        place = begin[d] + where[d] * stride
                        add_step(delta, degrees[d], phi[d], table, place, stride, wk, at[d])
    for k in range(n_classes):
        for d in range(p):
            for j in range(first[d + 1] - first[d]):
                state.W[k, first[d] + j] = w[k, at[d] + j] - steps[k] * t[first[d] + j]


@kernel
def epoch_csr(data, indices, indptr, columns, loss, problem, y, weight, order, state):
    """One visit of every row of `order`, sparse with c = Phi(0); `state` in place."""
    n_classes, p = len(state.W), len(columns.degree)
    w, at, table, begin = pad_rows(
        columns, problem.roughness, problem.reference.c, False, state.W
    )
    degrees, m = columns.degree, columns.n_intervals
    bias = problem.intercept_scaling**2
    state.progress[:] = 0.0
    longest = 1
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    where, phi = np.zeros(longest, np.intp), np.zeros((longest, 4))
    for i in order:
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        start, stop = indptr[i], indptr[i + 1]
        norm = bias
        for v in range(stop - start):
            d = indices[start + v]
            if m[d] > 0:
                u = coordinate(data[start + v], columns, d)
                j = basis_values(u, m[d], degrees[d], phi[v])
                stride = at[d + 1] - at[d]
                where[v] = j
                norm += quadratic(degrees[d], phi[v], table, begin[d] + j * (stride + 1), stride)
        for k in range(n_classes):
            target = y[i]
            if n_classes > 1:
                target = 1.0 if y[i] == k else -1.0
            f, wk = state.b[k], w[k]
            for v in range(stop - start):
                d = indices[start + v]
                if m[d] > 0:
                    f += product(degrees[d], phi[v], wk, at[d] + where[v])
            delta, violation = dual_step(
                loss, problem.C * s, state.alpha[i], k, n_classes, target * f, norm
            )
            state.progress[k, 0] = max(state.progress[k, 0], violation)
            if delta != 0.0:
                state.progress[k, 1] += 1.0
                delta *= target
                state.b[k] += delta * bias
                for v in range(stop - start):
                    d = indices[start + v]
                    if m[d] > 0:
                        stride = at[d + 1] - at[d]
                        place = begin[d] + where[v] * stride
                        add_step(delta, degrees[d], phi[v], table, place, stride, wk, at[d])
    restore_constants(columns, problem.roughness, w, at, state.W)


@kernel
def restore_constants(columns, roughness, w, at, W):
    """Write w plus each column's constant into `W` in place: w = L v with 1'v = 0, so 1'Pw = 0."""
    for d in range(len(columns.degree)):
        first = columns.first[d]
        n = columns.first[d + 1] - first
        sums, whole = np.zeros(n), 0.0
        for i in range(n):
            for j in range(n):
                sums[j] += roughness.P[roughness.table[d] + i * n + j]
        for j in range(n):
            whole += sums[j]
        for k in range(len(W)):
            total = 0.0
            for j in range(n):
                total += sums[j] * w[k, at[d] + j]
            for j in range(n):
                W[k, first + j] = w[k, at[d] + j] - total / whole


@kernel
def dual_sum(loss, C, y, weight, alpha, out):
    """Add C sum s dual_value of each class to `out` in place."""
    n_classes = len(out)
    for i in range(len(alpha)):
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        for k in range(n_classes):
            target = y[i]
            if n_classes > 1:
                target = 1.0 if y[i] == k else -1.0
            out[k] += C * s * dual_value(loss, target, target * alpha[i, k] / (C * s))
