"""The reads that make a summary: ways to count columns, sizes of states, blocks of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Generic, NamedTuple, TypedDict, TypeVar

import numpy as np

from ...data.source import Chunk, Source
from ..fold import Fold
from .columns import (
    BYTES_NBYTES,
    COLUMN_NBYTES,
    MOMENTS_NBYTES,
    NO_ROW,
    TABLE_NBYTES,
    add_columns,
    columns_of,
    empty_columns,
    merge_columns,
    settle_bytes,
)
from .columns import State as ColumnState
from .counts.few_rows import count_rows, keep_rows, kept_nbytes, merge_kept
from .counts.kernels_bins import MOST_BINS, N_BINS, occupied
from .counts.kernels_table import MANY, MAX_VALUES, sort_tables
from .counts.stored import (
    MAX_STORED_BYTES,
    add_stored,
    capacity,
    finish_stored,
    intake_nbytes,
    merge_stored,
    most_reads,
    start_stored,
    stored_nbytes,
)
from .counts.stored import State as StoredState
from .facts import NAME_NBYTES, SCALARS_NBYTES, ColumnFacts, Distributions, ends_of
from .label_sums import State as LabelState
from .label_sums import add_labels, empty_labels, merge_labels
from .labels import finish_labels
from .summary import Summary

MAX_STATE_BYTES = 16 << 20
"""Wider dense tables are summarised in blocks of columns, several reads; a constant, so that no bit
of the result depends on the memory that happens to be free."""

Counts = TypeVar("Counts")


class State(TypedDict):
    """Facts of the rows so far."""

    n_rows: int
    most_rows: int
    n_absent: int
    total_weight: float
    columns: object
    """A state of the `Counting` of the columns."""
    labels: LabelState | None


def summary_fold(dataset: Source, moments_only: bool = False) -> Fold[State, Summary]:
    """Fold: the `Summary` of a dataset.  State at most `state_nbytes`."""
    names = tuple(dataset.feature_names)
    counting = _counting(dataset, MAX_STATE_BYTES, moments_only)(len(names))
    return _block_fold(dataset, names, dataset.target, counting)


Counted = tuple[int, int, ColumnState, Distributions]
"""First and stop of some columns, their moments and their distributions."""


class Counting(NamedTuple, Generic[Counts]):
    """One way to count columns: a state of no rows, with a chunk's, of both parts, what it says."""

    start: Callable[[], Counts]
    add: Callable[[Counts, Chunk], Counts]
    merge: Callable[[Counts, Counts], Counts]
    finish: Callable[[Counts], Iterator[Counted]]


def _counting(dataset: Source, limit: int, moments_only: bool) -> Callable[[int], Counting]:
    """The way that the shape of the dataset decides, of any number of its columns."""
    weighted = dataset.is_weighted
    if is_stored(dataset, moments_only):
        room = capacity(dataset, limit)
        add, merge = partial(add_stored, room), partial(merge_stored, room)
        return lambda p: Counting(partial(start_stored, p, weighted), add, merge, _stored)
    if _keeps_rows(dataset, moments_only):
        finish = partial(count_rows, weighted=weighted)
        return lambda p: Counting(list, keep_rows, merge_kept, partial(finish, p=p))
    start = partial(empty_columns, weighted=weighted, moments_only=moments_only)
    return lambda p: Counting(partial(start, p), add_columns, merge_columns, _tabulated)


def _stored(state: StoredState) -> Iterator[Counted]:
    stop, moments, distributions = finish_stored(state)
    yield 0, stop, moments, distributions


def _tabulated(state: ColumnState) -> Iterator[Counted]:
    columns = settle_bytes(state)
    yield 0, len(columns["mean"]), columns, _counted(columns)


def _block_fold(
    dataset: Source, names: tuple[str, ...], target: str | None, counting: Counting
) -> Fold[State, Summary]:
    """The fold of some columns, its labels by the refs of the whole dataset."""
    starts = dataset.refs().starts
    return Fold(
        partial(_start, counting, target is not None),
        partial(_step, counting, starts, target),
        partial(_merge, counting),
        partial(_finish, counting, names, len(starts), target, dataset.levels),
    )


