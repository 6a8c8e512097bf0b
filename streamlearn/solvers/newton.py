"""Newton's method where a measurement costs a read and a direction costs none.

    minimise F_k(theta_k) for k = 1..K, independent smooth convex problems measured in the same read

1. A read measures value, gradient and a lower bound of every problem at the trial point.
2. A problem whose value fell enough moves there (Armijo); the others will try a shorter step.
3. Stop when the best bounds seen prove the largest relative gap small enough.
4. Problems that moved take a new direction -H^-1 g from the curvature at hand.

The curvature may be that of a sample of the rows (Erdogdu & Montanari 2015; Roosta-Khorasani &
Mahoney 2019): the error then shrinks by a constant factor a read, about the dimension over the rows
used.  When the gap of a problem shrinks less than tenfold in a read, the change of the gradient
along the step corrects the next directions, as in L-BFGS with H^-1 to start from (Nocedal & Wright
2006, algorithm 7.4); when it does so again, the objective refines its curvature, which may cost the
next read as much as the rest of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from .damped_newton import SUFFICIENT, shorter
from .lbfgs import CurvaturePair, direction, with_pair

SHORTEST = 1e-6
"""Step length below which a problem stands still, because rounding is in the way.  So does a
problem whose gap is at the level of rounding and no longer falls."""
SLOW = 0.1
"""Share of the gap that may be left after a read for the convergence not to count as slow."""
NEAR = 1.0
"""Relative gap above which steps change the curvature too much for pairs of them to be of use."""


class Evaluation(NamedTuple):
    """The measurements of a read at one point, for all problems."""

    theta: np.ndarray
    """(K, n) the point."""
    value: np.ndarray
    """(K,) values there."""
    gradient: np.ndarray
    """(K, n) gradients there."""
    bound: np.ndarray
    """(K,) lower bounds of the minima."""


class Objective(Protocol):
    """The questions that the solver asks of the rows."""

    rounding: float
    """Relative error of a measured value."""

    def evaluate(self, theta: np.ndarray) -> Evaluation:
        """Measure at `theta`, or at the nearest point that can be measured: one read."""

    def solve(self, at: Evaluation, k: int, g: np.ndarray) -> np.ndarray:
        """(n,) H^-1 g, H the curvature of problem k at a point that was measured."""

    def refine(self, at: Evaluation) -> None:
        """Make the curvature of the next directions better, if that can be done."""


class Solution(NamedTuple):
    """The point at which the solver stopped, and why."""

    at: Evaluation
    """The best point measured; its `bound` is the best seen anywhere."""
    gap: np.ndarray
    """(K,) relative gaps."""
    n_reads: int
    reason: str
    """Reason for which the solver stopped short, in words; empty if the gap is small enough."""


def relative_gap(value: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """(value - bound) / max(|value|, tiny)."""
    return (value - bound) / np.maximum(np.abs(value), np.finfo(np.float64).tiny)


def newton(
    objective: Objective,
    theta: np.ndarray,
    *,
    tol: float,
    max_reads: int,
    watch: Callable[[Evaluation, np.ndarray], str] | None = None,
    decrement: float = 0.0,
    always_corrects: bool = False,
) -> Solution:
    """Minimise from `theta` until every relative gap is at most `tol`.

    `watch(at, gap)` is called after each read and may give a reason to stop.  With `decrement` > 0
    a problem is also done when the next step promises to lower its value by less than that share.
    With `always_corrects` every step corrects the next directions: L-BFGS from the curvature given.
    """
    at = objective.evaluate(theta)
    n_problems, n_reads = len(theta), 1
    moved = np.ones(n_problems, bool)
    step, size, slope = np.zeros_like(at.theta), np.ones(n_problems), np.zeros(n_problems)
    done, level = np.zeros(n_problems, bool), np.zeros(n_problems, bool)
    pairs: list[list[CurvaturePair]] = [[] for _ in range(n_problems)]
    slow = np.zeros(n_problems, bool)
    gap = relative_gap(at.value, at.bound)
    while True:
        reason = watch(at, gap) if watch is not None else ""
        done |= gap <= tol
        if done.all() or reason:
            break
        if n_reads >= max_reads:
            reason = f"max_passes={max_reads} reads were made"
            break
        slope[level] = 0.0  # no direction is asked of those that stand still
        for k in np.flatnonzero(moved & ~done & ~level):
            solve = partial(objective.solve, at, k)
            step[k] = direction(solve, at.gradient[k], pairs[k])
            slope[k] = at.gradient[k] @ step[k]
            size[k] = 1.0 if slope[k] < 0 else 0.0
            done[k] |= 0 <= -0.5 * slope[k] < decrement * abs(at.value[k])
        stuck = ~done & ((size < SHORTEST) | level)
        if (done | stuck).all():
            reason = "no step lowers the objective any more" if stuck.any() else ""
            break
        trial = objective.evaluate(at.theta + np.where(done | stuck, 0.0, size)[:, None] * step)
        n_reads += 1
        slack = objective.rounding * np.abs(at.value)
        moved = trial.value <= at.value + SUFFICIENT * size * slope + slack
        if not moved.all():
            size = np.where(moved, size, size * shorter(at.value, trial.value, size * slope))
        before, at = at, _take(at, trial, moved)
        last, gap = gap, relative_gap(at.value, at.bound)
        level = moved & (gap <= 10 * objective.rounding) & (gap > 0.5 * last)
        was_slow, slow = slow, ~done & (gap > np.maximum(SLOW * last, tol))
        for k in np.flatnonzero(moved):
            if always_corrects or (slow[k] and gap[k] < NEAR):
                change = at.theta[k] - before.theta[k], at.gradient[k] - before.gradient[k]
                pairs[k] = with_pair(pairs[k], *change)
            else:
                pairs[k] = []
        if (slow & was_slow).any():
            objective.refine(at)
    return Solution(at, gap, n_reads, reason)


def _take(at: Evaluation, trial: Evaluation, moved: np.ndarray) -> Evaluation:
    """The trial where it was accepted; everywhere the better bound."""
    if moved.all():
        return trial._replace(bound=np.maximum(at.bound, trial.bound))
    return Evaluation(
        np.where(moved[:, None], trial.theta, at.theta),
        np.where(moved, trial.value, at.value),
        np.where(moved[:, None], trial.gradient, at.gradient),
        np.maximum(at.bound, trial.bound),
    )
