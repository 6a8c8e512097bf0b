"""Pages that say, or whose compressed bytes make, far more than their column chunk has room for."""

import itertools
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile.parquet_file import (
    CODEC,
    CODECS,
    COLUMNS,
    FACTS,
    I32,
    PLAIN_NBYTES,
    ROW_GROUPS,
    end_of_file,
    levels_nbytes,
    put_together,
    take_apart,
)
from hostile.thrift import get, put, write_struct
from promises.fit_job import reset_peak, resident_bytes

import streamlearn as sl
from streamlearn.data.parquet import files
from streamlearn.data.parquet.pages.prefixes import is_by_prefixes
from streamlearn.data.parquet.pages.reader import USABLE
from streamlearn.engine.memory import peak_resident_bytes

pytestmark = pytest.mark.skipif(not USABLE, reason="this system's files are left to the library")
BOMB = 64 << 20
ROOM = 24 << 20
"""Resident bytes that a read of a small file may add, the library's read-ahead included."""
N = 500
COLUMNS_OF = {
    "numbers": np.arange(N) / 7.0,
    "few numbers": np.arange(N) % 5 * 1.5,
    "nullable": pa.array([None if i % 9 == 0 else i for i in range(N)], pa.int64()),
    "words": [f"word {i % 7}" for i in range(N)],
}
PAGES = ("first", "last")
"""Which page is the bomb; the first one of few values is their dictionary."""
BOMBS = ("says", "makes", "says and makes")
"""A header that says 64 MiB; a body that decompresses to them; both."""
WAYS = ("whole", "slices", "streamed")
"""How the reader comes to the pages: whole row groups, excerpts of pages, streams of batches."""


@cache
def compressed(name):
    return bytes(BOMB) if name == "none" else pa.Codec(name).compress(bytes(BOMB), asbytes=True)


def bomb(path, column, codec, version, page, kind):
    """A file of one column whose page decompresses, or says so, to 64 MiB."""
    table = pa.table({"x": COLUMNS_OF[column]})
    name = CODECS[codec] or "none"
    pq.write_table(
        table, path, compression="lz4" if name == "lz4_raw" else name, data_page_version=version,
        use_dictionary=column in ("few numbers", "words"), data_page_size=1 << 10,
    )  # fmt: skip
    footer, pages = take_apart(path.read_bytes())
    facts = get(get(get(footer, ROW_GROUPS)[1][0], COLUMNS)[1][0], FACTS)
    assert get(facts, CODEC) == codec
    plain = get(facts, PLAIN_NBYTES)
    bomb = pages[0, 0][0 if page == "first" else -1]
    header, body = bomb
    n = levels_nbytes(header)
    if "makes" in kind:
        bomb[1] = body[:n] + compressed(name)
        put(header, 3, I32, len(bomb[1]))
    if "says" in kind:
        put(header, 2, I32, n + BOMB)
    data = put_together(footer, pages)
    put(facts, PLAIN_NBYTES, 6, plain)
    path.write_bytes(data + end_of_file(footer))


def read(path, way):
    """All chunks, in one of the ways in which the reader reads."""
    data = sl.open_dataset(path, chunk_rows=N if way == "whole" else 37)
    if data.categorical:
        data = data.with_levels({"x": sorted(set(COLUMNS_OF["words"]))})
    return np.concatenate([np.array(chunk.X) for chunk in data.iter_chunks()])


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory):
    """Kernels and libraries take memory when they are first used, which no bomb does."""
    path = tmp_path_factory.mktemp("loaded") / "t.parquet"
    for column in COLUMNS_OF:
        bomb(path, column, 6, "2.0", "last", "")
        for way in WAYS:
            read(path, way)


CASES = list(itertools.product(COLUMNS_OF, [c for c in CODECS if c], BOMBS, WAYS))
IDS = ["-".join([column, CODECS[codec], *rest]) for column, codec, *rest in CASES]


@pytest.mark.parametrize(("column", "codec", "kind", "way"), CASES, ids=IDS)
def test_a_bomb_is_refused_before_it_is_made(tmp_path, monkeypatch, column, codec, kind, way):
    path = tmp_path / "t.parquet"
    monkeypatch.setattr(files, "_HELD", 0)  # or slices of so small a file are held whole
    if way == "streamed":
        monkeypatch.setattr(files.ParquetFiles, "pages", lambda *_: None)
    for version, page in itertools.product(("1.0", "2.0"), PAGES):
        bomb(path, column, codec, version, page, kind)
        reset_peak()
        before = resident_bytes()
        with pytest.raises(sl.SourceError, match=r"cannot read|cannot be opened"):
            read(path, way)
        assert peak_resident_bytes() - before < ROOM


@pytest.mark.parametrize("codec", [c for c in CODECS if c], ids=CODECS.get)
@pytest.mark.parametrize("column", COLUMNS_OF)
def test_the_same_files_without_a_bomb_are_read(tmp_path, column, codec):
    """The parts are put together right: what is refused is the bomb."""
    path = tmp_path / "t.parquet"
    bomb(path, column, codec, "2.0", "last", "")
    whole = read(path, "whole")
    assert whole.shape == (N, 1)
    np.testing.assert_array_equal(read(path, "slices"), whole)


