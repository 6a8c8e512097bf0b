"""Order-sensitive reads: groups of refs, each one chunk whose rows are visited in random order.

The next group is read while the present one is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..data.row_ranges import Ref, Refs
from ..data.source import Chunk, Csr
from ..numeric.malloc import return_freed_blocks, trim_heaps
from ..passes.fold import Result, State
from .blas import one_blas_thread
from .lanes import (
    LANE_NBYTES,
    Job,
    LaneState,
    RetryingReader,
    StopSignal,
    check,
    cut_evenly,
    own_state,
    peak_of_worker,
    place_note,
    slot,
)
from .scratch.row_state import RowAccess

Parts = list[tuple[Ref, int]]


class VisitOrder(Protocol):
    """Groups of refs and the order in which a group's rows are visited (`data.order.Order`)."""

    def groups(self, refs: Sequence[Ref], pass_index: int) -> Sequence[Sequence[int]]: ...

    def permutation(self, n_rows: int, pass_index: int, group_index: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Groups:
    """Successive groups of a sweep; the refs of each are read into one chunk."""

    first: int
    """Number of the first group in the whole read."""
    refs: Refs
    """The refs of all groups, one group after the other."""
    bounds: np.ndarray
    """(n_groups + 1,) where each begins in `refs`."""
    ends: bool = True
    """Whether no group of the read, or of its partition, comes after these."""

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, at: int) -> Refs:
        return self.refs[self.bounds[at] : self.bounds[at + 1]]

    @property
    def nbytes(self) -> np.ndarray:
        """Decoded size of each group."""
        return self._sums(self.refs.nbytes)

    @property
    def most_rows(self) -> int:
        return int(self._sums(self.refs.sizes).max())

    def part(self, start: int, stop: int) -> Groups:
        """Groups start to stop - 1 of these."""
        bounds = self.bounds[start : stop + 1]
        refs, ends = self.refs[bounds[0] : bounds[-1]], self.ends and stop == len(self)
        return Groups(self.first + start, refs, bounds - bounds[0], ends)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.bounds[:-1]) if len(self) else values[:0]


def draw_groups(refs: Sequence[Ref], order: VisitOrder, pass_index: int) -> Groups:
    """The groups of one sweep, by data and seed alone."""
    drawn = [np.sort(chosen) for chosen in order.groups(refs, pass_index)]  # cheapest to read
    bounds = np.cumsum([0, *map(len, drawn)], dtype=np.int64)
    picked = np.concatenate([np.zeros(0, np.int64), *drawn])
    return Groups(0, Refs.of(refs)[picked], bounds)


