"""Codecs that compare what a chunk says of itself with its bytes, before numcodecs believes it.

numcodecs reads beyond a blosc block that was cut (a value of other memory, or the end of the
process), and makes room for as many strings as a chunk's first bytes say (gigabytes, minutes).
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

import numcodecs
import numcodecs.abc
import numpy as np
import zarr
from zarr.codecs import BloscCodec, ShardingCodec, VLenBytesCodec, VLenUTF8Codec
from zarr.codecs._v2 import V2Codec
from zarr.core.codec_pipeline import BatchedCodecPipeline

if TYPE_CHECKING:
    from zarr.abc.codec import Codec
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

    Bytes = bytes | memoryview | np.ndarray

_BLOSC_HEAD, _BLOSC_NBYTES_AT = 16, 12
"""Bytes of a blosc block's head, and where in it the size of the whole block stands."""
_WORD_HEAD = 4
"""Bytes of the number of words before them, and of the length before each."""


def check_blosc(block: Bytes) -> None:
    """Raise ValueError unless a blosc block is there to its end."""
    raw = np.frombuffer(block, np.uint8)
    said = int(raw[_BLOSC_NBYTES_AT:_BLOSC_HEAD].view("<u4")[0]) if len(raw) >= _BLOSC_HEAD else -1
    if not _BLOSC_HEAD <= said <= len(raw):
        raise ValueError(f"a blosc block of {said} bytes has {len(raw)}; it was cut or damaged")


def check_words(packed: Bytes) -> None:
    """Raise ValueError unless there is room for as many words as packed words say they are."""
    raw = np.frombuffer(packed, np.uint8)
    n = int(raw[:_WORD_HEAD].view("<u4")[0]) if len(raw) >= _WORD_HEAD else 0
    if n > (len(raw) - _WORD_HEAD) // _WORD_HEAD:
        raise ValueError(f"{n:,} words do not lie in {len(raw)} bytes; the chunk is damaged")


class _Blosc2(numcodecs.Blosc):
    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> np.ndarray:
        check_blosc(buf)
        return super().decode(buf, out)


class _Words2(numcodecs.VLenUTF8):
    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> np.ndarray:
        check_words(buf)
        return super().decode(buf, out)


class _ByteWords2(numcodecs.VLenBytes):
    def decode(self, buf: Bytes, out: np.ndarray | None = None) -> np.ndarray:
        check_words(buf)
        return super().decode(buf, out)


class _Blosc3(BloscCodec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        check_blosc(chunk_bytes.as_numpy_array())
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _Words3(VLenUTF8Codec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        check_words(chunk_bytes.as_numpy_array())
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _ByteWords3(VLenBytesCodec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        check_words(chunk_bytes.as_numpy_array())
        return super()._decode_sync(chunk_bytes, chunk_spec)


_OF_FORMAT_2: dict[type, type[numcodecs.abc.Codec]] = {
    numcodecs.Blosc: _Blosc2,
    numcodecs.VLenUTF8: _Words2,
    numcodecs.VLenBytes: _ByteWords2,
}
_OF_FORMAT_3: dict[type, type[Codec]] = {
    BloscCodec: _Blosc3,
    VLenUTF8Codec: _Words3,
    VLenBytesCodec: _ByteWords3,
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
    codecs = [_checked(codec) for codec in pipeline]
    object.__setattr__(own, "codec_pipeline", type(pipeline).from_codecs(codecs))
    return zarr.Array(own)


def _checked(codec: Codec) -> Codec:
    if isinstance(codec, V2Codec):
        filters = None if codec.filters is None else tuple(map(_checked_2, codec.filters))
        return dataclasses.replace(codec, filters=filters, compressor=_checked_2(codec.compressor))
    if isinstance(codec, ShardingCodec):
        return dataclasses.replace(codec, codecs=tuple(map(_checked, codec.codecs)))
    stand_in = _OF_FORMAT_3.get(type(codec))
    return codec if stand_in is None else stand_in.from_dict(codec.to_dict())


def _checked_2(codec: numcodecs.abc.Codec | None) -> numcodecs.abc.Codec | None:
    stand_in = _OF_FORMAT_2.get(type(codec))
    if codec is None or stand_in is None:
        return codec
    return stand_in(**{k: v for k, v in codec.get_config().items() if k != "id"})
