"""Coefficients refitted by log loss at the same prototypes, so that decisions are log odds.

    minimise  1/W sum_i u_i l(y_i, K_i theta) + ridge |beta|^2

For two classes l = log(1 + exp(-y f)), for more it is the cross entropy of the softmax.  The
problem is convex.  It is solved on the sample, then by reads, with the sample's objective tilted to
the gradient of all rows.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import logsumexp

from ..data.source import Chunk, Source
from ..numeric.links import sigmoid
from ..passes.fold import Fold, Reads
from ..passes.sums import add_sums
from .prototypes import Problem, targets
from .sample import SampleObjective
from .similarity import block_rows, dense_blocks

STEPS = (1.0, 0.5, 0.1)
"""Shares of a step that a read measures."""
MOST_READS = 10
"""Largest number of reads."""


class Loss(NamedTuple):
    """A read's sums at one theta."""

    value: float
    gradient: np.ndarray
    """(m + 1, T) gradient of `value`."""
    weight: float


Sums = list[dict[str, np.ndarray]]


def log_loss(F: np.ndarray, Y: np.ndarray, u: np.ndarray | None) -> tuple[float, np.ndarray]:
    """The weighted sum of losses, and its derivative by F (n, T); Y holds -1 and 1."""
    if F.shape[1] == 1:
        value = np.logaddexp(0.0, -Y * F)[:, 0]
        slope = -Y * sigmoid(-Y * F)
    else:
        total = logsumexp(F, axis=1, keepdims=True)
        value = (total - F)[Y > 0]
        slope = np.exp(F - total) - (Y > 0)
    if u is None:
        return float(value.sum()), slope
    return float(u @ value), slope * u[:, None]


def log_loss_fold(
    problem: Problem, Z: np.ndarray, thetas: list[np.ndarray]
) -> Fold[Sums, list[Loss]]:
    """Fold of the log loss and its gradient at each theta (m + 1, T)."""
    shape = thetas[0].shape
    return Fold(
        partial(_start, len(thetas), shape),
        partial(_step, problem, Z, thetas),
        add_sums,
        _finish,
    )


def _start(n: int, shape: tuple[int, ...]) -> Sums:
    return [{"gradient": np.zeros(shape), "tail": np.zeros(2)} for _ in range(n)]


def _step(
    problem: Problem, Z: np.ndarray, thetas: list[np.ndarray], state: Sums, chunk: Chunk
) -> Sums:
    if not chunk.n_rows:
        return state
    Y = targets(problem, chunk.target)
    for rows, buffer in dense_blocks(chunk.X, block_rows(Z.shape[1], len(Z)), problem.scale):
        B = buffer[: rows.stop - rows.start]
        u = None if chunk.weight is None else chunk.weight[rows]
        S = problem.similarity.values(B, Z)
        for theta, sums in zip(thetas, state, strict=True):
            value, slope = log_loss(S @ theta[:-1] + theta[-1], Y[rows], u)
            sums["gradient"][:-1] += S.T @ slope
            sums["gradient"][-1] += slope.sum(axis=0)
            sums["tail"] += value, len(B) if u is None else u.sum()
    return state


def _finish(state: Sums) -> list[Loss]:
    return [Loss(float(s["tail"][0]), s["gradient"], float(s["tail"][1])) for s in state]


class _Sampled:
    """The objective on the sample, in coordinates where its curvature is near the identity."""

    def __init__(self, sample: SampleObjective, Z: np.ndarray) -> None:
        A = sample.equations(Z).A / sample.weight
        self.ridge = sample.problem.ridge
        m = len(Z)
        A[np.arange(m), np.arange(m)] += self.ridge
        A[np.arange(m + 1), np.arange(m + 1)] += 1e-12 * np.trace(A)
        self.factor = np.linalg.cholesky(A)
        self.K = np.column_stack([sample.similarities, np.ones(len(sample.X))])
        self.Y, self.u, self.weight = sample.Y, sample.u, sample.weight

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = log_loss(self.K @ theta, self.Y, self.u)
        return penalised(value / self.weight, self.K.T @ slope / self.weight, theta, self.ridge)

    def minimise(self, start: np.ndarray, tilt: np.ndarray) -> tuple[np.ndarray, float]:
        """The minimiser, and the minimum, of the objective + tilt.(theta - start)."""

        def turned(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = solve_triangular(self.factor, flat.reshape(start.shape), lower=True, trans="T")
            value, gradient = self(theta)
            value += float((tilt * (theta - start)).sum())
            back = solve_triangular(self.factor, gradient + tilt, lower=True)
            return value, back.ravel()

        flat = (self.factor.T @ start).ravel()
        found = minimize(
            turned,
            flat,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 1000, "maxfun": 2000, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 30},
        )
        shape = start.shape
        theta = solve_triangular(self.factor, found.x.reshape(shape), lower=True, trans="T")
        return theta, float(found.fun)


def penalised(
    value: float, gradient: np.ndarray, theta: np.ndarray, ridge: float
) -> tuple[float, np.ndarray]:
    """The mean loss and its gradient, with the ridge added."""
    gradient = gradient.copy()
    gradient[:-1] += 2.0 * ridge * theta[:-1]
    return value + ridge * float((theta[:-1] ** 2).sum()), gradient


def refit(
    run: Reads,
    source: Source | None,
    sample: SampleObjective,
    Z: np.ndarray,
    *,
    whole: bool,
    tol: float,
) -> tuple[np.ndarray, float]:
    """(m + 1, T) coefficients of least log loss, and the objective; no read if `whole`."""
    problem = sample.problem
    own = _Sampled(sample, Z)
    start = np.zeros((len(Z) + 1, problem.n_targets))
    theta, value = own.minimise(start, np.zeros(start.shape))
    if whole:
        return theta, value
    tries, best_value = [theta], np.inf
    for n in range(MOST_READS):
        losses = run.fold(log_loss_fold(problem, Z, tries), source, name=f"log-loss-{n + 1}")
        measured = [
            (*penalised(at.value / at.weight, at.gradient / at.weight, t, problem.ridge), t)
            for at, t in zip(losses, tries, strict=True)
        ]
        lowest = min(measured, key=lambda one: one[0])
        if n and not lowest[0] < best_value:
            break
        best_value, gradient, theta = lowest
        here, slope = own(theta)
        goal, promised = own.minimise(theta, gradient - slope)
        if here - promised <= tol * best_value:
            break
        tries = [theta + step * (goal - theta) for step in STEPS]
    return theta, best_value
