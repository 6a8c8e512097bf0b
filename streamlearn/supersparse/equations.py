"""The normal equations of the coefficients, eq. 4 of Biggio 2015, from streamed sums.

    Omega(Z) = min_theta  1/W sum_i u_i |K_i theta - y_i|^2 + ridge |beta|^2,
    K_i = [s(x_i, z_1) ... s(x_i, z_m) 1],  theta = [beta; b],  W = sum_i u_i

theta has one column per target; the intercept b has no penalty.  The paper's sum without 1/W has
lambda = ridge W.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

_CUT = 1e-13
"""Share of the largest eigenvalue of the scaled matrix below which others are rounding."""
_TINY = np.finfo(np.float64).tiny


class Equations(NamedTuple):
    """Sums over rows; m prototypes and the constant, T targets."""

    A: np.ndarray
    """(m + 1, m + 1) sum of u K'K."""
    c: np.ndarray
    """(m + 1, T) sum of u K'y."""
    yy: float
    """Sum of u |y|^2."""
    weight: float
    """Sum W of u."""


class Solution(NamedTuple):
    """The best coefficients and their objective."""

    theta: np.ndarray
    """(m + 1, T) coefficients, with the intercepts last."""
    objective: float
    """Value of Omega."""


def penalised(equations: Equations, ridge: float) -> np.ndarray:
    """(m + 1, m + 1) matrix of the mean squared error with its ridge."""
    M = equations.A / equations.weight
    M[np.arange(len(M) - 1), np.arange(len(M) - 1)] += ridge
    return M


def solve(equations: Equations, ridge: float) -> Solution:
    """The minimising coefficients; if there are several, the shortest."""
    M = penalised(equations, ridge)
    c = equations.c / equations.weight
    scale, scaled, factor = _factorised(M)
    rhs = c * scale[:, None]
    if factor is not None:
        theta = dpotrs(factor, rhs, lower=1)[0]
        theta += dpotrs(factor, rhs - scaled @ theta, lower=1)[0]
    else:
        half, _ = _pseudo_half(scaled)
        theta = half @ (half.T @ rhs)
    theta *= scale[:, None]
    objective = float((theta * (M @ theta - 2.0 * c)).sum() + equations.yy / equations.weight)
    return Solution(theta, max(objective, 0.0))


def removal_costs(equations: Equations, ridge: float, theta: np.ndarray) -> np.ndarray:
    """(m,) rise of Omega without each prototype, when the others are refitted.

    It is |beta_j|^2 / [M^-1]_jj with M = `penalised`, which is exact while prototypes stay in
    place.
    """
    scale, scaled, factor = _factorised(penalised(equations, ridge))
    n = len(scale)
    if factor is not None:
        diagonal = dpotrs(factor, np.eye(n), lower=1)[0].diagonal()
    else:
        half, free = _pseudo_half(scaled)
        # nothing is lost in the direction of the share of a unit vector that was cut
        diagonal = (half**2).sum(axis=1) + free / _CUT
    cost = diagonal[:-1] * scale[:-1] ** 2
    return (theta[:-1] ** 2).sum(axis=1) / np.maximum(cost, _TINY)


def _factorised(M: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return (scale, M scaled to a unit diagonal, its Cholesky factor, None if it is rounding)."""
    scale = 1.0 / np.sqrt(np.maximum(M.diagonal(), _TINY))
    scaled = M * scale[:, None] * scale
    factor, info = dpotrf(scaled, lower=1)
    if info == 0 and dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")[0] > _CUT:
        return scale, scaled, factor
    return scale, scaled, None


def _pseudo_half(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (H, free): H H' is the pseudo-inverse, `free` the cut share of each unit vector."""
    value, vector = eigh(scaled)
    large = value > _CUT * value[-1]
    free = np.maximum(1.0 - (vector[:, large] ** 2).sum(axis=1), 0.0)
    return vector[:, large] / np.sqrt(value[large]), free


def without(equations: Equations, keep: np.ndarray) -> Equations:
    """The equations of some of the prototypes, given by number or by a mask."""
    index = np.append(np.arange(len(equations.A) - 1)[keep], len(equations.A) - 1)
    return equations._replace(A=equations.A[np.ix_(index, index)], c=equations.c[index])


def removal_order(equations: Equations, ridge: float, m: int) -> np.ndarray:
    """(m,) ascending numbers of those left when the cheapest prototype is removed repeatedly."""
    kept = np.arange(len(equations.A) - 1)
    while len(kept) > m:
        rest = without(equations, kept)
        costs = removal_costs(rest, ridge, solve(rest, ridge).theta)
        kept = np.delete(kept, int(np.argmin(costs)))
    return kept


def error_of(equations: Equations, theta: np.ndarray) -> float:
    """Mean squared error of given coefficients on the rows of the equations; NaN without rows."""
    if not equations.weight > 0:
        return float("nan")
    quadratic = (theta * (equations.A @ theta - 2.0 * equations.c)).sum()
    return max(float(quadratic + equations.yy) / equations.weight, 0.0)
