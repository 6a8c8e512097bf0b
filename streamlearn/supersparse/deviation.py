"""How a compressed model differs from its original."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold


class Deviation(NamedTuple):
    """How a compressed model differs from its original, over rows."""

    agreement: float
    """Share of rows that both give the same class; 1 for regressors."""
    rms: float
    """Root of the mean squared difference of the decisions."""
    largest: float
    """Largest difference of a decision."""
    weight: float
    """Sum of the rows' weights; without weights their number."""


def deviation_fold(model: Any, classify: bool) -> Fold[np.ndarray, Deviation]:
    """Fold: the `Deviation` of a fitted model from ``chunk.y``, the original's decisions."""
    return Fold(partial(np.zeros, 4), partial(_compare, model, classify), _add, _share)


def _compare(model: Any, classify: bool, sums: np.ndarray, chunk: Chunk) -> np.ndarray:
    if not chunk.n_rows:
        return sums
    mine = model._decision_chunk(chunk)
    theirs = chunk.y.reshape(mine.shape)
    u = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    same = np.ones(chunk.n_rows, bool)
    if classify:
        both = [d > 0 if d.ndim == 1 else d.argmax(axis=1) for d in (mine, theirs)]
        same = both[0] == both[1]
    off = np.abs(mine - theirs)
    squares = off**2 if off.ndim == 1 else (off**2).sum(axis=1)
    largest = off[u > 0].max(initial=0.0)
    return _add(sums, np.array([u.sum(), u @ same, u @ squares, largest]))


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = a + b
    out[3] = max(a[3], b[3])
    return out


def _share(sums: np.ndarray) -> Deviation:
    weight, same, squares, largest = sums.tolist()
    total = max(weight, np.finfo(np.float64).tiny)
    return Deviation(same / total, float(np.sqrt(squares / total)), largest, weight)
