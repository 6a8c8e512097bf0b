"""Rows elsewhere, and rows in hand: the nouns every other room is built on.

A store is a long table of *physical rows* 0 .. n_rows-1.  A `Ref` names a run of them, a `Chunk`
holds them.  A `Store` (one per file format) reads runs of rows; the public `Dataset` adds the
choice of columns and rows.  Nothing here knows a format, an engine or an algorithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np


class Csr(NamedTuple):
    """Compressed sparse rows, as the kernels take them (scipy's convention, canonical format)."""

    data: np.ndarray
    """(nnz,) float32 or float64; uint8 where a read asks for bytes (`Dataset.as_bytes`)."""
    indices: np.ndarray
    """(nnz,) int32 or int64, column numbers, ascending within a row."""
    indptr: np.ndarray
    """(m + 1,) int64, starting at 0."""
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, self.n_columns


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


@dataclass(slots=True)
class Chunk:
    """Rows in hand, in the reader's buffers: valid until that reader's next read."""

    X: np.ndarray | Csr
    """(m, p) float32 or float64, row- or column-major; or Csr."""
    y: np.ndarray | None = None
    """(m,) targets as stored (numbers or str objects)."""
    weight: np.ndarray | None = None
    """(m,) float64, finite and >= 0; None = every weight is 1."""
    rows: np.ndarray | range = range(0)
    """(m,) physical row numbers of the store: a range, or int64 ascending after a selection."""
    state: dict[str, np.ndarray] = field(default_factory=dict)
    """Row-aligned state, name -> (m, width); filled before `step` and kept after it."""
    order: np.ndarray | None = None
    """(m,) intp: how an order-sensitive step visits the rows; None in other passes."""

    @property
    def n_rows(self) -> int:
        return len(self.rows)


@runtime_checkable
class Reader(Protocol):
    """An open store: file handles and buffers of one task.  Not shared between threads."""

    def read(self, start: int, stop: int) -> Chunk:
        """Physical rows [start, stop).  Cheapest in ascending order; may be asked for in any."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Column:
    """One column of a store."""

    name: str
    dtype: str
    """A numpy dtype name (``float32``, ``int16``, ``bool``), or ``string``, ``dictionary``,
    ``timestamp``, ``nested`` for what is not a plain number."""


class Convert(Protocol):
    """What a reader may put feature columns through while it decodes them: cheaper than later."""

    def __call__(
        self, columns: Sequence[np.ndarray], which: Sequence[int], out: np.ndarray, at: int
    ) -> None:
        """Write float32 made of each column's n values into ``out[which[i], at : at + n]``.

        Columns are read-only arrays in the dataset's dtype, not all of one length: rows, or the
        values of a dictionary; a value's image depends on it alone.  ``which`` are the numbers of
        their features, `out` is a C-contiguous matrix of a row per feature.
        """


class Store(ABC):
    """A table in some file format.  A new format is one subclass in one file of this room.

    Subclasses are picklable, cheap to send (they hold paths and metadata, never rows of the data,
    except in-memory stores) and open nothing before `open`.
    """

    kind: str
    """The format's name in messages: ``parquet``, ``zarr``, ``array``, ..."""
    n_rows: int
    columns: tuple[Column, ...]
    sparse: bool = False
    in_memory: bool = False
    """True if the rows live in this process: read by threads, sent to a cluster only if small."""
    converts: bool = False
    """True if `open` takes ``convert=``: columns are put through it as they are decoded."""
    has_bytes: bool = False
    """True if all features are sparse and stored as uint8, which `open` then takes as `dtype`."""
    filtered: bool = False
    """True if readers leave rows out: how many stay is known only after a pass."""
    shared_nbytes: int = 0
    """Bytes of metadata (file footers) that a process holds once for all its readers."""
    passes_before: int = 0
    """Reads of the rows that making this store took."""
    takes_levels: bool = True
    """False if string columns can not be read as codes."""
    levels: Mapping[str, Any] = MappingProxyType({})
    """`data.levels.Coder` of the string columns that are read as codes."""
    default_target: str | None = None
    """The target if no other is named: ``y`` of a zarr group, or a `y` given apart."""
    default_weight: str | None = None

    @abstractmethod
    def boundaries(self) -> np.ndarray:
        """Where the natural units (row groups, chunks, partitions) begin.

        (u + 1,) int64 ascending from 0 to n_rows; units may be empty only if there are no rows.
        """

    def live(self) -> np.ndarray:
        """(u,) bool: the units that can hold rows at all; a filter may rule some out unread."""
        return np.ones(len(self.boundaries()) - 1, bool)

    def check(self, names: Sequence[str]) -> None:
        """Raise SourceError if these columns do not mean the same in every file."""
        return None  # of one file, as most stores are

    def coded(self, coders: Mapping[str, Any]) -> Store:
        """The store with these string columns read as codes of their levels, float32."""
        store = copy(self)
        store.levels = {**self.levels, **coders}
        store.columns = tuple(
            Column(column.name, "float32") if column.name in coders else column
            for column in self.columns
        )
        return store

    def row_nbytes(self, names: Sequence[str], dtype: np.dtype) -> float:
        """Decoded bytes of one row (mean over rows for sparse stores)."""
        return float(len(names) * dtype.itemsize)

    @abstractmethod
    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        """Bytes a reader holds beside its chunk (decoded pages, whole storage chunks)."""

    @abstractmethod
    def stored_nbytes(self, names: Sequence[str]) -> int:
        """Bytes on disk (compressed) that one pass over these columns reads; 0 if in memory."""

    @abstractmethod
    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> Reader:
        """A reader of these feature columns, in this order, as `dtype`: float32 or float64.

        Or uint8, if the store `has_bytes`.
        """

    @abstractmethod
    def place(self, start: int, stop: int) -> str:
        """Where these rows lie, for messages: ``data/a.parquet, row group 3``."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, Any]:
        """What identifies the content without reading it: JSON, no times, no absolute paths."""


class Source(Protocol):
    """What the engine needs of data: the public `Dataset` is one, the scratch cache another."""

    n_rows: int | None

    def refs(self) -> Sequence[Ref]: ...

    def reader(self) -> SourceReader: ...


class SourceReader(Protocol):
    """Reads refs into chunks; a context manager that closes its files."""

    def read(self, ref: Ref) -> Chunk: ...

    def __enter__(self) -> SourceReader: ...

    def __exit__(self, *exc: object) -> None: ...
