"""Steps of the weights' logarithms: Newton's on the restricted likelihood, and longer ones.

Twice the likelihood's negative logarithm has, at fixed dispersion psi, the slopes and the curvature

    s_j - gamma_j,    delta_jk (s_j + r_j - gamma_j) - lambda_j lambda_k (T_jk + 2 Q_jk / psi)

with s_j = lambda_j theta'S_j theta / psi, r_j the rank of S_j, T_jk = tr(V S_j V S_k) and Q_jk =
theta'S_j V S_k theta (Wood 2011, with a quadratic model of the losses).  A step takes the inverse
V, as an update of Fellner & Schall does, and beside it dim^2 times the size of a term.
"""

from __future__ import annotations

import numpy as np

from .optimum import Fit
from .penalties import Penalties

LEAST_CURVATURE = 0.05
"""Least curvature of a direction, in units in which an update of Fellner & Schall has 1."""
LEAST_FREEDOM = 1e-12
"""Degrees of freedom below which there is rounding alone."""
LONGEST = 5.0
"""Largest change of a weight's logarithm in a step."""


def newton_step(penalties: Penalties, fit: Fit, numbers: np.ndarray) -> np.ndarray:
    """(f,) changes of the logarithms of the weights of those numbers."""
    if not len(numbers):
        return np.empty(0)
    slope, curvature = derivatives(penalties, fit, numbers)
    unit = 1.0 / np.sqrt(np.maximum(fit.gamma[numbers], LEAST_FREEDOM))
    values, vectors = np.linalg.eigh(unit[:, None] * curvature * unit)
    turned = vectors.T @ (unit * slope)
    step = -unit * (vectors @ (turned / np.maximum(np.abs(values), LEAST_CURVATURE)))
    return np.clip(step, -LONGEST, LONGEST)


def derivatives(
    penalties: Penalties, fit: Fit, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(f,) slopes and (f, f) curvature in the logarithms of the weights of those numbers."""
    V, each = fit.V, [penalties.each[j] for j in numbers.tolist()]
    first = np.cumsum([0, *(p.size for p in each)])
    B, pull = np.empty((len(V), int(first[-1]))), np.empty((len(V), len(each)))
    # the weights enter the factors: of a perfect fit their squares over psi would overflow
    roots = [np.sqrt(fit.weights[j]) * penalties.each[j].root for j in numbers.tolist()]
    sides = [
        root.T @ fit.theta[p.at] / np.sqrt(fit.psi) for root, p in zip(roots, each, strict=True)
    ]
    forces = [root @ side for root, side in zip(roots, sides, strict=True)]
    for j, p in enumerate(each):
        np.matmul(V[:, p.at], roots[j], out=B[:, first[j] : first[j + 1]])
        pull[:, j] = V[:, p.at] @ forces[j]
    T, Q = np.empty((len(each), len(each))), np.empty((len(each), len(each)))
    for j, p in enumerate(each):
        T[j] = np.add.reduceat(((roots[j].T @ B[p.at]) ** 2).sum(axis=0), first[:-1])
        Q[j] = forces[j] @ pull[p.at]
    s = np.array([side @ side for side in sides])
    ranks = np.array([float(p.size) for p in each])
    curvature = -(T + 2.0 * Q)
    curvature[np.diag_indices(len(each))] += s + ranks - fit.gamma[numbers]
    return s - fit.gamma[numbers], 0.5 * (curvature + curvature.T)


def extrapolated(step: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Steps of logarithms as long as the geometric series that each is in with its last one."""
    rate = np.divide(step, last, out=np.zeros_like(step), where=last != 0)
    faster = (rate > 0) & (rate < 0.98)
    longer = np.where(faster, step / (1.0 - np.where(faster, rate, 0.0)), step)
    return np.clip(longer, -LONGEST, LONGEST)
