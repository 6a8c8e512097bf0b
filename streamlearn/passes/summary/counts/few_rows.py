"""Columns of few dense rows: the rows themselves are the state, while they take less than counts.

What counts a column takes 136 KiB, however few its rows are.  So of a wide table of few rows the
state is the values, many columns a read.  When all are there each column is sorted, which gives its
distinct values, their counts and its bins without a table or 16,384 bins to look through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

import numpy as np

from ....data.source import Chunk, Source
from ..columns import State, add_columns, empty_columns
from ..facts import Distributions, ends_of
from .kernels_bins import raise_levels
from .kernels_sorted import bins_of_columns, runs_of_columns
from .kernels_table import MAX_VALUES

BLOCK_VALUES = 1 << 16
"""Number of values sorted at once: with their temporaries they stay in the cache."""


class Part(TypedDict):
    """Rows of a chunk, in arrays of their own."""

    X: np.ndarray
    weight: np.ndarray | None
    rows: np.ndarray


def kept_nbytes(dataset: Source) -> int:
    """Bytes of a column in the state and where the parts are joined: an upper bound."""
    return 2 * np.dtype(dataset.dtype).itemsize * dataset.n_physical_rows


def keep_rows(parts: list[Part], chunk: Chunk) -> list[Part]:
    """The parts with a copy of the chunk's columns, in place."""
    assert isinstance(chunk.X, np.ndarray)
    weight = None if chunk.weight is None else chunk.weight.copy()
    parts.append({"X": chunk.X.copy(), "weight": weight, "rows": chunk.numbers})
    return parts


def merge_kept(a: list[Part], b: list[Part]) -> list[Part]:
    """The rows of both, in `a`."""
    a += b
    return a


def count_rows(
    parts: list[Part], p: int, weighted: bool
) -> Iterator[tuple[int, int, State, Distributions]]:
    """First, stop, moments and distributions of each block of the p columns of these rows."""
    joined = _joined(parts)
    block = max(1, BLOCK_VALUES // max(1, sum(len(part["rows"]) for part in parts)))
    for first in range(0, p, block):
        stop = min(first + block, p)
        state = empty_columns(stop - first, weighted, moments_only=True)
        XT, weight = np.empty((stop - first, 0)), np.empty(0) if weighted else None
        if joined is not None:
            X, weight, rows = joined
            XT = _columns(X, first, stop)
            add_columns(state, Chunk(XT.T, weight=weight, rows=rows))
        yield first, stop, state, sorted_distributions(XT, weight, state)


def sorted_distributions(
    XT: np.ndarray, weight: np.ndarray | None, moments: State
) -> Distributions:
    """The distributions of the columns `XT` (p, m); rows of weight 0 are absent."""
    V: np.ndarray = XT + 0.0  # -0.0 becomes 0.0
    if weight is None:
        V.sort(axis=1)
    else:
        V[:, weight == 0.0] = np.nan
        order = np.argsort(V, axis=1, kind="stable")
        V = np.take_along_axis(V, order, axis=1)
    at, lengths = np.empty((2, V.size), np.intp)
    ends = np.zeros(len(V) + 1, np.intp)
    runs_of_columns(V, at, lengths, ends)
    values, lengths = V.ravel()[at[: ends[-1]]].astype(np.float64), lengths[: ends[-1]]
    counts = lengths if weight is None else _sums(weight[order][np.isfinite(V)], lengths)
    distinct = np.diff(ends)
    few = distinct <= MAX_VALUES
    known, binned = np.repeat(few, distinct), np.zeros(len(values), bool)
    levels, bin_ends = levels_of(moments, few), np.zeros(len(V) + 1, np.intp)
    numbers, lengths = np.empty(len(values), np.uint16), np.empty(len(values), np.intp)
    low, high = moments["low"], moments["high"]
    bins_of_columns(values, ends, few, levels, low, high, binned, numbers, lengths, bin_ends)
    return Distributions(
        few,
        values[known],
        counts[known],
        ends_of(np.where(few, distinct, 0)),
        numbers[: bin_ends[-1]].copy(),
        _sums(counts[binned], lengths[: bin_ends[-1]]),
        bin_ends,
        levels.astype(np.uint8),
    )


def levels_of(moments: State, few: np.ndarray) -> np.ndarray:
    """(p,) int64 levels of the bins of columns of these moments; 0 of those of few values."""
    levels = np.zeros(len(few), np.int64)
    raise_levels(levels, *(moments[name] for name in ("low", "below", "above", "high")))
    return np.where(few, 0, levels)


def _sums(counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The sums of the runs of counts of these lengths."""
    at = ends_of(lengths)
    if counts.dtype.kind == "i":  # differences of sums are exact, and quicker
        sums = ends_of(counts)[at]
        return sums[1:] - sums[:-1]
    return np.add.reduceat(counts, at[:-1]) if len(at) > 1 else counts[:0]


def _joined(parts: list[Part]) -> tuple[np.ndarray, np.ndarray | None, np.ndarray] | None:
    if not parts:
        return None
    weight = [part["weight"] for part in parts if part["weight"] is not None]
    rows = np.concatenate([part["rows"] for part in parts])
    X = np.concatenate([part["X"] for part in parts])
    return X, np.concatenate(weight) if weight else None, rows


def _columns(X: np.ndarray, first: int, stop: int) -> np.ndarray:
    """(stop - first, m) values of some columns, a column after the other."""
    own = X[:, first:stop].T
    return np.ascontiguousarray(own, np.float32 if own.dtype == np.uint8 else own.dtype)
