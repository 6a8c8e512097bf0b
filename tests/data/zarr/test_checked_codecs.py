"""Chunks that say more than they hold are refused before numcodecs believes them."""

import bz2
import gzip
import json
import lzma
import tracemalloc
import warnings
import zlib

import numcodecs
import numpy as np
import pyarrow as pa
import pytest
import zarr
from zarr.registry import get_codec_class, get_numcodec

import streamlearn as sl
from streamlearn.data.zarr.checked_codecs import check_blosc, check_words, with_checks

pytestmark = pytest.mark.filterwarnings(
    "ignore:Numcodecs codecs are not:zarr.errors.ZarrUserWarning"
)
"""zarr warns of each codec that it wraps."""
STORES = {
    "2": (2, {"compressors": numcodecs.Blosc("zstd")}),
    "3": (3, {"compressors": zarr.codecs.BloscCodec(cname="lz4")}),
    "3 in shards": (3, {"compressors": zarr.codecs.BloscCodec(cname="lz4"), "shards": (40, 2)}),
}


def write(path, name):
    version, options = STORES[name]
    group = zarr.open_group(path, mode="w", zarr_format=version)
    X = np.arange(80.0).reshape(40, 2)
    group.create_array("X", data=X, chunks=(20, 2), **options)
    y = group.create_array("y", shape=(40,), dtype=str, chunks=(20,), compressors=None)
    y[:] = np.array(["a", "bc"] * 20, object)
    return X


def chunks(path, name):
    return sorted(p for p in (path / name).rglob("*") if p.is_file() and p.name[0].isdigit())


@pytest.mark.parametrize("name", STORES)
def test_what_is_whole_is_read_as_before(tmp_path, name):
    X = write(tmp_path / "s", name)
    (chunk,) = sl.open_dataset(tmp_path / "s", target="y", chunk_rows=40).iter_chunks()
    np.testing.assert_array_equal(chunk.X, X)
    assert list(chunk.y) == ["a", "bc"] * 20


@pytest.mark.parametrize("name", ["2", "3"])
def test_a_blosc_chunk_that_was_cut_is_refused(tmp_path, name):
    write(tmp_path / "s", name)
    chunk = chunks(tmp_path / "s", "X")[-1]
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(sl.SourceError, match="blosc block of .* bytes has .*cut or damaged"):
        list(sl.open_dataset(tmp_path / "s").iter_chunks())


@pytest.mark.parametrize("name", STORES)
def test_more_words_than_bytes_are_refused(tmp_path, name):
    write(tmp_path / "s", name)
    chunk = chunks(tmp_path / "s", "y")[0]
    chunk.write_bytes((2**30).to_bytes(4, "little") + chunk.read_bytes()[4:])
    with pytest.raises(sl.SourceError, match="words do not lie in .* bytes"):
        list(sl.open_dataset(tmp_path / "s", target="y").iter_chunks())


@pytest.mark.parametrize("name", STORES)
def test_the_array_of_the_caller_stays_as_it_is(tmp_path, name):
    X = write(tmp_path / "s", name)
    array = zarr.open_group(tmp_path / "s", mode="r")["X"]
    before = list(array.async_array.codec_pipeline)
    np.testing.assert_array_equal(with_checks(array)[:], X)
    assert list(array.async_array.codec_pipeline) == before


