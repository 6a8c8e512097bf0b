"""Newton's method on rows in memory with matrices that are kept, corrected by curvature pairs.

    s = -H^-1 g,  H the curvature at an earlier point and what the last steps say of its change

(L-BFGS whose first matrix is H; Nocedal & Wright 2006, algorithm 7.4.)  To sum up and factor the
matrix of a few hundred coefficients takes as long as ten steps with it, in which most problems
arrive; the others go on with a matrix a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ...solvers.newton import Evaluation, Objective, Solution, newton

MOST_RENEWED = 1
"""Times that steps which are slow have the matrices made anew; a chosen number: where curvatures
jump, as those of the squared hinge do, one of each step is better, and is found out early."""

Inverse = Callable[[np.ndarray], np.ndarray]
"""g -> H^-1 g, both (dim + 1,)."""


class Factored(Objective, Protocol):
    """An objective whose directions come from matrices."""

    def inverse_of(self, at: Evaluation, k: int) -> Inverse:
        """The factored curvature of problem k at a point that was measured."""


class KeptFactors:
    """`objective` with directions by the matrices of earlier points, one for each problem."""

    def __init__(self, objective: Factored) -> None:
        self.rounding = objective.rounding
        self.evaluate = objective.evaluate
        self._objective = objective
        self._inverses: dict[int, Inverse] = {}
        self._n_renewed = 0

    def solve(self, at: Evaluation, k: int, g: np.ndarray) -> np.ndarray:
        if k not in self._inverses:
            self._inverses[k] = self._objective.inverse_of(at, k)
        return self._inverses[k](g)

    def refine(self, at: Evaluation) -> None:
        self._inverses.clear()
        self._objective.refine(at)
        self._n_renewed += 1

    def too_slow(self, at: Evaluation, gap: np.ndarray) -> str:
        """Reason to stop, as `newton` asks for it; empty: there is none."""
        return "a matrix serves too few steps" if self._n_renewed > MOST_RENEWED else ""


def newton_with_kept(
    objective: Factored, theta: np.ndarray, *, tol: float, max_reads: int
) -> Solution:
    """`newton` from `theta`, by kept matrices as long as these serve."""
    kept = KeptFactors(objective)
    found = newton(
        kept, theta, tol=tol, max_reads=max_reads, watch=kept.too_slow, always_corrects=True
    )
    if not kept.too_slow(found.at, found.gap):
        return found
    return newton(objective, found.at.theta, tol=tol, max_reads=max_reads)
