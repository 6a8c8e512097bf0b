"""Columns that a footer says are decoded from their pages: exactly those that are."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamlearn as sl
from streamlearn.data.parquet.store import open_parquet

N = 5_000
RNG = np.random.default_rng(0)
VALUES = RNG.integers(0, 50, N)
HOLES = RNG.random(N) < 0.1
COLUMNS = {
    "float32": pa.array(RNG.random(N, dtype=np.float32)),
    "float64": pa.array(RNG.random(N)),
    "few": pa.array(VALUES.astype(np.float32)),
    "int8": pa.array(VALUES.astype(np.int8)),
    "int64": pa.array(VALUES),
    "holes": pa.array(RNG.random(N, dtype=np.float32), mask=HOLES),
    "nan": pa.array(np.where(HOLES, np.float32("nan"), RNG.random(N, dtype=np.float32))),
    "bool": pa.array(VALUES > 20),
    "words": pa.array(VALUES.astype(str)),
    "time": pa.array(VALUES, pa.timestamp("us")),
}
NUMBERS = {"float32", "float64", "few", "int8", "int64", "nan"}
WRITERS = {
    "as usual": ({}, NUMBERS),
    "plain": ({"use_dictionary": False}, NUMBERS),
    "not packed": ({"compression": "none"}, NUMBERS),
    "zstd": ({"compression": "zstd"}, set()),
    "second version of pages": ({"data_page_version": "2.0"}, set()),
    "bytes apart": (
        {"use_dictionary": False, "column_encoding": {"float32": "BYTE_STREAM_SPLIT"}},
        NUMBERS - {"float32"},
    ),
    "no statistics": ({"write_statistics": False}, set()),
}
"""Options of a writer, and which columns are known by what it writes."""


def read_by_pages(store, names):
    """The columns that a reader's pages give, none of them by the library."""
    reader = store.open([], names[0], None, np.dtype(np.float64))
    reader._open(0, 0, streamed=False)
    facts = reader._footer.layout, 0
    found = {name for name in names if reader._pages.read(*facts, [name], lasting=True)}
    reader.close()
    return found


@pytest.mark.parametrize("writer", WRITERS)
def test_the_columns_known_are_those_read_by_pages(writer, tmp_path):
    options, known = WRITERS[writer]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(COLUMNS), path, **options)
    store = open_parquet(path)
    assert store._known == known
    if writer != "no statistics":  # then who reads the nulls alone knows them
        assert read_by_pages(store, list(COLUMNS)) == known


def test_a_column_that_cannot_be_null_needs_no_statistics(tmp_path):
    path = tmp_path / "a.parquet"
    schema = pa.schema([pa.field("x", pa.float32(), nullable=False)])
    table = pa.table([COLUMNS["float32"]], schema=schema)
    pq.write_table(table, path, write_statistics=False)
    assert open_parquet(path)._known == {"x"}


def test_one_file_with_nulls_is_enough(tmp_path):
    for name, column in (("a", "nan"), ("b", "holes")):
        pq.write_table(pa.table({"x": COLUMNS[column]}), tmp_path / f"{name}.parquet")
    paths = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    assert open_parquet(paths)._known == frozenset()
    assert open_parquet(paths[:1])._known == {"x"}


def test_the_target_is_counted_as_the_columns_are(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: COLUMNS[name] for name in ("float32", "int8", "words")}), path)
    bare, number, words = (
        sl.open_dataset(path, features=["float32"], target=target).overhead_nbytes
        for target in (None, "int8", "words")
    )
    assert bare <= number < words
