"""Full correction: the least loss over all coefficients of the selected features.

It reads the side store only and never the wide data.  The method is L-BFGS in a metric.  While the
exact Hessian is small, it is the metric and is summed anew at every point, which is Newton's
method; otherwise the metric is the Hessian's blocks on the diagonal, one for each class, at the
first point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotrs

from ..solvers.damped_newton import SUFFICIENT, shorter
from ..solvers.lbfgs import CurvaturePair, direction, with_pair
from .curvature import Metric, curvature_fold, evaluation_fold, squares_fold
from .design import Layout
from .objective import Penalty
from .side import ReadSide

MEMORY = 12
"""Number of curvature pairs that L-BFGS stores."""
FLAT = 1e-12
"""Curvature of a pair divided by the lengths of its vectors, below which it is rounding and the
pair is left out."""
ITERATIONS = 300
"""Largest number of steps in one correction."""
JITTER = {"newton": 1e-10, "blocks": 1e-6}
"""Number added to the diagonal of the correlations before they are factored."""
LEAST = 1e-100
"""Least curvature of a column: a step of its inverse is still a number."""
ROUNDING = {True: 1e-12, False: 1e-7}
"""Relative error of a value: summed in float64 by `newton`, perhaps in float32 by `blocks`."""


class Solved(NamedTuple):
    """The coefficients at the end of a correction, and how it ended."""

    theta: np.ndarray
    """(K, 1 + width) coefficients."""
    value: float
    """Sum of loss and penalty."""
    loss: float
    gradient: np.ndarray
    """(K, 1 + width) gradient of `value`."""
    decrement: float
    """Estimate of how far `value` is above its minimum, from the last step."""
    n_reads: int
    converged: bool


@dataclass
class Damping:
    """Share of the columns' mean squares that is added to the curvature (Levenberg 1944).

    A row that is wrong without doubt pulls with all its weight and has no curvature, so that a step
    may be 10^11 times too long.  n times the mean squares are above the curvature everywhere
    (Boehning 1992), hence a step is found.
    """

    level: float = 0.0
    last: float = 1e-8
    """Level of the last damped step; before there was one, the level to begin with."""
    promised: float = np.inf
    """Decrement of that step."""

    def settled(self, decrement: float) -> bool:
        """Whether a decrement says how far the minimum is.

        It does if looser damping does not raise it: what is held back is then worth nothing.  So
        does 0, where nothing pulls.
        """
        looser = self.level < self.last and decrement <= self.promised
        return not self.level or decrement == 0 or looser

    def stiffen(self) -> None:
        """Raise the level after a step that did not lower the value."""
        self.level = 10.0 * self.level if self.level else self.last

    def moved(self, decrement: float, fall: float) -> None:
        """Adapt the level to a damped step that lowered the value by `fall`.

        A step along a parabola falls by its decrement; one along a line, by twice as much.
        """
        kept = fall / decrement
        self.last, self.promised = self.level, decrement
        self.level *= 0.01 if kept > 1.5 else 0.1 if kept > 0.75 else 1.0 if kept > 0.25 else 4.0
        if self.level < 1e-16:  # rounding of what it is added to
            self.level = 0.0


Factor = tuple[tuple[np.ndarray, bool], np.ndarray]
"""Result of `cho_factor` for the correlations of one block, and the (n,) scale of its columns."""


def correct(
    read: ReadSide,
    layout: Layout,
    theta: np.ndarray,
    penalty: Penalty,
    metric: Metric,
    tol: float | Callable[[float], float],
) -> Solved:
    """Minimise from theta, which adds up to 0 over classes, until a step promises less than tol.

    `tol` may be a function of the value reached.  The value falls in every step.  A step takes one
    read, a Newton step two.  Where no tenth of a step lowers it the curvature is damped.
    """
    read_at = partial(_evaluate, read, layout, penalty, metric.kind == "newton")
    value, loss, g = read_at(theta)
    n_reads = 1
    factors: list[Factor] | None = None
    pairs: list[CurvaturePair] = []
    decrement, damping = np.inf, Damping()
    squares = np.zeros(theta.shape[1])
    level = ROUNDING[metric.kind == "newton"]
    for _ in range(ITERATIONS):
        if factors is None:
            curvature = read(curvature_fold(layout, theta, metric))
            n_reads += 1
            factors = _factor(curvature, metric, penalty, theta, damping.level * squares)
        solve = partial(_solve, factors, metric, g.shape)
        step = -direction(solve, g.ravel(), pairs).reshape(g.shape)
        slope = float((g * step).sum())
        decrement, is_damped = 0.5 * slope, damping.level > 0
        settled = damping.settled(decrement)
        if settled and decrement <= (tol(value) if callable(tol) else tol):
            return Solved(theta, value, loss, g, decrement, n_reads, True)
        t = 1.0
        while True:
            new_theta = theta - t * step
            new_value, new_loss, new_g = read_at(new_theta)
            n_reads += 1
            lower = new_value <= value - SUFFICIENT * t * slope
            if lower or is_damped or t < 1e-3:
                break
            t *= float(shorter(value, new_value, -t * slope))
        if not lower:
            at_rounding = decrement <= level * abs(value)
            if at_rounding or damping.level > theta.shape[1]:
                done = at_rounding and settled
                return Solved(theta, value, loss, g, decrement, n_reads, done)
            if not squares.any():
                squares = read(squares_fold(layout))
                n_reads += 1
            damping.stiffen()
            factors = _factor(curvature, metric, penalty, theta, damping.level * squares)
            pairs = []
            continue
        if metric.kind == "blocks":
            change = (new_theta - theta).ravel(), (new_g - g).ravel()
            pairs = with_pair(pairs, *change, most=MEMORY, least=FLAT)
        if is_damped or metric.kind == "newton":
            factors = None
        if is_damped:
            damping.moved(decrement, value - new_value)
        theta, value, loss, g = new_theta, new_value, new_loss, new_g
    return Solved(theta, value, loss, g, decrement, n_reads, False)


def _evaluate(
    read: ReadSide, layout: Layout, penalty: Penalty, double: bool, theta: np.ndarray
) -> tuple[float, float, np.ndarray]:
    loss, g = read(evaluation_fold(layout, theta, not double))
    g = g - g.mean(axis=0)  # but for rounding it adds up to 0 already
    g[:, 1:] += penalty.gradient(theta[:, 1:])
    return loss + penalty.value(theta[:, 1:]), loss, g


def _factor(
    curvature: list[np.ndarray],
    metric: Metric,
    penalty: Penalty,
    theta: np.ndarray,
    damping: np.ndarray,
) -> list[Factor]:
    """Cholesky factors of the blocks, scaled to correlations because columns may have any units.

    `damping` (1 + width,) is added to every class's diagonal.
    """
    (K, n), jitter = theta.shape, JITTER[metric.kind]
    if metric.kind == "newton":
        H = curvature[0].copy()
        view = H.reshape(K, n, K, n)
        for j, part in enumerate(penalty.hessian(theta[:, 1:]), start=1):
            view[:, j, :, j] += part
        H[np.diag_indices(K * n)] += np.tile(damping, K)
        scale = np.sqrt(np.maximum(H.diagonal().reshape(K, n).mean(axis=0), LEAST))
        scale = np.tile(scale, K)
        H /= np.outer(scale, scale)
        # the loss is blind to what all classes have in common: make that direction stiff
        view += (np.eye(n) / K)[None, :, None, :]
        H[np.diag_indices(K * n)] += jitter
        return [(cho_factor(H, lower=True), scale)]
    extra = np.concatenate([np.zeros((K, 1)), penalty.diagonal(theta[:, 1:])], axis=1) + damping
    factors = []
    for k in range(K):
        for (a, b), block in zip(metric.blocks, curvature, strict=True):
            H = block[k] + np.diag(extra[k, a:b])
            scale = np.sqrt(np.maximum(H.diagonal(), 1e-8 * max(H.diagonal().max(), 1e-300)))
            H = H / np.outer(scale, scale)
            H[np.diag_indices(b - a)] += jitter
            factors.append((cho_factor(H, lower=True), scale))
    return factors


def _solve(
    factors: list[Factor], metric: Metric, shape: tuple[int, ...], flat: np.ndarray
) -> np.ndarray:
    """The metric's inverse times a gradient; both are a (K, n) matrix of this shape, flattened."""
    g = flat.reshape(shape)
    if metric.kind == "newton":
        factor, scale = factors[0]
        step = (_divide(factor, g.ravel() / scale) / scale).reshape(g.shape)
    else:
        step = np.empty_like(g)
        parts = iter(factors)
        for k in range(len(g)):
            for a, b in metric.blocks:
                factor, scale = next(parts)
                step[k, a:b] = _divide(factor, g[k, a:b] / scale) / scale
    return (step - step.mean(axis=0)).ravel()


def _divide(factor: tuple[np.ndarray, bool], g: np.ndarray) -> np.ndarray:
    """`scipy.linalg.cho_solve` without its checks, which cost more than a small block."""
    x: np.ndarray = dpotrs(factor[0], g, lower=factor[1])[0]
    return x
