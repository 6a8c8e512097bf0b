"""Dual coordinate descent, one row at a time: Hsieh et al. 2008 (hinge), Yu et al. 2010 (log-loss).

Written once, for every form of rows (see `numeric.rows.protocol`).  The dual variable is rounded to
float32 before the step is formed, so the coefficients stay the float64 sum of alpha_i y_i Psi_i
that the stored alpha define.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.dual_rule import DualRule
from ...numeric.jit import kernel
from ...numeric.rows.protocol import add, borrow, dot, norm2, visit
from .kernels_step import class_target, dual_step, stays_at_zero

UNSEEN = np.empty((0, 0))
"""Given as `seen` where the decisions of visited rows are not wanted."""


class Descent(NamedTuple):
    """The fixed part of an epoch."""

    rule: DualRule
    C: float
    bias: float
    """The intercept's part of |Psi|^2, the square of its scaling B."""
    first: int
    """The first class that the rows hold coefficients of."""
    last: int
    """The class after the last one."""


@kernel
def visit_rows(rows, descent, y, weight, order, alpha, b, seen):
    """Visit every row of `order`; `rows`, `alpha`, `b` and `seen` in place.

    `seen` (m, K) gets each row's decisions as they were when it was visited; empty: not wanted.
    """
    rows = borrow(rows)
    rule, first, n_classes = descent.rule, descent.first, len(b)
    own = b[first : descent.last].copy()  # not in the cache line that other groups write to
    f, step = np.zeros(len(own)), np.zeros(len(own))
    for t in range(len(order)):
        row = np.uintp(order[t])
        s = weight[row] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        i, moved = visit(rows, order, t), False
        dot(rows, i, f)
        for k in range(len(own)):
            z, step[k] = own[k] + f[k], 0.0
            if len(seen) > 0:
                seen[row, first + k] = z
            target = class_target(y[row], first + k, n_classes)
            if stays_at_zero(rule, alpha[row, first + k], target, z):
                continue
            norm = norm2(rows, i) + descent.bias
            C = descent.C * s
            step[k] = dual_step(rule, C, alpha, row, first + k, n_classes, target, z, norm)
            own[k] += step[k] * descent.bias
            moved = moved or step[k] != 0.0
        if moved:
            add(rows, i, step)
    b[first : descent.last] = own


@kernel
def decisions(rows, order, first, b, F):
    """Write b + Psi'w of the rows of `order` into the columns of `F` from `first` on, in place."""
    rows, f = borrow(rows), np.zeros(len(b))
    for t in range(len(order)):
        i = visit(rows, order, t)
        dot(rows, i, f)
        for k in range(len(b)):
            F[i, first + k] = b[k] + f[k]
