"""Codecs that compare what a chunk says of itself with its bytes, before numcodecs believes it.

numcodecs reads beyond a blosc block that was cut (a value of other memory, or the end of the
process), makes room for as many strings as a chunk's first bytes say (gigabytes, minutes), and
decompresses whatever a chunk holds (`bounded`).
"""

from __future__ import annotations

import bz2
import copy
import dataclasses
import lzma
import math
import zlib
from functools import partial
from typing import TYPE_CHECKING

import numcodecs
import numcodecs.abc
import numpy as np
import zarr
from zarr.codecs import (
    BloscCodec,
    GzipCodec,
    ShardingCodec,
    VLenBytesCodec,
    VLenUTF8Codec,
    ZstdCodec,
)
from zarr.codecs._v2 import V2Codec
from zarr.codecs.numcodecs._codecs import _NumcodecsCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline

from ...errors import SourceError
from .bounded import NO_LIMIT, too_large, unpack, unpack_zstd, zstd_nbytes

if TYPE_CHECKING:
    from zarr.abc.codec import Codec
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

    Bytes = bytes | memoryview | np.ndarray

_BLOSC_HEAD, _BLOSC_PLAIN_AT, _BLOSC_NBYTES_AT = 16, 4, 12
"""Bytes of a blosc block's head, and where in it the decompressed size and that of the whole block
stand."""
_SPARE = 1 << 10
"""Bytes that a chunk may have beside its values: checksums, heads."""
_FILTERED = 16
"""Bytes of a value, at most, that a filter has made of another type."""
_TYPES = ("dtype", "astype", "encode_dtype", "decode_dtype")
"""Settings of filters that name the type of values which they make."""
_RUNS_CODE = "pickle"
"""The codec whose chunks are programs, which older versions of numcodecs run."""
_LZMA_MEMORY = 80 << 20
"""Bytes that lzma may take; its largest preset has a dictionary of 64 MiB."""
_GZIP, _ZLIB = 31, 15
"""Kinds of streams, as zlib numbers them."""
_WORD_HEAD = 4
"""Bytes of the number of words before them, and of the length before each."""


def check_blosc(block: Bytes, most: int = NO_LIMIT) -> None:
    """Raise ValueError unless a blosc block is there to its end, and of at most so many bytes."""
    raw = np.frombuffer(block, np.uint8)
    said = int(raw[_BLOSC_NBYTES_AT:_BLOSC_HEAD].view("<u4")[0]) if len(raw) >= _BLOSC_HEAD else -1
    if not _BLOSC_HEAD <= said <= len(raw):
        raise ValueError(f"a blosc block of {said} bytes has {len(raw)}; it was cut or damaged")
    if int(raw[_BLOSC_PLAIN_AT : _BLOSC_PLAIN_AT + 4].view("<u4")[0]) > most:
        raise too_large(most)


def check_words(packed: Bytes) -> None:
    """Raise ValueError unless there is room for as many words as packed words say they are."""
    raw = np.frombuffer(packed, np.uint8)
    n = int(raw[:_WORD_HEAD].view("<u4")[0]) if len(raw) >= _WORD_HEAD else 0
    if n > (len(raw) - _WORD_HEAD) // _WORD_HEAD:
        raise ValueError(f"{n:,} words do not lie in {len(raw)} bytes; the chunk is damaged")


class _Blosc2(numcodecs.Blosc):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> np.ndarray:
        check_blosc(buf, self.most)
        return super().decode(buf, out)


class _Words2(numcodecs.VLenUTF8):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> np.ndarray:
        check_words(buf)
        return super().decode(buf, out)


class _ByteWords2(numcodecs.VLenBytes):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> np.ndarray:
        check_words(buf)
        return super().decode(buf, out)


class _Gzip2(numcodecs.GZip):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> Bytes:
        return unpack(partial(zlib.decompressobj, _GZIP), buf, self.most)


class _Zlib2(numcodecs.Zlib):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> Bytes:
        return unpack(partial(zlib.decompressobj, _ZLIB), buf, self.most)


class _Bz22(numcodecs.BZ2):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> Bytes:
        return unpack(bz2.BZ2Decompressor, buf, self.most)


class _Lzma2(numcodecs.LZMA):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> Bytes:
        memory = None if self.format == lzma.FORMAT_RAW else _LZMA_MEMORY
        # filters beside any other format are a ValueError, as zarr-python has it
        stream = partial(lzma.LZMADecompressor, self.format, memory, self.filters)
        return unpack(stream, buf, self.most)


class _Lz42(numcodecs.LZ4):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> Bytes:
        if int.from_bytes(bytes(buf[:_WORD_HEAD]), "little") > self.most:
            raise too_large(self.most)
        return super().decode(buf, out)


class _Zstd2(numcodecs.Zstd):
    most = NO_LIMIT

    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> Bytes:
        n_bytes = zstd_nbytes(buf)
        if n_bytes is None:
            return unpack_zstd(buf, self.most)
        if n_bytes > self.most:
            raise too_large(self.most)
        return super().decode(buf, out)


