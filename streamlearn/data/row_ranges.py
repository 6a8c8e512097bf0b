"""The runs of rows of one read, in order: three arrays.

A read of many small runs has tens of thousands of them, and objects of their own would take ten
times the memory and, when planning, most of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from .source import Ref

_PAIR = np.dtype((np.int64, 2))


@dataclass(frozen=True, eq=False, slots=True)
class Refs(Sequence[Ref]):
    """A sequence of `Ref`; slices are views, an array of numbers picks."""

    starts: np.ndarray
    stops: np.ndarray
    nbytes: np.ndarray
    """Decoded size of each run, in bytes."""

    @classmethod
    def of(cls, refs: Sequence[Ref]) -> Refs:
        """Any sequence of refs as one of this kind."""
        if isinstance(refs, cls):
            return refs
        facts = [(ref.start, ref.stop, ref.nbytes) for ref in refs]
        return cls(*np.array(facts, np.int64).reshape(-1, 3).T.copy())

    @classmethod
    def of_runs(cls, runs: Iterable[tuple[int, int]], row_nbytes: float) -> Refs:
        """Of the (start, stop) of runs whose rows take `row_nbytes` bytes each."""
        pairs: np.ndarray = np.fromiter(runs, _PAIR)
        starts, stops = pairs.reshape(-1, 2).T.copy()
        return cls(starts, stops, np.rint((stops - starts) * row_nbytes).astype(np.int64))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each run."""
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
