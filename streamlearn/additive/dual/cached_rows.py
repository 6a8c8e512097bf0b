"""Unsettled rows that stay in memory for the length of a read, and which rows those are.

Most rows of a hinge problem stay at a bound after a read or two: another visit of them buys
nothing, while free rows and those that still change want many.  So a read keeps the unsettled rows
it meets in the memory that the plan leaves, visits them again between groups and, when all groups
have been read, until that no longer pays (Chang & Roth 2011; Matsushima et al. 2012; the test of
what is settled is LIBLINEAR's shrinking, Hsieh et al. 2008, section 3.3).  A row of a later group
takes the room of a cached one that is nearer to settled: many rows pass through the cache in a
read, each until it is at its bound.

A checkpoint keeps row numbers, dual variables and decisions: an interrupted read fetches the rows
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data.row_ranges import Ref, Refs
from ...data.source import Chunk, Csr
from ..basis.kernels import NONE
from ..objective import Problem
from .kernels_cached import keep_dense, keep_sparse

VALUE_NBYTES = 8
"""Bytes of a stored value of sparse rows: float32 and int32."""
ALMOST = 1 - 1e-6
"""Share of its bound from which a dual variable, which is rounded to float32, counts as there."""
MOST_LEFT = 3.0
"""Rows that may leave the cache in a read, per row that there is room for, at most."""
LOOK_ROWS = 8192
"""Cached rows whose distance from settled is found at once."""
SURE = 0.01
"""Curvature u (1 - u) of log-loss, and distance from its optimum, below which u is settled."""


class MovedRows(NamedTuple):
    """Dual variables that were changed after their row state had been written."""

    rows: np.ndarray
    """(n,) int64 row numbers, ascending."""
    alpha: np.ndarray
    """(n, width) float32."""

    def over(self, chunk: Chunk, alpha: np.ndarray) -> np.ndarray:
        """The chunk's dual variables: `alpha`, as its row state has them, with those moved since.

        Changes `alpha` in place.
        """
        if not len(self.rows) or not chunk.n_rows:
            return alpha
        first, last = np.searchsorted(self.rows, (chunk.rows[0], chunk.rows[-1] + 1))
        among = self.rows[first:last]
        numbers = chunk.numbers
        place = np.searchsorted(numbers, among)
        here = numbers[np.minimum(place, len(numbers) - 1)] == among
        alpha[place[here]] = self.alpha[first:last][here]
        return alpha


def left_per_row(row_nbytes: float, width: int) -> float:
    """Rows that may leave the cache in a read, per row that there is room for.

    What their variables became is carried to the next read: it takes a quarter of the memory that
    cached rows of `row_nbytes` take, at most.
    """
    return min(MOST_LEFT, row_nbytes / (4.0 * moved_nbytes(width)))


def moved_nbytes(width: int) -> int:
    """Bytes of a row's number and its dual variables."""
    return 8 + 4 * width


def nothing_moved(width: int) -> MovedRows:
    """No dual variables of `width` a row."""
    return MovedRows(np.zeros(0, np.int64), np.zeros((0, width), np.float32))


