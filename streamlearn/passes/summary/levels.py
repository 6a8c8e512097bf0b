"""The levels of string columns: which words occur, and how often.

Counts are exact up to `CAPACITY` distinct words of `WORDS_NBYTES` in all.  Beyond, the rarest are
forgotten (Misra & Gries 1982; merged as in Agarwal et al. 2012): where words are short, a word's
count is then too low by at most N / CAPACITY, so the most frequent levels are found in bounded
memory, whatever the column holds.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TypedDict

import numpy as np

from ...data.choice import Chosen
from ...data.levels import Word, word_of
from ...data.source import Chunk, Source
from ..fold import Fold, Read, Result, read_all, run_fold
from ..fold import State as FoldState

CAPACITY = 4096
"""Words of a column whose counts are kept."""
MOST_LEVELS = 255
"""Levels of a column at most; with the one for all others they fit a table of 256 values."""
WORDS_NBYTES = CAPACITY << 7
"""Bytes of the characters of the words whose counts are kept."""
STATE_NBYTES = 2 * (WORDS_NBYTES + 160 * CAPACITY)
"""Bytes of one state: it is cut down once it has twice as many words or bytes."""
STEP_NBYTES_PER_ROW = 16.0
"""Pointers to the words of a chunk, which are counted some at a time; the reader has the words."""


class State(TypedDict):
    """Words and what they weigh, in all rows so far."""

    counts: dict[str, float]
    nbytes: int
    """Bytes of the characters of these words."""
    forgotten: float
    """The most that a count is too low by."""


def levels_fold(name: str, most: int = MOST_LEVELS) -> Fold[State, tuple[str, ...]]:
    """Fold over a `Dataset.column`: the `most` most frequent words of it, in that order.

    Words of rows of weight 0 do not occur.  State at most `STATE_NBYTES`.
    """
    return Fold(_start, partial(_step, name), _merge, partial(_finish, most))


def learn_levels(dataset: Chosen, most: int = MOST_LEVELS, read: Read | None = None) -> Chosen:
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


def _read_in_order(fold: Fold[FoldState, Result], source: Source, *, name: str) -> Result:
    return run_fold(fold, read_all(source))


def _start() -> State:
    return {"counts": {}, "nbytes": 0, "forgotten": 0.0}


def _step(name: str, state: State, chunk: Chunk) -> State:
    for first in range(0, chunk.n_rows if chunk.y is not None else 0, CAPACITY):
        for value, count in _counted(chunk, slice(first, first + CAPACITY)).items():
            word = word_of(value, name)
            if word is not None and count > 0:
                _add(state, word, count)
        state = _cut_down(state)
    return state


def _counted(chunk: Chunk, rows: slice) -> dict[Word, float]:
    values = chunk.y[rows].tolist()  # type: ignore[index]
    if chunk.weight is None:
        return {value: float(n) for value, n in Counter(values).items()}
    found: dict[Word, float] = {}
    for value, weight in zip(values, chunk.weight[rows].tolist(), strict=True):
        found[value] = found.get(value, 0.0) + weight
    return found


def _add(state: State, word: str, count: float) -> None:
    counts = state["counts"]
    if word not in counts:
        state["nbytes"] += _nbytes(word)
    counts[word] = counts.get(word, 0.0) + count


def _nbytes(word: str) -> int:
    """Bytes of a word's characters at most."""
    return len(word) if word.isascii() else 4 * len(word)


def _cut_down(state: State) -> State:
    """The state if it has at most twice the levels kept; else only those kept of it."""
    if len(state["counts"]) <= 2 * CAPACITY and state["nbytes"] <= 2 * WORDS_NBYTES:
        return state
    return _forget(state)


def _forget(state: State) -> State:
    """The state with the words that are kept, each less the largest count that goes."""
    counts = state["counts"]
    if len(counts) <= CAPACITY and state["nbytes"] <= WORDS_NBYTES:
        return state
    by_count = sorted(counts, key=lambda word: (-counts[word], word))
    room = np.cumsum([_nbytes(word) for word in by_count])
    fit = min(CAPACITY, int(np.searchsorted(room, WORDS_NBYTES, side="right")))
    largest_lost = float(counts[by_count[fit]])
    kept = {word: count - largest_lost for word, count in counts.items() if count > largest_lost}
    return {
        "counts": kept,
        "nbytes": sum(map(_nbytes, kept)),
        "forgotten": state["forgotten"] + largest_lost,
    }


def _merge(a: State, b: State) -> State:
    for word, count in b["counts"].items():
        _add(a, word, count)
    a["forgotten"] += b["forgotten"]
    return _forget(a)


def _finish(most: int, state: State) -> tuple[str, ...]:
    counts = state["counts"]
    return tuple(sorted(counts, key=lambda word: (-counts[word], word))[:most])
