"""Sources made of other sources: the same columns, sizes and choices, with other chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from ..errors import SourceError
from .row_ranges import Ref, Refs
from .source import Chunk, Convert, Made, Source, SourceReader


@dataclass(frozen=True)
class SourceOver(Source):
    """A source that answers as the one beneath does; a subclass says what its reader adds.

    Every member is passed on by name, so that nothing a source can tell is lost on the way
    (`tests/laws/test_sources.py` compares the two).
    """

    source: Source

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]  # a plain attribute elsewhere
        return self.source.n_rows

    def refs(self) -> Refs:
        return self.source.refs()

    def made_of(self) -> Made | None:
        return None  # its chunks are others than those beneath

    @property
    def slice_rows(self) -> int | None:
        return self.source.slice_rows

    def with_slice_rows(self, n: int) -> Self:
        return replace(self, source=self.source.with_slice_rows(n))

    def place(self, ref: Ref) -> str:
        return self.source.place(ref)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.source.feature_names

    @property
    def dtype(self) -> np.dtype:
        return self.source.dtype

    @property
    def kind(self) -> str:
        return self.source.kind

    @property
    def column_types(self) -> Mapping[str, str]:
        return self.source.column_types

    @property
    def categorical(self) -> tuple[str, ...]:
        return self.source.categorical

    @property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        return self.source.levels

    @property
    def sparse(self) -> bool:
        return self.source.sparse

    @property
    def target(self) -> str | None:
        return self.source.target

    @property
    def weight(self) -> str | None:
        return self.source.weight

    @property
    def is_weighted(self) -> bool:
        return self.source.is_weighted

    @property
    def in_memory(self) -> bool:
        return self.source.in_memory

    @property
    def n_physical_rows(self) -> int:
        return self.source.n_physical_rows

    @property
    def siblings(self) -> int:
        return self.source.siblings

    @property
    def left_out_nbytes(self) -> int:
        return self.source.left_out_nbytes

    @property
    def decoded_nbytes(self) -> int:
        return self.source.decoded_nbytes

    @property
    def stored_nbytes(self) -> int:
        return self.source.stored_nbytes

    @property
    def overhead_nbytes(self) -> int:
        return self.source.overhead_nbytes

    @property
    def shared_nbytes(self) -> int:
        return self.source.shared_nbytes

    @property
    def passes_before(self) -> int:
        return self.source.passes_before

    def drain_nbytes(self) -> int:
        return self.source.drain_nbytes()

    def with_columns(self, columns: Sequence[str]) -> Self:
        return replace(self, source=self.source.with_columns(columns))

    def where_hash(self, low: float, high: float, seed: int) -> Self:
        return replace(self, source=self.source.where_hash(low, high, seed))

    def as_bytes(self) -> Self:
        return replace(self, source=self.source.as_bytes())

    @property
    def converts(self) -> bool:
        return self.source.converts

    def through(self, convert: Convert) -> Self:
        return replace(self, source=self.source.through(convert))


@dataclass(frozen=True)
class MappedSource(SourceOver):
    """A source whose chunks go through a function: coded labels, a model's answers as targets."""

    function: Callable[[Chunk], Chunk]
    """Picklable; may change the chunk it is given.  A `SourceError` it raises is told the place."""
    reads_features: bool = False
    """Whether `function` looks at features, which then must not be converted below it."""

    @property
    def converts(self) -> bool:
        return self.source.converts and not self.reads_features

    def reader(self) -> SourceReader:
        return _MappedReader(self)

    def made_of(self) -> Made | None:
        beneath = self.source.made_of()
        return beneath and Made(beneath.source, partial(self._make, beneath.make))

    def _make(self, make: Callable[[Chunk, Ref], Chunk], chunk: Chunk, ref: Ref) -> Chunk:
        return self.of(make(chunk, ref), ref)

    def of(self, chunk: Chunk, ref: Ref) -> Chunk:
        """The chunk that the function makes of one of `source`."""
        try:
            return self.function(chunk)
        except SourceError as error:
            raise SourceError(f"{self.place(ref)}: {error}") from error


class _MappedReader:
    def __init__(self, mapped: MappedSource) -> None:
        self._mapped, self._reader = mapped, mapped.source.reader()

    def read(self, ref: Ref) -> Chunk:
        return self._mapped.of(self._reader.read(ref), ref)

    def __enter__(self) -> _MappedReader:
        self._reader = self._reader.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._reader.__exit__(*raised)
