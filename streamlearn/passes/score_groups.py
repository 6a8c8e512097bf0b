"""Weights of rows in order of a score, in bounded memory and the same whoever reads which rows.

As long as there are at most `MOST_GROUPS` different scores they are kept as they are.  Beyond, the
last bits of all scores are dropped, one bit at a time, until so few are left: neighbours then share
a group.  How many bits go depends on the set of all scores alone, because rows that are added never
make their number smaller; so merges may come in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST_GROUPS = 8192
"""Groups of a state, at most.  Scores over 16 powers of two and of both signs keep a relative
precision of 1/256, and what the loss of the rest may change is known."""
SIGN = np.uint64(1 << 63)


class ScoreGroups(NamedTuple):
    """Weights of rows, by score."""

    dropped: int
    """Number of last bits that codes have lost."""
    codes: np.ndarray
    """(G,) uint64 ascending: bits of the scores, in an order that is that of the scores."""
    positive: np.ndarray
    """(G,) weights of the rows of the class."""
    negative: np.ndarray
    """(G,) weights of all other rows."""


STATE_BYTES = 3 * 8 * MOST_GROUPS
"""Bytes of a state, at most."""


def grouped_scores(
    score: np.ndarray, of_class: np.ndarray, weight: np.ndarray, most: int = MOST_GROUPS
) -> ScoreGroups:
    """The groups of some rows; rows of weight 0 are absent."""
    there = weight > 0
    score, of_class, weight = score[there], of_class[there], weight[there]
    bits = (np.asarray(score, np.float64) + 0.0).view(np.uint64)  # no negative zeros
    codes = np.where(bits & SIGN, ~bits, bits | SIGN)
    return _fitted(0, codes, weight * of_class, weight * ~of_class, most)


def merge_groups(a: ScoreGroups, b: ScoreGroups, most: int = MOST_GROUPS) -> ScoreGroups:
    """The groups of the rows of both."""
    dropped = max(a.dropped, b.dropped)
    codes = np.concatenate([s.codes >> np.uint64(dropped - s.dropped) for s in (a, b)])
    positive = np.concatenate([a.positive, b.positive])
    return _fitted(dropped, codes, positive, np.concatenate([a.negative, b.negative]), most)


def _fitted(
    dropped: int, codes: np.ndarray, positive: np.ndarray, negative: np.ndarray, most: int
) -> ScoreGroups:
    """Equal codes as one group, and bits dropped until there are few enough."""
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    while 1 + np.count_nonzero(codes[1:] != codes[:-1]) > most:
        codes, dropped = codes >> np.uint64(1), dropped + 1
    first = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]][: len(codes)])
    if not len(first):
        return ScoreGroups(dropped, codes, positive, negative)
    sums = (np.add.reduceat(part[order], first) for part in (positive, negative))
    return ScoreGroups(dropped, codes[first], *sums)
