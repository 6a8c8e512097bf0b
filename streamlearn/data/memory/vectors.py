"""One column of some container in memory: numpy, pandas, a list."""

from __future__ import annotations

import datetime
import decimal
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..column_types import MEASURED, arrow_type, column_type, is_number, seconds_of
from ..columns import as_target, copy_numbers
from ..levels import LevelCoder, Word
from ..store import Column

if TYPE_CHECKING:
    import pandas as pd
    from pandas.api.extensions import ExtensionDtype

    Frame: TypeAlias = pd.DataFrame


class Vector(ABC):
    """One column of some container."""

    column: Column

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fill(self, start: int, stop: int, out: np.ndarray) -> None:
        """Write the rows as floats to `out`, in place; NaN where a value is missing."""

    @abstractmethod
    def values(self, start: int, stop: int) -> np.ndarray:
        """The rows as a target: numbers as stored, or str objects and None."""

    def encoded(self, start: int, stop: int) -> Iterator[tuple[np.ndarray, Iterable[Word]]]:
        """The rows' words, of strings or categories, as (indices, words), a run at a time.

        Index -1 is missing.
        """
        values = self.values(start, stop).tolist()
        yield np.arange(len(values)), values


class ArrayVector(Vector):
    """A 1-D numpy array."""

    def __init__(self, name: str, array: np.ndarray) -> None:
        dtype = column_type(array.dtype, f"column {name!r}")
        if array.dtype.kind == "O":
            array, dtype = plain_objects(name, array)
        if array.dtype.kind in "Mm":
            array = seconds_of(array)
        self.array, self.column = array, Column(name, dtype)

    def __len__(self) -> int:
        return len(self.array)

    def fill(self, start: int, stop: int, out: np.ndarray) -> None:
        place = f"column {self.column.name!r}, rows {start} to {stop}"
        copy_numbers(out, self.array[start:stop], place)

    def values(self, start: int, stop: int) -> np.ndarray:
        return as_target(self.array[start:stop])


