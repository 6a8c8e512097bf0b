"""Histograms of distributions that are known in pieces."""

from __future__ import annotations

from ..numeric.jit import kernel


@kernel
def add_to_bars(lo, hi, share, edges, bars):
    """Add pieces of a distribution to the bars they lie in, in place.

    Each is spread evenly over its width; one without width lies in the bar it falls in.
    """
    first = 0
    for i in range(len(lo)):  # pieces ascend
        while first < len(bars) - 1 and edges[first + 1] <= lo[i]:
            first += 1
        if lo[i] == hi[i]:
            if edges[0] <= lo[i] <= edges[-1]:
                bars[first] += share[i]
            continue
        for k in range(first, len(bars)):
            if edges[k] >= hi[i]:
                break
            part = min(hi[i], edges[k + 1]) - max(lo[i], edges[k])
            bars[k] += share[i] * max(part, 0.0) / (hi[i] - lo[i])
