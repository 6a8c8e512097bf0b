"""One column of some container in memory: numpy, pandas, a list."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ...errors import SourceError
from ..columns import as_target, column_type, copy_numbers, is_number
from ..source import Column


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

    def encoded(self, start: int, stop: int) -> Iterator[tuple[np.ndarray, list[Any]]]:
        """The rows' categories as (indices, words)."""
        run = self.series.iloc[start:stop]
        if self.column.dtype == "dictionary":
            yield run.cat.codes.to_numpy().astype(np.intp), run.cat.categories.tolist()
            return
        seen: dict[Any, int] = {}
        values = self.values(start, stop).tolist()
        yield np.array([seen.setdefault(v, len(seen)) for v in values], np.intp), list(seen)

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


def series_vector(name: str, series: Any) -> Vector:
    if isinstance(series.dtype, np.dtype):
        return ArrayVector(name, series.to_numpy())
    return SeriesVector(name, series)


def as_vector(name: str, values: Any) -> Vector:
    """`y` or `sample_weight` as one column; a column vector is raveled, with a warning."""
    module = type(values).__module__.split(".")[0]
    if module == "pandas" and not hasattr(values, "columns"):
        return series_vector(name, values)
    if module in ("polars", "pyarrow") and not hasattr(values, "columns"):
        from .arrow import array_vector

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
        raise SourceError(
            f"{name} should be a 1d array, got an array of shape {array.shape} instead"
        )
    return ArrayVector(name, array)
