"""Histograms of distributions that are known in pieces."""

from __future__ import annotations

import numpy as np

from ...numeric.jit import kernel


@kernel
def bars_of_columns(pieces, edges, bars, at, share, n_at):
    """Fill in the shares of every column's rows, in place.

    `bars` (p, m) gets the shares between `edges` (p, m + 1): a piece is spread evenly over its
    width, one without width lies in the bar it falls in.  Values that have a mass of their own go
    to `at` and `share` (of the pieces' length), from where the column's pieces begin on; n_at (p,)
    is how many, -1 if some mass is spread.  Pieces ascend; those at +inf, the missing, only count
    in the total.
    """
    m = bars.shape[1]
    for d in range(len(n_at)):
        total, n, spread, first = 0.0, 0, False, 0
        begin, end = pieces.ends[d], pieces.ends[d + 1]
        for i in range(begin, end):
            total += pieces.mass[i]
        for i in range(begin, end):
            lo, hi, part = pieces.lo[i], pieces.hi[i], pieces.mass[i]
            if part <= 0.0 or lo == np.inf:
                continue
            part /= total
            at[begin + n], share[begin + n] = lo, part
            n += 1
            while first + 1 < m and edges[d, first + 1] <= lo:
                first += 1
            if lo == hi:
                if edges[d, 0] <= lo <= edges[d, m]:
                    bars[d, first] += part
                continue
            # by two indices: a row's view, made for each piece, takes longer than the piece
            spread, k = True, first
            while k < m and edges[d, k] < hi:
                inside = min(hi, edges[d, k + 1]) - max(lo, edges[d, k])
                bars[d, k] += part * max(inside, 0.0) / (hi - lo)
                k += 1
        n_at[d] = -1 if spread else n
