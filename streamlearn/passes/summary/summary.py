"""What one read says about the data: every column, the target, and whether the rows are sorted.

Counts are exact integers (sums of weights if there are weights: weight 0 = the row is absent, k = k
copies) and do not depend on chunking or merge order; moments do only in rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from ...data.source import Chunk
from ...errors import SourceError
from ..fold import Fold
from .columns import (
    BYTES_NBYTES,
    COLUMN_NBYTES,
    MOMENTS_NBYTES,
    NO_ROW,
    TABLE_NBYTES,
    add_columns,
    empty_columns,
    merge_columns,
    settle_bytes,
)
from .facts import ColumnFacts, ColumnSummary, Distributions, ends_of
from .few_rows import count_rows, keep_rows, kept_nbytes
from .kernels_pieces import collect_occupied, count_occupied
from .kernels_table import MANY, sort_tables
from .label_sums import add_labels, empty_labels, merge_labels
from .labels import Labels, OrderBias, finish_labels
from .text import format_summary

MAX_STATE_BYTES = 16 << 20
"""Wider tables are summarised in blocks of columns, several reads; a constant, so that no bit of
the result depends on the memory that happens to be free."""
MAX_SHOWN = 5

State = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Summary:
    """Facts of a dataset; prints as a table."""

    n_rows: int
    """Rows after selection, those of weight 0 included."""
    total_weight: float
    columns: ColumnFacts
    """Facts of each column: arrays of all, and item j of column j."""
    labels: Labels | None
    n_reads: int = 1
    n_missing_chunks: int = 0
    """Chunks of a zarr store that are not there: their cells are its fill value."""

    def __str__(self) -> str:
        return format_summary(self)

    __repr__ = __str__

    def __getitem__(self, name: str) -> ColumnSummary:
        return self.columns[self._place_of[name]]

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.columns.names)}

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.columns.names

    @property
    def target(self) -> Labels:
        """Facts of the target, in a summary of data that have one."""
        if self.labels is None:
            raise ValueError("the summary is of data without a target; open them with target=...")
        return self.labels

    @property
    def ref_labels(self) -> np.ndarray | None:
        """(n_refs, K) weight of each class in each ref; None without classes."""
        if self.labels is None or self.labels.classes is None:
            return None
        return self.labels.ref_labels

    @property
    def order_bias(self) -> OrderBias:
        """Whether the rows are sorted by target."""
        return OrderBias(False, 0.0, "") if self.labels is None else self.labels.order_bias

    def require_finite(self, place: Callable[[int], str], *, missing: bool = False) -> None:
        """Raise `SourceError` if a feature holds NaN or infinity; `place(row)` says where.

        With `missing` NaN is let pass; in categories it always is.
        """
        columns = self.columns
        is_bad = (columns.infinite > 0) | ((columns.first_bad >= 0) & (not missing))
        bad = np.flatnonzero(is_bad & (columns.n_levels < 0))
        if not len(bad):
            return
        first = columns[int(bad[0])]
        others = [repr(columns.names[j]) for j in bad[1 : MAX_SHOWN + 1]]
        more = f"; also in {', '.join(others)}" if others else ""
        if len(bad) > MAX_SHOWN + 1:
            more += f" and {len(bad) - MAX_SHOWN - 1} other columns"
        row = int(first.first_bad or 0)
        raise SourceError(
            f"column {first.name!r} holds {first.missing:g} NaN (missing) and {first.infinite:g} "
            f"infinite values, the first in row {row} ({place(row)}){more}; expected finite "
            "numbers: leave these rows out with filters, or replace the values with Dataset.map"
        )


def summary_fold(dataset: Any, moments_only: bool = False) -> Fold[State, Summary]:
    """Fold: the `Summary` of a dataset.  State at most `state_nbytes`."""
    names, keeps = tuple(dataset.feature_names), _keeps_rows(dataset, moments_only)
    return _block_fold(dataset, names, dataset.target, moments_only, keeps)


def _block_fold(
    dataset: Any, names: tuple[str, ...], target: str | None, moments_only: bool, keeps: bool
) -> Fold[State, Summary]:
    """The fold of some columns, its labels by the refs of the whole dataset."""
    starts, weighted = dataset.refs().starts, dataset.is_weighted
    return Fold(
        partial(_start, len(names), weighted, target is not None, moments_only, keeps),
        partial(_step, starts, target),
        _merge,
        partial(_finish, names, len(starts), target, dataset.levels, weighted),
    )


def state_nbytes(
    dataset: Any, max_state_bytes: int = MAX_STATE_BYTES, moments_only: bool = False
) -> int:
    """Bytes of one state of `collect_summary` at most."""
    sizes = iter(_column_nbytes(dataset, moments_only))
    blocks = column_blocks(dataset, max_state_bytes, moments_only)
    return max(sum(islice(sizes, len(names))) for names in blocks)


def step_nbytes_per_row(dataset: Any) -> float:
    """Temporaries of one step per row: work on the target, sparse rows turned to columns."""
    sparse = 3 * dataset.decoded_nbytes / max(dataset.n_physical_rows, 1) if dataset.sparse else 0
    return 64.0 + sparse


def column_blocks(
    dataset: Any, max_state_bytes: int = MAX_STATE_BYTES, moments_only: bool = False
) -> list[tuple[str, ...]]:
    """Runs of columns whose states fit; one read each."""
    names = tuple(dataset.feature_names)
    blocks: list[tuple[str, ...]] = []
    block: list[str] = []
    used = 0
    for name, size in zip(names, _column_nbytes(dataset, moments_only), strict=True):
        if block and used + size > max_state_bytes:
            blocks.append(tuple(block))
            block, used = [], 0
        block.append(name)
        used += size
    return [*blocks, tuple(block)]


def collect_summary(
    run_fold: Callable[..., Summary],
    dataset: Any,
    max_state_bytes: int = MAX_STATE_BYTES,
    moments_only: bool = False,
) -> Summary:
    """The summary of a dataset, in one read or in blocks of columns, several reads.

    `run_fold(fold, dataset, name=...)` is one read, such as ``Run.fold``.  With `moments_only`
    nothing is said of distributions: 96 bytes a column, not 136 KiB, so nearly always one read.
    """
    blocks = column_blocks(dataset, max_state_bytes, moments_only)
    if len(blocks) == 1:
        return run_fold(summary_fold(dataset, moments_only), dataset, name="summary")
    parts, keeps = [], _keeps_rows(dataset, moments_only)
    for k, names in enumerate(blocks):
        fold = _block_fold(dataset, names, None if k else dataset.target, moments_only, keeps)
        parts.append(run_fold(fold, dataset.with_columns(names), name=f"summary-{k + 1}"))
    columns = ColumnFacts.joined([part.columns for part in parts])
    return replace(parts[0], columns=columns, n_reads=len(parts))


def _column_nbytes(dataset: Any, moments_only: bool) -> list[int]:
    """Bytes of each column's state."""
    p = len(dataset.feature_names)
    if moments_only:
        return [MOMENTS_NBYTES] * p
    if _keeps_rows(dataset, moments_only):
        return [kept_nbytes(dataset)] * p
    return _counted_nbytes(dataset)


