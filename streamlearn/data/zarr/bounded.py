"""Decompression that stops once more comes out of a chunk than the chunk has room for.

A megabyte of zeros that was compressed well is a gigabyte; the libraries make all of it before zarr
sees that the chunk holds less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    Bytes = bytes | memoryview | np.ndarray

NO_LIMIT = 1 << 62
"""Bytes of a chunk of words, whose length nothing tells."""
_BLOCK = 1 << 20
"""Bytes that are taken from a frame of unknown length at a time."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Stream(Protocol):
    """One stream of zlib, gzip, bz2 or lzma, as the standard library decompresses it."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, _most: int, /) -> bytes: ...


def too_large(most: int) -> ValueError:
    """The refusal of a chunk that decompresses to more than `most` bytes."""
    return ValueError(
        f"a chunk of at most {most:,} bytes decompresses to more; it was tampered with"
    )


def unpack(make: Callable[[], Stream], packed: Bytes, most: int) -> bytes:
    """The bytes of all streams in `packed`, one after the other; ValueError over `most` bytes."""
    parts, rest, room = list[bytes](), bytes(packed), most
    while rest:
        stream = make()
        part = stream.decompress(rest, room + 1)
        room -= len(part)
        if room < 0:
            raise too_large(most)
        if not stream.eof:
            raise ValueError(f"a compressed chunk of {len(packed):,} bytes ends early")
        parts.append(part)
        rest = stream.unused_data.lstrip(b"\0")  # as gzip pads
    return parts[0] if len(parts) == 1 else b"".join(parts)


def zstd_nbytes(packed: Bytes) -> int | None:
    """The decompressed bytes that a frame says it has (RFC 8878, 3.1.1.1); None: it says none."""
    head = bytes(packed[:18])
    if len(head) < 6 or head[:4] != _ZSTD_MAGIC:
        return None
    flags = head[4]
    single = flags >> 5 & 1
    width = (single, 2, 4, 8)[flags >> 6]
    at = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
    if not width:
        return None
    return int.from_bytes(head[at : at + width], "little") + (256 if width == 2 else 0)


def unpack_zstd(packed: Bytes, most: int) -> bytes:
    """The bytes of frames that do not say their length; ValueError over `most` bytes."""
    import pyarrow as pa

    parts, n_bytes = list[bytes](), 0
    with pa.CompressedInputStream(pa.BufferReader(bytes(packed)), "zstd") as stream:
        while part := stream.read(_BLOCK):
            n_bytes += len(part)
            if n_bytes > most:
                raise too_large(most)
            parts.append(part)
    return b"".join(parts)
