"""Choice of columns and rows of a store, which a `Dataset` is, and facts that follow from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Self, TypeVar

import numpy as np

from .column_types import CATEGORIES, SINGLE
from .encoding import Encoding
from .levels import LevelCoder
from .order import HashShare, kept_rows
from .roles import check_columns
from .row_ranges import Ref, Refs, largest_slice
from .source import Chunk, Convert, Source
from .store import Store

Chosen = TypeVar("Chosen", bound="Choice")
EXACT, WORDS = frozenset((*SINGLE, *CATEGORIES)), frozenset(CATEGORIES)
UNNAMED = ("array", "memmap", "frame", "scipy.sparse", "zarr", "dask.array")
"""Kinds of stores whose columns are called x0, x1, ... for want of a name."""


@dataclass(frozen=True)
class Choice(Source):
    """The fields of a `Dataset` and the facts that follow from them, without the ways to read it.

    A room that a `Dataset` calls can name this class, and not `Dataset` itself.
    """

    store: Store
    columns: tuple[str, ...]
    target: str | None = None
    weight: str | None = None
    chunk_rows: int | None = None
    shares: tuple[HashShare, ...] = ()
    maps: tuple[Callable[[object], object] | Encoding, ...] = ()
    mapped_names: tuple[str, ...] | None = None
    convert: Convert | None = None
    bytes_kept: bool = False
    """Whether sparse rows that are stored as bytes are given as uint8, whatever `dtype`."""
    reweigh: Callable[[Chunk], Chunk] | None = None
    """Function that gives a chunk, which it may change, other weights."""
    _counted: list[int] = field(default_factory=list, repr=False, compare=False)
    """Number of rows after filters, once a summary has counted them."""
    _typed: list[dict[str, str]] = field(default_factory=list, repr=False, compare=False)
    """`_types` once it is made: one for all choices of columns of a store."""

    def __post_init__(self) -> None:
        check_columns(self.store, self._types, self.columns, self.target, self.weight)
        if self.chunk_rows is not None and self.chunk_rows < 1:
            raise ValueError(f"chunk_rows={self.chunk_rows}; a chunk holds at least one row")

    def __getstate__(self) -> dict[str, object]:
        own = {f.name for f in fields(self)}
        kept = {name: value for name, value in vars(self).items() if name in own}
        return {**kept, "_typed": []}  # not what is cached

    @abstractmethod
    def column(self, name: str) -> Source:
        """One column, of strings perhaps, as the target of chunks without features."""

    @abstractmethod
    def with_levels(self, levels: Mapping[str, Sequence[str]]) -> Self:
        """The string columns named read as codes of these levels; other words are NaN."""

    @abstractmethod
    def with_coders(self, coders: Mapping[str, LevelCoder]) -> Self:
        """The string columns named read as the codes that these give."""

    @abstractmethod
    def select(self, columns: Sequence[str]) -> Self:
        """Keep these feature columns, in this order; the others are not read."""

    # What it is.

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.columns if self.mapped_names is None else self.mapped_names

    @cached_property
    def _types(self) -> dict[str, str]:
        """Stored type of every column of the store."""
        if not self._typed:
            self._typed.append({column.name: column.dtype for column in self.store.columns})
        return self._typed[0]

    @property
    def column_types(self) -> Mapping[str, str]:
        """`Column.dtype` of the columns as stored; of target and weight alone if X is mapped."""
        if not self.maps:
            return self._types
        return {name: self._types[name] for name in (self.target, self.weight) if name is not None}

    @cached_property
    def dtype(self) -> np.dtype:
        single = EXACT.issuperset(map(self._types.__getitem__, self.columns))
        return np.dtype(np.float32 if single else np.float64)

    @cached_property
    def categorical(self) -> tuple[str, ...]:
        """Feature columns of strings or dictionaries whose levels are not known yet."""
        found = WORDS.intersection(map(self._types.__getitem__, self.columns))
        return tuple(name for name in self.columns if self._types[name] in found) if found else ()

    @property
    def sparse(self) -> bool:
        return self.store.sparse

    @property
    def kind(self) -> str:
        return self.store.kind

    @property
    def is_named(self) -> bool:
        """Whether the feature columns have names of their own."""
        numbered = all(name == f"x{j}" for j, name in enumerate(self.feature_names))
        return not (numbered and self.kind in UNNAMED)

    @property
    def in_memory(self) -> bool:
        return self.store.in_memory

    @property
    def n_missing_chunks(self) -> int:
        """Chunks that are not stored, whose cells are read as a fill value (zarr)."""
        return self.store.n_missing_chunks

    @property
    def passes_before(self) -> int:
        return self.store.passes_before

    @property
    def n_physical_rows(self) -> int:
        return self.store.n_rows

    @property
    def siblings(self) -> int:
        return self.store.siblings

    @property
    def left_out_nbytes(self) -> int:
        return self.store.left_out_nbytes(self.columns, self.dtype)

    @cached_property
    def _hashed_rows(self) -> int:
        return self.siblings * kept_rows(self.shares, self.store.n_rows // self.siblings)

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]  # a plain attribute elsewhere
        if self._counted:
            return self._counted[0]
        if self.store.filtered:
            return None
        return self._hashed_rows if self.shares else self.store.n_rows

    @cached_property
    def slice_rows(self) -> int:
        """Rows of the largest chunk: `chunk_rows`, or the power of two that decodes to 16 MiB."""
        return largest_slice(self._row_nbytes) if self.chunk_rows is None else self.chunk_rows

    @cached_property
    def _row_nbytes(self) -> float:
        row = self.store.row_nbytes(self.columns, self.dtype)
        widths = [f.n_features for f in self.maps if isinstance(f, Encoding) and not f.sparse]
        return max([row, *(float(width * self.dtype.itemsize) for width in widths)])

    @property
    def _roles(self) -> tuple[str, ...]:
        """Names of target and weight, if there are."""
        return tuple(name for name in (self.target, self.weight) if name is not None)

    @cached_property
    def stored_nbytes(self) -> int:
        """Bytes on disk that one read of the dataset's columns takes."""
        return self.store.stored_nbytes(tuple(dict.fromkeys((*self.columns, *self._roles))))

    @cached_property
    def overhead_nbytes(self) -> int:
        mapped = max(map(self._beside_nbytes, self.maps), default=0.0)
        mapped *= int(Refs.of(self.refs()).sizes.max(initial=0))
        names = self.store.read_together(self.columns, self._roles)
        return self.store.overhead_nbytes(names, self.slice_rows) + int(mapped)

    def _beside_nbytes(self, f: Callable[..., object] | Encoding) -> float:
        """Bytes of a row that making its features takes beside them."""
        if isinstance(f, Encoding):
            in_place = may_write(self, f)
            return f.beside_nbytes(self._row_nbytes, self.dtype.itemsize, in_place)
        return self._row_nbytes + 64  # a column made to several needs a few numbers

    @property
    def shared_nbytes(self) -> int:
        return self.store.shared_nbytes + sum(
            f.nbytes for f in self.maps if isinstance(f, Encoding)
        )

    def fingerprint(self) -> dict[str, object]:
        """Identity of these rows and columns as JSON values, found without reading them."""
        return {
            **self.store.fingerprint(),
            "features": list(self.feature_names),
            "columns_read": list(self.columns),
            "target": self.target,
            "weight": self.weight,
            "slice_rows": self.slice_rows,
            "shares": [[share.low, share.high, share.seed] for share in self.shares],
            "maps": [_name_of(f) for f in self.maps],
        }

    def versions(self) -> dict[str, str]:
        """Versions of the files, as they were when the dataset was opened; see `Store.versions`."""
        return dict(self.store.versions())

    def place(self, ref: Ref) -> str:
        return self.store.place(ref.start, ref.stop)


def may_write(data: Choice, f: Callable[..., object] | Encoding) -> bool:
    """Whether one of a dataset's maps may write to the rows it is given: those of a reader."""
    return f is data.maps[0] and not data.in_memory


def _name_of(f: Callable[..., object] | Encoding) -> str:
    if isinstance(f, Encoding):
        return f"encoding {f.seed} {[(coding.position, coding.kind) for coding in f.codings]}"
    if isinstance(f, partial):
        return f"{_name_of(f.func)}{f.args}{f.keywords}"
    try:
        return f"{f.__module__}.{f.__qualname__}"
    except AttributeError:  # an object that is called, or a ufunc of a numpy before 2.2
        if isinstance(f, np.ufunc):
            return f"numpy.{f.__name__}"
        return f"{type(f).__module__}.{type(f).__qualname__}"
