"""Target means of the levels of columns that have very many of them.

The mean of a level is shrunk to the overall mean (James & Stein 1961, in the form of empirical
Bayes; Micci-Barreca 2001), by the variances within and between levels:

    (weight x mean + k x overall) / (weight + k),      k = variance within / variance between

A training row takes means over the rows of the other parts, so that it never sees its own target.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypedDict

import numpy as np

from ..data.encoding import N_PARTS, codes_of, parts_of
from ..data.levels import LevelCoder, hash_words, word_of
from ..data.source import Chunk, subjects_of
from .fold import Fold
from .sums import add_sums

CAPACITY = 1 << 17
"""Levels of a column that have a mean of their own at most: a state of 2 MiB."""
STATE_NBYTES = 2 * 16 * CAPACITY
STEP_NBYTES_PER_ROW = 160.0
"""Strings of a chunk as Python objects, and their hashes."""


class Counts(TypedDict):
    """Levels of a column, as far as they are known."""

    hashes: np.ndarray
    """(L,) uint64, ascending."""
    counts: np.ndarray
    """(L,) float64 weights."""


class Sums(TypedDict):
    """The target of a column's L levels, in each of `N_PARTS` parts; O outputs."""

    weight: np.ndarray
    """(N_PARTS, L) float64."""
    sums: np.ndarray
    """(N_PARTS, L, O) float64: weighted sums of the target."""
    squares: np.ndarray
    """(N_PARTS, O) float64: weighted sums of its square, of all levels."""


def hashes_fold(name: str, capacity: int = CAPACITY) -> Fold[Counts, np.ndarray]:
    """Fold over a `Dataset.column`: (L,) uint64, ascending, the hashes of its levels.

    Of more than `capacity` the most frequent, as far as a state of this size knows them (Misra &
    Gries 1982).  Words of rows of weight 0 do not occur.
    """
    return Fold(
        _start_hashes, partial(_add_hashes, name, capacity), partial(_join, capacity), _hashes
    )


def _start_hashes() -> Counts:
    return {"hashes": np.empty(0, np.uint64), "counts": np.empty(0)}


def _add_hashes(name: str, capacity: int, state: Counts, chunk: Chunk) -> Counts:
    if not chunk.n_rows or chunk.y is None:
        return state
    found: dict[str, float] = {}
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    for value, w in zip(chunk.y.tolist(), weight.tolist(), strict=True):
        if w > 0:
            found[value] = found.get(value, 0.0) + w
    words = {word_of(value, name): count for value, count in found.items()}
    words.pop(None, None)
    hashes = hash_words([word for word in words if word is not None])
    order = np.argsort(hashes)
    counts = np.fromiter(words.values(), float, len(words))
    return _join(capacity, state, {"hashes": hashes[order], "counts": counts[order]})


def _join(capacity: int, a: Counts, b: Counts) -> Counts:
    hashes, at = np.unique(np.concatenate([a["hashes"], b["hashes"]]), return_inverse=True)
    counts = np.bincount(at, np.concatenate([a["counts"], b["counts"]]), len(hashes))
    if len(hashes) > capacity:
        lost = np.partition(counts, -capacity - 1)[-capacity - 1]
        kept = counts > lost
        hashes, counts = hashes[kept], counts[kept] - lost
    return {"hashes": hashes, "counts": counts}


def _hashes(state: Counts) -> np.ndarray:
    return state["hashes"]


def target_fold(
    coders: Sequence[LevelCoder], of_words: Sequence[bool], n_levels: Sequence[int],
    n_classes: int, seed: int, siblings: int = 1,
) -> Fold[list[Sums], list[Sums]]:  # fmt: skip
    """Fold: for each column the target's sums in each part and level.

    Chunks carry the columns, those of words (`of_words`) as their codes, and y as float64: numbers,
    or codes of `n_classes` classes (0: numbers).  O = 1 for numbers and two classes.  Rows of one
    subject (`Source.siblings`) are of one part.  State 8 N_PARTS L (O + 1) bytes a column.
    """
    n_outputs = n_classes if n_classes > 2 else 1
    return Fold(
        partial(_start_sums, tuple(n_levels), n_outputs),
        partial(_add_targets, tuple(coders), tuple(of_words), n_classes, seed, siblings),
        add_sums,
    )


