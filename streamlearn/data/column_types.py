"""The names of column types: what numpy and Arrow call them, and which of them can be learned from.

Every store gives its columns these names (`Column.dtype`), so that each refusal says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

SINGLE = ("bool", "int8", "uint8", "int16", "uint16", "float16", "float32")
"""Number types whose every value is an exact float32."""
NUMBERS = (*SINGLE, "int32", "uint32", "int64", "uint64", "float64")
"""Number types, by their numpy names."""
CATEGORIES = ("string", "dictionary")
"""Types whose values are words."""
TIMES = ("timestamp", "date", "time", "duration")
"""Types read as float64 seconds: since 1970 in UTC, since midnight, or as long as they last."""
MEASURED = (*TIMES, "decimal")
"""Types of columns, not of arrays, that are read as float64 numbers."""
UNITS_OF_A_SECOND = {"s": 1e0, "ms": 1e3, "us": 1e6, "ns": 1e9}
DAY = 86400.0
"""Seconds of a day."""
REMEDIES = {
    "binary": "decode it to text",
    "null": "leave it out",
    "mixed": "turn all into strings, or all into numbers",
    "nested": "one column for each of its values",
}
"""Every type that no reader turns into numbers, refused by its name, and what to make of it."""


def column_type(dtype: np.dtype, place: str) -> str:
    """The name of a numpy dtype; complex numbers are refused."""
    if dtype.kind == "c":
        raise SourceError(
            f"{place}: Complex data not supported: got {dtype}, expected real numbers; "
            "pass the real and imaginary parts as two columns"
        )
    if dtype.kind in "biu":
        return dtype.newbyteorder("=").name
    if dtype.kind == "f":
        return dtype.newbyteorder("=").name if dtype.itemsize <= 8 else "float64"
    if dtype.kind in "UOT":
        return "string"
    if dtype.kind == "S":  # decoded, the classes of a target would not be its own labels
        return "binary"
    if dtype.kind == "M":
        return "date" if np.datetime_data(dtype)[0] in ("Y", "M", "W", "D") else "timestamp"
    return "duration" if dtype.kind == "m" else "nested"


def arrow_type(dtype: pa.DataType) -> str:
    """The name of an Arrow type."""
    import pyarrow.types as t

    if t.is_boolean(dtype):
        return "bool"
    if t.is_floating(dtype):
        return f"float{dtype.bit_width}"
    if t.is_integer(dtype):
        return str(dtype)
    if t.is_dictionary(dtype):
        return "dictionary"
    if t.is_string(dtype) or t.is_large_string(dtype) or t.is_string_view(dtype):
        return "string"
    for name, is_one in (
        ("timestamp", t.is_timestamp),
        ("date", t.is_date),
        ("time", t.is_time),
        ("duration", t.is_duration),
        ("decimal", t.is_decimal),
        ("null", t.is_null),
    ):
        if is_one(dtype):
            return name
    return "binary" if "binary" in str(dtype) else "nested"


def is_plain(dtype: str) -> bool:
    """Whether a type's values are numbers as they are stored: what an array of features holds."""
    return dtype in NUMBERS


def is_number(dtype: str) -> bool:
    """Whether a column of this type is read as numbers: plain ones, times or decimals."""
    return dtype in (*NUMBERS, *MEASURED)


def is_readable(dtype: str) -> bool:
    """Whether values of a column type can be read: numbers or words."""
    return is_number(dtype) or dtype in CATEGORIES


def seconds_of(values: np.ndarray) -> np.ndarray:
    """numpy's dates or durations as float64 seconds; NaT is NaN."""
    kind = values.dtype.kind
    whole = values.astype(f"{kind}8[us]").astype(np.int64)
    return np.where(np.isnat(values), np.nan, whole / UNITS_OF_A_SECOND["us"])


def remedy(dtypes: list[str]) -> str:
    """Advice on what to make of columns of these types, for the end of a refusal."""
    ways = [f"{name} values: {REMEDIES[name]}" for name in REMEDIES if name in dtypes]
    return f" ({'; '.join(ways)})" if ways else ""
