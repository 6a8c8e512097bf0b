"""Rows in this process's memory, or in a raw file: numpy, memory maps, scipy.sparse, frames, Arrow.

A store here is a *part* that holds the feature columns beside single columns given apart (`y`,
`sample_weight`).  A new in-memory container is one more `Part`.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import SourceError
from .columns import (
    Buffer,
    as_selector,
    as_target,
    check_shape,
    column_type,
    copy_numbers,
    find_columns,
    is_all,
    is_number,
    select_csr,
)
from .source import Chunk, Column, Csr, Reader, Store

SAMPLED_RUNS, SAMPLED_ROWS = 64, 64
"""The fingerprint hashes this many seeded runs of this many rows: 4,096 rows."""

COPY_ROWS = 4096
"""Rows copied at a time where a selection of columns makes a temporary."""


class Part(Protocol):
    """Columns of equal length."""

    n_rows: int
    columns: tuple[Column, ...]
    order: str
    """Layout a chunk of this part is quickest filled in: ``C`` or ``F``."""
    in_memory: bool

    def view(self, start: int, stop: int, which: Sequence[int], dtype: np.dtype) -> Any:
        """The rows as they lie in memory, in `dtype` and C order; None if that takes a copy."""

    def fill(self, start: int, stop: int, which: Sequence[int], out: np.ndarray) -> None:
        """Write the rows of columns `which` to `out`, in place."""

    def values(self, start: int, stop: int, j: int) -> np.ndarray:
        """One column as a target: numbers as stored, or str objects and None."""

    def overhead(self, which: Sequence[int], rows: int) -> int:
        """Bytes of temporaries that `fill` makes for so many rows."""

    def raw(self, start: int, stop: int) -> bytes:
        """The rows as bytes, for the fingerprint."""


class DensePart:
    """A 2-D numpy array of any real dtype and layout."""

    in_memory = True

    def __init__(self, X: np.ndarray, what: str) -> None:
        dtype = column_type(X.dtype, what)
        if not is_number(dtype):
            raise SourceError(f"{what}: expected numbers, got {X.dtype}; encode strings first")
        self.X = X
        self.n_rows = len(X)
        self.columns = tuple(Column(f"x{j}", dtype) for j in range(X.shape[1]))
        self.order = "F" if abs(X.strides[0]) < abs(X.strides[1]) else "C"

    def view(self, start: int, stop: int, which: Sequence[int], dtype: np.dtype) -> Any:
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


class SparsePart:
    """A canonical scipy CSR array."""

    in_memory = True
    order = "C"

    def __init__(self, X: Any, what: str) -> None:
        if X.ndim != 2:
            raise SourceError(f"{what}: expected 2 dimensions, got shape {X.shape}")
        dtype = column_type(X.dtype, what)
        if not is_number(dtype):
            raise SourceError(f"{what}: expected numbers, got {X.dtype}")
        csr = X.tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy() if csr is X else csr  # the caller's own matrix is left as it is
            csr.sum_duplicates()
        self.data, self.indices, self.indptr = csr.data, csr.indices, csr.indptr
        self.n_rows = csr.shape[0]
        self.columns = tuple(Column(f"x{j}", dtype) for j in range(csr.shape[1]))

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

    def view(self, start: int, stop: int, which: Sequence[int], dtype: np.dtype) -> Any:
        return None

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


class Vector(Protocol):
    """One column of some container."""

    column: Column

    def __len__(self) -> int: ...

    def fill(self, start: int, stop: int, out: np.ndarray) -> None: ...

    def values(self, start: int, stop: int) -> np.ndarray: ...


class ArrayVector:
    """A 1-D numpy array."""

    def __init__(self, name: str, array: np.ndarray) -> None:
        dtype = column_type(array.dtype, f"column {name!r}")
        if array.dtype.kind == "O":
            array, dtype = plain_objects(name, array)
        self.array, self.column = array, Column(name, dtype)

    def __len__(self) -> int:
        return len(self.array)

    def fill(self, start: int, stop: int, out: np.ndarray) -> None:
        place = f"column {self.column.name!r}, rows {start} to {stop}"
        copy_numbers(out, self.array[start:stop], place)

    def values(self, start: int, stop: int) -> np.ndarray:
        return as_target(self.array[start:stop])


def is_missing(value: Any) -> bool:
    """None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or (value != value) is True


def plain_objects(name: str, array: np.ndarray) -> tuple[np.ndarray, str]:
    """Python objects as what they are: strings (None where missing), numbers, or ``nested``."""
    missing = np.array([is_missing(value) for value in array], bool)
    rest = array[~missing]
    if all(isinstance(v, str) for v in rest):
        if missing.any():
            array = array.copy()
            array[missing] = None
        return array, "string"
    try:
        plain = np.array(rest.tolist())
    except ValueError:  # lists of unequal length
        return array, "nested"
    if any(isinstance(v, str) for v in rest) or plain.ndim != 1 or plain.dtype.kind not in "biuf":
        return array, "nested"
    if not missing.any():
        return plain, plain.dtype.name
    numbers = np.full(len(array), np.nan)
    copy_numbers(out := np.empty(len(rest)), plain, f"column {name!r}")
    numbers[~missing] = out
    return numbers, "float64"


