"""The feature columns of one container in memory: dense, sparse, or column by column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SourceError
from ..column_types import column_type, is_plain, is_readable
from ..columns import Buffer, as_selector, copy_numbers, is_all, select_csr
from ..levels import LevelCoder
from ..source import Csr
from ..store import Column, numbered_columns
from .vectors import CodedVector, Vector

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix

COPY_ROWS = 4096
"""Rows copied at a time where a selection of columns makes a temporary."""


class Part(ABC):
    """Columns of equal length; a container is one subclass."""

    n_rows: int
    columns: tuple[Column, ...]
    order: str
    """Layout a chunk of this part is quickest filled in: ``C`` or ``F``."""
    in_memory: bool = True

    def view(
        self, start: int, stop: int, which: Sequence[int], dtype: np.dtype
    ) -> np.ndarray | None:
        """The rows as they lie in memory, in `dtype` and C order; None if that takes a copy."""
        return None

    def coded(self, coders: Mapping[str, LevelCoder]) -> Part:
        """The part with these columns of words as numbers; itself if it can hold no words."""
        return self

    @abstractmethod
    def fill(self, start: int, stop: int, which: Sequence[int], out: np.ndarray) -> None:
        """Write the rows of columns `which` to `out`, in place."""

    @abstractmethod
    def values(self, start: int, stop: int, j: int) -> np.ndarray:
        """One column as a target: numbers as stored, or str objects and None."""

    @abstractmethod
    def overhead(self, which: Sequence[int], rows: int) -> int:
        """Bytes of temporaries that `fill` makes for so many rows."""

    def stored(self, names: set[str]) -> int:
        """Bytes that one pass over these columns reads from disk."""
        return 0

    @abstractmethod
    def raw(self, start: int, stop: int) -> bytes:
        """The rows as bytes, for the fingerprint."""


class DensePart(Part):
    """A 2-D numpy array of any real dtype and layout."""

    def __init__(self, X: np.ndarray, what: str) -> None:
        dtype = column_type(X.dtype, what)
        if not is_plain(dtype):
            raise SourceError(f"{what}: expected numbers, got {X.dtype}; encode strings first")
        self.X = X
        self.n_rows = len(X)
        self.columns = numbered_columns(X.shape[1], dtype)
        self.order = "F" if abs(X.strides[0]) < abs(X.strides[1]) else "C"

    def view(
        self, start: int, stop: int, which: Sequence[int], dtype: np.dtype
    ) -> np.ndarray | None:
        X = self.X
        # A read-only array would make numba compile every kernel a second time: copied instead.
        as_is = X.dtype == dtype and X.flags.c_contiguous and X.flags.writeable and X.flags.aligned
        return X[start:stop] if as_is and is_all(which, X.shape[1]) else None

    def fill(self, start: int, stop: int, which: Sequence[int], out: np.ndarray) -> None:
        columns = as_selector(which)
        for a in range(start, stop, COPY_ROWS):
            b = min(a + COPY_ROWS, stop)
            copy_numbers(out[a - start : b - start], self.X[a:b, columns], f"X, rows {a} to {b}")

    def values(self, start: int, stop: int, j: int) -> np.ndarray:
        return self.X[start:stop, j]

    def overhead(self, which: Sequence[int], rows: int) -> int:
        return min(rows, COPY_ROWS) * len(which) * self.X.dtype.itemsize

    def raw(self, start: int, stop: int) -> bytes:
        return self.X[start:stop].tobytes()


class SparsePart(Part):
    """A canonical scipy CSR array."""

    order = "C"

    def __init__(self, X: sparray | spmatrix, what: str) -> None:
        if X.ndim != 2:
            raise SourceError(f"{what}: expected 2 dimensions, got shape {X.shape}")
        dtype = column_type(X.dtype, what)
        if not is_plain(dtype):
            raise SourceError(f"{what}: expected numbers, got {X.dtype}")
        csr = X.tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy() if csr is X else csr  # the caller's own matrix is left as it is
            csr.sum_duplicates()
        self.data, self.indices, self.indptr = csr.data, csr.indices, csr.indptr
        self.n_rows = csr.shape[0]
        self.columns = numbered_columns(csr.shape[1], dtype)

    def csr(self, start: int, stop: int, which: Sequence[int], buffer: Buffer) -> Csr:
        """The rows of columns `which`, their values in `buffer` if the dtype differs."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        data, dtype = self.data[first:last], buffer.flat.dtype
        if data.dtype != dtype or not data.flags.writeable:
            out = buffer.take(1, last - first)[0]
            copy_numbers(out, data, f"X, rows {start} to {stop}")
            data = out
        indptr = self.indptr[start : stop + 1].astype(np.int64) - first
        csr = Csr(data, self.indices[first:last], indptr, len(self.columns))
        return csr if is_all(which, csr.n_columns) else select_csr(csr, which)

    def fill(self, start: int, stop: int, which: Sequence[int], out: np.ndarray) -> None:
        out[...] = 0
        csr = self.csr(start, stop, which, Buffer(out.dtype))
        out[np.repeat(np.arange(stop - start), np.diff(csr.indptr)), csr.indices] = csr.data

    def values(self, start: int, stop: int, j: int) -> np.ndarray:
        out = np.empty((stop - start, 1), self.data.dtype)
        self.fill(start, stop, [j], out)
        return out[:, 0]

    def overhead(self, which: Sequence[int], rows: int) -> int:
        nnz = rows * len(self.data) / max(self.n_rows, 1)
        if len(which) == len(self.columns):
            return 0
        # select_csr: mask, running count, new indices, and the selected copies
        return int(nnz * (1 + 8 + 2 * self.indices.itemsize + 8))

    def raw(self, start: int, stop: int) -> bytes:
        first, last = self.indptr[start], self.indptr[stop]
        lengths = np.diff(self.indptr[start : stop + 1]).astype(np.int64)
        indices = self.indices[first:last].astype(np.int64)
        return lengths.tobytes() + indices.tobytes() + self.data[first:last].tobytes()


class VectorsPart(Part):
    """Columns that lie apart: a frame, or `y` and `sample_weight`."""

    order = "F"

    def __init__(self, vectors: Sequence[Vector], n_rows: int) -> None:
        self.vectors, self.n_rows = tuple(vectors), n_rows
        self.columns = tuple(vector.column for vector in vectors)

    def coded(self, coders: Mapping[str, LevelCoder]) -> VectorsPart:
        """The part with these columns as numbers."""
        vectors = [
            CodedVector(vector, coders[vector.column.name])
            if vector.column.name in coders
            else vector
            for vector in self.vectors
        ]
        return VectorsPart(vectors, self.n_rows)

    def fill(self, start: int, stop: int, which: Sequence[int], out: np.ndarray) -> None:
        for k, j in enumerate(which):
            self.vectors[j].fill(start, stop, out[:, k])

    def values(self, start: int, stop: int, j: int) -> np.ndarray:
        return self.vectors[j].values(start, stop)

    def overhead(self, which: Sequence[int], rows: int) -> int:
        return 17 * rows  # one column converted: values, float64, missing

    def raw(self, start: int, stop: int) -> bytes:
        parts = []
        for vector in self.vectors:
            if is_readable(vector.column.dtype):
                values = vector.values(start, stop)
                text = values.dtype == object
                parts.append(repr(values.tolist()).encode() if text else values.tobytes())
        return b"".join(parts)
