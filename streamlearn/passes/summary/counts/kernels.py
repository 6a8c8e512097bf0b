"""Counting the values of columns: the compiled inside of the summary pass.

A column starts with a table of its distinct values (open addressing, `SLOTS` slots).  Once it has
more than `MAX_VALUES` of them it leaves the table for good and is counted in bins.  So a value
costs one table access or one bin access, never both, and few-valued columns hold no bins at all.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....numeric.jit import kernel
from .kernels_bins import BIAS, HALF, LEAST, MOST, N_BINS, SHORT, widen
from .kernels_moments import merge_tile, tile_moments, weight_of_zeros
from .kernels_table import MANY, slot_of

TILE = 2048


class Columns(NamedTuple):
    """Running facts of p columns; counts are float64 and exact up to 2^53 rows."""

    weight: np.ndarray
    """(p,) weight of the finite values; with `mean` and `scatter` as in `kernels_moments`."""
    mean: np.ndarray
    scatter: np.ndarray
    low: np.ndarray
    high: np.ndarray
    below: np.ndarray
    """(p,) greatest negative value, -inf if there is none."""
    above: np.ndarray
    """(p,) least positive value, +inf if there is none."""
    missing: np.ndarray
    infinite: np.ndarray
    zeros: np.ndarray
    bad: np.ndarray
    """(p,) int64, position in the chunk of the first NaN or infinity; -1 = none."""
    distinct: np.ndarray
    """(p,) int64, values in the table, or `MANY`."""
    keys: np.ndarray
    """(p, SLOTS) float64, NaN where a slot is free."""
    key_counts: np.ndarray
    """(p, SLOTS) int64; the same memory as `key_weights`, which of the two the data decide."""
    key_weights: np.ndarray
    """(p, SLOTS) float64."""
    bin_of: np.ndarray
    """(p,) intp, the row of `bins` of a column that has left its table."""
    bins: np.ndarray
    """(q, ROW) int64 as `kernels_bins` has them, shares its memory with `bin_weights` likewise."""
    bin_weights: np.ndarray
    """(q, ROW) float64."""
    level: np.ndarray
    """(p,) int64, the level of the bins of a column that has left its table."""


class Stack(NamedTuple):
    """Columns of values one after the other; dense ones share one weight vector."""

    values: np.ndarray
    bits: np.ndarray
    """The same memory as integers."""
    offsets: np.ndarray
    """(p + 1,) column j holds values[offsets[j]:offsets[j+1]]."""
    weight: np.ndarray
    """float64, empty = all 1; those of column j begin at weight_offsets[j]."""
    weight_offsets: np.ndarray


class Limits(NamedTuple):
    """Bit patterns that bound a float type, as integers of its size."""

    magnitude: np.integer
    """All bits but the sign."""
    shift: np.integer
    """Moves the sign to the lowest place."""
    infinity: np.integer
    least: np.integer
    """Least and largest magnitude of what is not zero, as `kernels_bins` cuts them."""
    most: np.integer
    short: int
    """Bits that a magnitude lacks beside a float64's, and"""
    bias: int
    """what is added to it then to be one."""


class Scratch(NamedTuple):
    """Work space of one tile; arrays that share memory are views of one another."""

    values: np.ndarray
    bits: np.ndarray
    weight: np.ndarray
    where: np.ndarray
    cell: np.ndarray
    cell_bits: np.ndarray


def make_limits(dtype: np.dtype) -> Limits:
    """The `Limits` of float32 or float64."""
    integer = integers_of(dtype)
    infinity = np.array([np.inf], dtype).view(integer)[0]
    magnitude = integer.type(np.iinfo(integer).max)
    short, bias = (SHORT, BIAS) if integer.itemsize == 4 else (0, 0)
    least, most = (integer.type((int(end) - bias) >> short) for end in (LEAST, MOST))
    shift = integer.type(8 * integer.itemsize - 1)
    return Limits(magnitude, shift, infinity, least, most, short, bias)


def make_scratch(dtype: np.dtype) -> Scratch:
    """Work space for tiles of `dtype` (float32 or float64): 50 kB at most."""
    values = np.empty(TILE, dtype)
    cell = np.empty(1, dtype)
    return Scratch(
        values,
        values.view(integers_of(dtype)),
        np.empty(TILE),
        np.empty(TILE, np.uint16),
        cell,
        cell.view(integers_of(dtype)),
    )


def integers_of(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.int32 if np.dtype(dtype).itemsize == 4 else np.int64)


