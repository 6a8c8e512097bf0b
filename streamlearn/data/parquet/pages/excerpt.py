"""A run of a column's pages as a parquet file of its own.

A slice of a row group that is too large to be decoded whole needs a few pages of each column.  The
library reads column chunks from their beginning and keeps a page, a dictionary and a batch of rows
for each column that is open; this reads the pages of one column that hold the slice, wherever it
begins, and hands them on with a footer for them alone: whatever the library decodes, it decodes so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..thrift import (
    NotUnderstood,
    list_head,
    list_items,
    read_number,
    read_struct,
    read_varint,
    skip,
)

MAGIC = b"PAR1"
"""What a file begins and ends with."""
_HEADER_BYTES = 512
"""Read at first of a page's header; statistics of long strings can make it longer."""
_LONGEST_HEADER = 1 << 20
_DATA, _INDEX, _DICTIONARY, _DATA_2 = range(4)
"""Types of pages."""
_ABOUT = {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}
"""Field of a page's header that tells of a page of this type."""
_INT32, _INT64, _LIST, _STRUCT = 5, 6, 9, 12
"""Types of Thrift's compact protocol."""
_REPEATED = 2


class ColumnPages(NamedTuple):
    """Where the pages of one column chunk lie, and which rows they hold."""

    starts: np.ndarray
    """(n_pages + 1,) int64: where in the file each data page begins, and the last ends."""
    rows: np.ndarray
    """(n_pages + 1,) int64: rows of the row group before each page, and in all."""
    plain_nbytes: np.ndarray
    """(n_pages,) int64: bytes of each page decompressed."""
    dictionary: tuple[int, int]
    """Where in the file the dictionary page begins and ends; (0, 0) without one."""
    dictionary_nbytes: int
    """Bytes of the dictionary page decompressed."""
    schema: bytes
    """The elements of a schema of this column alone, as a list."""
    kind: list[tuple[int, int, bytes]]
    """Fields of the column's metadata that do not depend on the pages: type, encodings, codec."""

    def run(self, start: int, stop: int) -> tuple[int, int]:
        """Numbers of the pages [first, last) that hold these rows."""
        first = int(np.searchsorted(self.rows, start, side="right")) - 1
        return first, int(np.searchsorted(self.rows, stop, side="left"))

    def held_nbytes(self, slice_rows: int, width: int) -> int:
        """Bytes that reading a run of so many rows takes at most, values of `width` bytes."""
        last = np.searchsorted(self.rows, self.rows[:-1] + slice_rows, side="left") + 1
        last = np.minimum(last, len(self.rows) - 1)
        packed = self.starts[last] - self.starts[:-1]
        values = (self.rows[last] - self.rows[:-1]) * width
        before = np.concatenate([[0], np.cumsum(self.plain_nbytes)])
        # numbers take their width; strings what they take in their pages, and where each begins
        decoded = np.maximum(values, before[last] - before[:-1])
        dictionary = self.dictionary[1] - self.dictionary[0] + 2 * self.dictionary_nbytes
        return int((packed + decoded).max() + self.plain_nbytes.max() + dictionary)


def find_pages(
    stream: int, footer: bytes, group: int, names: Iterable[str]
) -> dict[str, ColumnPages]:
    """The pages of these columns in a row group of the footer.

    Raises `NotUnderstood` unless all are flat columns of the file itself whose pages follow one
    another and hold as many rows as the row group.
    """
    try:
        fields, _ = read_struct(footer, 0)
        leaves = _leaves(footer, fields[2][1])
        groups = list_items(footer, fields[4][1])
        facts, _ = read_struct(footer, groups[group])
        chunks = list_items(footer, facts[1][1])
        n_rows = read_number(footer, facts[3][1])
        found = {}
        for name in names:
            if name not in leaves:
                raise NotUnderstood(f"column {name!r} is nested")
            index, schema = leaves[name]
            found[name] = _pages_of(stream, footer, chunks[index], n_rows, schema)
        return found
    except (IndexError, KeyError, RecursionError, UnicodeDecodeError) as error:
        raise NotUnderstood("it ends early, or lacks a field") from error


def _leaves(footer: bytes, at: int) -> dict[str, tuple[int, bytes]]:
    """The number of each flat column among the leaves, and the schema of it alone."""
    items = list_items(footer, at)
    root, _ = read_struct(footer, items[0])
    parent = [(i, k, footer[p : skip(footer, p, k)]) for i, (k, p) in root.items() if i != 5]
    alone = _struct([*parent, (5, _INT32, _number(1))])
    found: dict[str, tuple[int, bytes]] = {}
    n_leaves, inside = 0, 0
    for item in items[1:]:
        fields, end = read_struct(footer, item)
        children = read_number(footer, fields[5][1]) if 5 in fields else 0
        repeated = 3 in fields and read_number(footer, fields[3][1]) == _REPEATED
        if not inside and not children and not repeated:
            length, begin = read_varint(footer, fields[4][1])
            name = footer[begin : begin + length].decode()
            found[name] = n_leaves, list_head(2) + alone + footer[item:end]
        inside = max(inside - 1, 0) + children
        n_leaves += not children
    return found


