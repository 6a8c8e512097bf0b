"""Moments of the losses near a point, from one read: value, gradient, curvature of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk
from ...passes.fold import Fold
from ...passes.sums import add_sums
from ..basis.kernels import GramSums, gram_rows
from ..basis.kernels_loss import curvatures, row_losses
from ..newton.curvature import clear_lower, empty_gram
from ..objective import Problem, decisions, weights
from .criteria import Quadratic, least_weight


class RowMoments(NamedTuple):
    """Sums over the rows for one output."""

    gram: GramSums
    """Gram of s l''; its ``b`` is sum s l' Phi."""
    sums: np.ndarray
    """(6,) sums of s l, s l', s l'', s l'^2, s, and of s l at the constant decision alone."""


def moments_fold(
    problem: Problem,
    theta: np.ndarray,
    null: np.ndarray,
    n_threads: int = 1,
    *,
    outputs: Sequence[int] | None = None,
) -> Fold[list[RowMoments], list[RowMoments]]:
    """Fold: the moments of these outputs, or all, at theta (K, dim + 1).  State 8 K dim^2 bytes.

    `null` (K,): each output's best constant decision.
    """
    numbers = range(problem.n_outputs) if outputs is None else outputs
    return Fold(
        partial(empty_moments, len(numbers), problem.dim),
        partial(_add, problem, theta, null, n_threads, numbers),
        add_sums,
        _finish,
    )


def empty_moments(n_outputs: int, dim: int) -> list[RowMoments]:
    """The moments of no rows."""
    return [RowMoments(empty_gram(dim), np.zeros(6)) for _ in range(n_outputs)]


def _add(
    problem: Problem,
    theta: np.ndarray,
    null: np.ndarray,
    n_threads: int,
    outputs: Sequence[int],
    state: list[RowMoments],
    chunk: Chunk,
) -> list[RowMoments]:
    if not chunk.n_rows:
        return state
    targets, s = problem.targets(chunk), weights(chunk)
    F = decisions(problem, theta, chunk)
    for k, (gram, sums) in zip(outputs, state, strict=True):
        y = targets if problem.n_outputs == 1 else np.where(targets == k, 1.0, -1.0)
        f = np.ascontiguousarray(F[:, k])
        value, slope = row_losses(problem.loss, y, f, s)
        h = curvatures(problem.loss, y, f)
        squares = slope * row_losses(problem.loss, y, f, np.empty(0))[1] if len(s) else slope**2
        if len(s):
            h *= s
        gram_rows(chunk.X, problem.bases, h, slope, gram, n_threads)
        alone = row_losses(problem.loss, y, np.full(len(y), null[k]), s)[0]
        total = s.sum() if len(s) else float(len(y))
        sums += [value.sum(), slope.sum(), h.sum(), squares.sum(), total, alone.sum()]
    return state


def _finish(state: list[RowMoments]) -> list[RowMoments]:
    for gram, _ in state:
        clear_lower(gram.H)
    return state


def quadratic(problem: Problem, theta: np.ndarray, moments: RowMoments) -> Quadratic:
    """C times the losses near theta (dim + 1,), in the coordinates Phi - c and the intercept."""
    c, (H, g, b) = problem.reference.c, moments.gram
    value, slope, total, squares, weight, _ = moments.sums.tolist()
    dim = problem.dim
    full = np.empty((dim + 1, dim + 1))
    full[:dim, :dim] = H
    u = g - total * c
    for i in range(dim):  # a row at a time: no other matrix beside the two
        full[i + 1 : dim, i] = H[i, i + 1 :]
    for i in range(dim):
        full[i, :dim] -= g[i] * c
        full[i, :dim] -= c[i] * u
    full[-1, :dim] = full[:dim, -1] = u
    full[-1, -1] = total
    C = problem.C
    full *= C
    return Quadratic(
        theta,
        C * value,
        C * np.append(b - slope * c, slope),
        full,
        squares,
        total,
        weight,
        problem.loss.quadratic,
        problem.loss.scale_known,
        least_weight(problem.loss),
    )
