"""Rows that wait: who leaves, against a list of row numbers by hand."""

import numpy as np
import pytest
from scipy import sparse

from streamlearn.data.order import derive_seed
from streamlearn.data.source import Chunk, Csr
from streamlearn.passes.shuffling import (
    check_waiting,
    let_all_go,
    nobody_waits,
    pass_through,
    room_wanted,
)

N, ROOM = 103, 12


def rows_of(first, last, kind, weighted):
    X = np.arange(first, last)[:, None] * np.array([1.0, 0.0, -2.0])
    if kind == "sparse":
        S = sparse.csr_array(X)
        X = Csr(S.data, S.indices, S.indptr.astype(np.int64), 3)
    y = np.arange(first, last) + 0.5
    return Chunk(X, y, y - 0.25 if weighted else None, range(first, last))


def by_hand(n, room, seed):
    """Row numbers that leave, and those that wait, from the definition."""
    waiting, left, times = [], [], 0
    for row in range(n):
        waiting.append(row)
        if len(waiting) == room:
            key = np.random.SeedSequence((derive_seed(seed, times),))
            order = np.random.Generator(np.random.Philox(key)).permutation(room)
            left += [waiting[k] for k in order[: room // 2]]
            waiting = [waiting[k] for k in sorted(order[room // 2 :])]
            times += 1
    return left, waiting


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 60], [12, 24], list(range(1, N))])
def test_who_leaves_does_not_depend_on_how_rows_come(kind, weighted, cuts):
    waiting = nobody_waits(3, sparse=kind == "sparse", n_most=ROOM)
    left = []
    for first, last in zip([0, *cuts], [*cuts, N], strict=True):
        waiting, out = pass_through(waiting, rows_of(first, last, kind, weighted), 7)
        left += out
        assert waiting.n_rows < ROOM
        check_waiting(waiting, 3)
    numbers, stay = by_hand(N, ROOM, 7)
    found = Chunk.join(left)
    np.testing.assert_array_equal(found.y, np.array(numbers) + 0.5)
    np.testing.assert_array_equal(found.of_few_columns()[:, 2], -2.0 * np.array(numbers))
    assert weighted == (found.weight is not None)
    np.testing.assert_array_equal(waiting.y, np.array(stay) + 0.5)
    waiting, rest = let_all_go(waiting, 7)
    assert sorted([*numbers, *(rest.y - 0.5)]) == list(range(N))
    assert (waiting.n_rows, waiting.n_most) == (0, 0)


def test_a_chunk_may_be_overwritten_after_it_was_passed_through():
    chunk = rows_of(0, 5, "dense", True)
    waiting, _ = pass_through(nobody_waits(3, sparse=False, n_most=ROOM), chunk, 0)
    for array in (chunk.X, chunk.y, chunk.weight):
        array[:] = -1
    np.testing.assert_array_equal(waiting.X[:, 0], np.arange(5))
    np.testing.assert_array_equal(waiting.weight, np.arange(5) + 0.25)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        (1, ValueError, "shuffle_buffer=1 must be a number of rows from 2 up"),
        (-3, ValueError, "shuffle_buffer=-3 must be a number of rows"),
        (9, ValueError, "but 12 rows have room since an earlier call"),
        ("1GiB", TypeError, "give a number of rows, such as 10_000"),
        (True, TypeError, "shuffle_buffer is True; give a number"),
    ],
)
def test_other_rooms_are_refused_by_name(asked, error, words):
    waiting = nobody_waits(3, sparse=False, n_most=ROOM)
    with pytest.raises(error, match=words):
        room_wanted(waiting, asked)
    assert room_wanted(waiting, None) == room_wanted(waiting, ROOM) == ROOM
    assert room_wanted(None, None) == room_wanted(waiting, 0) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("y", "weights that wait"),
        ("X", "rows that wait have shape"),
        ("weight", "weights that wait"),
        ("n_most", "n_most is -1, expected an integer"),
        ("indices", "sparse rows that wait do not fit"),
        ("indptr", "sparse rows that wait do not fit"),
    ],
)
def test_what_a_file_says_of_them_is_checked(change, words):
    kind = "sparse" if change in ("indices", "indptr") else "dense"
    waiting = nobody_waits(3, sparse=kind == "sparse", n_most=ROOM)
    waiting, _ = pass_through(waiting, rows_of(0, 5, kind, True), 0)
    if kind == "sparse":
        bad = waiting.X._replace(**{change: getattr(waiting.X, change) + 3})
        waiting = waiting._replace(X=bad)
    elif change == "n_most":
        waiting = waiting._replace(n_most=-1)
    else:
        waiting = waiting._replace(**{change: getattr(waiting, change)[:2] - 9})
    with pytest.raises(ValueError, match=words):
        check_waiting(waiting, 3)
    with pytest.raises(ValueError, match="rows that wait are a dict"):
        check_waiting({}, 3)
