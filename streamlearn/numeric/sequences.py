"""Sequences in parameters: what a user gives as a list, a tuple or an array, read or refused."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from numbers import Real
from reprlib import repr as short

import numpy as np


def numbers_of(name: str, value: object, expected: str, ndim: int = 1) -> np.ndarray:
    """The numbers that a parameter holds, float64 of `ndim` axes; `expected` is what it may be."""
    items = _items(name, value, expected)
    if ndim == 1:
        return np.array([_number(name, item, expected) for item in items], np.float64)
    rows = [numbers_of(name, item, expected, ndim - 1) for item in items]
    if len({row.shape for row in rows}) > 1:
        raise _refused(name, f"is ragged, {short(value)}", expected)
    return np.array(rows) if rows else np.zeros([0] * ndim)


def integers_of(name: str, value: object, expected: str) -> list[int]:
    """The integers that a parameter holds."""
    found: list[int] = []
    for item in _items(name, value, expected):
        if isinstance(item, bool) or not isinstance(item, int | np.integer):
            raise _refused(name, f"holds {short(item)}", expected)
        found.append(int(item))
    return found


def labels_of(name: str, value: object, expected: str) -> np.ndarray:
    """The labels that a parameter holds: all of them words, or all of them numbers."""
    items = _items(name, value, expected)
    if not all(isinstance(item, str) for item in items):
        for item in items:
            if isnan(_number(name, item, expected)):
                raise _refused(name, "holds nan", expected)
    return np.asarray(items)


def number_of(name: str, value: object, expected: str) -> float:
    """The number that a parameter is."""
    return _number(name, value, expected, "is")


def _items(name: str, value: object, expected: str) -> list[object]:
    """The items of a list, a tuple, a range or an array; words, sets and mappings are none."""
    if hasattr(value, "__array__"):
        value = np.asarray(value).tolist()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _refused(name, f"has {short(value)} in place of a list", expected)
    return list(value)


def _number(name: str, item: object, expected: str, verb: str = "holds") -> float:
    if isinstance(item, bool | np.bool_) or not isinstance(item, Real):
        raise _refused(name, f"{verb} {short(item)}", expected)
    try:
        return float(item)
    except OverflowError:
        raise _refused(name, f"{verb} {short(item)}, too large for a float", expected) from None


def _refused(name: str, what: str, expected: str) -> ValueError:
    return ValueError(f"{name} {what}; expected {expected}")
