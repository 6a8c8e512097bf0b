"""Times on circles: what repeats itself by day, week and year, and in which units it is told."""

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
    """Rule of a feature of times: seconds / unit + begin, and what a period leaves of that."""

    unit: float
    begin: float
    period: float
    """In the unit; 0: the time goes on."""

    def of(self, seconds: np.ndarray) -> np.ndarray:
        """The values of times in seconds since 1970, or since midnight."""
        x = seconds / self.unit + self.begin
        return x % self.period if self.period else x
