"""Scores of pairs of columns: how far each would lower the objective, from slopes and curvatures.

At the main effects the objective falls by -sum G t - 1/2 sum H t^2 for a table t over the bins of
both columns, with the sums G of slopes and H of curvatures in each cell.  The best table lowers it
by 1/2 sum G^2 / H.  What row and column effects alone reach belongs to the main effects, and would
win wherever a curve could not follow: it is subtracted, so what counts is the best table whose
means along both axes, weighted by H, are 0 (Lou et al. 2013, with the purification of Lengerich
et al. 2020).  From noise alone, twice that is phi chi2 with as many degrees of freedom as the table
has beyond its margins; phi = sum (slope)^2 / sum H.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

LEVEL = 0.01
"""Chance that any pair at all is taken where no two columns act together (Bonferroni)."""
BLOCK = 256
"""Pairs whose margins are found together."""
RIDGE = 1e-10
"""Share of the mean curvature that makes the margins' system regular: a constant may be in both."""


class Scores(NamedTuple):
    """The gain that each pair promises, and its test."""

    decrease: np.ndarray
    """(n_pairs,) by how much the best purified tables lower the sum of the losses."""
    excess: np.ndarray
    """(n_pairs,) the same less what noise alone gives."""
    statistic: np.ndarray
    """(n_pairs,) twice the decrease over the dispersion, of as many"""
    freedom: np.ndarray
    """(n_pairs,) degrees of freedom where the two columns do not act together."""

    @property
    def p_value(self) -> np.ndarray:
        """(n_pairs,) of the hypothesis that the two columns do not act together."""
        return p_values(self.statistic, self.freedom)


def score_pairs(
    tables: np.ndarray, shape: np.ndarray, at: np.ndarray, dispersion: np.ndarray
) -> Scores:
    """The scores of all pairs.

    `tables` (K, cells, 2) of K outputs, of which pair i has the cells at[i] to at[i + 1] in
    shape[i] rows and columns; `dispersion` (K,).
    """
    n = len(shape)
    decrease, freedom, noise, statistic = np.zeros((4, n))
    sizes, kind = np.unique(shape, axis=0, return_inverse=True)
    blocks = [
        (a, b, own[start : start + BLOCK])  # pairs of one shape at a time
        for j, (a, b) in enumerate(sizes.tolist())
        for own in [np.flatnonzero(kind.ravel() == j)]
        for start in range(0, len(own), BLOCK)
    ]
    for a, b, own in blocks:
        cells = at[own][:, None] + np.arange(a * b)
        for table, phi in zip(tables, dispersion.tolist(), strict=True):
            G, H = (table[cells, c].reshape(len(own), a, b) for c in range(2))
            gain, df = gains(G, H)
            decrease[own] += 0.5 * gain
            freedom[own] += df
            noise[own] += 0.5 * phi * df
            statistic[own] += gain / phi if phi > 0 else 0.0
    return Scores(decrease, decrease - noise, statistic, freedom)


def p_values(statistic: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """Chances that noise of so many degrees of freedom is as large; 1 where there are none."""
    found: np.ndarray = np.where(freedom > 0, chi2.sf(statistic, np.maximum(freedom, 1)), 1.0)
    return found


def gains(G: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P,) sum G^2 / H less what margins reach, and degrees of freedom, of tables (P, a, b)."""
    met = H > 0
    whole = np.where(met, G**2 / np.where(met, H, 1.0), 0.0).sum(axis=(1, 2))
    a = G.shape[1]
    sums = np.concatenate([G.sum(axis=2), G.sum(axis=1)], axis=1)
    masses = np.concatenate([H.sum(axis=2), H.sum(axis=1)], axis=1)
    system = np.zeros((len(G), len(sums[0]), len(sums[0])))
    places = np.arange(system.shape[1])
    scale = masses.mean(axis=1, keepdims=True)
    system[:, places, places] = masses + RIDGE * scale + (masses <= 0)
    system[:, :a, a:], system[:, a:, :a] = H, H.transpose(0, 2, 1)
    margins = np.linalg.solve(system, sums[:, :, None])[:, :, 0]
    reached = (margins * sums).sum(axis=1)
    rank = np.full(len(G), sum(G.shape[1:]) - 1)
    for i in np.flatnonzero(~met.all(axis=(1, 2))):  # cells without rows: margins may fall apart
        rank[i] = _rank(met[i])
    df = met.sum(axis=(1, 2)) - rank
    return np.maximum(whole - reached, 0.0), df.astype(np.float64)


def _rank(met: np.ndarray) -> int:
    """Dimension of all row and column effects over the cells (a, b) that are met.

    As many as there are rows and columns with a cell, less one for each part that no cell joins.
    """
    a, b = met.shape
    part = np.arange(a + b)
    while True:  # the smallest number of a part spreads over its cells
        low = np.where(met, np.minimum(part[:a, None], part[None, a:]), a + b)
        spread = np.minimum(part, np.concatenate([low.min(axis=1), low.min(axis=0)]))
        if (spread == part).all():
            break
        part = spread
    used = np.concatenate([met.any(axis=1), met.any(axis=0)])
    return int(used.sum() - len(np.unique(part[used])))


def best_pairs(scores: Scores, most: int) -> np.ndarray:
    """Numbers of at most so many pairs, the most promising first; none that noise could give."""
    found = scores.p_value * max(len(scores.p_value), 1) < LEVEL
    order = np.argsort(-scores.excess, kind="stable")
    return order[found[order]][:most]
