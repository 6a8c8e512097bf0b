"""Bins of columns: values of one sign whose leading bits agree, as many bits as there is room for.

A float64 without its sign, read as an integer (its magnitude), sorts as the numbers do.  In a bin
of level s the magnitudes agree but for their last s bits.  A column's level is the least at which
neither sign has more than `MOST_BINS` bins from its value next to zero to the one farthest from it,
and at most `COARSEST`, where a bin is 1/32 of its values wide.  As rows come ranges grow, levels
rise with them, and bins join: level and counts depend on the set of the rows alone, not on their
order.

A column's bins are two rings of `HALF` counts, of the negative values and of the positive ones: the
bin of a magnitude is at the last bits of its number, and a range is never longer than its ring.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ....numeric.jit import kernel

N_BINS = 1 << 14
HALF = N_BINS // 2
ROW = N_BINS + 8
"""Counts of a column: behind its bins are places for zeros, which no bin has: they are counted
apart."""
MOST_BINS = 2048
COARSEST = 47
SHARED = np.int64((1 << 63) - 1)
"""All bits of a float64 but the sign."""
BIAS = 896 << 52
"""Magnitude of a float32 as a float64, less that as a float32 moved up by `SHORT` bits."""
SHORT = 29
LEAST, MOST = np.int64(BIAS + (((1 << 23) - 1) << SHORT)), np.int64((1151 << 52) - 1)
"""Magnitudes are cut to these, the range of float32, so that the coarsest bins are `HALF`."""


@kernel
def magnitude_of(value):
    """The magnitude of a finite float64 but zero."""
    return min(max(np.float64(value).view(np.int64) & SHARED, LEAST), MOST)


@kernel
def level_of(level, low, below, above, high):
    """The level of a column from `low` to `high`, next to zero from `below` to `above`.

    At least `level`, that of a part of its rows.
    """
    first, last, least, most = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if low < 0.0:
        first, last = magnitude_of(below), magnitude_of(low)
    if high > 0.0:
        least, most = magnitude_of(above), magnitude_of(high)
    while level < COARSEST and (
        (last >> level) - (first >> level) >= MOST_BINS
        or (most >> level) - (least >> level) >= MOST_BINS
    ):
        level += 1
    return level


@kernel
def raise_levels(levels, low, below, above, high):
    """Raise the levels of columns to those of their ranges, in place."""
    for j in range(len(levels)):
        levels[j] = level_of(levels[j], low[j], below[j], above[j], high[j])


@kernel
def ring_place(value, level):
    """Place of a value's bin in its column's rings."""
    place = (magnitude_of(value) >> level) & np.int64(HALF - 1)
    return place + HALF if value > 0.0 else place


@kernel
def cut_value(value, level):
    """The edge next to zero of the bin of a value."""
    edge = np.int64(magnitude_of(value) >> level << level)
    return edge.view(np.float64) if value > 0.0 else -edge.view(np.float64)


@kernel
def bin_number(value, level, low, high):
    """Number of the bin of a value that is not zero, in a column from `low` to `high`.

    Numbers ascend as the values do: those of the negative values from 0, the bin of `low`, and
    those of the positive ones to `N_BINS` - 1, the bin of `high`.
    """
    end = high if value > 0.0 else low
    inside = (magnitude_of(end) >> level) - (magnitude_of(value) >> level)
    return N_BINS - 1 - inside if value > 0.0 else inside


@kernel
def place_values(values, ends, levels, low, high, places):
    """Write the numbers of the bins of columns of values, none of them zero, in place."""
    for j in range(len(levels)):
        for i in range(ends[j], ends[j + 1]):
            places[i] = bin_number(values[i], levels[j], low[j], high[j])


@kernel
def edge_of(magnitude):
    """The value of a magnitude; what is cut to the least lies anywhere from 0 on."""
    if magnitude <= LEAST:
        return 0.0
    return np.int64(magnitude).view(np.float64)


@kernel
def edges_of(number, level, low, high):
    """Least and greatest value of the bin of this number of a column from `low` to `high`."""
    if number >= HALF:
        at = (magnitude_of(high) >> level) - (N_BINS - 1 - number)
        return edge_of(at << level), edge_of((at + 1) << level)
    at = (magnitude_of(low) >> level) - number
    return -edge_of((at + 1) << level), -edge_of(at << level)


@kernel
def join_ring(ring, first, last, level, higher):
    """Join the bins of a ring, of the magnitudes from `first` to `last`, to those of `higher`."""
    first, last = first >> level, last >> level
    held = np.empty(last - first + 1, ring.dtype)
    for i in range(len(held)):
        at = (first + i) & (HALF - 1)
        held[i] = ring[at]
        ring[at] = 0
    for i in range(len(held)):
        ring[((first + i) >> (higher - level)) & (HALF - 1)] += held[i]


@kernel
def join_bins(columns, bins, j, level):
    """Join the bins of column j, of its range so far, to those of a higher level, in place."""
    row, before = bins[columns.bin_of[j]], columns.level[j]
    if columns.low[j] < 0.0:
        first, last = magnitude_of(columns.below[j]), magnitude_of(columns.low[j])
        join_ring(row[:HALF], first, last, before, level)
    if columns.high[j] > 0.0:
        first, last = magnitude_of(columns.above[j]), magnitude_of(columns.high[j])
        join_ring(row[HALF:N_BINS], first, last, before, level)


@kernel
def widen(columns, j, low, below, above, high, weighted):
    """Widen the range of column j by that of other values, in place; its bins join as they must."""
    low, high = min(low, columns.low[j]), max(high, columns.high[j])
    below, above = max(below, columns.below[j]), min(above, columns.above[j])
    if columns.bin_of[j] >= 0:
        level = level_of(columns.level[j], low, below, above, high)
        if level > columns.level[j]:
            if weighted:
                join_bins(columns, columns.bin_weights, j, level)
            else:
                join_bins(columns, columns.bins, j, level)
            columns.level[j] = level
    columns.low[j], columns.high[j] = low, high
    columns.below[j], columns.above[j] = below, above


@kernel
def widen_columns(columns, other, weighted):
    """Widen the ranges of columns by those of other columns, in place."""
    for j in range(len(columns.low)):
        widen(columns, j, other.low[j], other.below[j], other.above[j], other.high[j], weighted)


@kernel
def add_ring(ring, level, other, other_level, first, last):
    """Add the bins of a ring, from one magnitude to another, to a ring of no lower level."""
    for number in range(first >> other_level, (last >> other_level) + 1):
        at = (number >> (level - other_level)) & (HALF - 1)
        ring[at] += other[number & (HALF - 1)]


@kernel
def add_bins(columns, bins, j, other, other_bins):
    """Add the bins of column j of `other` to its bins, in place."""
    row, others = bins[columns.bin_of[j]], other_bins[other.bin_of[j]]
    level, other_level = columns.level[j], other.level[j]
    if other.low[j] < 0.0:
        first, last = magnitude_of(other.below[j]), magnitude_of(other.low[j])
        add_ring(row[:HALF], level, others[:HALF], other_level, first, last)
    if other.high[j] > 0.0:
        first, last = magnitude_of(other.above[j]), magnitude_of(other.high[j])
        add_ring(row[HALF:N_BINS], level, others[HALF:N_BINS], other_level, first, last)


@kernel
def occupied(columns, which, bins, ends, numbers, counts):
    """Write the numbers and counts of the bins that are not empty, in place.

    Of the columns `which` is True for.  Those of column j go to places from ends[j] on; ends[j + 1]
    is written.
    """
    n = 0
    for j in range(len(which)):
        if which[j]:
            row, level = bins[columns.bin_of[j]], columns.level[j]
            if columns.low[j] < 0.0:
                top = magnitude_of(columns.low[j]) >> level
                for k in range(top - (magnitude_of(columns.below[j]) >> level) + 1):
                    count = row[(top - k) & (HALF - 1)]
                    if count != 0:
                        numbers[n], counts[n] = k, count
                        n += 1
            if columns.high[j] > 0.0:
                top = magnitude_of(columns.high[j]) >> level
                for k in range(top - (magnitude_of(columns.above[j]) >> level), -1, -1):
                    count = row[HALF + ((top - k) & (HALF - 1))]
                    if count != 0:
                        numbers[n], counts[n] = N_BINS - 1 - k, count
                        n += 1
        ends[j + 1] = n
