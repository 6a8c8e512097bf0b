"""Where a column's breakpoints lie: equally spaced, at quantiles, or at its few values.

Every function returns float64 numbers that ascend strictly even after rounding to `dtype`, possibly
fewer than asked for; fewer than two mean that the column is constant.
"""

from __future__ import annotations

import numpy as np

FLOAT32_MAX = float(np.finfo(np.float32).max)


def uniform_of_columns(
    lo: np.ndarray, hi: np.ndarray, n_intervals: int, dtype: np.dtype
) -> list[np.ndarray]:
    """n_intervals + 1 equally spaced breakpoints on [lo[d], hi[d]], for every column d at once."""
    t = np.arange(n_intervals + 1) / n_intervals
    x = lo[:, None] * (1 - t) + hi[:, None] * t
    with np.errstate(over="ignore", invalid="ignore"):
        near = x.astype(dtype).astype(np.float64)
        plain = np.all(np.diff(near) > 0, axis=1) & np.all(np.abs(x) <= FLOAT32_MAX, axis=1)
    return [near[d] if plain[d] else distinct(x[d], dtype) for d in range(len(x))]


def value_breakpoints(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A breakpoint at each value: at degree 1 the splines are indicators of the values."""
    return distinct(values, dtype)


def quantile_breakpoints(
    lo: np.ndarray,
    hi: np.ndarray,
    mass: np.ndarray,
    n_intervals: int,
    dtype: np.dtype,
    levels: np.ndarray | None = None,
) -> np.ndarray:
    """Breakpoints at equal steps of a histogram's distribution function, or at `levels` of it.

    Bin i spreads `mass[i]` evenly over [lo[i], hi[i]]; bins ascend and do not overlap.  A bin with
    lo == hi is one value: its mass is capped at 1 / n_intervals of what the caps leave, and its
    place is the middle of its step, so that a column of 95 % zeros does not put all its rows into
    one interval.
    """
    lo, hi, mass = (np.asarray(a, dtype=np.float64) for a in (lo, hi, mass))
    keep = mass > 0
    lo, hi, mass = lo[keep], hi[keep], mass[keep]
    if len(mass) == 0:
        return np.empty(0)
    single = lo == hi
    mass = np.where(single, np.minimum(mass, _cap(mass[single], mass.sum(), n_intervals)), mass)
    top = np.cumsum(mass)
    bottom = top - mass
    middle = 0.5 * (bottom + top)
    x = np.column_stack([lo, hi]).ravel()
    height = np.column_stack([np.where(single, middle, bottom), np.where(single, middle, top)])
    t = np.arange(n_intervals + 1) / n_intervals if levels is None else levels
    t = t * top[-1]
    k = np.interp(t, np.maximum.accumulate(height.ravel()), x)
    k[0], k[-1] = lo[0], hi[-1]
    return distinct(k, dtype)


def _cap(mass: np.ndarray, total: float, n_intervals: int) -> float:
    """The cap t for which min(mass, t) is nowhere more than 1 / n_intervals of what is left."""
    heavy = np.sort(mass)[::-1]
    rest = total - np.concatenate([[0.0], np.cumsum(heavy)])
    for q in range(min(n_intervals, len(heavy))):
        t = rest[q] / (n_intervals - q)
        if heavy[q] <= t:
            return t
    # at most n_intervals values carry everything: equal steps
    return heavy[-1] if len(heavy) else total


def distinct(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The ascending distinct numbers of x after rounding to dtype, as float64."""
    x = np.asarray(x, np.float64)
    if not np.abs(x).max(initial=0.0) <= FLOAT32_MAX:
        limit = float(np.finfo(dtype).max)
        x = np.clip(x, -limit, limit)
    x = x.astype(dtype).astype(np.float64)
    return x if (x[1:] > x[:-1]).all() else np.unique(x)
