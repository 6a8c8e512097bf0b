"""Friedman's super smoother of binned rows."""

from __future__ import annotations

import numpy as np

from ...numeric.jit import inlined, kernel
from ..kernels import place_column

SPANS = (0.05, 0.2, 0.5)
"""Tweeter, midrange and woofer: shares of the mass that a line is fitted to (Friedman 1984)."""


@inlined
def sum_below(sums, at, k):
    """Return five sums over the mass below at, which lies in point k; a point's mass is even."""
    share = 0.0
    if sums[k + 1, 0] > sums[k, 0]:
        share = (at - sums[k, 0]) / (sums[k + 1, 0] - sums[k, 0])
    return (
        sums[k, 0] + share * (sums[k + 1, 0] - sums[k, 0]),
        sums[k, 1] + share * (sums[k + 1, 1] - sums[k, 1]),
        sums[k, 2] + share * (sums[k + 1, 2] - sums[k, 2]),
        sums[k, 3] + share * (sums[k + 1, 3] - sums[k, 3]),
        sums[k, 4] + share * (sums[k + 1, 4] - sums[k, 4]),
    )


@kernel
def running_lines(u, w, y, span, smooth, leverage):
    """Write the line through the mass around each point, at the point, to `smooth`, in place.

    Points u rise, with masses w > 0.  The mass is `span` of the whole, centred at the point (at an
    end: the outermost such), and at least twice the point's.  `leverage` is what the point's own
    value counts in its smooth.
    """
    n = len(u)
    sums = np.zeros((n + 1, 5))
    for j in range(n):
        a = w[j]
        sums[j + 1, 0] = sums[j, 0] + a
        sums[j + 1, 1] = sums[j, 1] + a * u[j]
        sums[j + 1, 2] = sums[j, 2] + a * y[j]
        sums[j + 1, 3] = sums[j, 3] + a * u[j] * u[j]
        sums[j + 1, 4] = sums[j, 4] + a * u[j] * y[j]
    total = sums[n, 0]
    first, last = 0, 0
    for j in range(n):
        mass = min(max(span * total, 2.0 * w[j]), total)
        low = min(max(sums[j, 0] + 0.5 * (w[j] - mass), 0.0), total - mass)
        high = low + mass
        while first > 0 and sums[first, 0] > low:
            first -= 1
        while first < n - 1 and sums[first + 1, 0] <= low:
            first += 1
        while last > 0 and sums[last, 0] >= high:
            last -= 1
        while last < n - 1 and sums[last + 1, 0] < high:
            last += 1
        w0, u0, y0, uu0, uy0 = sum_below(sums, low, first)
        w1, u1, y1, uu1, uy1 = sum_below(sums, high, last)
        W = w1 - w0
        mean, level = (u1 - u0) / W, (y1 - y0) / W
        spread = (uu1 - uu0) - W * mean * mean
        smooth[j], leverage[j] = level, w[j] / W
        if spread > 1e-9 * W:
            away = u[j] - mean
            smooth[j] += away * ((uy1 - uy0) - W * mean * level) / spread
            leverage[j] += w[j] * away * away / spread


@kernel
def super_smooth(counts, moments, values, df):
    """Write the super smoother of binned rows to `values` (k, B), and its trace to df, in place.

    `counts` and `moments` (k, B) are the sums of w and w r of rows in B bins of equal width: k
    curves.  Each bin with rows is a point at its middle.  Lines of three spans; at each point the
    span whose residuals, each without the point itself, are least around it; spans smoothed,
    smooths interpolated to them, and the result smoothed once more (Friedman 1984, section 4).
    Bins without rows lie on the line between their neighbours.
    """
    B = counts.shape[1]
    tweeter, midrange, woofer = SPANS
    for k in range(len(counts)):
        n = 0
        u, w, y = np.empty(B), np.empty(B), np.empty(B)
        for b in range(B):
            if counts[k, b] > 0.0:
                u[n], w[n], y[n] = (b + 0.5) / B - 0.5, counts[k, b], moments[k, b] / counts[k, b]
                n += 1
        values[k] = 0.0
        df[k] = 0.0
        if n == 0:
            continue
        u, w, y = u[:n], w[:n], y[:n]
        smooths, leverages = np.empty((3, n)), np.empty((3, n))
        residual, none = np.empty(n), np.empty(n)
        span, least, around = np.empty(n), np.full(n, np.inf), np.empty(n)
        for s in range(3):
            running_lines(u, w, y, SPANS[s], smooths[s], leverages[s])
            for j in range(n):
                residual[j] = abs(y[j] - smooths[s, j]) / max(1.0 - leverages[s, j], 1e-3)
            running_lines(u, w, residual, midrange, around, none)
            for j in range(n):
                # few points have the same lines in two spans: rounding is not to choose
                if around[j] < least[j] * (1.0 - 1e-9):
                    least[j], span[j] = around[j], SPANS[s]
        running_lines(u, w, span, midrange, around, none)
        for j in range(n):
            f = min(max(around[j], tweeter), woofer) - midrange
            other, share = (2, f / (woofer - midrange)) if f >= 0 else (0, f / (tweeter - midrange))
            residual[j] = (1.0 - share) * smooths[1, j] + share * smooths[other, j]
            df[k] += (1.0 - share) * leverages[1, j] + share * leverages[other, j]
        running_lines(u, w, residual, tweeter, around, none)
        j = 0
        for b in range(B):
            at = (b + 0.5) / B - 0.5
            while j < n - 1 and u[j + 1] <= at:
                j += 1
            values[k, b] = around[j]
            if u[j] < at and j < n - 1:
                share = (at - u[j]) / (u[j + 1] - u[j])
                values[k, b] += share * (around[j + 1] - around[j])


@kernel
def add_counts(t, low, high, w, wr, counts, moment):
    """Add sum w and sum wr of rows to their bins, (n,) each, in place."""
    n = len(moment)
    scale = n / (high - low)
    for i in range(len(t)):
        b = int(min(max((t[i] - low) * scale, 0.0), n - 1.0))
        counts[b] += w[i]
        moment[b] += wr[i]


@kernel
def counts_of_columns(rows, live, columns, w, wr, counts, moment):
    """Add `add_counts` of the rows placed by each column of `live`, (c, n, 1) and (c, n)."""
    t = np.empty(rows.n_rows)
    for k in range(len(live)):
        low, high = place_column(rows, live[k], columns, t)
        add_counts(t, low, high, w, wr, counts[k, :, 0], moment[k])


@kernel
def add_joint_counts(t, low, high, t2, low2, high2, w, out):
    """Add sum w of rows to their pair of bins, `out` (n, n2), in place."""
    n, n2 = out.shape
    scale, scale2 = n / (high - low), n2 / (high2 - low2)
    for i in range(len(t)):
        b = int(min(max((t[i] - low) * scale, 0.0), n - 1.0))
        c = int(min(max((t2[i] - low2) * scale2, 0.0), n2 - 1.0))
        out[b, c] += w[i]
