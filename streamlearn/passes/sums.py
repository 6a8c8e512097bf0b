"""Addition of states that are sums: what most folds merge by."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

Tree = TypeVar("Tree")


def add_sums(a: Tree, b: Tree) -> Tree:
    """The sum of two states of the same structure, leaf by leaf.

    Arrays, lists and dicts of `a` are updated in place, and `a` must not be used afterwards:
    numbers and tuples (plain and named ones) cannot change, so the sum is what is returned.
    The identity is a state of zeros.
    """
    if isinstance(a, np.ndarray):
        a += b
    elif isinstance(a, dict):
        for key in a:
            a[key] = add_sums(a[key], b[key])  # type: ignore[index]
    elif isinstance(a, list):
        a[:] = [add_sums(x, y) for x, y in zip(a, b, strict=True)]  # type: ignore[call-overload]
    elif isinstance(a, tuple):
        parts = [add_sums(x, y) for x, y in zip(a, b, strict=True)]  # type: ignore[call-overload]
        return tuple(parts) if type(a) is tuple else type(a)(*parts)  # type: ignore[return-value]
    else:
        return a + b  # type: ignore[operator]
    return a
