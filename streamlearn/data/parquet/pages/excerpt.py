"""A run of a column's pages as a parquet file of its own.

A slice of a row group that is too large to be decoded whole needs a few pages of each column.  The
library reads column chunks from their beginning and keeps a page, a dictionary and a batch of rows
for each column that is open; this reads the pages of one column that hold the slice, wherever it
begins, and hands them on with a footer for them alone: whatever the library decodes, it decodes so.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..footer_layout import Layout
from ..kernels_footer import (
    BINARY,
    CODEC,
    ENCODINGS,
    INT32,
    INT64,
    LIST,
    N_ENCODINGS,
    NBYTES,
    TYPE,
)
from ..thrift import MAGIC, binary, end_of_file, list_head, number, struct
from .headers import Page, walk_pages
from .kernels import DATA, DATA_2, DICTIONARY


class NotUnderstood(ValueError):
    """The pages of a column do not lie as slices of it can be read from."""


class ColumnPages(NamedTuple):
    """Places of the pages of one column chunk in a file, and the rows they hold."""

    starts: np.ndarray
    """(n_pages + 1,) int64: where in the file each data page begins, and the last ends."""
    rows: np.ndarray
    """(n_pages + 1,) int64: rows of the row group before each page, and in all."""
    plain_nbytes: np.ndarray
    """(n_pages,) int64: bytes of each page decompressed."""
    dictionary: tuple[int, int]
    """First byte of the dictionary page in the file, and the end of it; (0, 0) without one."""
    dictionary_nbytes: int
    """Bytes of the dictionary page decompressed."""
    dictionary_words: int
    """Values of the dictionary, if they are words: each has its length in four bytes."""
    schema: bytes
    """The elements of a schema of this column alone, as a list."""
    kind: list[tuple[int, int, bytes]]
    """Fields of the column's metadata that do not depend on the pages: type, encodings, codec."""

    def run(self, start: int, stop: int) -> tuple[int, int]:
        """Numbers of the pages [first, last) that hold these rows."""
        first = int(np.searchsorted(self.rows, start, side="right")) - 1
        return first, int(np.searchsorted(self.rows, stop, side="left"))

    def alike(self, first: int, last: int) -> list[tuple[int, int, bool]]:
        """Runs of the pages [first, last), and whether those of a run are indices of words.

        An index has four bytes at most, a word its length in four bytes and its characters.  A
        writer whose dictionary is full writes the words themselves from there on.
        """
        rows = np.diff(self.rows[first : last + 1])
        indices = self.plain_nbytes[first:last] < 4 * rows
        cuts = np.flatnonzero(np.diff(indices)) + 1
        ends = [0, *cuts.tolist(), last - first]
        return [(first + a, first + z, bool(indices[a])) for a, z in pairwise(ends)]

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


def find_pages(stream: int, layout: Layout, group: int, name: str, leaf: int) -> ColumnPages:
    """The pages of a column in a row group of the footer; a read of a few hundred bytes each.

    Raises `NotUnderstood`, or what `walk_pages` raises, unless they follow one another and hold as
    many rows as the row group.
    """
    facts, n_rows = layout.facts[group, leaf], int(layout.rows[group])
    data: list[Page] = []
    dictionary, dictionary_nbytes, dictionary_words = (0, 0), 0, 0
    for page in walk_pages(stream, layout, group, leaf):
        if page.kind == DICTIONARY and not data and not dictionary[1]:
            dictionary, dictionary_nbytes = (page.start, page.stop), page.plain_nbytes
            dictionary_words = min(page.n_values, page.plain_nbytes // 4)
        elif page.kind in (DATA, DATA_2) and page.n_values > 0:
            data.append(page)
        else:
            raise NotUnderstood(f"a page of type {page.kind} with {page.n_values} values")
    rows = np.cumsum([0, *(page.n_values for page in data)])
    begins = dictionary[0] if dictionary[1] else data[0].start if data else 0
    if rows[-1] != n_rows or not data or data[-1].stop > begins + facts[NBYTES]:
        raise NotUnderstood(f"its pages hold {rows[-1]} of the row group's {n_rows} rows")
    starts = np.array([*(page.start for page in data), data[-1].stop], np.int64)
    plain = np.array([page.plain_nbytes for page in data], np.int64)
    root = struct([(4, BINARY, binary(b"schema")), (5, INT32, number(1))])
    schema = list_head(2) + root + layout.elements[leaf]
    used = [e for e in range(N_ENCODINGS) if facts[ENCODINGS] >> e & 1]
    kind = [
        (1, INT32, number(int(facts[TYPE]))),
        (2, LIST, list_head(len(used), INT32) + b"".join(map(number, used))),
        (3, LIST, list_head(1, BINARY) + binary(name.encode())),
        (4, INT32, number(int(facts[CODEC]))),
    ]
    sizes = dictionary_nbytes, dictionary_words
    return ColumnPages(starts, rows, plain, dictionary, *sizes, schema, kind)


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


def decode_run(
    raw: np.ndarray, pages: ColumnPages, first: int, last: int, by_words: str | None = None
) -> list[pa.Array]:
    """The values of pages [first, last), by the library; `raw` is what `read_run` gave of them.

    Those of the column `by_words` are a dictionary and indices, however its pages have them.
    """
    n_rows = int(pages.rows[last] - pages.rows[first])
    begin, packed = len(MAGIC), len(raw) - len(MAGIC)
    a, b = pages.dictionary
    plain = pages.dictionary_nbytes + int(pages.plain_nbytes[first:last].sum())
    meta = [
        *pages.kind,
        (5, INT64, number(n_rows)),
        (6, INT64, number(plain)),
        (7, INT64, number(packed)),
        (9, INT64, number(begin + b - a)),
    ]
    if b > a:
        meta.append((11, INT64, number(begin)))
    end = end_of_file(pages.schema, meta, n_rows, packed)
    metadata = pq.read_metadata(pa.BufferReader(MAGIC + end))
    content = pa.BufferReader(pa.py_buffer(raw))
    dictionaries = None if by_words is None else [by_words]
    with pq.ParquetFile(
        content, metadata=metadata, read_dictionary=dictionaries, pre_buffer=False
    ) as file:
        table = file.read_row_group(0, use_threads=False)
    if table.num_rows != n_rows:
        raise ValueError(f"pages of {n_rows} rows hold {table.num_rows}")
    return table.column(0).chunks
