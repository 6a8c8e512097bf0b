"""The exact step of one dual variable: Hsieh et al. 2008 (hinges), Yu et al. 2010 (log-loss)."""

from __future__ import annotations

import math

import numpy as np
from numba.extending import overload

from ..numeric.jit import kernel
from ..numeric.losses import Hinge, LogLoss, SquaredHinge


def dual_step(loss, C, alpha, i, k, n_classes, z, norm):
    """Minimise class k's dual variable of one row, in place; return (delta, |projected gradient|).

    alpha[i] is the row's state, z = y f its margin, norm = |Psi|^2, C its weight C s.
    """
    return STEPS[type(loss)](C, alpha, i, k, n_classes, z, norm)


def hinge_step(C, alpha, i, k, n_classes, z, norm):
    old = np.float64(alpha[i, k])
    gradient = z - 1.0
    new = np.float32(min(max(old - gradient / norm, 0.0), C))
    if np.float64(new) > C:  # rounded up
        new = np.nextafter(new, np.float32(0))
    violation = abs(min(max(old - gradient, 0.0), C) - old)
    alpha[i, k] = new
    return np.float64(new) - old, violation


def squared_hinge_step(C, alpha, i, k, n_classes, z, norm):
    old = np.float64(alpha[i, k])
    diagonal = 0.5 / C
    gradient = z - 1.0 + diagonal * old
    new = np.float32(max(old - gradient / (norm + diagonal), 0.0))
    violation = abs(max(old - gradient, 0.0) - old)
    alpha[i, k] = new
    return np.float64(new) - old, violation


def log_loss_step(C, alpha, i, k, n_classes, z, norm):
    old, other = np.float64(alpha[i, k]), np.float64(alpha[i, n_classes + k])
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
        alpha[i, k], alpha[i, n_classes + k] = small, large
    else:
        alpha[i, k], alpha[i, n_classes + k] = large, small
    return np.float64(alpha[i, k]) - old, violation


STEPS = {Hinge: hinge_step, SquaredHinge: squared_hinge_step, LogLoss: log_loss_step}


@overload(dual_step)
def _dual_step(loss, C, alpha, i, k, n_classes, z, norm):
    step = kernel(STEPS[loss.instance_class])
    return lambda loss, C, alpha, i, k, n_classes, z, norm: step(C, alpha, i, k, n_classes, z, norm)
