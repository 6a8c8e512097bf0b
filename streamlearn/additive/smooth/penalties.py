"""The penalties of the terms, each with a weight of its own.

    1/2 sum_j lambda_j w'S_j w + 1/2 b^2 / B^2

A term has its basis's penalty, whole.  Where that takes in a straight line only to be definite
(`Basis.unpenalised`), the line has a penalty apart: of a small fixed weight, or of a weight that is
chosen too (`select`; Marra & Wood 2011), so that the whole term may vanish.  A constant shift of a
term's coefficients changes no decision: its part of a trace is 1 - 1 = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf, dpotri

from ...numeric.bases.bsplines import Bases
from ...numeric.bases.roughness import Roughness

LINE_WEIGHT = 1e-3
"""Weight of a straight line's penalty that is not chosen: as little as a thousandth of a row."""
MIRRORED = 256
"""Rows of a block whose mirror image is made at once."""
ABOVE = np.triu(np.ones((MIRRORED, MIRRORED), bool), 1)
"""Places of such a block that are above the diagonal."""


class Penalty(NamedTuple):
    """One S_j."""

    term: int
    """Number of its column."""
    at: slice
    """The term's coefficients."""
    S: np.ndarray
    """(n, n) on those."""
    root: np.ndarray
    """(n, size) whose product with its transpose is S."""
    size: int
    """Its rank."""
    line: bool
    """Whether the penalty is that of a straight line."""
    fixed: bool
    """Whether the penalty's weight is fixed at `LINE_WEIGHT`."""


class Penalties(NamedTuple):
    """All penalties of a problem."""

    each: list[Penalty]
    dim: int
    """Coefficients without the intercept."""
    n_terms: int
    intercept: float
    """1 / B^2."""

    @property
    def free(self) -> np.ndarray:
        """(m,) bool: those whose weight is chosen."""
        return np.array([not penalty.fixed for penalty in self.each], bool)

    def matrix(self, weights: np.ndarray) -> np.ndarray:
        """(dim + 1, dim + 1) of the weighted sum, the intercept's last."""
        return self.added(weights, np.zeros((self.dim + 1, self.dim + 1)))

    def added(self, weights: np.ndarray, H: np.ndarray) -> np.ndarray:
        """H (dim + 1, dim + 1), to which the weighted sum is added in place."""
        for penalty, weight in zip(self.each, weights.tolist(), strict=True):
            H[penalty.at, penalty.at] += weight * penalty.S
        H[-1, -1] += self.intercept
        return H

    def times(self, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """(dim + 1,) the weighted sum times theta."""
        out = np.zeros(self.dim + 1)
        for p, weight in zip(self.each, weights, strict=True):
            out[p.at] += weight * (p.S @ theta[p.at])
        out[-1] = self.intercept * theta[-1]
        return out

    def half_norm(self, weights: np.ndarray, g: np.ndarray) -> float:
        """1/2 g'S^-1 g of the weighted sum S."""
        total = 0.5 * float(g[-1]) ** 2 / self.intercept
        for first, own in self.by_term():
            S = sum(weights[j] * self.each[j].S for j in own)
            part = g[first.at]
            total += 0.5 * float(part @ np.linalg.solve(S, part))
        return total

    def by_term(self) -> list[tuple[Penalty, list[int]]]:
        """Each term's first penalty, and the numbers of all of them."""
        out: list[tuple[Penalty, list[int]]] = []
        for j, penalty in enumerate(self.each):
            if out and out[-1][0].term == penalty.term:
                out[-1][1].append(j)
            else:
                out.append((penalty, [j]))
        return out

    def sums(self, theta: np.ndarray) -> np.ndarray:
        """(m,) w'S_j w."""
        return np.array([theta[p.at] @ p.S @ theta[p.at] for p in self.each])

    def traces(self, V: np.ndarray) -> np.ndarray:
        """(m,) tr(V S_j)."""
        return np.array([float((V[p.at, p.at] * p.S).sum()) for p in self.each])


def make_penalties(
    bases: Bases, roughness: Roughness, order: int, scale: str, intercept: float, select: bool
) -> Penalties:
    """The penalties of every term; `order` and `scale` are the roughness's."""
    each = []
    first = bases.first.tolist()
    for d, (a, z) in enumerate(zip(first[:-1], first[1:], strict=True)):
        n = z - a
        if not n:
            continue
        begin, at = int(roughness.table[d]), slice(a, z)
        P, R = (of[begin : begin + n * n].reshape(n, n) for of in (roughness.P, roughness.R))
        if d >= bases.n_columns:  # a pair's penalty is definite without a line
            each.append(Penalty(d, at, P, R.T, n, False, False))
            continue
        own = n - int(bases.has_missing[d]) * int(bases.degree[d])
        lines = bases.basis(d).unpenalised(own, order, scale)
        if not lines.shape[1]:
            each.append(Penalty(d, at, P, R.T, n, False, False))
            continue
        line = np.zeros((n, lines.shape[1]))
        line[:own] = lines
        S = line @ line.T
        rank = n - lines.shape[1]
        each.append(Penalty(d, at, P - S, root_of(P - S, rank), rank, False, False))
        each.append(Penalty(d, at, S, line, lines.shape[1], True, not select))
    return Penalties(each, bases.dim, len(first) - 1, intercept)


def root_of(S: np.ndarray, rank: int) -> np.ndarray:
    """(n, rank) whose product with its transpose is S."""
    values, vectors = np.linalg.eigh(S)
    root: np.ndarray = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
    return root


class Inverse(NamedTuple):
    """A^-1 of a symmetric positive definite A."""

    matrix: np.ndarray
    solve: Callable[[np.ndarray], np.ndarray]
    """b -> A^-1 b."""
    log_det: float
    """Logarithm of the determinant of A."""


def inverse_of(A: np.ndarray) -> Inverse:
    """The inverse of a symmetric positive definite A, which is overwritten.

    Raises ValueError if A is not positive definite to rounding.
    """
    factor, failed = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise ValueError(
            f"the {len(A)} penalised equations are not positive definite to rounding: some columns "
            "tell the same, or a column has too few values; lower n_bases, or leave columns out"
        )
    inverse, _ = dpotri(factor, lower=1, overwrite_c=0)
    mirror_lower(inverse)
    log_det = 2.0 * float(np.log(np.diagonal(factor)).sum())
    return Inverse(inverse, partial(cho_solve, (factor, True)), log_det)


def mirror_lower(A: np.ndarray) -> None:
    """The lower triangle above the diagonal too, in place: no other matrix is made."""
    for start in range(0, len(A), MIRRORED):
        stop = start + MIRRORED
        own = A[start:stop, start:stop]
        np.copyto(own, own.T.copy(), where=ABOVE[: len(own), : len(own)])
        A[start:stop, stop:] = A[stop:, start:stop].T
