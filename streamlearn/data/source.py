"""Rows in hand, and where they come from: the nouns on which every other room is built.

A table is a long list of *physical rows* 0 .. n_rows-1.  A `Ref` names a run of them, a `Chunk`
holds rows in memory, and a `Source` reads refs into chunks.  Nothing here knows a file format, an
engine or an algorithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from ..errors import SourceError
from .row_ranges import Ref, Refs

_BLOCK = 4096
"""Rows moved at a time where a selection is made in place."""
_NO_LEVELS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Csr(NamedTuple):
    """Compressed sparse rows, as the kernels take them (scipy's convention, canonical format)."""

    data: np.ndarray
    """(nnz,) float32 or float64; uint8 where a read asks for bytes (`Source.as_bytes`)."""
    indices: np.ndarray
    """(nnz,) int32 or int64, column numbers, ascending within a row."""
    indptr: np.ndarray
    """(m + 1,) int64, starting at 0."""
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, self.n_columns

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays."""
        return self.data.nbytes + self.indices.nbytes + self.indptr.nbytes

    def dense(self) -> np.ndarray:
        """The rows as an array, absent values as 0."""
        out = np.zeros(self.shape, self.data.dtype)
        out[np.repeat(np.arange(len(out)), np.diff(self.indptr)), self.indices] = self.data
        return out

    def take(self, index: np.ndarray) -> Csr:
        """Copies of the rows at these places, in this order."""
        lengths = np.diff(self.indptr)[index]
        indptr = np.zeros(len(index) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        at = np.repeat(self.indptr[:-1][index] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Csr(self.data[at], self.indices[at], indptr, self.n_columns)

    def part(self, start: int, stop: int) -> Csr:
        """Rows [start, stop); views of the values and the column numbers."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        indptr = self.indptr[start : stop + 1] - first
        return Csr(self.data[first:last], self.indices[first:last], indptr, self.n_columns)

    def copy(self) -> Csr:
        """The same rows in arrays of their own."""
        return Csr(self.data.copy(), self.indices.copy(), self.indptr.copy(), self.n_columns)

    @staticmethod
    def join(parts: Sequence[Csr]) -> Csr:
        """The rows of all parts, one part below the other."""
        ends = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        indptr = [part.indptr[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
        return Csr(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *indptr]),
            parts[0].n_columns,
        )


@dataclass(slots=True)
class Chunk:
    """Rows in hand, in the reader's buffers: valid until that reader's next read."""

    X: np.ndarray | Csr
    """(m, p) float32 or float64, row- or column-major; or Csr."""
    y: np.ndarray | None = None
    """(m,) targets as stored (numbers or str objects)."""
    weight: np.ndarray | None = None
    """(m,) float64, finite and >= 0; None if every weight is 1."""
    rows: np.ndarray | range = range(0)
    """(m,) physical row numbers: a range, or int64 ascending after a selection."""
    state: dict[str, np.ndarray] = field(default_factory=dict)
    """Row-aligned state, name -> (m, width); filled before `step` and stored after it."""
    order: np.ndarray | None = None
    """(m,) intp: how an order-sensitive step visits the rows; None in other passes."""

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def numbers(self) -> np.ndarray:
        """(m,) int64 `rows` in an array of its own; numpy alone takes 60 ns for one of a range."""
        rows = self.rows
        if isinstance(rows, range):
            return np.arange(rows.start, rows.stop, rows.step, dtype=np.int64)
        return rows.astype(np.int64)

    def of_few_columns(self) -> np.ndarray:
        """X as an array, of a chunk whose columns are few: sparse rows are written out."""
        return self.X.dense() if isinstance(self.X, Csr) else self.X

    @property
    def dense(self) -> np.ndarray:
        """X of a chunk that is known not to be sparse."""
        if isinstance(self.X, Csr):
            raise TypeError(f"got {self.n_rows} sparse rows where only dense ones can come")
        return self.X

    @property
    def target(self) -> np.ndarray:
        """y of a chunk that is known to have targets."""
        if self.y is None:
            raise TypeError(
                f"got {self.n_rows} rows without targets where only rows with them come"
            )
        return self.y

    def take(self, index: np.ndarray, *, in_place: bool = False) -> Chunk:
        """The rows at these places, in this order; row numbers stay the physical ones.

        Copies, or with `in_place`, for ascending places, moved up in the chunk's own buffer.
        """
        X = self.X
        if isinstance(X, Csr):
            X = X.take(index)
        else:
            X = _moved_up(X, index) if in_place else X[index]
        return Chunk(
            X=X,
            y=None if self.y is None else self.y[index],
            weight=None if self.weight is None else self.weight[index],
            rows=_numbers_at(self.rows, index),
        )

    def where(self, keep: np.ndarray, *, in_place: bool = False) -> Chunk:
        """The rows where `keep` is true; the chunk itself if that is all of them."""
        return self if keep.all() else self.take(np.flatnonzero(keep), in_place=in_place)

    def part(self, start: int, stop: int) -> Chunk:
        """Rows start to stop - 1, as views."""
        cut = slice(start, stop)
        return Chunk(
            X=self.X.part(start, stop) if isinstance(self.X, Csr) else self.X[cut],
            y=None if self.y is None else self.y[cut],
            weight=None if self.weight is None else self.weight[cut],
            rows=self.rows[cut],
            state={name: values[cut] for name, values in self.state.items()},
        )

    def blocks(self, n_rows: int) -> Iterator[Chunk]:
        """The chunk in parts of `n_rows` rows, the last perhaps shorter, as views."""
        for start in range(0, self.n_rows, n_rows):
            yield self.part(start, min(start + n_rows, self.n_rows))

    def copy(self) -> Chunk:
        """The same rows in arrays of their own, in the same layout."""
        return Chunk(
            X=self.X.copy() if isinstance(self.X, Csr) else np.array(self.X, order="K"),
            y=None if self.y is None else self.y.copy(),
            weight=None if self.weight is None else self.weight.copy(),
            rows=self.rows.copy() if isinstance(self.rows, np.ndarray) else self.rows,
        )

    @staticmethod
    def join(chunks: Sequence[Chunk]) -> Chunk:
        """The rows of all chunks, one chunk below the other, with their row state."""
        sparse = [chunk.X for chunk in chunks if isinstance(chunk.X, Csr)]
        dense = [chunk.X for chunk in chunks if not isinstance(chunk.X, Csr)]
        runs = [chunk.rows for chunk in chunks if chunk.n_rows]
        rows: np.ndarray | range = range(0)
        if all(isinstance(run, range) for run in runs) and all(
            a[-1] + 1 == b[0] for a, b in zip(runs, runs[1:], strict=False)
        ):
            rows = range(int(runs[0][0]), int(runs[-1][-1]) + 1) if runs else rows
        else:
            rows = np.concatenate([chunk.numbers for chunk in chunks])
        return Chunk(
            X=Csr.join(sparse) if sparse else np.concatenate(dense),
            y=_joined([chunk.y for chunk in chunks]),
            weight=_joined([chunk.weight for chunk in chunks]),
            rows=rows,
            state={
                name: np.concatenate([chunk.state[name] for chunk in chunks])
                for name in chunks[0].state
            },
        )


def _numbers_at(rows: range | np.ndarray, index: np.ndarray) -> np.ndarray:
    if isinstance(rows, range):
        return rows.start + rows.step * np.asarray(index, np.int64)
    return rows[index].astype(np.int64, copy=False)


def _moved_up(X: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The rows at ascending places, moved to the beginning of X."""
    if X.flags.f_contiguous:
        for column in X.T:
            column[: len(index)] = column[index]
    else:
        # Ascending blocks: a row only ever moves up, to where nothing is needed any more.
        for a in range(0, len(index), _BLOCK):
            part = index[a : a + _BLOCK]
            X[a : a + len(part)] = X[part]
    return X[: len(index)]


def _joined(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    given = [part for part in parts if part is not None]
    return np.concatenate(given) if given else None


class SourceReader(Protocol):
    """Reads refs into chunks; a context manager that closes its files."""

    def read(self, ref: Ref) -> Chunk: ...

    def __enter__(self) -> SourceReader: ...

    def __exit__(self, *raised: object) -> None: ...


class Convert(Protocol):
    """A conversion of feature columns while a reader decodes them, which is cheaper than later."""

    def __call__(
        self, columns: Sequence[np.ndarray], which: Sequence[int], out: np.ndarray, at: int
    ) -> None:
        """Write float32 made of each column's n values into ``out[which[i], at : at + n]``.

        Columns are read-only arrays in the dataset's dtype, not all of one length: rows, or the
        values of a dictionary; a value's image depends on it alone.  ``which`` are the numbers of
        their features, `out` is a C-contiguous matrix of a row per feature.
        """


class Made(NamedTuple):
    """Another source, and how chunks are made of its own: one read can then serve several."""

    source: Source
    """The source to read; one that is equal gives the same chunks."""
    make: Callable[[Chunk, Ref], Chunk]
    """Picklable; may change the chunk it is given, but no arrays where `source` is `in_memory`."""


class Source(ABC):
    """Everything that the engine, the passes and the families may ask of data.

    The public `Dataset` is a source, a `MappedSource` another, rows cached by a run a third.  A new
    one defines `n_rows`, `refs` and `reader`; all else has a default that fits rows which are
    nowhere but where `reader` takes them from.
    """

    n_rows: int | None
    """Number of rows; None if that is known only after a pass (filtered rows)."""

    # How its rows are read.

    @abstractmethod
    def refs(self) -> Refs:
        """The runs of rows to read, in order: a function of the data and the columns alone."""

    @abstractmethod
    def reader(self) -> SourceReader:
        """A reader with files and buffers of its own, for one task."""

    def made_of(self) -> Made | None:
        """The source that holds its chunks' rows, by the same refs; None: it is read alone."""
        return None

    @property
    def slice_rows(self) -> int | None:
        """Rows of the largest chunk; None if the source cannot be cut finer."""
        return None

    def with_slice_rows(self, n: int) -> Source:
        """The same rows in chunks of at most `n` rows; only where `slice_rows` is a number."""
        raise SourceError(f"a {type(self).__name__} cannot be cut into slices of {n} rows")

    def place(self, ref: Ref) -> str:
        """Name of the place of `ref`'s rows, for messages."""
        return f"rows {ref.start} to {ref.stop}"

    # What its rows are.

    @property
    def kind(self) -> str:
        """Name of what holds the rows, for messages: ``parquet``, ``array``, ..."""
        return type(self).__name__

    @property
    def feature_names(self) -> tuple[str, ...]:
        return ()

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def dtype(self) -> np.dtype:
        """Type of the chunks' features: float32 or float64."""
        return np.dtype(np.float64)

    @property
    def column_types(self) -> Mapping[str, str]:
        """`Column.dtype` of each column as it is stored; empty if that says nothing of features."""
        return {}

    @property
    def categorical(self) -> tuple[str, ...]:
        """Feature columns of strings whose levels are not known yet."""
        return ()

    @property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """The words that the codes of feature columns stand for."""
        return _NO_LEVELS

    @property
    def sparse(self) -> bool:
        """Whether chunks are `Csr`."""
        return False

    @property
    def target(self) -> str | None:
        """Name of the column that chunks carry as ``y``."""
        return None

    @property
    def weight(self) -> str | None:
        """Name of the column that chunks carry as ``weight``."""
        return None

    @property
    def is_weighted(self) -> bool:
        """Whether chunks carry weights, of a column or of their classes."""
        return self.weight is not None

    @property
    def in_memory(self) -> bool:
        """Whether rows are read from arrays of this process: views, which must not be changed."""
        return False

    # What reading them costs, in bytes.

    @property
    def n_physical_rows(self) -> int:
        """Rows of the table before any are left out."""
        refs = self.refs()
        return refs[-1].stop if refs else 0

    @property
    def siblings(self) -> int:
        """Neighbouring row numbers of one subject, which choices of rows keep together."""
        return 1

    @property
    def left_out_nbytes(self) -> int:
        """Bytes of a slice, for each row that is left out of it, that no chunk has room for."""
        return 0

    @property
    def decoded_nbytes(self) -> int:
        """Bytes of all features once they are decoded."""
        return int(Refs.of(self.refs()).nbytes.sum())

    @property
    def stored_nbytes(self) -> int:
        """Bytes that one read takes from disk."""
        return self.decoded_nbytes

    @property
    def overhead_nbytes(self) -> int:
        """Bytes a reader holds beside the chunk it returns, at most."""
        return 0

    @property
    def shared_nbytes(self) -> int:
        """Bytes of metadata that a process holds once, whatever the number of its readers."""
        return 0

    @property
    def passes_before(self) -> int:
        """Reads of the rows that making this source took."""
        return 0

    def drain_nbytes(self) -> int:
        """Bytes that the read just done took from disk."""
        return self.stored_nbytes

    # Other choices of the same rows.

    def with_columns(self, columns: Sequence[str]) -> Source:
        """Keep these feature columns, in this order; the others are not read."""
        raise SourceError(f"a {type(self).__name__} has no columns to choose from")

    def where_hash(self, low: float, high: float, seed: int) -> Source:
        """The rows whose hash under `seed`, as a share in [0, 1), lies in [low, high)."""
        raise SourceError(f"a {type(self).__name__} has no rows to choose from")

    def as_bytes(self) -> Source:
        """The same rows, their values as uint8 if they are sparse and stored so."""
        return self

    @property
    def converts(self) -> bool:
        """Whether `through` is possible: columns are put through a function as they are decoded."""
        return False

    def through(self, convert: Convert) -> Source:
        """The same rows, each feature put through `convert` while it is decoded; X is float32."""
        raise SourceError(f"a {type(self).__name__} has no columns to convert")


def subjects_of(chunk: Chunk, siblings: int) -> range | np.ndarray:
    """(m,) the numbers by whose hashes the rows are chosen: those of their subjects."""
    return chunk.rows if siblings == 1 else chunk.numbers // siblings


def subjects_of_many(chunk: Chunk, siblings: int) -> np.ndarray | None:
    """(m,) the same, where a subject may have several rows; else None."""
    return None if siblings == 1 else chunk.numbers // siblings


def level_counts(source: Source, most: int) -> np.ndarray:
    """(p,) levels of each feature column, `most` where not known yet; -1: it holds numbers."""
    known = {name: len(words) for name, words in source.levels.items()}
    counts = dict.fromkeys(source.categorical, most) | known
    if not counts:
        return np.full(source.n_features, -1, np.intp)
    return np.array([counts.get(name, -1) for name in source.feature_names], np.intp)