LONG = 100_000
"""Characters of a word that five hundred rows share: 48 MiB, and a page of 100 kB."""


def by_prefixes(path, words, version, codec, *, nullable=True):
    schema = pa.schema([pa.field("x", pa.string(), nullable)])
    pq.write_table(
        pa.table([pa.array(words)], schema), path, compression=codec, use_dictionary=False,
        column_encoding={"x": "DELTA_BYTE_ARRAY"}, data_page_version=version,
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_long_words_that_take_a_byte_each_are_refused(
    tmp_path, monkeypatch, version, codec, nullable, way
):
    """No header tells what words by prefixes take: of one word and 499 repeats there is one."""
    path = tmp_path / "t.parquet"
    monkeypatch.setattr(files, "_HELD", 0)
    if way == "streamed":
        monkeypatch.setattr(files.ParquetFiles, "pages", lambda *_: None)
    by_prefixes(path, [LONG * "x"] * N, version, codec, nullable=nullable)
    assert path.stat().st_size < 3 * LONG
    reset_peak()
    before = resident_bytes()
    with pytest.raises(sl.SourceError, match="the 500 words of the page at byte 4 take 50000"):
        read(path, way)
    assert peak_resident_bytes() - before < ROOM


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_words_that_share_their_beginnings_are_read(tmp_path, monkeypatch, version, nullable, way):
    """Long paths, nine tenths of each shared, and one short word for all rows."""
    path = tmp_path / "t.parquet"
    monkeypatch.setattr(files, "_HELD", 0)
    if way == "streamed":
        monkeypatch.setattr(files.ParquetFiles, "pages", lambda *_: None)
    for words in ([270 * "x" + f"{k:030d}" for k in range(N)], [200 * "x"] * N):
        given = [None if nullable and k % 9 == 0 else word for k, word in enumerate(words)]
        by_prefixes(path, given, version, "zstd", nullable=nullable)
        levels = sorted(set(words))
        data = sl.open_dataset(path, chunk_rows=N if way == "whole" else 37)
        chunks = [np.array(c.X[:, 0]) for c in data.with_levels({"x": levels}).iter_chunks()]
        codes = {word: code for code, word in enumerate(levels)}
        expected = [np.nan if word is None else codes[word] for word in given]
        np.testing.assert_array_equal(np.concatenate(chunks), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("used", ["filter alone", "feature too", "target too"])
def test_a_filter_on_long_words_that_rows_share_writes_few_of_them_out(
    tmp_path, monkeypatch, used, way
):
    """Two words for all rows, 48 MiB written out, and a file of a few kilobytes."""
    path = tmp_path / "t.parquet"
    monkeypatch.setattr(files, "_HELD", 0)
    if way == "streamed":
        monkeypatch.setattr(files.ParquetFiles, "pages", lambda *_: None)
    # a category has at most 1,024 characters
    n, length = (100 * N, LONG // 100) if used == "feature too" else (N, LONG)
    x, y = length * "x", length * "y"
    words = [None if k % 9 == 0 else (x, y)[k % 2] for k in range(n)]
    table = pa.table({"x": pa.array(words), "z": np.arange(n) / 1.0})
    pq.write_table(table, path, compression="zstd", use_dictionary=["x"])
    assert path.stat().st_size < 12 * n + 3 * length
    del words, table
    reset_peak()
    before = resident_bytes()
    data = sl.open_dataset(
        path,
        features=["x", "z"] if used == "feature too" else ["z"],
        target="x" if used == "target too" else None,
        filters=[("x", "!=", x)],
        chunk_rows=n if way == "whole" else n // 13,
    )
    if used == "feature too":
        data = data.with_levels({"x": [x, y]})
    # a chunk's arrays are written over by the next one
    chunks = [(np.array(chunk.X), np.array(chunk.y)) for chunk in data.iter_chunks()]
    assert peak_resident_bytes() - before < ROOM
    kept = [k for k in range(n) if k % 9 and k % 2]
    np.testing.assert_array_equal(np.concatenate([X[:, -1] for X, _ in chunks]), kept)
    if used == "feature too":
        assert all((X[:, 0] == 1).all() for X, _ in chunks)
    if used == "target too":
        assert {word for _, words in chunks for word in words.tolist()} == {y}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("column", [*COLUMNS_OF, "words by prefixes"])
def test_a_page_of_words_by_prefixes_is_known_by_its_header(tmp_path, column, version):
    """Whatever the footer says of its encodings."""
    path = tmp_path / "t.parquet"
    if column == "words by prefixes":
        by_prefixes(path, COLUMNS_OF["words"], version, "snappy")
    else:
        pq.write_table(pa.table({"x": COLUMNS_OF[column]}), path, data_page_version=version)
    raw = path.read_bytes()
    for header, _ in take_apart(raw)[1][0, 0]:
        if get(header, 1) != 2:
            begin = np.frombuffer(bytearray(write_struct(header)), np.uint8)
            assert is_by_prefixes(begin) == (column == "words by prefixes")
