"""Sums over rows and over table cells: splines, histograms, and two-dimensional tables."""

from __future__ import annotations

import numpy as np

from ..numeric.jit import inlined, kernel
from ..numeric.simd import add_pair

N_CELLS = 64
"""Cells along a side of a table."""
RUN = 1024
"""Rows that follow each other go into tables together, or not; most rows of a run."""


@inlined
def cubic_splines(t, low, scale, n_intervals):
    """Return the first active spline at t, its number, and the values of the four."""
    u = min(max((t - low) * scale, 0.0), float(n_intervals))
    j = min(int(u), n_intervals - 1)
    f = u - j
    g = 1.0 - f
    f2, g2 = f * f, g * g
    p0, p3 = g * g2 / 6.0, f * f2 / 6.0
    p1 = 0.5 * f * f2 - f2 + 2.0 / 3.0
    p2 = 0.5 * g * g2 - g2 + 2.0 / 3.0
    return np.uintp(j), p0, p1, p2, p3


@kernel
def add_splines(t, low, high, w, wr, gram, moment):
    """Add sum w Phi Phi' (banded, (n, 4)) and sum wr Phi (n,) of cubic splines at t, in place.

    gram[j, d] is the product of splines j and j + d.
    """
    m = len(moment) - 3
    scale = m / (high - low)
    G = gram.reshape(-1)
    one, four = np.uintp(1), np.uintp(4)
    for i in range(len(t)):
        j, p0, p1, p2, p3 = cubic_splines(t[i], low, scale, m)
        r = wr[i]
        moment[j] += r * p0
        moment[j + one] += r * p1
        moment[j + np.uintp(2)] += r * p2
        moment[j + np.uintp(3)] += r * p3
        k = four * j
        add_row(G, k, w[i] * p0, p0, p1, p2, p3)
        a = w[i] * p1
        k += four
        G[k] += a * p1
        G[k + one] += a * p2
        G[k + np.uintp(2)] += a * p3
        a = w[i] * p2
        k += four
        G[k] += a * p2
        G[k + one] += a * p3
        G[k + four] += w[i] * p3 * p3


@inlined
def add_row(out, k, a, q0, q1, q2, q3):
    """Add a (q0, q1, q2, q3) to out[k:k + 4] in place."""
    out[k] += a * q0
    out[k + np.uintp(1)] += a * q1
    out[k + np.uintp(2)] += a * q2
    out[k + np.uintp(3)] += a * q3


@kernel
def add_cross(t, low, high, t2, low2, high2, w, out):
    """Add sum w Phi(t) Phi(t2)' to `out` (n, n2), in place."""
    m, m2 = out.shape[0] - 3, out.shape[1] - 3
    scale, scale2 = m / (high - low), m2 / (high2 - low2)
    flat, line = out.reshape(-1), np.uintp(out.shape[1])
    for i in range(len(t)):
        j, p0, p1, p2, p3 = cubic_splines(t[i], low, scale, m)
        c, q0, q1, q2, q3 = cubic_splines(t2[i], low2, scale2, m2)
        k = j * line + c
        add_row(flat, k, w[i] * p0, q0, q1, q2, q3)
        add_row(flat, k + line, w[i] * p1, q0, q1, q2, q3)
        add_row(flat, k + line + line, w[i] * p2, q0, q1, q2, q3)
        add_row(flat, k + line + line + line, w[i] * p3, q0, q1, q2, q3)


@kernel
def spline_values(t, low, high, theta, out):
    """Add the cubic spline with coefficients `theta` at t to `out`, in place."""
    m = len(theta) - 3
    scale = m / (high - low)
    for i in range(len(t)):
        j, p0, p1, p2, p3 = cubic_splines(t[i], low, scale, m)
        f = p0 * theta[j] + p1 * theta[j + np.uintp(1)]
        out[i] += f + (p2 * theta[j + np.uintp(2)] + p3 * theta[j + np.uintp(3)])


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
def weigh_rows(F, plus, w, half, offset, pair, squares, largest):
    """Write rows' weights w v, v = exp(-y F - offset), to their class's place of pair (m, 2).

    Adds w v^2 to squares (2, 2) by half and class, and raises largest (2,) to -y F by class, both
    in place.  `plus` is 1 for the class, else 0.
    """
    for i in range(len(F)):
        c = plus[i]
        cost = F[i] if c == 0 else -F[i]
        if w[i] > 0.0 and cost > largest[c]:
            largest[c] = cost
        v = np.exp(min(cost - offset[c], 0.0))
        pair[i, c] = w[i] * v
        pair[i, 1 - c] = 0.0
        squares[half[i], c] += w[i] * v * v


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
def place_rows(t, pair, mass, runs, low, scale, kept, row, values, first, places):
    """Write the rows of `runs` (k, 2) that have mass, for `add_table`; return their number.

    kept (place in its run), row (of the table, by t) and values (2 a row) follow each other;
    first[r] is where run r begins.  `places` (N_CELLS, 2) sums mass and mass t by row of the table,
    in place.
    """
    n = 0
    for r in range(len(runs)):
        first[r] = n
        for i in range(runs[r, 0], runs[r, 1]):
            if mass[i] == 0.0:
                continue
            b = int(min(max((t[i] - low) * scale, 0.0), N_CELLS - 1.0))
            places[b, 0] += mass[i]
            places[b, 1] += mass[i] * t[i]
            kept[n] = i - runs[r, 0]
            row[n] = 2 * N_CELLS * b
            values[2 * n] = pair[i, 0]
            values[2 * n + 1] = pair[i, 1]
            n += 1
    first[len(runs)] = n
    return n


@kernel
def add_table(x, low, scale, runs, first, kept, row, values, table):
    """Add the two numbers of each placed row to its cell of `table` (flat), in place.

    `x` is the column; values outside [low, low + N_CELLS / scale] count in the outer cells.
    """
    kind = x.dtype.type
    least, factor, zero, last = kind(low), kind(scale), kind(0), kind(N_CELLS - 1)
    at = np.empty(RUN, np.int32)
    for r in range(len(runs)):
        part = x[runs[r, 0] : runs[r, 1]]
        for i in range(len(part)):
            at[i] = 2 * np.int32(min(max((part[i] - least) * factor, zero), last))
        # unsigned places: a signed one is asked each time whether it counts from the end
        for q in range(np.uintp(first[r]), np.uintp(first[r + 1])):
            add_pair(table, np.intp(row[q] + at[np.uintp(kept[q])]), values, np.intp(2 * q))


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
    """Write `add_splines` of the cells for each move: gram (k, n, 4), moment (k, n), in place."""
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
