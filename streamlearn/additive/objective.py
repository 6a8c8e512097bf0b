"""The objective of the additive models, and what reads and rows in memory say about it.

    F_k(w, b) = 1/2 w'Pw + 1/2 b^2 / B^2 + C sum_i s_i l(y_ik, f_i),    f_i = b + (Phi_i - c)'w,

one independent problem for each of K outputs (one, one class against the rest, or one quantile of
several, whose losses differ).  A point is
theta (K, dim + 1): the coefficients w, last the intercept b.  The multinomial loss of K classes,
log sum_k e^f_k - f_y, is one problem of all outputs: theta (1, K (dim + 1)), penalties summed.

The forces v = -l'(f) of any point are a dual point, and its gap is half the squared gradient in the
metric of the penalty, 1/2 g'P^-1 g + 1/2 B^2 g_b^2: at least 0 and free of cancellation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ..data.source import Chunk
from ..numeric.bases.bsplines import Bases
from ..numeric.bases.roughness import Reference, Roughness, times
from ..numeric.links import to_softmax
from ..numeric.losses import Force, Loss, Quantile
from ..numeric.targets import CLASS, NUMBER
from ..passes.fold import Fold
from ..passes.sums import add_sums
from ..solvers.newton import Evaluation
from .basis.kernels import (
    NONE,
    Point,
    Sums,
    class_margins_rows,
    class_sums_rows,
    dual_sum_rows,
    empty_sums,
    gradient_rows,
    loss_sum_rows,
    make_point,
    margins_rows,
    side_by_side,
)


class Problem(NamedTuple):
    """Everything about the objective but the rows."""

    bases: Bases
    roughness: Roughness
    reference: Reference
    loss: Loss
    C: float
    intercept_scaling: float
    """B."""
    n_outputs: int
    """K."""
    target_mean: float
    """Taken off the targets of a regression."""
    single: bool
    """Passes compute in float32; points are rounded to it: what is measured is what is kept."""
    joint: bool = False
    """The multinomial loss: one problem of all outputs."""
    levels: tuple[float, ...] = ()
    """The quantile of each output, where there are several; `loss` is that of the first."""
    by_term: np.ndarray | None = None
    """Weights of the first terms that their penalties hold already; None: they hold none."""

    @property
    def dim(self) -> int:
        return self.bases.dim

    @property
    def n_problems(self) -> int:
        return 1 if self.joint else self.n_outputs

    def outputs(self) -> Iterator[tuple[slice, Loss]]:
        """The outputs by loss: their places, and the loss that they share."""
        if not self.levels:
            yield slice(0, self.n_outputs), self.loss
        for k, level in enumerate(self.levels):
            yield slice(k, k + 1), Quantile(level)

    def by_output(self, theta: np.ndarray) -> np.ndarray:
        """(K, dim + 1) of a point or gradient."""
        return theta.reshape(self.n_outputs, self.dim + 1)

    def by_problem(self, theta: np.ndarray) -> np.ndarray:
        """The inverse of `by_output`."""
        return theta.reshape(self.n_problems, -1)

    def in_all(self, x: np.ndarray) -> np.ndarray:
        """(n_problems,) sums of (K,) numbers of the outputs."""
        return x.sum(keepdims=True) if self.joint else x

    def targets(self, chunk: Chunk) -> np.ndarray:
        """The chunk's targets as the kernels take them: +1/-1, codes, or numbers."""
        y = chunk.target
        if self.loss.target is NUMBER:
            return y - self.target_mean
        if self.n_outputs > 1 or self.loss.target is not CLASS:
            return y
        return 2.0 * y - 1.0

    def rounded(self, theta: np.ndarray) -> np.ndarray:
        """The point that a pass can be made at."""
        if not self.single:
            return theta
        w = self.by_output(theta)
        near = np.column_stack([w[:, :-1].astype(np.float32).astype(np.float64), w[:, -1]])
        return self.by_problem(near)

    def penalty(self, theta: np.ndarray) -> np.ndarray:
        """(K,) 1/2 w'Pw + 1/2 b^2 / B^2."""
        return self.penalty_by(theta, times(self.roughness.P, self.roughness, theta[:, :-1]))

    def penalty_by(self, theta: np.ndarray, Pw: np.ndarray) -> np.ndarray:
        """`penalty`, where P w (K, dim) is known."""
        w, b = theta[:, :-1], theta[:, -1]
        return 0.5 * ((w * Pw).sum(axis=1) + (b / self.intercept_scaling) ** 2)

    def half_norm(self, g: np.ndarray, g_b: np.ndarray) -> np.ndarray:
        """(K,) 1/2 g'P^-1 g + 1/2 B^2 g_b^2."""
        smooth = (g * times(self.roughness.L, self.roughness, g)).sum(axis=1)
        return 0.5 * (smooth + (self.intercept_scaling * g_b) ** 2)


