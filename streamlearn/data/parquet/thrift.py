"""Values in Thrift's compact protocol, written: footers that are made shorter or anew."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels_footer import INT32, INT64, LIST, STRUCT

MAGIC = b"PAR1"
"""Bytes with which every parquet file begins and ends."""


def number(value: int) -> bytes:
    """A whole number from 0 on: doubled, then as `varint`."""
    return varint(2 * value)


def varint(value: int) -> bytes:
    """A number from 0 on, seven bits a byte."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def binary(text: bytes) -> bytes:
    """Bytes behind their length."""
    return varint(len(text)) + text


def list_head(n: int, kind: int = STRUCT) -> bytes:
    """The head of a list of `n` elements of a type."""
    return bytes([n << 4 | kind]) if n < 15 else bytes([0xF0 | kind]) + varint(n)


def struct(fields: Sequence[tuple[int, int, bytes]]) -> bytes:
    """A struct of (number, type, value) fields, whose numbers ascend."""
    out, before = bytearray(), 0
    for field, kind, value in sorted(fields):
        out.append((field - before) << 4 | kind)
        out += value
        before = field
    return bytes(out) + b"\0"


def end_of_file(
    schema: bytes, facts: Sequence[tuple[int, int, bytes]], n_rows: int, nbytes: int
) -> bytes:
    """The footer, its length and the magic bytes of a file of one column chunk.

    Parameters
    ----------
    schema : bytes
        A list of elements.
    facts : sequence of (number, type, value)
        Fields of the chunk's metadata.
    n_rows, nbytes : int
        Rows, and bytes of the chunk, which begins after the magic bytes.
    """
    chunk = struct([(2, INT64, number(len(MAGIC))), (3, STRUCT, struct(facts))])
    group = struct(
        [
            (1, LIST, list_head(1) + chunk),
            (2, INT64, number(nbytes)),
            (3, INT64, number(n_rows)),
        ]
    )
    footer = struct(
        [
            (1, INT32, number(2)),
            (2, LIST, schema),
            (3, INT64, number(n_rows)),
            (4, LIST, list_head(1) + group),
        ]
    )
    return footer + len(footer).to_bytes(4, "little") + MAGIC
