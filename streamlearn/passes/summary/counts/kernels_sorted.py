"""Walks along sorted columns: the runs of equal values, and the bins that these fall in."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ....numeric.jit import kernel
from .kernels_bins import bin_number


@kernel
def runs_of_columns(V, places, lengths, ends):
    """Write the first place and the length of every run of equal finite values, in place.

    The columns of V (p, m) ascend, NaN last; places are those of all values in one row.  The runs
    of column j are from ends[j] to ends[j + 1], which is written.
    """
    n = 0
    for j in range(len(V)):
        row, last, begin = V[j], np.inf, j * V.shape[1]
        for i in range(len(row)):
            value = row[i]
            if not abs(value) < np.inf:
                continue
            if value == last:
                lengths[n - 1] += 1
            else:
                places[n], lengths[n] = begin + i, 1
                n, last = n + 1, value
        ends[j + 1] = n


@kernel
def bins_of_columns(values, ends, few, levels, low, high, inside, numbers, lengths, bin_ends):
    """Write the bins of the columns that do not have few values, in place.

    The distinct values of column j ascend from ends[j] to ends[j + 1].  `inside` says which of them
    are in a bin, zeros are not; then come the number of each bin and how many values it has.
    """
    n = 0
    for j in range(len(few)):
        first, level = n, levels[j]
        if not few[j]:
            for i in range(ends[j], ends[j + 1]):
                if values[i] == 0.0:
                    continue
                inside[i], number = True, bin_number(values[i], level, low[j], high[j])
                if n > first and numbers[n - 1] == number:
                    lengths[n - 1] += 1
                else:
                    numbers[n], lengths[n] = number, 1
                    n += 1
        bin_ends[j + 1] = n
