"""Probabilities from decisions: Platt's sigmoid and isotonic regression, from one read.

The read keeps a histogram of the decisions of held-out rows: 4,096 bins a class, equal in
f / (1 + |f|), each with the weight of its rows, of the positive ones, and its mean decision.  What
is fitted to the bins differs from what would be fitted to the rows by less than a bin: 0.0005 at a
decision of 0, 0.002 at one of 1.

Never calibrate on training rows: their margins are too large (Platt 1999).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold
from ..passes.sums import add_sums

N_BINS = 4096
METHODS = ("sigmoid", "isotonic")


class Calibration(NamedTuple):
    """Curves from decisions to probabilities, one per output."""

    method: str
    scores: list[np.ndarray]
    """Sigmoid: (2,) slope and intercept of the log-odds.  Isotonic: ascending decisions ..."""
    values: list[np.ndarray]
    """... and the probability at each; linear between them, constant outside.  Sigmoid: empty."""

    def probability(self, decision: np.ndarray) -> np.ndarray:
        """(m, K) probabilities of (m,) or (m, K) decisions; K classes are made to sum 1."""
        columns = decision[:, None] if decision.ndim == 1 else decision
        p = np.column_stack([self._curve(k, f) for k, f in enumerate(columns.T)])
        if decision.ndim == 1:
            return np.column_stack([1.0 - p[:, 0], p[:, 0]])
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])

    def _curve(self, k: int, f: np.ndarray) -> np.ndarray:
        if self.method == "sigmoid":
            slope, intercept = self.scores[k]
            return 0.5 * (1.0 + np.tanh(0.5 * (slope * f + intercept)))
        return np.interp(f, self.scores[k], self.values[k])


def score_fold(
    decide: Callable[[Chunk], np.ndarray], n_outputs: int
) -> Fold[np.ndarray, np.ndarray]:
    """Fold: the histograms of the decisions of rows, (K, 3, 4096) float64.

    Of each bin the weight, the weight of the positive rows and the weighted sum of decisions.  Rows
    carry codes of classes; the positive class of one output is 1, of output k of several k.
    """
    return Fold(partial(np.zeros, (n_outputs, 3, N_BINS)), partial(_add_scores, decide), add_sums)


def _add_scores(
    decide: Callable[[Chunk], np.ndarray], state: np.ndarray, chunk: Chunk
) -> np.ndarray:
    if not chunk.n_rows:
        return state
    decision = decide(chunk)
    columns = decision[:, None] if decision.ndim == 1 else decision
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    for k, f in enumerate(columns.T):
        place = 0.5 * (1.0 + f / (1.0 + np.abs(f)))
        at = np.minimum((N_BINS * place).astype(np.intp), N_BINS - 1)
        positive = chunk.y == (1 if len(state) == 1 else k)
        for part, of_row in zip(state[k], (weight, weight * positive, weight * f), strict=True):
            part += np.bincount(at, of_row, N_BINS)
    return state


def calibrate(method: str, histograms: Any) -> Calibration:
    """Fit the curve of every output to its histogram.

    Raises
    ------
    ValueError
        If no rows were held out.
    """
    scores, values = [], []
    for histogram in histograms:
        full = histogram[0] > 0
        if not full.any():
            raise ValueError(
                f"calibration={method!r} holds out a tenth of the rows by their numbers' hash, and "
                "none of so few is in it; fit more rows, or leave calibration out"
            )
        weight, positive, total = histogram[:, full]
        fit = fit_sigmoid if method == "sigmoid" else fit_isotonic
        x, p = fit(total / weight, positive, weight)
        scores.append(x)
        values.append(p)
    return Calibration(method, scores, values)


def fit_sigmoid(
    f: np.ndarray, positive: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Slope and intercept of the log-odds (Platt 1999), by Newton (Lin, Lin & Weng 2007).

    minimise  sum_i s_i [log(1 + e^{z_i}) - t_i z_i],  z = a f + c, with targets (N+ + 1)/(N+ + 2)
    and 1/(N- + 2) in place of 1 and 0: the minimum is finite even if the classes are apart.
    """
    n_positive, n_negative = positive.sum(), (weight - positive).sum()
    target = positive * ((n_positive + 1) / (n_positive + 2))
    target += (weight - positive) / (n_negative + 2)
    centre = weight @ f / weight.sum()
    scale = np.sqrt(weight @ (f - centre) ** 2 / weight.sum()) or 1.0
    A = np.column_stack([(f - centre) / scale, np.ones_like(f)])

    def objective(theta: np.ndarray) -> float:
        z = A @ theta
        return float(weight @ np.logaddexp(0, z) - target @ z)

    theta = np.array([0.0, np.log((n_positive + 1) / (n_negative + 1))])
    value = objective(theta)
    for _ in range(100):
        p = 0.5 * (1.0 + np.tanh(0.5 * (A @ theta)))
        g = A.T @ (weight * p - target)
        H = A.T @ ((weight * p * (1 - p))[:, None] * A)
        step = -np.linalg.solve(H + 1e-12 * H.trace() * np.eye(2), g)
        size, slope = 1.0, float(g @ step)
        if -slope <= 1e-14 * max(value, 1.0):
            break
        while (new := objective(theta + size * step)) > value + 1e-4 * size * slope and size > 1e-9:
            size /= 2
        theta, value = theta + size * step, min(new, value)
    a = theta[0] / scale
    return np.array([a, theta[1] - a * centre]), np.empty(0)


def fit_isotonic(
    f: np.ndarray, positive: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The non-decreasing curve of least squares (pool adjacent violators), at the bins' means.

    Of a flat stretch only the ends are kept: the curve is the same.
    """
    from sklearn.isotonic import isotonic_regression

    p = isotonic_regression(positive / weight, sample_weight=weight, y_min=0.0, y_max=1.0)
    bend = np.ones(len(p), bool)
    bend[1:-1] = (p[1:-1] != p[:-2]) | (p[1:-1] != p[2:])
    return f[bend], p[bend]
