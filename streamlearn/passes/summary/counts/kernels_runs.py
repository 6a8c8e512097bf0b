"""Sorted runs of (column, value, count): the compiled inside of the summary of sparse rows."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....numeric.jit import kernel
from .kernels_bins import cut_value
from .kernels_table import MAX_VALUES

MAGNITUDE = np.int32(0x7FFFFFFF)
LOWEST = np.int64(-(1 << 31))


class Runs(NamedTuple):
    """Different values of columns, in the order of columns and then of values."""

    columns: np.ndarray
    """(n,) int32."""
    values: np.ndarray
    """(n,) float64: finite and not zero, or the edge of a bin next to zero."""
    counts: np.ndarray
    """(n,) int64 rows, or float64 weight."""


def ordered(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(n,) int64 that sort as (column, float32 value) do, NaN apart."""
    bits = values.view(np.int32)
    bits = bits ^ ((bits >> np.int32(31)) & MAGNITUDE)
    return (columns.astype(np.int64) << 32) | (bits.astype(np.int64) - LOWEST)


def unordered(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns and values that `ordered` made `keys` of."""
    bits = ((keys & 0xFFFFFFFF) + LOWEST).astype(np.int32)
    bits = bits ^ ((bits >> np.int32(31)) & MAGNITUDE)
    return (keys >> 32).astype(np.int32), bits.view(np.float32)


@kernel
def merge_runs(a, b, levels, out, binned):
    """The values of `a` and of `b` into `out`, equal ones once; how many there are.

    `binned`, (p,) the columns that are in bins in `a` or in `b`, gains those that have more than
    `MAX_VALUES` values now; `levels` (p,) are those of their bins.
    """
    i = k = n = 0
    while i < len(a.columns) or k < len(b.columns):
        if k == len(b.columns) or (i < len(a.columns) and a.columns[i] <= b.columns[k]):
            j = a.columns[i]
        else:
            j = b.columns[k]
        first, bins = n, binned[j]
        while True:
            left = i < len(a.columns) and a.columns[i] == j
            right = k < len(b.columns) and b.columns[k] == j
            if not left and not right:
                break
            x, y = np.inf, np.inf
            if left:
                x = cut_value(a.values[i], levels[j]) if bins else a.values[i]
            if right:
                y = cut_value(b.values[k], levels[j]) if bins else b.values[k]
            if x <= y:
                value, count = x, a.counts[i]
                i += 1
            else:
                value, count = y, b.counts[k]
                k += 1
            if n > first and out.values[n - 1] == value:
                out.counts[n - 1] += count
            else:
                out.columns[n], out.values[n], out.counts[n] = j, value, count
                n += 1
        if not bins and n - first > MAX_VALUES:
            binned[j] = True
            n = bin_run(out, first, n, levels[j])
    return n


@kernel
def bin_run(out, first, stop, level):
    """Put entries [first, stop), the values of one column, into bins, in place; where they end.

    A bin is its edge next to zero.  Zero is in no bin: it is counted apart.
    """
    n = first
    for i in range(first, stop):
        if out.values[i] == 0.0:
            continue
        where = cut_value(out.values[i], level)
        if n > first and out.values[n - 1] == where:
            out.counts[n - 1] += out.counts[i]
        else:
            out.columns[n], out.values[n], out.counts[n] = out.columns[i], where, out.counts[i]
            n += 1
    return n
