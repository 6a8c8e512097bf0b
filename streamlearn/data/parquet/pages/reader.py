"""Columns of numbers decoded from the bytes of their pages.

The library takes 3 ns of a processor for every value, this one (which knows only numbers without
nulls, plain or by a dictionary, in pages of the first version, packed by snappy or not) less than
half of that.  Whatever it does not know, or finds broken, is left to the library: its values, or
its error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ....numeric.huge_pages import zeros
from ...source import Convert
from ..footer_layout import Layout
from ..kernels_footer import CODEC, ENCODINGS, N_VALUES, NBYTES, NULLS, PLAIN_NBYTES, TYPE
from .headers import is_of_first_version
from .kernels import INDICES, OLD_INDICES, PLAIN, RLE

_FLOATS = {pa.float32(): "FLOAT", pa.float64(): "DOUBLE"}
_SHORT = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
_NUMBERS = {
    **_FLOATS,
    **dict.fromkeys(_SHORT, "INT32"),
    **dict.fromkeys((pa.int64(), pa.uint64()), "INT64"),
}
"""Parquet's physical types of numbers, by Arrow's types."""
_BITS = {"FLOAT": np.uint32, "INT32": np.uint32, "DOUBLE": np.uint64, "INT64": np.uint64}
"""Types as which values are decoded, whatever they stand for."""
_PHYSICAL = {"INT32": 1, "INT64": 2, "FLOAT": 4, "DOUBLE": 5}
_PACKED = {0: False, 1: True}
"""Codecs by their numbers in a footer: none, and snappy."""
_ENCODED = sum(1 << encoding for encoding in (PLAIN, OLD_INDICES, RLE, INDICES))
"""Encodings of values and of their levels."""
_TOO_LARGE = 1 << 30
_DICTIONARY = 1 << 20
"""Values of a dictionary."""
_ALIGNED = 64
"""Bytes between the beginnings of columns of different types."""
ROWS_PER_PLACE = 16
"""Rows for each value of a dictionary from which on the values are mapped: tables of them then take
little beside the rows."""


class _Chunk(NamedTuple):
    """The place of a column's bytes, and their type."""

    name: str
    start: int
    nbytes: int
    plain_nbytes: int
    packed: bool
    has_levels: bool
    has_dictionary: bool


_EMPTY_FOOTER = bytes.fromhex("29 1c 48 01 72 15 00 00 29 0c 00")
"""A footer whose schema is a root without columns, and whose list of row groups is empty."""
USABLE = sys.byteorder == "little" and "preadv" in vars(os)


_Loaded: TypeAlias = "tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]"
"""The bytes of some chunks, their places, which are packed, which have levels; room for a page."""


