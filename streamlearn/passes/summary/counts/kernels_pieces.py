"""From counts over bins to distributions in pieces, many columns a call."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....numeric.jit import kernel
from .kernels import SPILL
from .kernels_table import BIN_SHIFT, LARGEST, ZERO_BIN

INFINITE_KEY = 0x7F800000
"""Integer key of +inf, and with the other sign of -inf."""


@kernel
def count_occupied(rows, bins, n):
    """Write to n[i] how many bins of row rows[i] are not empty; none of row -1."""
    for i in range(len(rows)):
        found = 0
        if rows[i] >= 0:
            row = bins[rows[i]]
            for b in range(SPILL):
                found += row[b] != 0
        n[i] = found


@kernel
def collect_occupied(rows, bins, ends, numbers, counts):
    """Write the numbers and counts of the bins that `count_occupied` counted, in place."""
    for i in range(len(rows)):
        at, end = ends[i], ends[i + 1]
        if at == end:
            continue
        row = bins[rows[i]]
        for b in range(SPILL):
            if row[b] != 0:
                numbers[at] = b
                counts[at] = row[b]
                at += 1
                if at == end:
                    break


@kernel
def edge_of_bin(b, cell, cell_bits):
    """Smallest float32 of a bin, as float64; values past float32's range are cut to it.

    `cell` is a float32, `cell_bits` its view.
    """
    key = (np.int64(b) - ZERO_BIN) << np.int64(BIN_SHIFT)
    key = min(max(key, np.int64(-INFINITE_KEY)), np.int64(INFINITE_KEY))
    cell_bits[0] = np.int32(key ^ 0x7FFFFFFF if key < 0 else key)
    return min(max(np.float64(cell[0]), -LARGEST), LARGEST)


class Counts(NamedTuple):
    """Facts of columns, as in `ColumnFacts`: float64 but for what says bool or integer."""

    few: np.ndarray
    """Bool."""
    finite: np.ndarray
    missing: np.ndarray
    zeros: np.ndarray
    low: np.ndarray
    high: np.ndarray
    values: np.ndarray
    value_counts: np.ndarray
    value_ends: np.ndarray
    """intp, like `bin_ends`."""
    bins: np.ndarray
    """int64."""
    bin_counts: np.ndarray
    bin_ends: np.ndarray


@kernel
def write_pieces(counts, pieces):
    """Write the pieces of each column's distribution, which ascend, in place; see `ColumnFacts`."""
    few, count, missing, zeros, low, high = counts[:6]
    values, value_counts, value_ends, bins, bin_counts, bin_ends = counts[6:]
    lo, hi, mass, ends = pieces
    cell = np.empty(1, np.float32)
    cell_bits = cell.view(np.int32)
    for d in range(len(few)):
        at = ends[d]
        if count[d] > 0 and few[d]:
            for i in range(value_ends[d], value_ends[d + 1]):
                lo[at], hi[at], mass[at] = values[i], values[i], value_counts[i]
                at += 1
        elif count[d] > 0:
            first, last, zero = bin_ends[d], bin_ends[d + 1], zeros[d] > 0
            for i in range(first, last):
                if zero and bins[i] >= ZERO_BIN:
                    lo[at], hi[at], mass[at] = 0.0, 0.0, zeros[d]
                    at += 1
                    zero = False
                lower = edge_of_bin(bins[i], cell, cell_bits)
                upper = edge_of_bin(bins[i] + 1, cell, cell_bits)
                lo[at] = min(max(lower, low[d]), high[d])
                hi[at] = min(max(upper, low[d]), high[d])
                # the extremes may lie past float32's range; unless they are zeros they end the
                # outer bins
                if i == first and low[d] != 0.0:
                    lo[at] = low[d]
                if i == last - 1 and high[d] != 0.0:
                    hi[at] = high[d]
                mass[at] = bin_counts[i]
                at += 1
            if zero:
                lo[at], hi[at], mass[at] = 0.0, 0.0, zeros[d]
                at += 1
        if missing[d] > 0:
            lo[at], hi[at], mass[at] = np.inf, np.inf, missing[d]
