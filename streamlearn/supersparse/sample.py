"""The objective on rows in memory, by which prototypes are searched before all rows are read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..data.source import Chunk, subjects_of_many
from ..solvers.kmeans import lloyd_rows, plus_plus
from ..solvers.splits import split_of_content
from .equations import Equations, Solution, solve
from .prototypes import Problem, add_rows, equations_of, gradient_sums, no_sums, targets
from .similarity import block_rows, dense

LLOYD_ITERATIONS = 10
"""Largest number of iterations that move the first centres."""


class SampleObjective:
    """Omega as a function of the prototypes alone, over a sample of the rows.

    The rows are sorted and equal ones joined, so that nothing depends on their order and a weight
    of k is k copies to the last bit.  They take 8 n (p + m + 2T + 2) bytes.  A callable similarity
    may be slow, so what it returned in the last two calls of `equations` is stored, in 8 n m bytes
    more.
    """

    def __init__(
        self,
        problem: Problem,
        X: np.ndarray,
        Y: np.ndarray,
        u: np.ndarray,
        subjects: np.ndarray | None = None,
    ) -> None:
        """`subjects` (n,): numbers of those whose rows these are, where they have several."""
        self.problem, self.X, self.Y, self.u, self.subjects = problem, X, Y, u, subjects
        self.similarities = np.empty((len(X), 0))
        """(n, m) similarities of the rows to the prototypes of the last `equations`."""
        self._stores = problem.similarity.function is not None and problem.neighbours is None
        self._known: list[tuple[np.ndarray, np.ndarray]] = []
        total = u.sum() or 1.0  # a split may have no rows
        mean = u @ Y / total
        self.spread = float((u @ (Y - mean) ** 2).sum() / total)
        """Sum of the targets' variances, which is Omega without prototypes."""

    @classmethod
    def of_chunk(cls, problem: Problem, chunk: Chunk) -> SampleObjective:
        X, Y = dense(chunk.X, problem.scale), targets(problem, chunk.target)
        subjects = subjects_of_many(chunk, problem.siblings)
        if subjects is None:
            return cls(problem, *canonical(X, Y, chunk.weight))
        X, Y, u = canonical(X, np.column_stack([Y, subjects]), chunk.weight)
        return cls(problem, X, Y[:, :-1], u, Y[:, -1].astype(np.int64))

    @property
    def weight(self) -> float:
        return float(self.u.sum())

    @property
    def n_rows(self) -> int:
        """Number of rows, where a weight of k counts as k and one below 1 as one."""
        return max(len(self.X), int(self.weight))

    def _blocks(self, m: int) -> list[slice]:
        size = block_rows(self.X.shape[1], m)
        return [slice(a, a + size) for a in range(0, len(self.X), size)]

    def equations(self, Z: np.ndarray) -> Equations:
        """The normal equations at Z; `similarities` are then those at Z."""
        if self._stores:
            self.similarities, wanted = self._look_up(Z)
        else:
            if self.similarities.shape[1] != len(Z):
                self.similarities = np.empty((len(self.X), len(Z)))
            wanted = np.arange(len(Z))
        sums = no_sums(len(Z), self.problem.n_targets)
        for rows in self._blocks(len(Z)):
            S = self.similarities[rows]
            if len(wanted):
                S[:, wanted] = self.problem.similarity.values(self.X[rows], Z[wanted])
            add_rows(sums, S, self.Y[rows], self.u[rows])
        return equations_of(sums)

    def _look_up(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Similarities with the columns that are stored, and the numbers of those that are not.

        Trials mostly move one prototype, or go back to where the last ones began.
        """
        seen = {z.tobytes(): S[:, j] for at, S in self._known for j, z in enumerate(at)}
        columns = [seen.get(z.tobytes()) for z in Z]
        wanted = np.array([j for j, column in enumerate(columns) if column is None], np.intp)
        if not len(wanted) and np.array_equal(self._known[-1][0], Z):
            return self._known[-1][1], wanted
        S = np.empty((len(self.X), len(Z)))
        for j, column in enumerate(columns):
            if column is not None:
                S[:, j] = column
        self._known = [*self._known[-1:], (Z.copy(), S)]
        return S, wanted

    def solution(self, Z: np.ndarray) -> Solution:
        return solve(self.equations(Z), self.problem.ridge)

    def gradient(self, Z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """(m, p) derivative of Omega by the Z of the last `equations`, at fixed theta."""
        out = np.zeros(Z.shape)
        for rows in self._blocks(len(Z)):
            out += gradient_sums(
                self.problem.similarity,
                Z,
                theta,
                self.X[rows],
                self.similarities[rows],
                self.Y[rows],
                self.u[rows],
            )
        return out * (2.0 / self.weight)

    def residual(self, theta: np.ndarray) -> np.ndarray:
        """(n, T) residuals K theta - y, for the prototypes of the last `equations`."""
        return self.similarities @ theta[:-1] + theta[-1] - self.Y

    def gains(self, rows: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """(k,) fall of Omega with each of these rows as a further prototype.

        It is exact while the others stay: |k' U r|^2 / (k' U k + lambda - k' U K A^-1 K' U k).  The
        prototypes are those of the last `equations`, with the coefficients theta.
        """
        m, ridge = self.similarities.shape[1], self.problem.ridge * self.weight
        A, cross = np.zeros((m + 1, m + 1)), np.zeros((m + 1, len(rows)))
        squares, slope = np.zeros(len(rows)), np.zeros((len(rows), self.problem.n_targets))
        residual = self.residual(theta)
        for part in self._blocks(m + len(rows)):  # similarities to all candidates are not held
            S, u = self.similarities[part], self.u[part, None]
            K = np.column_stack([S, np.ones(len(S))])
            new = self.problem.similarity.values(self.X[part], rows)
            weighted = new * u
            A += (K * u).T @ K
            cross += K.T @ weighted
            squares += (new * weighted).sum(axis=0)
            slope += weighted.T @ residual[part]
        A[np.arange(m), np.arange(m)] += ridge
        A[np.arange(m + 1), np.arange(m + 1)] *= 1.0 + 1e-10
        rest = squares + ridge - (cross * np.linalg.solve(A, cross)).sum(axis=0)
        floor = 1e-9 * self.weight + np.finfo(np.float64).tiny
        return (slope**2).sum(axis=1) / np.maximum(rest, floor)

    def repulsion(self, Z: np.ndarray) -> tuple[float, np.ndarray]:
        """The sum of s(z_i, z_j) over pairs, and its gradient (m, p)."""
        similarity = self.problem.similarity
        S = similarity.values(Z, Z)
        R = 1.0 - np.eye(len(Z))
        # s is symmetric, so both derivatives of a pair are those by its second argument
        return float(0.5 * (S * R).sum()), similarity.gradient(Z, Z, S, R)

    def part(self, keep: np.ndarray) -> SampleObjective:
        """The objective on some of the rows."""
        subjects = None if self.subjects is None else self.subjects[keep]
        return SampleObjective(self.problem, self.X[keep], self.Y[keep], self.u[keep], subjects)

    def splits(self, cv: int, seed: int) -> np.ndarray:
        """(n,) intp: the split in which each row is held out."""
        return split_of_content(self.X, cv, seed, self.subjects)


def canonical(
    X: np.ndarray, Y: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of positive weight in the order of their bytes, with equal ones joined into one."""
    table = np.hstack([X, Y]) + 0.0  # no negative zeros
    u = np.ones(len(table)) if weight is None else np.asarray(weight, np.float64)
    table, u = table[u > 0], u[u > 0]
    keys = table.view(np.dtype((np.void, table.strides[0]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    p = X.shape[1]
    rows = table[first]
    return np.ascontiguousarray(rows[:, :p]), rows[:, p:].copy(), np.bincount(which, u, len(first))


def first_prototypes(
    sample: SampleObjective, m: int, init: npt.ArrayLike, generator: np.random.Generator
) -> np.ndarray:
    """(m, p) prototypes to begin with; fewer if the sample has fewer distinct rows.

    ``"k-means"`` takes centres of clusters and ``"rows"`` draws rows by weight, an equal share from
    each class.  An array is taken as it is.
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
    """A sample of at most m rows without replacement, by weight (Efraimidis & Spirakis 2006)."""
    keys = generator.exponential(size=len(X)) / u
    return X[np.sort(np.argsort(keys, kind="stable")[:m])]


def _centres(X: np.ndarray, u: np.ndarray, m: int, generator: np.random.Generator) -> np.ndarray:
    return lloyd_rows(X, u, plus_plus(X, u, m, generator), LLOYD_ITERATIONS)[0]


_DRAW = {"rows": _draw_rows, "k-means": _centres}
