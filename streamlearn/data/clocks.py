"""Times and numbers on circles: what repeats itself, and in which units it is told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .column_types import DAY

PERIODS = {"day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}
"""Seconds of what repeats itself; 1 January 1970 was a Thursday, which no sum of waves minds."""
CLOCKS = {
    "day": ("=hour", 3600.0, 0.0),
    "week": ("=weekday", DAY, 3.0),
    "year": ("=yearday", DAY, 0.0),
}
"""Suffix of each period's clock, its unit in seconds, and its value at the first second of 1970:
weekdays begin with Monday."""


class Clock(NamedTuple):
    """Rule of a feature: x / unit + begin, and what a period leaves of that.

    x are times in seconds since 1970, or since midnight; or numbers, whose unit is 1.
    """

    unit: float
    begin: float
    period: float
    """In the unit; 0: the time goes on."""

    def of(self, x: np.ndarray) -> np.ndarray:
        """The values of the feature; infinite where x is, so that it can be refused."""
        x = x / self.unit + self.begin
        return _rest(x, self.period) if self.period else x


def waves(x: np.ndarray, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of where x is on its circle; infinite where x is."""
    rest = _rest(x, period)
    angle = 2 * np.pi * np.where(np.isinf(rest), 0, rest) / period
    return np.where(np.isinf(rest), rest, np.sin(angle)), np.cos(angle)


def _rest(x: np.ndarray, period: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(x), x, x % period)