def state_nbytes(
    dataset: Source, max_state_bytes: int = MAX_STATE_BYTES, moments_only: bool = False
) -> int:
    """Bytes of one state of `collect_summary` at most."""
    if is_stored(dataset, moments_only):
        return stored_nbytes(dataset, max_state_bytes)
    sizes = _column_nbytes(dataset, moments_only)
    return int(np.diff(ends_of(sizes)[_block_ends(sizes, max_state_bytes)]).max())


def step_nbytes_per_row(dataset: Source) -> float:
    """Temporaries of one step per row: work on the target, sparse rows turned to columns."""
    sparse = 3 * dataset.decoded_nbytes / max(dataset.n_physical_rows, 1) if dataset.sparse else 0
    return 64.0 + sparse


def step_nbytes(
    dataset: Source, max_state_bytes: int = MAX_STATE_BYTES, moments_only: bool = False
) -> int:
    """Temporaries of one step, whatever its rows."""
    if not is_stored(dataset, moments_only):
        return 0
    return intake_nbytes(dataset, max_state_bytes)


def facts_nbytes(dataset: Source, moments_only: bool = False) -> int:
    """Bytes that `ColumnFacts.nbytes` will tell, but for what only a read can know.

    That is the columns whose magnitudes are spread over more than some octaves (up to eight times
    the bins), and all distributions of wide sparse rows: a bound would refuse fits that have room.
    """
    p, n = len(dataset.feature_names), max(dataset.n_physical_rows, 1)
    fixed = NAME_NBYTES + SCALARS_NBYTES
    if moments_only or is_stored(dataset, moments_only):
        return p * fixed
    each = 2 + (8 if dataset.is_weighted else np.min_scalar_type(n).itemsize)
    return p * (fixed + max(min(n, MOST_BINS) * each, min(n, MAX_VALUES) * 16))


def earlier_facts_nbytes(dataset: Source, limit: int, moments_only: bool = False) -> int:
    """Bytes of the facts that earlier reads have found, while `collect_summary` does its last.

    Those of wide sparse rows find room in what states that wait for others do not fill (measured:
    with all facts, a third under the plan).
    """
    several = count_reads(dataset, limit, moments_only)[0] > 1
    return facts_nbytes(dataset, moments_only) if several else 0


def most_state_bytes(dataset: Source, moments_only: bool = False) -> int:
    """The largest state that is worth its memory, for plans to begin with."""
    return MAX_STORED_BYTES if is_stored(dataset, moments_only) else MAX_STATE_BYTES


def count_reads(
    dataset: Source, max_state_bytes: int = MAX_STATE_BYTES, moments_only: bool = False
) -> tuple[int, int]:
    """Reads of `collect_summary` at least and at most."""
    if is_stored(dataset, moments_only):
        return 1, most_reads(dataset, max_state_bytes)
    n_blocks = len(_block_ends(_column_nbytes(dataset, moments_only), max_state_bytes)) - 1
    return n_blocks, n_blocks


def column_blocks(
    dataset: Source, max_state_bytes: int = MAX_STATE_BYTES, moments_only: bool = False
) -> list[tuple[str, ...]]:
    """Runs of columns whose states fit; one read each."""
    names = tuple(dataset.feature_names)
    ends = _block_ends(_column_nbytes(dataset, moments_only), max_state_bytes)
    return [names[first:stop] for first, stop in pairwise(ends)]


def _block_ends(sizes: np.ndarray, most: int) -> list[int]:
    """Places where runs of columns of these bytes begin and end, each of at most `most` bytes.

    A larger column is a run alone, and no columns are one run.
    """
    sums, ends = ends_of(sizes), [0]
    while len(ends) == 1 or ends[-1] < len(sizes):
        stop = int(np.searchsorted(sums, sums[ends[-1]] + most, "right")) - 1
        ends.append(min(max(stop, ends[-1] + 1), len(sizes)))
    return ends


