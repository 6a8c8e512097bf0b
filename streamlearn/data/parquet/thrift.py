"""Values in Thrift's compact protocol, written: footers that are made shorter or anew."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels_footer import STRUCT


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
