"""Fits from rows in hand, written down plainly: what the passes are held against."""

import numpy as np
from scipy.interpolate import BSpline

from streamlearn.pursuit.smoothers import GAMMA, GRID, LEAST


def z_of(X, columns):
    clipped = np.clip(np.asarray(X, np.float64), columns.low, columns.high)
    return (clipped - columns.center) / columns.scale


def design(t, low, high, n):
    """(m, n) uniform cubic splines by scipy."""
    h = (high - low) / (n - 3)
    knots = low + h * np.arange(-3, n + 1)
    return BSpline.design_matrix(np.clip(t, low, high - 1e-13 * h), knots, 3).toarray()


def cost_of(t, r, w, low, high, n):
    """The least GCV cost over the grid, by one dense solve for each penalty."""
    Phi = design(t, low, high, n)
    G, b = Phi.T @ (w[:, None] * Phi), Phi.T @ (w * r)
    D = np.diff(np.eye(n), 2, axis=0)
    P = D.T @ D
    costs = []
    for mu in GRID * np.trace(G) / np.trace(P):
        inverse = np.linalg.pinv(G + mu * P, hermitian=True)
        rss = float(w @ (r - Phi @ (inverse @ b)) ** 2)
        left = 1 - GAMMA * np.trace(inverse @ G) / w.sum()
        costs.append(rss / max(left, LEAST) ** 2)
    return min(costs)


def divergence_of(t, plus, v, low, high, n_bins):
    """Symmetric Jensen-Shannon divergence of smoothed histograms, from rows."""
    place = np.clip(((t - low) / (high - low) * n_bins).astype(int), 0, n_bins - 1)
    h = []
    for c in (False, True):
        counts = np.bincount(place[plus == c], v[plus == c], n_bins)
        h.append((counts / counts.sum() + 0.01 / n_bins) / 1.01)
    half = 0.5 * (h[0] + h[1])
    return float(sum((x * np.log(x / half)).sum() for x in h))
