"""Breakpoints of columns: equally spaced, at quantiles, or at their few values.

All columns at once.  Breakpoints ascend strictly even after rounding to `dtype`, so there may be
fewer than asked for; fewer than two mean that the column is constant.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ..jit import kernel
from .means import Pieces


def uniform_points(lo: np.ndarray, hi: np.ndarray, n_intervals: int) -> np.ndarray:
    """(p, n_intervals + 1) equally spaced points on [lo[d], hi[d]] of every column d."""
    t = np.arange(n_intervals + 1) / n_intervals
    return lo[:, None] * (1 - t) + hi[:, None] * t


def quantile_points(pieces: Pieces, wanted: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """(p, len(levels)) points at these levels of each column's distribution function.

    Of columns that are not `wanted` (p,) bool, zeros.  Piece i spreads `mass[i]` evenly over
    [lo[i], hi[i]]; pieces ascend and do not overlap.  A piece with lo == hi is one value: its mass
    is capped at 1 / (number of intervals) of what the caps leave, and its place is the middle of
    its step, so that a column of 95 % zeros does not put all its rows into one interval.  A piece
    at +inf is of missing values, and left out.
    """
    out = np.zeros((len(wanted), len(levels)))
    quantiles_of_columns(pieces, wanted, np.asarray(levels, np.float64), out)
    return out


def distinct_points(
    x: np.ndarray, ends: np.ndarray, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """The strictly ascending points of each column after rounding to `dtype`, and their ends.

    `x` holds the ascending points of p columns, one column after the other, from `ends` (p + 1,).
    """
    limit = float(np.finfo(dtype).max)
    rounded = np.clip(x, -limit, limit).astype(dtype).astype(np.float64)
    first = np.zeros(len(x) + 1, bool)
    first[ends[:-1]] = True
    kept = first[:-1].copy()
    kept[1:] |= rounded[1:] > rounded[:-1]
    return rounded[kept], np.concatenate([[0], np.cumsum(kept)])[ends]


@kernel
def quantiles_of_columns(pieces, wanted, levels, out):
    """`quantile_points`, written to `out` in place."""
    most = 0
    for d in range(len(wanted)):
        most = max(most, pieces.ends[d + 1] - pieces.ends[d])
    x, height, heavy = np.empty(2 * most), np.empty(2 * most), np.empty(most)
    for d in range(len(wanted)):
        if not wanted[d]:
            continue
        total, n_single = 0.0, 0
        for k in range(pieces.ends[d], pieces.ends[d + 1]):
            if pieces.lo[k] < np.inf:
                total += pieces.mass[k]
                if pieces.lo[k] == pieces.hi[k] and pieces.mass[k] > 0.0:
                    heavy[n_single] = pieces.mass[k]
                    n_single += 1
        cap = cap_of_values(heavy[:n_single], total, len(levels) - 1)
        n, top, highest = 0, 0.0, -np.inf
        for k in range(pieces.ends[d], pieces.ends[d + 1]):
            lo, hi, mass = pieces.lo[k], pieces.hi[k], pieces.mass[k]
            if not (mass > 0.0 and lo < np.inf):
                continue
            single = lo == hi
            if single:
                mass = min(mass, cap)
            top += mass
            bottom = top - mass
            middle = 0.5 * (bottom + top)
            x[n], x[n + 1] = lo, hi
            highest = max(highest, middle if single else bottom)
            height[n] = highest
            highest = max(highest, middle if single else top)
            height[n + 1] = highest
            n += 2
        if n == 0:
            continue
        interpolate(x[:n], height[:n], levels, top, out[d])
        out[d, 0], out[d, len(levels) - 1] = x[0], x[n - 1]


@kernel
def cap_of_values(mass, total, n_intervals):
    """The cap t for which min(mass, t) is nowhere more than 1 / n_intervals of what is left."""
    if len(mass) == 0:
        return total
    heavy, rest = np.sort(mass)[::-1], total
    for q in range(min(n_intervals, len(heavy))):
        t = rest / (n_intervals - q)
        if heavy[q] <= t:
            return t
        rest -= heavy[q]
    # at most n_intervals values carry everything: equal steps
    return heavy[len(heavy) - 1]


@kernel
def interpolate(x, height, levels, total, out):
    """Write x at the heights total * levels, both ascending, to `out` in place: as `np.interp`."""
    j, last = 0, len(x) - 1
    for i in range(len(levels)):
        t = levels[i] * total
        while j < last and height[j + 1] <= t:
            j += 1
        if t <= height[0]:
            out[i] = x[j] if t == height[0] else x[0]
        elif j == last or t == height[j]:
            out[i] = x[j]
        else:
            slope = (x[j + 1] - x[j]) / (height[j + 1] - height[j])
            out[i] = slope * (t - height[j]) + x[j]
