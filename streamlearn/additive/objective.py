"""The objective of the additive models, and what reads and rows in memory say about it.

    F_k(w, b) = 1/2 w'Pw + 1/2 b^2 / B^2 + C sum_i s_i l(y_ik, f_i),    f_i = b + (Phi_i - c)'w,

one independent problem for each of K outputs (one, or one class against the rest).  A point is theta
(K, dim + 1): the coefficients w, last the intercept b.

The forces v = -l'(f) of any point are a dual point, and its gap is half the squared gradient in the
metric of the penalty, 1/2 g'P^-1 g + 1/2 B^2 g_b^2: at least 0 and free of cancellation.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dger

from ..data.order import row_share
from ..data.select import keep_rows
from ..data.source import Chunk
from ..numeric.bsplines import Bases
from ..numeric.linalg import solve_spd
from ..numeric.losses import Hinge, LogLoss, SquaredError, SquaredHinge
from ..numeric.roughness import Reference, Roughness, times
from ..passes.fold import Fold
from ..solvers.newton import Evaluation
from .kernels import (
    NONE,
    GramSums,
    Sums,
    empty_sums,
    gradient_rows,
    gram_rows,
    make_point,
    margins_rows,
)

LOSSES: dict[str, Any] = {
    "log_loss": LogLoss(),
    "squared_hinge": SquaredHinge(),
    "hinge": Hinge(),
    "squared_error": SquaredError(),
}


SHRINK = 4.0
"""Rows at which a correlation counts half."""


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
    """Passes compute in float32; points are rounded to it, so that what is measured is what is kept."""

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
        gradient_rows(chunk.X, problem.bases, problem.loss, _point(problem, theta), y, s, sums)
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


# Curvature.


def gram_fold(
    problem: Problem, theta: np.ndarray, share: float = 1.0, seed: int = 0
) -> Fold[list[GramSums], list[GramSums]]:
    """Fold: the curvature of every output at `theta` from a hash share of the rows.

    State 8 K dim^2 bytes.  For squared error the moments sum s y Phi are in `b`.
    """
    return Fold(
        partial(_start_grams, problem.n_outputs, problem.dim),
        partial(_add_grams, problem, theta, share, seed),
        _merge_grams,
    )


def empty_gram(dim: int) -> GramSums:
    return GramSums(np.zeros((dim, dim)), np.zeros(dim), np.zeros(dim))


def add_gram(problem: Problem, theta: np.ndarray, k: int, gram: GramSums, chunk: Chunk) -> float:
    """Add C sum s l'' Phi Phi' of output k to `gram`; returns C sum s l''."""
    h, y = row_curvatures(problem, theta, k, chunk)
    r = h * y if isinstance(problem.loss, SquaredError) else NONE
    gram_rows(chunk.X, problem.bases, h, r, gram)
    return float(h.sum())


def row_curvatures(
    problem: Problem, theta: np.ndarray, k: int, chunk: Chunk
) -> tuple[np.ndarray, np.ndarray]:
    """(m,) C s l'' and targets of output k."""
    y = problem.targets(chunk)
    F = np.empty((chunk.n_rows, 1))
    point = _point(problem, theta[k : k + 1])
    margins_rows(chunk.X, problem.bases, point.W, F)
    if problem.n_outputs > 1:
        y = np.where(y == k, 1.0, -1.0)
    h = curvatures(problem.loss, y, F[:, 0] + point.b[0])
    h *= problem.C
    if chunk.weight is not None:
        h *= chunk.weight
    return h, y


def spline_sums(problem: Problem, a: np.ndarray, chunk: Chunk) -> np.ndarray:
    """(dim,) sum a Phi: the slope of the squared error of 0 against -a/2."""
    sums = empty_sums(1, problem.dim)
    zero = make_point(np.zeros((1, problem.dim)), np.zeros(1))
    gradient_rows(chunk.X, problem.bases, SquaredError(), zero, -0.5 * a, NONE, sums)
    return sums.gradient[0]


def mass_fold(problem: Problem, theta: np.ndarray) -> Fold[Any, Any]:
    """Fold: C sum s l'' Phi (K, dim) and C sum s l'' (K,) at `theta`.  State 8 K dim bytes."""
    return Fold(
        partial(_start_mass, problem.n_outputs, problem.dim),
        partial(_add_mass, problem, theta),
        add_sums,
    )


