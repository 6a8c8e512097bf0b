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
REMEDIES = {
    "timestamp": "seconds since a date, the hour, the weekday",
    "date": "days since a date, the month, the weekday",
    "time": "seconds since midnight",
    "duration": "its seconds",
    "decimal": "cast it to float64",
    "binary": "decode it to text",
    "null": "leave it out",
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
    if dtype.kind in "USOT":
        return "string"
    return {"M": "timestamp", "m": "duration"}.get(dtype.kind, "nested")


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
        ("duration", t.is_temporal),  # durations and intervals are what is left of the temporal
        ("decimal", t.is_decimal),
        ("null", t.is_null),
    ):
        if is_one(dtype):
            return name
    return "binary" if "binary" in str(dtype) else "nested"


def is_number(dtype: str) -> bool:
    """Whether a column type is a plain number."""
    return dtype in NUMBERS


def is_readable(dtype: str) -> bool:
    """Whether values of a column type can be read: numbers or words."""
    return dtype in (*NUMBERS, *CATEGORIES)


def remedy(dtypes: list[str]) -> str:
    """What to make of columns of these types, for the end of a refusal."""
    ways = [f"of a {name}: {REMEDIES[name]}" for name in REMEDIES if name in dtypes]
    return f" ({'; '.join(ways)})" if ways else ""
