"""Quantiles from exact counts over 14 bits of the value.

A float32 read as an integer (with the magnitude flipped when negative) sorts as the numbers do; its
top 14 bits are the sign, the exponent and five bits of the fraction.  Counts over them merge
exactly in any order, and a bin is at most 1/32 of its values wide.

Error: a quantile lies in the bin of the exact one, so it is off by at most 1/32 of its value (4e-40
next to zero), and its rank by at most the bin's mass.  Zeros, the minimum and the maximum are
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
