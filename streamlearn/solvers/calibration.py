"""Probabilities from decisions: Platt's sigmoid and isotonic regression, from one read.

The read keeps a histogram of the decisions of held-out rows: 4,096 bins a class, equal in
f / (1 + |f|), each with the weight of its rows, of the positive ones, and its mean decision.  What
is fitted to the bins differs from what would be fitted to the rows by less than a bin: 0.0005 at a
decision of 0, 0.002 at one of 1.

Never calibrate on training rows: their margins are too large (Platt 1999).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..data.source import Chunk
from ..errors import LackError
from ..numeric.checks import check_array
from ..numeric.links import sigmoid, two_classes
from ..passes.fold import Fold
from ..passes.sums import add_sums
from .damped_newton import damped_newton

N_BINS = 4096
"""Bins of each histogram of decisions."""
METHODS = ("sigmoid", "isotonic")
"""Values of the parameter `calibration`."""


class Calibration(NamedTuple):
    """Curves from decisions to probabilities, one per output."""

    method: str
    scores: list[np.ndarray]
    """For each output: slope and intercept of the log-odds, (2,), or ascending decisions, (n,)."""
    values: list[np.ndarray]
    """For each output the (n,) probabilities at these decisions, linear between them and constant
    outside; (0,) for a sigmoid."""

    def check(self) -> None:
        """Raise ValueError unless the curves can be evaluated: for those from a file."""
        if self.method not in METHODS or len(self.scores) != len(self.values):
            raise ValueError(f"a calibration {self.method!r} of {len(self.scores)} curves")
        for x, p in zip(self.scores, self.values, strict=True):
            n = 2 if self.method == "sigmoid" else len(x)
            check_array("calibration.scores", x, (n,))
            check_array("calibration.values", p, (0 if self.method == "sigmoid" else n,))
            if self.method == "isotonic" and (n == 0 or (np.diff(x) < 0).any()):
                raise ValueError("an isotonic curve needs ascending decisions")

    def probability(self, decision: np.ndarray) -> np.ndarray:
        """(m, K) probabilities of (m,) or (m, K) decisions; K classes are made to sum 1."""
        columns = decision[:, None] if decision.ndim == 1 else decision
        p = np.column_stack([self._curve(k, f) for k, f in enumerate(columns.T)])
        if decision.ndim == 1:
            return two_classes(p[:, 0])
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])

    def _curve(self, k: int, f: np.ndarray) -> np.ndarray:
        if self.method == "sigmoid":
            slope, intercept = self.scores[k]
            return sigmoid(slope * f + intercept)
        return np.interp(f, self.scores[k], self.values[k])


def score_fold(
    decide: Callable[[Chunk], np.ndarray], n_outputs: int
) -> Fold[np.ndarray, np.ndarray]:
    """Fold: the histograms of the decisions of rows, (K, 3, 4096) float64.

    Of each bin the weight, the weight of the positive rows and the weighted sum of decisions.  Rows
    carry codes of classes; the positive class of one output is 1, of output k of several k.
    """
    return Fold(partial(empty_histograms, n_outputs), partial(_add_scores, decide), add_sums)


def empty_histograms(n_outputs: int) -> np.ndarray:
    """(K, 3, 4096) zeros: the histograms of no rows."""
    return np.zeros((n_outputs, 3, N_BINS))


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


def calibrate(method: str, histograms: Sequence[np.ndarray]) -> Calibration:
    """Fit the curve of every output to its histogram.

    Raises
    ------
    LackError
        If no rows were held out.
    """
    scores, values = [], []
    for histogram in histograms:
        full = histogram[0] > 0
        if not full.any():
            raise LackError(
                f"calibration={method!r} holds out a tenth of the rows by their numbers' hash, and "
                "none of so few is in it",
                "fit more rows, or leave calibration out",
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

    Targets are (N+ + 1)/(N+ + 2) and 1/(N- + 2) in place of 1 and 0: the minimum is finite even if
    a threshold separates the classes.
    """
    n_positive, n_negative = positive.sum(), (weight - positive).sum()
    target = positive * ((n_positive + 1) / (n_positive + 2))
    target += (weight - positive) / (n_negative + 2)
    return np.array(fit_log_odds(f, target, weight)), np.empty(0)


def fit_log_odds(
    f: np.ndarray, positive: np.ndarray, weight: np.ndarray, ridge: float = 0.0
) -> tuple[float, float]:
    """Slope a and intercept c of the log-odds of largest likelihood.

    minimise  sum_i [s_i log(1 + e^{z_i}) - t_i z_i] + ridge a^2 / 2,  z = a f + c

    Parameters
    ----------
    f : (n,) float64
        Decisions.
    positive : (n,) float64
        t: weight of the positive rows at each decision.
    weight : (n,) float64
        s: weight of all rows there.
    """
    centre = weight @ f / weight.sum()
    scale = np.sqrt(weight @ (f - centre) ** 2 / weight.sum()) or 1.0
    A = np.column_stack([(f - centre) / scale, np.ones_like(f)])
    penalty = np.array([ridge / scale**2, 0.0])

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        z = A @ theta
        p = sigmoid(z)
        value = weight @ np.logaddexp(0, z) - positive @ z + 0.5 * penalty @ theta**2
        gradient = A.T @ (weight * p - positive) + penalty * theta
        return value, gradient, A.T @ ((weight * p * (1 - p))[:, None] * A) + np.diag(penalty)

    of_class = positive.sum(), (weight - positive).sum()
    theta, _ = damped_newton(evaluate, np.array([0.0, np.log(of_class[0] / of_class[1])]))
    a = float(theta[0] / scale)
    return a, float(theta[1] - a * centre)


def fit_isotonic(
    f: np.ndarray, positive: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The non-decreasing curve of least squares (pool adjacent violators), at the bins' means.

    Of a flat stretch only the ends are kept: the curve is the same.
    """
    from sklearn.isotonic import isotonic_regression

    p = isotonic_regression(positive / weight, sample_weight=weight, y_min=0.0, y_max=1.0)
    kept = np.ones(len(p), bool)
    kept[1:-1] = (p[1:-1] != p[:-2]) | (p[1:-1] != p[2:])
    return f[kept], p[kept]