class SeriesVector:
    """A pandas column of one of pandas' own dtypes (nullable, categorical, Arrow)."""

    def __init__(self, name: str, series: Any) -> None:
        dtype, subtype = series.dtype, getattr(series.dtype, "numpy_dtype", None)
        kind = getattr(dtype, "kind", "O")
        if dtype.name == "category":
            name_of_type = "dictionary"
        elif dtype.name.startswith(("string", "large_string")):
            name_of_type = "string"
        elif kind in "biuf" and (subtype is not None or hasattr(dtype, "subtype")):
            name_of_type = column_type(np.dtype(subtype or dtype.subtype), f"column {name!r}")
        else:
            name_of_type = "timestamp" if kind in "mM" else "nested"
        self.series, self.column = series, Column(name, name_of_type)

    def __len__(self) -> int:
        return len(self.series)

    def fill(self, start: int, stop: int, out: np.ndarray) -> None:
        run = self.series.iloc[start:stop]
        if np.dtype(self.column.dtype).kind in "iu":
            place = f"column {self.column.name!r}, rows {start} to {stop}"
            copy_numbers(out, run.to_numpy(dtype=self.column.dtype, na_value=0), place)
            out[run.isna().to_numpy()] = np.nan
        else:
            out[...] = run.to_numpy(dtype=out.dtype, na_value=np.nan)

    def values(self, start: int, stop: int) -> np.ndarray:
        run = self.series.iloc[start:stop]
        missing = run.isna().to_numpy()
        if is_number(self.column.dtype):
            if not missing.any():
                return run.to_numpy(dtype=self.column.dtype)
            self.fill(start, stop, out := np.empty(stop - start))
            return out
        values = np.array(run.astype(object).to_numpy(), dtype=object)
        values[missing] = None
        if self.column.dtype == "dictionary":
            values = plain_objects(self.column.name, values)[0]
        return values


class VectorsPart:
    """Columns that lie apart: a frame, or `y` and `sample_weight`."""

    in_memory = True
    order = "F"

    def __init__(self, vectors: Sequence[Vector], n_rows: int) -> None:
        self.vectors, self.n_rows = tuple(vectors), n_rows
        self.columns = tuple(vector.column for vector in vectors)

    def view(self, start: int, stop: int, which: Sequence[int], dtype: np.dtype) -> Any:
        return None

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
            if vector.column.dtype not in ("timestamp", "nested"):
                values = vector.values(start, stop)
                text = values.dtype == object
                parts.append(repr(values.tolist()).encode() if text else values.tobytes())
        return b"".join(parts)


class ArrayStore(Store):
    """A part with the features, and columns given apart."""

    default_target: str | None = None
    """The column that holds a `y` given apart: the target, if no other is named."""
    default_weight: str | None = None

    def __init__(self, kind: str, part: Part, extra: VectorsPart, what: str) -> None:
        self.kind, self.part, self.extra, self.what = kind, part, extra, what
        self.n_rows = part.n_rows
        self.columns = part.columns + extra.columns
        self.sparse = isinstance(part, SparsePart)
        self.in_memory = part.in_memory or bool(extra.columns)

    def boundaries(self) -> np.ndarray:
        return np.array([0, self.n_rows] if self.n_rows else [0], dtype=np.int64)

    def row_nbytes(self, names: Sequence[str], dtype: np.dtype) -> float:
        if not isinstance(self.part, SparsePart):
            return float(len(names) * dtype.itemsize)
        share = len(names) / len(self.part.columns)
        nnz = share * len(self.part.data) / max(self.n_rows, 1)
        return nnz * (dtype.itemsize + self.part.indices.itemsize) + 8

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        which = find_columns(self.part.columns, names, self.what)
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
    """Views of the array where its layout and dtype are the chunk's, else copies into one buffer."""

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
        numpy array or memory map, scipy.sparse matrix, pandas or polars frame, pyarrow Table, xarray
        DataArray, list of lists; or a one-shot stream of Arrow batches (RecordBatchReader, anything
        with ``__arrow_c_stream__``, polars LazyFrame), which gives a `StreamStore`.
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
        from .from_arrow import open_stream

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
    name = type(source).__name__
    return type(source).__module__.split(".")[0] not in ("pandas", "polars") and name != "Table"


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
        from .from_arrow import table_vectors

        if not hasattr(source, "columns"):
            raise not_a_table((len(source),))
        vectors, n_rows = table_vectors(source)
        return VectorsPart(vectors, n_rows), module
    if module == "scipy":
        return SparsePart(source, "X"), "scipy.sparse"
    if isinstance(source, np.memmap):
        from .memory_map import MapPart

        part = MapPart.of(check_array(source))
        if part is not None:
            return part, "memmap"
    return DensePart(check_array(source), "X"), "array"


def column_names(names: list[Any]) -> list[str]:
    """A frame's own names if they are strings, else x0, x1, ..."""
    return names if all(isinstance(n, str) for n in names) else [f"x{j}" for j in range(len(names))]


def series_vector(name: str, series: Any) -> Vector:
    if isinstance(series.dtype, np.dtype):
        return ArrayVector(name, series.to_numpy())
    return SeriesVector(name, series)


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


def as_vector(name: str, values: Any) -> Vector:
    """`y` or `sample_weight` as one column; a column vector is raveled with scikit-learn's warning."""
    module = type(values).__module__.split(".")[0]
    if module == "pandas" and not hasattr(values, "columns"):
        return series_vector(name, values)
    if module in ("polars", "pyarrow") and not hasattr(values, "columns"):
        from .from_arrow import array_vector

        return array_vector(name, values)
    if module == "scipy":
        raise SourceError(f"{name} is a sparse matrix; expected a 1-D array: {name}.toarray()")
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            f"A column-vector {name} was passed when a 1d array was expected. Please change the "
            f"shape of {name} to (n_samples, ), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        array = array[:, 0]
    if array.ndim != 1:
        raise SourceError(f"{name} should be a 1d array, got an array of shape {array.shape} instead")
    return ArrayVector(name, array)