def weights(chunk: Chunk) -> np.ndarray:
    """The chunk's weights, empty if all are 1."""
    return NONE if chunk.weight is None else chunk.weight


def point_at(problem: Problem, theta: np.ndarray) -> Point:
    W = np.ascontiguousarray(theta[:, :-1], np.float32 if problem.single else np.float64)
    return make_point(W, theta[:, -1] - theta[:, :-1] @ problem.reference.c)


def spline_sums(problem: Problem, a: np.ndarray, chunk: Chunk) -> np.ndarray:
    """(dim,) sum a Phi; (K, dim) of `a` (m, K)."""
    forces = a if a.ndim == 2 else a[:, None]
    K = forces.shape[1]
    if side_by_side(chunk.X, problem.bases, K):
        return class_sums_rows(chunk.dense, problem.bases, forces)
    sums = empty_sums(K, problem.dim)
    zero = make_point(np.zeros((K, problem.dim)), np.zeros(K))
    gradient_rows(chunk.X, problem.bases, Force(), zero, forces, NONE, sums)
    return sums.gradient if a.ndim == 2 else sums.gradient[0]


def decisions(problem: Problem, theta: np.ndarray, chunk: Chunk) -> np.ndarray:
    """(m, K) float64 f of the rows at theta (K, dim + 1)."""
    F = np.empty((chunk.n_rows, len(theta)))
    point = point_at(problem, theta)
    if side_by_side(chunk.X, problem.bases, len(theta)):
        class_margins_rows(chunk.dense, problem.bases, point.W, F)
    else:
        margins_rows(chunk.X, problem.bases, point.W, F)
    F += point.b
    return F


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
    if not chunk.n_rows:
        return sums
    y, s = problem.targets(chunk), weights(chunk)
    theta = problem.by_output(theta)
    if not problem.joint:
        add_slopes(problem, theta, chunk, sums)
        return sums
    F = decisions(problem, theta, chunk)
    losses, forces = softmax_losses(F, y)
    sums.value[0] += losses @ s if len(s) else losses.sum()
    if len(sums.gradient):
        if len(s):
            forces *= s[:, None]
        sums.gradient[:] += spline_sums(problem, forces, chunk)
        sums.slope[:] += forces.sum(axis=0)
    return sums


def add_slopes(problem: Problem, theta: np.ndarray, chunk: Chunk, sums: Sums) -> None:
    """Add the losses, slopes and gradients of outputs with problems of their own, in place."""
    y, s, point = problem.targets(chunk), weights(chunk), point_at(problem, theta)
    for at, loss in problem.outputs():
        own = Point(point.W[at], point.b[at]), y, s, Sums(*(part[at] for part in sums))
        gradient_rows(chunk.X, problem.bases, loss, *own)


