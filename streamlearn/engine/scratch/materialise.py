"""Sources that cannot be read again and again by any task are written to scratch once, first.

A dask collection (its partitions would be computed anew in every read, and their lengths may be
unknown), a one-shot stream, and on a cluster a table in memory that is too large to be sent around.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...config import format_bytes, get_config
from ...data.choice import Choice, Chosen
from ...data.dask.reader import Block as Partition
from ...data.dask.reader import partition_store
from ...data.dask.store import DaskStore
from ...data.levels import LevelCoder
from ...data.mapped import SourceOver
from ...data.memory.stream import StreamStore, write_stream
from ...data.risk.store import RowsAtRisk
from ...data.source import Source
from ...data.store import Store
from ...errors import MemoryBudgetError, SourceError
from ...passes.fold import Fold, Result, State
from ..cluster import Future, Value
from ..executor import Engine, find_client, open_engine
from ..memory import available_bytes
from .blocks import Block
from .folder import ScratchFolder
from .store import Ask, ScratchStore, write_rows

if TYPE_CHECKING:
    from ...data.dask.reader import Delayed

Origin: TypeAlias = "tuple[list[str], tuple[int, ...] | None, Mapping[str, LevelCoder]]"
"""Names of a collection's columns, lengths of its partitions if they are known, and levels."""

SENT_NBYTES = 64 << 20
"""A table in memory up to this size is sent to the workers of a cluster with each read."""


def lies_here(dataset: Choice) -> bool:
    """Whether the dataset's rows are arrays of this process, which need no plan to be read."""
    return dataset.in_memory and not isinstance(dataset.store.base, StreamStore)


@contextmanager
def materialised(dataset: Chosen) -> Iterator[Chosen]:
    """The dataset, over scratch if its own rows can not be read again and again.

    Needs settings only, so that it comes before a plan, which must know how many rows there are.
    What it writes is removed at the end of the block.
    """
    store: Store = dataset.store
    scheduler = get_config().scheduler
    if isinstance(store, RowsAtRisk):  # made anew of the rows below, wherever those are
        with materialised(store.data) as data:
            yield dataset if data is store.data else replace(dataset, store=store.over(data))
        return
    if isinstance(store, DaskStore):
        write = partial(_write_collection, store)
    elif isinstance(store, StreamStore):
        write = partial(_write_stream, store)
    elif store.in_memory and _is_too_large(dataset) and find_client(scheduler) is not None:
        write = partial(_write_table, store)
    else:
        yield dataset
        return
    scratch = ScratchFolder()
    try:
        yield replace(dataset, store=write(dataset, scratch, scheduler))
    finally:
        scratch.remove()


def _is_too_large(dataset: Choice) -> bool:
    return bool(dataset.decoded_nbytes > SENT_NBYTES)


def _ask(dataset: Choice) -> Ask:
    return Ask(
        tuple(dataset.columns),
        dataset.target,
        dataset.weight,
        dataset.dtype.name,
        dataset.slice_rows,
    )


def _write_table(store: Store, dataset: Choice, scratch: ScratchFolder, scheduler: object) -> Store:
    """Rows in this process: written here, for the workers to read."""
    scratch.require(dataset.decoded_nbytes)
    folder, ask = str(scratch.subfolder("table")), _ask(dataset)
    starts = store.boundaries().tolist()
    runs = zip(starts[:-1], starts[1:], strict=True)
    parts = [write_rows(store, start, stop, ask, folder) for start, stop in runs]
    return ScratchStore(store, ask, folder, parts)


def _write_stream(
    store: StreamStore, dataset: Choice, scratch: ScratchFolder, scheduler: object
) -> Store:
    """Batches that come once."""
    written = write_stream(store, scratch.subfolder("stream"), dataset.slice_rows)
    written.passes_before = 1
    return written


