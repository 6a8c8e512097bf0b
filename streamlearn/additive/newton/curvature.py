"""The curvature of the objective, of all rows or a sample, and the system of a Newton step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dger, dsymv

from ...data.order import row_share
from ...data.source import Chunk
from ...numeric.linalg import factor_spd
from ...passes.fold import Fold
from ...passes.sums import add_sums
from ...solvers.newton import Evaluation
from ..basis.kernels import NONE, GramSums, gram_rows
from ..basis.kernels_loss import curvatures
from ..objective import Problem, decisions, spline_sums

SHRINK = 4.0
"""Rows at which a correlation counts half."""

Masses = tuple[np.ndarray, np.ndarray]
"""(K, dim) C sum s l'' Phi and (K,) C sum s l''."""
Grams = list[list[Any]]
"""For every output a list of two: its `GramSums` and the float C sum s l''."""


def gram_fold(
    problem: Problem, theta: np.ndarray, share: float = 1.0, seed: int = 0
) -> Fold[Grams, Grams]:
    """Fold: the curvature of every output at `theta` from a hash share of the rows.

    State 8 K dim^2 bytes.  For squared error the moments sum s y Phi are in `b`.
    """
    return Fold(
        partial(empty_grams, problem.n_outputs, problem.dim),
        partial(_add_grams, problem, theta, share, seed),
        add_sums,
        _finish_grams,
    )


def empty_gram(dim: int, room: np.ndarray | None = None) -> GramSums:
    """Sums of no rows, their matrix in `room` (dim, dim) if that is given."""
    if room is None:
        room = np.zeros((dim, dim))
    else:
        room.fill(0.0)
    return GramSums(room, np.zeros(dim), np.zeros(dim))


def add_gram(
    problem: Problem,
    theta: np.ndarray,
    k: int,
    gram: GramSums,
    chunk: Chunk,
    n_threads: int = 1,
) -> float:
    """Add C sum s l'' Phi Phi' of output k to `gram`; returns C sum s l''."""
    h, y = row_curvatures(problem, theta, k, chunk)
    r = h * y if problem.loss.quadratic else NONE
    gram_rows(chunk.X, problem.bases, h, r, gram, n_threads)
    return float(h.sum())


def row_curvatures(
    problem: Problem, theta: np.ndarray, k: int, chunk: Chunk
) -> tuple[np.ndarray, np.ndarray]:
    """(m,) C s l'' and targets of output k."""
    y = problem.targets(chunk)
    f = decisions(problem, theta[k : k + 1], chunk)[:, 0]
    if problem.n_outputs > 1:
        y = np.where(y == k, 1.0, -1.0)
    h = curvatures(problem.loss, y, f)
    h *= problem.C
    if chunk.weight is not None:
        h *= chunk.weight
    return h, y


def mass_fold(problem: Problem, theta: np.ndarray) -> Fold[Masses, Masses]:
    """Fold: C sum s l'' Phi (K, dim) and C sum s l'' (K,) at `theta`.  State 8 K dim bytes."""
    return Fold(
        partial(empty_mass, problem.n_outputs, problem.dim),
        partial(_add_mass, problem, theta),
        add_sums,
    )


def empty_mass(n_outputs: int, dim: int) -> Masses:
    return np.zeros((n_outputs, dim)), np.zeros(n_outputs)


def _add_mass(problem: Problem, theta: np.ndarray, state: Masses, chunk: Chunk) -> Masses:
    if chunk.n_rows:
        for k in range(problem.n_outputs):
            h, _ = row_curvatures(problem, theta, k, chunk)
            state[0][k] += spline_sums(problem, h, chunk)
            state[1][k] += h.sum()
    return state


def calibrate(
    gram: GramSums,
    total: float,
    count: np.ndarray,
    mass: np.ndarray,
    full: float,
    everywhere: np.ndarray,
) -> GramSums:
    """A sample's curvature with every spline's share of it made that of all rows, in place.

    `mass` (dim,) and `full` are sum h Phi and sum h over all rows, `count` (dim,) the sample's rows
    at each spline.  A value that is rare in all rows is met by chance, or not at all, in a sample,
    and its coefficient would be sent too far.  The covariance of the splines is scaled to the right
    masses, with correlations of splines seen in few rows shrunk; it stays positive semi-definite.
    Functions that are `everywhere` (dim,) bool have no mass of their own: all rows' it is.
    """
    if not len(mass):  # every column is constant
        return gram
    H, seen = gram.H, gram.g > 0
    dger(-1.0 / total, gram.g, gram.g, a=H.T, overwrite_a=1)
    ratio = np.where(seen, mass / np.where(seen, gram.g, 1.0), 0.0)
    seen = seen | everywhere
    ratio = np.where(everywhere, full / total, ratio)
    diagonal = np.where(seen, H.diagonal() * ratio, mass)
    scale = np.sqrt(ratio * (count / (count + SHRINK)))
    H *= scale
    H *= scale[:, None]
    np.fill_diagonal(H, diagonal)
    dger(1.0 / full, mass, mass, a=H.T, overwrite_a=1)
    return GramSums(H, mass, gram.b)


