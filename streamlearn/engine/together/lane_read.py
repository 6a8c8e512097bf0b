"""Reads in lanes: of one fold, or of the folds of several fits in one read of their common rows.

Fits of the splits of one table leave out other rows of the same chunks: a split is a hash of row
numbers, so the refs of all splits are those of the table, and with them the lanes and the tree in
which states merge.  One task then reads a chunk of the table, makes of it the chunk of each fit in
turn (its rows, its encoding, its weights), and steps the fold of each.  What a fold is given, and
the order in which its states merge, are those of a read of its own: so are the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...data.row_ranges import Refs
from ...data.source import Chunk, Made, Source
from ...numeric.malloc import return_freed_blocks, trim_heaps
from ...passes.fold import Fold
from ..blas import one_blas_thread
from ..checkpoint.lanes_done import CompletedLanes
from ..driver import Coming, Task, fold_lanes
from ..executor import Engine
from ..lanes import (
    Job,
    LaneState,
    Node,
    RetryingReader,
    StopSignal,
    check,
    own_state,
    peak_of_worker,
    place_note,
    slot,
)
from ..plan import Plan
from ..scratch.row_state import RowAccess


@dataclass(frozen=True)
class LaneRead:
    """One read in lanes that a fit asks for."""

    job: Job
    tasks: Sequence[Task]
    engine: Engine
    plan: Plan
    done: CompletedLanes
    """Keeps the states of completed lanes, and knows those of an earlier attempt."""
    may_go_on: Callable[[], None]
    """Called whenever a task ends; raises to give the read up."""
    made: Made | None
    """The source and the making of the chunks; None: nobody else can share them."""

    @property
    def chunk_bytes(self) -> int:
        """Decoded size of the largest chunk."""
        return int(Refs.of(self.job.source.refs()).nbytes.max())

    def shares_with(self, other: LaneRead) -> bool:
        """Whether one read serves both: the same chunks of the same rows, in the same lanes."""
        return (
            self.made is not None
            and other.made is not None
            and self.made.source == other.made.source
            and _same_refs(self.job.source, other.job.source)
            and self.done.finished.keys() == other.done.finished.keys()
        )


def _same_refs(a: Source, b: Source) -> bool:
    one, two = Refs.of(a.refs()), Refs.of(b.refs())
    return (
        np.array_equal(one.starts, two.starts)
        and np.array_equal(one.stops, two.stops)
        and np.array_equal(one.nbytes, two.nbytes)
    )


def read_alone(read: LaneRead, at_once: int) -> LaneState:
    """The merged state of one read's tasks."""
    last = fold_lanes(
        read.engine,
        read.job,
        read.tasks,
        at_once=at_once,
        finished=read.done.finished,
        on_done=read.done,
        may_go_on=read.may_go_on,
    )
    return read.engine.result(last)


def read_together(reads: Sequence[LaneRead], at_once: int) -> list[LaneState]:
    """The merged state of each of several reads that share, from one read."""
    first = reads[0]
    assert first.made is not None
    engine, slots = first.engine, first.job.slots
    job: Job = replace(
        first.job,
        name=f"{first.job.name}-of-{len(reads)}",
        source=first.made.source,
        fold=Together.of(reads),
        rows=(),
        slots=slots and (f"{slots[0]}-of-{len(reads)}-{at_once}", at_once),
    )
    tasks = [task._replace(function=fold_lane_together) for task in first.tasks]
    finished = {
        node: LaneState([read.done.finished[node].state for read in reads])
        for node in first.done.finished
    }

    def on_done(nodes: Mapping[Node, Coming], n_lanes: int, closing: bool) -> None:
        for number, read in enumerate(reads):
            read.done(nodes, n_lanes, closing, of=number)

    def may_go_on() -> None:
        for read in reads:
            read.may_go_on()

    last = engine.result(
        fold_lanes(
            engine,
            job,
            tasks,
            at_once=at_once,
            finished=finished,
            on_done=on_done,
            may_go_on=may_go_on,
        )
    )
    return [LaneState(state, last.peak_bytes) for state in last.state]


@dataclass(frozen=True)
class Together(Fold[list, list]):
    """The folds of several fits, each of which sees the chunks that are made for it."""

    reads: tuple[tuple[Job, Callable[..., Chunk]], ...] = ()
    """Each fit's job, and the function that makes its chunks."""

    @classmethod
    def of(cls, reads: Sequence[LaneRead]) -> Together:
        """The fold of reads that share."""
        folds = tuple(read.job.fold for read in reads)
        parts = tuple((read.job, read.made.make) for read in reads if read.made is not None)
        return cls(partial(_start, folds), _no_step, partial(_merge, folds), reads=parts)


def _start(folds: tuple[Fold, ...]) -> list:
    return [fold.start() for fold in folds]


def _no_step(state: list, chunk: Chunk) -> list:
    raise TypeError("folds of several fits are stepped by `fold_lane_together` alone")


def _merge(folds: tuple[Fold, ...], a: list, b: list) -> list:
    return [fold.merge(x, y) for fold, x, y in zip(folds, a, b, strict=True) if fold.merge]


def fold_lane_together(
    job: Job, refs: Refs, before: LaneState | None = None, stop: StopSignal | None = None
) -> LaneState:
    """Task: as `fold_lane`, for the folds of several fits."""
    return_freed_blocks()
    together = job.fold
    assert isinstance(together, Together)
    with one_blas_thread(), slot(job.slots), ExitStack() as stack:
        opened = [
            stack.enter_context(RowAccess(part.rows, part.durable)) for part, _ in together.reads
        ]
        states = together.start() if before is None else own_state(job, before)
        with RetryingReader(job.source) as reader:
            for ref in refs:
                check(stop)
                try:
                    chunk = reader.read(ref)
                    for k, ((part, make), rows) in enumerate(
                        zip(together.reads, opened, strict=True)
                    ):
                        if job.source.in_memory:
                            own = replace(chunk, state={})
                        else:
                            own = chunk if k + 1 == len(opened) else alike(chunk)
                        own = make(own, ref)
                        rows.load(own, [(ref, own.n_rows)])
                        states[k] = part.fold.step(states[k], own)
                        rows.store(own, [(ref, own.n_rows)])
                        del own
                    del chunk  # as its row state, not kept while the next one is read
                except Exception as error:
                    error.add_note(place_note(job, ref))
                    raise
    trim_heaps()
    return LaneState(states, peak_of_worker(job))


def alike(chunk: Chunk) -> Chunk:
    """A copy whose X lies as that of the chunk does, gaps between its rows or columns included.

    Kernels are compiled for either, and may sum in another order.
    """
    X = chunk.X
    copy = chunk.copy()
    if isinstance(X, np.ndarray) and copy.X.strides != X.strides and X.size:  # type: ignore[union-attr]
        by_columns = X.strides[0] == X.itemsize
        wide = X.T if by_columns else X
        room = np.empty((len(wide), wide.strides[0] // X.itemsize), X.dtype)
        room[:, : wide.shape[1]] = wide
        own = room[:, : wide.shape[1]]
        copy.X = own.T if by_columns else own
    return copy
