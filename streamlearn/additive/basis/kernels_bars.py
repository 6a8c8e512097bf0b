"""Histograms of distributions that are known in pieces."""

from __future__ import annotations

import numpy as np

from ...numeric.jit import kernel


@kernel
def bars_of_columns(pieces, edges, bars, at, share, n_at):
    """Fill in the shares of every column's rows, in place.

    `bars` (p, m) gets the shares between `edges` (p, m + 1).  Values that have a mass of their own
    go to `at` and `share` (of the pieces' length), from where the column's pieces begin on; n_at
    (p,) is how many, -1 if some mass is spread.  Pieces ascend; those at +inf, the missing, only
    count in the total.
    """
    for d in range(len(n_at)):
        total, n, spread, first = 0.0, 0, False, 0
        begin, end = pieces.ends[d], pieces.ends[d + 1]
        for i in range(begin, end):
            total += pieces.mass[i]
        for i in range(begin, end):
            lo, hi, part = pieces.lo[i], pieces.hi[i], pieces.mass[i]
            if part <= 0.0 or lo == np.inf:
                continue
            at[begin + n], share[begin + n] = lo, part / total
            spread |= lo < hi
            n += 1
            while first + 1 < len(bars[d]) and edges[d, first + 1] <= lo:
                first += 1
            add_to_bars(lo, hi, part / total, edges[d], bars[d], first)
        n_at[d] = -1 if spread else n


@kernel
def add_to_bars(lo, hi, share, edges, bars, first):
    """Add a piece of a distribution to the bars it lies in, from `first` on, in place.

    It is spread evenly over its width; one without width lies in the bar it falls in.
    """
    if lo == hi:
        if edges[0] <= lo <= edges[-1]:
            bars[first] += share
        return
    for k in range(first, len(bars)):
        if edges[k] >= hi:
            break
        part = min(hi, edges[k + 1]) - max(lo, edges[k])
        bars[k] += share * max(part, 0.0) / (hi - lo)
