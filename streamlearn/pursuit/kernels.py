"""Sums over rows and over table cells: splines, histograms, and two-dimensional tables."""

from __future__ import annotations

import numpy as np

from ..numeric.jit import kernel

BAND = 4
"""Non-zero cubic splines at a point, so diagonals of their Gram."""


@kernel
def cubic_values(u, n_intervals, phi):
    """Write the four cubic splines active at u in [0, n_intervals] to `phi`; return the first."""
    j = min(int(u), n_intervals - 1)
    f = u - j
    g = 1.0 - f
    phi[0] = g * g * g / 6.0
    phi[1] = (3.0 * f * f * f - 6.0 * f * f + 4.0) / 6.0
    phi[2] = (3.0 * g * g * g - 6.0 * g * g + 4.0) / 6.0
    phi[3] = f * f * f / 6.0
    return j


@kernel
def add_splines(t, low, high, w, wr, gram, moment):
    """Add sum w Phi Phi' (banded, (4, n)) and sum wr Phi (n,) of cubic splines at t, in place."""
    n_intervals = gram.shape[1] - 3
    scale = n_intervals / (high - low)
    phi = np.empty(4)
    for i in range(len(t)):
        u = min(max((t[i] - low) * scale, 0.0), float(n_intervals))
        j = cubic_values(u, n_intervals, phi)
        for a in range(4):
            moment[j + a] += wr[i] * phi[a]
            wa = w[i] * phi[a]
            for b in range(a, 4):
                gram[b - a, j + a] += wa * phi[b]


@kernel
def add_cross(t, low, high, t2, low2, high2, w, out):
    """Add sum w Phi(t) Phi(t2)' to `out` (n, n2), in place."""
    m, m2 = out.shape[0] - 3, out.shape[1] - 3
    scale, scale2 = m / (high - low), m2 / (high2 - low2)
    phi, phi2 = np.empty(4), np.empty(4)
    for i in range(len(t)):
        j = cubic_values(min(max((t[i] - low) * scale, 0.0), float(m)), m, phi)
        k = cubic_values(min(max((t2[i] - low2) * scale2, 0.0), float(m2)), m2, phi2)
        for a in range(4):
            wa = w[i] * phi[a]
            for b in range(4):
                out[j + a, k + b] += wa * phi2[b]


@kernel
def spline_values(t, low, high, theta, out):
    """Add the cubic spline with coefficients `theta` at t to `out`, in place."""
    m = len(theta) - 3
    scale = m / (high - low)
    phi = np.empty(4)
    for i in range(len(t)):
        j = cubic_values(min(max((t[i] - low) * scale, 0.0), float(m)), m, phi)
        out[i] += (
            phi[0] * theta[j]
            + phi[1] * theta[j + 1]
            + phi[2] * theta[j + 2]
            + phi[3] * theta[j + 3]
        )


@kernel
def add_bins(t, low, high, pair, part, sums):
    """Add the two numbers of each row, pair (m, 2), to its bin of sums[part] (., n, 2) in place."""
    n = sums.shape[1]
    scale = n / (high - low)
    for i in range(len(t)):
        b = int(min(max((t[i] - low) * scale, 0.0), n - 1.0))
        sums[part[i], b, 0] += pair[i, 0]
        sums[part[i], b, 1] += pair[i, 1]


@kernel
def step_values(t, low, high, heights, out):
    """Add the histogram function with these heights at t to `out`, in place."""
    n = len(heights)
    scale = n / (high - low)
    for i in range(len(t)):
        out[i] += heights[int(min(max((t[i] - low) * scale, 0.0), n - 1.0))]


@kernel
def project_column(x, low, high, center, factor, out):
    """Add factor (clip(x, low, high) - center) to `out`, in place."""
    for i in range(len(x)):
        out[i] += factor * (min(max(np.float64(x[i]), low), high) - center)


@kernel
def add_table(x, low, scale, row, pair, table):
    """Add each row's two numbers to its cell of `table` (q, q2, 2), in place.

    `row` (m,) is the row's place along the first side; values below `low`, or past the last bin,
    count in the outer ones.
    """
    last = table.shape[1] - 1.0
    for i in range(len(x)):
        b = int(min(max((np.float64(x[i]) - low) * scale, 0.0), last))
        table[row[i], b, 0] += pair[i, 0]
        table[row[i], b, 1] += pair[i, 1]


@kernel
def dot_column(x, low, high, center, factor, q):
    """Return sum q factor (clip(x, low, high) - center)."""
    total = 0.0
    for i in range(len(x)):
        total += q[i] * (min(max(np.float64(x[i]), low), high) - center)
    return factor * total


@kernel
def mix_column(x, seed, h):
    """Mix the float32 bits of a column into the rows' hashes `h` (uint64), in place."""
    bits = x.astype(np.float32).view(np.uint32)
    for i in range(len(x)):
        z = h[i] ^ (np.uint64(bits[i]) + seed)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        h[i] = z ^ (z >> np.uint64(29))


@kernel
def spread(s, z, shift, reach, low, high):
    """Write the range of s + shift z over the cells for each move into low, high, in place.

    `reach` (2,) is half a cell's extent in s and z: rows lie that far from their cell's mean.
    """
    for k in range(len(shift)):
        a, b = np.inf, -np.inf
        for i in range(len(s)):
            t = s[i] + shift[k] * z[i]
            a, b = min(a, t), max(b, t)
        pad = reach[0] + abs(shift[k]) * reach[1]
        low[k], high[k] = a - pad, b + pad


@kernel
def splines_of_cells(s, z, pair, shift, low, high, gram, moment):
    """Write `add_splines` of the cells for each move: gram (k, 4, n), moment (k, n), in place."""
    t = np.empty(len(s))
    w, wr = pair[:, 0].copy(), pair[:, 1].copy()
    for k in range(len(shift)):
        for i in range(len(s)):
            t[i] = s[i] + shift[k] * z[i]
        add_splines(t, low[k], high[k], w, wr, gram[k], moment[k])


@kernel
def bins_of_cells(s, z, pair, shift, low, high, sums):
    """Write histograms (k, n, 2) of the cells for each move, in place.

    A cell is shared by the two bins whose centres are nearest: the cost is smooth in the move.
    """
    n = sums.shape[1]
    for k in range(len(shift)):
        scale = n / (high[k] - low[k])
        for i in range(len(s)):
            u = (s[i] + shift[k] * z[i] - low[k]) * scale - 0.5
            u = min(max(u, 0.0), n - 1.0)
            b = min(int(u), n - 2)
            f = u - b
            sums[k, b, 0] += (1.0 - f) * pair[i, 0]
            sums[k, b, 1] += (1.0 - f) * pair[i, 1]
            sums[k, b + 1, 0] += f * pair[i, 0]
            sums[k, b + 1, 1] += f * pair[i, 1]
