"""Base class of all stores: the questions that a file format must answer of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Protocol, Self

import numpy as np

from .levels import LevelCoder
from .order import HashShare
from .source import Chunk, Convert


class Reader(Protocol):
    """An open store: file handles and buffers of one task.  Not shared between threads."""

    def read(self, start: int, stop: int) -> Chunk:
        """Physical rows [start, stop).  Cheapest in ascending order; may be asked for in any."""

    def close(self) -> None:
        """Let go of files and buffers.

        Raises SourceError if a file that was read is no longer as it was when the store was opened:
        then nothing that came of it is used.
        """


@dataclass(frozen=True)
class Column:
    """One column of a store."""

    name: str
    dtype: str
    """A name of `column_types`: a numpy dtype name (``float32``, ``bool``), ``string``,
    ``dictionary``, or what is refused: ``timestamp``, ``duration``, ``decimal``, ``nested``, ..."""


NUMBERED = 1 << 14
"""Columns of the widest table whose records are kept for the next one: 3 MiB."""


def numbered_columns(n: int, dtype: str) -> tuple[Column, ...]:
    """Columns x0, x1, ... of one type: an array has no other names.

    Those of the last tables are kept: 10,000 records take as long to make as a prediction.
    """
    return _numbered(n, dtype) if n <= NUMBERED else _make_numbered(n, dtype)


def _make_numbered(n: int, dtype: str) -> tuple[Column, ...]:
    return tuple(Column(f"x{j}", dtype) for j in range(n))


_numbered = lru_cache(2)(_make_numbered)


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
    """True if there is an `open_through`: columns are converted as they are decoded."""
    has_bytes: bool = False
    """True if all features are sparse and stored as uint8, which `open` then takes as `dtype`."""
    filtered: bool = False
    """True if readers leave rows out: how many stay is known only after a pass."""
    siblings: int = 1
    """Neighbouring row numbers, from a multiple of it on, that are of one subject: rows chosen by
    hashes are chosen with all of them."""
    shared_nbytes: int = 0
    """Bytes of metadata (file footers) that a process holds once for all its readers."""
    n_missing_chunks: int = 0
    """Chunks that are not stored, whose cells are read as a fill value (zarr)."""
    passes_before: int = 0
    """Reads of the rows that making this store took."""
    takes_levels: bool = True
    """False if string columns can not be read as codes."""
    levels: Mapping[str, LevelCoder] = MappingProxyType({})
    """Coders of the string columns that are read as codes."""
    default_target: str | None = None
    """The target if no other is named: ``y`` of a zarr group, or a `y` given apart."""
    default_weight: str | None = None

    @cached_property
    def places(self) -> dict[str, int]:
        """First place of each name in `columns`; found once, because many readers ask."""
        names = [column.name for column in self.columns]
        return dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))

    @property
    def base(self) -> Store:
        """The store whose rows these are made of, if they are made of others; else this one."""
        return self

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        state.pop("places", None)  # as long to send as to make
        return state

    @abstractmethod
    def boundaries(self) -> np.ndarray:
        """First rows of the natural units (row groups, chunks, partitions), and the number of rows.

        (u + 1,) int64 ascending from 0 to n_rows; units may be empty only if there are no rows.
        """

    def live(self) -> np.ndarray:
        """(u,) bool: the units that can hold rows at all; a filter may rule some out unread."""
        return np.ones(len(self.boundaries()) - 1, bool)

    def check(self, names: Sequence[str]) -> None:
        """Raise SourceError if these columns do not mean the same in every file."""
        return None  # of one file, as most stores are

    def coded(self, coders: Mapping[str, LevelCoder]) -> Self:
        """The store with these string columns read as codes of their levels, float32."""
        store = copy(self)
        store.levels = {**self.levels, **coders}
        store.columns = tuple(
            Column(column.name, "float32") if column.name in coders else column
            for column in self.columns
        )
        return store

    def left_out_nbytes(self, names: Sequence[str], dtype: np.dtype) -> int:
        """Bytes that a row takes in a slice and not in its chunk, if it is left out.

        A store that says so leaves rows out by shares itself: see `choosing`.
        """
        return 0

    def choosing(self, shares: tuple[HashShare, ...]) -> tuple[Self, tuple[HashShare, ...]]:
        """The store whose readers choose by those of the shares that they can, and the others."""
        return self, shares

    def row_nbytes(self, names: Sequence[str], dtype: np.dtype) -> float:
        """Decoded bytes of one row (mean over rows for sparse stores)."""
        return float(len(names) * dtype.itemsize)

    @abstractmethod
    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        """Bytes a reader holds beside its chunk (decoded pages, whole storage chunks)."""

    def read_together(self, names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
        """The columns that `overhead_nbytes` is asked of, when these and `others` are read.

        `others` are target and weight.
        """
        return tuple(names)

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

    def open_through(
        self,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
        convert: Convert,
    ) -> Reader:
        """A reader that puts features through `convert` as it decodes them, if it `converts`."""
        raise TypeError(f"{type(self).__name__} has no `converts`: it cannot convert columns")

    @abstractmethod
    def place(self, start: int, stop: int) -> str:
        """Name of the place of these rows, for messages: ``data/a.parquet, row group 3``."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, object]:
        """Identity of the content, found without reading it: JSON, no times, no absolute paths."""

    def locations(self) -> tuple[str, ...]:
        """Files and folders that the rows lie in, by `files.remote.one_name`.

        Nothing is written over them.  Empty where the rows lie in memory, or nobody can tell.
        """
        return ()

    def versions(self) -> Mapping[str, str]:
        """Versions (`files.versions`) of what lies in files, as it was when the store was opened.

        By names that stay where the data lie elsewhere; empty if nobody can change it, or tell.
        """
        return {}
