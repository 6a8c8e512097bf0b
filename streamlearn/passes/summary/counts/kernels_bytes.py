"""Stored values of sparse columns that are whole numbers from 0 to 255, counted as such.

A count of each is all that a summary needs: one access a value, where tables need an order by
columns first.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import overload

from ....numeric.jit import kernel
from .kernels_table import slot_of

BYTES = 256


def as_byte(x):
    """x as an integer if it is one of 0 to 255, else -1."""
    byte = np.int32(x) if 0 <= x < BYTES else np.int32(-1)
    return byte if byte == x else np.int32(-1)


@overload(as_byte)
def _as_byte(x):
    if x == types.uint8:  # each is one: no question is left in the compiled code
        return lambda x: np.int32(x)

    def find(x):
        byte = np.int32(x) if 0 <= x < BYTES else np.int32(-1)
        return byte if byte == x else np.int32(-1)

    return find


@kernel
def count_bytes(values, indices, counts):
    """Count bytes of columns in `counts` (p, 256) in place; if some are none, count nothing.

    Returns whether all are bytes.  At most 2**31 values.
    """
    own = np.zeros(counts.shape, np.int32)  # half the size stays in the cache
    for i in range(len(values)):
        x = as_byte(values[i])
        if x < 0:
            return False
        own[np.uintp(indices[i]), np.uintp(x)] += 1
    for j in range(len(counts)):
        for x in range(BYTES):
            counts[j, x] += own[j, x]
    return True


@kernel
def pour_bytes(columns, counts, n_rows, hashed):
    """Add the counts of n_rows sparse rows to empty columns in place; absent values are 0.

    `hashed`: values go where tables that take more values have them; else one after the other.
    """
    for j in range(len(counts)):
        stored, total, distinct = 0, 0.0, 0
        for v in range(BYTES):
            stored += counts[j, v]
            total += np.float64(v) * counts[j, v]
        mean = total / n_rows
        scatter, low, high = 0.0, np.inf, -np.inf
        for v in range(BYTES):
            n = counts[j, v] + (n_rows - stored if v == 0 else 0)
            if n == 0:
                continue
            value = np.float64(v)
            scatter += n * (value - mean) ** 2
            low, high = min(low, value), max(high, value)
            if v > 0:
                columns.above[j] = min(columns.above[j], value)
            slot = slot_of(columns.keys[j], value) if hashed else np.uint64(distinct)
            columns.keys[j, slot] = value
            columns.key_counts[j, slot] = n
            distinct += 1
            if v == 0:
                columns.zeros[j] = n
        columns.weight[j], columns.mean[j], columns.scatter[j] = n_rows, mean, scatter
        columns.low[j], columns.high[j], columns.distinct[j] = low, high, distinct