def softmax_losses(F: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) log sum_k e^f_k - f_y and (m, K) its slopes; `F` becomes the probabilities."""
    of_class = np.arange(len(F)), codes.astype(np.intp)
    own = F[of_class]
    total = to_softmax(F)[:, 0]
    slopes = F.copy()
    slopes[of_class] -= 1.0
    return total - own, slopes


def finish_evaluation(problem: Problem, theta: np.ndarray, sums: Sums) -> Evaluation:
    """Value, gradient and dual bound from the sums over all rows."""
    outputs = problem.by_output(theta)
    w, b = outputs[:, :-1], outputs[:, -1]
    Pw = times(problem.roughness.P, problem.roughness, w)
    g = Pw + problem.C * (sums.gradient - sums.slope[:, None] * problem.reference.c)
    g_b = b / problem.intercept_scaling**2 + problem.C * sums.slope
    value = problem.in_all(problem.penalty_by(outputs, Pw) + problem.C * sums.value)
    # The dual value at alpha = -C l'(z).  The point linearised along the last step, u - l''(z) dz,
    # would prove no more: what it lacks is (H - H_sample) step, to leading order what this one
    # lacks; only with H of all rows it vanishes, and then a fit in memory leaves one read to do.
    bound = value - problem.in_all(problem.half_norm(g, g_b))
    return Evaluation(theta, value, problem.by_problem(np.column_stack([g, g_b])), bound)


def loss_fold(
    problem: Problem, theta: np.ndarray, check: Callable[[Chunk], None] | None = None
) -> Fold[tuple[np.ndarray, ...], float]:
    """Fold: mean loss of rows at `theta`, summed over the outputs; `check(chunk)` comes first."""
    return Fold(
        partial(_start_loss, problem.n_outputs),
        partial(_add_loss, problem, theta, check),
        add_sums,
        _finish_loss,
    )


def _start_loss(n_outputs: int) -> tuple[np.ndarray, ...]:
    return np.zeros(n_outputs), np.zeros(1)


def _add_loss(
    problem: Problem,
    theta: np.ndarray,
    check: Callable[[Chunk], None] | None,
    state: tuple[np.ndarray, ...],
    chunk: Chunk,
) -> tuple[np.ndarray, ...]:
    if check is not None:
        check(chunk)
    state[0][:] += losses(problem, theta, chunk)
    state[1][:] += chunk.n_rows if chunk.weight is None else chunk.weight.sum()
    return state


def _finish_loss(state: tuple[np.ndarray, ...]) -> float:
    return float(state[0].sum() / max(state[1][0], 1e-300))


def losses(problem: Problem, theta: np.ndarray, chunk: Chunk) -> np.ndarray:
    """(K,) weighted sum of the chunk's losses at `theta`."""
    sums = empty_sums(problem.n_outputs, problem.dim, gradient=False)
    return add_evaluation(problem, theta, sums, chunk).value


# Losses and dual values at decisions and dual variables that are known.


def add_losses(
    problem: Problem, F: np.ndarray, y: np.ndarray, weight: np.ndarray, out: np.ndarray
) -> None:
    """Add the rows' weighted losses at the decisions `F` (m, K) to `out` (K,) in place."""
    for at, loss in problem.outputs():
        loss_sum_rows(loss, np.ascontiguousarray(F[:, at]), y, weight, out[at])


def add_dual_values(
    problem: Problem, y: np.ndarray, weight: np.ndarray, alpha: np.ndarray, out: np.ndarray
) -> None:
    """Add C sum_i s_i dual_value(alpha_i) of each output to `out` (K,) in place."""
    for at, loss in problem.outputs():
        own = np.ascontiguousarray(alpha[:, at]) if problem.levels else alpha
        dual_sum_rows(loss, problem.C, y, weight, own, out[at])


def forces_of(problem: Problem, y: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """(m, K) float64 alpha y: the sums of which, times Psi, are w."""
    forces = alpha[:, : problem.n_outputs].astype(np.float64)
    if problem.loss.dual_rule().both_signs:
        return forces
    if problem.n_outputs > 1:
        forces *= np.where(y[:, None] == np.arange(problem.n_outputs), 1.0, -1.0)
    else:
        forces *= y[:, None]
    return forces
