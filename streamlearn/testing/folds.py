"""The laws of a fold: `check_fold` on any rows, and each law beside it.

A fold's answer must not depend on how its rows are cut into chunks, nor on which lane read them.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from copy import deepcopy

import numpy as np

from ..data.files.archive import read_archive, write_archive
from ..data.order import row_share
from ..data.source import Chunk
from ..passes.fold import Fold, Result, State
from .rows import cut, rows_of, same


def check_fold(fold: Fold[State, Result], whole: Chunk) -> None:
    """All laws of a mergeable fold on these rows, 100 of them at least."""
    for law in LAWS:
        law(fold, whole)


def state_of(fold: Fold[State, Result], *chunks: Chunk, start: State | None = None) -> State:
    """The state after these chunks, from `start` or the fold's own."""
    state = fold.start() if start is None else start
    for chunk in chunks:
        for row in fold.rows:  # any values that belong to the rows; absent rows never get any
            share = row_share(chunk.rows, 1)[:, None] / np.arange(2, row.width + 2)
            if chunk.weight is not None:
                share *= chunk.weight[:, None] > 0
            chunk.state[row.name] = share.astype(row.dtype)
        state = fold.step(state, chunk)
    return state


def finish(fold: Fold[State, Result], state: State) -> Result:
    """The answer of a state, which may be gone on with."""
    return fold.finish(deepcopy(state))


def merge(fold: Fold[State, Result], a: State, b: State) -> State:
    """The state of the rows of both."""
    assert fold.merge is not None, "the fold has no merge: its answer depends on the rows' order"
    return fold.merge(a, b)


def answer(fold: Fold[State, Result], *chunks: Chunk) -> Result:
    """The answer for these chunks, one after the other."""
    return finish(fold, state_of(fold, *chunks))


def check_identity(fold: Fold[State, Result], whole: Chunk) -> None:
    """The state before the first row is the identity of merge."""
    a, b = cut(whole, [whole.n_rows // 3])
    expected = answer(fold, a, b)
    same(finish(fold, merge(fold, fold.start(), state_of(fold, a, b))), expected, rtol=0)
    same(finish(fold, merge(fold, state_of(fold, a, b), fold.start())), expected, rtol=0)


def check_associativity(fold: Fold[State, Result], whole: Chunk) -> None:
    """Lanes may be merged two at a time from either end."""
    a, b, c = (state_of(fold, p) for p in cut(whole, [whole.n_rows // 6, 2 * whole.n_rows // 3]))
    left = merge(fold, merge(fold, deepcopy(a), deepcopy(b)), deepcopy(c))
    same(finish(fold, left), finish(fold, merge(fold, a, merge(fold, b, c))))


def check_new_start(fold: Fold[State, Result], whole: Chunk) -> None:
    """Every start is a new state: none is left over from rows seen before."""
    before = answer(fold, whole)
    same(finish(fold, fold.start()), finish(fold, fold.start()), rtol=0)
    same(answer(fold, whole), before, rtol=0)


def check_cuts(fold: Fold[State, Result], whole: Chunk, cuts: list[int], n_left: int) -> None:
    """The answer does not depend on these cuts, the first pieces in one lane, others in another."""
    pieces = cut(whole, cuts)
    found = merge(fold, state_of(fold, *pieces[:n_left]), state_of(fold, *pieces[n_left:]))
    same(finish(fold, found), answer(fold, whole))


def check_chunking(fold: Fold[State, Result], whole: Chunk) -> None:
    """`check_cuts` at some cuts."""
    n = whole.n_rows
    for cuts, n_left in (([n // 2], 1), ([0, n // 5, n // 5, n - 1, n], 3), ([1, 2, 3], 4)):
        check_cuts(fold, whole, cuts, n_left)


def check_empty_and_one_row_chunks(fold: Fold[State, Result], whole: Chunk) -> None:
    """Chunks of no row and of one row change nothing but what their rows say."""
    first, empty, one, rest = cut(whole, [50, 50, 51])
    assert (empty.n_rows, one.n_rows) == (0, 1)
    same(answer(fold, empty, first, one, empty, rest, empty), answer(fold, whole))


def check_keeps_nothing(fold: Fold[State, Result], whole: Chunk) -> None:
    """A state holds no view of a chunk, whose buffers the reader uses again."""
    chunk = rows_of(whole, np.arange(whole.n_rows))
    state = state_of(fold, chunk)
    for array, value in ((chunk.X, np.nan), (chunk.y, -5), (chunk.weight, 1e9)):
        if isinstance(array, np.ndarray):
            array[:] = value
    same(finish(fold, state), answer(fold, whole), rtol=0)


def check_changes_nothing(fold: Fold[State, Result], whole: Chunk) -> None:
    """A step takes read-only rows."""
    chunk = rows_of(whole, np.arange(whole.n_rows))
    for array in (chunk.X, chunk.y, chunk.weight):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    same(answer(fold, chunk), answer(fold, whole), rtol=0)


def check_pickle(fold: Fold[State, Result], whole: Chunk) -> None:
    """Folds and states travel between processes."""
    copy = pickle.loads(pickle.dumps(fold))
    a, b = cut(whole, [whole.n_rows // 2])
    state = state_of(copy, b, start=pickle.loads(pickle.dumps(state_of(copy, a))))
    same(finish(copy, state), answer(fold, a, b), rtol=0)


def check_archive(fold: Fold[State, Result], whole: Chunk) -> None:
    """States and answers are plain trees, which a checkpoint can hold."""
    state = state_of(fold, whole)
    for tree in (state, finish(fold, state)):
        file = io.BytesIO()
        write_archive(file, tree)
        file.seek(0)
        same(read_archive(file), tree, rtol=0)


LAWS: tuple[Callable[[Fold, Chunk], None], ...] = (
    check_identity,
    check_associativity,
    check_new_start,
    check_chunking,
    check_empty_and_one_row_chunks,
    check_keeps_nothing,
    check_changes_nothing,
    check_pickle,
    check_archive,
)
"""Law of a fold and of all rows as one chunk, with float64 targets."""
