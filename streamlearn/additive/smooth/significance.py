"""Tests of terms: the size of each against what noise alone would make of it.

The statistic of a term is T = w'H w / psi, w its coefficients and H its part of the losses'
curvature: the squared curve, summed over the rows.  Without an effect w is normal with the
covariance psi V H V (its own part), so T is a sum of chi squares weighted by the eigenvalues of H
times V H V (Wood 2013, "A simple test for random effects in regression models").  Where psi is
estimated from n - edf rows, T has that chi square over its degrees below it.  The weights of the
penalties are taken as known, so p-values are approximate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

NEAR = 1e-4
"""Standard deviations from the mean within which the saddlepoint's limit there is taken."""


class Significance(NamedTuple):
    """One term's test."""

    freedom: float
    """Degrees of freedom of the chi square nearest to the reference."""
    statistic: float
    """T over its mean under no effect: about an F, or a chi square over its degrees."""
    p_value: float


def test_term(
    w: np.ndarray, H: np.ndarray, VHV: np.ndarray, psi: float, rows: float | None
) -> Significance:
    """The test of a term: its coefficients (n,), parts (n, n) of H and of V H V.

    `rows`: degrees of freedom from which psi was estimated; None: it is known.
    """
    values, vectors = np.linalg.eigh(H)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    weights = np.linalg.eigvalsh(root.T @ VHV @ root)
    weights = weights[weights > 1e-10 * max(float(weights.max(initial=0.0)), 1e-300)]
    if not len(weights):
        return Significance(0.0, 0.0, 1.0)
    total = float(weights.sum())
    T = float(w @ H @ w) / psi
    freedom = total**2 / float((weights**2).sum())
    scaled, x = weights / total, T / total
    if rows is None:
        p = upper_tail(scaled, np.ones(len(scaled)), x)
    else:
        p = upper_tail(np.append(scaled, -x / rows), np.append(np.ones(len(scaled)), rows), 0.0)
    return Significance(freedom, x, p)


def upper_tail(weights: np.ndarray, degrees: np.ndarray, x: float) -> float:
    """P(sum_r weights_r chi2(degrees_r) > x), the chi squares independent.

    By the saddlepoint (Lugannani & Rice 1980; Kuonen 1999), whose relative error is a few percent
    in the tails as well; some weights are above 0.
    """
    size = float(np.abs(weights).max())
    weights, x = weights / size, x / size
    low = 0.5 / float(weights.min()) if weights.min() < 0 else -np.inf
    high = 0.5 / float(weights.max())

    def slope(t: float) -> float:
        return float((degrees * weights / (1.0 - 2.0 * t * weights)).sum()) - x

    if weights.min() >= 0 and x <= 0:
        return 1.0
    deviation = np.sqrt(2.0 * float(degrees @ weights**2))
    if abs(slope(0.0)) < NEAR * deviation:
        skewness = 8.0 * float(degrees @ weights**3) / deviation**3
        return float(0.5 - skewness / (6.0 * np.sqrt(2.0 * np.pi)))
    if slope(0.0) < 0:
        begin, end = 0.0, high * (1.0 - 1e-14)
        if slope(end) <= 0:
            return 0.0
    else:
        begin, end = low * (1.0 - 1e-14), 0.0
        if not np.isfinite(low):
            begin = -1.0
            while slope(begin) > 0:
                begin *= 2.0
        elif slope(begin) >= 0:
            return 1.0
    t = float(brentq(slope, begin, end, rtol=1e-14))
    left = 1.0 - 2.0 * t * weights
    value = -0.5 * float(degrees @ np.log(left))
    w = np.sign(t) * np.sqrt(max(2.0 * (t * x - value), 1e-300))
    v = t * np.sqrt(float((2.0 * degrees * weights**2 / left**2).sum()))
    return float(np.clip(ndtr(-(w + np.log(v / w) / w)), 0.0, 1.0))
