"""The objective on rows in memory, where prototypes are sought before all rows are read.

Prototypes begin at the centres of clusters, or at rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.source import Chunk
from ..solvers.kmeans import lloyd_rows, plus_plus
from .equations import Equations, Solution, solve
from .prototypes import Problem, _zero, add_rows, equations_of, pull, targets
from .similarity import block_rows, dense

LLOYD_ITERATIONS = 10


class SampleObjective:
    """Omega as a function of the prototypes alone, over a sample of the rows.

    The rows are sorted and equal ones put together, so that nothing depends on their order and a
    weight of k is k copies to the last bit.  Holds 8 n (p + m + 2T + 2) bytes; of a callable
    similarity, which may cost much, 8 n m more: what it gave in the last two calls of `equations`
    is not asked for again.
    """

    def __init__(self, problem: Problem, X: np.ndarray, Y: np.ndarray, u: np.ndarray) -> None:
        self.problem, self.X, self.Y, self.u = problem, X, Y, u
        self._S = np.empty((len(X), 0))
        self._keeps = problem.similarity.function is not None and problem.neighbours is None
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        mean = u @ Y / u.sum()
        self.spread = float((u @ (Y - mean) ** 2).sum() / u.sum())
        """The targets' variance, all targets together: Omega without prototypes."""

    @classmethod
    def of_chunk(cls, problem: Problem, chunk: Chunk) -> SampleObjective:
        X, Y, u = canonical(dense(chunk.X), targets(problem, chunk.y), chunk.weight)
        return cls(problem, X, Y, u)

    @property
    def weight(self) -> float:
        return float(self.u.sum())

    @property
    def n_rows(self) -> int:
        """Rows: a weight of k counts as k, one below 1 as one."""
        return max(len(self.X), int(self.weight))

    def _blocks(self, m: int) -> list[slice]:
        size = block_rows(self.X.shape[1], m)
        return [slice(a, a + size) for a in range(0, len(self.X), size)]

    def equations(self, Z: np.ndarray) -> Equations:
        """The normal equations at Z; the similarities are kept for `gradient`."""
        if self._keeps:
            self._S, wanted = self._known(Z)
        else:
            if self._S.shape[1] != len(Z):
                self._S = np.empty((len(self.X), len(Z)))
            wanted = np.arange(len(Z))
        sums = _zero(len(Z), self.problem.n_targets)
        for rows in self._blocks(len(Z)):
            S = self._S[rows]
            if len(wanted):
                S[:, wanted] = self.problem.similarity.values(self.X[rows], Z[wanted])
            add_rows(sums, S, self.Y[rows], self.u[rows])
        return equations_of(sums)

    def _known(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Similarities with the columns of prototypes seen lately, and the numbers of the others.

        Trials mostly move one prototype, or go back to where the last ones began.
        """
        seen = {z.tobytes(): S[:, j] for at, S in self._kept for j, z in enumerate(at)}
        columns = [seen.get(z.tobytes()) for z in Z]
        wanted = np.array([j for j, column in enumerate(columns) if column is None], np.intp)
        if not len(wanted) and np.array_equal(self._kept[-1][0], Z):
            return self._kept[-1][1], wanted
        S = np.empty((len(self.X), len(Z)))
        for j, column in enumerate(columns):
            if column is not None:
                S[:, j] = column
        self._kept = [*self._kept[-1:], (Z.copy(), S)]
        return S, wanted

    def solution(self, Z: np.ndarray) -> Solution:
        return solve(self.equations(Z), self.problem.ridge)

    def gradient(self, Z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """(m, p) dOmega/dZ at fixed theta; Z is that of the last `equations`."""
        out = np.zeros(Z.shape)
        for rows in self._blocks(len(Z)):
            out += pull(
                self.problem.similarity,
                Z,
                theta,
                self.X[rows],
                self._S[rows],
                self.Y[rows],
                self.u[rows],
            )
        return out * (2.0 / self.weight)

    def residual(self, theta: np.ndarray) -> np.ndarray:
        """(n, T) K theta - y for the prototypes of the last `equations`."""
        return self._S @ theta[:-1] + theta[-1] - self.Y

    def gains(self, rows: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """(k,) how much Omega would fall with each of these as a further prototype.

        Exact for the others held: |k' U r|^2 / (k' U k + lambda - k' U K A^-1 K' U k).  Follows
        `equations`, whose prototypes have the coefficients theta.
        """
        m, ridge = self._S.shape[1], self.problem.ridge * self.weight
        K = np.column_stack([self._S, np.ones(len(self.X))])
        new = self.problem.similarity.values(self.X, rows)
        weighted = new * self.u[:, None]
        A = (K * self.u[:, None]).T @ K
        A[np.arange(m), np.arange(m)] += ridge
        A[np.arange(m + 1), np.arange(m + 1)] *= 1.0 + 1e-10
        cross = K.T @ weighted
        rest = (new * weighted).sum(axis=0) + ridge - (cross * np.linalg.solve(A, cross)).sum(0)
        slope = weighted.T @ self.residual(theta)
        floor = 1e-9 * self.weight + np.finfo(np.float64).tiny
        return (slope**2).sum(axis=1) / np.maximum(rest, floor)

    def repulsion(self, Z: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of s(z_i, z_j) over pairs, and its gradient (m, p)."""
        similarity = self.problem.similarity
        S = similarity.values(Z, Z)
        R = 1.0 - np.eye(len(Z))
        # s is symmetric: a pair's two derivatives are those by its second argument
        return float(0.5 * (S * R).sum()), similarity.pull(Z, Z, S, R)

    def part(self, keep: np.ndarray) -> SampleObjective:
        """The objective on some of the rows."""
        return SampleObjective(self.problem, self.X[keep], self.Y[keep], self.u[keep])


