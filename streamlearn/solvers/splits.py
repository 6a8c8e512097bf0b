"""The splits of cross-validation by hashes: no copy of the rows, no index, the same in every read.

A row is held out in one split and trained on in all others.
"""

from __future__ import annotations

import numpy as np

from ..data.dataset import Dataset
from ..data.order import derive_seed, row_share

_BY_NUMBER = 0x666F6C6473
"""Number that keeps these splits apart from those of `Dataset.split` with the same seed."""
_OUTSIDE = 0x6F757473696465
"""Number that keeps the splits around a choice apart from those of the choice."""
_BY_CONTENT = 0x70726F746F
"""Number that keeps the splits by content apart from both."""
_ODD = 0x9E3779B97F4A7C15
"""Factor, 2^64 over the golden ratio, whose powers weigh the columns of a row in its hash."""
VALIDATION = 0x76616C6964617465
"""Seed of the rows that ``fit(validation=0.1)`` holds out."""
CALIBRATION = 0x63616C6962726174
"""Seed of the rows that are held out to calibrate probabilities."""
CALIBRATION_SHARE = 0.1
"""Share of the rows that is held out to calibrate probabilities."""


def hold_out(dataset: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """The rows to train on, and that share of the rows, held out."""
    return dataset.where_hash(share, 1.0, seed), dataset.where_hash(0.0, share, seed)


def split_shares(cv: int, seed: int, *, around_choice: bool = False) -> tuple[np.ndarray, int]:
    """(cv + 1,) edges between the splits, as shares of a row number's hash, and the hash's seed.

    `around_choice`: splits for a model that itself chooses by splits of this seed.
    """
    return np.linspace(0, 1, cv + 1), derive_seed(seed, _OUTSIDE if around_choice else _BY_NUMBER)


def split_of_rows(rows: range | np.ndarray, cv: int, seed: int) -> np.ndarray:
    """(m,) intp: the split 0 .. cv-1 in which each row is held out, by its number."""
    edges, hash_seed = split_shares(cv, seed)
    return np.searchsorted(edges[1:], row_share(rows, hash_seed), side="right")


def split_of_content(
    X: np.ndarray, cv: int, seed: int, subjects: np.ndarray | None = None
) -> np.ndarray:
    """(m,) intp: the split of each dense row, by what it holds, so that copies stay together.

    Where subjects have several rows, which hold different things, it is that of their `subjects`.
    """
    if subjects is not None:
        return split_of_rows(subjects, cv, seed)
    bits = np.ascontiguousarray(X + 0.0, np.float64).view(np.uint64)  # no negative zeros
    factors = np.cumprod(np.full(X.shape[1], _ODD, np.uint64))
    return (row_share(bits @ factors, derive_seed(seed, _BY_CONTENT)) * cv).astype(np.intp)
