"""From counts over bins to distributions in pieces, many columns a call."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....numeric.jit import kernel
from .kernels_bins import HALF, edges_of


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
    levels: np.ndarray
    """int64, of the bins."""


@kernel
def write_pieces(counts, pieces):
    """Write the pieces of each column's distribution, which ascend, in place; see `ColumnFacts`."""
    few, count, missing, zeros, low, high = counts[:6]
    values, value_counts, value_ends, bins, bin_counts, bin_ends, levels = counts[6:]
    lo, hi, mass, ends = pieces
    for d in range(len(few)):
        at = ends[d]
        if count[d] > 0 and few[d]:
            for i in range(value_ends[d], value_ends[d + 1]):
                lo[at], hi[at], mass[at] = values[i], values[i], value_counts[i]
                at += 1
        elif count[d] > 0:
            first, last, zero = bin_ends[d], bin_ends[d + 1], zeros[d] > 0
            for i in range(first, last):
                if zero and bins[i] >= HALF:
                    lo[at], hi[at], mass[at] = 0.0, 0.0, zeros[d]
                    at += 1
                    zero = False
                lower, upper = edges_of(bins[i], levels[d], low[d], high[d])
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