class _Blosc3(BloscCodec):
    most = NO_LIMIT

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        check_blosc(chunk_bytes.as_numpy_array(), self.most)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _Gzip3(GzipCodec):
    most = NO_LIMIT

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        packed = chunk_bytes.as_numpy_array()
        plain = unpack(partial(zlib.decompressobj, _GZIP), packed, self.most)
        return chunk_spec.prototype.buffer.from_bytes(plain)


class _Zstd3(ZstdCodec):
    most = NO_LIMIT

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        packed = chunk_bytes.as_numpy_array()
        n_bytes = zstd_nbytes(packed)
        if n_bytes is None:
            return chunk_spec.prototype.buffer.from_bytes(unpack_zstd(packed, self.most))
        if n_bytes > self.most:
            raise too_large(self.most)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _Words3(VLenUTF8Codec):
    most = NO_LIMIT

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        check_words(chunk_bytes.as_numpy_array())
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _ByteWords3(VLenBytesCodec):
    most = NO_LIMIT

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        check_words(chunk_bytes.as_numpy_array())
        return super()._decode_sync(chunk_bytes, chunk_spec)


_OF_FORMAT_2: dict[type, type[numcodecs.abc.Codec]] = {
    numcodecs.Blosc: _Blosc2,
    numcodecs.VLenUTF8: _Words2,
    numcodecs.VLenBytes: _ByteWords2,
    numcodecs.GZip: _Gzip2,
    numcodecs.Zlib: _Zlib2,
    numcodecs.BZ2: _Bz22,
    numcodecs.LZMA: _Lzma2,
    numcodecs.LZ4: _Lz42,
    numcodecs.Zstd: _Zstd2,
}
_OF_FORMAT_3: dict[type, type[Codec]] = {
    BloscCodec: _Blosc3,
    VLenUTF8Codec: _Words3,
    VLenBytesCodec: _ByteWords3,
    GzipCodec: _Gzip3,
    ZstdCodec: _Zstd3,
}
"""Codecs that believe a chunk, and what stands in for them."""


def with_checks(array: zarr.Array) -> zarr.Array:
    """The same zarr array, whose chunks are looked at before they are decoded.

    Pipelines other than zarr's own decode by themselves, and are left as they are.
    """
    inner = array.async_array
    pipeline = inner.codec_pipeline
    if not isinstance(pipeline, BatchedCodecPipeline):
        return array
    own = copy.copy(inner)  # the caller's array stays as it is
    most = _most_nbytes(array)
    width = _most_width(array)
    try:
        codecs = [_checked(codec, most, width) for codec in pipeline]
    except ValueError as error:
        raise SourceError(
            f"{array.store_path}: {error}; write the array anew without it, or restore its "
            "metadata from a copy"
        ) from None
    object.__setattr__(own, "codec_pipeline", type(pipeline).from_codecs(codecs))
    return zarr.Array(own)


def _most_width(array: zarr.Array) -> int:
    """Bytes that a value takes, at most, before and after each filter."""
    return max(array.dtype.itemsize, _FILTERED)


def _most_nbytes(array: zarr.Array) -> int:
    """Bytes that a chunk (of a shard, one of its chunks) has decompressed, at most."""
    dtype = array.dtype
    if dtype.hasobject or dtype.kind == "T":
        return NO_LIMIT
    width = _most_width(array) if array.filters else dtype.itemsize
    return math.prod(array.chunks) * width + _SPARE


def _checked(codec: Codec, most: int, width: int) -> Codec:
    if isinstance(codec, V2Codec):
        filters = codec.filters
        if filters is not None:
            filters = tuple(_checked_2(one, most, width) for one in filters)
        compressor = codec.compressor and _checked_2(codec.compressor, most, width)
        return dataclasses.replace(codec, filters=filters, compressor=compressor)
    if isinstance(codec, ShardingCodec):
        codecs = tuple(_checked(one, most, width) for one in codec.codecs)
        return dataclasses.replace(codec, codecs=codecs)
    if isinstance(codec, _NumcodecsCodec):  # one of format 2 that format 3 wraps
        wrapped = copy.copy(codec)
        vars(wrapped)["_codec"] = _checked_2(codec._codec, most, width)
        return wrapped
    stand_in = _OF_FORMAT_3.get(type(codec))
    if stand_in is None:
        return codec
    made = stand_in.from_dict(codec.to_dict())
    object.__setattr__(made, "most", most)  # zarr's codecs are frozen
    return made


def _checked_2(codec: numcodecs.abc.Codec, most: int, width: int) -> numcodecs.abc.Codec:
    settings = codec.get_config()
    if codec.codec_id == _RUNS_CODE:
        raise ValueError(f"the codec {_RUNS_CODE!r} would run what a chunk says")
    for name in _TYPES:
        n_bytes = np.dtype(settings.get(name, "u1")).itemsize
        if n_bytes > width:
            raise ValueError(
                f"the codec {codec.codec_id!r} makes values of {n_bytes:,} bytes "
                f"({name}={settings[name]!r}), at most {width} fit the array's type"
            )
    stand_in = _OF_FORMAT_2.get(type(codec))
    if stand_in is None:
        return codec
    made = stand_in(**{k: v for k, v in settings.items() if k != "id"})
    vars(made)["most"] = most
    return made
