"""Lanes: contiguous runs of refs, each folded by one task; their states merge in lane order.

Which rows a lane holds and which states merge with which is a function of the data alone, so the
bits of a result do not depend on how many tasks run at once, where, or which ends first.
"""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, NoReturn, Protocol

import numpy as np

from ..data.row_ranges import Ref, Refs
from ..data.source import Chunk, Source, SourceReader
from ..errors import SourceError, StreamlearnError
from ..numeric.malloc import return_freed_blocks, trim_heaps
from ..passes.fold import Fold, Result, State
from .aligned import aligned, in_one_piece
from .blas import one_blas_thread
from .memory import peak_resident_bytes
from .scratch.row_state import RowAccess, RowFile

LANE_NBYTES = 256 << 20
MIN_LANES, MAX_LANES = 16, 4096
READ_ATTEMPTS = 3
FIRST_WAIT_S = 0.2


def cut_lanes(refs: Sequence[Ref]) -> list[Refs]:
    """About one lane per 256 MiB decoded, at least min(16, refs), at most 4096."""
    refs = Refs.of(refs)
    return [refs[start:stop] for start, stop in cut_evenly(refs.nbytes, count_lanes(refs))]


def count_lanes(refs: Refs) -> int:
    """Number of the lanes that `cut_lanes` cuts."""
    total = int(refs.nbytes.sum())
    return min(max(-(-total // LANE_NBYTES), MIN_LANES), MAX_LANES, len(refs))


def cut_evenly(sizes: Sequence[int] | np.ndarray, n_runs: int) -> list[tuple[int, int]]:
    """Cut a sequence into `n_runs` contiguous non-empty runs of nearly equal total size."""
    ends = np.cumsum(np.asarray(sizes, dtype=np.int64)) if len(sizes) else np.zeros(0, np.int64)
    cuts = [0]
    for k in range(1, n_runs):
        wanted = int(ends[-1]) * k // n_runs
        near = int(np.searchsorted(ends, wanted, side="left")) + 1
        cuts.append(min(max(near, cuts[-1] + 1), len(sizes) - (n_runs - k)))
    return list(zip(cuts, [*cuts[1:], len(sizes)], strict=True)) if n_runs else []


class Stopped(Exception):
    """The read was given up elsewhere; never reaches the user."""


class StopSignal(Protocol):
    """A `threading.Event` that tells a task, between two chunks, to end; None on a cluster."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True)
class Job(Generic[State, Result]):
    """The record that all tasks of one read share; it is sent to each worker once."""

    name: str
    source: Source
    fold: Fold[State, Result]
    rows: tuple[RowFile, ...] = ()
    slots: tuple[str, int] | None = None
    """(run, number of this run's tasks a process may run at once); None = the pool sees to it."""
    durable: bool = False
    """Row state is synced to disk before a task reports success."""

    def __reduce__(self) -> tuple[object, ...]:
        fields = self.name, self.source, self.fold, self.rows, self.slots, self.durable
        return _received_job, (in_one_piece(fields),)


def _received_job(content: bytes) -> Job[object, object]:
    return Job(*pickle.loads(content))


class LaneState(NamedTuple, Generic[State]):
    """The answer of a task: a state, and the peak resident memory of the workers it came from."""

    state: State
    peak_bytes: int = 0


class RetryingReader:
    """A source's reader that opens anew and tries again after an `OSError`.

    What never works is a `SourceError` that says where, whichever library failed.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._reader: SourceReader | None = None

    def read(self, ref: Ref) -> Chunk:
        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                if self._reader is None:
                    self._reader = self._source.reader().__enter__()
                return self._reader.read(ref)
            except Exception as error:
                self.close()
                if not _is_io_error(error):
                    raise
                if attempt == READ_ATTEMPTS:
                    self._give_up(ref, error)
                time.sleep(FIRST_WAIT_S * 4 ** (attempt - 1))
        raise AssertionError("unreachable")

    def _give_up(self, ref: Ref, error: Exception) -> NoReturn:
        if isinstance(error, StreamlearnError):
            raise error
        raise SourceError(
            f"cannot read {self._source.place(ref)}, tried {READ_ATTEMPTS} times: {error}; the "
            "file was moved or removed, or its store cannot be reached"
        ) from error

    def close(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.__exit__(None, None, None)

    def __enter__(self) -> RetryingReader:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _is_io_error(error: Exception) -> bool:
    return isinstance(error, OSError) or isinstance(error.__cause__, OSError)


def fold_lane(
    job: Job[State, Result],
    refs: Refs,
    before: LaneState[State] | None = None,
    stop: StopSignal | None = None,
) -> LaneState[State]:
    """Task: fold the refs in order, from the start or from the state of the lane `before`."""
    return_freed_blocks()
    with one_blas_thread(), slot(job.slots), RowAccess(job.rows, job.durable) as rows:
        state = job.fold.start() if before is None else own_state(job, before)
        with RetryingReader(job.source) as reader:
            for ref in refs:
                check(stop)
                try:
                    chunk = reader.read(ref)
                    rows.load(chunk, [(ref, chunk.n_rows)])
                    state = job.fold.step(state, chunk)
                    rows.store(chunk, [(ref, chunk.n_rows)])
                    del chunk  # else its row state lives on while the next one is read
                except Exception as error:
                    error.add_note(place_note(job, ref))
                    raise
    trim_heaps()
    return LaneState(state, peak_of_worker(job))


def merge_states(
    job: Job[State, Result], left: LaneState[State], right: LaneState[State]
) -> LaneState[State]:
    """Task: two neighbouring states become one."""
    assert job.fold.merge is not None
    with one_blas_thread():
        other = aligned(right.state) if job.slots is not None else right.state
        state = job.fold.merge(own_state(job, left), other)
    return LaneState(state, max(left.peak_bytes, right.peak_bytes, peak_of_worker(job)))


def peak_of_worker(job: Job) -> int:
    """Peak resident memory of this process if it is a worker; a run samples its own."""
    return 0 if job.slots is None else peak_resident_bytes()


def own_state(job: Job[State, Result], before: LaneState[State]) -> State:
    """A state that may be updated in place: on a cluster a copy, as a task may be run again."""
    return copy.deepcopy(before.state) if job.slots is not None else before.state


def place_note(job: Job, ref: Ref) -> str:
    """The rows and the place in which an error happened, as a note below its message."""
    rows, place = f"rows {ref.start} to {ref.stop}", job.source.place(ref)
    return f"in read {job.name!r}, {rows}" + (f" ({place})" if place != rows else "")


def check(stop: StopSignal | None) -> None:
    if stop is not None and stop.is_set():
        raise Stopped


_SLOTS: dict[str, threading.BoundedSemaphore] = {}
_SLOTS_LOCK = threading.Lock()


class slot:
    """Holds a worker process to the number of lanes its memory was planned for."""

    def __init__(self, slots: tuple[str, int] | None) -> None:
        self._semaphore: threading.BoundedSemaphore | None = None
        if slots is not None:
            with _SLOTS_LOCK:
                name, n = slots
                self._semaphore = _SLOTS.setdefault(name, threading.BoundedSemaphore(n))

    def __enter__(self) -> None:
        if self._semaphore is not None:
            self._semaphore.acquire()

    def __exit__(self, *raised: object) -> None:
        if self._semaphore is not None:
            self._semaphore.release()


Node = tuple[int, int]
"""(level, index): the merged state of lanes index * 2**level up to the next node of its level."""


class MergeTree:
    """The fixed binary tree over lanes 0 .. n-1: which node two finished nodes make, and the root.

    Neighbours 2k and 2k+1 of a level merge into k of the next; a last node without a neighbour goes
    up as it is.
    """

    def __init__(self, n_lanes: int) -> None:
        self.widths = [n_lanes]
        while self.widths[-1] > 1:
            self.widths.append((self.widths[-1] + 1) // 2)

    @property
    def root(self) -> Node:
        return len(self.widths) - 1, 0

    def lift(self, node: Node) -> Node:
        """The highest node of the same state: a last one of a level without neighbour goes up."""
        level, index = node
        while (level, index) != self.root and index % 2 == 0 and index + 1 == self.widths[level]:
            level, index = level + 1, index // 2
        return level, index

    def neighbour(self, node: Node) -> Node:
        level, index = node
        return level, index ^ 1

    def above(self, node: Node) -> Node:
        level, index = node
        return level + 1, index // 2

    def lanes_below(self, node: Node) -> range:
        level, index = node
        return range(index << level, min((index + 1) << level, self.widths[0]))