def empty_grams(n_outputs: int, dim: int) -> Grams:
    return [[empty_gram(dim), 0.0] for _ in range(n_outputs)]


def _add_grams(
    problem: Problem, theta: np.ndarray, share: float, seed: int, state: Grams, chunk: Chunk
) -> Grams:
    if share < 1.0:
        chunk = chunk.where(row_share(chunk.rows, seed) < share)
    if chunk.n_rows:
        for k, part in enumerate(state):
            part[1] += add_gram(problem, theta, k, part[0], chunk)
    return state


def _finish_grams(state: Grams) -> Grams:
    for gram, _ in state:
        clear_lower(gram.H)
    return state


def clear_lower(H: np.ndarray) -> None:
    """Zeros below the diagonal, where passes leave what suits them; in place."""
    for i in range(1, len(H)):
        H[i, :i] = 0.0


class Border(NamedTuple):
    """The intercept's part of a system H x = g, which is solved without it."""

    u: np.ndarray
    """(dim,) its row of H."""
    corner: float

    def reduced(self, g: np.ndarray) -> np.ndarray:
        """(dim,) the right-hand side of the others."""
        return g[:-1] - self.u * (g[-1] / self.corner)

    def extended(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """(dim + 1,) the solution, from that of the others."""
        return np.append(x, (g[-1] - self.u @ x) / self.corner)


def inverse(problem: Problem, gram: GramSums, total: float) -> Callable[[np.ndarray], np.ndarray]:
    """g -> H^-1 g of one output, both (dim + 1,); the factor takes the place of ``gram.H``."""
    H, border = assemble(problem, gram, total)
    divide = factor_spd(H)
    return lambda g: border.extended(divide(border.reduced(g)), g)


def assemble(problem: Problem, gram: GramSums, total: float) -> tuple[np.ndarray, Border]:
    """The system H x = g with the intercept eliminated; ``gram.H`` becomes its matrix.

    H of (w, b) is sum h (Phi - c)(Phi - c)' + P bordered by the intercept: its Schur complement is
    dim x dim and needs no second matrix.
    """
    H, c = gram.H, problem.reference.c
    add_penalty(problem, H)
    u = gram.g - total * c
    corner = total + 1.0 / problem.intercept_scaling**2
    # H - u c' - c g' is the Gram of Phi - c; then - u u' / corner.  Columns are what BLAS takes.
    if len(c):
        dger(-1.0, c + u / corner, u, a=H.T, overwrite_a=1)
        dger(-1.0, gram.g, c, a=H.T, overwrite_a=1)
    return H, Border(u, corner)


def gram_optimum(problem: Problem, gram: GramSums, total: float, at: Evaluation) -> Evaluation:
    """Squared error: a Newton step from `at` (zero) with the curvature of all rows is exact.

    Overwrites ``gram.H``; the bound is that of the residual of the step.
    """
    H, border = assemble(problem, gram, total)
    g = -at.gradient[0]
    rhs = border.reduced(g)
    diagonal = H.diagonal().copy()
    for i in range(len(H)):  # the factor takes the upper triangle, the lower one keeps the matrix
        H[i + 1 :, i] = H[i, i + 1 :]
    step = border.extended(factor_spd(H)(rhs), g)
    np.fill_diagonal(H, diagonal)
    residual = dsymv(1.0, H.T, step[:-1]) - rhs if problem.dim else rhs
    value = at.value + 0.5 * at.gradient @ step
    bound = value - problem.half_norm(residual[None], np.zeros(1))
    return Evaluation(step[None], value, np.empty((1, 0)), bound)


def add_penalty(problem: Problem, H: np.ndarray) -> None:
    """Add P to H in place."""
    first, roughness = problem.bases.first, problem.roughness
    for a, b, begin in zip(first[:-1], first[1:], roughness.table, strict=True):
        n = b - a
        H[a:b, a:b] += roughness.P[begin : begin + n * n].reshape(n, n)
