"""A stream's rows in random order: they wait in memory, and half of them leave when it is full.

Which rows leave, and in which order, is drawn from a seed and how often rows have left before.  So
it depends on the rows and their order alone, not on how they were cut into chunks or calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.order import derive_seed
from ..data.source import Chunk, Csr
from ..numeric.checks import check_array, check_integer

LEAST, MOST = 2, 2**40
"""Fewest and most rows for which there may be room."""
COPIES = 3
"""Rows held at most, in numbers of rows that may wait: while a half of them is taken apart."""


class Waiting(NamedTuple):
    """Rows that a stream has brought and nothing was learned from yet."""

    X: np.ndarray | Csr
    """(m, p)."""
    y: np.ndarray
    """(m,) float64 targets as a fit's chunks carry them."""
    weight: np.ndarray
    """(m,) float64."""
    n_most: int
    """Rows there is room for; with so many a half of them leaves.  0: none waits."""
    n_left: int = 0
    """Times that rows have left: it draws the next."""

    @property
    def n_rows(self) -> int:
        """Rows that wait."""
        return len(self.y)


def nobody_waits(n_columns: int, *, sparse: bool, n_most: int) -> Waiting:
    """Room for `n_most` rows, in which there is none."""
    none = np.empty(0)
    X: np.ndarray | Csr = np.empty((0, n_columns), np.float32)
    if sparse:
        empty = np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(1, np.int64)
        X = Csr(*empty, n_columns)
    return Waiting(X, none, none, n_most)


def pass_through(waiting: Waiting, chunk: Chunk, seed: int) -> tuple[Waiting, list[Chunk]]:
    """The rows that wait after the chunk's have come, and those that leave, in their order."""
    left: list[Chunk] = []
    first = 0
    while first < chunk.n_rows:
        last = min(first + waiting.n_most - waiting.n_rows, chunk.n_rows)
        waiting = joined(waiting, chunk.part(first, last))
        first = last
        if waiting.n_rows == waiting.n_most:
            waiting, rows = _leave(waiting, waiting.n_most // 2, seed)
            left.append(rows)
    return waiting, left


def let_all_go(waiting: Waiting, seed: int) -> tuple[Waiting, Chunk]:
    """Room for nobody, and all rows that wait, in random order."""
    waiting, rows = _leave(waiting, waiting.n_rows, seed)
    return waiting._replace(n_most=0), rows


def joined(waiting: Waiting, chunk: Chunk) -> Waiting:
    """The rows in memory, and after them copies of the chunk's."""
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    X: np.ndarray | Csr
    if not waiting.n_rows:
        X = chunk.X.copy()
    elif isinstance(waiting.X, Csr):
        assert isinstance(chunk.X, Csr)  # a stream's rows are all of one kind
        X = Csr.join([waiting.X, chunk.X])
    else:
        X = np.concatenate([waiting.X, chunk.dense])
    y = np.append(waiting.y, np.asarray(chunk.target, np.float64))
    return waiting._replace(X=X, y=y, weight=np.append(waiting.weight, weight))


def _leave(waiting: Waiting, n: int, seed: int) -> tuple[Waiting, Chunk]:
    """`n` rows leave in random order; the others stay in the order in which they came."""
    key = np.random.SeedSequence((derive_seed(seed, waiting.n_left),))
    order = np.random.Generator(np.random.Philox(key)).permutation(waiting.n_rows)
    rows = Chunk(waiting.X, waiting.y, waiting.weight, range(waiting.n_rows))
    stay = rows.take(np.sort(order[n:]))
    assert stay.y is not None
    assert stay.weight is not None
    left = rows.take(order[:n])
    left.rows = range(n)
    if np.all(left.weight == 1.0):
        left.weight = None
    return Waiting(stay.X, stay.y, stay.weight, waiting.n_most, waiting.n_left + 1), left


def room_wanted(waiting: Waiting | None, asked: int | None) -> int:
    """Rows there is to be room for; `asked`: what a call said, None: nothing."""
    now = 0 if waiting is None else waiting.n_most
    if asked is None:
        return now
    if isinstance(asked, bool) or not isinstance(asked, int | np.integer):
        raise TypeError(f"shuffle_buffer is {asked!r}; give a number of rows, such as 10_000")
    if asked and not LEAST <= asked <= MOST:
        raise ValueError(
            f"shuffle_buffer={asked} must be a number of rows from {LEAST:,} up, or 0 for none"
        )
    if asked and now and asked != now:
        raise ValueError(
            f"shuffle_buffer={asked} was given, but {now} rows have room since an earlier call; "
            "give 0 first, which learns from all that wait"
        )
    return int(asked)


def waiting_nbytes(n_most: int, row_nbytes: float) -> int:
    """Bytes of so many rows that wait, with their targets and weights."""
    return int(n_most * (row_nbytes + 16))


def check_waiting(waiting: object, n_columns: int) -> None:
    """Raise ValueError unless what a file says of rows that wait is of so many columns."""
    if not isinstance(waiting, Waiting):
        raise ValueError(f"the rows that wait are a {type(waiting).__name__}")
    X, m = waiting.X, waiting.n_rows
    check_array("targets that wait", waiting.y, (m,))
    check_array("weights that wait", waiting.weight, (m,), low=0)
    check_integer("n_most", waiting.n_most, 0, MOST)
    check_integer("n_left", waiting.n_left, 0, 2**62)
    if isinstance(X, Csr):
        _check_csr(X, m)
    elif not isinstance(X, np.ndarray) or X.dtype.name not in ("float32", "float64"):
        raise ValueError("the rows that wait are no array of float32 or float64")
    if X.shape != (m, n_columns):
        raise ValueError(f"the rows that wait have shape {X.shape}, expected {(m, n_columns)}")


def _check_csr(X: Csr, m: int) -> None:
    good = (
        all(isinstance(part, np.ndarray) and part.ndim == 1 for part in X[:3])
        and X.data.dtype.name in ("float32", "float64")
        and X.indices.dtype.name in ("int32", "int64")
        and X.indptr.dtype.name == "int64"
        and len(X.indptr) == m + 1
        and X.indptr[0] == 0
        and X.indptr[-1] == len(X.data) == len(X.indices)
        and (np.diff(X.indptr) >= 0).all()
        and ((X.indices >= 0) & (X.indices < X.n_columns)).all()
    )
    if not good:
        raise ValueError("the sparse rows that wait do not fit together")
