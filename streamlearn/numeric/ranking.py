"""Measures of how well scores rank rows, from groups of rows in order, each with its largest error.

A group holds rows whose scores are equal, or so close that they were not told apart.  Its rows
count as equal; `error` is the most that telling them apart could change the value.  Groups stand in
ascending order of their scores; `positive` and `negative` (G,) are the weights of their rows of the
class and of all other rows.  A measure that is not defined, because one of the two has no weight,
is NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Ranked(NamedTuple):
    """A measure, and how far it may be off."""

    value: float
    error: float


def area_under_roc(positive: np.ndarray, negative: np.ndarray) -> Ranked:
    """The chance that a row of the class is above another row, equal scores counted half."""
    n, m = positive.sum(), negative.sum()
    if not (n > 0 and m > 0):
        return Ranked(np.nan, 0.0)
    below = np.cumsum(negative) - negative
    area = positive @ (below + 0.5 * negative) / (n * m)
    return Ranked(float(area), float(0.5 * (positive @ negative) / (n * m)))


def average_precision(positive: np.ndarray, negative: np.ndarray) -> Ranked:
    """The mean, over the rows of the class, of the precision among rows that score as high."""
    n, m = positive.sum(), negative.sum()
    if not (n > 0 and m > 0):
        return Ranked(np.nan, 0.0)
    some = positive > 0
    hits_to = np.cumsum(positive[::-1])[::-1][some]
    alarms_to = np.cumsum(negative[::-1])[::-1][some]
    hits, alarms = positive[some], negative[some]
    share, own = hits / n, hits_to / (hits_to + alarms_to)
    # within a group: all other rows first, before any of the class; or all of the class first
    before = np.maximum(hits_to - hits, 0.0)
    reach = before + alarms_to
    least = np.divide(before, reach, out=np.ones_like(own), where=reach > 0)
    most = hits_to / (hits_to + np.maximum(alarms_to - alarms, 0.0))
    return Ranked(float(share @ own), float(max(share @ (own - least), share @ (most - own))))


def lift(positive: np.ndarray, negative: np.ndarray, part: int, n_parts: int = 10) -> Ranked:
    """Frequency of the class in one of `n_parts` equal parts of the rows, over that in all rows.

    Part 1 holds the rows of the highest scores.  A group that lies in two parts gives each the same
    mixture.
    """
    n, m = positive.sum(), negative.sum()
    if not (n > 0 and m > 0):
        return Ranked(np.nan, 0.0)
    hits, rows = positive[::-1], (positive + negative)[::-1]
    end = np.cumsum(rows)
    low, high = (n + m) * (part - 1) / n_parts, (n + m) * part / n_parts
    inside = np.clip(np.minimum(end, high) - np.maximum(end - rows, low), 0.0, None)
    share = np.divide(inside, rows, out=np.zeros_like(rows), where=rows > 0)
    found = hits * share
    most, least = np.minimum(inside, hits), np.maximum(inside - (rows - hits), 0.0)
    scale = n / n_parts  # what the part would hold at the frequency of all rows
    error = max((most - found).sum(), (found - least).sum()) / scale
    return Ranked(float(found.sum() / scale), float(error))
