"""Unsettled rows that stay in memory for the length of a read, and which rows those are.

Most rows of a hinge problem stay at a bound after a read or two: another visit of them buys
nothing, while free rows and those that still change want many.  So a read keeps the unsettled rows
it meets in the memory that the plan leaves, visits them again between groups and, when all groups
have been read, until that no longer pays (Chang & Roth 2011; Matsushima et al. 2012; the test of
what is settled is LIBLINEAR's shrinking, Hsieh et al. 2008, section 3.3).

A checkpoint keeps row numbers and dual variables only: an interrupted read fetches the rows again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from ...data.row_ranges import Ref, Refs
from ...data.source import Chunk, Csr, Source
from ...engine.scratch.blocks import RowForm
from ...numeric.bases.bsplines import Bases, Columns, as_columns
from ..basis.kernels import NONE, coordinates_rows
from ..objective import Problem

VALUE_NBYTES = 8
"""Bytes of a stored value of sparse rows: float32 and int32."""
ALMOST = 1 - 1e-6
"""Share of its bound from which a dual variable, which is rounded to float32, counts as there."""
SURE = 0.01
"""Curvature u (1 - u) of log-loss, and distance from its optimum, below which u is settled."""


class RowsInHand(NamedTuple):
    """Rows in the form that epochs take, and their dual variables, which epochs change."""

    X: np.ndarray | Csr
    targets: tuple[np.ndarray, np.ndarray]
    """Targets and weights; weights are empty if all are 1."""
    alpha: np.ndarray
    """(n, width) float32."""
    norms: np.ndarray | None
    """(n, 2) what `DualEpochs` found of the rows; None: not yet."""


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

    def joined(self, other: MovedRows) -> MovedRows:
        """Union with the variables of other rows, in ascending order."""
        rows = np.concatenate([self.rows, other.rows])
        order = np.argsort(rows)
        return MovedRows(rows[order], np.concatenate([self.alpha, other.alpha])[order])


def nothing_moved(width: int) -> MovedRows:
    """No dual variables of `width` a row."""
    return MovedRows(np.zeros(0, np.int64), np.zeros((0, width), np.float32))


class CachedRows:
    """Room for `n_most` rows in the form that epochs take, filled from the first on."""

    def __init__(self, n_most: int, row_nbytes: float, width: int) -> None:
        """`row_nbytes`: of a row's X on average, by which sparse rows have their room."""
        self._n_most, self._n_values = n_most, int(n_most * row_nbytes) // VALUE_NBYTES
        self.n = 0
        self._X: np.ndarray | Csr | None = None
        self._rows = np.empty(n_most, np.int64)
        self._alpha = np.empty((n_most, width), np.float32)
        self._y, self._norms = np.empty(n_most), np.empty((n_most, 2))
        self._weight: np.ndarray | None = None

    @property
    def room(self) -> int:
        """Rows that may still be added."""
        return self._n_most - self.n

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
    def numbers(self) -> np.ndarray:
        """(n,) int64 row numbers, in the order of the rows."""
        return self._rows[: self.n]

    @property
    def in_hand(self) -> RowsInHand:
        """The rows, views."""
        return RowsInHand(self.X, self.targets, self.alpha, self.norms)

    def moved(self) -> MovedRows:
        """Copies of the dual variables, in ascending order of the row numbers."""
        order = np.argsort(self.numbers)
        return MovedRows(self._rows[order], self._alpha[order])

    def stored(self) -> dict[str, np.ndarray]:
        """The part for a checkpoint: row numbers in the order of the rows, and dual variables."""
        return {"rows": self.numbers.copy(), "alpha": self.alpha.copy()}

    def add(
        self,
        chunk: Chunk,
        index: np.ndarray,
        targets: tuple[np.ndarray, np.ndarray],
        alpha: np.ndarray,
        norms: np.ndarray | None,
    ) -> np.ndarray:
        """Copy the rows at these ascending places, or as many as there is room for; which."""
        index = index[: self.room]
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


class CacheState(TypedDict):
    """The rows that a sweep in progress caches, and how far it has come."""

    n_rows: int
    """Rows of the groups so far, counted where rows are cached."""
    n_due: float
    """Visits that the cached rows are still to have."""
    cached: Any
    """`CachedRows`; in a checkpoint what their `stored` gives; None without, and at the end."""
    moved: MovedRows


CachingState = TypeVar("CachingState", bound=CacheState)


