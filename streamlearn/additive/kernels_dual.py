"""Dual coordinate descent for the hinge losses and the log-loss (Hsieh et al. 2008, Yu et al. 2010).

The dual variable is rounded to float32 before the step delta is formed, so the coefficients stay
the float64 sum of alpha_i y_i Psi_i that the stored alpha say.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import overload

from ..numeric.jit import kernel
from ..numeric.losses import Hinge, LogLoss, SquaredHinge, dual_value
from .kernels_csr import longest_row, stored_splines, zero_parts
from .kernels_dense import active_splines


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


@kernel
def column_norm(n, table, t, phi, j, degree):
    """Return phi'L phi - 2 phi't of one column; j is the first active spline."""
    total = 0.0
    for q in range(degree + 1):
        part = -2.0 * t[j + q]
        for s in range(degree + 1):
            part += table[(j + q) * n + j + s] * phi[s]
        total += phi[q] * part
    return total


@kernel
def add_step(delta, n, table, t, phi, j, degree, w):
    """Add delta (L phi - t) of one column to `w` in place."""
    for i in range(n):
        step = -t[i]
        for q in range(degree + 1):
            step += phi[q] * table[(j + q) * n + i]
        w[i] += delta * step


@kernel
def epoch(rows, columns, loss, problem, y, weight, order, state):
    """One visit of every row of `order`, dense; `state` in place."""
    p, n_classes = rows.n_columns, len(state.W)
    where, phi = np.empty(p, np.intp), np.empty((p, 4))
    table, begin = problem.roughness.L, problem.roughness.table
    c, t = problem.reference.c, problem.reference.t
    fixed = problem.intercept_scaling**2 + problem.reference.s.sum()
    state.progress[:] = 0.0
    shift = np.zeros(n_classes)
    for k in range(n_classes):
        shift[k] = (c * state.W[k]).sum()
    for i in order:
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        active_splines(rows, columns, i, where, phi)
        norm, along = fixed, -problem.reference.s.sum()
        for d in range(p):
            if where[d] >= 0:
                a, b = columns.first[d], columns.first[d + 1]
                norm += column_norm(
                    b - a, table[begin[d] :], t[a:b], phi[d], where[d] - a, columns.degree[d]
                )
                for q in range(columns.degree[d] + 1):
                    along += phi[d, q] * t[where[d] + q]
        for k in range(n_classes):
            target = y[i]
            if n_classes > 1:
                target = 1.0 if y[i] == k else -1.0
            f = state.b[k] - shift[k]
            for d in range(p):
                if where[d] >= 0:
                    for q in range(columns.degree[d] + 1):
                        f += phi[d, q] * state.W[k, where[d] + q]
            delta, violation = dual_step(
                loss, problem.C * s, state.alpha[i], k, n_classes, target * f, norm
            )
            state.progress[k, 0] = max(state.progress[k, 0], violation)
            if delta != 0.0:
                state.progress[k, 1] += 1.0
                delta *= target
                state.b[k] += delta * problem.intercept_scaling**2
                shift[k] += delta * along
                for d in range(p):
                    if where[d] >= 0:
                        a, b = columns.first[d], columns.first[d + 1]
                        add_step(
                            delta, b - a, table[begin[d] :], t[a:b], phi[d], where[d] - a,
                            columns.degree[d], state.W[k, a:b],
                        )


@kernel
def epoch_csr(data, indices, indptr, columns, loss, problem, y, weight, order, state):
    """One visit of every row of `order`, sparse with c = Phi(0); `state` in place."""
    n_classes = len(state.W)
    longest = longest_row(indptr)
    where, phi = np.empty(longest, np.intp), np.empty((longest, 4))
    table, begin = problem.roughness.L, problem.roughness.table
    c, t, self_norm = problem.reference.c, problem.reference.t, problem.reference.s
    at_zero = zero_parts(columns, c, state.W)
    state.progress[:] = 0.0
    for i in order:
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        first, last = indptr[i], indptr[i + 1]
        stored_splines(data, indices, first, last, columns, where, phi)
        norm = problem.intercept_scaling**2
        for at in range(last - first):
            d = indices[first + at]
            if where[at] >= 0:
                a, b = columns.first[d], columns.first[d + 1]
                norm += self_norm[d] + column_norm(
                    b - a, table[begin[d] :], t[a:b], phi[at], where[at] - a, columns.degree[d]
                )
        for k in range(n_classes):
            target = y[i]
            if n_classes > 1:
                target = 1.0 if y[i] == k else -1.0
            f = state.b[k]
            for at in range(last - first):
                d = indices[first + at]
                if where[at] >= 0:
                    f -= at_zero[k, d]
                    for q in range(columns.degree[d] + 1):
                        f += phi[at, q] * state.W[k, where[at] + q]
            delta, violation = dual_step(
                loss, problem.C * s, state.alpha[i], k, n_classes, target * f, norm
            )
            state.progress[k, 0] = max(state.progress[k, 0], violation)
            if delta == 0.0:
                continue
            state.progress[k, 1] += 1.0
            delta *= target
            state.b[k] += delta * problem.intercept_scaling**2
            for at in range(last - first):
                d = indices[first + at]
                if where[at] >= 0:
                    a, b = columns.first[d], columns.first[d + 1]
                    along = -self_norm[d]
                    for q in range(columns.degree[d] + 1):
                        along += phi[at, q] * t[where[at] + q]
                    at_zero[k, d] += delta * along
                    add_step(
                        delta, b - a, table[begin[d] :], t[a:b], phi[at], where[at] - a,
                        columns.degree[d], state.W[k, a:b],
                    )


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