@kernel
def scan_bits(bits, magnitude, shift):
    """(largest and least |bits| but 0, smallest key, largest key, zeros) of a tile; integers only.

    The key of a float, its bits with the magnitude flipped when negative, sorts as the floats do.
    """
    integer = bits.dtype.type  # numba would widen to int64 and halve the vectors
    top, low, high, zeros = integer(0), integer(magnitude), integer(~magnitude), integer(0)
    near = low
    for i in range(len(bits)):
        b = bits[i]
        a = integer(b & magnitude)
        key = integer(b ^ ((b >> shift) & magnitude))
        top = max(top, a)
        near = min(near, integer(magnitude) if a == integer(0) else a)
        low = min(low, key)
        high = max(high, key)
        zeros += integer(a == 0)
    return top, near, low, high, zeros


@kernel
def scan_nearest(bits, magnitude):
    """(largest negative, least positive) bits without the sign of a tile that has both signs."""
    integer = bits.dtype.type
    below, above = integer(magnitude), integer(magnitude)
    for i in range(len(bits)):
        b = bits[i]
        a = integer(b & magnitude)
        a = integer(magnitude) if a == integer(0) else a
        below = min(below, a if b < integer(0) else integer(magnitude))
        above = min(above, integer(magnitude) if b < integer(0) else a)
    return below, above


@kernel
def find_bins(bits, near, top, zeros, level, limits, where):
    """Write the places of the values of a tile in their column's bins to `where`.

    `near`, `top` and `zeros` as `scan_bits` has them.
    """
    integer = bits.dtype.type
    up = integer(max(limits.short - level, 0))
    down = integer(max(level - limits.short, 0))
    offset, ring = integer((limits.bias >> level) & (HALF - 1)), integer(HALF - 1)
    if zeros == 0 and up == 0 and near >= limits.least and top <= limits.most:  # nearly always
        for i in range(len(bits)):
            b = bits[i]
            place = integer(integer(integer(b & limits.magnitude) >> down) + offset) & ring
            where[i] = np.uint16(place + (integer(HALF) if b >= integer(0) else integer(0)))
        return
    for i in range(len(bits)):
        b = bits[i]
        a = integer(b & limits.magnitude)
        near = integer(min(max(a, limits.least), limits.most) << up)
        place = integer(integer(near >> down) + offset) & ring
        place = integer(place + (integer(HALF) if b >= integer(0) else integer(0)))
        if a == 0:
            # many zeros in one place would wait for one another; they are counted elsewhere
            place = integer(N_BINS) + integer(i & 7)
        where[i] = np.uint16(place)


@kernel
def value_of(bits, scratch):
    """The float of these bits, as float64."""
    scratch.cell_bits[0] = bits
    return np.float64(scratch.cell[0]) + 0.0


@kernel
def note_range(columns, j, bits, near, keys, weighted, scratch, limits):
    """Widen the range of column j by that of a tile, in place; `near` and `keys` of `scan_bits`."""
    first, last = keys
    low = value_of(first ^ ((first >> limits.shift) & limits.magnitude), scratch)
    high = value_of(last ^ ((last >> limits.shift) & limits.magnitude), scratch)
    nearest = value_of(near, scratch)
    below = -nearest if low < 0.0 else -np.inf
    above = nearest if high > 0.0 else np.inf
    if low < 0.0 < high and (below > columns.below[j] or above < columns.above[j]):
        under, over = scan_nearest(bits, limits.magnitude)
        below, above = -value_of(under, scratch), value_of(over, scratch)
    widen(columns, j, low, below, above, high, weighted)


@kernel
def weigh_special(values, weight, j, columns):
    """Count NaN and infinite values of a tile, in place; the first one's position or -1."""
    first = -1
    for i in range(len(values)):
        w = weight[i] if len(weight) else 1.0
        value = values[i]
        if np.isfinite(value) or w == 0.0:
            continue
        if first < 0:
            first = i
        if value != value:
            columns.missing[j] += w
        else:
            columns.infinite[j] += w
    return first


@kernel
def compact(values, weight, scratch):
    """Copy the finite values of positive weight to the scratch tile; how many there are."""
    n = 0
    for i in range(len(values)):
        w = weight[i] if len(weight) else 1.0
        if np.isfinite(values[i]) and w > 0.0:
            scratch.values[n] = values[i]
            scratch.weight[n] = w
            n += 1
    return n


