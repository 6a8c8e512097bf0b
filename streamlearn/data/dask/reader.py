"""Partitions of a dask collection computed one at a time, for the driver's own reads."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from ...errors import SourceError
from ..source import Chunk, Csr


class DaskReader:
    """The last computed partition, handed out in slices."""

    def __init__(
        self,
        store: Any,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
    ) -> None:
        self.store, self.ask = store, (names, target, weight, dtype)
        self.starts = np.cumsum([0, *store._lengths()])
        self.i, self.reader = -1, None

    def read(self, start: int, stop: int) -> Chunk:
        i = int(np.searchsorted(self.starts, start, side="right")) - 1
        first, last = int(self.starts[i]), int(self.starts[i + 1])
        if stop <= last:
            return self._read(i, start - first, stop - first, start)
        runs = []  # rows of several partitions: copied together
        while start < stop:
            while self.starts[i + 1] <= start:
                i += 1
            first, end = int(self.starts[i]), min(stop, int(self.starts[i + 1]))
            chunk = self._read(i, start - first, end - first, start)
            runs.append(chunk)
            start = end
        return join_chunks(runs)

    def _read(self, i: int, start: int, stop: int, row: int) -> Chunk:
        if i != self.i:
            self.i, self.reader = -1, None  # the old partition goes before the new one comes
            from .store import partition_store

            block = self.store.partitions[i].compute()
            names = [c.name for c in self.store.columns]
            store = partition_store(block, names, self.store.levels)
            if store.n_rows != self.store._lengths()[i]:
                raise SourceError(
                    f"{self.store.kind}, partition {i} has {store.n_rows} rows, "
                    f"{self.store._lengths()[i]} were announced"
                )
            self.i, self.reader = i, store.open(*self.ask)  # type: ignore[assignment]
        chunk = self.reader.read(start, stop)  # type: ignore[attr-defined]
        chunk.rows = range(row, row + stop - start)
        return copy_chunk(chunk)  # the block may be a view of an array the user holds

    def close(self) -> None:
        self.i, self.reader = -1, None


def copy_chunk(chunk: Chunk) -> Chunk:
    """The chunk in memory of its own."""
    X: Any = chunk.X
    X = Csr(X[0].copy(), X[1].copy(), X[2].copy(), X[3]) if isinstance(X, Csr) else X.copy()
    return Chunk(X, copy(chunk.y), copy(chunk.weight), chunk.rows)


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks of neighbouring rows as one."""
    first = chunks[0]
    parts: list[Any] = [chunk.X for chunk in chunks]
    X: Any
    if isinstance(first.X, Csr):
        before = np.cumsum([0, *(len(part.data) for part in parts)])
        tails = [part.indptr[1:] + n for part, n in zip(parts, before, strict=False)]
        X = Csr(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *tails]),
            first.X.n_columns,
        )
    else:
        X = np.concatenate(parts)
    y, weight = (
        None if getattr(first, name) is None else np.concatenate([getattr(c, name) for c in chunks])
        for name in ("y", "weight")
    )
    return Chunk(X, y, weight, range(first.rows[0], chunks[-1].rows[-1] + 1))
