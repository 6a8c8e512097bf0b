"""Rows in this process's memory, or in a raw file: numpy, memory maps, scipy.sparse, frames, Arrow.

A store here is a *part* that holds the feature columns beside single columns given apart (`y`,
`sample_weight`).  A new in-memory container is one more `Part`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import SourceError
from ..columns import Buffer, check_shape, find_columns
from ..source import Chunk, Reader, Store
from .parts import DensePart, Part, SparsePart, VectorsPart
from .vectors import Vector, as_vector, series_vector

SAMPLED_RUNS, SAMPLED_ROWS = 64, 64
"""The fingerprint hashes this many seeded runs of this many rows: 4,096 rows."""


class ArrayStore(Store):
    """A part with the features, and columns given apart."""

    def __init__(self, kind: str, part: Part, extra: VectorsPart, what: str) -> None:
        self.kind, self.part, self.extra, self.what = kind, part, extra, what
        self.n_rows = part.n_rows
        self.columns = part.columns + extra.columns
        self.sparse = isinstance(part, SparsePart)
        self.has_bytes = isinstance(part, SparsePart) and part.data.dtype == np.uint8
        self.in_memory = part.in_memory or bool(extra.columns)

    def coded(self, coders: Mapping[str, Any]) -> Store:
        store: Any = super().coded(coders)
        store.part = self.part.coded(coders)  # type: ignore[attr-defined]
        return store

    def boundaries(self) -> np.ndarray:
        return np.array([0, self.n_rows] if self.n_rows else [0], dtype=np.int64)

    def row_nbytes(self, names: Sequence[str], dtype: np.dtype) -> float:
        if not isinstance(self.part, SparsePart):
            return float(len(names) * dtype.itemsize)
        share = len(names) / len(self.part.columns)
        nnz = share * len(self.part.data) / max(self.n_rows, 1)
        return nnz * (dtype.itemsize + self.part.indices.itemsize) + 8

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        places = {column.name: j for j, column in enumerate(self.part.columns)}
        which = [places[name] for name in names]
        return self.part.overhead(which, min(slice_rows, self.n_rows))

    def stored_nbytes(self, names: Sequence[str]) -> int:
        stored = getattr(self.part, "stored", None)
        return 0 if stored is None else int(stored(set(names)))

    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> Reader:
        return ArrayReader(self, names, target, weight, np.dtype(dtype))

    def place(self, start: int, stop: int) -> str:
        return f"{self.what}, rows {start} to {stop}"

    def fingerprint(self) -> Mapping[str, Any]:
        digest = hashlib.blake2b(digest_size=16)
        starts = np.array([0])
        if self.n_rows > SAMPLED_RUNS * SAMPLED_ROWS:
            draw = np.random.Generator(np.random.Philox(key=0))
            starts = draw.integers(0, self.n_rows - SAMPLED_ROWS, SAMPLED_RUNS)
        length = SAMPLED_ROWS if len(starts) > 1 else self.n_rows
        for start in np.sort(starts).tolist():
            for part in (self.part, self.extra):
                digest.update(part.raw(start, start + length))
        return {
            "kind": self.kind,
            "n_rows": self.n_rows,
            "columns": [[column.name, column.dtype] for column in self.columns],
            "rows_hash": digest.hexdigest(),
        }


class ArrayReader:
    """Views of an array whose layout and dtype are the chunk's, else copies into one buffer."""

    def __init__(
        self,
        store: ArrayStore,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
    ) -> None:
        self.part, self.dtype = store.part, dtype
        self.which = find_columns(store.part.columns, names, store.what)
        self.columns = [self._column(store, name) for name in (target, weight)]
        self.buffer = Buffer(dtype)
        self.n_rows = store.n_rows

    @staticmethod
    def _column(store: ArrayStore, name: str | None) -> tuple[Part, int] | None:
        if name is None:
            return None
        parts: tuple[Part, ...] = (store.part, store.extra)
        for part in parts:
            for j, column in enumerate(part.columns):
                if column.name == name:
                    return part, j
        raise SourceError(
            f"{store.what} has no column {name!r}; "
            f"it has {', '.join(repr(column.name) for column in store.columns[:20])}"
        )

    def read(self, start: int, stop: int) -> Chunk:
        X: Any
        if isinstance(self.part, SparsePart):
            X = self.part.csr(start, stop, self.which, self.buffer)
        else:
            X = self.part.view(start, stop, self.which, self.dtype)
            if X is None:
                X = self.buffer.take(stop - start, len(self.which), self.part.order)
                self.part.fill(start, stop, self.which, X)
        y, weight = (
            None if at is None else at[0].values(start, stop, at[1]) for at in self.columns
        )
        weight = None if weight is None else weight.astype(np.float64)
        return Chunk(X, y, weight, range(start, stop))

    def close(self) -> None:
        self.buffer = Buffer(self.dtype)