def collect_summary(
    run_fold: Callable[..., Summary],
    dataset: Source,
    max_state_bytes: int = MAX_STATE_BYTES,
    moments_only: bool = False,
) -> Summary:
    """The summary of a dataset, in one read or in blocks of columns, several reads.

    `run_fold(fold, dataset, name=...)` is one read, such as ``Run.fold``.  With `moments_only`
    nothing is said of distributions: 120 bytes a column, not 136 KiB, so nearly always one read.
    Of wide sparse rows each read counts as many columns as its state has room for.
    """
    rest = tuple(dataset.feature_names)
    adaptive = is_stored(dataset, moments_only)
    blocks = [rest] if adaptive else column_blocks(dataset, max_state_bytes, moments_only)
    counting_of = _counting(dataset, max_state_bytes, moments_only)  # one look at all columns
    parts: list[Summary] = []
    while rest or not parts:
        names = rest if adaptive else blocks[len(parts)]
        whole = len(names) == len(dataset.feature_names)
        target = None if parts else dataset.target
        fold = _block_fold(dataset, names, target, counting_of(len(names)))
        part = run_fold(
            fold,
            dataset if whole else dataset.with_columns(names),
            name="summary" if whole else f"summary-{len(parts) + 1}",
        )
        parts.append(part)
        rest = rest[len(part.columns) :]
    if len(parts) == 1:
        return parts[0]
    columns = ColumnFacts.joined([part.columns for part in parts])
    return replace(parts[0], columns=columns, n_reads=len(parts), most_rows=None)


def _column_nbytes(dataset: Source, moments_only: bool) -> np.ndarray:
    """(p,) bytes of each column's state."""
    p = len(dataset.feature_names)
    if moments_only:
        return np.full(p, MOMENTS_NBYTES)
    if _keeps_rows(dataset, moments_only):
        return np.full(p, kept_nbytes(dataset))
    return _counted_nbytes(dataset)


def _counted_nbytes(dataset: Source) -> np.ndarray:
    """(p,) bytes of each column's counts; bytes and booleans have at most 256 values: no bins."""
    types, names = dataset.column_types, dataset.feature_names
    kinds, more = {"bool", "int8", "uint8"}, BYTES_NBYTES if dataset.sparse else 0
    sizes = np.full(len(names), COLUMN_NBYTES + more)
    small = {name for name, kind in types.items() if kind in kinds}
    if not small.isdisjoint(names):  # asked several times a fit; the target may be one
        sizes[[name in small for name in names]] = TABLE_NBYTES + more
    return sizes


def is_stored(dataset: Source, moments_only: bool) -> bool:
    """Whether sparse rows are so wide that counts would take several reads."""
    if moments_only or not dataset.sparse:
        return False
    return int(_counted_nbytes(dataset).sum()) > MAX_STATE_BYTES


def _keeps_rows(dataset: Source, moments_only: bool) -> bool:
    """Whether the table is so wide that counts take several reads, and its rows take less."""
    kept, p = kept_nbytes(dataset), len(dataset.feature_names)
    if moments_only or dataset.sparse or kept > COLUMN_NBYTES:
        return False
    if p * COLUMN_NBYTES <= MAX_STATE_BYTES:
        return False
    return int(_counted_nbytes(dataset).sum()) > max(MAX_STATE_BYTES, p * kept)


def _start(counting: Counting, labelled: bool) -> State:
    return {
        "n_rows": 0,
        "most_rows": 0,
        "n_absent": 0,
        "total_weight": 0.0,
        "columns": counting.start(),
        "labels": empty_labels() if labelled else None,
    }


@np.errstate(over="ignore", invalid="ignore")  # sums of huge weights are inf, and refused
def _step(
    counting: Counting, starts: np.ndarray, target: str | None, state: State, chunk: Chunk
) -> State:
    m = chunk.n_rows
    if not m:
        return state
    state["n_rows"] += m
    state["most_rows"] = max(state["most_rows"], m)
    state["total_weight"] += m if chunk.weight is None else float(chunk.weight.sum())
    if chunk.weight is not None:
        state["n_absent"] += m - int(np.count_nonzero(chunk.weight))
    state["columns"] = counting.add(state["columns"], chunk)
    labels = state["labels"]
    if target is not None and labels is not None:
        state["labels"] = add_labels(labels, chunk, starts, target)
    return state