def _start_mass(n_outputs: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((n_outputs, dim)), np.zeros(n_outputs)


def _add_mass(problem: Problem, theta: np.ndarray, state: Any, chunk: Chunk) -> Any:
    if chunk.n_rows:
        for k in range(problem.n_outputs):
            h, _ = row_curvatures(problem, theta, k, chunk)
            state[0][k] += spline_sums(problem, h, chunk)
            state[1][k] += h.sum()
    return state


def curvatures(loss: Any, y: np.ndarray, f: np.ndarray) -> np.ndarray:
    """(m,) d2l/df2, the losses' own `curvature` for many rows."""
    if isinstance(loss, LogLoss):
        e = np.exp(-np.abs(f))
        return e / (1.0 + e) ** 2
    if isinstance(loss, SquaredHinge):
        return np.where(y * f < 1.0, 2.0, 0.0)
    return np.full(len(y), 2.0)


def calibrate(
    gram: GramSums, total: float, count: np.ndarray, mass: np.ndarray, full: float
) -> GramSums:
    """A sample's curvature with every spline's share of it made that of all rows, in place.

    `mass` (dim,) and `full` are sum h Phi and sum h over all rows, `count` (dim,) the sample's rows
    at each spline.  A value that is rare in all rows is met by chance, or not at all, in a sample,
    and its coefficient would be sent too far.  The covariance of the splines is scaled to the right
    masses, with correlations of splines seen in few rows shrunk; it stays positive semi-definite.
    """
    H, seen = gram.H, gram.g > 0
    dger(-1.0 / total, gram.g, gram.g, a=H.T, overwrite_a=1)
    ratio = np.where(seen, mass / np.where(seen, gram.g, 1.0), 0.0)
    diagonal = np.where(seen, H.diagonal() * ratio, mass)
    scale = np.sqrt(ratio * (count / (count + SHRINK)))
    H *= scale
    H *= scale[:, None]
    np.fill_diagonal(H, diagonal)
    dger(1.0 / full, mass, mass, a=H.T, overwrite_a=1)
    return GramSums(H, mass, gram.b)


def _start_grams(n_outputs: int, dim: int) -> list[Any]:
    return [[empty_gram(dim), 0.0] for _ in range(n_outputs)]


def _add_grams(
    problem: Problem, theta: np.ndarray, share: float, seed: int, state: list[Any], chunk: Chunk
) -> list[Any]:
    if share < 1.0:
        chunk = keep_rows(chunk, row_share(chunk.rows, seed) < share, in_place=False)
    if chunk.n_rows:
        for k, part in enumerate(state):
            part[1] += add_gram(problem, theta, k, part[0], chunk)
    return state


def _merge_grams(a: list[Any], b: list[Any]) -> list[Any]:
    return [[add_sums(x, y), s + t] for (x, s), (y, t) in zip(a, b, strict=True)]


def solve(problem: Problem, gram: GramSums, total: float, g: np.ndarray) -> np.ndarray:
    """H^-1 g of one output, (dim + 1,); overwrites ``gram.H``."""
    return solve_assembled(*assemble(problem, gram, total, g))


def assemble(
    problem: Problem, gram: GramSums, total: float, g: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, float, float]]:
    """The system H x = g with the intercept eliminated; ``gram.H`` becomes its matrix.

    H of (w, b) is sum h (Phi - c)(Phi - c)' + P bordered by the intercept: its Schur complement is
    dim x dim and needs no second matrix.  Returns (matrix, right-hand side, what gives the
    intercept's part).
    """
    H, c = gram.H, problem.reference.c
    add_penalty(problem, H)
    u = gram.g - total * c
    corner = total + 1.0 / problem.intercept_scaling**2
    # H - u c' - c g' is the Gram of Phi - c; then - u u' / corner.  Columns are what BLAS takes.
    if len(c):
        dger(-1.0, c + u / corner, u, a=H.T, overwrite_a=1)
        dger(-1.0, gram.g, c, a=H.T, overwrite_a=1)
    return H, g[:-1] - u * (g[-1] / corner), (u, corner, g[-1])


def solve_assembled(
    H: np.ndarray, rhs: np.ndarray, back: tuple[np.ndarray, float, float]
) -> np.ndarray:
    """x of an assembled system; the factor overwrites the upper triangle of H."""
    u, corner, last = back
    x = solve_spd(H, rhs) if len(rhs) else rhs
    return np.append(x, (last - u @ x) / corner)


def add_penalty(problem: Problem, H: np.ndarray) -> None:
    """Add P to H in place."""
    first, roughness = problem.bases.first, problem.roughness
    for a, b, begin in zip(first[:-1], first[1:], roughness.table, strict=True):
        n = b - a
        H[a:b, a:b] += roughness.P[begin : begin + n * n].reshape(n, n)


def _point(problem: Problem, theta: np.ndarray) -> Any:
    W = np.ascontiguousarray(theta[:, :-1], np.float32 if problem.single else np.float64)
    return make_point(W, theta[:, -1] - theta[:, :-1] @ problem.reference.c)
