"""Weighted histograms of two classes: their divergence, the weak learner, its significance."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from ...solvers.calibration import fit_log_odds

RIDGE = 1e-3
"""Twice the penalty on the squared slope of the log-odds, which bounds it for separable classes."""
SMOOTHING = 1e-2
"""Share of a histogram's mass that is spread over all its bins."""
FLOOR = 1e-10
"""Least mass of a bin of a histogram that is not smoothed."""
CHARGE = 2.0
"""Charge for a bin, in units of the gain that noise alone has by it."""
LEVEL = 0.005
"""Level of the first learner's test on rows that the search has not seen."""
LATER = 0.2
"""Level of the tests after it.  Where there is a signal, missing more of it costs more than a
learner of noise, which is small.  On held-out rows of noisy training sets 0.2 was better than 0.005
and 0.05."""


def smoothed(counts: np.ndarray) -> np.ndarray:
    """Histograms (..., B) of mass 1, (h + e) / (1 + B e) with e = 0.01 / B.

    The histogram of a class without weight is even.
    """
    B = counts.shape[-1]
    total = counts.sum(-1, keepdims=True)
    h: np.ndarray = np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / B)
    return (h + SMOOTHING / B) / (1.0 + SMOOTHING)


def blurred(h: np.ndarray) -> np.ndarray:
    """Histograms (k, B) whose bins share with neighbours by 1/4, 1/2, 1/4, with the same mass."""
    padded = np.concatenate([h[:, :1], h, h[:, -1:]], axis=1)
    shared: np.ndarray = 0.25 * padded[:, :-2] + 0.5 * padded[:, 1:-1] + 0.25 * padded[:, 2:]
    return shared


def divergence(plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """Symmetric Jensen-Shannon divergence of histograms of mass 1 (eq. 13), in [0, 2 ln 2].

    It lacks the factor 1/2 of the usual definition.
    """
    half = 0.5 * (plus + minus)
    safe = np.where(half > 0, half, 1.0)
    terms = [
        np.where(h > 0, h * np.log(np.where(h > 0, h, 1.0) / safe), 0.0) for h in (plus, minus)
    ]
    return np.maximum((terms[0] + terms[1]).sum(-1), 0.0)


def noise_of(sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """(2,) sum of squares of each class's weights, scaled to mass 1; 1 / rows if they are even."""
    totals = sums.sum(0)
    mass = np.where(totals > 0, totals, 1.0)
    return squares / mass / mass  # a square of what is very small is 0


def charge_of_bins(sums: np.ndarray, noise: float) -> np.ndarray:
    """(k,) charges that a divergence must exceed to be found on new rows too; sums (k, B, 2).

    Equal classes differ by noise / 4 for each bin but one, as 4 SJS / noise is distributed as
    chi-squared with B - 1 degrees of freedom, and a learner loses as much again on new rows (as in
    Akaike 1974).  A bin lighter than a row is charged by its mass.  Without a charge, columns of
    noise, which fill all bins, would hide columns of few values.
    """
    totals = sums.sum(-2, keepdims=True)
    mass = (sums / np.where(totals > 0, totals, 1.0)).mean(-1)
    return CHARGE * (np.minimum(0.25 * noise, mass).sum(-1) - 0.25 * noise)


def slopes(plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """(..., B, 2) derivatives of the divergence by the mass of each bin of each class."""
    half = 0.5 * (plus + minus)
    return np.stack([np.log(plus / half), np.log(minus / half)], axis=-1)


def learner(plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """(B,) heights of the weak learner, 1/2 log(h+ / h-) (Table 6)."""
    return 0.5 * np.log(plus / minus)


def significance(sums: np.ndarray, squares: np.ndarray, heights: np.ndarray) -> float:
    """The p-value of weighted counts (B, 2) of new rows under equal classes, against `heights`.

    With weights of mass 1 in each class, the sum of heights (h+ - h-) is normal about 0 under equal
    classes, with the variance of the heights over the rows times sum v+^2 + sum v-^2.  The test is
    one-sided.  It looks in the one direction that other rows have found, so it detects differences
    far too small for a test in all directions at once.
    """
    totals = sums.sum(0)
    if not (totals > 0).all():
        return 1.0
    noise = float((squares / totals / totals).sum())
    h = sums / totals
    mean = h.mean(1)
    centred = heights - mean @ heights
    variance = noise * float(mean @ centred**2)
    if not variance > 0:
        return 1.0
    return float(norm.sf(centred @ (h[:, 1] - h[:, 0]) / np.sqrt(variance)))


def fit_logistic(margins: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """(a, b) in P(+) = 1/(1 + exp(-(a F + b))), from class counts (c, 2) at margins F (c,).

    Counts of minus come first.  The penalty is that of two rows of weight 1/2 at F = 0, one of each
    class, so that separable classes have an answer; a is at least 0.
    """
    x = np.append(margins, 0.0)
    minus, plus = np.vstack([counts, [0.5, 0.5]]).T
    a, b = fit_log_odds(x, plus, minus + plus, RIDGE)
    return (a, b) if a >= 0 else (0.0, float(np.log(plus.sum() / minus.sum())))