class PageReader:
    """The pages of a local file: a handle of its own, the bytes and values of a few columns."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        """`schema` of the file in Arrow's terms.

        (A footer asked for parquet's keeps itself alive, megabytes of it, until cycles of
        references are looked for.)
        """
        self._file = os.open(path, os.O_RDONLY)
        self._index = {name: i for i, name in enumerate(schema.names)}
        self._kinds: dict[str, tuple[pa.DataType, bool] | None] = {
            field.name: (field.type, field.nullable) for field in schema if field.type in _NUMBERS
        }
        self._bytes, self._values, self._page = (np.empty(0, np.uint8) for _ in range(3))
        self._tables: dict[object, np.ndarray] = {}
        self._places: dict[str, np.ndarray] = {}
        self._unmapped: set[str] = set()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def read(
        self, layout: Layout, group: int, names: Sequence[str], *, lasting: bool
    ) -> dict[str, pa.Array]:
        """Read the columns of a row group that are known here; the answer lacks the others.

        They last until the next call, or (`lasting`) as long as they are kept.
        """
        chunks: dict[pa.DataType, list[_Chunk]] = {}
        for name in names:
            kind = self._kinds.get(name)
            chunk = None if kind is None else self._chunk(layout, group, name, *kind)
            if kind is not None and chunk is not None:
                chunks.setdefault(kind[0], []).append(chunk)
        found, used = {}, 0  # doubles after floats begin at a whole one too
        for kind, some in chunks.items():
            shape, dtype = (len(some), int(layout.rows[group])), np.dtype(_BITS[_NUMBERS[kind]])
            size = shape[0] * shape[1] * dtype.itemsize
            if lasting:  # from the library's pool: the heap's would lie scattered when let go
                out = np.frombuffer(pa.allocate_buffer(size), dtype).reshape(shape)
            else:  # made anew, its pages would be touched anew too
                if len(self._values) < used + size:
                    self._values = zeros((used + size,), np.uint8)
                out = self._values[used : used + size].view(dtype).reshape(shape)
                used += size + -size % _ALIGNED
            decoded = self._decode(some, out, self._load(some))
            for chunk, values in zip(some, decoded, strict=True):
                if values is None:
                    self._kinds[chunk.name] = None  # its other row groups are like it
                else:
                    found[chunk.name] = _array(kind, values)
        return found

    def run(
        self, facts: tuple[Layout, int], name: str, pages: np.ndarray, largest: int, n_rows: int
    ) -> pa.Array | None:
        """The `n_rows` values of some of a column's pages, its dictionary first; None: not known.

        No page is more than `largest` bytes decompressed.
        """
        kind = self._kinds.get(name)
        chunk = None if kind is None else self._chunk(*facts, name, *kind)
        if kind is None or chunk is None:
            return None
        dtype = np.dtype(_BITS[_NUMBERS[kind[0]]])
        out = np.frombuffer(pa.allocate_buffer(n_rows * dtype.itemsize), dtype)[None]
        part = chunk._replace(plain_nbytes=largest)
        loaded = self._rooms([part], pages, np.array([0, len(pages)]))
        (values,) = self._decode([part], out, loaded)
        if values is None:
            self._kinds[name] = None  # its other pages are like these
            return None
        return _array(kind[0], values)

    def _chunk(
        self, layout: Layout, group: int, name: str, kind: object, has_levels: bool
    ) -> _Chunk | None:
        leaf = layout.leaf_of(self._index[name])
        if leaf is None:
            return None
        facts = layout.facts[group, leaf].tolist()
        physical, codec, n_values, plain, nbytes, start, dictionary = facts[:ENCODINGS]
        if dictionary:
            start = min(start, dictionary)
        packed, n_rows = _PACKED.get(codec), int(layout.rows[group])
        alike = n_values == n_rows and physical == _PHYSICAL[_NUMBERS[kind]]
        if packed is None or not alike or not 0 < max(nbytes, plain) < _TOO_LARGE:
            return None
        if facts[NULLS] > 0:
            return None
        return _Chunk(name, start, nbytes, plain, packed, has_levels, dictionary > 0)

    def _decode(
        self, chunks: list[_Chunk], out: np.ndarray, loaded: _Loaded | None
    ) -> list[np.ndarray | None]:
        """The rows of `out` filled from the chunks; None for those that are not understood."""
        from .kernels import decode_chunks

        if loaded is None:
            return [None] * len(chunks)
        size = max((c.plain_nbytes for c in chunks if c.has_dictionary), default=0)
        # a power of two: a place for every index of the width that so many values need
        places = 1 << min(size // out.itemsize, _DICTIONARY).bit_length() if size else 1
        if len(self._tables.get(out.dtype, ())) < places:
            self._tables[out.dtype] = np.zeros(places, out.dtype)
        understood = np.zeros(len(chunks), bool)
        decode_chunks(*loaded, self._tables[out.dtype], out, understood)
        return [row if known else None for row, known in zip(out, understood, strict=True)]

    def map(
        self,
        layout: Layout,
        group: int,
        wanted: Mapping[str, int],
        convert: Convert,
        dtype: np.dtype,
        out: np.ndarray,
        start: int,
    ) -> set[str]:
        """Floats put through `convert` into ``out[wanted[name], start:]``; the names of these.

        Those of a dictionary alone, and that a short one: its values are mapped, not the rows.
        """
        from .kernels import decode_mapped, read_dictionaries

        n = int(layout.rows[group])
        places = 1 << max(n // ROWS_PER_PLACE, 1).bit_length() - 1
        chunks = []
        for name in wanted:
            kind = self._kinds.get(name)
            if name in self._unmapped or kind is None or kind[0] not in _FLOATS:
                continue
            if kind[0].to_pandas_dtype() != dtype:
                continue
            chunk = self._chunk(layout, group, name, *kind)
            if chunk is not None and chunk.has_dictionary:
                chunks.append(chunk)
        loaded = self._load(chunks) if chunks else None
        if loaded is None:
            return set()
        raw, at, packed, levels, page = loaded
        shapes = {"values": (len(chunks), places), "mapped": (len(out), places)}
        for key, shape in shapes.items():
            old = self._places.get(key)
            if old is None or old.shape[0] < shape[0] or old.shape[1] != places:
                self._places[key] = np.zeros(shape, dtype if key == "values" else out.dtype)
        values, mapped = self._places["values"], self._places["mapped"]
        counts = np.zeros(len(chunks), np.int64)
        bits = values.view(_BITS["FLOAT" if values.itemsize == 4 else "DOUBLE"])
        read_dictionaries(raw, at, packed, page, bits, counts)
        which = np.array([wanted[chunk.name] for chunk in chunks])
        known = np.zeros(len(chunks), bool)
        some = np.flatnonzero(counts > 0)
        if len(some):
            columns = [values[i, : counts[i]] for i in some.tolist()]
            for column in columns:
                column.flags.writeable = False
            convert(columns, which[some].tolist(), mapped, 0)
            decode_mapped(
                raw, at, packed, levels, page, mapped, counts, which, start, n, out, known
            )
        names = {chunk.name for chunk, done in zip(chunks, known, strict=True) if done}
        self._unmapped |= {chunk.name for chunk in chunks} - names
        return names

    def _load(self, chunks: list[_Chunk]) -> _Loaded | None:
        """The chunks' bytes, their places, what they are, room for a page; None if not read."""
        at = np.concatenate([[0], np.cumsum([chunk.nbytes for chunk in chunks])])
        if len(self._bytes) < at[-1]:
            self._bytes = np.empty(at[-1], np.uint8)
        raw = self._bytes[: at[-1]]
        for run in _runs(chunks):
            part = raw[at[run.start] : at[run.stop]]
            try:
                if os.preadv(self._file, [part.data], chunks[run.start].start) != len(part):
                    return None
            except OSError:  # the library reads it too, and says what is wrong
                return None
        return self._rooms(chunks, raw, at)

    def _rooms(self, chunks: list[_Chunk], raw: np.ndarray, at: np.ndarray) -> _Loaded:
        """Arguments of the kernels for chunks whose bytes are ``raw[at[i] : at[i + 1]]``."""
        largest = max(chunk.plain_nbytes for chunk in chunks)
        if len(self._page) < largest and any(chunk.packed for chunk in chunks):
            self._page = np.empty(largest, np.uint8)
        packed = np.array([chunk.packed for chunk in chunks])
        levels = np.array([chunk.has_levels for chunk in chunks])
        return raw, at, packed, levels, self._page


