"""Rows that stay in this process between the reads of a fit, where the plan has room for them."""

from __future__ import annotations

from types import TracebackType

from ...data.mapped import SourceOver
from ...data.row_ranges import Ref
from ...data.source import Chunk, Source, SourceReader


class KeptRows(SourceOver):
    """A source whose chunks are copied as they are read, and read no more."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._chunks = dict[int, Chunk]()
        self._n_counted = 0

    @property
    def slice_rows(self) -> None:
        """None: the chunks lie here as they were cut."""
        return None

    def reader(self) -> _KeptReader:
        return _KeptReader(self.source, self._chunks)

    def drain_nbytes(self) -> int:
        """Bytes read from the store since this was last asked."""
        n = len(self._chunks)
        new, self._n_counted = n - self._n_counted, n
        return int(self.source.stored_nbytes * new / max(len(self.refs()), 1))


class _KeptReader:
    def __init__(self, source: Source, chunks: dict[int, Chunk]) -> None:
        self._source, self._chunks = source, chunks
        self._reader: SourceReader | None = None

    def read(self, ref: Ref) -> Chunk:
        kept = self._chunks.get(ref.start)
        if kept is None:
            if self._reader is None:
                self._reader = self._source.reader().__enter__()
            self._chunks[ref.start] = kept = self._reader.read(ref).copy()
        return Chunk(kept.X, kept.y, kept.weight, kept.rows)

    def __enter__(self) -> _KeptReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reader is not None:
            self._reader.__exit__(kind, error, trace)
            self._reader = None
