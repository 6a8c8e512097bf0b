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
    keep = cdf.mass > 0
    lo, hi, mass = (a[keep] for a in cdf)
    if not len(mass):
        return np.full(share.shape, np.nan)
    top = np.cumsum(mass)
    wanted = share * top[-1]
    at = np.minimum(np.searchsorted(top, wanted), len(top) - 1)
    inside = np.clip((wanted - (top[at] - mass[at])) / mass[at], 0.0, 1.0)
    lo, hi = lo[at], hi[at]
    return np.where(lo == hi, lo, lo * (1 - inside) + hi * inside)
