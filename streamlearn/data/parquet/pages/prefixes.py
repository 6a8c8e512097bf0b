"""Words stored by what they share with the word before, measured before they are written out.

In this encoding a word is a number of characters, those it begins with as the word before it, and
its own others.  A page of one long word and five hundred times its length says 500 long words: no
header tells what they take.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..footer_layout import Layout
from ..kernels_footer import (
    BINARY,
    CODEC,
    DEEPEST,
    FALSE,
    INT32,
    INT64,
    LIST,
    N_FIELDS,
    STRUCT,
    number,
    read_fields,
)
from ..thrift import MAGIC, binary, end_of_file, list_head, struct
from ..thrift import number as written
from .kernels import DATA_2, RLE
from .kernels_bytes import read_varint

BY_PREFIXES = 7
"""The encoding (DELTA_BYTE_ARRAY)."""
_DELTAS = 5
"""The encoding of the numbers of characters (DELTA_BINARY_PACKED)."""
_CODECS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_LONGER, _SHORT, _SMALL = 16, 256, 1 << 20
"""Words may take so many times their page's bytes, beside so many bytes each and a megabyte: more
is no table that another encoding would not hold better."""
_MOST = (1 << 31) - 1


def is_by_prefixes(raw: np.ndarray) -> bool:
    """Whether the values of the data page whose header these bytes begin with are such words."""
    _, own, of_page, _ = _header(raw)
    return bool(number(raw, own, 4 if of_page == 8 else 2, INT32, _MOST) == BY_PREFIXES)


def check_words(file: int, layout: Layout, group: int, leaf: int, start: int, stop: int) -> None:
    """Raise ValueError if the words of a data page by prefixes take too much written out.

    Parameters
    ----------
    file : int
        Handle of the file.
    layout : Layout
        Its footer.
    group, leaf : int
        Row group, and leaf of the schema: a column with at most one value a row.
    start, stop : int
        Where the page's header begins, and its content ends.
    """
    raw = np.frombuffer(bytearray(os.pread(file, stop - start, start)), np.uint8)
    header, own, of_page, at = _header(raw)
    n, plain = (int(number(raw, f, i, INT32, _MOST)) for f, i in ((own, 1), (header, 2)))
    codec = _CODECS.get(int(layout.facts[group, leaf, CODEC]), "")
    if of_page == 8:
        levels = sum(int(number(raw, own, i, INT32, _MOST)) for i in (5, 6))
        codec = None if own[7, 0] == FALSE else codec
    else:
        levels = 0
    if codec == "" or not 0 <= levels <= min(plain, len(raw) - at):
        raise ValueError(f"the page at byte {start} is not understood")
    content = raw[at + levels :].tobytes()
    if codec is not None:
        content = pa.Codec(codec).decompress(content, plain - levels, asbytes=True)
    if of_page == 5 and _has_levels(layout.elements[leaf]):
        if number(raw, own, 3, INT32, _MOST) != RLE:
            raise ValueError(f"the page at byte {start} has levels of an old encoding")
        content = content[4 + int.from_bytes(content[:4], "little") :]
    shared = int(_numbers(content, n).sum(dtype=np.int64))
    most = _LONGER * plain + _SHORT * n + _SMALL
    if plain + shared > most:
        raise ValueError(
            f"the {n} words of the page at byte {start} take {plain + shared} bytes written out, "
            f"{plain} as stored by what they share (DELTA_BYTE_ARRAY), at most {most} are read; "
            "write the column with a dictionary"
        )


def _header(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Fields of a page's header and of the struct of its version in it, whose number is next; end.

    That is 8 for pages of the second version, else 5.
    """
    header, end = _struct(raw, 0)
    of_page = 8 if number(raw, header, 1, INT32, _MOST) == DATA_2 else 5
    return header, _struct(raw, header[of_page, 1])[0], of_page, end


def _struct(raw: np.ndarray, at: int) -> tuple[np.ndarray, int]:
    """Types and places of a struct's fields, and where it ends."""
    fields, room = np.zeros((N_FIELDS, 2), np.int64), np.zeros((2, DEEPEST), np.int64)
    end = int(read_fields(raw, int(at), fields, *room))
    if end < 0:
        raise ValueError("a page's header is not understood")
    return fields, end


def _has_levels(element: bytes) -> bool:
    """Whether values of this element of a schema may be null."""
    raw = np.frombuffer(bytearray(element), np.uint8)
    return bool(number(raw, _struct(raw, 0)[0], 3, INT32, 2) == 1)


def _numbers(content: bytes, most: int) -> np.ndarray:
    """The whole numbers with which the content of a page begins, `most` at most, by the library."""
    raw, at, n = np.frombuffer(bytearray(content), np.uint8), 0, -1
    for _ in range(3):  # of a block the numbers, its parts, numbers in all
        n, at = read_varint(raw, at)
        if at < 0:
            break
    if not 0 <= n <= most or at < 0:
        raise ValueError(f"a page of {most} words says the lengths of {n}")
    if n == 0:
        return np.empty(0, np.int32)
    numbers = [(1, n), (2, _DELTAS), (3, RLE), (4, RLE)]
    of_page = struct([(i, INT32, written(int(value))) for i, value in numbers])
    sizes = [(i, INT32, written(len(content))) for i in (2, 3)]
    head = struct([(1, INT32, written(0)), *sizes, (5, STRUCT, of_page)])
    root = struct([(4, BINARY, binary(b"schema")), (5, INT32, written(1))])
    element = struct([(1, INT32, written(1)), (3, INT32, written(0)), (4, BINARY, binary(b"n"))])
    size = len(head) + len(content)
    facts = [
        (1, INT32, written(1)),
        (2, LIST, list_head(1, INT32) + written(_DELTAS)),
        (3, LIST, list_head(1, BINARY) + binary(b"n")),
        (4, INT32, written(0)),
        (5, INT64, written(int(n))),
        (6, INT64, written(size)),
        (7, INT64, written(size)),
        (9, INT64, written(len(MAGIC))),
    ]
    end = end_of_file(list_head(2) + root + element, facts, int(n), size)
    whole = pa.BufferReader(b"".join([MAGIC, head, content, end]))
    with pq.ParquetFile(whole, pre_buffer=False) as found:
        table = found.read_row_group(0, use_threads=False)
    if table.num_rows != n:
        raise ValueError(f"a page of {n} words holds the lengths of {table.num_rows}")
    return table.column(0).to_numpy()
