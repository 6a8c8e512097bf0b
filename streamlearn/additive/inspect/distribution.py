"""How the training rows lie along each column, from the summary alone: for pictures and ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...numeric.bases.means import Pieces, Spread, mean_sizes
from ..basis.kernels_bars import bars_of_columns

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


def densities(summary: Any, knots: list[np.ndarray], pieces: Pieces) -> list[Density]:
    """Of every column: at its values if each has a breakpoint of its own, else in 32 bars."""
    ends = np.array([(k[0], k[-1]) if len(k) else (0.0, 0.0) for k in knots]).reshape(-1, 2)
    edges = ends[:, :1] + STEPS * (ends[:, 1:] - ends[:, :1])
    edges[:, -1] = ends[:, 1]
    bars, n_at = np.zeros((len(knots), N_BARS)), np.zeros(len(knots), np.intp)
    at, share = np.empty(len(pieces.lo)), np.empty(len(pieces.lo))
    bars_of_columns(pieces, edges, bars, at, share, n_at)
    out = []
    for d, (column, points) in enumerate(zip(summary.columns, knots, strict=True)):
        total = column.count + column.missing
        missing = column.missing / total if total else 0.0
        own = slice(pieces.ends[d], pieces.ends[d] + n_at[d])
        if not len(points) or not column.count:
            density = Density(np.empty(0), np.empty(0), missing)
        elif column.levels is not None:  # some may be there in rows that weigh nothing alone
            where = at[own].astype(np.intp)
            density = Density(points, np.bincount(where, share[own], len(points)), missing)
        elif n_at[d] == len(points):
            density = Density(at[own].copy(), share[own].copy(), missing)
        else:
            density = Density(edges[d], bars[d], missing)
        out.append(density)
    return out


def term_importances(model: Any, points: Spread) -> np.ndarray:
    """(p,) mean of |f_d| over the rows, which lie at `points`; averaged over the outputs."""
    return mean_sizes(model.bases_, points, model.coef_, model._shifts)