@kernel
def absorb_finite(columns, j, values, bits, weight, counted, scratch, limits):
    """Add one tile of finite values of positive weight to column j, in place.

    Adds it to the column's bins too if `counted`.  Adds nothing and returns False if there is a NaN
    or an infinity in it.
    """
    top, near, first, last, zeros = scan_bits(bits, limits.magnitude, limits.shift)
    if top >= limits.infinity:
        return False
    note_range(columns, j, bits, near, (first, last), len(weight) > 0, scratch, limits)
    total, mean, scatter = tile_moments(values, weight)
    columns.weight[j], columns.mean[j], columns.scatter[j] = merge_tile(
        columns.weight[j], columns.mean[j], columns.scatter[j], total, mean, scatter
    )
    if len(weight) == 0:
        columns.zeros[j] += zeros
    elif zeros:
        columns.zeros[j] += weight_of_zeros(values, weight)
    if counted:
        find_bins(bits, near, top, zeros, columns.level[j], limits, scratch.where)
        row = columns.bin_of[j]
        if len(weight):
            for i in range(len(values)):
                columns.bin_weights[row, scratch.where[i]] += weight[i]
        else:
            for i in range(len(values)):
                columns.bins[row, scratch.where[i]] += 1
    return True


@kernel
def all_positive(weight):
    positive = True
    for k in range(len(weight)):
        positive &= weight[k] > 0.0
    return positive


@kernel
def absorb(columns, stack, starts, scratch, limits):
    """Add columns of values to everything but the tables, in place.

    Column j is counted in bins from position starts[j] on, where it left its table.
    """
    none = stack.weight[:0]
    for j in range(len(starts)):
        begin = stack.offsets[j]
        size = stack.offsets[j + 1] - begin
        columns.bad[j] = -1
        i = 0
        while i < size:
            stop = min(i + TILE, size)
            if i < starts[j] < stop:
                stop = starts[j]
            counted = i >= starts[j]
            values = stack.values[begin + i : begin + stop]
            bits = stack.bits[begin + i : begin + stop]
            weight = none
            if len(stack.weight):
                first = stack.weight_offsets[j]
                weight = stack.weight[first + i : first + stop]
            if not (
                all_positive(weight)
                and absorb_finite(columns, j, values, bits, weight, counted, scratch, limits)
            ):
                special = weigh_special(values, weight, j, columns)
                if special >= 0 and columns.bad[j] < 0:
                    columns.bad[j] = i + special
                n = compact(values, weight, scratch)
                if n:
                    kept = scratch.weight[:n] if len(weight) else none
                    values, bits = scratch.values[:n], scratch.bits[:n]
                    absorb_finite(columns, j, values, bits, kept, counted, scratch, limits)
            i = stop


@kernel
def transpose_rows(X, first, stop, out):
    """Write X[first:stop].T to `out`: 64 columns by 4 rows at a time, each line fetched once."""
    p = X.shape[1]
    quads = first + (stop - first) // 4 * 4
    for j in range(0, p, 64):
        end = min(j + 64, p)
        for i in range(first, quads, 4):
            k = i - first
            for c in range(j, end):
                out[c, k] = X[i, c]
                out[c, k + 1] = X[i + 1, c]
                out[c, k + 2] = X[i + 2, c]
                out[c, k + 3] = X[i + 3, c]
        for i in range(quads, stop):
            for c in range(j, end):
                out[c, i - first] = X[i, c]


@kernel
def column_order(indices, starts, order):
    """The stable order of CSR entries by column; `starts` (p,) is advanced to the columns' ends."""
    for k in range(len(indices)):
        j = indices[k]
        order[starts[j]] = k
        starts[j] += 1


@kernel
def absorb_zeros(columns, weight, weighted):
    """Add weight[j] implicit zeros to column j, in place; zeros are in no bin."""
    for j in range(len(weight)):
        w = weight[j]
        if w == 0.0:
            continue
        columns.weight[j], columns.mean[j], columns.scatter[j] = merge_tile(
            columns.weight[j], columns.mean[j], columns.scatter[j], w, 0.0, 0.0
        )
        columns.zeros[j] += w
        columns.low[j] = min(columns.low[j], 0.0)
        columns.high[j] = max(columns.high[j], 0.0)
        if columns.distinct[j] == MANY:
            continue
        slot = slot_of(columns.keys[j], 0.0)
        if columns.keys[j, slot] != 0.0:
            columns.distinct[j] += 1
            if columns.distinct[j] == MANY:
                continue
            columns.keys[j, slot] = 0.0
        if weighted:
            columns.key_weights[j, slot] += w
        else:
            columns.key_counts[j, slot] += np.int64(w)
