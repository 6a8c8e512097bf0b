"""The curvature of a sample of rows by its products with vectors: no matrix, any dimension.

    H v = P v + (sum_i a_i (Phi_i - c),  sum_i a_i + v_b / B^2),    a_i = C s_i l''(f_i) f_i(v)

f(v) being the rows' decisions at v.  The multinomial loss couples the outputs of a row:
a_ik = C s_i p_ik (f_ik(v) - sum_j p_ij f_ij(v)).
"""

from __future__ import annotations

import numpy as np

from ...data.source import Chunk
from ...numeric.bases.roughness import times
from ...numeric.linalg import conjugate_gradients
from ..objective import Problem, decisions, softmax_losses, spline_sums
from .curvature import row_curvatures

RESIDUAL, MOST_PRODUCTS = 0.01, 100
"""Share of the first residual, and number of products, at which a direction is good enough; each
product looks at the sample twice."""


class SampledCurvature:
    """The curvature of problem k at `theta` as `rows` estimate it."""

    def __init__(self, problem: Problem, theta: np.ndarray, k: int, rows: Chunk) -> None:
        self.problem, self.rows = problem._replace(single=False), rows
        if problem.joint:
            F = decisions(self.problem, problem.by_output(theta), rows)
            softmax_losses(F, rows.target)
            weight = 1.0 if rows.weight is None else rows.weight[:, None]
            self._p: np.ndarray | None = F
            self._h = problem.C * weight
        else:
            h, _ = row_curvatures(problem, theta, k, rows)
            self._p, self._h = None, h[:, None]

    def times(self, v: np.ndarray) -> np.ndarray:
        """H v, flat."""
        problem = self.problem
        v = v.reshape(-1, problem.dim + 1)
        a = decisions(problem, v, self.rows)
        if self._p is not None:
            a *= self._p
            a -= self._p * a.sum(axis=1, keepdims=True)
        a *= self._h
        total = a.sum(axis=0)
        g = times(problem.roughness.P, problem.roughness, v[:, :-1])
        g += spline_sums(problem, a, self.rows) - total[:, None] * problem.reference.c
        return np.column_stack([g, v[:, -1] / problem.intercept_scaling**2 + total]).ravel()

    def precondition(self, g: np.ndarray) -> np.ndarray:
        """The inverse penalty times g, flat."""
        problem = self.problem
        g = g.reshape(-1, problem.dim + 1)
        smooth = times(problem.roughness.L, problem.roughness, g[:, :-1])
        return np.column_stack([smooth, problem.intercept_scaling**2 * g[:, -1]]).ravel()

    def solve(self, g: np.ndarray) -> np.ndarray:
        """H^-1 g, nearly."""
        return conjugate_gradients(
            self.times, self.precondition, g, tol=RESIDUAL, most=MOST_PRODUCTS
        )