class CachedRows:
    """Room for `n_most` rows in the form that epochs take, filled from the first on."""

    def __init__(self, n_most: int, row_nbytes: float, width: int, n_outputs: int) -> None:
        """`row_nbytes`: of a row's X on average, by which sparse rows have their room."""
        self._n_most, self._n_values = n_most, int(n_most * row_nbytes) // VALUE_NBYTES
        self.n = 0
        self._X: np.ndarray | Csr | None = None
        self._rows = np.empty(n_most, np.int64)
        self._alpha = np.empty((n_most, width), np.float32)
        self._y, self._norms = np.empty(n_most), np.empty((n_most, 2))
        self._weight: np.ndarray | None = None
        self._F, self._far = np.empty((n_most, n_outputs)), np.empty(n_most)
        n_left = int(left_per_row(row_nbytes, width) * n_most)
        self._n_left = 0
        self._left = MovedRows(np.empty(n_left, np.int64), np.empty((n_left, width), np.float32))

    @property
    def X(self) -> np.ndarray | Csr:
        """The rows' coordinates, views."""
        if isinstance(self._X, Csr):
            return self._X.part(0, self.n)
        assert self._X is not None
        return self._X[: self.n]

    @property
    def alpha(self) -> np.ndarray:
        """(n, width) float32 the dual variables as they are now."""
        return self._alpha[: self.n]

    @property
    def norms(self) -> np.ndarray:
        """(n, 2) what `DualEpochs` found of the rows."""
        return self._norms[: self.n]

    @property
    def targets(self) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights as epochs take them."""
        return self._y[: self.n], NONE if self._weight is None else self._weight[: self.n]

    @property
    def decisions(self) -> np.ndarray:
        """(n, K) of the rows when they were looked at last, or came."""
        return self._F[: self.n]

    def moved(self) -> MovedRows:
        """Copies of the dual variables of these rows and those that left, by row number."""
        left = MovedRows(*(part[: self._n_left] for part in self._left))
        rows = np.concatenate([self._rows[: self.n], left.rows])
        order = np.argsort(rows)
        return MovedRows(rows[order], np.concatenate([self.alpha, left.alpha])[order])

    def stored(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of these rows, in their order, and of those that left."""
        return {
            "rows": self._rows[: self.n].copy(),
            "alpha": self.alpha.copy(),
            "decisions": self.decisions.copy(),
            "far": self._far[: self.n].copy(),
            "left_rows": self._left.rows[: self._n_left].copy(),
            "left_alpha": self._left.alpha[: self._n_left].copy(),
        }

    def restore(self, stored: dict[str, np.ndarray]) -> None:
        """What `stored` says of the rows that are here again, and of those that left."""
        self._F[: self.n], self._far[: self.n] = stored["decisions"], stored["far"]
        self._n_left = n = len(stored["left_rows"])
        self._left.rows[:n], self._left.alpha[:n] = stored["left_rows"], stored["left_alpha"]

    def look(self, problem: Problem, F: np.ndarray) -> None:
        """Take the rows' decisions as they are now, and find how far from settled they are."""
        self._F[: self.n] = F
        y, weight = self.targets
        for first in range(0, self.n, LOOK_ROWS):
            part = slice(first, min(first + LOOK_ROWS, self.n))
            s = weight[part] if len(weight) else weight
            self._far[part] = distance_from_settled(problem, y[part], s, self._alpha[part], F[part])

    def choose(self, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(places of cached rows that give up their room, places of a group's rows that come).

        Both ascend.  `far` is the distance from settled of the group's rows; as LIBLINEAR shrinks,
        settled is who is farther than the worst of them is not.
        """
        come = np.flatnonzero(far <= max(-far.min(), 0.0))
        come = come[np.argsort(far[come], kind="stable")]
        room = self._n_most - self.n
        n = min(len(come) - room, self.n, len(self._left.rows) - self._n_left)
        if n <= 0:
            return np.empty(0, np.intp), np.sort(come[:room])
        leave = np.argpartition(-self._far[: self.n], n - 1)[:n]
        leave = leave[np.argsort(-self._far[leave], kind="stable")]
        n = int(np.count_nonzero(far[come[room : room + n]] < self._far[leave]))
        return np.sort(leave[:n]), np.sort(come[: room + n])

    def drop(self, leave: np.ndarray) -> None:
        """Let the rows at these ascending places go; what their variables became is kept."""
        if not len(leave):
            return
        end = self._n_left + len(leave)
        self._left.rows[self._n_left : end] = self._rows[leave]
        self._left.alpha[self._n_left : end] = self._alpha[leave]
        self._n_left = end
        keep = np.ones(self.n, np.bool_)
        keep[leave] = False
        if isinstance(self._X, Csr):
            keep_sparse(keep, self._X.data, self._X.indices, self._X.indptr)
        else:
            assert self._X is not None
            keep_dense(keep, self._X)
        n = self.n - len(leave)
        for part in (
            self._rows,
            self._alpha,
            self._y,
            self._norms,
            self._weight,
            self._F,
            self._far,
        ):
            if part is not None:
                part[:n] = part[: self.n][keep]
        self.n = n

    def add(
        self,
        chunk: Chunk,
        index: np.ndarray,
        targets: tuple[np.ndarray, np.ndarray],
        alpha: np.ndarray,
        norms: np.ndarray | None,
    ) -> np.ndarray:
        """Copy the rows at these ascending places, or as many as there is room for; which.

        `note` says afterwards what their decisions are.
        """
        if isinstance(chunk.X, Csr):
            index = self._add_sparse(chunk.X, index)
        else:
            self._add_dense(chunk.X, index)
        here, (y, weight) = slice(self.n, self.n + len(index)), targets
        self._rows[here] = chunk.numbers[index]
        self._y[here], self._alpha[here] = y[index], alpha[index]
        if norms is not None:
            self._norms[here] = norms[index]
        if len(weight):
            if self._weight is None:
                self._weight = np.ones(self._n_most)
            self._weight[here] = weight[index]
        self.n = here.stop
        return index

    def note(self, F: np.ndarray, far: np.ndarray) -> None:
        """Decisions of the rows that were added last, and how far from settled they are."""
        last = slice(self.n - len(far), self.n)
        self._F[last], self._far[last] = F, far

    def _add_dense(self, X: np.ndarray, index: np.ndarray) -> None:
        if self._X is None:
            self._X = np.empty((self._n_most, X.shape[1]), np.float32)
        assert isinstance(self._X, np.ndarray)
        np.take(X, index, axis=0, out=self._X[self.n : self.n + len(index)])

    def _add_sparse(self, X: Csr, index: np.ndarray) -> np.ndarray:
        if self._X is None:
            n, indptr = max(self._n_values, 1), np.zeros(self._n_most + 1, np.int64)
            self._X = Csr(np.empty(n, np.float32), np.empty(n, np.int32), indptr, X.n_columns)
        assert isinstance(self._X, Csr)
        ends = self._X.indptr[self.n] + np.cumsum(np.diff(X.indptr)[index])
        index = index[ends <= self._n_values]
        rows, first = X.take(index), int(self._X.indptr[self.n])
        self._X.indptr[self.n + 1 : self.n + 1 + len(index)] = ends[: len(index)]
        self._X.data[first : first + len(rows.data)] = rows.data
        self._X.indices[first : first + len(rows.data)] = rows.indices
        return index


def fetch(
    cached: CachedRows,
    stored: dict[str, np.ndarray],
    chunks: Callable[[Ref], Chunk],
    refs: Refs,
    targets_of: Callable[[Chunk], tuple[np.ndarray, np.ndarray]],
) -> None:
    """Fill `cached` with the rows that were `stored`, in their order; `chunks` reads a ref.

    The rows of a ref follow one another, so that each ref is read once.
    """
    rows = stored["rows"]
    ref_of = np.searchsorted(refs.starts, rows, "right") - 1
    begins = np.flatnonzero(np.diff(ref_of, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
        chunk = chunks(refs[int(ref_of[begin])])
        index = np.searchsorted(chunk.numbers, rows[begin:end])
        alpha = np.zeros((chunk.n_rows, stored["alpha"].shape[1]), np.float32)
        alpha[index] = stored["alpha"][begin:end]
        cached.add(chunk, index, targets_of(chunk), alpha, None)
    cached.restore(stored)


def distance_from_settled(
    problem: Problem, y: np.ndarray, weight: np.ndarray, alpha: np.ndarray, F: np.ndarray
) -> np.ndarray:
    """(m,) how far each row is from being unsettled; unsettled rows have at most 0.

    It is the slope of the dual objective, to be minimised, in the better of the directions that a
    variable's bounds leave: positive at a bound that holds the variable, at most 0 for a free one,
    and the lower the more a step would gain.  Of several classes the least settled one counts.
    The variables of log-loss reach no bound: a row is unsettled by its curvature, or by what its
    variable lacks, above `SURE`.
    """
    rule, K = problem.loss.dual_rule(), problem.n_outputs
    s = weight[:, None] if len(weight) else 1.0
    C = np.maximum(problem.C * s, np.finfo(np.float64).tiny)
    a = alpha[:, :K].astype(np.float64)
    target = y[:, None]
    if K > 1:
        target = np.where(target == np.arange(K), 1.0, -1.0)
    if rule.logistic:
        u = 0.5 - 0.5 * np.tanh(0.5 * target * F)
        far = SURE - np.maximum(u * (1.0 - u), np.abs(u - a / C))
    else:
        slope = F - target if rule.both_signs else target * F - 1.0
        gradient, most = slope + rule.quadratic / C * a, C * (rule.centre + rule.bound) * ALMOST
        least = C * (rule.centre - rule.bound) * ALMOST if rule.both_signs else 0.0
        rise = gradient + np.where(a >= 0, rule.epsilon, -rule.epsilon)  # slope to the right
        fall = -gradient + np.where(a <= 0, rule.epsilon, -rule.epsilon)  # slope to the left
        far = np.minimum(np.where(a < most, rise, np.inf), np.where(a > least, fall, np.inf))
    if len(weight):
        far = np.where(s == 0, np.inf, far)
    nearest: np.ndarray = far.min(axis=1)
    return nearest
