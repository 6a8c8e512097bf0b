"""Sums over rows and over table cells: histograms, and two-dimensional tables."""

from __future__ import annotations

import numpy as np

from ..numeric.jit import kernel
from ..numeric.simd import add_pair

N_CELLS = 64
"""Cells along a side of a table."""
RUN = 1024
"""Rows that follow each other go into tables together, or not; most rows of a run."""


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
def weigh_rows(F, y, label, w, half, offset, pair, searched, squares, largest):
    """Write rows' weights w v, v = exp(-y F - offset), to their class's place of pair (m, 2).

    `searched` (m,) becomes the weights of half 0, else 0.  Adds w v^2 to squares (2, 2) by half and
    class, and raises largest (2,) to -y F by class, both in place.  The class is y = label.
    """
    for i in range(len(F)):
        c = 1 if y[i] == label else 0
        cost = F[i] if c == 0 else -F[i]
        if w[i] > 0.0 and cost > largest[c]:
            largest[c] = cost
        v = np.exp(min(cost - offset[c], 0.0))
        pair[i, c] = w[i] * v
        pair[i, 1 - c] = 0.0
        searched[i] = pair[i, c] if half[i] == 0 else 0.0
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
def place_rows(t, first_sum, second_sum, mass, runs, low, scale, kept, row, values, first, places):
    """Write the rows of `runs` (k, 2) that have mass, for `add_table`; return their number.

    The table sums two numbers of each row, `first_sum` and `second_sum`.  kept (place in its run),
    row (of the table, by t) and values (2 a row) follow each other; first[r] is where run r begins.
    `places` (N_CELLS, 2) sums mass and mass t by row of the table, in place.
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
            values[2 * n] = first_sum[i]
            values[2 * n + 1] = second_sum[i]
            n += 1
    first[len(runs)] = n
    return n


@kernel
def add_table(x, low, scale, runs, first, kept, row, values, table):
    """Add the two numbers of each placed row to its cell of `table` (flat), in place.

    `x` is the column; values outside [low, low + N_CELLS / scale] count in the outer cells.

    Returns a number without meaning: the table is read through first, which brings it into the
    cache quickest (measured: 2.9 ns a row without, 1.6 with).
    """
    through = 0.0
    for i in range(0, len(table), 8):
        through += table[i]
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
    return through


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
def halve_rows(h, seed, half):
    """Write a bit of the rows' hashes `h` (uint64), mixed with the seed, into `half` in place."""
    for i in range(len(h)):
        z = (h[i] * np.uint64(0x9E3779B97F4A7C15)) ^ seed
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        half[i] = z >> np.uint64(63)


@kernel
def occupied_cells(table, s, z, scale, s_out, z_out, pair):
    """Write the mean places and sums times `scale` of the cells that are not empty; their number.

    table (a, b, 2) of cells at s (a,) and z (b,).
    """
    n = 0
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            if table[i, j, 0] != 0.0 or table[i, j, 1] != 0.0:
                s_out[n], z_out[n] = s[i], z[j]
                pair[n, 0] = scale * table[i, j, 0]
                pair[n, 1] = scale * table[i, j, 1]
                n += 1
    return n


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