@pytest.mark.parametrize("nbytes", range(0, 40, 3))
def test_heads_that_are_short_are_refused(nbytes):
    block = bytes(numcodecs.Blosc().encode(np.arange(9.0)))
    check_blosc(block)
    with pytest.raises(ValueError, match="was cut or damaged"):
        check_blosc(block[: min(nbytes, len(block) - 1)])
    check_words(bytes(4 + nbytes))
    check_words((nbytes // 4).to_bytes(4, "little") + bytes(nbytes))
    with pytest.raises(ValueError, match="words do not lie in"):
        check_words((nbytes // 4 + 1).to_bytes(4, "little") + bytes(nbytes))


@pytest.mark.parametrize(
    "shape, told",
    [((40, 2**62), "columns, at most 16,777,216"), ((2**40, 2), "chunks of .* can be listed")],
)
def test_shapes_that_no_table_has_are_refused_at_once(tmp_path, shape, told):
    write(tmp_path / "s", "2")
    metadata = json.loads((tmp_path / "s/X/.zarray").read_text())
    (tmp_path / "s/X/.zarray").write_text(json.dumps({**metadata, "shape": shape}))
    with pytest.raises(sl.SourceError, match=told):
        sl.open_dataset(tmp_path / "s/X")


@pytest.mark.parametrize(
    "of, size", [("X", [20, 2**70]), ("X", [2**63, 2]), ("X", [2**32, 2**32]), ("y", [2**70])]
)
def test_chunks_larger_than_memory_has_addresses_are_refused_at_once(tmp_path, of, size):
    write(tmp_path / "s", "2")
    path = tmp_path / "s" / of / ".zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chunks": size}))
    with pytest.raises(sl.SourceError, match="more values than memory has addresses"):
        sl.open_dataset(tmp_path / "s", target="y")


MIB = 1 << 20


def streamed_zstd(raw):
    """A frame that does not say how long it is, as a writer to a pipe makes it."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    return sink.getvalue().to_pybytes()


def wrapped(codec):
    """A codec of numcodecs as format 3 wraps it."""
    settings = codec.get_config()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)  # it is in no specification
        return get_codec_class(f"numcodecs.{settings.pop('id')}")(**settings)


BOMBS = {
    "2 gzip": (numcodecs.GZip(), lambda raw: gzip.compress(raw)),
    "2 gzip of two": (numcodecs.GZip(), lambda raw: gzip.compress(raw[:9]) + gzip.compress(raw)),
    "2 zlib": (numcodecs.Zlib(), zlib.compress),
    "2 bz2": (numcodecs.BZ2(), bz2.compress),
    "2 lzma": (numcodecs.LZMA(), lzma.compress),
    "2 lz4": (numcodecs.LZ4(), lambda raw: bytes(numcodecs.LZ4().encode(raw))),
    "2 zstd": (numcodecs.Zstd(), lambda raw: bytes(numcodecs.Zstd().encode(raw))),
    "2 zstd of unknown length": (numcodecs.Zstd(), lambda raw: streamed_zstd(raw)),
    "2 blosc": (numcodecs.Blosc(), lambda raw: bytes(numcodecs.Blosc().encode(raw))),
    "3 gzip": (zarr.codecs.GzipCodec(), lambda raw: gzip.compress(raw)),
    "3 zstd": (zarr.codecs.ZstdCodec(), lambda raw: bytes(numcodecs.Zstd().encode(raw))),
    "3 zstd of unknown length": (zarr.codecs.ZstdCodec(), lambda raw: streamed_zstd(raw)),
    "3 blosc": (zarr.codecs.BloscCodec(), lambda raw: bytes(numcodecs.Blosc().encode(raw))),
}
WRAPPED = {name.removeprefix("2 "): way for name, way in BOMBS.items() if name[0] == "2"}
BOMBS |= {f"3 numcodecs.{name}": (wrapped(codec), pack) for name, (codec, pack) in WRAPPED.items()}
"""Format and codec -> the array's codec, and how other bytes are compressed for it."""


def one_chunk(path, name):
    codec, pack = BOMBS[name]
    X = np.arange(80.0).reshape(40, 2)
    array = zarr.create_array(
        path, shape=X.shape, chunks=X.shape, dtype=X.dtype, compressors=codec,
        zarr_format=int(name[0]),
    )  # fmt: skip
    array[:] = X
    (file,) = (p for p in path.rglob("*") if p.is_file() and p.name[0].isdigit())
    return X, file, pack


@pytest.mark.parametrize("name", BOMBS)
def test_other_compressions_of_the_same_bytes_are_read(tmp_path, name):
    X, file, pack = one_chunk(tmp_path / "s", name)
    raw = X.tobytes()
    halves = gzip.compress(raw[:9]) + gzip.compress(raw[9:])
    file.write_bytes(halves if name.endswith("gzip of two") else pack(raw))
    (chunk,) = sl.open_dataset(tmp_path / "s", chunk_rows=40).iter_chunks()
    np.testing.assert_array_equal(chunk.X, X)


@pytest.mark.parametrize("name", BOMBS)
def test_a_chunk_that_decompresses_to_more_is_refused_before_it_does(tmp_path, name):
    """64 MiB of zeros where the array has room for 640 bytes."""
    _, file, pack = one_chunk(tmp_path / "s", name)
    bomb = pack(bytes(64 * MIB))
    assert len(bomb) < MIB
    file.write_bytes(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(sl.SourceError, match="at most 1,664 bytes decompresses to more"):
            list(sl.open_dataset(tmp_path / "s").iter_chunks())
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB  # lzma's own dictionary: 8 MiB, twice
    finally:
        tracemalloc.stop()


LZMA2 = [{"id": lzma.FILTER_LZMA2, "preset": 1}]


@pytest.mark.parametrize("filters", [None, LZMA2], ids=["no filters", "filters"])
@pytest.mark.parametrize("kind", [lzma.FORMAT_XZ, lzma.FORMAT_RAW])
def test_formats_and_filters_of_lzma_are_read_where_zarr_reads_them(tmp_path, kind, filters):
    X = np.arange(80.0).reshape(40, 2)
    array = zarr.create_array(
        tmp_path / "s", shape=X.shape, chunks=X.shape, dtype=X.dtype, zarr_format=2,
        compressors=numcodecs.LZMA(format=kind, filters=filters),
    )  # fmt: skip
    if kind == lzma.FORMAT_RAW and filters is None:  # nor can it be written
        (tmp_path / "s" / "0.0").write_bytes(lzma.compress(X.tobytes(), kind, filters=LZMA2))
    else:
        array[:] = X
    if (kind == lzma.FORMAT_RAW) == (filters is not None):
        (chunk,) = sl.open_dataset(tmp_path / "s", chunk_rows=40).iter_chunks()
        np.testing.assert_array_equal(chunk.X, X)
        np.testing.assert_array_equal(array[:], X)
        return
    for read in (lambda: array[:], lambda: list(sl.open_dataset(tmp_path / "s").iter_chunks())):
        with pytest.raises((ValueError, sl.SourceError), match="(Must|Cannot) specify filters"):
            read()


SETTINGS = {
    "numcodecs.delta": {"dtype": "<f8"},
    "numcodecs.bitround": {"keepbits": 20},
    "numcodecs.fixedscaleoffset": {"scale": 1, "offset": 0, "dtype": "<f8", "astype": "<i4"},
    "numcodecs.quantize": {"digits": 3, "dtype": "<f8"},
    "numcodecs.astype": {"encode_dtype": "<f4", "decode_dtype": "<f8"},
    "numcodecs.shuffle": {"elementsize": 8},
    "numcodecs.packbits": {},
}
"""Wrapped codecs that cannot be made without settings."""
OF_BITS = ("numcodecs.packbits",)
NOT_INSTALLED = ("numcodecs.pcodec", "numcodecs.zfpy")
"""Codecs whose libraries are extras of numcodecs."""


def wrapped_names():
    """All names of wrapped codecs that zarr knows."""
    import zarr.codecs.numcodecs as module

    return sorted(getattr(module, name).codec_name for name in module.__all__ if name[0] != "_")


@pytest.mark.parametrize("name", [n for n in wrapped_names() if n not in NOT_INSTALLED])
def test_every_wrapped_codec_is_decoded_as_zarr_does(tmp_path, name):
    kind = get_codec_class(name)
    codec = kind(**SETTINGS.get(name, {}))
    X = np.arange(80.0).reshape(40, 2)
    role = next(r for r, base in ROLES.items() if issubclass(kind, base))
    options = {"compressors": None, role: codec if role == "serializer" else [codec]}
    if name in OF_BITS:
        X = X % 3 == 0
    array = zarr.create_array(
        tmp_path / "s", shape=X.shape, chunks=(20, 2), dtype=X.dtype, zarr_format=3, **options
    )
    array[:] = X
    (chunk,) = sl.open_dataset(tmp_path / "s", chunk_rows=40).iter_chunks()
    np.testing.assert_array_equal(chunk.X, zarr.open_array(tmp_path / "s")[:])


ROLES = {
    "filters": zarr.abc.codec.ArrayArrayCodec,
    "serializer": zarr.abc.codec.ArrayBytesCodec,
    "compressors": zarr.abc.codec.BytesBytesCodec,
}
"""Which codecs stand where in an array of format 3."""


def test_codecs_that_compress_have_their_stand_ins():
    """Every codec of numcodecs that makes bytes of a number that it does not know, wrapped too."""
    known = {codec.get_config()["id"] for codec, _ in WRAPPED.values()}
    of_size = {"shuffle", "packbits", "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"}
    of_values = {"delta", "bitround", "fixedscaleoffset", "quantize", "astype"}
    absent = {name.removeprefix("numcodecs.") for name in NOT_INSTALLED}
    names = {name.removeprefix("numcodecs.") for name in wrapped_names()}
    assert names == known | of_size | of_values | absent


@pytest.mark.parametrize("name", NOT_INSTALLED)
def test_a_codec_that_is_not_installed_is_named(tmp_path, name):
    write(tmp_path / "s", "3")
    path = tmp_path / "s/X/zarr.json"
    metadata = json.loads(path.read_text())
    metadata["codecs"] = [{"name": name, "configuration": {}}]
    path.write_text(json.dumps(metadata))
    with pytest.raises(sl.SourceError, match=f"codec not available: .*{name[10:]}"):
        list(sl.open_dataset(tmp_path / "s").iter_chunks())


def test_a_filter_that_makes_wide_values_is_refused(tmp_path):
    """4 MB a value where the array's have eight bytes."""
    write(tmp_path / "s", "2")
    path = tmp_path / "s/X/.zarray"
    wide = {"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<U1000000"}
    path.write_text(json.dumps({**json.loads(path.read_text()), "filters": [wide]}))
    with pytest.raises(sl.SourceError, match=r"'astype' makes values of 4,000,000 bytes.*most 16"):
        list(sl.open_dataset(tmp_path / "s").iter_chunks())


@pytest.mark.parametrize("where", ["filters", "compressor"])
def test_a_codec_that_would_run_code_is_refused_by_name(tmp_path, where):
    write(tmp_path / "s", "2")
    path, pickled = tmp_path / "s/y/.zarray", get_numcodec({"id": "pickle"}).get_config()
    metadata = json.loads(path.read_text())
    metadata[where] = [*metadata["filters"], pickled] if where == "filters" else pickled
    path.write_text(json.dumps(metadata))
    with pytest.raises(sl.SourceError, match=r"'pickle' would run what a chunk says"):
        list(sl.open_dataset(tmp_path / "s", target="y").iter_chunks())
