"""Curvature pairs correct an approximate Hessian: the two-loop recursion of L-BFGS.

    H_0^-1 is what `solve` applies; each pair (a step s and the change y of the gradient along it)
    corrects it so that H^-1 y = s          (Nocedal & Wright 2006, algorithm 7.4)

H_0 need not be a multiple of the identity: the penalty, or the penalty and a sample's curvature,
leaves little for the pairs to correct.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

PAIRS = 10
"""Number of curvature pairs that are stored, unless the caller says otherwise."""
LEAST = 1e-14
"""Curvature of a pair, relative to the lengths of its vectors, below which it is rounding."""


class CurvaturePair(NamedTuple):
    """A step and the change of the gradient along it."""

    step: np.ndarray
    """(n,) s."""
    change: np.ndarray
    """(n,) y."""
    curvature: float
    """s.y, positive."""


def with_pair(
    pairs: list[CurvaturePair],
    step: np.ndarray,
    change: np.ndarray,
    *,
    most: int = PAIRS,
    least: float = LEAST,
) -> list[CurvaturePair]:
    """The last `most` pairs with this one; `pairs` as they are if its curvature is rounding."""
    curvature = float(step @ change)
    if not curvature > least * np.linalg.norm(step) * np.linalg.norm(change):
        return pairs
    return [*pairs[1 - most :], CurvaturePair(step, change, curvature)]


def direction(
    solve: Callable[[np.ndarray], np.ndarray], g: np.ndarray, pairs: list[CurvaturePair]
) -> np.ndarray:
    """-H^-1 g, where H is the matrix that `solve` inverts, corrected by the pairs."""
    g = g.copy()
    shares = []
    for pair in reversed(pairs):
        shares.append(pair.step @ g / pair.curvature)
        g -= shares[-1] * pair.change
    d = solve(g)
    for pair, share in zip(pairs, reversed(shares), strict=True):
        d += (share - pair.change @ d / pair.curvature) * pair.step
    return -d
