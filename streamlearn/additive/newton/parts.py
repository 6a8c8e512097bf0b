"""A sample's rows in fixed parts, over which products with them are shared out to threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TypeVar

from ...data.source import Chunk, Csr
from ...passes.sums import add_sums
from ..objective import Problem

T = TypeVar("T")
PART_ROWS, MOST_PARTS = 2048, 8
"""Least rows of a part, which share the tables of a point, and most parts, a power of two."""
PART_NUMBERS = {True: 5, False: 28}
"""Numbers of 8 bytes that a part at work holds for each coefficient, by whether the outputs are one
problem: its sums and the point, by spline; or the kernels' moments and tables, of 32 places for a
column of 10 splines."""
PARTS_NBYTES = 32 << 20
"""Bytes that all parts at work hold at most, unless one alone takes more."""


def count_of_parts(n_rows: int, n_coefficients: int, joint: bool) -> int:
    """The number of parts; of the data alone, as the bits of sums over parts depend on it."""
    n, each = 1, PART_NUMBERS[joint] * 8 * n_coefficients
    while n < MOST_PARTS and n_rows >= 2 * n * PART_ROWS and 2 * n * each <= PARTS_NBYTES:
        n *= 2
    return n


def parts_nbytes(n_rows: int, n_coefficients: int) -> int:
    """Bytes that the parts hold at most while all of them are at work."""
    return max(
        count_of_parts(n_rows, n_coefficients, joint) * numbers * 8 * n_coefficients
        for joint, numbers in PART_NUMBERS.items()
    )


class Parts:
    """Rows in parts of about equal size, views of them."""

    def __init__(self, problem: Problem, rows: Chunk, n_threads: int = 1) -> None:
        n = count_of_parts(rows.n_rows, problem.n_outputs * (problem.dim + 1), problem.joint)
        ends = [rows.n_rows * i // n for i in range(n + 1)]
        self._parts = [rows.part(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        # its threads end with the parts, at the latest
        self._pool = ThreadPoolExecutor(min(n_threads, n)) if min(n_threads, n) > 1 else None
        self.is_sparse, self.n_rows = isinstance(rows.X, Csr), rows.n_rows

    def each(self, work: Callable[..., T], *more: Iterable) -> list[T]:
        """Results of `work` on each part, and on one of each of `more`, in their order."""
        return list((map if self._pool is None else self._pool.map)(work, self._parts, *more))

    def each_in_turn(self, work: Callable[..., T], *more: Iterable) -> list[T]:
        """`each`, one part after the other: `work` may add to one array."""
        return list(map(work, self._parts, *more))

    def sum(self, work: Callable[..., T], *more: Iterable) -> T:
        """Sum over the parts, in their order, of the results of `work` as in `each`."""
        return reduce(add_sums, self.each(work, *more))
