"""Quantiles from exact counts over bins of the values, which merge exactly in any order.

Error: a quantile lies in the bin of the exact one, so it is off by the bin's width at most, and its
rank by the bin's mass.  A bin is at most 1/32 of its values wide (2e-38 next to zero), and at most
1/500 of the range of the values of its sign for each factor of 2 in it: of longitudes from -124 to
-114 a fiftieth of a degree, however far they are from 0.  Zeros, the minimum and the maximum are
exact; so is everything in columns of at most 256 distinct values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Cdf(NamedTuple):
    """A distribution function in pieces that ascend and do not overlap."""

    lo: np.ndarray
    """(b,) float64."""
    hi: np.ndarray
    """(b,) float64; piece i spreads mass[i] evenly over [lo, hi], or is one value if lo == hi."""
    mass: np.ndarray
    """(b,) float64, weights of rows."""


def quantiles(cdf: Cdf, q: np.ndarray | float) -> np.ndarray:
    """Smallest values with at least a share q of the mass at or below; linear inside a piece.

    For columns of few values this is numpy's ``inverted_cdf``.  NaN if there is no mass.
    """
    share = np.asarray(q, np.float64)
    if np.any(~((share >= 0) & (share <= 1))):
        raise ValueError(f"quantiles are asked for by shares between 0 and 1, got {q}")
    found = quantiles_of_all(*cdf, np.array([0, len(cdf.mass)]), share.ravel())
    return found.reshape(share.shape)


def quantiles_of_all(
    lo: np.ndarray, hi: np.ndarray, mass: np.ndarray, ends: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """(p, n) quantiles at `share` (n,) of p columns, whose pieces lie between `ends` (p + 1,).

    A piece at +inf is of missing values, and left out.
    """
    kept = (mass > 0) & (lo < np.inf)
    ends = np.concatenate([[0], np.cumsum(kept)])[ends]
    lo, hi, mass = lo[kept], hi[kept], mass[kept]
    out = np.full((len(ends) - 1, len(share)), np.nan)
    filled = ends[1:] > ends[:-1]
    first, last = ends[:-1][filled, None], ends[1:][filled, None] - 1
    top = np.cumsum(mass)
    before = np.concatenate([[0.0], top])[first]
    wanted = before + share * (top[last] - before)
    at = np.clip(np.searchsorted(top, wanted), first, last)
    inside = np.clip((wanted - (top[at] - mass[at])) / mass[at], 0.0, 1.0)
    lo, hi = lo[at], hi[at]
    out[filled] = np.where(lo == hi, lo, lo * (1 - inside) + hi * inside)
    return out
