"""Errors on rows held out, for many models in one read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold
from .prototypes import Problem, fold_of, targets
from .rows import block_rows, dense_blocks


def errors_fold(
    problem: Problem,
    points: Sequence[tuple[int, np.ndarray, np.ndarray]],
    n_folds: int,
    seed: int,
) -> Fold[np.ndarray, np.ndarray]:
    """Fold: (len(points), 2) weight of the errors on the rows held out, and of those rows.

    A point is (fold, prototypes, theta).  State 16 bytes a point.
    """
    return Fold(
        partial(np.zeros, (len(points), 2)),
        partial(_count_errors, problem, tuple(points), n_folds, seed),
        np.add,
    )


def _count_errors(
    problem: Problem, points: tuple, n_folds: int, seed: int, sums: np.ndarray, chunk: Chunk
) -> np.ndarray:
    if not chunk.n_rows:
        return sums
    Y = targets(problem, chunk.y)
    size = block_rows(chunk.X.shape[1], max(len(Z) for _, Z, _ in points))
    for rows, buffer in dense_blocks(chunk.X, size):
        B = buffer[: rows.stop - rows.start]
        u = np.ones(len(B)) if chunk.weight is None else chunk.weight[rows]
        folds = fold_of(B, n_folds, seed)
        for k, (fold, Z, theta) in enumerate(points):
            apart = folds == fold
            F = problem.similarity.values(B[apart], Z) @ theta[:-1] + theta[-1]
            y = Y[rows][apart]
            wrong = (F > 0) != (y > 0) if F.shape[1] == 1 else F.argmax(1) != y.argmax(1)
            sums[k] += u[apart] @ wrong.reshape(-1), u[apart].sum()
    return sums
