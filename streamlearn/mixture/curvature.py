"""How strongly EM's lower bound bends at a point, from a sample of rows in memory.

Each row of parameters (a gate's or an expert's) has a curvature of its own, as the bound separates
them.  ``newton`` holds its Cholesky factor, (p + 1)^2 numbers a row; ``first-order`` its diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..data.source import Chunk
from . import experts
from .objective import Parameters, Problem, posterior, row_blocks, weights

LEAST = 1e-5
"""Rows whose share of the largest curvature is less than this are left out of a sum."""
FLOOR = 0.1
"""Of a centre's own mass, added to its curvature: a gate that is sure of itself does not bend."""


class Curvature:
    """Solves with the curvature of the bound at a point.

    Parameters
    ----------
    problem, at : Problem, Parameters
    rows : Chunk
        The sample, y in codes.
    share : float
        What part of all rows, by weight, it stands for.
    newton : bool

    Attributes
    ----------
    diagonal : (R, p + 1) float64
        Without `newton`: the diagonals.
    """

    def __init__(
        self, problem: Problem, at: Parameters, rows: Chunk, share: float, *, newton: bool
    ) -> None:
        n, width = at.rows.shape
        self._factors: list[Any] = []
        diagonal = np.zeros((n, width))
        mass = np.zeros(problem.tree.n_gates)
        moments = np.zeros((n, width, width)) if newton else None
        for span, B, Z, squares in row_blocks(problem, at, rows.X):
            s = weights(rows, span) / share
            c, held = _bends(problem, at, Z, squares, rows.y[span])
            c *= s[:, None]
            mass += s @ held
            x = B if isinstance(B, np.ndarray) else B.toarray()
            x = np.column_stack([x[: len(s)], np.ones(len(s))])
            if moments is None:
                diagonal += self._squares(problem, at, x, c)
            else:
                _add_moments(moments, x, c)
        ridge = problem.ridge(problem.tree.n_gates)
        own = _own_bend(problem, mass, n)
        if moments is None:
            self.diagonal = np.maximum(diagonal + ridge + own, np.finfo(np.float64).tiny)
            return
        for r in range(n):
            M = moments[r]
            if problem.kind == "rbf" and r < problem.tree.n_gates:
                M = _about(M, at.rows[r])
            M[np.diag_indices(width)] += ridge[r] + own[r] + 1e-10 * np.trace(M) / width + 1e-300
            self._factors.append(cho_factor(M, lower=True, overwrite_a=True, check_finite=False))

    @staticmethod
    def _squares(problem: Problem, at: Parameters, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        """(R, p + 1) the diagonals of what `_add_moments` sums."""
        out = c.T @ (x * x)
        if problem.kind == "rbf":
            n = problem.tree.n_gates
            v, total = at.rows[:n], c[:, :n].sum(axis=0)[:, None]
            out[:n] += v * (v * total - 2.0 * (c[:, :n].T @ x))
            out[:n, -1] = 0.0
        return np.maximum(out, 0.0)

    def solve(self, g: np.ndarray) -> np.ndarray:
        """H^-1 g for g (R, p + 1)."""
        if not self._factors:
            return g / self.diagonal
        pairs = zip(self._factors, g, strict=True)
        return np.array([cho_solve(factor, row, check_finite=False) for factor, row in pairs])


def _bends(
    problem: Problem, at: Parameters, Z: np.ndarray, squares: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(m, R) second derivatives of the bound in each product alone, and (m, n_gates) posteriors."""
    tree = problem.tree
    e = posterior(problem, at, Z, squares, y)
    held = tree.to_gates(e.q)
    bend = e.q[:, :, None] * experts.curvature(problem.loss, e.F, y)
    if problem.kind == "generative":
        of_gates = np.zeros_like(held)
    else:
        p = e.offered
        of_gates = p * (1.0 - p)
        if tree.n_branches:
            of_gates[:, tree.n_branches :] *= held[:, tree.parent]
        if problem.kind == "rbf":
            of_gates *= (2.0 * problem.tau) ** 2
    return np.hstack([of_gates, bend.reshape(len(held), -1)]), held


def _own_bend(problem: Problem, mass: np.ndarray, n: int) -> np.ndarray:
    """(R, 1): what a centre's mass bends by itself; exact for the generative gate."""
    own = np.zeros((n, 1))
    if problem.kind != "linear":
        floor = 1.0 if problem.kind == "generative" else FLOOR
        own[: len(mass), 0] = np.maximum(2.0 * problem.tau * floor * mass, 1e-12)
    return own


def _add_moments(moments: np.ndarray, x: np.ndarray, c: np.ndarray) -> None:
    """Add sum_i c_ir x_i x_i' to each moment, in place, over the rows that matter to it."""
    for r, top in enumerate(c.max(axis=0, initial=0.0)):
        if top > 0:
            some = np.flatnonzero(c[:, r] > LEAST * top)
            part = x[some] * np.sqrt(c[some, r])[:, None]
            moments[r] += part.T @ part


def _about(M: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The moment of (x - v) from that of (x, 1); nothing in the last column, which is no centre."""
    p = len(v) - 1
    m, total = M[:p, p], M[p, p]
    out = np.zeros_like(M)
    out[:p, :p] = M[:p, :p] - np.outer(m, v[:p]) - np.outer(v[:p], m)
    out[:p, :p] += total * np.outer(v[:p], v[:p])
    return out
