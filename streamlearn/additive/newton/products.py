"""The curvature of a sample of rows by its products with vectors: no matrix, any dimension.

    H v = P v + (sum_i a_i (Phi_i - c),  sum_i a_i + v_b / B^2),    a_i = C s_i l''(f_i) f_i(v)

f(v) being the rows' decisions at v.  The multinomial loss couples the outputs of a row:
a_ik = C s_i p_ik (f_ik(v) - sum_j p_ij f_ij(v)).

Each column's own block of H preconditions the products of many coefficients of dense splines.
"""

from __future__ import annotations

from functools import partial
from math import ceil

import numpy as np

from ...data.source import Chunk
from ...numeric.bases.roughness import times
from ...numeric.linalg import conjugate_gradients
from ...numeric.links import to_softmax
from ...numeric.losses import SquaredError
from ...solvers.newton import Evaluation
from ..basis.kernels import empty_sums, gradient_rows
from ..objective import Problem, decisions, point_at, spline_sums
from .blocks import make_blocks
from .curvature import row_curvatures
from .parts import Parts

MOST_PRODUCTS, FEWEST_PRODUCTS = 100, 3
"""Products after which a direction is good enough, where no read is next, and where one is next and
costs no more than as many: log-loss of 20,000 x 500 takes a quarter less with 3 than with 100."""
FIRST_RESIDUAL, LEAST_RESIDUAL, MOST_RESIDUAL = 0.3, 0.1, 0.3
"""Shares of the gradient left by a direction: by the first one, the least and the most.  Each
divides the gap by 10 to 100.  They were chosen on satimage alone, where halves or doubles of them
cost up to a third more products."""
GAMMA = 0.9
"""Factor of Eisenstat and Walker's second choice."""
ENOUGH = 0.5
"""Share of the tolerated gap that a direction aims at, at most."""

Weights = tuple[np.ndarray, np.ndarray | None]
"""(m,) C s l'' of a part's rows, None; or, multinomial, (m, 1) or (1, 1) C s, and (m, K) p."""


def products_a_read(share: float) -> int:
    """Products of a direction between reads, at most, with this share of the rows.

    They take as long as the read, or 3 of them if that is more: what they leave, the curvature
    pairs of the next steps make up for.
    """
    return max(FEWEST_PRODUCTS, ceil(1.0 / share))


class SampledCurvature:
    """The curvature of problem k at `theta` as `rows` estimate it."""

    def __init__(self, problem: Problem, theta: np.ndarray, k: int, rows: Parts) -> None:
        self.problem, self._rows = problem._replace(single=False), rows
        self._weights = rows.each(partial(_weights, self.problem, theta, k))
        self._blocks = make_blocks(self.problem, rows, self._weights, _diagonal)

    def times(self, v: np.ndarray) -> np.ndarray:
        """H v, flat."""
        problem = self.problem
        v = v.reshape(-1, problem.dim + 1)
        sums, total = self._rows.sum(partial(_forces, problem, v), self._weights)
        g = times(problem.roughness.P, problem.roughness, v[:, :-1])
        g += sums - total[:, None] * problem.reference.c
        return np.column_stack([g, v[:, -1] / problem.intercept_scaling**2 + total]).ravel()

    def in_penalty(self, g: np.ndarray) -> np.ndarray:
        """The inverse penalty times g, flat."""
        problem = self.problem
        g = g.reshape(-1, problem.dim + 1)
        smooth = times(problem.roughness.L, problem.roughness, g[:, :-1])
        return np.column_stack([smooth, problem.intercept_scaling**2 * g[:, -1]]).ravel()

    def precondition(self, g: np.ndarray) -> np.ndarray:
        """The inverse of the columns' own blocks, or of the penalty, times g, flat."""
        if self._blocks is None:
            return self.in_penalty(g)
        return self._blocks.divide(g.reshape(-1, self.problem.dim + 1)).ravel()

    def solve(self, g: np.ndarray, residual: float, most: int = MOST_PRODUCTS) -> np.ndarray:
        """H^-1 g, but for a share `residual` of g in the metric of the inverse penalty.

        By `most` products at most, which then leave more.
        """
        return conjugate_gradients(
            self.times,
            self.precondition,
            g,
            square=lambda r: float(r @ self.in_penalty(r)),
            tol=residual,
            most=most,
        )


def _weights(problem: Problem, theta: np.ndarray, k: int, part: Chunk) -> Weights:
    if not problem.joint:
        return row_curvatures(problem, theta, k, part)[0], None
    F = decisions(problem, problem.by_output(theta), part)
    to_softmax(F)
    weight = np.ones((1, 1)) if part.weight is None else part.weight[:, None]
    return problem.C * weight, F


def _diagonal(weights: Weights) -> np.ndarray:
    """(K, m) second derivatives of a part's losses in each output alone."""
    h, p = weights
    return h[None] if p is None else np.ascontiguousarray((h * p * (1.0 - p)).T)


def _forces(
    problem: Problem, v: np.ndarray, part: Chunk, weights: Weights
) -> tuple[np.ndarray, np.ndarray]:
    """(K, dim) sum a Phi and (K,) sum a of a part's rows."""
    h, p = weights
    if p is None:  # h f are the slopes of half a weighted square, of which one look sums all
        sums, zero = empty_sums(1, problem.dim), np.zeros(part.n_rows)
        gradient_rows(
            part.X, problem.bases, SquaredError(), point_at(problem, v), zero, 0.5 * h, sums
        )
        return sums.gradient, sums.slope
    a = decisions(problem, v, part)
    a *= p
    a -= p * a.sum(axis=1, keepdims=True)
    a *= h
    return spline_sums(problem, a, part), a.sum(axis=0)


class Forcing:
    """Shares of the gradients up to which directions need to be solved, of one problem each.

    eta_k = GAMMA |g_k|^2 / |g_(k-1)|^2, within limits, and none that would bring the gap below what
    is wanted (Eisenstat & Walker 1996, choice 2; Kelley 1995, section 6.3).  In the metric of the
    inverse penalty |g|^2 is twice the gap.
    """

    def __init__(self, tol: float) -> None:
        self._tol = tol
        self._gaps: dict[int, float] = {}

    def residual(self, at: Evaluation, k: int) -> float:
        """The share for the direction of problem k from `at`."""
        gap = float(at.value[k] - at.bound[k])
        if gap <= 0:  # rounding
            return LEAST_RESIDUAL
        before = self._gaps.get(k, np.inf)
        self._gaps[k] = gap
        eta = FIRST_RESIDUAL if before == np.inf else GAMMA * gap / before
        wanted = np.sqrt(ENOUGH * self._tol * abs(float(at.value[k])) / gap)
        return float(np.clip(max(eta, wanted), LEAST_RESIDUAL, MOST_RESIDUAL))