def canonical(
    X: np.ndarray, Y: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of positive weight in the order of their bytes; equal ones become one."""
    table = np.hstack([X, Y]) + 0.0  # no negative zeros
    u = np.ones(len(table)) if weight is None else np.asarray(weight, np.float64)
    table, u = table[u > 0], u[u > 0]
    keys = table.view(np.dtype((np.void, table.strides[0]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    p = X.shape[1]
    kept = table[first]
    return np.ascontiguousarray(kept[:, :p]), kept[:, p:].copy(), np.bincount(which, u, len(first))


def first_prototypes(
    sample: SampleObjective, m: int, init: Any, generator: np.random.Generator
) -> np.ndarray:
    """(m, p) prototypes to begin with; fewer if the sample has fewer distinct rows.

    ``"k-means"`` and ``"rows"`` (drawn by weight) give each class its equal share.
    """
    X, u = sample.X, sample.u
    if not isinstance(init, str):
        return np.array(init, np.float64)
    groups = _groups(sample)
    shares = np.full(len(groups), m // len(groups))
    shares[: m % len(groups)] += 1
    parts = [
        _DRAW[init](X[group], u[group], share, generator)
        for group, share in zip(groups, shares, strict=True)
        if share
    ]
    Z = np.unique(np.vstack(parts), axis=0)
    if len(Z) < m:  # a class of few rows leaves its share to the others
        keys = _draw_rows(X, u, m, generator)
        Z = np.unique(np.vstack([Z, keys]), axis=0)[:m]
    return Z


def _groups(sample: SampleObjective) -> list[np.ndarray]:
    """The rows of each class; all rows where the targets are numbers."""
    K, Y = sample.problem.n_classes, sample.Y
    if K == 0:
        return [np.arange(len(Y))]
    code = (Y[:, 0] > 0).astype(int) if K == 2 else Y.argmax(axis=1)
    groups = [np.flatnonzero(code == k) for k in range(K)]
    return [group for group in groups if len(group)]


def _draw_rows(X: np.ndarray, u: np.ndarray, m: int, generator: np.random.Generator) -> np.ndarray:
    """At most m rows without replacement, by weight (Efraimidis & Spirakis 2006)."""
    keys = generator.exponential(size=len(X)) / u
    return X[np.sort(np.argsort(keys, kind="stable")[:m])]


def _centres(X: np.ndarray, u: np.ndarray, m: int, generator: np.random.Generator) -> np.ndarray:
    return lloyd_rows(X, u, plus_plus(X, u, m, generator), LLOYD_ITERATIONS)[0]


_DRAW = {"rows": _draw_rows, "k-means": _centres}