def _counted_nbytes(dataset: Any) -> list[int]:
    """Bytes of each column's counts; bytes and booleans have at most 256 values: no bins."""
    types, names = dataset.column_types, dataset.feature_names
    small, more = ("bool", "int8", "uint8"), BYTES_NBYTES if dataset.sparse else 0
    return [(TABLE_NBYTES if types.get(name) in small else COLUMN_NBYTES) + more for name in names]


def _keeps_rows(dataset: Any, moments_only: bool) -> bool:
    """Whether the table is so wide that counts take several reads, and its rows take less."""
    kept, p = kept_nbytes(dataset), len(dataset.feature_names)
    if moments_only or kept > COLUMN_NBYTES or p * COLUMN_NBYTES <= MAX_STATE_BYTES:
        return False
    return sum(_counted_nbytes(dataset)) > max(MAX_STATE_BYTES, p * kept)


def _start(p: int, weighted: bool, labelled: bool, moments_only: bool, keeps: bool) -> State:
    return {
        "n_rows": 0,
        "total_weight": 0.0,
        "columns": [] if keeps else empty_columns(p, weighted, moments_only),
        "labels": empty_labels() if labelled else None,
    }


def _step(starts: np.ndarray, target: str | None, state: State, chunk: Chunk) -> State:
    m = chunk.n_rows
    if not m:
        return state
    state["n_rows"] += m
    state["total_weight"] += m if chunk.weight is None else float(chunk.weight.sum())
    if isinstance(state["columns"], list):
        keep_rows(state["columns"], chunk)
    else:
        add_columns(state["columns"], chunk)
    if target is not None:
        state["labels"] = add_labels(state["labels"], chunk, starts, target)
    return state


def _merge(a: State, b: State) -> State:
    a["n_rows"] += b["n_rows"]
    a["total_weight"] += b["total_weight"]
    if isinstance(a["columns"], list):
        a["columns"] += b["columns"]
    else:
        a["columns"] = merge_columns(a["columns"], b["columns"])
    if a["labels"] is not None:
        a["labels"] = merge_labels(a["labels"], b["labels"])
    return a


def _finish(
    names: tuple[str, ...],
    n_refs: int,
    target: str | None,
    levels: dict[str, tuple[str, ...]],
    weighted: bool,
    state: State,
) -> Summary:
    counts: Iterable[tuple[int, int, State, Distributions]]
    if isinstance(state["columns"], list):
        counts = count_rows(state["columns"], len(names), weighted)
    else:
        columns = settle_bytes(state["columns"])
        counts = [(0, len(names), columns, _counted(columns))]
    facts = [
        _column_facts(columns, distributions, names[first:stop], levels)
        for first, stop, columns, distributions in counts
    ]
    return Summary(
        n_rows=state["n_rows"],
        total_weight=state["total_weight"],
        columns=facts[0] if len(facts) == 1 else ColumnFacts.joined(facts),
        labels=None if target is None else finish_labels(state["labels"], target, n_refs),
    )


def _counted(state: State) -> Distributions:
    """The distributions that tables and bins have counted."""
    few = state["distinct"] < MANY
    value_ends = ends_of(np.where(few, state["distinct"], 0))
    values = np.empty(value_ends[-1])
    value_counts = np.empty(value_ends[-1], state["key_counts"].dtype)
    if len(values):
        sort_tables(state["keys"], state["key_counts"], value_ends, values, value_counts)
    # few columns of a merged state may have bins that they do not need
    rows = np.where(few, -1, state["bin_of"])
    n_bins = np.empty(len(rows), np.intp)
    count_occupied(rows, state["bins"], n_bins)
    bin_ends = ends_of(n_bins)
    bins, bin_counts = (
        np.empty(bin_ends[-1], np.uint16),
        np.empty(bin_ends[-1], state["bins"].dtype),
    )
    collect_occupied(rows, state["bins"], bin_ends, bins, bin_counts)
    return Distributions(few, values, value_counts, value_ends, bins, bin_counts, bin_ends)


def _column_facts(
    state: State,
    distributions: Distributions,
    names: tuple[str, ...],
    levels: dict[str, tuple[str, ...]],
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
