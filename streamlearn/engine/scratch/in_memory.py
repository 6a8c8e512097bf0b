"""Rows that stay in this process between the reads of a fit, where the plan has room for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.source import Chunk, Ref, Source, SourceReader


class KeptRows:
    """A source whose chunks are copied as they are read, and read no more."""

    def __init__(self, source: Source) -> None:
        self._source, self._chunks = source, dict[int, Chunk]()
        self._n_counted = 0
        self.n_rows = source.n_rows

    def refs(self) -> Sequence[Ref]:
        return self._source.refs()

    def reader(self) -> _KeptReader:
        return _KeptReader(self._source, self._chunks)

    def place(self, ref: Ref) -> str:
        """Where its rows lie, for messages."""
        named: Any = getattr(self._source, "place", None)
        return f"rows {ref.start} to {ref.stop}" if named is None else str(named(ref))

    def drain_nbytes(self) -> int:
        """Bytes read from the store since this was last asked."""
        n, refs = len(self._chunks), self.refs()
        stored = getattr(self._source, "stored_nbytes", None)
        whole = sum(ref.nbytes for ref in refs) if stored is None else stored
        new, self._n_counted = n - self._n_counted, n
        return int(whole * new / max(len(refs), 1))


class _KeptReader:
    def __init__(self, source: Source, chunks: dict[int, Chunk]) -> None:
        self._source, self._chunks = source, chunks
        self._reader: SourceReader | None = None

    def read(self, ref: Ref) -> Chunk:
        kept = self._chunks.get(ref.start)
        if kept is None:
            if self._reader is None:
                self._reader = self._source.reader().__enter__()
            self._chunks[ref.start] = kept = _copied(self._reader.read(ref))
        return Chunk(kept.X, kept.y, kept.weight, kept.rows)

    def __enter__(self) -> _KeptReader:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._reader is not None:
            self._reader.__exit__(*exc)
            self._reader = None


def _copied(chunk: Chunk) -> Chunk:
    """The same in arrays of its own, in the same order in memory."""
    return Chunk(
        np.array(chunk.X, order="K"),
        None if chunk.y is None else chunk.y.copy(),
        None if chunk.weight is None else chunk.weight.copy(),
        chunk.rows.copy() if isinstance(chunk.rows, np.ndarray) else chunk.rows,
    )
