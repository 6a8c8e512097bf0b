"""Exact measures of candidate sets of prototypes, from one read.

For each candidate Z it gives the normal equations, and so Omega; and, at coefficients guessed
beforehand, the gradient by all its prototypes together,

    dOmega/dz_j = 2/W sum_i u_i sum_t beta_jt r_it ds(x_i, z_j)/dz_j,   r = K theta - y.

At the minimising theta this is the whole derivative: the terms of eq. 6 of Biggio 2015 are
multiplied by the residual of the normal equations, which is 0 (the envelope theorem).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from ..data.source import Chunk, subjects_of_many
from ..passes.fold import Fold
from ..passes.sums import add_sums
from ..solvers.splits import split_of_content
from .equations import Equations
from .similarity import Similarity, block_rows, dense_blocks


class Problem(NamedTuple):
    """The objective, for whatever prototypes."""

    similarity: Similarity
    ridge: float
    n_classes: int
    """Number of classes; 0 if the targets are numbers."""
    shift: np.ndarray
    """(T,) numbers subtracted from the targets, which the intercepts add again."""
    one_at_a_time: bool = False
    """Whether prototypes move one at a time (the paper's Algorithm 1)."""
    neighbours: Callable[[np.ndarray], np.ndarray] | None = None
    """The moves (k, p) of a structured prototype (p,)."""
    scale: np.ndarray | None = None
    """(p,) factors of the columns: rows are multiplied by them, and prototypes are in that unit."""
    siblings: int = 1
    """Neighbouring row numbers that are of one subject, and so of one split (`Source.siblings`)."""

    @property
    def n_targets(self) -> int:
        return len(self.shift)


class Candidate(NamedTuple):
    """Prototypes to be scored by a read."""

    Z: np.ndarray
    """(m, p) prototypes."""
    theta: np.ndarray | None = None
    """(m + 1, T) coefficients at which the gradient is wanted; None: no gradient."""
    held_out: int = -1
    """Number of the split whose rows are summed apart; -1: none."""


class Found(NamedTuple):
    """The measurements of a read for one candidate."""

    equations: Equations
    pull: np.ndarray
    """(m, p) sums of the gradient, without 2/W; zeros if none was wanted."""
    held_out: Equations
    """The equations of the rows of the split held out."""


class Sums(TypedDict):
    """The sums of a candidate."""

    sums: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray]
    pull: np.ndarray


def targets(problem: Problem, y: np.ndarray) -> np.ndarray:
    """(n, T) targets of the regression: numbers, or -1 and 1 for classes."""
    if problem.n_classes == 0:
        Y = y.reshape(-1, problem.n_targets)
    elif problem.n_classes == 2:
        Y = (2.0 * y - 1.0)[:, None]
    else:
        Y = np.where(y[:, None] == np.arange(problem.n_classes), 1.0, -1.0)
    shifted: np.ndarray = Y - problem.shift
    return shifted


def candidates_fold(
    problem: Problem, candidates: Sequence[Candidate], n_splits: int = 1, seed: int = 0
) -> Fold[list[Sums], list[Found]]:
    """Fold of a `Found` for each candidate, with splits by `split_of_content`.

    A state takes 8 (2 (m + 1)(m + 1 + T) + m p) bytes for each candidate.
    """
    sizes = [(len(c.Z), c.Z.shape[1]) for c in candidates]
    return Fold(
        partial(empty_candidates, sizes, problem.n_targets),
        partial(_step, problem, tuple(candidates), n_splits, seed),
        add_sums,
        _finish,
    )


def empty_candidates(sizes: list[tuple[int, int]], n_targets: int) -> list[Sums]:
    """The sums of no rows, for candidates of (m, p) prototypes and columns."""
    return [
        {"sums": no_sums(m, n_targets), "held_out": no_sums(m, n_targets), "pull": np.zeros((m, p))}
        for m, p in sizes
    ]


def no_sums(m: int, n_targets: int) -> dict[str, np.ndarray]:
    """The normal equations of no rows, to which `add_rows` adds."""
    return {
        "A": np.zeros((m + 1, m + 1)),
        "c": np.zeros((m + 1, n_targets)),
        "tail": np.zeros(2),  # sum of u y^2, sum of u
    }


def _step(
    problem: Problem,
    candidates: tuple[Candidate, ...],
    n_splits: int,
    seed: int,
    state: list[Sums],
    chunk: Chunk,
) -> list[Sums]:
    if not chunk.n_rows:
        return state
    Y = targets(problem, chunk.target)
    splits = any(c.held_out >= 0 for c in candidates)
    subjects = subjects_of_many(chunk, problem.siblings)
    size = block_rows(chunk.X.shape[1], max(len(c.Z) for c in candidates))
    for rows, buffer in dense_blocks(chunk.X, size, problem.scale):
        B, y = buffer[: rows.stop - rows.start], Y[rows]
        u = None if chunk.weight is None else chunk.weight[rows]
        own = None if subjects is None else subjects[rows]
        of_rows = split_of_content(B, n_splits, seed, own) if splits else None
        for candidate, sums in zip(candidates, state, strict=True):
            S = problem.similarity.values(B, candidate.Z)
            if candidate.held_out < 0:
                add_rows(sums["sums"], S, y, u)
                used = B, S, y, u
            else:
                apart = of_rows == candidate.held_out
                rest = ~apart
                add_rows(sums["held_out"], S[apart], y[apart], None if u is None else u[apart])
                used = B[rest], S[rest], y[rest], None if u is None else u[rest]
                add_rows(sums["sums"], *used[1:])
            if candidate.theta is not None and len(used[0]):
                sums["pull"] += gradient_sums(
                    problem.similarity, candidate.Z, candidate.theta, *used
                )
    return state


def add_rows(
    sums: dict[str, np.ndarray], S: np.ndarray, Y: np.ndarray, u: np.ndarray | None
) -> None:
    """Add rows with similarities S, targets Y and weights u to normal equations, in place."""
    m = S.shape[1]
    if u is None:
        US, UY, one, weight = S, Y, S.sum(axis=0), float(len(S))
    else:
        US, UY = S * u[:, None], Y * u[:, None]
        one, weight = US.sum(axis=0), float(u.sum())
    A, c = sums["A"], sums["c"]
    A[:m, :m] += S.T @ US
    A[:m, m] += one
    A[m, :m] += one
    A[m, m] += weight
    c[:m] += S.T @ UY
    c[m] += UY.sum(axis=0)
    sums["tail"] += (UY * Y).sum(), weight


def gradient_sums(
    similarity: Similarity,
    Z: np.ndarray,
    theta: np.ndarray,
    B: np.ndarray,
    S: np.ndarray,
    Y: np.ndarray,
    u: np.ndarray | None,
) -> np.ndarray:
    """(m, p) sum over rows of u sum_t beta_t r_t ds/dz."""
    beta = theta[:-1]
    residual = S @ beta
    residual += theta[-1] - Y
    if u is not None:
        residual *= u[:, None]
    return similarity.gradient(B, Z, S, residual @ beta.T)


def equations_of(sums: dict[str, np.ndarray]) -> Equations:
    return Equations(sums["A"], sums["c"], float(sums["tail"][0]), float(sums["tail"][1]))


def _finish(state: list[Sums]) -> list[Found]:
    return [Found(equations_of(s["sums"]), s["pull"], equations_of(s["held_out"])) for s in state]
