"""Door to this room: finds the container in memory that a source is.

A container that is not known yet is one more `Part` and a line in `as_part`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import SourceError
from ..column_types import is_readable, remedy
from ..columns import check_shape
from ..store import Store
from .arrays import ArrayStore
from .arrow import BATCH_ROWS
from .memory_map import MapPart, mapped_files
from .parts import DensePart, Part, SparsePart, VectorsPart
from .vectors import ArrayVector, Vector, as_series, series_vector

if TYPE_CHECKING:
    from .stream import StreamStore


def open_arrays(source: object, y: object = None, sample_weight: object = None) -> Store:
    """A store over data in this process, or over a memory map's file.

    Parameters
    ----------
    source : array-like (n, p)
        numpy array or memory map, scipy.sparse matrix, pandas or polars frame, pyarrow Table,
        xarray DataArray, list of lists, dict of 1-D arrays; or a one-shot stream of Arrow batches
        (RecordBatchReader, pyarrow.dataset.Dataset, anything with ``__arrow_c_stream__``, polars
        LazyFrame), which gives a `StreamStore`.
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
        n_given = sum(name is not None for name in (store.default_target, store.default_weight))
        check_shape(store.n_rows, store.columns[: len(store.columns) - n_given], "X")
    return store


def as_store(
    source: Any, y: object = None, sample_weight: object = None
) -> ArrayStore | StreamStore:
    """`open_arrays` that lets a table of no rows pass, as dask's partitions may be."""
    module = type(source).__module__.split(".")[0]
    if module == "xarray" and not isinstance(source, Mapping):
        source = source.data
    if is_arrow_dataset(source):
        source = source.scanner(batch_size=BATCH_ROWS).to_reader()
    if module == "polars" and type(source).__name__ == "LazyFrame" or is_stream(source):
        from .stream import open_stream

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
        if not is_readable(vector.column.dtype):
            kind = vector.column.dtype
            raise SourceError(
                f"{name} holds {kind} values; expected all numbers or all strings{remedy([kind])}"
            )
        vectors.append(vector)
    files = mapped_files((source, y, sample_weight))
    store = ArrayStore(kind, part, VectorsPart(vectors, part.n_rows), "X", files)
    given = iter(vector.column.name for vector in vectors)
    store.default_target = next(given) if y is not None else None
    store.default_weight = next(given) if sample_weight is not None else None
    return store


def is_frame(source: object) -> bool:
    """Whether an object of polars or pyarrow has columns, as tables do and series do not."""
    return type(source).__name__ in ("DataFrame", "Table", "RecordBatch")


def is_stream(source: object) -> bool:
    """Whether `source` gives Arrow batches and is not a table that can be read again."""
    if "__arrow_c_stream__" not in dir(type(source)):
        return False
    table = type(source).__name__ in ("Table", "RecordBatch")
    return type(source).__module__.split(".")[0] not in ("pandas", "polars") and not table


def is_arrow_dataset(source: object) -> bool:
    """Whether `source` is a pyarrow.dataset.Dataset, of whatever files."""
    return any(
        kind.__module__ == "pyarrow._dataset" and kind.__name__ == "Dataset"
        for kind in type(source).__mro__
    )


def as_part(source: Any, module: str) -> tuple[Part, str]:
    """The feature columns of `source`, and its kind's name."""
    if isinstance(source, Mapping) and module != "scipy":  # scipy.sparse.dok_array is one
        vectors = [as_vector(str(name), values) for name, values in source.items()]
        lengths = {vector.column.name: len(vector) for vector in vectors}
        if len(set(lengths.values())) > 1:
            raise SourceError(f"X: the columns of a dict differ in length: {lengths}")
        return VectorsPart(vectors, next(iter(lengths.values()), 0)), "dict"
    if module == "pandas":
        if source.ndim != 2:
            raise not_a_table(source.shape)
        names = column_names(list(source.columns))
        columns = [source.iloc[:, j] for j in range(len(names))]
        vectors = [series_vector(*pair) for pair in zip(names, columns, strict=True)]
        own = all(isinstance(name, str) for name in source.columns)
        return VectorsPart(vectors, len(source)), "pandas" if own else "frame"
    if module in ("polars", "pyarrow"):
        from .arrow import table_vectors

        if not is_frame(source):
            raise not_a_table((len(source),))
        vectors, n_rows = table_vectors(source)
        return VectorsPart(vectors, n_rows), module
    if module == "scipy":
        return SparsePart(source, "X"), "scipy.sparse"
    if isinstance(source, np.memmap):
        part = MapPart.of(np.asanyarray(check_array(source)))
        if part is not None:
            return part, "memmap"
    return DensePart(check_array(source), "X"), "array"


def column_names(names: list[object]) -> list[str]:
    """A frame's own names if they are strings, else x0, x1, ..."""
    words = [name for name in names if isinstance(name, str)]
    return words if len(words) == len(names) else [f"x{j}" for j in range(len(names))]


def check_array(source: object) -> np.ndarray:
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
    """`y` or `sample_weight` as one column; a column vector is raveled, with a warning."""
    module = type(values).__module__.split(".")[0]
    if module == "pandas" and values.ndim == 1:
        return series_vector(name, as_series(values))
    if module in ("polars", "pyarrow") and not is_frame(values):
        from .arrow import array_vector

        return array_vector(name, values)
    if module == "scipy":
        raise SourceError(f"{name} is a sparse matrix; expected a 1-D array: {name}.toarray()")
    return ArrayVector(name, raveled(name, np.asarray(values)))


def raveled(name: str, values: Any) -> Any:
    """An array of numpy or dask with one axis; a column vector loses its second, with a warning."""
    if values.ndim == 2 and values.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            f"A column-vector {name} was passed when a 1d array was expected. Please change the "
            f"shape of {name} to (n_samples, ), for example using ravel().",
            DataConversionWarning,
            stacklevel=5,
        )
        values = values[:, 0]
    if values.ndim != 1:
        raise SourceError(
            f"{name} should be a 1d array, got an array of shape {values.shape} instead"
        )
    return values
