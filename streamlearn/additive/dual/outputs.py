"""Sums of dual coordinate descent over the outputs: losses, dual values and forces."""

from __future__ import annotations

import numpy as np

from ..basis.kernels import dual_sum_rows, loss_sum_rows
from ..objective import Problem


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
