"""Values of Arrow arrays as numpy's, without pandas: numbers, times, codes of words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SourceError
from ..column_types import DAY, MEASURED, UNITS_OF_A_SECOND
from ..levels import BLOCK_WORDS, Word

if TYPE_CHECKING:
    import pyarrow as pa


def measured(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """Times in seconds, or decimals, of an Arrow array as float64, and where they are valid."""
    import pyarrow as pa
    import pyarrow.types as t

    kind = array.type
    if t.is_decimal(kind):
        return numbers_of(array.cast(pa.float64()), "float64")
    days = t.is_date32(kind)
    unit = "ms" if t.is_date(kind) else kind.unit
    name = "int32" if days or t.is_time32(kind) else "int64"
    values, valid = numbers_of(array.view(name), name)
    return values * DAY if days else values / UNITS_OF_A_SECOND[unit], valid


def numbers_of(array: pa.Array, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """An Arrow array's values (without a copy if plain), and where they are valid.

    Bits become bool, times and decimals float64.
    """
    if dtype in MEASURED:
        return measured(array)
    bits, values = array.buffers()
    n, first = len(array), array.offset

    def unpack(buffer: pa.Buffer) -> np.ndarray:
        begin, end = first // 8, (first + n + 7) // 8
        run = np.frombuffer(buffer, np.uint8, end - begin, begin)
        return np.unpackbits(run, bitorder="little")[first % 8 : first % 8 + n].view(bool)

    valid = None if bits is None or not array.null_count else unpack(bits)
    if n == 0 or values is None:
        return np.zeros(n, dtype), valid
    if dtype == "bool":
        return unpack(values), valid
    return np.frombuffer(values, dtype)[first : first + n], valid


def encode_arrow(array: pa.Array) -> Iterator[tuple[np.ndarray, Iterator[Word]]]:
    """An Arrow array of strings or dictionaries as (indices, words), a run at a time.

    Index -1 is missing.
    """
    for run in dictionaries_of(array):
        indices, words = used_words(run)
        yield indices, words_of(words)


def dictionaries_of(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    """A dictionary array as it is; strings as dictionaries of some rows at a time.

    One of all rows, if most words are distinct, would take several times what they take, while it
    grows.
    """
    import pyarrow.types as t

    if t.is_dictionary(array.type):
        yield array
        return
    for first in range(0, len(array), BLOCK_WORDS):
        yield array.slice(first, BLOCK_WORDS).dictionary_encode()


def words_of(array: pa.Array) -> Iterator[Word]:
    """The words of an Arrow array, made some at a time."""
    for first in range(0, len(array), BLOCK_WORDS):
        yield from array.slice(first, BLOCK_WORDS).to_pylist()


def used_words(array: pa.DictionaryArray) -> tuple[np.ndarray, pa.Array]:
    """(n,) intp places of a dictionary array's values, and the words that have these places.

    A few rows of a long column carry its whole dictionary: of more words than rows only those that
    occur are given.
    """
    import pyarrow as pa

    indices = dictionary_indices(array)
    if len(array.dictionary) <= len(indices):
        return indices, array.dictionary
    used = np.unique(indices[indices >= 0])
    places = np.where(indices >= 0, np.searchsorted(used, indices), -1)
    return places, array.dictionary.take(pa.array(used))


def dictionary_indices(array: pa.DictionaryArray) -> np.ndarray:
    """(n,) intp places in the dictionary of an Arrow dictionary array; -1 is missing.

    Arrow's readers do not compare them with the dictionary, which lies elsewhere in a file.
    """
    stored, valid = numbers_of(array.indices, str(array.indices.type))
    indices = stored.astype(np.intp)
    if valid is not None:
        indices[~valid] = -1
    n = len(array.dictionary)
    bad = indices >= n
    bad |= (indices < 0) if valid is None else (indices < 0) & valid
    if bad.any():
        row = int(np.argmax(bad))
        raise SourceError(
            f"value {row} of {len(array)} is word {stored[row]} of a dictionary of {n} words; the "
            "indices or the dictionary are damaged: write the column again"
        )
    return indices
