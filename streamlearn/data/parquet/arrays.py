"""Arrow arrays to and from numpy, by their buffers: Arrow's own ways import pandas (48 MB)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...errors import SourceError
from ..column_types import MEASURED, arrow_type
from ..memory.arrow_values import dictionaries_of, encode_arrow, measured, used_words
from .files import ParquetFiles

_EXACT = 2**53


def decode_numbers(
    pieces: list[pa.Array], out: np.ndarray, name: str, store: ParquetFiles, start: int
) -> None:
    """Arrow numbers into `out`, nulls as NaN; strings as the codes of their levels."""
    coder, at = store.levels.get(name), 0
    if coder is not None:
        for array in pieces:
            for indices, words in encode_arrow(array):
                out[at : at + len(indices)] = coder.of_words(words)[indices]
                at += len(indices)
        return
    for array in pieces:
        n = len(array)
        values, valid = _buffers(array)
        if values.dtype.itemsize == 8 and values.dtype.kind in "iu" and n:
            seen = values if valid is None else values[valid]
            if len(seen) and (int(seen.max()) > _EXACT or int(seen.min()) < -_EXACT):
                row = int(np.argmax((values > _EXACT) | (values < -_EXACT)))
                raise SourceError(
                    f"column {name!r} holds {values[row]} ({values.dtype}) in "
                    f"{store.place(start + at + row, start + at + row + 1)}, beyond 2**53 where "
                    "float64 is no longer exact; an identifier is no feature: leave it out, or "
                    "store it as float64"
                )
        out[at : at + n] = values
        if valid is not None:
            out[at : at + n][~valid] = np.nan
        at += n


def ready_numbers(
    pieces: list[pa.Array], dtype: np.dtype, name: str, store: ParquetFiles, start: int
) -> np.ndarray:
    """Arrow numbers as one read-only array of `dtype`: Arrow's own buffer where it is just that."""
    as_is = len(pieces) == 1 and name not in store.levels
    if as_is:
        values, valid = _buffers(pieces[0])
    if not as_is or valid is not None or values.dtype != dtype:
        values = np.empty(sum(map(len, pieces)), dtype)
        decode_numbers(pieces, values, name, store, start)
    values.flags.writeable = False
    return values


def _buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """(values, validity or None) of a primitive array, as views of its buffers."""
    n, offset = len(array), array.offset
    if arrow_type(array.type) in MEASURED:
        return measured(array)
    bitmap, data = array.buffers()[:2]
    valid = None
    if array.null_count:
        valid = _bits(bitmap, offset, n)
    if pa.types.is_boolean(array.type):
        return (np.zeros(n, bool) if data is None else _bits(data, offset, n)), valid
    dtype = np.dtype(array.type.to_pandas_dtype())
    if data is None or not n:
        return np.zeros(n, dtype), valid
    return np.frombuffer(data, dtype, n, offset * dtype.itemsize), valid


def _bits(buffer: pa.Buffer, offset: int, n: int) -> np.ndarray:
    raw = np.frombuffer(buffer, np.uint8)[offset // 8 : (offset + n + 7) // 8]
    return np.unpackbits(raw, bitorder="little")[offset % 8 : offset % 8 + n].view(bool)


def target_values(pieces: list[pa.Array]) -> np.ndarray:
    """Targets as stored: numbers (float64 with NaN for nulls), or str objects and None."""
    parts = []
    for array in pieces:
        if not _is_text(array.type) and not pa.types.is_dictionary(array.type):
            values, valid = _buffers(array)
            parts.append(values.copy() if valid is None else np.where(valid, values, np.nan))
            continue
        for run in dictionaries_of(array):  # an object for every word, not for every row
            indices, dictionary = used_words(run)
            words = _words(dictionary)
            if words.dtype == object or run.null_count:
                words = np.concatenate([words.astype(object), np.array([None])])
            parts.append(words[indices])
    return join(parts)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _words(dictionary: pa.Array) -> np.ndarray:
    """The values of a dictionary: str objects, or numbers."""
    if not _is_text(dictionary.type):
        return target_values([dictionary])
    words = np.empty(len(dictionary), object)
    words[:] = dictionary.to_pylist()
    return words


def join(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0)


def arrow_array(values: np.ndarray, kind: str) -> pa.Array:
    """An Arrow array of numpy values; None is null, and so is NaN where the type has no NaN."""
    valid = None
    if kind == "string":
        words = [None if w is None or w != w else str(w).encode() for w in values.tolist()]
        valid = np.array([w is not None for w in words], bool)
        offsets = np.zeros(len(words) + 1, np.int32)
        np.cumsum([len(w or b"") for w in words], out=offsets[1:])
        data = [pa.py_buffer(offsets), pa.py_buffer(b"".join(w or b"" for w in words))]
        arrow = pa.string()
    else:
        dtype = np.dtype(kind)
        if dtype.kind in "iub" and values.dtype.kind == "f":
            valid = ~np.isnan(values)
            values = np.where(valid, values, 0)
        values = np.ascontiguousarray(values, dtype)
        bits = np.packbits(values, bitorder="little") if dtype.kind == "b" else values
        data, arrow = [pa.py_buffer(bits)], pa.from_numpy_dtype(dtype)
    bitmap = None
    if valid is not None and not valid.all():
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(arrow, len(values), [bitmap, *data])