def known_columns(layout: Layout, schema: pa.Schema, file: int) -> frozenset[str]:
    """The columns of an open file that `PageReader` reads, by what the footer says of their chunks.

    And by one page, for all pages of a file are of one version.
    """
    facts, some = layout.facts, layout.rows > 0  # looked at where they are: they may take 9 MiB
    n_values, nulls = facts[:, :, N_VALUES], facts[:, :, NULLS]
    largest = np.maximum(facts[:, :, NBYTES], facts[:, :, PLAIN_NBYTES])
    known = (n_values == layout.rows[:, None]) & np.isin(facts[:, :, CODEC], list(_PACKED))
    known &= (facts[:, :, ENCODINGS] & ~_ENCODED == 0) & (n_values <= _DICTIONARY)
    known &= (0 < largest) & (largest < _TOO_LARGE)
    known |= ~some[:, None]
    names: dict[str, int] = {}
    for column, field in enumerate(schema):
        leaf, kind = layout.leaf_of(column), _NUMBERS.get(field.type)
        if leaf is None or kind is None or not known[:, leaf].all():
            continue
        if field.nullable and (nulls[some, leaf] != 0).any():
            continue
        if (facts[some, leaf, TYPE] == _PHYSICAL[kind]).all():
            names[field.name] = leaf
    if not names or not some.any():
        return frozenset()
    is_first = is_of_first_version(file, layout, int(some.argmax()), min(names.values()))
    return frozenset(names) if is_first else frozenset()


def load_kernels() -> None:
    """Compile or load what reads footers and decodes pages, for both dtypes."""
    from ..footer_layout import read_layout
    from .kernels import HEADER, decode_chunks, decode_mapped, read_dictionaries, read_header
    from .prefixes import is_by_prefixes

    read_layout(_EMPTY_FOOTER)
    page = np.zeros(16, np.uint8)
    read_header(page, 0, np.empty(HEADER, np.int64))
    is_by_prefixes(page)

    raw, none, at = np.empty(0, np.uint8), np.zeros(0, bool), np.zeros(1, np.int64)
    for dtype in (np.uint32, np.uint64):
        out = np.empty((0, 1), dtype)
        decode_chunks(raw, at, none, none, raw, np.zeros(1, dtype), out, none.copy())
        read_dictionaries(raw, at, none, raw, out, at[:0])
    out = np.empty((0, 1), np.float32)
    decode_mapped(raw, at, none, none, raw, out, at[:0], at[:0], 0, 0, out, none.copy())


def _array(kind: pa.DataType, values: np.ndarray) -> pa.Array:
    """Values of a type as they are stored."""
    stored = pa.from_numpy_dtype(values.dtype) if kind.bit_width < 32 else kind
    array = pa.Array.from_buffers(stored, len(values), [None, pa.py_buffer(values)])
    return array if stored == kind else array.cast(kind, safe=False)


def _runs(chunks: list[_Chunk]) -> list[range]:
    """Runs of chunks that lie side by side in the file, each read in one call."""
    ends = [
        i
        for i in range(1, len(chunks))
        if chunks[i].start != chunks[i - 1].start + chunks[i - 1].nbytes
    ]
    return [range(a, b) for a, b in zip([0, *ends], [*ends, len(chunks)], strict=True)]
