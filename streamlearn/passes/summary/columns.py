"""Facts of the feature columns as a mergeable state: a dict of arrays around the kernels."""

from __future__ import annotations

import numpy as np

from ...data.source import Chunk, Csr
from ...numeric.huge_pages import zeros
from .counts.kernels import (
    TILE,
    Columns,
    Scratch,
    Stack,
    absorb,
    absorb_zeros,
    column_order,
    integers_of,
    make_limits,
    make_scratch,
    transpose_rows,
)
from .counts.kernels_bins import ROW, widen_columns
from .counts.kernels_bytes import BYTES, count_bytes, pour_bytes
from .counts.kernels_moments import merge_moments
from .counts.kernels_table import (
    MANY,
    SLOTS,
    merge_bins,
    pour_tables,
    tabulate,
    tabulate_table,
)

NO_ROW = np.iinfo(np.int64).max
MOMENTS_NBYTES = 15 * 8
"""Bytes of a column's state without what tells its distribution."""
TABLE_NBYTES = 16 * SLOTS + MOMENTS_NBYTES
COLUMN_NBYTES = 8 * ROW + TABLE_NBYTES
"""Bytes of one column's state at most: bins, table, some numbers."""
BYTES_NBYTES = 12 * BYTES
"""Bytes of a column's counts of bytes in sparse rows, with those of the chunk in hand."""
SLAB_VALUES = 1 << 16
"""Row-major chunks are turned to columns in slabs that stay in the second-level cache."""
WIDE = 128
"""Columns of a slab where moments alone are wanted."""

State = dict[str, np.ndarray]

_VIEWED = ("bad", "key_counts", "key_weights", "bins", "bin_weights")
_PLAIN = [name for name in Columns._fields if name not in _VIEWED]


def empty_columns(p: int, weighted: bool, moments_only: bool = False) -> State:
    """The state of no rows; bins come only with the columns that need them.

    `moments_only`: no column has a table or bins, ever.
    """
    counts = np.float64 if weighted else np.int64
    slots = 0 if moments_only else SLOTS
    return {
        **{name: np.zeros(p) for name in ("weight", "mean", "scatter")},
        **{name: np.full(p, np.inf) for name in ("low", "above")},
        **{name: np.full(p, -np.inf) for name in ("high", "below")},
        **{name: np.zeros(p) for name in ("missing", "infinite", "zeros")},
        "bad_row": np.full(p, NO_ROW),
        "distinct": np.full(p, MANY if moments_only else 0, np.int64),
        # no memory until something is counted in them: bytes of sparse rows are not
        "keys": np.broadcast_to(np.nan, (p, slots)),
        "key_counts": np.broadcast_to(counts(0), (p, slots)),
        "bin_of": np.full(p, -1, np.intp),
        "bins": np.zeros((0, ROW), counts),
        "level": np.zeros(p, np.int64),
        **_no_bytes(),
    }


def add_columns(state: State, chunk: Chunk) -> State:
    """The state with the chunk's rows, in place."""
    X, rows = chunk.X, chunk.rows
    weight = np.empty(0) if chunk.weight is None else chunk.weight
    if isinstance(X, Csr):
        _add_sparse(state, X, weight, rows)
    elif X.shape[1] and X.flags.f_contiguous and not X.flags.c_contiguous:
        _note_bad(state, _add_stack(state, _dense_stack(X.T, weight), make_scratch(X.dtype)), rows)
    elif X.size and _moments_only(state):  # columns share nothing: a slab of few, of many rows
        for j in range(0, X.shape[1], WIDE):
            part = {name: values[j : j + WIDE] for name, values in state.items()}
            _add_rows(part, X[:, j : j + WIDE], weight, rows)
    elif X.size:
        _add_rows(state, X, weight, rows)
    return state