def _write_collection(
    store: DaskStore, dataset: Choice, scratch: ScratchFolder, scheduler: object
) -> Store:
    """Partitions, each computed once and written by the task that depends on it."""
    ask = _ask(dataset)
    folder = str(scratch.subfolder("collection"))
    engine = open_engine(scheduler, _partitions_in_flight(store, dataset))
    try:
        parts = map_partitions(
            engine,
            store.partitions,
            "write-partition",
            _write_partition,
            _origin(store),
            ask,
            folder,
        )
    finally:
        engine.close()
    written = ScratchStore(store, ask, folder, parts)
    if written.n_rows == 0:
        raise SourceError(f"the {store.kind} has no rows in its {len(store.partitions)} partitions")
    return written


def _origin(store: DaskStore) -> Origin:
    """Facts of the collection that a task needs: names, lengths and levels of its columns."""
    return [column.name for column in store.columns], store.known, store.levels


def _partitions_in_flight(store: DaskStore, dataset: Choice) -> int:
    """The number of partitions that the budget holds; those of unknown length are trusted."""
    if store.known is None:
        return 1 << 20
    # the partition as computed, and the slice that is being written
    row = store.row_nbytes(dataset.columns, dataset.dtype)
    each = store.overhead_nbytes(dataset.columns, dataset.slice_rows) + row * dataset.slice_rows
    budget = get_config().memory_budget or available_bytes() // 4
    if each > budget:
        raise MemoryBudgetError(
            f"a partition of the {store.kind} needs {format_bytes(each)} when it is computed but "
            f"the budget is {format_bytes(budget)}; raise memory_budget, or make partitions "
            "smaller (rechunk, repartition)"
        )
    return max(1, int(budget // max(each, 1)))


def _write_partition(
    block: Partition, number: int, origin: Origin, ask: Ask, folder: str
) -> list[Block]:
    """Task: one partition, which arrives computed, to one file."""
    names, n_known, levels = origin
    store = partition_store(block, names, levels)
    if n_known is not None and store.n_rows != n_known[number]:
        raise SourceError(
            f"partition {number} has {store.n_rows} rows, {n_known[number]} were announced"
        )
    return write_rows(store, 0, store.n_rows, ask, folder)


def fold_partitions(fold: Fold[State, Result], source: Source, *, name: str) -> Result:
    """One read of a collection that is not materialised: a task a partition, merged in their order.

    `source` is a column of a dataset over a `DaskStore`; `fold` is mergeable.
    """
    assert isinstance(source, SourceOver)
    dataset, merge = source.source, fold.merge
    assert isinstance(dataset, Choice)
    store = dataset.store
    assert isinstance(store, DaskStore)
    assert merge is not None
    engine = open_engine(get_config().scheduler, _partitions_in_flight(store, dataset))
    try:
        how = engine.share((fold, source.target, dataset.weight))
        origin = _origin(store)
        states = map_partitions(engine, store.partitions, name, _fold_partition, origin, how)
    finally:
        engine.close()
    merged = states[0]
    for state in states[1:]:
        merged = merge(merged, state)
    return fold.finish(merged)


def _fold_partition(
    block: Partition,
    number: int,
    origin: Origin,
    how: tuple[Fold[State, Result], str | None, str | None],
) -> State:
    """Task: the state of one partition."""
    fold, name, weight = how
    store = partition_store(block, origin[0])
    state = fold.start()
    if store.n_rows:
        reader = store.open((), name, weight, np.dtype(np.float32))
        state = fold.step(state, reader.read(0, store.n_rows))
    return state


def map_partitions(
    engine: Engine,
    partitions: Sequence[Delayed],
    name: str,
    task: Callable[..., Value],
    *args: object,
) -> list[Value]:
    """Results of ``task(block, number, *args)`` for each partition, in order.

    A block is the partition computed where it lies, a dependency of the task; at most as many at
    once as there are slots.
    """
    queue = deque(enumerate(partitions))
    running: dict[Future[Value], int] = {}
    results: dict[int, Value] = {}
    try:
        while queue or running:
            while queue and len(running) < engine.n_slots:
                number, partition = queue.popleft()
                block = engine.compute(partition)
                running[engine.submit(name, task, block, number, *args)] = number
                del block
            for future in engine.wait(list(running)):
                results[running.pop(future)] = engine.result(future, f"in {name!r}")
    except BaseException:
        engine.cancel(running)
        raise
    return [results[number] for number in range(len(partitions))]
