"""Sorted runs of (column, value, count): the compiled inside of the summary of sparse rows."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ....numeric.jit import kernel
from .kernels_table import MAGNITUDE, MAX_VALUES, bin_of_value

LOWEST = np.int64(-(1 << 31))


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
def merge_runs(a, a_binned, b, b_binned, out, binned):
    """The values of `a` and of `b` into `out`, equal ones once; how many there are.

    `binned`, (p,) the columns that are in bins in `a` or in `b`, gains those that have more than
    `MAX_VALUES` values now.
    """
    cell = np.empty(1, np.float32)
    cell_bits = cell.view(np.int32)
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
                x = a.values[i]
                if bins and not a_binned[j]:
                    x = np.float64(bin_of_value(x, cell, cell_bits))
            if right:
                y = b.values[k]
                if bins and not b_binned[j]:
                    y = np.float64(bin_of_value(y, cell, cell_bits))
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
            n = bin_run(out, first, n, cell, cell_bits)
    return n


@kernel
def bin_run(out, first, stop, cell, cell_bits):
    """Put entries [first, stop), the values of one column, into bins, in place; where they end.

    Zero is in no bin: it is counted apart.
    """
    n = first
    for i in range(first, stop):
        if out.values[i] == 0.0:
            continue
        where = np.float64(bin_of_value(out.values[i], cell, cell_bits))
        if n > first and out.values[n - 1] == where:
            out.counts[n - 1] += out.counts[i]
        else:
            out.columns[n], out.values[n], out.counts[n] = out.columns[i], where, out.counts[i]
            n += 1
    return n
