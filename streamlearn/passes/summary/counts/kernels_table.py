"""Distinct values of columns, counted in open-addressing tables of `SLOTS` slots.

A column leaves its table for good at `MAX_VALUES` + 1 values: then the table is poured into bins.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ....numeric.jit import kernel
from .kernels_bins import add_bins, level_of, ring_place

MAX_VALUES = 256
MANY = MAX_VALUES + 1
SLOTS = 512
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HASH_SHIFT = np.uint64(64 - 9)


@kernel
def first_slot(value):
    """Slot at which the search for a float64 begins; the product wraps around on purpose."""
    return (np.float64(value).view(np.uint64) * GOLDEN) >> HASH_SHIFT


@kernel
def slot_of(keys, value):
    """The slot that holds `value`, or the free slot where it belongs."""
    slot = first_slot(value)
    while keys[slot] != value and keys[slot] == keys[slot]:
        slot = (slot + np.uint64(1)) & np.uint64(SLOTS - 1)
    return slot


@kernel
def tabulate_units(values, keys, key_counts, n):
    """Count values in a table of `n`, in place; (values in it, position where it was full)."""
    for i in range(len(values)):
        value = np.float64(values[i]) + 0.0  # -0.0 becomes 0.0
        slot = first_slot(value)
        if keys[slot] == value:  # nearly always
            key_counts[slot] += 1
            continue
        slot = slot_of(keys, value)
        if keys[slot] != value:
            if not np.isfinite(value):
                continue
            if n == MAX_VALUES:
                return MANY, i
            n += 1
            keys[slot] = value
        key_counts[slot] += 1
    return n, len(values)


@kernel
def tabulate_weights(values, weight, keys, key_weights, n):
    """The same with weights; rows of weight 0 are absent."""
    for i in range(len(values)):
        value = np.float64(values[i]) + 0.0
        slot = slot_of(keys, value)
        if keys[slot] != value:
            if not np.isfinite(value) or weight[i] == 0.0:
                continue
            if n == MAX_VALUES:
                return MANY, i
            n += 1
            keys[slot] = value
        key_weights[slot] += weight[i]
    return n, len(values)


@kernel
def tabulate(columns, stack, stops):
    """Count values in the tables, in place; stops[j] = position where column j left its table."""
    for j in range(len(stops)):
        n = columns.distinct[j]
        first, stop = stack.offsets[j], stack.offsets[j + 1]
        values, keys = stack.values[first:stop], columns.keys[j]
        if n == MANY:
            stops[j] = 0
        elif len(stack.weight):
            begin = stack.weight_offsets[j]
            weight = stack.weight[begin : begin + stop - first]
            n, stops[j] = tabulate_weights(values, weight, keys, columns.key_weights[j], n)
        else:
            n, stops[j] = tabulate_units(values, keys, columns.key_counts[j], n)
        columns.distinct[j] = n


@kernel
def tabulate_table(columns, other, stops, weighted):
    """Add tables to tables, in place; stops[j] = slot at which column j left its table."""
    for j in range(len(stops)):
        n = columns.distinct[j]
        stops[j] = 0
        if n == MANY or other.distinct[j] == MANY:
            columns.distinct[j] = MANY
            continue
        stops[j] = SLOTS
        keys = columns.keys[j]
        for i in range(SLOTS):
            value = other.keys[j, i]
            if value != value:
                continue
            slot = slot_of(keys, value)
            if keys[slot] != value:
                n += 1
                if n == MANY:
                    stops[j] = i
                    break
                keys[slot] = value
            if weighted:
                columns.key_weights[j, slot] += other.key_weights[j, i]
            else:
                columns.key_counts[j, slot] += other.key_counts[j, i]
        columns.distinct[j] = n


@kernel
def pour_table(columns, j, other, first, weighted):
    """Add the table of column j of `other`, from slot `first` on, to its bins, in place."""
    row, level = columns.bin_of[j], columns.level[j]
    for i in range(first, SLOTS):
        value = other.keys[j, i]
        if value != value or value == 0.0:
            continue
        b = ring_place(value, level)
        if weighted:
            columns.bin_weights[row, b] += other.key_weights[j, i]
        else:
            columns.bins[row, b] += other.key_counts[j, i]


@kernel
def span_table(columns, j):
    """Widen the range of column j, which has no bins, by that of its table, in place."""
    low, below, above, high = np.inf, -np.inf, np.inf, -np.inf
    for i in range(SLOTS):
        value = columns.keys[j, i]
        if value != value:
            continue
        low, high = min(low, value), max(high, value)
        if value < 0.0:
            below = max(below, value)
        elif value > 0.0:
            above = min(above, value)
    columns.low[j], columns.high[j] = min(columns.low[j], low), max(columns.high[j], high)
    columns.below[j], columns.above[j] = max(columns.below[j], below), min(columns.above[j], above)


@kernel
def pour_tables(columns, which, weighted):
    """Add the tables of the columns `which` to their bins, which are empty, in place."""
    for k in range(len(which)):
        j = which[k]
        span_table(columns, j)
        columns.level[j] = level_of(
            np.int64(0), columns.low[j], columns.below[j], columns.above[j], columns.high[j]
        )
        pour_table(columns, j, columns, 0, weighted)


@kernel
def merge_bins(columns, other, stops, weighted):
    """Add bins, and of those that have none the tables from slot stops[j] on, to bins, in place."""
    for j in range(len(stops)):
        if columns.distinct[j] != MANY:
            continue
        if other.distinct[j] != MANY:
            pour_table(columns, j, other, stops[j], weighted)
        elif weighted:
            add_bins(columns, columns.bin_weights, j, other, other.bin_weights)
        else:
            add_bins(columns, columns.bins, j, other, other.bins)


GAPS = np.array([132, 57, 23, 10, 4, 1], np.int64)


@kernel
def sort_tables(keys, counts, ends, values, out):
    """Write the (value, count) of the tables, by value, to `values` and `out` in place.

    Those of table j go to ends[j]:ends[j + 1], which is as long as the table is full: 0 = skip it.
    """
    for j in range(len(ends) - 1):
        begin, n = ends[j], ends[j + 1] - ends[j]
        if n == 0:
            continue
        to, sorted_, last = begin, True, -np.inf
        for i in range(SLOTS):
            value = keys[j, i]
            if value == value:
                values[to], out[to] = value, counts[j, i]
                to += 1
                sorted_ &= value >= last
                last = value
            if to == begin + n:
                break
        if sorted_:  # as tables made of counts of bytes are
            continue
        for gap in GAPS:
            for i in range(begin + gap, begin + n):
                value, count, at = values[i], out[i], i
                while at - gap >= begin and values[at - gap] > value:
                    values[at], out[at] = values[at - gap], out[at - gap]
                    at -= gap
                values[at], out[at] = value, count