def _merge(counting: Counting, a: State, b: State) -> State:
    a["n_rows"] += b["n_rows"]
    a["most_rows"] = max(a["most_rows"], b["most_rows"])
    a["total_weight"] += b["total_weight"]
    a["n_absent"] += b["n_absent"]
    a["columns"] = counting.merge(a["columns"], b["columns"])
    if a["labels"] is not None and b["labels"] is not None:
        a["labels"] = merge_labels(a["labels"], b["labels"])
    return a


def _finish(
    counting: Counting,
    names: tuple[str, ...],
    n_refs: int,
    target: str | None,
    levels: Mapping[str, tuple[str, ...]],
    state: State,
) -> Summary:
    labels = state["labels"]
    facts = [
        _column_facts(columns, distributions, names[first:stop], levels)
        for first, stop, columns, distributions in counting.finish(state["columns"])
    ]
    return Summary(
        n_rows=state["n_rows"],
        total_weight=state["total_weight"],
        columns=facts[0] if len(facts) == 1 else ColumnFacts.joined(facts),
        labels=None if target is None or labels is None else finish_labels(labels, target, n_refs),
        n_absent=state["n_absent"],
        most_rows=state["most_rows"],
    )


def _counted(state: ColumnState) -> Distributions:
    """The distributions that tables and bins have counted."""
    few = state["distinct"] < MANY
    value_ends = ends_of(np.where(few, state["distinct"], 0))
    values = np.empty(value_ends[-1])
    value_counts = np.empty(value_ends[-1], state["key_counts"].dtype)
    if len(values):
        sort_tables(state["keys"], state["key_counts"], value_ends, values, value_counts)
    # few columns of a merged state may have bins that they do not need
    many = ~few & (state["bin_of"] >= 0)
    room, bin_ends = N_BINS * np.count_nonzero(many), np.zeros(len(few) + 1, np.intp)
    bins, bin_counts = np.empty(room, np.uint16), np.empty(room, state["bins"].dtype)
    occupied(columns_of(state), many, state["bins"], bin_ends, bins, bin_counts)
    bins, bin_counts = bins[: bin_ends[-1]].copy(), bin_counts[: bin_ends[-1]].copy()
    levels = np.where(many, state["level"], 0).astype(np.uint8)
    return Distributions(few, values, value_counts, value_ends, bins, bin_counts, bin_ends, levels)


def _column_facts(
    state: ColumnState,
    distributions: Distributions,
    names: tuple[str, ...],
    levels: Mapping[str, tuple[str, ...]],
) -> ColumnFacts:
    weight = state["weight"]
    exact = state["bins"].dtype.kind == "i"
    with np.errstate(invalid="ignore", divide="ignore"):
        moments = [state["low"], state["high"], state["mean"], state["scatter"] / weight]
    low, high, mean, variance = (np.where(weight == 0, np.nan, x) for x in moments)
    counts = [weight, *(state[name] for name in ("missing", "infinite", "zeros"))]
    count, missing, infinite, zeros = (x.astype(np.int64) if exact else x.copy() for x in counts)
    bad, bin_counts = state["bad_row"], distributions.bin_counts
    return ColumnFacts(
        names,
        count,
        missing,
        infinite,
        zeros,
        low,
        high,
        mean,
        variance,
        np.where(bad == NO_ROW, -1, bad).astype(np.int64),
        **distributions._replace(bin_counts=bin_counts.astype(_count_type(bin_counts)))._asdict(),
        levels={name: levels[name] for name in names if name in levels} if levels else {},
    )


def _count_type(counts: np.ndarray) -> type[np.generic]:
    """The narrowest type that holds these counts; weights stay as they are."""
    if counts.dtype.kind == "f":
        return np.float64
    most = counts.max(initial=0)
    return next(kind for kind in (np.uint16, np.uint32, np.int64) if most <= np.iinfo(kind).max)
