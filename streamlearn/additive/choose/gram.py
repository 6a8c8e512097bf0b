"""Squared error: all values of C, on all splits, from one Gram a split, made in one read.

The Gram of the rows outside a split is the sum of the other splits' Grams; targets are centred on
these rows' own mean; the error on the split itself is a quadratic form in its own sums.  GCV needs
the sum of all alone (Golub, Heath & Wahba 1979):  (RSS / W) / (1 - edf / W)^2,  W the weight of the
rows.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk
from ...numeric.linalg import factor_spd
from ...passes.fold import Fold
from ...passes.sums import add_sums
from ...solvers.newton import Evaluation, relative_gap
from ..basis.kernels import GramSums, gram_rows
from ..newton.curvature import assemble, clear_lower, empty_gram, gram_optimum
from ..objective import Problem, weights
from .newton import NO_SPLIT, Splits


class Moments(NamedTuple):
    """Sums over some rows, h = 2 s: of the Gram, and of h, h y, h y^2."""

    gram: GramSums
    sums: np.ndarray
    """(3,)."""


def moments_fold(
    problems: list[Problem], splits: Splits
) -> Fold[list[list[Moments]], list[list[Moments]]]:
    """Fold: for each problem (its C is not used) the moments of every split's rows.

    State 8 dim^2 bytes a split and problem.
    """
    return Fold(
        partial(_start, [problem.dim for problem in problems], splits.cv),
        partial(_add, problems, splits),
        add_sums,
        _finish,
    )


def empty_moments(dim: int) -> Moments:
    """The moments of no rows."""
    return Moments(empty_gram(dim), np.zeros(3))


def _start(dims: list[int], cv: int) -> list[list[Moments]]:
    return [[empty_moments(dim) for _ in range(cv)] for dim in dims]


def _add(
    problems: list[Problem], splits: Splits, state: list[list[Moments]], chunk: Chunk
) -> list[list[Moments]]:
    split = splits.of(chunk)
    for f in range(splits.cv):
        part = chunk.where(split == f)
        if not part.n_rows:
            continue
        s = weights(part)
        h = np.full(part.n_rows, 2.0) if not len(s) else 2.0 * s
        for problem, of_problem in zip(problems, state, strict=True):
            y = problem.targets(part)
            gram_rows(part.X, problem.bases, h, h * y, of_problem[f].gram)
            of_problem[f].sums[:] += [h.sum(), h @ y, h @ y**2]
    return state


def _finish(state: list[list[Moments]]) -> list[list[Moments]]:
    for of_problem in state:
        for moments in of_problem:
            clear_lower(moments.gram.H)
    return state


def without(moments: list[Moments], split: int, dim: int) -> Moments:
    """The sum over all splits but one (none: -1), summed afresh: nothing cancels."""
    total = empty_moments(dim)
    for f, part in enumerate(moments):
        if f != split:
            total = add_sums(total, part)
    return total


class Optimum(NamedTuple):
    """The solution for one C on some rows."""

    at: Evaluation
    mean: float
    """The mean target of these rows minus that of all rows, to be added to the intercept."""


def optimum(problem: Problem, rows: Moments) -> Optimum:
    """The exact optimum at ``problem.C``; `rows` is not changed."""
    C, (h, hy, hyy) = problem.C, rows.sums
    mean = hy / h if h > 0 else 0.0
    b = rows.gram.b - mean * rows.gram.g  # of the targets less their mean
    gradient = np.append(-C * b, 0.0)[None]
    value = np.array([0.5 * C * max(hyy - mean * hy, 0.0)])
    gram = GramSums(C * rows.gram.H, C * rows.gram.g, b)
    zero = Evaluation(np.zeros((1, problem.dim + 1)), value, gradient, value)
    return Optimum(gram_optimum(problem, gram, C * h, zero), mean)


def squared_error(problem: Problem, found: Optimum, rows: Moments) -> float:
    """Weighted sum of (y - f)^2 over the rows of `rows`."""
    w, b = found.at.theta[0, :-1], found.at.theta[0, -1]
    constant = found.mean + b - w @ problem.reference.c
    h, hy, hyy = rows.sums
    upper = np.triu(rows.gram.H)
    quadratic = 2 * w @ (upper @ w) - w @ (upper.diagonal() * w)
    cross = w @ rows.gram.b + constant * hy
    fitted = quadratic + 2 * constant * (w @ rows.gram.g) + constant**2 * h
    return max(0.5 * (hyy - 2 * cross + fitted), 0.0)


def effective_freedom(problem: Problem, rows: Moments) -> float:
    """Trace of the matrix that maps targets to fitted values, the intercept's part included."""
    C = problem.C
    gram = GramSums(C * rows.gram.H, C * rows.gram.g, rows.gram.b)
    H, (u, corner) = assemble(problem, gram, C * rows.sums[0])
    of_intercept = 1.0 / corner
    trace = 0.0
    if problem.dim:
        inverse = factor_spd(H)(np.eye(problem.dim))
        of_intercept += u @ inverse @ u / corner**2
        first, roughness = problem.bases.first, problem.roughness
        for a, z, begin in zip(first[:-1], first[1:], roughness.table, strict=True):
            n = z - a
            P = roughness.P[begin : begin + n * n].reshape(n, n)
            trace += float((inverse[a:z, a:z] * P).sum())
    return problem.dim + 1 - trace - of_intercept / problem.intercept_scaling**2


def judged(
    problem: Problem, moments: list[Moments], scoring: str, *, by_gcv: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The scores and gaps of one candidate on every split."""
    scores, gaps = np.full(len(moments), np.nan), np.zeros(len(moments))
    for split, held_out in enumerate(moments):
        train = without(moments, NO_SPLIT if by_gcv else split, problem.dim)
        h, hy, hyy = held_out.sums
        if not h > 0 or not train.sums[0] > 0:
            continue
        found = optimum(problem, train)
        gaps[split] = float(relative_gap(found.at.value, found.at.bound).max())
        if by_gcv:
            scores[split] = -gcv(problem, found, train)
            continue
        error = squared_error(problem, found, held_out)
        scatter = 0.5 * (hyy - hy**2 / h)
        if scoring == "neg_mean_squared_error":
            scores[split] = -2 * error / h
        elif scatter > 0:
            scores[split] = 1 - error / scatter
    return scores, gaps


def gcv(problem: Problem, found: Optimum, rows: Moments) -> float:
    """Generalised cross-validation: an estimate of the mean squared error on new rows."""
    weight = 0.5 * rows.sums[0]
    left = max(1.0 - effective_freedom(problem, rows) / weight, np.finfo(float).eps)
    return squared_error(problem, found, rows) / weight / left**2
