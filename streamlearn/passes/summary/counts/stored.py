"""Counts of columns of sparse rows, from the stored values in sorted runs.

A table and bins take 136 KiB a column, however few values the rows store of it: a wide sparse table
would be read once for each hundred columns.  Here the state is (column, value, count), as many as
there are different ones, and a column of more than `MAX_VALUES` values has the edges of its
occupied bins for values.  When the runs outgrow their capacity the last columns are given up, and
another read begins with them; so a table is read as often as its values need, and a column's facts
do not depend on how many reads there were.
"""

from __future__ import annotations

from typing import TypeAlias, TypedDict

import numpy as np

from ....data.source import Chunk, Csr, Source
from ..columns import MOMENTS_NBYTES, add_columns, empty_columns, merge_columns
from ..columns import State as ColumnState
from ..facts import Distributions, ends_of
from .kernels_bins import N_BINS, place_values, raise_levels
from .kernels_runs import Runs, merge_runs, ordered, unordered
from .kernels_table import MAX_VALUES

MAX_STORED_BYTES = 32 << 20
"""Bytes of a state at most, where the budget leaves them."""
ENTRY_NBYTES = 4 + 8 + 8
WAITING = 4
"""Rows wait, unsorted, until their values are this part of the capacity; then runs take them in."""
STATE_NBYTES = ENTRY_NBYTES + ENTRY_NBYTES // WAITING
"""Bytes of a state for each entry of its capacity: the runs, and what waits."""
STEP_NBYTES = 2 * STATE_NBYTES
"""Bytes beside a state while its runs take in: what waits joined and sorted, the runs of both; and
while two are merged, the runs of both, before the last columns are given up."""
MIN_CAPACITY = N_BINS + MAX_VALUES
"""Entries that a column can have: with fewer a read might finish no column."""


Waiting: TypeAlias = "tuple[np.ndarray, np.ndarray, np.ndarray | None]"
"""Columns, values and weights (None: all 1) of the stored values of one chunk."""


class State(TypedDict):
    """Sparse rows so far."""

    moments: ColumnState
    runs: Runs
    binned: np.ndarray
    """(p,) bool: the columns whose values are the edges of bins."""
    levels: np.ndarray
    """(p,) int64 levels of the bins of columns, were they all in bins."""
    waiting: list[Waiting]
    n_waiting: int
    """Number of values in `waiting`."""
    stop: int
    """Number of columns that this read still counts."""


def stored_nbytes(dataset: Source, limit: int) -> int:
    """Bytes of a state that may take `limit`: less, if the rows store fewer values."""
    return _fixed_nbytes(dataset) + STATE_NBYTES * capacity(dataset, limit)


def intake_nbytes(dataset: Source, limit: int) -> int:
    """Bytes that a step takes beside a state that may take `limit`."""
    return STEP_NBYTES * capacity(dataset, limit)


def capacity(dataset: Source, limit: int) -> int:
    """Entries of the runs of a state of `limit` bytes."""
    room = max(limit - _fixed_nbytes(dataset), 0) // STATE_NBYTES
    return max(min(room, n_stored(dataset)), MIN_CAPACITY)