def is_missing(value: object) -> bool:
    """None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or (value != value) is True


def plain_objects(name: str, array: np.ndarray) -> tuple[np.ndarray, str]:
    """Python objects as what they are: strings (None where missing) or numbers.

    What no reader takes is ``binary``, ``mixed`` (strings and others) or ``nested``.
    """
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
    if any(isinstance(v, datetime.date) for v in rest):  # a datetime is a date as well
        return plain_dates(array, missing)
    if any(isinstance(v, decimal.Decimal) for v in rest):
        plain = np.array([float(v) for v in rest.tolist()])
    if plain.ndim != 1 or plain.dtype.kind not in "biuf":
        unread = {"S": "binary", "U": "mixed"}
        return array, unread.get(plain.dtype.kind, "nested") if plain.ndim == 1 else "nested"
    if not missing.any():
        return plain, plain.dtype.name
    numbers = np.full(len(array), np.nan)
    copy_numbers(out := np.empty(len(rest)), plain, f"column {name!r}")
    numbers[~missing] = out
    return numbers, "float64"


def plain_dates(array: np.ndarray, missing: np.ndarray) -> tuple[np.ndarray, str]:
    """Python's dates, and dates with a time (in UTC), as numpy's; anything else is ``nested``."""
    found = np.full(len(array), "NaT", "M8[us]")
    for i in np.flatnonzero(~missing).tolist():
        value = array[i]
        if not isinstance(value, datetime.date):
            return array, "nested"
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        found[i] = value
    whole = all(not isinstance(v, datetime.datetime) for v in array[~missing])
    return found, "date" if whole else "timestamp"


STRINGS = ("string", "large_string")
"""Beginnings of pandas' names of Arrow's types of words."""


class SeriesVector(Vector):
    """A pandas column of one of pandas' own dtypes (nullable, categorical, Arrow)."""

    def __init__(self, name: str, series: pd.Series) -> None:
        dtype = series.dtype
        kind, subtype = dtype.kind, _numpy_type(dtype)
        if dtype.name == "category":
            name_of_type = "dictionary"
        elif type(dtype).__name__ == "StringDtype" or dtype.name.startswith(STRINGS):
            name_of_type = "string"
        elif kind in "biuf" and subtype is not None:
            name_of_type = column_type(np.dtype(subtype), f"column {name!r}")
        elif type(dtype).__name__ == "ArrowDtype":
            name_of_type = arrow_type(dtype.pyarrow_dtype)
        else:
            name_of_type = {"M": "timestamp", "m": "duration"}.get(kind, "nested")
        self.series, self.column = series, Column(name, name_of_type)

    def __len__(self) -> int:
        return len(self.series)

    def fill(self, start: int, stop: int, out: np.ndarray) -> None:
        run = self.series.iloc[start:stop]
        if self.column.dtype in MEASURED:
            out[...] = self._measured(run)
        elif np.dtype(self.column.dtype).kind in "iu":
            place = f"column {self.column.name!r}, rows {start} to {stop}"
            copy_numbers(out, run.to_numpy(dtype=self.column.dtype, na_value=0), place)
            out[run.isna().to_numpy()] = np.nan
        else:
            out[...] = run.to_numpy(dtype=out.dtype, na_value=np.nan)

    def _measured(self, run: pd.Series) -> np.ndarray:
        """Times in seconds, decimals as float64."""
        if run.dtype.kind in "Mm" and type(run.dtype).__name__ != "ArrowDtype":
            if type(run.dtype).__name__ == "DatetimeTZDtype":
                run = run.dt.tz_convert("UTC").dt.tz_localize(None)
            return seconds_of(run.to_numpy())
        from .arrow_values import measured

        values, valid = measured(run.array.__arrow_array__().combine_chunks())
        return values if valid is None else np.where(valid, values, np.nan)

    def encoded(self, start: int, stop: int) -> Iterator[tuple[np.ndarray, Iterable[Word]]]:
        """The rows' categories as (indices, words)."""
        run = self.series.iloc[start:stop]
        if self.column.dtype == "dictionary":
            yield run.cat.codes.to_numpy().astype(np.intp), run.cat.categories.tolist()
            return
        seen: dict[Word, int] = {}
        values = self.values(start, stop).tolist()
        yield np.array([seen.setdefault(v, len(seen)) for v in values], np.intp), list(seen)

    def values(self, start: int, stop: int) -> np.ndarray:
        run = self.series.iloc[start:stop]
        missing = run.isna().to_numpy()
        if self.column.dtype in MEASURED:
            return self._measured(run)
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


class CodedVector(Vector):
    """A column of strings as a column of numbers."""

    def __init__(self, vector: Vector, coder: LevelCoder) -> None:
        self.vector, self.coder = vector, coder
        self.column = Column(vector.column.name, "float32")

    def __len__(self) -> int:
        return len(self.vector)

    def fill(self, start: int, stop: int, out: np.ndarray) -> None:
        at = 0
        for indices, words in self.vector.encoded(start, stop):
            out[at : at + len(indices)] = self.coder.of_words(words)[indices]
            at += len(indices)

    def values(self, start: int, stop: int) -> np.ndarray:
        self.fill(start, stop, out := np.empty(stop - start, np.float32))
        return out


def _numpy_type(dtype: ExtensionDtype) -> np.dtype | None:
    """The numpy type beneath one of pandas' types of numbers; None if it has none."""
    try:
        return dtype.numpy_dtype  # nullable and Arrow types
    except AttributeError:
        pass
    try:
        return dtype.subtype  # sparse ones
    except AttributeError:
        return None


def as_series(values: object) -> pd.Series:
    """A column of pandas as the series that it would be: its arrays and indexes are none yet."""
    import pandas as pd

    return values if isinstance(values, pd.Series) else pd.Series(values, copy=False)


def series_vector(name: str, series: pd.Series) -> Vector:
    if isinstance(series.dtype, np.dtype):
        return ArrayVector(name, series.to_numpy())
    return SeriesVector(name, series)
