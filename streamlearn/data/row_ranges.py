"""Runs of rows: what one read takes at a time, and how a table is cut into them.

Natural units (row groups, storage chunks) are cut and joined into runs by the data alone: the runs
decide the order of sums, so memory and threads may not.  A read of many small runs has tens of
thousands of them; objects of their own would take ten times the memory and most of the time of
planning, so a sequence of runs is three arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

SLICE_BYTES = 16 << 20
"""Decoded bytes of the largest run."""
GROUP_BYTES = 8 << 20
"""Decoded bytes up to which small neighbouring units are joined into one run."""
_PAIR = np.dtype((np.int64, 2))


@dataclass(frozen=True, slots=True)
class Ref:
    """A run of physical rows to be read; holds no data, pickles in a few bytes."""

    start: int
    stop: int
    nbytes: int
    """Decoded size of the run in the dataset's columns and dtype, in bytes."""

    @property
    def n_rows(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, eq=False, slots=True)
class Refs(Sequence[Ref]):
    """A sequence of `Ref`; a slice is a view, an array of numbers picks."""

    starts: np.ndarray
    """(n_refs,) int64, the first row of each run."""
    stops: np.ndarray
    """(n_refs,) int64, the row after the last of each run."""
    nbytes: np.ndarray
    """(n_refs,) int64, decoded size of each run in bytes."""

    @classmethod
    def of(cls, refs: Sequence[Ref]) -> Refs:
        """Any sequence of refs as one of this kind."""
        if isinstance(refs, cls):
            return refs
        facts = [(ref.start, ref.stop, ref.nbytes) for ref in refs]
        return cls(*np.array(facts, np.int64).reshape(-1, 3).T.copy())

    @classmethod
    def of_runs(cls, runs: Iterable[tuple[int, int]], row_nbytes: float) -> Refs:
        """The refs of (start, stop) pairs whose rows take `row_nbytes` bytes each."""
        pairs: np.ndarray = np.fromiter(runs, _PAIR)
        starts, stops = pairs.reshape(-1, 2).T.copy()
        return cls(starts, stops, np.rint((stops - starts) * row_nbytes).astype(np.int64))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    @property
    def sizes(self) -> np.ndarray:
        """(n_refs,) number of rows of each run."""
        return self.stops - self.starts

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> Ref: ...
    @overload
    def __getitem__(self, at: slice | np.ndarray) -> Refs: ...
    def __getitem__(self, at: int | slice | np.ndarray) -> Ref | Refs:
        if isinstance(at, (slice, np.ndarray)):
            return Refs(self.starts[at], self.stops[at], self.nbytes[at])
        return Ref(int(self.starts[at]), int(self.stops[at]), int(self.nbytes[at]))


def largest_slice(row_nbytes: float) -> int:
    """Rows of the largest run: the power of two that decodes to at most 16 MiB."""
    return 1 << max(int(SLICE_BYTES / max(row_nbytes, 1.0)).bit_length() - 1, 0)


def cut_runs(
    starts: np.ndarray, live: np.ndarray, slice_rows: int, row_nbytes: float
) -> Iterator[tuple[int, int]]:
    """Units cut or joined into runs: slices of `slice_rows` rows, small neighbours up to 8 MiB.

    Units that are not live are left out.
    """
    begin = end = 0  # the run of small units being joined
    for a, b, lives in zip(starts[:-1].tolist(), starts[1:].tolist(), live.tolist(), strict=True):
        if begin < end and (not lives or a != end or b - begin > slice_rows):
            yield begin, end
            begin = end
        if not lives:
            begin = end = b
        elif b - a > slice_rows:
            for cut in range(a, b, slice_rows):
                yield cut, min(cut + slice_rows, b)
            begin = end = b
        else:
            begin, end = (begin, b) if begin < end else (a, b)
            if (end - begin) * row_nbytes >= GROUP_BYTES:
                yield begin, end
                begin = end
    if begin < end:
        yield begin, end
