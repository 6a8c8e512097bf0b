"""How the training rows lie along each column, from the summary alone: for pictures and ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..numeric.means import Spread, mean_sizes
from .kernels_bars import add_to_bars

N_BARS = 32
"""Bars of the density of a column that is drawn as a line."""
STEPS = np.arange(N_BARS + 1) / N_BARS


class Density(NamedTuple):
    """Shares of the rows between edges, or at values."""

    at: np.ndarray
    """(m + 1,) edges, or (m,) values."""
    share: np.ndarray
    """(m,) adding up to 1 but for what lies outside the edges, or is missing."""
    missing: float
    """Share of the rows without a value."""


def densities(summary: Any, knots: list[np.ndarray]) -> list[Density]:
    """Of every column: at its values if each has a breakpoint of its own, else in 32 bars."""
    return [_density(column, points) for column, points in zip(summary.columns, knots, strict=True)]


def _density(column: Any, knots: np.ndarray) -> Density:
    total = column.count + column.missing
    missing = column.missing / total if total else 0.0
    if not len(knots) or not column.count:
        return Density(np.empty(0), np.empty(0), missing)
    lo, hi, mass = column.cdf()
    there = mass > 0
    lo, hi, share = lo[there], hi[there], mass[there] / mass.sum() * (1.0 - missing)
    if column.levels is not None:  # some may be there in rows that weigh nothing alone
        return Density(knots, np.bincount(lo.astype(np.intp), share, len(knots)), missing)
    if len(lo) == len(knots) and (lo == hi).all():
        return Density(np.asarray(lo, float), share, missing)
    bars = np.zeros(N_BARS)
    edges = knots[0] + STEPS * (knots[-1] - knots[0])
    edges[-1] = knots[-1]
    add_to_bars(np.asarray(lo, float), np.asarray(hi, float), share, edges, bars)
    return Density(edges, bars, missing)


def term_importances(model: Any, points: Spread) -> np.ndarray:
    """(p,) mean of |f_d| over the rows, which lie at `points`; averaged over the outputs."""
    return mean_sizes(model.bases_, points, model.coef_, model._shifts)