class Cache(NamedTuple):
    """The limits within which a sweep, or each partition of it, caches rows."""

    n_most: int
    """Rows there is room for, from the plan."""
    row_nbytes: float
    """Bytes of a row's X on average."""
    tol: float
    """Largest relative gap that is wanted: visits that gain less than a share of it end."""
    source: Source
    """Source of the sweep, from which cached rows that were lost with a process are read again."""
    n_partitions: int = 1

    @property
    def n_rows(self) -> int:
        """Rows of the sweep, or about those of a partition."""
        return -(-int(Refs.of(self.source.refs()).sizes.sum()) // self.n_partitions)

    @property
    def holds_all(self) -> bool:
        """Whether the cache has room for every row."""
        return self.n_most >= self.n_rows

    def choose(self, far: np.ndarray, state: CacheState) -> np.ndarray:
        """Ascending places of a group's rows to cache, by `distance_from_settled`; counts them."""
        left, m = self.n_rows - state["n_rows"], len(far)
        state["n_rows"] += m
        room = state["cached"].room * m // max(left, m)
        chosen = np.argsort(far, kind="stable")[:room]
        # as LIBLINEAR shrinks: settled is who is farther than the worst of these rows is not
        kept: np.ndarray = np.sort(chosen[far[chosen] <= max(-far.min(), 0.0)])
        return kept


def start_cache(cache: Cache | None, width: int) -> CacheState:
    """No rows yet, with `width` dual variables each."""
    return {
        "n_rows": 0,
        "n_due": 0.0,
        "cached": cache and CachedRows(cache.n_most, cache.row_nbytes, width),
        "moved": nothing_moved(width),
    }


def stored(state: CachingState) -> CachingState:
    """The state for a checkpoint: of cached rows their numbers and dual variables."""
    kept, cached = state.copy(), state["cached"]  # None after the last group
    kept["cached"] = cached and cached.stored()
    return kept


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
    centre = np.concatenate(
        [np.full(at.stop - at.start, loss.dual_rule().centre) for at, loss in problem.outputs()]
    )
    s = weight[:, None] if len(weight) else 1.0
    C = np.maximum(problem.C * s, np.finfo(np.float64).tiny)
    a = alpha[:, :K].astype(np.float64)
    target = y[:, None]
    if K > 1 and not rule.both_signs:
        target = np.where(target == np.arange(K), 1.0, -1.0)
    if rule.logistic:
        u = 0.5 - 0.5 * np.tanh(0.5 * target * F)
        far = SURE - np.maximum(u * (1.0 - u), np.abs(u - a / C))
    else:
        slope = F - target if rule.both_signs else target * F - 1.0
        gradient, most = slope + rule.quadratic / C * a, C * (centre + rule.bound) * ALMOST
        least = C * (centre - rule.bound) * ALMOST if rule.both_signs else 0.0
        rise = gradient + np.where(a >= 0, rule.epsilon, -rule.epsilon)  # slope to the right
        fall = -gradient + np.where(a <= 0, rule.epsilon, -rule.epsilon)  # slope to the left
        far = np.minimum(np.where(a < most, rise, np.inf), np.where(a > least, fall, np.inf))
    if len(weight):
        far = np.where(s == 0, np.inf, far)
    nearest: np.ndarray = far.min(axis=1)
    return nearest


def coordinate_form(problem: Problem) -> RowForm:
    """Rows as every epoch takes them, cached."""
    convert, n_columns = _ToCoordinates(problem.bases), problem.bases.n_columns
    return RowForm(convert, n_columns, "float32", "rows")


class _ToCoordinates:
    """The map of chunks to coordinates; that of the columns is made once, however wide they are."""

    def __init__(self, bases: Bases) -> None:
        self._bases = bases
        self._columns: dict[np.dtype, Columns] = {}

    def __reduce__(self) -> tuple:
        return _ToCoordinates, (self._bases,)

    def __call__(self, chunk: Chunk) -> Chunk:
        X = chunk.X
        dtype = X.data.dtype if isinstance(X, Csr) else X.dtype
        if dtype not in self._columns:
            self._columns[dtype] = as_columns(self._bases, dtype)
        X = coordinates_rows(X, self._bases, "C", self._columns[dtype])
        if isinstance(X, Csr):
            X = X._replace(indices=X.indices.astype(np.int32), indptr=X.indptr.astype(np.int64))
        return Chunk(X, chunk.y, chunk.weight, chunk.rows)
