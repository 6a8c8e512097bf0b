"""Each column's own block of a curvature: what makes conjugate gradients quick.

    B_d = P_d + sum_i h_i (Phi_id - c_d)(Phi_id - c_d)'

The inverse penalty alone leaves conjugate gradients as many products as the losses' curvature is
larger than the penalty's; these blocks leave what columns have to do with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ...data.source import Chunk
from ..basis.kernels import diagonal_blocks_rows
from ..objective import Problem
from .parts import Parts

Weights = TypeVar("Weights")
LEAST_COEFFICIENTS = 2000
"""Coefficients of an output from which blocks are made.  Of 720 of satimage they cost more than
they save, of 7,840 of MNIST, whose columns go together, as much (C = 0.01: a fifth more); of 5,000
of 500 independent columns they leave a quarter of the products."""
BLOCKS_NBYTES = 16 << 20
"""Bytes that the blocks may take while they are made: of more coefficients the penalty does."""
ROWS = 4096
"""Rows that the blocks are of: what is missing of a rare value's curvature costs a product."""
COPIES = 5
"""Arrays of all blocks that are there at once."""


def blocks_nbytes(n_coefficients: int) -> int:
    """Bytes that the blocks take at most while they are made; coefficients of one output."""
    return BLOCKS_NBYTES if n_coefficients >= LEAST_COEFFICIENTS else 0


class Blocks:
    """The inverses of all blocks, of one output or of several."""

    def __init__(self, problem: Problem, sums: np.ndarray, total: np.ndarray) -> None:
        """`sums` (K, n): the blocks of sum h Phi Phi', upper triangles; `total` (K,): sum h."""
        first, roughness, c = problem.bases.first, problem.roughness, problem.reference.c
        widths, begin = np.diff(first), block_begins(problem)
        self._corner = total + 1.0 / problem.intercept_scaling**2
        self._groups: list[tuple[np.ndarray, np.ndarray]] = []
        for n in np.unique(widths[widths > 0]).tolist():
            own, square = np.flatnonzero(widths == n), np.arange(n * n)
            G = sums[:, begin[own][:, None] + square].reshape(len(sums), len(own), n, n)
            G = np.triu(G) + np.triu(G, 1).swapaxes(2, 3)
            at = first[own][:, None] + np.arange(n)
            g, mean = G.sum(axis=3), c[at]  # the splines of a column sum to 1
            moved = g[..., None] * mean[:, None, :]
            G -= moved + moved.swapaxes(2, 3)
            G += total[:, None, None, None] * (mean[:, :, None] * mean[:, None, :])
            G += roughness.P[roughness.table[own][:, None] + square].reshape(len(own), n, n)
            self._groups.append((at, np.linalg.inv(G)))

    def divide(self, g: np.ndarray) -> np.ndarray:
        """(K, dim + 1) the blocks' inverses times g (K, dim + 1)."""
        out = np.empty_like(g)
        for at, inverse in self._groups:
            out[:, at] = (inverse @ g[:, at][..., None])[..., 0]
        out[:, -1] = g[:, -1] / self._corner
        return out


def block_begins(problem: Problem) -> np.ndarray:
    """(p + 1,) intp: where each column's block begins in one array of all."""
    return np.cumsum(np.append(0, np.diff(problem.bases.first) ** 2)).astype(np.intp)


def make_blocks(
    problem: Problem, rows: Parts, weights: list[Weights], h: Callable[[Weights], np.ndarray]
) -> Blocks | None:
    """The blocks of the curvature of `rows`, dense splines; None where they are not worth it.

    ``h(weights)`` (K, m) are the curvatures of a part's rows.
    """
    begin, K = block_begins(problem), problem.n_outputs if problem.joint else 1
    is_large = 8 * K * int(begin[-1]) * COPIES > BLOCKS_NBYTES
    is_small = problem.dim < LEAST_COEFFICIENTS
    if is_small or is_large or problem.bases.dense or rows.is_sparse:
        return None
    stride = max(rows.n_rows // ROWS, 1)
    sums, total = np.zeros((K, begin[-1])), np.zeros(K)

    def add(part: Chunk, weights: Weights) -> None:
        """Add the blocks of every `stride`-th row, for all, and the curvature of all."""
        of_rows = h(weights)
        own, some = of_rows.sum(axis=1), np.ascontiguousarray(of_rows[:, ::stride])
        some *= (own / np.maximum(some.sum(axis=1), np.finfo(float).tiny))[:, None]
        for one, line in zip(some, sums, strict=True):
            diagonal_blocks_rows(part.dense[::stride], problem.bases, one, begin, line)
        total[:] += own

    rows.each_in_turn(add, weights)
    return Blocks(problem, sums, total)
