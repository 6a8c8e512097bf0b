"""Links between the mean of a target and a decision, and probabilities from decisions.

A loss names its link; families ask the functions below.  Every one of them is free of overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


def sigmoid(f: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-f)."""
    p: np.ndarray = 0.5 * (1.0 + np.tanh(0.5 * f))
    return p


def logit(p: np.ndarray) -> np.ndarray:
    """log(p / (1 - p))."""
    f: np.ndarray = np.log(p) - np.log1p(-p)
    return f


def log_sum(S: np.ndarray, axis: int) -> np.ndarray:
    """log of the sum of e^S along an axis, which is kept; the largest is taken out first."""
    top = S.max(axis=axis, keepdims=True)
    total: np.ndarray = top + np.log(np.exp(S - top).sum(axis=axis, keepdims=True))
    return total


def to_softmax(S: np.ndarray, axis: int = 1) -> np.ndarray:
    """Make S the softmax, e^S over its sum along the axis, in place; returns `log_sum`."""
    top = S.max(axis=axis, keepdims=True)
    S -= top
    np.exp(S, out=S)
    total = S.sum(axis=axis, keepdims=True)
    S /= total
    logs: np.ndarray = np.log(total) + top
    return logs


def share_out(S: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """`log_sum` and the softmax, in new arrays from one exponential."""
    shares = S.copy()
    return to_softmax(shares, axis), shares


def two_classes(p: np.ndarray) -> np.ndarray:
    """(m, 2) probabilities of both classes, from (m,) those of the second."""
    return np.column_stack([1.0 - p, p])


def softmax_probabilities(decision: np.ndarray) -> np.ndarray:
    """(m, K) probabilities of (m, K) decisions by the softmax, or (m, 2) of (m,) log-odds."""
    if decision.ndim == 1:
        return two_classes(sigmoid(decision))
    return share_out(decision, 1)[1]


def rest_probabilities(decision: np.ndarray, inverse: Callable[..., np.ndarray]) -> np.ndarray:
    """(m, K) probabilities of one class against the rest, made to sum to 1; (m, 2) of (m,)."""
    p = inverse(decision)
    if decision.ndim == 1:
        return two_classes(p)
    return p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


def _same(x: np.ndarray) -> np.ndarray:
    return x


class Link(NamedTuple):
    """A monotone map from the mean of a target to a decision, and its inverse."""

    name: str
    decision: Callable[..., np.ndarray]
    """The decision at which the target has this mean."""
    mean: Callable[..., np.ndarray]
    """The mean of the target at this decision: the inverse link."""


IDENTITY = Link("identity", _same, _same)
LOG = Link("log", np.log, np.exp)
LOGIT = Link("logit", logit, sigmoid)
