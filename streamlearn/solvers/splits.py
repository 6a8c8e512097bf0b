"""Folds of cross-validation by a hash of the row number: no copy, no index, the same for all."""

from __future__ import annotations

import numpy as np

from ..data.order import derive_seed, row_share

FOLDS = 0x666F6C6473
"""Makes the folds' seed unrelated to that of a split the user drew with the same small number."""


def fold_edges(cv: int) -> np.ndarray:
    """(cv + 1,) the shares of a row's hash between which the folds lie."""
    return np.linspace(0, 1, cv + 1)


def folds_seed(seed: int) -> int:
    """The seed of the rows' hash."""
    return derive_seed(seed, FOLDS)


def fold_of(rows: range | np.ndarray, cv: int, seed: int) -> np.ndarray:
    """(m,) intp: the fold 0 .. cv-1 that each row is held out in."""
    return np.searchsorted(fold_edges(cv)[1:], row_share(rows, folds_seed(seed)), side="right")