def _start_sums(n_levels: tuple[int, ...], n_outputs: int) -> list[Sums]:
    return [
        {
            "weight": np.zeros((N_PARTS, n)),
            "sums": np.zeros((N_PARTS, n, n_outputs)),
            "squares": np.zeros((N_PARTS, n_outputs)),
        }
        for n in n_levels
    ]


def targets_nbytes_per_row(n_classes: int) -> float:
    """Temporaries of a step of `target_fold` a row: codes, places, weights and outputs, bytes."""
    return 200.0 + 24.0 * max(n_classes, 1)


def outputs_of(y: np.ndarray, n_classes: int) -> np.ndarray:
    """(m, O) targets whose means are taken: the number, 1 for the second class, or one a class."""
    if n_classes == 0:
        return y[:, None]
    if n_classes == 2:
        return (y == 1).astype(np.float64)[:, None]
    return (y[:, None] == np.arange(n_classes)).astype(np.float64)


def _add_targets(
    coders: tuple[LevelCoder, ...],
    of_words: tuple[bool, ...],
    n_classes: int,
    seed: int,
    siblings: int,
    states: list[Sums],
    chunk: Chunk,
) -> list[Sums]:
    if not chunk.n_rows or chunk.y is None:
        return states
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    X = chunk.dense  # a sparse table has no such columns
    part = parts_of(subjects_of(chunk, siblings), seed)
    Y = outputs_of(chunk.y, n_classes)
    for j, (state, coder, is_code) in enumerate(zip(states, coders, of_words, strict=True)):
        values = X[:, j] if is_code else codes_of(X[:, j], coder)
        there = ~np.isnan(values) & (weight > 0)
        n_levels = state["weight"].shape[1]
        w, P, T = weight[there], part[there], Y[there]
        at = P * n_levels + values[there].astype(np.intp)
        state["weight"] += np.bincount(at, w, N_PARTS * n_levels).reshape(N_PARTS, n_levels)
        for o in range(T.shape[1]):
            sums = np.bincount(at, w * T[:, o], N_PARTS * n_levels)
            state["sums"][:, :, o] += sums.reshape(N_PARTS, n_levels)
            state["squares"][:, o] += np.bincount(P, w * T[:, o] ** 2, N_PARTS)
    return states


def tables_of(state: Sums) -> tuple[np.ndarray, np.ndarray]:
    """The `table` and `apart` of a column's `data.encoding.Coding`."""
    weight, sums, squares = state["weight"], state["sums"], state["squares"]
    total = weight.sum(axis=0), sums.sum(axis=0), squares.sum(axis=0)
    means = shrunk_means(*total)
    counts = np.log1p(np.append(total[0], 0.0))
    others = [
        shrunk_means(
            *(whole - of[f] for whole, of in zip(total, (weight, sums, squares), strict=True))
        )
        for f in range(N_PARTS)
    ]
    return np.column_stack([means, counts]), np.stack(others)


def shrunk_means(weight: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """(L + 1, O) means of the levels shrunk to the overall mean, and that mean itself.

    `weight` (L,), `sums` (L, O) of the target and `squares` (O,) of its square.  The variances are
    those of the analysis of variance with one random factor (Searle 1971).
    """
    weight = np.maximum(weight, 0.0)  # a difference of sums leaves a crumb
    n, there = weight.sum(), weight > 0
    n_levels = int(there.sum())
    overall = sums.sum(axis=0) / n if n > 0 else np.zeros(sums.shape[1])
    means = np.tile(overall, (len(weight) + 1, 1))
    if n_levels < 2 or n <= n_levels:  # one level, or a level a row: they say nothing of others
        return means
    each = sums[there] / weight[there, None]
    between = weight[there] @ (each - overall) ** 2
    within = np.maximum(squares - weight[there] @ each**2, 0.0) / (n - n_levels)
    size = (n - (weight**2).sum() / n) / (n_levels - 1)
    spread = (between / (n_levels - 1) - within) / size
    share = weight[there, None] * np.maximum(spread, 0.0)
    keep = np.divide(share, share + within, out=np.zeros_like(share), where=share > 0)
    means[:-1][there] = overall + keep * (each - overall)
    return means
