"""Slices of a large row group, read by the pages that hold them, against the library's own read."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamlearn as sl
from streamlearn.data.parquet.footer import Footers
from streamlearn.data.parquet.pages.excerpt import NotUnderstood, decode_run, find_pages, read_run

ROWS = 30_000
WRITINGS = {
    "snappy": {},
    "zstd": {"compression": "zstd"},
    "gzip, second version of pages": {"data_page_version": "2.0", "compression": "gzip"},
    "plain": {"compression": "none", "use_dictionary": False},
    "short pages": {"compression": "lz4", "data_page_size": 3_000},
    "brotli": {"compression": "brotli"},
    "page index": {"write_page_index": True},
    "other encodings": {
        "use_dictionary": ["dictionary"],
        "column_encoding": {"float": "BYTE_STREAM_SPLIT", "distinct": "DELTA_BYTE_ARRAY"},
    },
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "float": rng.random(ROWS),
            "list": pa.array([[1, 2]] * ROWS),
            "pair": pa.array([{"a": 1, "b": 2.0}] * ROWS),
            "null": pa.array(rng.integers(0, 50, ROWS), mask=rng.random(ROWS) < 0.1),
            "words": [f"w{k}" for k in rng.integers(0, 900, ROWS)],
            "bool": rng.random(ROWS) < 0.5,
            "distinct": [f"x{k}" + "é" * (k % 9) for k in range(ROWS)],
            "short": rng.integers(0, 200, ROWS).astype(np.uint8),
            "dictionary": pa.array(["q", "r"] * (ROWS // 2)).dictionary_encode(),
        }
    )


def write(path, table, **how):
    pq.write_table(table, path, row_group_size=table.num_rows, **{"data_page_size": 20_000, **how})
    content = path.read_bytes()
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


@pytest.mark.parametrize("how", WRITINGS)
def test_the_pages_of_a_run_hold_the_values_that_the_library_reads(tmp_path, table, how):
    path = tmp_path / "a.parquet"
    write(path, table, **WRITINGS[how])
    layout = Footers(None, [str(path)], ["a"]).parsed(0).layout
    flat = [name for name in table.column_names if name not in ("list", "pair")]
    file = os.open(path, os.O_RDONLY)
    try:
        for name in flat:
            leaf = layout.leaf_of(table.column_names.index(name))
            pages = find_pages(file, layout, 0, name, leaf)
            assert pages.rows[-1] == ROWS
            for start, stop in ((0, ROWS), (10_001, 15_005), (ROWS - 3, ROWS)):
                first, last = pages.run(start, stop)
                assert pages.rows[first] <= start
                assert stop <= pages.rows[last]
                assert first == last - 1 or pages.rows[first + 1] > start
                got = decode_run(read_run(file, pages, first, last), pages, first, last)
                got = pa.chunked_array(got).slice(start - int(pages.rows[first]), stop - start)
                assert got.to_pylist() == table.column(name).slice(start, stop - start).to_pylist()
    finally:
        os.close(file)


def test_nested_columns_and_pages_that_are_short_of_rows_are_left_to_the_library(tmp_path, table):
    path = tmp_path / "a.parquet"
    write(path, table)
    footers = Footers(None, [str(path)], ["a"])
    assert list(footers.pages(0, 0, ["float", "words"])) == ["float", "words"]
    assert footers.pages(0, 0, ["float", "list"]) is None
    assert footers.pages(0, 0, ["pair"]) is None
    layout = footers.parsed(0).layout
    longer = layout._replace(rows=layout.rows + 1)
    with open(path, "rb") as file, pytest.raises(NotUnderstood, match="30000 of .* 30001 rows"):
        find_pages(file.fileno(), longer, 0, "float", 0)


@pytest.mark.parametrize("how", WRITINGS)
def test_slices_of_a_row_group_are_the_rows_of_the_file(tmp_path, how):
    rng = np.random.default_rng(1)
    X = rng.random((70_000, 3)).astype(np.float32)
    missing = rng.random(len(X)) < 0.1
    numbers = pa.array(np.arange(len(X)), mask=missing)
    table = pa.table({"float": X[:, 0], "b": X[:, 1], "c": X[:, 2], "null": numbers})
    options = {k: v for k, v in WRITINGS[how].items() if k not in ("use_dictionary",)}
    options.pop("column_encoding", None)
    path = tmp_path / "a.parquet"
    write(path, table, **options)
    data = sl.open_dataset(str(path), chunk_rows=32_768)
    expected = np.column_stack([X, np.where(missing, np.nan, np.arange(len(X)))])
    refs = data.refs()
    with data.reader() as reader:
        for ref in [refs[1], refs[0], refs[2]]:  # in any order: nothing is decoded and dropped
            np.testing.assert_array_equal(reader.read(ref).X, expected[ref.start : ref.stop])


def test_what_a_slice_needs_does_not_grow_with_the_columns_or_the_row_group(tmp_path):
    def overhead(n_rows, n_columns):
        path = tmp_path / f"{n_rows}-{n_columns}.parquet"
        x = np.random.default_rng(2).random(n_rows, dtype=np.float32)
        table = pa.table({f"x{j}": x for j in range(n_columns)})
        pages = {"use_dictionary": False, "data_page_size": 1 << 16, "write_batch_size": 1024}
        pq.write_table(table, path, row_group_size=n_rows, **pages)  # alike by every pyarrow
        data = sl.open_dataset(str(path), chunk_rows=65_536)
        return data.store.overhead_nbytes(data.columns, 65_536)

    small = overhead(300_000, 2)
    assert overhead(300_000, 12) == small
    assert overhead(900_000, 2) <= small + (1 << 20)  # the pages of a longer group lie otherwise


def test_a_page_that_is_damaged_is_told_by_its_place(tmp_path):
    path = tmp_path / "a.parquet"
    x = np.floor(9 * np.random.default_rng(3).random(200_000))
    write(path, pa.table({"x": x}), compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 1000] = bytes(1000)
    path.write_bytes(bytes(content))
    data = sl.open_dataset(str(path), chunk_rows=65_536)
    with pytest.raises(sl.SourceError, match=r"a.parquet, row group 0, rows .* damaged"):
        list(data.iter_chunks())


def test_words_whose_dictionary_is_full_are_read_by_pages_of_both_kinds(tmp_path):
    """A writer whose dictionary is full writes the words themselves from there on."""
    n = 50_000
    words = [None if k % 7 == 3 else f"w{k % 20_000 if k < 5_000 else k}" for k in range(n)]
    words[-9_000:] = ["w5", None, "w49"] * 3_000
    path = tmp_path / "a.parquet"
    table = pa.table({"x": np.arange(n, dtype=np.float32), "word": words})
    write(path, table, dictionary_pagesize_limit=40_000, write_batch_size=512)
    layout = Footers(None, [str(path)], ["a"]).parsed(0).layout
    with open(path, "rb") as file:
        pages = find_pages(file.fileno(), layout, 0, "word", 1)
    runs = pages.alike(0, len(pages.rows) - 1)
    assert [run[2] for run in runs[:2]] == [True, False]
    assert [run[0] for run in runs] == [0, *(run[1] for run in runs[:-1])]
    assert runs[-1][1] == len(pages.rows) - 1
    levels = ["w49", "w7", "w31000", "w5", "nowhere"]
    expected = np.array([levels.index(w) if w in levels else np.nan for w in words], np.float32)
    data = sl.open_dataset(str(path), chunk_rows=32_768, target=None)
    coded = data.with_levels({"word": levels})
    with data.column("word").reader() as column, coded.reader() as codes:
        for ref in list(data.refs())[::-1]:
            assert column.read(ref).y.tolist() == words[ref.start : ref.stop]
            X = codes.read(ref).X
            np.testing.assert_array_equal(X[:, 1], expected[ref.start : ref.stop])
    some = sl.open_dataset(str(path), chunk_rows=32_768, filters=[("word", "in", ["w49", "w7"])])
    assert rows_of(some) == [k for k in range(n) if words[k] in ("w49", "w7")]


def rows_of(data):
    return np.concatenate([c.X[:, 0].copy() for c in data.select(["x"]).iter_chunks()]).tolist()


def test_bytes_and_numbers_whose_dictionary_is_full_are_filtered_by(tmp_path):
    n = 50_000
    numbers = np.arange(n) % 30_000
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "x": np.arange(n, dtype=np.float32),
            "number": numbers,
            "raw": [b"r%d" % k for k in numbers.tolist()],
        }
    )
    write(path, table, dictionary_pagesize_limit=40_000, write_batch_size=512)
    for name, value in (("number", 29_999), ("raw", b"r29999"), ("number", 3), ("raw", b"r3")):
        some = sl.open_dataset(
            str(path), chunk_rows=32_768, filters=[(name, "=", value)], features=["x"], target=None
        )
        assert rows_of(some) == np.flatnonzero(numbers == int(str(value).strip("br'"))).tolist()