def cut_segments(groups: Groups, *, whole: bool = False) -> list[Groups]:
    """The groups in segments of about 256 MiB decoded, each a task after the one before.

    `whole`: in one segment.
    """
    n_segments = 1 if whole else max(1, -(-int(groups.nbytes.sum()) // LANE_NBYTES))
    n_segments = min(n_segments, len(groups))
    return [groups.part(start, stop) for start, stop in cut_evenly(groups.nbytes, n_segments)]


def cut_partitions(groups: Groups, n_partitions: int) -> list[Groups]:
    """The groups in partitions of about one size, which are tasks apart from one another.

    Drawn anew in every sweep, so each has the mix of labels that the order gives its groups.
    """
    cuts = cut_evenly(groups.nbytes, min(n_partitions, len(groups)))
    return [replace(groups.part(start, stop), ends=True) for start, stop in cuts]


def fold_segment(
    job: Job[State, Result],
    groups: Groups,
    order: VisitOrder,
    pass_index: int,
    before: LaneState[State] | None,
    stop: StopSignal | None = None,
) -> LaneState[State]:
    """Task: fold the groups in order, from the start or from the state of the segment before."""
    return_freed_blocks()
    trim_heaps()
    with (
        one_blas_thread(),
        slot(job.slots),
        RowAccess(job.rows, job.durable) as rows,
        RetryingReader(job.source) as reader,
        ThreadPoolExecutor(1, "streamlearn-ahead") as ahead,
    ):
        state = job.fold.start() if before is None else own_state(job, before)
        buffers = GroupBuffer(groups.most_rows), GroupBuffer(groups.most_rows)

        def read(number: int) -> tuple[Chunk, Parts]:
            chunk, parts = buffers[number % 2].fill(job, reader, groups[number])
            rows.load(chunk, parts)  # reads generation g only, so may run ahead of `store`
            return chunk, parts

        coming: Future[tuple[Chunk, Parts]] = ahead.submit(read, 0)
        for number in range(len(groups)):
            check(stop)
            chunk, parts = coming.result()
            if number + 1 < len(groups):
                coming = ahead.submit(read, number + 1)
            chunk.order = order.permutation(chunk.n_rows, pass_index, groups.first + number)
            try:
                state = job.fold.step(state, chunk)
                rows.store(chunk, parts)
            except Exception as error:
                where = place_note(job, groups[number][0])
                error.add_note(f"{where} and {len(parts) - 1} more refs")
                raise
        if groups.ends and job.fold.close is not None:
            state = job.fold.close(state)
    return LaneState(state, peak_of_worker(job))


class GroupBuffer:
    """One chunk's worth of memory, filled with one group after the other."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._store: dict[str, np.ndarray] = {}

    def fill(self, job: Job, reader: RetryingReader, refs: Refs) -> tuple[Chunk, Parts]:
        """The rows of all `refs` in one chunk, and how many each gave."""
        dense: _Dense | None = None
        sparse: list[int] = [0, 0]  # rows, stored values so far
        y, weight, rows, parts = [], [], [], []
        n_columns = 0
        n_most = int(refs.sizes.sum())
        for ref in refs:
            try:
                chunk = reader.read(ref)
            except Exception as error:
                error.add_note(place_note(job, ref))
                raise
            if isinstance(chunk.X, Csr):
                n_columns = chunk.X.n_columns
                self._append_csr(chunk.X, sparse)
            else:
                dense = dense or self._dense(chunk.X, n_most)
                dense.append(chunk.X)
            y.append(None if chunk.y is None else chunk.y.copy())
            weight.append(None if chunk.weight is None else chunk.weight.copy())
            rows.append(chunk.numbers)
            parts.append((ref, chunk.n_rows))
        X: np.ndarray | Csr = dense.rows() if dense is not None else self._csr(sparse, n_columns)
        return Chunk(X, _joined(y), _joined_weights(weight, parts), np.concatenate(rows)), parts

    def _buffer(self, name: str, size: int, dtype: np.dtype, keep: int = 0) -> np.ndarray:
        """A buffer of at least `size` elements, the first `keep` of them as they were."""
        have = self._store.get(name)
        if have is None or have.dtype != dtype or len(have) < size:
            new = np.empty(size, dtype)
            if keep and have is not None:
                new[:keep] = have[:keep]
            self._store[name] = have = new
        return have

    def _dense(self, X: np.ndarray, n_rows: int) -> _Dense:
        n_columns = X.shape[1]
        flat = self._buffer("X", self._max_rows * n_columns, X.dtype)
        return _Dense(flat, n_rows, n_columns, X.flags.f_contiguous and not X.flags.c_contiguous)

    def _append_csr(self, X: Csr, so_far: list[int]) -> None:
        (m, n), nnz = so_far, len(X.data)
        for name, part, at, size in (
            ("data", X.data, n, n + nnz),
            ("indices", X.indices, n, n + nnz),
            ("indptr", X.indptr[1:] + n, m + 1, self._max_rows + 1),
        ):
            room = size if len(self._store.get(name, ())) >= size else size + size // 4
            self._buffer(name, room, part.dtype, at)[at : at + len(part)] = part
        self._store["indptr"][0] = 0
        so_far[:] = m + len(X.indptr) - 1, n + nnz

    def _csr(self, so_far: list[int], n_columns: int) -> Csr:
        m, nnz = so_far
        store = self._store
        return Csr(store["data"][:nnz], store["indices"][:nnz], store["indptr"][: m + 1], n_columns)


class _Dense:
    """Rows appended to a flat buffer, in the memory order of the source."""

    def __init__(self, flat: np.ndarray, n_rows: int, n_columns: int, columns: bool) -> None:
        self._flat, self._n_columns, self._columns = flat, n_columns, columns
        size = n_rows * n_columns
        self._n_most, self._n = n_rows, 0
        if columns:
            self._X = flat[:size].reshape(n_columns, n_rows).T
        else:
            self._X = flat[:size].reshape(n_rows, n_columns)

    def append(self, X: np.ndarray) -> None:
        self._X[self._n : self._n + len(X)] = X
        self._n += len(X)

    def rows(self) -> np.ndarray:
        """The (m, p) rows, contiguous; columns move together if a selection left rows out."""
        m, p, flat = self._n, self._n_columns, self._flat
        if not self._columns:
            return self._X[:m]
        if m < self._n_most:
            for j in range(p):  # to the left, so nothing is overwritten before it is moved
                flat[j * m : (j + 1) * m] = flat[j * self._n_most : j * self._n_most + m]
        return flat[: m * p].reshape(p, m).T


def _joined(pieces: list[np.ndarray | None]) -> np.ndarray | None:
    given = [piece for piece in pieces if piece is not None]
    return np.concatenate(given) if given else None


def _joined_weights(pieces: list[np.ndarray | None], parts: Parts) -> np.ndarray | None:
    if all(piece is None for piece in pieces):
        return None
    given = zip(pieces, parts, strict=True)
    return _joined([np.ones(n) if piece is None else piece for piece, (_, n) in given])
