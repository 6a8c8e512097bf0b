"""Reads of the wide data, some of the columns at a time, and how many they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..passes.fold import Fold, both


class Reader:
    """Reads of the wide data, some of the columns at a time."""

    def __init__(self, run: Any, source: Any, names: Sequence[str]) -> None:
        self._run, self._source, self.names = run, source, tuple(names)
        self.full_reads = 0.0
        """Bytes read, of a read of all columns."""
        self.n_reads = 0
        self._before: Fold | None = None

    def resume(self, full_reads: float, n_reads: int) -> None:
        """Go on after a kill: what comes before the first read is done."""
        self.full_reads, self.n_reads, self._before = full_reads, n_reads, None

    def precede(self, fold: Fold) -> None:
        """Have the next read compute this fold too, before its own."""
        self._before = fold

    def __call__(self, fold: Fold, columns: Sequence[int] | None, name: str) -> Any:
        """One read of these columns (None: all)."""
        self.full_reads += 1.0 if columns is None else self.cost(columns)
        self.n_reads += 1
        source, name = self.part(columns), f"{name}-{self.n_reads}"
        if self._before is None:
            return self._run.fold(fold, source, name=name)
        before, self._before = self._before, None
        return self._run.fold(both(before, fold), source, name=name)[1]

    def part(self, columns: Sequence[int] | None) -> Any:
        """The source of these columns alone."""
        if columns is None or len(columns) == len(self.names):
            return self._source
        return self._source.with_columns([self.names[j] for j in columns])

    def cost(self, columns: Sequence[int]) -> float:
        """Share of the bytes of a full read."""
        whole = getattr(self._source, "stored_nbytes", 0)
        if not whole:
            return len(columns) / len(self.names)
        return self.part(columns).stored_nbytes / whole
