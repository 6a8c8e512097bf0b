"""Rows that stay in this process between the reads of a fit, where the plan has room for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ...data.mapped import SourceOver
from ...data.row_ranges import Ref
from ...data.source import Chunk, Made, Source, SourceReader
from ..lanes import RetryingReader, cut_lanes
from .blocks import RowForm


class InMemoryRows(SourceOver):
    """A source whose chunks are kept in one form as they are read, and read no more."""

    def __init__(self, source: Source, form: RowForm) -> None:
        super().__init__(source)
        self._form = form
        self._chunks = dict[int, Chunk]()
        self._n_counted = 0

    @property
    def slice_rows(self) -> None:
        """None: the chunks lie here as they were cut."""
        return None

    def reader(self) -> _InMemoryReader:
        return _InMemoryReader(self.source, self._form, self._chunks)

    def made_of(self) -> Made | None:
        """The source of the rows, while none of them is here."""
        beneath = None if self._chunks else self.source.made_of()
        return beneath and Made(beneath.source, partial(self._make, beneath.make))

    def _make(self, make: Callable[[Chunk, Ref], Chunk], chunk: Chunk, ref: Ref) -> Chunk:
        self._chunks[ref.start] = own = self._form.own(make(chunk, ref))
        return Chunk(own.X, own.y, own.weight, own.rows)

    def drain_nbytes(self) -> int:
        """Bytes read from the store since this was last asked."""
        n = len(self._chunks)
        new, self._n_counted = n - self._n_counted, n
        return int(self.source.stored_nbytes * new / max(len(self.refs()), 1))

    def fill(self, n_threads: int) -> None:
        """Read the rows that are not in memory yet."""
        with ThreadPoolExecutor(n_threads) as pool:
            for _ in pool.map(self._fill_lane, cut_lanes(self.refs())):
                pass

    def give_up(self) -> list[Chunk]:
        """All rows, a chunk a ref, with what state their form gave them; they stay here no more."""
        chunks = [self._chunks.pop(ref.start) for ref in self.refs()]
        self._n_counted = 0
        return chunks

    def _fill_lane(self, lane: Sequence[Ref]) -> None:
        with RetryingReader(self) as reader:
            for ref in lane:
                reader.read(ref)


class _InMemoryReader:
    def __init__(self, source: Source, form: RowForm, chunks: dict[int, Chunk]) -> None:
        self._source, self._form, self._chunks = source, form, chunks
        self._reader: SourceReader | None = None

    def read(self, ref: Ref) -> Chunk:
        chunk = self._chunks.get(ref.start)
        if chunk is None:
            if self._reader is None:
                self._reader = self._source.reader().__enter__()
            self._chunks[ref.start] = chunk = self._form.own(self._reader.read(ref))
        return Chunk(chunk.X, chunk.y, chunk.weight, chunk.rows)

    def __enter__(self) -> _InMemoryReader:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._reader is not None:
            self._reader.__exit__(*raised)
            self._reader = None
