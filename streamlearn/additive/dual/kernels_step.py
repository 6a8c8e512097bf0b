"""The exact step of one dual variable.

Hsieh et al. 2008 (hinges), Ho & Lin 2012 (regression), Yu et al. 2010 (log-loss).  All duals but
the log-loss's are C [t v - epsilon |v| - q/2 v^2] within |v - centre| <= bound: one rule, one step.
The formulas are LIBLINEAR's, where the header comment of its regression has both linear signs
turned; its code minimises 1/2 beta'Q beta + epsilon |beta| - y beta, as this does.
"""

from __future__ import annotations

import math

import numpy as np

from ...numeric.dual_rule import dual_value
from ...numeric.jit import inlined, kernel


@kernel
def dual_step(rule, C, alpha, i, k, n_classes, y, f, norm):
    """Minimise class k's dual variable of one row, in place; return the change of its force.

    alpha[i] is the row's state, y its target (+1/-1 of class k, or a number), f its decision,
    norm = |Psi|^2, C its weight C s.
    """
    if rule.logistic:
        return y * logistic_step(C, alpha, i, k, n_classes, y * f, norm)
    old = np.float64(alpha[i, k])
    most = C * (rule.centre + rule.bound)
    lowest = C * (rule.centre - rule.bound)
    target, z, least = (y, f, lowest) if rule.both_signs else (1.0, y * f, 0.0)
    diagonal = rule.quadratic / C
    gradient, curvature = z - target + diagonal * old, norm + diagonal
    if gradient + rule.epsilon < curvature * old:
        step = -(gradient + rule.epsilon) / curvature
    elif gradient - rule.epsilon > curvature * old:
        step = -(gradient - rule.epsilon) / curvature
    else:
        step = -old
    new = np.float32(min(max(old + step, least), most))
    if np.float64(new) > most or np.float64(new) < least:  # rounded away from 0
        new = np.nextafter(new, np.float32(0))
    alpha[i, k] = new
    delta = np.float64(new) - old
    return delta if rule.both_signs else y * delta


@inlined
def stays_at_zero(rule, old, y, f):
    """Whether `dual_step` of a class, which is slower, would leave its variable `old` at 0."""
    return old == 0.0 and y * f >= 1.0 and not (rule.logistic or rule.both_signs)


@kernel
def logistic_step(C, alpha, i, k, n_classes, z, norm):
    """`dual_step` of the log-loss at the margin z; returns the change of alpha."""
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
    t = t0
    if C - t0 < 0.5 * C:  # start on the side of the minimum; t0, rounded to float32, may exceed C
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
    return np.float64(alpha[i, k]) - old


@kernel
def dual_sum(rule, C, y, weight, alpha, out):
    """Add each class's dual values C s [...] to `out` in place."""
    n_classes = len(out)
    for i in range(len(alpha)):
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        for k in range(n_classes):
            target = y[i] if rule.both_signs else 1.0
            out[k] += C * s * dual_value(rule, target, np.float64(alpha[i, k]) / (C * s))


@kernel
def class_target(y, k, n_classes):
    """Return the target of class k: y itself if there is one class, else whether y is k."""
    if n_classes == 1:
        return y
    return 1.0 if y == k else -1.0
