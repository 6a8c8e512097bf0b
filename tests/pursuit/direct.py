"""Fits from rows in hand, written down plainly: what the passes are held against."""

import numpy as np
from scipy.interpolate import BSpline

from streamlearn.pursuit.regression.smoothers import GRID, LEAST_DIVISOR


def product(seed, sd, n=300):
    """x1 x2 and noise, as in eq. 10."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5))
    return X, X[:, 0] * X[:, 1] + sd * rng.standard_normal(n)


def circle(seed, n=600, flipped=0.05):
    """Fig. 1: half of the area is inside; three columns say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 5))
    y = (X[:, :2] ** 2).sum(axis=1) < 2 / np.pi
    return X, (y ^ (rng.random(n) < flipped)).astype(int)


def z_of(X, columns):
    clipped = np.clip(np.asarray(X, np.float64), columns.low, columns.high)
    return (clipped - columns.center) / columns.scale


def design(t, low, high, n):
    """(m, n) uniform cubic splines by scipy."""
    h = (high - low) / (n - 3)
    knots = low + h * np.arange(-3, n + 1)
    return BSpline.design_matrix(np.clip(t, low, high - 1e-13 * h), knots, 3).toarray()


def cost_of(t, r, w, low, high, n):
    """The least GCV cost over the grid, by one dense solve for each penalty.

    A degree of freedom counts log(n) / 2, and 1.4 at least.
    """
    gamma = max(1.4, 0.5 * np.log(w.sum()))
    Phi = design(t, low, high, n)
    G, b = Phi.T @ (w[:, None] * Phi), Phi.T @ (w * r)
    D = np.diff(np.eye(n), 2, axis=0)
    P = D.T @ D
    costs = []
    for mu in GRID * np.trace(G) / np.trace(P):
        inverse = np.linalg.pinv(G + mu * P, hermitian=True)
        rss = float(w @ (r - Phi @ (inverse @ b)) ** 2)
        left = 1 - gamma * np.trace(inverse @ G) / w.sum()
        costs.append(rss / max(left, LEAST_DIVISOR) ** 2)
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


def charge_of(t, plus, w, v, low, high, n_bins):
    """Half of (sum w v^2 by class, of weights of mass 1) for each bin but one, less for light ones.

    `v` are the rows' weights without `w`.
    """
    place = np.clip(((t - low) / (high - low) * n_bins).astype(int), 0, n_bins - 1)
    noise, mass = 0.0, np.zeros(n_bins)
    for c in (False, True):
        mine = plus == c
        total = (w * v)[mine].sum()
        noise += (w * v**2)[mine].sum() / total**2
        mass += 0.5 * np.bincount(place[mine], (w * v)[mine], n_bins) / total
    return sum(min(noise / 2, 2 * m) for m in mass) - noise / 2


def binned(t, r, w, low, high, n_bins):
    """Counts and moments of rows in bins of equal width."""
    place = np.clip(((t - low) / (high - low) * n_bins).astype(int), 0, n_bins - 1)
    return np.bincount(place, w, n_bins), np.bincount(place, w * r, n_bins)


def lines(u, w, y, span):
    """Weighted lines around each point, by least squares: at the point, and without the point."""
    edges = np.append(0.0, np.cumsum(w))
    total = edges[-1]
    fitted, without = np.empty(len(u)), np.empty(len(u))
    for j in range(len(u)):
        mass = min(max(span * total, 2 * w[j]), total)
        low = np.clip(edges[j] + (w[j] - mass) / 2, 0.0, total - mass)
        share = np.minimum(edges[1:], low + mass) - np.maximum(edges[:-1], low)
        inside = np.maximum(share, 0.0)
        for out, weight in (
            (fitted, inside),
            (without, np.where(np.arange(len(u)) == j, 0, inside)),
        ):
            root = np.sqrt(weight)
            design = np.column_stack([root, root * (u - u[j])])
            out[j] = np.linalg.lstsq(design, root * y, rcond=1e-7)[0][0]
    return fitted, without


def super_smoother(counts, moments):
    """Friedman's super smoother of one set of bins, and its trace, step by step."""
    used = counts > 0
    w, y = counts[used], moments[used] / counts[used]
    centres = (np.arange(len(counts)) + 0.5) / len(counts)
    u = centres[used]
    spans = [0.05, 0.2, 0.5]
    fits = [lines(u, w, y, span) for span in spans]
    around = [lines(u, w, np.abs(y - without), 0.2)[0] for _, without in fits]
    best = np.array(spans)[np.argmin(around, axis=0)]
    span = np.clip(lines(u, w, best, 0.2)[0], 0.05, 0.5)
    smooth = [np.interp(span[j], spans, [f[0][j] for f in fits]) for j in range(len(u))]
    with np.errstate(invalid="ignore", divide="ignore"):
        leverages = [np.nan_to_num(1 - (y - f) / (y - without)) for f, without in fits]
    trace = sum(np.interp(span[j], spans, [h[j] for h in leverages]) for j in range(len(u)))
    return np.interp(centres, u, lines(u, w, np.array(smooth), 0.05)[0]), trace