def _add_rows(state: State, X: np.ndarray, weight: np.ndarray, rows: np.ndarray | range) -> None:
    X = np.ascontiguousarray(X)
    m, p = X.shape
    scratch = make_scratch(X.dtype)
    step = max(1, min(SLAB_VALUES // p, m, TILE))
    slab = np.empty((p, step), X.dtype)
    for first in range(0, m, step):
        stop = min(first + step, m)
        if stop - first < step:
            slab = np.empty((p, stop - first), X.dtype)
        transpose_rows(X, first, stop, slab)
        bad = _add_stack(state, _dense_stack(slab, weight[first:stop]), scratch)
        _note_bad(state, bad, rows[first:stop])


def merge_columns(a: State, b: State) -> State:
    """The state of both parts, in `a`."""
    _merge_bytes(a, b)
    if not any(b[name].any() for name in ("weight", "missing", "infinite")):
        return a
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # squares past 1e308 are infinite, not an error
        merged = merge_moments(*(s[k] for s in (a, b) for k in ("weight", "mean", "scatter")))
    a["weight"], a["mean"], a["scatter"] = merged
    for name in ("missing", "infinite", "zeros"):
        a[name] += b[name]
    np.minimum(a["bad_row"], b["bad_row"], out=a["bad_row"])
    other, weighted = columns_of(b), _weighted(a)
    widen_columns(columns_of(a), other, weighted)
    if _moments_only(a):
        return a
    stops = np.empty(len(a["distinct"]), np.intp)
    tabulate_table(columns_of(a), other, stops, weighted)
    _leave_tables(a)
    merge_bins(columns_of(a), other, stops, weighted)
    return a


def _merge_bytes(a: State, b: State) -> None:
    if len(a["bytes"]) and len(b["bytes"]):
        a["bytes"] += b["bytes"]
    elif len(b["bytes"]):
        a["bytes"] = b["bytes"]
    a["byte_rows"] = a["byte_rows"] + b["byte_rows"]


def settle_bytes(state: State) -> State:
    """The state with its counts of bytes poured into the rest; takes no more rows."""
    n_rows = int(state["byte_rows"][0])
    if not n_rows:
        return state
    poured = empty_columns(len(state["mean"]), False)
    empty = not any(state[name].any() for name in ("weight", "missing", "infinite"))
    pour_bytes(columns_of(poured), state["bytes"], n_rows, not empty)
    return poured if empty else merge_columns(poured, {**state, **_no_bytes()})


def _no_bytes() -> State:
    return {"bytes": np.zeros((0, BYTES), np.int64), "byte_rows": np.zeros(1, np.int64)}


def _moments_only(state: State) -> bool:
    return state["keys"].shape[1] == 0


def _weighted(state: State) -> bool:
    return state["bins"].dtype == np.float64


def columns_of(state: State) -> Columns:
    for name in ("keys", "key_counts"):
        if not state[name].flags.writeable:
            state[name] = np.array(state[name])
    return Columns(
        **{name: state[name] for name in _PLAIN},
        bad=np.empty(len(state["mean"]), np.int64),
        key_counts=state["key_counts"].view(np.int64),
        key_weights=state["key_counts"].view(np.float64),
        bins=state["bins"].view(np.int64),
        bin_weights=state["bins"].view(np.float64),
    )


def _leave_tables(state: State) -> None:
    """Give bins to the columns that have just left their table, and pour the table into them."""
    if _moments_only(state):
        return
    leavers = np.flatnonzero((state["distinct"] == MANY) & (state["bin_of"] < 0))
    if not len(leavers):
        return
    bins = state["bins"]
    state["bin_of"][leavers] = np.arange(len(bins), len(bins) + len(leavers))
    state["bins"] = zeros((len(bins) + len(leavers), ROW), bins.dtype)
    state["bins"][: len(bins)] = bins
    pour_tables(columns_of(state), leavers, _weighted(state))


def _dense_stack(XT: np.ndarray, weight: np.ndarray) -> Stack:
    p, m = XT.shape
    values = XT.reshape(-1)
    offsets = np.arange(p + 1, dtype=np.intp) * m
    return Stack(values, values.view(integers_of(XT.dtype)), offsets, weight, np.zeros(p, np.intp))


def _add_stack(state: State, stack: Stack, scratch: Scratch) -> np.ndarray:
    """Add columns of values; the position of each column's first NaN or infinity, or -1."""
    starts = np.full(len(state["mean"]), NO_ROW, np.intp)  # never counted in bins
    if not _moments_only(state):
        tabulate(columns_of(state), stack, starts)
        _leave_tables(state)
    columns = columns_of(state)
    absorb(columns, stack, starts, scratch, make_limits(stack.values.dtype))
    return columns.bad


def _note_bad(state: State, bad: np.ndarray, rows: np.ndarray | range) -> None:
    for j in np.flatnonzero(bad >= 0):
        state["bad_row"][j] = min(state["bad_row"][j], rows[bad[j]])


def _add_sparse(state: State, X: Csr, weight: np.ndarray, rows: np.ndarray | range) -> None:
    """Add CSR rows: stored values column by column, then the implicit zeros as one value."""
    m, p = X.shape
    if not len(weight) and not _moments_only(state):
        if not len(state["bytes"]):
            state["bytes"] = np.zeros((p, BYTES), np.int64)
        if count_bytes(X.data, X.indices, state["bytes"]):
            state["byte_rows"] += m
            return
    if X.data.dtype == np.uint8:
        X = X._replace(data=X.data.astype(np.float32))
    stored = np.bincount(X.indices, minlength=p)
    offsets = np.concatenate([[0], np.cumsum(stored)]).astype(np.intp)
    order = np.empty(len(X.indices), np.int32 if len(X.indices) < 1 << 31 else np.int64)
    column_order(X.indices, offsets[:-1].copy(), order)
    values = X.data[order]
    row_of = np.repeat(np.arange(m, dtype=np.int32), np.diff(X.indptr))
    absent = (m - stored).astype(np.float64)
    entry_weight = weight[row_of[order]] if len(weight) else weight
    if len(weight):
        in_rows = np.bincount(X.indices, weight[row_of] > 0, p)
        rest = weight.sum() - np.bincount(X.indices, weight[row_of], p)
        # the difference of two sums leaves a crumb where every row is stored
        absent = np.where(np.count_nonzero(weight > 0) > in_rows, np.maximum(rest, 0.0), 0.0)
    bits = values.view(integers_of(values.dtype))
    stack = Stack(values, bits, offsets, entry_weight, offsets)
    bad = _add_stack(state, stack, make_scratch(values.dtype))
    for j in np.flatnonzero(bad >= 0):
        row = rows[int(row_of[order[offsets[j] + bad[j]]])]
        state["bad_row"][j] = min(state["bad_row"][j], row)
    absorb_zeros(columns_of(state), absent, _weighted(state))
    _leave_tables(state)