def _pages_of(stream: int, footer: bytes, at: int, n_rows: int, schema: bytes) -> ColumnPages:
    """Walk the headers of a column chunk's pages; a read of a few hundred bytes each."""
    chunk, _ = read_struct(footer, at)
    if 1 in chunk or 8 in chunk or 9 in chunk:
        raise NotUnderstood("it lies in another file, or is encrypted")
    fields, _ = read_struct(footer, chunk[3][1])
    kind = [(i, k, footer[p : skip(footer, p, k)]) for i, (k, p) in fields.items() if i <= 4]
    place = read_number(footer, fields[9][1])
    if 11 in fields:
        place = min(place, read_number(footer, fields[11][1]) or place)
    end = place + read_number(footer, fields[7][1])
    starts: list[int] = []
    rows, plain = [0], []
    dictionary, dictionary_nbytes = (0, 0), 0
    while place < end and rows[-1] < n_rows:
        head = _header(stream, place)
        following = place + head.nbytes + head.packed
        if head.kind == _DICTIONARY and not starts:
            dictionary, dictionary_nbytes = (place, following), head.plain
        elif head.kind in (_DATA, _DATA_2):
            starts.append(place)
            rows.append(rows[-1] + head.n_values)
            plain.append(head.plain)
        else:
            raise NotUnderstood(f"a page of type {head.kind}")
        place = following
    if rows[-1] != n_rows or place > end:
        raise NotUnderstood("its pages do not hold the row group's rows")
    ends = np.array([*starts, place], np.int64)
    numbers = np.array(rows, np.int64), np.array(plain, np.int64)
    return ColumnPages(ends, *numbers, dictionary, dictionary_nbytes, schema, kind)


class _Header(NamedTuple):
    kind: int
    plain: int
    packed: int
    n_values: int
    nbytes: int
    """Bytes of the header itself."""


def _header(stream: int, place: int) -> _Header:
    size = _HEADER_BYTES
    while True:
        data = os.pread(stream, size, place)
        try:
            fields, end = read_struct(data, 0)
            kind, plain, packed = (read_number(data, fields[i][1]) for i in (1, 2, 3))
            about, _ = read_struct(data, fields[_ABOUT[kind]][1])
            n_values = read_number(data, about[1][1])
        except (IndexError, KeyError) as error:
            if len(data) < size or size >= _LONGEST_HEADER:
                raise NotUnderstood("a page has no header") from error
            size *= 16
            continue
        if min(plain, packed) < 0 or n_values <= 0:
            raise NotUnderstood("a page of no values")
        return _Header(kind, plain, packed, n_values, end)


def read_run(stream: int, pages: ColumnPages, first: int, last: int) -> np.ndarray:
    """A file's magic bytes, the dictionary page, if there is one, and pages [first, last)."""
    parts = [pages.dictionary, (int(pages.starts[first]), int(pages.starts[last]))]
    at = len(MAGIC)
    raw = np.empty(at + sum(b - a for a, b in parts), np.uint8)
    raw[:at] = np.frombuffer(MAGIC, np.uint8)
    for a, b in parts:
        if os.preadv(stream, [raw[at : at + b - a].data], a) != b - a:
            raise EOFError(f"the file ends before byte {b}")
        at += b - a
    return raw


def decode_run(raw: np.ndarray, pages: ColumnPages, first: int, last: int) -> list[pa.Array]:
    """The values of pages [first, last), by the library; `raw` is what `read_run` gave of them."""
    n_rows = int(pages.rows[last] - pages.rows[first])
    begin, packed = len(MAGIC), len(raw) - len(MAGIC)
    a, b = pages.dictionary
    plain = pages.dictionary_nbytes + int(pages.plain_nbytes[first:last].sum())
    meta = [
        *pages.kind,
        (5, _INT64, _number(n_rows)),
        (6, _INT64, _number(plain)),
        (7, _INT64, _number(packed)),
        (9, _INT64, _number(begin + b - a)),
    ]
    if b > a:
        meta.append((11, _INT64, _number(begin)))
    chunk = _struct([(2, _INT64, _number(begin)), (3, _STRUCT, _struct(meta))])
    group = _struct(
        [
            (1, _LIST, list_head(1) + chunk),
            (2, _INT64, _number(packed)),
            (3, _INT64, _number(n_rows)),
        ]
    )
    footer = _struct(
        [
            (1, _INT32, _number(2)),
            (2, _LIST, pages.schema),
            (3, _INT64, _number(n_rows)),
            (4, _LIST, list_head(1) + group),
        ]
    )
    metadata = pq.read_metadata(
        pa.BufferReader(b"".join([MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC]))
    )
    content = pa.BufferReader(pa.py_buffer(raw))
    with pq.ParquetFile(content, metadata=metadata, pre_buffer=False) as file:
        table = file.read_row_group(0, use_threads=False)
    if table.num_rows != n_rows:
        raise ValueError(f"pages of {n_rows} rows hold {table.num_rows}")
    return table.column(0).chunks


def _number(value: int) -> bytes:
    """A whole number from 0 on, as the protocol writes it: doubled, seven bits a byte."""
    value *= 2
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _struct(fields: Sequence[tuple[int, int, bytes]]) -> bytes:
    """A struct of (number, type, value) fields, whose numbers ascend."""
    out, before = bytearray(), 0
    for number, kind, value in sorted(fields):
        out.append((number - before) << 4 | kind)
        out += value
        before = number
    return bytes(out) + b"\0"
