"""Thrift's compact protocol, as far as parquet's footers and page headers use it."""

from __future__ import annotations

_NO_VALUE, _NUMBERS, _LISTS = (1, 2), (4, 5, 6), (9, 10)
_BYTE, _DOUBLE, _BINARY, _STRUCT = 3, 7, 8, 12
"""Types of the protocol: booleans live in the field's own byte, whole numbers are varints."""


class NotUnderstood(ValueError):
    """The bytes are not a footer of this layout."""


def list_head(n: int) -> bytes:
    """The head of a list of `n` structs."""
    if n < 15:
        return bytes([n << 4 | _STRUCT])
    head = bytearray([0xF0 | _STRUCT])
    while n > 127:
        head.append(n & 127 | 128)
        n >>= 7
    return bytes(head) + bytes([n])


def read_number(data: bytes, at: int) -> int:
    """The whole number at `at`; those below zero as -1."""
    zigzag, _ = read_varint(data, at)
    return -1 if zigzag & 1 else zigzag >> 1


def list_items(data: bytes, at: int) -> list[int]:
    """Where the elements of the list at `at` begin."""
    n, kind, at = list_start(data, at)
    places = []
    for _ in range(n):
        places.append(at)
        at = skip(data, at, kind)
    return places


def read_struct(data: bytes, at: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Type and place of each field of the struct at `at`, and where the struct ends."""
    fields: dict[int, tuple[int, int]] = {}
    field = 0
    while data[at]:
        head = data[at]
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            zigzag, at = read_varint(data, at)
            field = zigzag >> 1
        fields[field] = head & 15, at
        at = skip(data, at, head & 15)
    return fields, at + 1


def skip(data: bytes, at: int, kind: int) -> int:
    """The position behind the value of this type that begins at `at`."""
    if kind in _NUMBERS:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind in _NO_VALUE:
        return at
    if kind == _BINARY:
        n, at = read_varint(data, at)
        return at + n
    if kind == _STRUCT:
        while data[at]:
            head = data[at]
            at += 1
            if not head >> 4:
                _, at = read_varint(data, at)
            at = skip(data, at, head & 15)
        return at + 1
    if kind in _LISTS:
        n, inner, at = list_start(data, at)
        if inner in (*_NO_VALUE, _BYTE):  # a boolean in a list has a byte of its own
            return at + n
        if inner == _DOUBLE:
            return at + 8 * n
        for _ in range(n):
            at = skip(data, at, inner)
        return at
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    raise NotUnderstood(f"it has a value of type {kind}")  # maps: parquet's footers have none


def list_start(data: bytes, at: int) -> tuple[int, int, int]:
    """Of the list at `at` (length, type of the elements, where they begin)."""
    n, kind, at = data[at] >> 4, data[at] & 15, at + 1
    if n == 15:
        n, at = read_varint(data, at)
    return n, kind, at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, seven bits a byte, and where it ends."""
    value, shift = data[at] & 127, 7
    while data[at] > 127:
        at += 1
        value |= (data[at] & 127) << shift
        shift += 7
    return value, at + 1
