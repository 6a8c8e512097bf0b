"""The normal equations of the coefficients, eq. 4 of Biggio 2015, from streamed sums.

    Omega(Z) = min_theta  1/W sum_i u_i |K_i theta - y_i|^2 + ridge |beta|^2,
    K_i = [s(x_i, z_1) ... s(x_i, z_m) 1],  theta = [beta; b],  W = sum_i u_i

One theta column per target; the intercept b is free.  The paper's sum without 1/W has
lambda = ridge W.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

_CUT = 1e-13
"""Eigenvalues of the scaled matrix below this share of the largest are rounding."""


class Equations(NamedTuple):
    """Sums over rows; m prototypes and the constant, T targets."""

    A: np.ndarray
    """(m + 1, m + 1) sum of u K'K."""
    c: np.ndarray
    """(m + 1, T) sum of u K'y."""
    yy: float
    """Sum of u |y|^2."""
    weight: float
    """Sum of u."""


class Solution(NamedTuple):
    """The coefficients and what they reach."""

    theta: np.ndarray
    """(m + 1, T), the intercepts last."""
    objective: float
    """Omega."""
    increase: np.ndarray
    """(m,) by how much Omega rises without each prototype, the others refitted:
    |beta_j|^2 / [A^-1]_jj."""


def solve(equations: Equations, ridge: float) -> Solution:
    """The minimising coefficients; of several minimisers the shortest."""
    m = len(equations.A) - 1
    M = equations.A / equations.weight
    M[np.arange(m), np.arange(m)] += ridge
    c = equations.c / equations.weight
    scale = 1.0 / np.sqrt(np.maximum(M.diagonal(), np.finfo(np.float64).tiny))
    scaled = M * scale[:, None] * scale
    rhs = c * scale[:, None]
    try:
        factor = cho_factor(scaled, lower=True)
        inverse = cho_solve(factor, np.eye(m + 1))
        if inverse.diagonal().max() > 1.0 / _CUT:
            raise LinAlgError
        theta = cho_solve(factor, rhs)
        theta += cho_solve(factor, rhs - scaled @ theta)
    except LinAlgError:  # singular to rounding: equal prototypes without a ridge
        value, vector = eigh(scaled)
        kept = value > _CUT * value[-1]
        half = vector[:, kept] / np.sqrt(value[kept])
        inverse = half @ half.T
        # the share of each unit vector that was cut is a direction that costs nothing
        free = 1.0 - (vector[:, kept] ** 2).sum(axis=1)
        inverse[np.arange(m + 1), np.arange(m + 1)] += np.maximum(free, 0.0) / _CUT
        theta = half @ (half.T @ rhs)
    theta *= scale[:, None]
    objective = float((theta * (M @ theta - 2.0 * c)).sum() + equations.yy / equations.weight)
    cost = inverse.diagonal()[:m] * scale[:m] ** 2
    increase = (theta[:m] ** 2).sum(axis=1) / np.maximum(cost, np.finfo(np.float64).tiny)
    return Solution(theta, max(objective, 0.0), increase)


def without(equations: Equations, keep: np.ndarray) -> Equations:
    """The equations of some of the prototypes (numbers or a mask)."""
    index = np.append(np.arange(len(equations.A) - 1)[keep], len(equations.A) - 1)
    return equations._replace(A=equations.A[np.ix_(index, index)], c=equations.c[index])


def removal_order(equations: Equations, ridge: float, m: int) -> np.ndarray:
    """Which m prototypes stay when the cheapest is taken away one at a time (numbers, sorted)."""
    kept = np.arange(len(equations.A) - 1)
    while len(kept) > m:
        increase = solve(without(equations, kept), ridge).increase
        kept = np.delete(kept, int(np.argmin(increase)))
    return kept


def error_of(equations: Equations, theta: np.ndarray) -> float:
    """Mean squared error of given coefficients on the rows of the equations; NaN without rows."""
    if not equations.weight > 0:
        return float("nan")
    quadratic = (theta * (equations.A @ theta - 2.0 * equations.c)).sum()
    return max(float(quadratic + equations.yy) / equations.weight, 0.0)
