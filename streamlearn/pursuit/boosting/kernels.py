"""Sums over rows for boosting: their halves, weights and histograms, a tile of rows at a time."""

from __future__ import annotations

import numpy as np

from ...numeric.elementary import exponential
from ...numeric.jit import inlined, kernel
from ..kernels import TILE, place_column, project_tile


@inlined
def half_bit(h, seed):
    """Return a bit of a row's hash `h` (uint64), mixed with the seed."""
    z = (h * np.uint64(0x9E3779B97F4A7C15)) ^ seed
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z >> np.uint64(63)


@kernel
def halve_numbers(h, seed, half):
    """Write a bit of the numbers `h` (uint64), mixed with the seed, into `half` in place."""
    for i in range(len(h)):
        half[i] = half_bit(h[i], seed)


@kernel
def halve_rows(rows, which, seed, half):
    """Write a bit of the float32 values of the columns `which` of each row, mixed, into `half`."""
    h = np.empty(TILE, np.uint64)
    for start in range(0, rows.n_rows, TILE):
        n = min(TILE, rows.n_rows - start)
        for i in range(n):
            h[i] = 0
        for m in which:
            x = rows.flat[start * rows.row_step + m * rows.column_step :]
            mix_column(x, rows.row_step, n, np.uint64(m + 1), h)
        for i in range(n):
            half[start + i] = half_bit(h[i], seed)


@inlined
def mix_column(x, step, n, seed, h):
    """Mix the float32 bits of every step-th of n values into the rows' hashes `h`, in place."""
    if step == 1:  # apart, so that it vectorises
        for i in range(n):
            h[i] = mixed(h[i], x[i], seed)
    else:
        for i in range(n):
            h[i] = mixed(h[i], x[i * step], seed)


@inlined
def mixed(h, x, seed):
    z = h ^ (np.uint64(np.float32(x).view(np.uint32)) + seed)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    return z ^ (z >> np.uint64(29))


@kernel
def weigh_rows(F, y, label, w, half, offset, v, kind, squares, largest):
    """Write rows' weights v = w e, e = exp(-y F - offset), and their kind, 2 half + class.

    Adds w e^2 to squares (2, 2) by half and class, and raises largest (2,) to -y F by class.  All
    in place; the class is y = label.
    """
    e, cost = np.empty(TILE), np.empty(TILE)
    minus, plus = offset[0], offset[1]
    for start in range(0, len(F), TILE):
        n = min(TILE, len(F) - start)
        f, ys, ws, halves = F[start:], y[start:], w[start:], half[start:]
        vs, kinds = v[start:], kind[start:]
        for i in range(n):
            own = ys[i] == label
            kinds[i] = 2 * halves[i] + own
            cost[i] = -f[i] if own else f[i]
            e[i] = cost[i] - (plus if own else minus)
        for i in range(n):
            e[i] = exponential(min(e[i], 0.0))
        for i in range(n):
            vs[i] = ws[i] * e[i]
        for i in range(n):
            c, h = kinds[i] & 1, kinds[i] >> 1
            squares[h, c] += vs[i] * e[i]
            if cost[i] > largest[c] and ws[i] > 0.0:
                largest[c] = cost[i]


@kernel
def add_trials(rows, alphas, columns, ranges, v, kind, sums, first):
    """Add the rows' weights v to bins of their projections, sums (k, 2, B, 2), in place.

    By half and class, which `kind` says.  Writes the first projection into `first`.
    """
    n_bins = sums.shape[2]
    other, at = np.empty(TILE), np.empty(TILE, np.uint32)
    for k in range(len(alphas)):
        used, into = np.flatnonzero(alphas[k]), sums[k].reshape(-1)
        low, scale = ranges[k, 0], n_bins / (ranges[k, 1] - ranges[k, 0])
        for start in range(0, rows.n_rows, TILE):
            n = min(TILE, rows.n_rows - start)
            t = first[start:] if k == 0 else other
            project_tile(rows, start, n, alphas[k], used, columns, t)
            kinds, vs = kind[start:], v[start:]
            for i in range(n):
                b = np.int32(min(max((t[i] - low) * scale, 0.0), n_bins - 1.0))
                c = np.int32(kinds[i])
                at[i] = 2 * (b + (c >> 1) * n_bins) + (c & 1)
            for i in range(n):
                into[at[i]] += vs[i]


@kernel
def add_margins(F, w, kind, reach, margins):
    """Add the weights to bins of the margins F in [-reach, reach] by class: margins (n, 2)."""
    n = len(margins)
    scale = n / (2 * reach)
    for i in range(len(F)):
        b = int(min(max((F[i] + reach) * scale, 0.0), n - 1.0))
        margins[b, kind[i] & 1] += w[i]


@kernel
def split_rows(v, kind, runs, minus, plus, searched):
    """Write the weights v of the rows of `runs` by class, and those searched on, else 0."""
    for r in range(len(runs)):
        for i in range(runs[r, 0], runs[r, 1]):
            own = kind[i] & 1
            minus[i] = 0.0 if own else v[i]
            plus[i] = v[i] if own else 0.0
            searched[i] = v[i] if kind[i] < 2 else 0.0


@kernel
def bins_of_columns(rows, live, columns, pair, sums):
    """Add two numbers of each row, pair (m, 2), to its bin of each column, sums (., n, 2)."""
    t, n = np.empty(rows.n_rows), sums.shape[1]
    for k in range(len(live)):
        low, high = place_column(rows, live[k], columns, t)
        scale = n / (high - low)
        for i in range(rows.n_rows):
            b = int(min(max((t[i] - low) * scale, 0.0), n - 1.0))
            sums[k, b, 0] += pair[i, 0]
            sums[k, b, 1] += pair[i, 1]
