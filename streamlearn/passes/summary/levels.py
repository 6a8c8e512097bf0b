"""The levels of string columns: which words occur, and how often.

Counts are exact up to `CAPACITY` distinct words.  Beyond, the rarest are forgotten (Misra & Gries
1982; merged as in Agarwal et al. 2012): a word's count is then too low by at most N / CAPACITY, so
the most frequent levels are found in bounded memory, whatever the column holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...data.levels import word_of
from ...data.source import Chunk
from ..fold import Fold, read_all, run_fold

CAPACITY = 4096
"""Words of a column whose counts are kept."""
MOST_LEVELS = 255
"""Levels of a column at most; with the one for all others they fit a table of 256 values."""
STATE_NBYTES = 2 * CAPACITY * 160
"""Bytes of one state: words of a few dozen characters and their counts."""
STEP_NBYTES_PER_ROW = 120.0
"""Strings of a chunk as Python objects."""

State = dict[str, Any]


def levels_fold(name: str, most: int = MOST_LEVELS) -> Fold[State, tuple[str, ...]]:
    """Fold over a `Dataset.column`: the `most` most frequent words of it, in that order.

    Words of rows of weight 0 do not occur.  State at most `STATE_NBYTES`.
    """
    return Fold(_start, partial(_step, name), _merge, partial(_finish, most))


def learn_levels(
    dataset: Any, most: int = MOST_LEVELS, read: Callable[..., tuple[str, ...]] | None = None
) -> Any:
    """The dataset with every string column read as the codes of its levels.

    `read(fold, source, name=...)` is one read of one column; default here and now.
    """
    levels = {
        name: (read or _read_in_order)(
            levels_fold(name, most), dataset.column(name), name=f"levels-{name}"
        )
        for name in dataset.categorical
    }
    return dataset.with_levels(levels)


def _read_in_order(fold: Fold[Any, tuple[str, ...]], source: Any, *, name: str) -> tuple[str, ...]:
    return run_fold(fold, read_all(source))


def _start() -> State:
    return {"counts": {}, "forgotten": 0.0}


def _step(name: str, state: State, chunk: Chunk) -> State:
    if not chunk.n_rows or chunk.y is None:
        return state
    if chunk.weight is None:
        found: dict[Any, Any] = Counter(chunk.y.tolist())
    else:
        found = {}
        for value, weight in zip(chunk.y.tolist(), chunk.weight.tolist(), strict=True):
            found[value] = found.get(value, 0.0) + weight
    counts = state["counts"]
    for value, count in found.items():
        word = word_of(value, name)
        if word is not None and count > 0:
            counts[word] = counts.get(word, 0.0) + count
    return _forget(state) if len(counts) > 2 * CAPACITY else state


def _forget(state: State) -> State:
    """The state with `CAPACITY` words at most, each less the largest count that goes."""
    counts = state["counts"]
    if len(counts) <= CAPACITY:
        return state
    largest_lost = float(
        np.partition(np.fromiter(counts.values(), float), -CAPACITY - 1)[-CAPACITY - 1]
    )
    kept = {word: count - largest_lost for word, count in counts.items() if count > largest_lost}
    return {"counts": kept, "forgotten": state["forgotten"] + largest_lost}


def _merge(a: State, b: State) -> State:
    for word, count in b["counts"].items():
        a["counts"][word] = a["counts"].get(word, 0.0) + count
    a["forgotten"] += b["forgotten"]
    return _forget(a)


def _finish(most: int, state: State) -> tuple[str, ...]:
    counts = state["counts"]
    return tuple(sorted(counts, key=lambda word: (-counts[word], word))[:most])