def most_reads(dataset: Source, limit: int) -> int:
    """Reads at most.

    One that gave columns up had a full state but for the first of them, whose entries are
    `MIN_CAPACITY` at most; and each stored value makes an entry in one read alone.
    """
    room, n = capacity(dataset, limit), n_stored(dataset)
    if n <= room:
        return 1
    p, full = len(dataset.feature_names), room - MIN_CAPACITY
    return min(p, 1 + n // full) if full > 0 else p


def n_stored(dataset: Source) -> int:
    """Stored values of all rows at most."""
    return dataset.decoded_nbytes // (np.dtype(dataset.dtype).itemsize + 4)


def _fixed_nbytes(dataset: Source) -> int:
    return len(dataset.feature_names) * (MOMENTS_NBYTES + 9)


def start_stored(p: int, weighted: bool) -> State:
    """The state of no rows."""
    return {
        "moments": empty_columns(p, weighted, moments_only=True),
        "runs": _no_runs(weighted),
        "binned": np.zeros(p, bool),
        "levels": np.zeros(p, np.int64),
        "waiting": [],
        "n_waiting": 0,
        "stop": p,
    }


def _no_runs(weighted: bool) -> Runs:
    return Runs(np.empty(0, np.int32), np.empty(0), np.empty(0, float if weighted else np.int64))


def add_stored(capacity: int, state: State, chunk: Chunk) -> State:
    """The state with a chunk of sparse rows, in place."""
    X = chunk.X
    assert isinstance(X, Csr)
    add_columns(state["moments"], chunk)
    keep = np.isfinite(X.data) & (X.data != 0)
    weight = None
    if chunk.weight is not None:
        weight = np.repeat(chunk.weight, np.diff(X.indptr))
        keep &= weight > 0
        weight = weight[keep]
    if state["stop"] < X.n_columns:
        kept = X.indices[keep] < state["stop"]
        keep[keep] = kept
        weight = None if weight is None else weight[kept]
    columns = X.indices[keep].astype(np.int32)
    state["waiting"].append((columns, X.data[keep], weight))
    state["n_waiting"] += len(columns)
    return _taken_in(state, capacity) if state["n_waiting"] * WAITING >= capacity else state


def merge_stored(capacity: int, a: State, b: State) -> State:
    """The state of both parts, in `a`."""
    a, b = _taken_in(a, capacity), _taken_in(b, capacity)
    a["moments"] = merge_columns(a["moments"], b["moments"])
    a["stop"] = min(a["stop"], b["stop"])
    return _cut(_merged(a, b["runs"], b["binned"]), capacity)


def _taken_in(state: State, capacity: int) -> State:
    """The state without rows that wait."""
    if state["waiting"]:
        waiting, state["waiting"], state["n_waiting"] = state["waiting"], [], 0
        run = _sorted(waiting, len(state["binned"]))
        state = _merged(state, run, np.zeros(len(state["binned"]), bool))
    return _cut(state, capacity)


def _cut(state: State, capacity: int) -> State:
    """Give up the last columns, until the runs are within their capacity."""
    columns = state["runs"].columns
    if len(columns) > capacity:
        state["stop"] = min(state["stop"], int(columns[capacity]))
    n = int(np.searchsorted(columns, state["stop"]))
    if n < len(columns):
        state["runs"] = Runs(*(part[:n].copy() for part in state["runs"]))
    return state


def _sorted(waiting: list[Waiting], p: int) -> Runs:
    """The different values of chunks, with their counts."""
    columns = np.concatenate([part[0] for part in waiting])
    values = np.concatenate([part[1] for part in waiting])
    given = [part[2] for part in waiting if part[2] is not None]
    weights = np.concatenate(given) if given else None
    waiting.clear()
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if weights is None and (narrow == values).all():  # one integer a value: a much faster sort
        keys = ordered(columns, narrow)
        del columns, values, narrow
        keys.sort()
        at = _starts(keys[1:] != keys[:-1])
        counts = np.diff(at, append=len(keys))
        columns, narrow = unordered(keys[at])
        return Runs(columns, narrow.astype(np.float64), counts)
    order = np.lexsort((values, columns))
    columns, values = columns[order], values[order].astype(np.float64)
    at = _starts((columns[1:] != columns[:-1]) | (values[1:] != values[:-1]))
    if weights is None:
        counts = np.diff(at, append=len(order))
    else:
        counts = np.add.reduceat(weights[order], at) if len(at) else weights
    return Runs(columns[at], values[at], counts)


def _starts(differ: np.ndarray) -> np.ndarray:
    """First places of the runs of equal neighbours; `differ` says it of all but the first."""
    return np.flatnonzero(np.concatenate([[True], differ])) if len(differ) else np.arange(1)


def _merged(state: State, other: Runs, other_binned: np.ndarray) -> State:
    """The state with other runs, whose values its moments know, and the columns in bins now."""
    if not len(other.columns) and not other_binned.any():
        return state
    moments, runs = state["moments"], state["runs"]
    raise_levels(state["levels"], *(moments[name] for name in ("low", "below", "above", "high")))
    size = len(runs.columns) + len(other.columns)
    out = Runs(np.empty(size, np.int32), np.empty(size), np.empty(size, runs.counts.dtype))
    state["binned"] = state["binned"] | other_binned
    n = merge_runs(runs, other, state["levels"], out, state["binned"])
    state["runs"] = Runs(*(part[:n].copy() for part in out))
    return state


def finish_stored(state: State) -> tuple[int, ColumnState, Distributions]:
    """The number of columns, from the first on, that are counted; moments; distributions."""
    state = _taken_in(state, np.iinfo(np.int64).max)
    stop, binned = state["stop"], state["binned"]
    moments = {
        name: part[:stop] if len(part) == len(binned) else part
        for name, part in state["moments"].items()
    }
    # zeros, stored or not, are counted apart: a value of the columns whose values are all known
    at = np.flatnonzero((moments["zeros"] > 0) & ~binned[:stop]).astype(np.int32)
    counts = moments["zeros"][at].astype(state["runs"].counts.dtype)
    zeros = Runs(at, np.zeros(len(at)), counts)
    state = _merged(state, zeros, np.zeros(len(binned), bool))
    (columns, values, counts), binned = state["runs"], state["binned"]
    levels, known = np.where(binned, state["levels"], 0)[:stop], ~binned[columns]
    n_values = np.bincount(columns[known], minlength=stop)[:stop]
    bin_ends = ends_of(np.bincount(columns[~known], minlength=stop)[:stop])
    numbers = np.empty(bin_ends[-1], np.uint16)
    place_values(values[~known], bin_ends, levels, moments["low"], moments["high"], numbers)
    return (
        stop,
        moments,
        Distributions(
            ~binned[:stop],
            values[known],
            counts[known],
            ends_of(n_values),
            numbers,
            counts[~known],
            bin_ends,
            levels.astype(np.uint8),
        ),
    )
