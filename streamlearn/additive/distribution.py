"""How the training rows lie along each column, from the summary alone: for pictures and ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

N_BARS = 32
"""Bars of the density of a column that is drawn as a line."""
POINTS = 4
"""Of each piece of a distribution that a mean is taken over."""


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
    if (lo == hi).all() and len(lo) == len(knots):
        return Density(np.asarray(lo, float), share, missing)
    edges = np.linspace(knots[0], knots[-1], N_BARS + 1)
    # every piece is spread evenly over its width; one without width lies in the bar it falls in
    width = np.where(hi > lo, hi - lo, 1.0)
    below = np.clip((edges[:, None] - lo) / width, 0.0, 1.0)
    below[:, lo == hi] = edges[:, None] > lo[lo == hi]
    below[-1, lo == hi] = edges[-1] >= lo[lo == hi]
    return Density(edges, np.diff(below @ share), missing)


def term_importances(model: Any, summary: Any) -> np.ndarray:
    """(p,) mean of |f_d| over the rows; averaged over the outputs."""
    importances = np.zeros(len(summary.columns))
    step = (np.arange(POINTS) + 0.5) / POINTS
    for d in np.flatnonzero(np.diff(model.bases_.first)):
        column = summary.columns[d]
        total = column.count + column.missing
        if column.missing:
            at_missing = np.abs(model._curve(d, np.array([np.nan]))).mean()
            importances[d] = at_missing * column.missing / total
        if column.count:
            lo, hi, mass = (np.asarray(a, float)[:, None] for a in column.cdf())
            f = model._curve(d, (lo * (1 - step) + hi * step).ravel())
            size = np.abs(f).reshape(len(f), -1).mean(axis=1).reshape(-1, POINTS).mean(axis=1)
            importances[d] += size @ mass[:, 0] / mass.sum() * column.count / total
    return importances
