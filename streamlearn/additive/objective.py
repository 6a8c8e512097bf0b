"""The objective of the additive models, and what reads and rows in memory say about it.

    F_k(w, b) = 1/2 w'Pw + 1/2 b^2 / B^2 + C sum_i s_i l(y_ik, f_i),    f_i = b + (Phi_i - c)'w,

one independent problem for each of K outputs (one, or one class against the rest).  A point is
theta (K, dim + 1): the coefficients w, last the intercept b.

The forces v = -l'(f) of any point are a dual point, and its gap is half the squared gradient in the
metric of the penalty, 1/2 g'P^-1 g + 1/2 B^2 g_b^2: at least 0 and free of cancellation.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data.source import Chunk
from ..numeric.bsplines import Bases
from ..numeric.losses import Hinge, LogLoss, SquaredError, SquaredHinge
from ..numeric.roughness import Reference, Roughness, times
from ..passes.fold import Fold
from ..solvers.newton import Evaluation
from .kernels import (
    NONE,
    Sums,
    empty_sums,
    gradient_rows,
    make_point,
)

LOSSES: dict[str, Any] = {
    "log_loss": LogLoss(),
    "squared_hinge": SquaredHinge(),
    "hinge": Hinge(),
    "squared_error": SquaredError(),
}


class Problem(NamedTuple):
    """Everything about the objective but the rows."""

    bases: Bases
    roughness: Roughness
    reference: Reference
    loss: Any
    C: float
    intercept_scaling: float
    """B."""
    n_outputs: int
    """K."""
    target_mean: float
    """Taken off the targets of a regression."""
    single: bool
    """Passes compute in float32; points are rounded to it: what is measured is what is kept."""

    @property
    def dim(self) -> int:
        return self.bases.dim

    def targets(self, chunk: Chunk) -> np.ndarray:
        """The chunk's targets as the kernels take them: +1/-1, codes, or centred numbers."""
        if isinstance(self.loss, SquaredError):
            return chunk.y - self.target_mean
        return 2.0 * chunk.y - 1.0 if self.n_outputs == 1 else chunk.y

    def rounded(self, theta: np.ndarray) -> np.ndarray:
        """The point that a pass can be made at."""
        if not self.single:
            return theta
        return np.column_stack([theta[:, :-1].astype(np.float32).astype(np.float64), theta[:, -1]])

    def penalty(self, theta: np.ndarray) -> np.ndarray:
        """(K,) 1/2 w'Pw + 1/2 b^2 / B^2."""
        w, b = theta[:, :-1], theta[:, -1]
        rough = (w * times(self.roughness.P, self.roughness, w)).sum(axis=1)
        return 0.5 * (rough + (b / self.intercept_scaling) ** 2)

    def half_norm(self, g: np.ndarray, g_b: np.ndarray) -> np.ndarray:
        """(K,) 1/2 g'P^-1 g + 1/2 B^2 g_b^2."""
        smooth = (g * times(self.roughness.L, self.roughness, g)).sum(axis=1)
        return 0.5 * (smooth + (self.intercept_scaling * g_b) ** 2)


def weights(chunk: Chunk) -> np.ndarray:
    """The chunk's weights, empty if all are 1."""
    return NONE if chunk.weight is None else chunk.weight


def point_at(problem: Problem, theta: np.ndarray) -> Any:
    W = np.ascontiguousarray(theta[:, :-1], np.float32 if problem.single else np.float64)
    return make_point(W, theta[:, -1] - theta[:, :-1] @ problem.reference.c)


def spline_sums(problem: Problem, a: np.ndarray, chunk: Chunk) -> np.ndarray:
    """(dim,) sum a Phi: the slope of the squared error of 0 against -a/2."""
    sums = empty_sums(1, problem.dim)
    zero = make_point(np.zeros((1, problem.dim)), np.zeros(1))
    gradient_rows(chunk.X, problem.bases, SquaredError(), zero, -0.5 * a, NONE, sums)
    return sums.gradient[0]


# A read at one point.


def evaluation_fold(problem: Problem, theta: np.ndarray) -> Fold[Sums, Evaluation]:
    """Fold: value, gradient and dual bound of every output at `theta`.  State 8 K dim bytes."""
    return Fold(
        partial(empty_sums, problem.n_outputs, problem.dim),
        partial(add_evaluation, problem, theta),
        add_sums,
        partial(finish_evaluation, problem, theta),
    )


def add_evaluation(problem: Problem, theta: np.ndarray, sums: Sums, chunk: Chunk) -> Sums:
    """The sums with the chunk's losses and gradients at `theta`."""
    if chunk.n_rows:
        y, s = problem.targets(chunk), weights(chunk)
        gradient_rows(chunk.X, problem.bases, problem.loss, point_at(problem, theta), y, s, sums)
    return sums


def add_sums(a: Any, b: Any) -> Any:
    """Two tuples of sums, added into the first."""
    for x, y in zip(a, b, strict=True):
        x += y
    return a


def finish_evaluation(problem: Problem, theta: np.ndarray, sums: Sums) -> Evaluation:
    """Value, gradient and dual bound from the sums over all rows."""
    w, b = theta[:, :-1], theta[:, -1]
    g = times(problem.roughness.P, problem.roughness, w)
    g += problem.C * (sums.gradient - sums.slope[:, None] * problem.reference.c)
    g_b = b / problem.intercept_scaling**2 + problem.C * sums.slope
    value = problem.penalty(theta) + problem.C * sums.value
    return Evaluation(theta, value, np.column_stack([g, g_b]), value - problem.half_norm(g, g_b))


def loss_fold(problem: Problem, theta: np.ndarray) -> Fold[tuple[np.ndarray, ...], float]:
    """Fold: mean loss of rows at `theta`, summed over the outputs."""
    return Fold(
        partial(_start_loss, problem.n_outputs),
        partial(_add_loss, problem, theta),
        add_sums,
        _finish_loss,
    )


def _start_loss(n_outputs: int) -> tuple[np.ndarray, ...]:
    return np.zeros(n_outputs), np.zeros(1)


def _add_loss(
    problem: Problem, theta: np.ndarray, state: tuple[np.ndarray, ...], chunk: Chunk
) -> tuple[np.ndarray, ...]:
    state[0][:] += losses(problem, theta, chunk)
    state[1][:] += chunk.n_rows if chunk.weight is None else chunk.weight.sum()
    return state


def _finish_loss(state: tuple[np.ndarray, ...]) -> float:
    return float(state[0].sum() / max(state[1][0], 1e-300))


def losses(problem: Problem, theta: np.ndarray, chunk: Chunk) -> np.ndarray:
    """(K,) weighted sum of the chunk's losses at `theta`."""
    sums = empty_sums(problem.n_outputs, problem.dim, gradient=False)
    return add_evaluation(problem, theta, sums, chunk).value
