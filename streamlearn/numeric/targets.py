"""Kinds of target, and which values each may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Target(NamedTuple):
    """A kind of target, and which values it may have."""

    name: str
    """One word for tables and messages."""
    wanted: str
    """Words for the values allowed, as messages ask for them."""
    holds: Callable[[float, float], bool]
    """Whether targets between these two values, the smallest and the largest, are of the kind."""


def _any(low: float, high: float) -> bool:
    return True


def _counts(low: float, high: float) -> bool:
    return low >= 0 and high > 0


def _amounts(low: float, high: float) -> bool:
    return low > 0


CLASS = Target("class", "class labels", _any)
NUMBER = Target("number", "numbers", _any)
COUNT = Target("count", "counts of at least 0, not all of them 0", _counts)
TOTAL = Target("total", "totals of at least 0, not all of them 0", _counts)
AMOUNT = Target("amount", "amounts above 0", _amounts)
