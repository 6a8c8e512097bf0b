"""A dense or sparse zarr X and the columns beside it, as a store."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import zarr
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from zarr.storage import FsspecStore, LocalStore

from ...errors import SourceError
from ..column_types import column_type, is_plain
from ..columns import check_shape, find_columns, is_all, select_csr
from ..files.remote import one_name
from ..memory.vectors import Vector
from ..source import Chunk, Csr
from ..store import Column, Reader, Store
from .checked_codecs import with_checks
from .chunks import Chunks
from .rows import Rows
from .vector import ZarrVector, ZarrVectorReader, target_dtype

MOST_COLUMNS = 1 << 24
"""Columns of a table, at most: each has a name."""
MOST_CHUNKS = 1 << 24
"""Chunks of an array, at most: each is looked up when the array is opened."""
UNIT_BYTES = 16 << 20
"""A shard up to this size is one unit; the inner chunks of a larger one are units of their own."""


class ZarrStore(Store):
    """A 2-D array or a CSR group, and columns beside it."""

    kind = "zarr"
    takes_levels = False

    def __init__(
        self,
        X: zarr.Array | zarr.Group,
        names: Sequence[str] | None,
        vectors: Sequence[ZarrVector | Vector],
        url: str,
        default_target: str | None,
        default_weight: str | None,
    ) -> None:
        self.url, self.vectors = url, tuple(vectors)
        self.default_target, self.default_weight = default_target, default_weight
        self.sparse = isinstance(X, zarr.Group)
        if self.sparse:
            self.shape, (self.data, self.indices, self.indptr) = csr_parts(X, self.place_of("X"))
            dtype = np.dtype(self.data.dtype)
        else:
            if X.ndim != 2:
                raise SourceError(
                    f"{self.place_of('X')}: Expected 2D array, got shape {X.shape} instead; "
                    "rows are samples, columns are features"
                )
            self.X, self.shape, dtype = X, X.shape, np.dtype(X.dtype)
        self.n_rows = int(self.shape[0])
        column = column_type(dtype, self.place_of("X"))
        if not is_plain(column):
            raise SourceError(
                f"{self.place_of('X')} holds {dtype} values; features must be numbers"
            )
        width = int(self.shape[1])
        if width > MOST_COLUMNS:
            raise SourceError(
                f"{self.place_of('X')} has {width:,} columns, at most {MOST_COLUMNS:,} can be "
                "read; its shape is damaged, or rows and columns are swapped"
            )
        if names is None or len(names) != width:
            names = [f"x{j}" for j in range(width)]
        self.features = tuple(Column(name, column) for name in names)
        check_shape(self.n_rows, self.features, self.place_of("X"))
        for vector in self.vectors:
            if len(vector) != self.n_rows:
                raise SourceError(
                    f"{url}: X has {self.n_rows} rows but {vector.column.name!r} has "
                    f"{len(vector)}; they must be of equal length"
                )
        self.columns = self.features + tuple(vector.column for vector in self.vectors)
        for array in self._arrays():
            size = array.shards or array.chunks
            if min(*array.chunks, *size) < 1:
                raise SourceError(
                    f"{url}: the array {array.path!r} has chunks of {array.chunks}; a chunk holds "
                    "at least one value: its metadata is damaged, restore it from a copy"
                )
            if math.prod(size) > sys.maxsize:
                raise SourceError(
                    f"{url}: the array {array.path!r} has chunks of {size}, more values than "
                    "memory has addresses: its metadata is damaged, restore it from a copy"
                )
            n_chunks = math.prod(-(-n // k) for n, k in zip(array.shape, size, strict=True))
            if n_chunks > MOST_CHUNKS:
                raise SourceError(
                    f"{url}: the array {array.path!r} has {n_chunks:,} chunks of {size}, at most "
                    f"{MOST_CHUNKS:,} can be listed; its shape is damaged, or write larger chunks"
                )
        stores = [array.store for array in self._arrays()]
        self.in_memory = any(type(store).__name__ == "MemoryStore" for store in stores)
        self.chunks = {array.path: Chunks(array, url) for array in self._arrays()}
        self.n_missing_chunks = sum(chunks.n_missing for chunks in self.chunks.values())

    def place_of(self, name: str) -> str:
        return f"{self.url}, {name}"

    def _arrays(self) -> list[zarr.Array]:
        X = [self.data, self.indices, self.indptr] if self.sparse else [self.X]
        return X + [a for v in self.vectors if isinstance(v, ZarrVector) for a in v.arrays]

    def boundaries(self) -> np.ndarray:
        if self.sparse:
            nnz = max(int(self.data.shape[0]), 1)
            unit = max(1, int(self.data.chunks[0] * self.n_rows / nnz))
        else:
            unit, shard = self.X.chunks[0], self.X.shards
            if shard is not None and shard[0] * self.shape[1] * self.X.dtype.itemsize <= UNIT_BYTES:
                unit = shard[0]
        return np.append(np.arange(0, self.n_rows, unit), self.n_rows).astype(np.int64)

    def row_nbytes(self, names: Sequence[str], dtype: np.dtype) -> float:
        if not self.sparse:
            return super().row_nbytes(names, dtype)
        nnz = self.data.shape[0] / self.n_rows * len(names) / len(self.features)
        return float(nnz * (dtype.itemsize + index_dtype(self.indices).itemsize) + 8)

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        rows = min(slice_rows, self.n_rows)
        total = sum(
            Rows(array, [0] if array.ndim == 2 else None, target_dtype(array), "").overhead(rows)
            for vector in self.vectors
            if isinstance(vector, ZarrVector)
            for array in vector.arrays
        )
        if not self.sparse:
            which = find_columns(self.features, self.places, names, self.url)
            return total + Rows(self.X, which, np.dtype(np.float64), "").overhead(rows, True)
        nnz = int(rows * self.data.shape[0] / self.n_rows)
        total += Rows(self.data, None, np.dtype(np.float64), "").overhead(nnz)
        total += Rows(self.indices, None, index_dtype(self.indices), "").overhead(nnz)
        total += Rows(self.indptr, None, np.dtype(np.int64), "").overhead(rows + 1)
        if len(names) < len(self.features):  # all columns are decoded, those chosen are copied
            total += nnz * (9 + 8 + 3 * index_dtype(self.indices).itemsize)
        return total

    def stored_nbytes(self, names: Sequence[str]) -> int:
        arrays = [self.data, self.indices, self.indptr] if self.sparse else [self.X]
        stored = sum(self.chunks[array.path].nbytes for array in arrays)
        if self.sparse:
            return stored
        width = self.X.chunks[1]
        p = len(self.features)
        touched = {self.places[name] // width for name in names if self.places.get(name, p) < p}
        return stored * len(touched) // -(-self.shape[1] // width)

    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> Reader:
        return ZarrReader(self, names, target, weight, np.dtype(dtype))

    def place(self, start: int, stop: int) -> str:
        if self.sparse:
            return f"{self.url}, rows {start} to {stop}"
        c = self.X.chunks[0]
        return (
            f"{self.url}, X, chunk rows {start // c} to {-(-stop // c) - 1}, rows {start} to {stop}"
        )

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "kind": self.kind,
            "shape": [int(n) for n in self.shape],
            "columns": [[column.name, column.dtype] for column in self.columns],
            "arrays": [describe(array) for array in self._arrays()],
            "categories": [
                hash_of(repr(vector.categories.tolist()))
                for vector in self.vectors
                if isinstance(vector, ZarrVector) and vector.categories is not None
            ],
        }

    def locations(self) -> tuple[str, ...]:
        found = []
        for store in (array.store for array in self._arrays()):
            if isinstance(store, LocalStore):
                found.append(one_name(None, str(store.root)))
            elif isinstance(store, FsspecStore):
                fs = store.fs
                if isinstance(fs, AsyncFileSystemWrapper):
                    fs = fs.sync_fs
                found.append(one_name(fs, store.path))
        return tuple(dict.fromkeys(found))

    def versions(self) -> Mapping[str, str]:
        return {k: v for chunks in self.chunks.values() for k, v in chunks.versions().items()}

    def refuse_missing(self, missing_chunks: str | None) -> None:
        """Raise SourceError for missing chunks that are not to be read as the fill value.

        With None those of an array of features whose writer has not come to the end.
        """
        apart = {a.path for v in self.vectors if isinstance(v, ZarrVector) for a in v.arrays}
        for path, chunks in self.chunks.items():
            if missing_chunks == "error" and chunks.n_missing:
                chunks.refuse_missing("")
            if missing_chunks is None and path not in apart and chunks.is_being_written():
                chunks.refuse_missing(", and its writer has not come to the end")


class ZarrReader:
    """Open arrays of one task."""

    open: list[Rows | ZarrVectorReader]

    def __init__(
        self,
        store: ZarrStore,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
    ) -> None:
        self.store = store
        self.which = find_columns(store.features, store.places, names, store.url)
        if store.sparse:
            self.data = self._rows(store.data, None, dtype)
            self.indices = self._rows(store.indices, None, index_dtype(store.indices))
            self.indptr = self._rows(store.indptr, None, np.dtype(np.int64))
            self.open = [self.data, self.indices, self.indptr]
        else:
            self.X = self._rows(store.X, self.which, dtype)
            self.open = [self.X]
        self.target, self.weight = (self._column(name) for name in (target, weight))
        self.open += [column for column in (self.target, self.weight) if column is not None]

    def _rows(self, array: zarr.Array, columns: Sequence[int] | None, dtype: np.dtype) -> Rows:
        chunks = self.store.chunks[array.path]
        return Rows(with_checks(array), columns, dtype, self.store.url, chunks)

    def _column(self, name: str | None) -> Rows | ZarrVectorReader | None:
        if name is None:
            return None
        store = self.store
        for vector in store.vectors:
            if vector.column.name == name:
                return ZarrVectorReader(vector, store.url, store.chunks)
        j = find_columns(store.features, store.places, [name], store.url)[0]
        if store.sparse:
            raise SourceError(
                f"{store.url}: column {name!r} of a sparse X cannot be the target; "
                "name an array beside X, such as obs/cell_type"
            )
        return self._rows(store.X, [j], target_dtype(store.X))

    def read(self, start: int, stop: int) -> Chunk:
        X = self._csr(start, stop) if self.store.sparse else self.X.read(start, stop)
        y = None if self.target is None else self.target.read(start, stop).reshape(-1)
        weight = None
        if self.weight is not None:
            weight = self.weight.read(start, stop).reshape(-1).astype(np.float64)
        return Chunk(X, y, weight, range(start, stop))

    def _csr(self, start: int, stop: int) -> Csr:
        at = self.indptr.read(start, stop + 1)
        first, last = int(at[0]), int(at[-1])
        indptr = at - first
        width = self.store.shape[1]
        if (np.diff(indptr) < 0).any() or first < 0 or last > self.store.data.shape[0]:
            raise SourceError(f"{self.store.place(start, stop)}: indptr is not ascending")
        data, indices = self.data.read(first, last), self.indices.read(first, last)
        if len(indices) and (indices.min() < 0 or indices.max() >= width):
            raise SourceError(
                f"{self.store.place(start, stop)}: column index outside 0 to {width - 1}; "
                "the indices array is damaged"
            )
        csr = self._canonical(Csr(data, indices, indptr, width))
        return csr if is_all(self.which, width) else select_csr(csr, self.which)

    def _canonical(self, csr: Csr) -> Csr:
        """Column numbers ascending and distinct within a row; AnnData does not promise it."""
        from scipy.sparse import csr_array

        matrix = csr_array((csr.data, csr.indices, csr.indptr), shape=csr.shape, copy=False)
        if matrix.has_canonical_format:
            return csr
        matrix.sum_duplicates()
        indptr = matrix.indptr.astype(np.int64)
        return Csr(matrix.data, matrix.indices, indptr, csr.n_columns)

    def close(self) -> None:
        opened = self.open
        self.__dict__.clear()
        for rows in opened:
            rows.check()


def index_dtype(array: zarr.Array) -> np.dtype:
    """int32 where the stored column numbers fit, else int64."""
    return np.dtype(np.int32 if np.can_cast(array.dtype, np.int32) else np.int64)


def csr_parts(
    group: zarr.Group, place: str
) -> tuple[tuple[int, int], tuple[zarr.Array, zarr.Array, zarr.Array]]:
    """Shape and the arrays data, indices, indptr of an AnnData CSR group, checked."""
    shape = tuple(int(n) for n in group.attrs.get("shape", ()))
    missing = [name for name in ("data", "indices", "indptr") if name not in group]
    if missing or len(shape) != 2:
        raise SourceError(
            f"{place} is no CSR group: it needs the arrays data, indices, indptr and the attribute "
            f"shape; missing: {', '.join(missing) or 'shape'}"
        )
    data, indices, indptr = (group[name] for name in ("data", "indices", "indptr"))
    if indptr.shape != (shape[0] + 1,) or data.shape != indices.shape:
        raise SourceError(
            f"{place}: shape {shape} needs {shape[0] + 1} row pointers and as many values as "
            f"column numbers; got {indptr.shape[0]}, {data.shape[0]} and {indices.shape[0]}"
        )
    return shape, (data, indices, indptr)


def local_files(array: zarr.Array) -> list[tuple[str, int]] | None:
    """Names and sizes of an array's files, metadata aside; None if it lies elsewhere."""
    if not isinstance(array.store, LocalStore):
        return None
    folder = array.store.root / array.path
    found = []
    for where, _, files in os.walk(folder):
        for name in files:
            if name not in ("zarr.json", ".zarray", ".zattrs"):
                path = os.path.join(where, name)
                found.append((os.path.relpath(path, folder), os.path.getsize(path)))
    return sorted(found)


def hash_of(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def describe(array: zarr.Array) -> dict[str, object]:
    """Identity of an array as JSON values, found without reading it."""
    files = local_files(array)
    return {
        "path": array.path,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "chunks": list(array.chunks),
        "shards": None if array.shards is None else list(array.shards),
        "fill_value": repr(array.fill_value),
        "format": array.metadata.zarr_format,
        "sizes_hash": None if files is None else hash_of(repr(files)),
    }
