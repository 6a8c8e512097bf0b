"""Answers of a mixture for rows: decisions among the classes, and the gate's shares.

A block of rows takes one small matrix product with all gates and experts, then one exponential for
each gate and one for each expert.
"""

from __future__ import annotations

import numpy as np

from ..data.source import Csr
from ..numeric import links
from . import experts
from .objective import Parameters, Problem, row_blocks, split

LEAST_SHARE = 1e-280
"""Likelihood of a class, relative to the likeliest gate, below which logarithms are summed."""


def decisions(problem: Problem, at: Parameters, X: np.ndarray | Csr) -> np.ndarray:
    """Decisions among the classes: (m,) log-odds of class 1, or (m, K) logarithms for more classes.

    Class c has log sum_j g_j(x) e^-l(c, f_j(x)) (Fu 2010, eq. 21, its signs corrected), minus the
    same of all classes together.
    """
    K = max(problem.n_outputs, 2)
    out = np.empty((X.shape[0], K))
    for rows, _, Z, squares in row_blocks(problem, at, X, density=False):
        joint, F = _leaves(problem, at, Z, squares)
        gates = np.exp(joint - joint.max(axis=1, keepdims=True))
        share = np.empty((len(gates), K))
        for c, likelihood in enumerate(experts.likelihoods(problem.loss, F)):
            share[:, c] = np.einsum("mk,mk->m", gates, likelihood)
        far = np.flatnonzero(share.min(axis=1) < LEAST_SHARE)
        share[far] = 1.0
        logs = np.log(share)
        if len(far):
            each = joint[far, :, None] - experts.class_losses(problem.loss, F[far])
            logs[far] = links.log_sum(each, 1)[:, 0]
        out[rows] = logs
    if K == 2:
        return out[:, 1] - out[:, 0]
    return out - links.log_sum(out, 1)


def decision_row_nbytes(problem: Problem) -> float:
    """Bytes of a row that `decisions` takes beside them: logarithms, twice to sum them."""
    K = problem.n_outputs
    return 8.0 * (2 * K + 2 if K > 2 else 3)


def gate_shares(problem: Problem, at: Parameters, X: np.ndarray | Csr) -> np.ndarray:
    """(m, k) shares of rows that the gate gives to the components."""
    out = np.empty((X.shape[0], problem.tree.n_leaves))
    for rows, _, Z, squares in row_blocks(problem, at, X, density=False):
        out[rows] = links.share_out(_leaves(problem, at, Z, squares)[0], 1)[1]
    return out


def _leaves(
    problem: Problem, at: Parameters, Z: np.ndarray, squares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(m, k) logarithms of the gate's shares, up to a constant of each row, and the decisions."""
    logs, _, F = split(problem, at, Z, squares)
    return problem.tree.to_leaves(logs), F