def open_arrays(source: Any, y: Any = None, sample_weight: Any = None) -> Store:
    """A store over data in this process, or over a memory map's file.

    Parameters
    ----------
    source : array-like (n, p)
        numpy array or memory map, scipy.sparse matrix, pandas or polars frame, pyarrow Table,
        xarray DataArray, list of lists; or a one-shot stream of Arrow batches (RecordBatchReader,
        anything with ``__arrow_c_stream__``, polars LazyFrame), which gives a `StreamStore`.
    y, sample_weight : array-like (n,), optional
        Become columns named ``y`` and ``sample_weight`` (with ``_`` before the name if `source` has
        such a column); the store's `default_target` and `default_weight` name them.

    Raises
    ------
    SourceError
        Not two-dimensional, no rows or columns, complex or object values, lengths that differ.
    """
    store = as_store(source, y, sample_weight)
    if store.n_rows is not None:  # a stream's length is known when it has been read
        check_shape(store.n_rows, store.columns, "X")
    return store


def as_store(source: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """`open_arrays` that lets a table of no rows pass, as dask's partitions may be."""
    module = type(source).__module__.split(".")[0]
    if module == "xarray":
        source = source.data
    if module == "polars" and type(source).__name__ == "LazyFrame" or is_stream(source):
        from .arrow import open_stream

        if y is not None or sample_weight is not None:
            raise SourceError(
                "a stream is read once, so y and sample_weight cannot lie beside it; "
                "give them as columns of the stream, by name"
            )
        return open_stream(source)
    part, kind = as_part(source, module)
    names = {column.name for column in part.columns}
    vectors: list[Vector] = []
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if values is None:
            continue
        while name in names:
            name = "_" + name
        vector = as_vector(name, values)
        if len(vector) != part.n_rows:
            raise SourceError(
                f"Found input variables with inconsistent numbers of samples: X has {part.n_rows} "
                f"rows, {name} has {len(vector)}; they must be of equal length"
            )
        if vector.column.dtype in ("nested", "timestamp"):
            raise SourceError(
                f"{name} holds {vector.column.dtype} values; expected all numbers or all strings"
            )
        vectors.append(vector)
    store = ArrayStore(kind, part, VectorsPart(vectors, part.n_rows), "X")
    given = iter(vector.column.name for vector in vectors)
    store.default_target = next(given) if y is not None else None
    store.default_weight = next(given) if sample_weight is not None else None
    return store


def is_stream(source: Any) -> bool:
    """Whether `source` gives Arrow batches and is not a table that can be read again."""
    if not hasattr(source, "__arrow_c_stream__"):
        return False
    table = type(source).__name__ in ("Table", "RecordBatch")
    return type(source).__module__.split(".")[0] not in ("pandas", "polars") and not table


def as_part(source: Any, module: str) -> tuple[Any, str]:
    """The feature columns of `source`, and its kind's name."""
    if module == "pandas":
        if not hasattr(source, "columns"):
            raise not_a_table(source.shape)
        names = column_names(list(source.columns))
        columns = [source.iloc[:, j] for j in range(len(names))]
        vectors = [series_vector(*pair) for pair in zip(names, columns, strict=True)]
        return VectorsPart(vectors, len(source)), "pandas"
    if module in ("polars", "pyarrow"):
        from .arrow import table_vectors

        if not hasattr(source, "columns"):
            raise not_a_table((len(source),))
        vectors, n_rows = table_vectors(source)
        return VectorsPart(vectors, n_rows), module
    if module == "scipy":
        return SparsePart(source, "X"), "scipy.sparse"
    if isinstance(source, np.memmap):
        from .memory_map import MapPart

        part = MapPart.of(np.asanyarray(check_array(source)))
        if part is not None:
            return part, "memmap"
    return DensePart(check_array(source), "X"), "array"


def column_names(names: list[Any]) -> list[str]:
    """A frame's own names if they are strings, else x0, x1, ..."""
    return names if all(isinstance(n, str) for n in names) else [f"x{j}" for j in range(len(names))]


def check_array(source: Any) -> np.ndarray:
    """`source` as a 2-D array of real numbers."""
    try:
        X = np.asanyarray(source) if isinstance(source, np.memmap) else np.asarray(source)
    except ValueError as error:
        raise SourceError(f"X: rows of unequal length do not make a table: {error}") from error
    if X.ndim != 2:
        raise not_a_table(X.shape)
    if X.dtype.kind == "O":  # as scikit-learn does: numbers that happen to lie in an object array
        try:
            return X.astype(np.float64)
        except ValueError as error:
            raise SourceError(
                f"X is an object array that does not hold numbers alone: {error}; "
                "encode strings and categories first"
            ) from error
        except TypeError as error:
            raise TypeError(f"X is an object array that does not hold numbers: {error}") from error
    return X


def not_a_table(shape: tuple[int, ...]) -> SourceError:
    hint = "Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row"
    if len(shape) > 2:
        hint = "Reshape your data: X.reshape(len(X), -1) makes one row of each sample"
    return SourceError(f"X: Expected 2D array, got shape {tuple(shape)} instead. {hint}")
