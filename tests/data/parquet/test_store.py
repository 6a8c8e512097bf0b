"""Parquet files as a store, against pyarrow's own reading of the same files."""

import contextlib
import gc
import pickle
import subprocess
import sys
import textwrap
import threading

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hostile.parquet_file import (
    COLUMNS,
    DATA_AT,
    DICTIONARY_AT,
    FACTS,
    NBYTES,
    ROW_GROUPS,
    end_of_file,
)
from hostile.thrift import get, put, read_struct
from hypothesis import given
from hypothesis import strategies as st
from kernels_kit import as_python

from streamlearn.additive.basis.kernels import coordinates_rows
from streamlearn.data.files.listing import find_files
from streamlearn.data.open import open_dataset
from streamlearn.data.parquet import files as parquet_files
from streamlearn.data.parquet import footer as parquet_footer
from streamlearn.data.parquet.footer import page_nbytes
from streamlearn.data.parquet.footer_layout import DamagedFooter, read_layout
from streamlearn.errors import SourceError
from streamlearn.numeric.bases.bsplines import Coordinates, make_bases


def make_table(n=1000, seed=0):
    random = np.random.default_rng(seed)
    holes = random.random(n) < 0.2

    def some(values, kind):
        return pa.array(
            [None if h else v for h, v in zip(holes, values.tolist(), strict=True)], kind
        )

    return pa.table(
        {
            "f32": random.standard_normal(n).astype(np.float32),
            "f64": random.standard_normal(n),
            "f16": random.standard_normal(n).astype(np.float16),
            "u8": random.integers(0, 256, n).astype(np.uint8),
            "i16": random.integers(-9, 9, n).astype(np.int16),
            "i64": random.integers(-(2**53), 2**53, n),
            "flag": random.random(n) < 0.5,
            "holes": some(random.standard_normal(n), pa.float32()),
            "int_holes": some(random.integers(0, 50, n), pa.int8()),
            "flag_holes": some(random.random(n) < 0.5, pa.bool_()),
            "word": pa.array([f"w{i % 3}" for i in range(n)]),
            "word_holes": some(np.array([f"v{i % 5}" for i in range(n)]), pa.string()),
            "category": pa.array([f"c{i % 4}" for i in range(n)]).dictionary_encode(),
            "when": pa.array(np.arange(n), pa.timestamp("s")),
            "list": pa.array([[1, 2]] * n),
            "y": random.integers(0, 3, n).astype(np.int8),
        }
    )


NUMBERS = ["f32", "f64", "f16", "u8", "i16", "i64", "flag", "holes", "int_holes", "flag_holes"]


def as_floats(table, names):
    columns = [
        [np.nan if v is None else float(v) for v in table.column(name).to_pylist()]
        for name in names
    ]
    return np.array(columns).T


def read(dataset):
    """(X, y, rows) of all chunks."""
    parts = [(c.X.copy(), c.y, np.asarray(c.rows)) for c in dataset.iter_chunks()]
    X, y, rows = zip(*parts, strict=True)
    return np.concatenate(X), None if y[0] is None else np.concatenate(y), np.concatenate(rows)


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "a.parquet"
    pq.write_table(table, path, row_group_size=300, data_page_size=500, write_batch_size=50)
    return path


@pytest.fixture(params=[True, False], ids=["held", "streamed"], scope="module")
def both_ways(request):
    """Row groups read in slices: small ones are held decoded, large ones streamed by pages."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.param:
            patch.setattr(parquet_files, "_HELD", 0)
        yield


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("chunk_rows", [None, 1000, 300, 299, 128, 7])
def test_values_are_those_of_pyarrow(path, table, chunk_rows):
    data = open_dataset(path, target="y", features=NUMBERS[::-1], chunk_rows=chunk_rows)
    X, y, rows = read(data)
    assert X.dtype == np.float64
    np.testing.assert_array_equal(X, as_floats(table, NUMBERS[::-1]))
    np.testing.assert_array_equal(y, table["y"].to_numpy())
    assert y.dtype == np.int8
    np.testing.assert_array_equal(rows, np.arange(1000))


@pytest.mark.usefixtures("both_ways")
@given(st.lists(st.tuples(st.integers(0, 999), st.integers(1, 400)), min_size=1, max_size=8))
def test_runs_may_be_read_in_any_order(path, table, runs):
    names = ["i16", "holes", "flag"]
    store = open_dataset(path, features=names).store
    want = as_floats(table, names)
    reader = store.open(names, "y", "f64", np.dtype(np.float32))
    for start, length in runs:
        stop = min(start + length, 1000)
        chunk = reader.read(start, stop)
        assert chunk.X.flags.f_contiguous
        np.testing.assert_array_equal(chunk.X, want[start:stop].astype(np.float32))
        np.testing.assert_array_equal(chunk.y, table["y"].to_numpy()[start:stop])
        np.testing.assert_array_equal(chunk.weight, table["f64"].to_numpy()[start:stop])
        assert chunk.rows == range(start, stop)
    reader.close()


def test_small_types_stay_float32(path):
    data = open_dataset(path, features=["f32", "u8", "i16", "flag", "f16"])
    assert data.dtype == np.float32
    assert {c.X.dtype for c in data.iter_chunks()} == {np.dtype(np.float32)}


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("target", ["word", "word_holes", "category"])
@pytest.mark.parametrize("chunk_rows", [None, 77])
def test_targets_may_be_strings(path, table, target, chunk_rows):
    data = open_dataset(path, target=target, features=["f32"], chunk_rows=chunk_rows)
    _, y, _ = read(data)
    assert y.dtype == object
    assert y.tolist() == table[target].to_pylist()


def test_null_targets_are_nan(path, table):
    _, y, _ = read(open_dataset(path, target="int_holes", features=["f32"]))
    np.testing.assert_array_equal(y, as_floats(table, ["int_holes"])[:, 0])


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_encodings(tmp_path, table, compression, dictionary):
    names = ["f32", "u8", "holes"]
    pq.write_table(
        table.select(names),
        tmp_path / "a.parquet",
        compression=compression,
        use_dictionary=dictionary,
        data_page_version="2.0" if dictionary else "1.0",
        row_group_size=333,
    )
    for chunk_rows in (None, 50):
        X, _, _ = read(open_dataset(tmp_path / "a.parquet", chunk_rows=chunk_rows))
        np.testing.assert_array_equal(X, as_floats(table, names).astype(np.float32))


def test_only_the_columns_used_are_read(path):
    few = open_dataset(path, features=["u8"])
    both = open_dataset(path, features=["u8", "f64"])
    footer = pq.read_metadata(path)
    sizes = [
        sum(footer.row_group(g).column(j).total_compressed_size for g in range(4))
        for j in range(footer.num_columns)
        if footer.schema.column(j).name in ("u8", "f64")
    ]
    assert both.stored_nbytes == sum(sizes)
    assert 0 < few.stored_nbytes < both.stored_nbytes
    assert few.store.open(["u8"], None, None, np.dtype("f4"))._read == ["u8"]


def write_parts(folder, table, cuts):
    folder.mkdir(exist_ok=True)
    for i, (a, b) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
        pq.write_table(table.slice(a, b - a), folder / f"part.{i}.parquet")


def test_files_by_folder_glob_list(tmp_path, table):
    # part.10 comes after part.9; one file is empty; marks and drafts are left out
    cuts = [0, 100, 100, 150, 300, 301, 400, 500, 600, 700, 800, 1000]
    write_parts(tmp_path / "d", table.select(["f32", "y"]), cuts)
    (tmp_path / "d" / "_SUCCESS").touch()
    (tmp_path / "d" / ".part.3.parquet.draft").write_bytes(b"half")
    want = table["f32"].to_numpy()
    listed = [tmp_path / "d" / f"part.{i}.parquet" for i in range(11)]
    for source in (tmp_path / "d", str(tmp_path / "d" / "*.parquet"), listed):
        data = open_dataset(source, target="y")
        X, _, rows = read(data)
        np.testing.assert_array_equal(X[:, 0], want)
        np.testing.assert_array_equal(rows, np.arange(1000))
        assert len(data.refs()) == 1, "tiny files are read together"
    X, _, _ = read(open_dataset(listed[::-1][:2], target="y"))
    np.testing.assert_array_equal(X[:, 0], np.r_[want[800:], want[700:800]])


def test_fingerprint_is_of_content_not_of_place(tmp_path, table):
    small = table.select(["f32", "y"])
    prints = []
    for name in ("a", "b"):
        write_parts(tmp_path / name, small, [0, 400, 1000])
        prints.append(open_dataset(tmp_path / name, target="y").fingerprint())
    assert prints[0] == prints[1]
    write_parts(tmp_path / "b", small.slice(1), [0, 400, 999])
    assert open_dataset(tmp_path / "b", target="y").fingerprint() != prints[0]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("chunk_rows", [None, 128])
@pytest.mark.parametrize("names", [["f32", "u8", "flag_holes", "holes"], NUMBERS])
def test_columns_go_through_a_map_while_they_are_decoded(path, names, chunk_rows):
    """The same bits as mapping the chunk, for every type, with nulls, filters and hash shares."""
    data = open_dataset(
        path, target="y", features=names, chunk_rows=chunk_rows, filters=[("f32", ">", -1)]
    ).where_hash(0.0, 0.8, 3)
    knots = [np.linspace(-2, 2, 9)] * (len(names) - 1) + [np.zeros(1)]
    bases = make_bases(knots, [1] * len(names))
    X, y, rows = read(data)
    U, y_of_U, rows_of_U = read(pickle.loads(pickle.dumps(data.through(Coordinates(bases)))))
    assert U.dtype == np.float32
    np.testing.assert_array_equal(U, coordinates_rows(X, bases))
    np.testing.assert_array_equal(y_of_U, y)
    np.testing.assert_array_equal(rows_of_U, rows)
    assert data.converts
    assert not data.map(np.abs).converts


def test_hive_folders_are_columns(tmp_path, table):
    small = table.select(["f32"]).slice(0, 30)
    for i, (year, land) in enumerate([("2023", "de"), ("2024", "de"), ("2024", "a%2Fb")]):
        folder = tmp_path / f"year={year}" / f"land={land}"
        folder.mkdir(parents=True)
        pq.write_table(small.slice(10 * i, 10), folder / "x.parquet")
    data = open_dataset(tmp_path, target="land", features=["year", "f32"])
    assert data.dtype == np.float32
    X, y, _ = read(data)
    bases = make_bases([np.linspace(2000, 2040, 5)] * 2, [1, 1])
    U, _, _ = read(data.through(Coordinates(bases)))
    np.testing.assert_array_equal(U, coordinates_rows(X, bases))
    f32, year, land = X[:, 1], X[:, 0], y.tolist()
    np.testing.assert_array_equal(np.sort(f32), np.sort(small["f32"].to_numpy()))
    assert sorted(zip(year.tolist(), land, strict=True))[::10] == [
        (2023, "de"),
        (2024, "a/b"),
        (2024, "de"),
    ]
    coded = open_dataset(tmp_path, features=["land", "f32"]).with_levels({"land": ["de"]})
    codes, _, _ = read(coded)
    np.testing.assert_array_equal(np.isnan(codes[:, 0]), np.array(land) != "de")
    as_target = open_dataset(
        tmp_path, target="year", features=["f32"], filters=[("year", ">", 2023)]
    )
    _, y, rows = read(as_target)
    assert y.tolist() == [2024] * 20
    assert rows.tolist() == list(range(10, 30))
    (tmp_path / "year=2023" / "stray.parquet").write_bytes(
        (tmp_path / "year=2023" / "land=de" / "x.parquet").read_bytes()
    )
    with pytest.raises(SourceError, match=r"stray.parquet does not lie in a folder land="):
        open_dataset(tmp_path)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    "filters",
    [
        [("u8", ">", 100), ("f32", "<", 0)],
        [[("u8", ">", 250)], [("word", "in", ["w1"])]],
        (pc.field("holes") > 0) & (pc.field("category") == "c1"),
        pc.field("i64") > 2**60,
    ],
    ids=["and", "or", "expression", "none left"],
)
@pytest.mark.parametrize("chunk_rows", [None, 70])
def test_filters_keep_the_rows_pyarrow_keeps(path, table, filters, chunk_rows):
    expression = (
        filters if isinstance(filters, pc.Expression) else pq.filters_to_expression(filters)
    )
    numbered = table.append_column("row", pa.array(np.arange(1000)))
    want = numbered.filter(expression)["row"].to_numpy()
    data = open_dataset(
        path, target="y", features=["f32", "u8"], filters=filters, chunk_rows=chunk_rows
    )
    assert data.n_rows is None
    assert data.n_physical_rows == 1000
    if not len(want):
        assert len(data.refs()) == 0
        return
    X, y, rows = read(pickle.loads(pickle.dumps(data)))
    np.testing.assert_array_equal(rows, want)
    np.testing.assert_array_equal(X, as_floats(table.take(want), ["f32", "u8"]))
    np.testing.assert_array_equal(y, table["y"].to_numpy()[want])
    half = data.where_hash(0.0, 0.5, 1)
    assert set(read(half)[2]) < set(want)
    with pytest.raises(SourceError, match="take a share"):
        data.take(10)


def test_row_groups_ruled_out_by_statistics_are_not_read(tmp_path):
    pq.write_table(
        pa.table({"x": np.arange(100), "y": np.zeros(100)}),
        tmp_path / "a.parquet",
        row_group_size=10,
    )
    data = open_dataset(
        tmp_path / "a.parquet", target="y", filters=[("x", ">=", 42), ("x", "<", 68)]
    )
    assert [(ref.start, ref.stop) for ref in data.refs()] == [(40, 70)]
    np.testing.assert_array_equal(read(data)[2], np.arange(42, 68))
    everything = open_dataset(tmp_path / "a.parquet", target="y")
    assert data.stored_nbytes < 0.4 * everything.stored_nbytes


def test_filters_on_what_is_not_there(path):
    with pytest.raises(SourceError, match="nothing.*cannot be used on the columns f32, f64"):
        open_dataset(path, features=["f32"], filters=[("nothing", ">", 3)])
    with pytest.raises(SourceError, match="cannot be used"):
        open_dataset(path, features=["f32"], filters=[("word", ">", 3)])


@pytest.mark.usefixtures("both_ways")
def test_urls(path, table):
    memory = fsspec.filesystem("memory")
    for i in range(2):
        memory.pipe(f"/bucket/d/p{i}.parquet", path.read_bytes())
    want = np.tile(table["f32"].to_numpy(), 2)
    for url in ("memory://bucket/d", "memory://bucket/d/*.parquet"):
        for chunk_rows in (None, 90):
            data = open_dataset(url, target="y", features=["f32"], chunk_rows=chunk_rows)
            np.testing.assert_array_equal(read(pickle.loads(pickle.dumps(data)))[0][:, 0], want)
    filtered = open_dataset("memory://bucket/d", features=["f32"], filters=[("f32", ">", 0)])
    np.testing.assert_array_equal(read(filtered)[0][:, 0], want[want > 0])
    with pytest.raises(SourceError, match="no such path: 'memory://bucket/e'"):
        open_dataset("memory://bucket/e")
    with pytest.raises(SourceError, match="Protocol not known: nosuch"):
        open_dataset("nosuch://bucket/e.parquet")


def test_pickled_stores_are_small_and_complete(tmp_path, table):
    write_parts(tmp_path / "d", table.select(["f32", "y"]), list(range(0, 1001, 20)))
    data = open_dataset(tmp_path / "d", target="y")
    sent = pickle.dumps(data)
    assert len(sent) < 20_000
    again = pickle.loads(sent)
    np.testing.assert_array_equal(read(again)[0], read(data)[0])
    assert again.fingerprint() == data.fingerprint()


def test_threads_share_a_store(path, table):
    data = open_dataset(path, features=["f32", "i16"], chunk_rows=100)
    found = [None] * 4

    def work(i):
        found[i] = read(data)[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for X in found:
        np.testing.assert_array_equal(X, as_floats(table, ["f32", "i16"]))


@pytest.mark.usefixtures("both_ways")
def test_columns_whose_names_have_dots(tmp_path):
    x = np.arange(10.0)
    pq.write_table(pa.table({"a.b": x, "a": 2 * x, "c d": 3 * x}), tmp_path / "a.parquet")
    for chunk_rows in (None, 3):
        X, _, _ = read(open_dataset(tmp_path / "a.parquet", chunk_rows=chunk_rows))
        np.testing.assert_array_equal(X, np.column_stack([x, 2 * x, 3 * x]))


# Bad input.


def test_columns_that_are_not_numbers_are_named(path):
    with pytest.raises(SourceError, match=r"'list' \(nested\).*features=.*one column for each"):
        open_dataset(path, features=["f32", "when", "list"])
    with pytest.raises(SourceError, match=r"'word', 'category' hold strings.*with_levels"):
        read(open_dataset(path, features=["f32", "word", "category"]))
    with pytest.raises(SourceError, match="no column 'nothing'"):
        open_dataset(path, features=["nothing"])
    with pytest.raises(SourceError, match="no target column 'nothing'"):
        open_dataset(path, target="nothing", features=["f32"])


def test_no_files_no_rows(tmp_path, table):
    with pytest.raises(SourceError, match="no such path"):
        open_dataset(tmp_path / "no.parquet")
    with pytest.raises(SourceError, match="no file matches the glob"):
        open_dataset(str(tmp_path / "*.parquet"))
    with pytest.raises(SourceError, match="no file ending in .parquet"):
        open_dataset(tmp_path)
    with pytest.raises(SourceError, match="empty list"):
        find_files([])
    pq.write_table(table.slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"no rows in '.*a.parquet'"):
        open_dataset(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="named twice.*a.parquet"):
        open_dataset([tmp_path / "a.parquet"] * 2)


def test_files_that_differ(tmp_path):
    x = np.arange(5.0)
    (tmp_path / "d").mkdir()
    pq.write_table(pa.table({"a": x, "b": x, "y": x}), tmp_path / "d" / "1.parquet")
    pq.write_table(pa.table({"y": x, "b": x.astype("f4"), "a": x}), tmp_path / "d" / "2.parquet")
    pq.write_table(pa.table({"a": ["u"], "b": ["v"]}).slice(0, 0), tmp_path / "d" / "3.parquet")
    with pytest.raises(
        SourceError, match="different schemas: column 'b' is float in 2.parquet and double in 1."
    ):
        open_dataset(tmp_path / "d", target="y")
    X, _, _ = read(open_dataset(tmp_path / "d", target="y", features=["a"]))
    np.testing.assert_array_equal(X[:, 0], np.r_[x, x])
    pq.write_table(pa.table({"a": x, "c": x}), tmp_path / "d" / "2.parquet")
    with pytest.raises(SourceError, match="column 'y' is missing in 2.parquet"):
        open_dataset(tmp_path / "d", target="y", features=["a"])
    with pytest.raises(SourceError, match="column 'c' is double in 2.parquet and missing in 1."):
        open_dataset(tmp_path / "d", features=["c"])


def test_doubled_column_names(tmp_path):
    column = pa.array([1.0, 2.0])
    pq.write_table(pa.Table.from_arrays([column] * 3, ["a", "b", "a"]), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="a.parquet has several columns named a;"):
        open_dataset(tmp_path / "a.parquet")


def test_truncated_files_are_named(tmp_path, path):
    whole = path.read_bytes()
    for length in (0, 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.parquet").write_bytes(whole[:length])
        with pytest.raises(SourceError, match="cut.parquet is not a whole parquet file"):
            open_dataset([path, tmp_path / "cut.parquet"], features=["f32"])


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("chunk_rows", [None, 100])
def test_damage_found_while_reading_is_placed(tmp_path, table, chunk_rows):
    file = tmp_path / "hurt.parquet"
    pq.write_table(table.select(["f32", "f64"]), file, row_group_size=250, use_dictionary=False)
    column = pq.read_metadata(file).row_group(2).column(1)
    content = bytearray(file.read_bytes())
    at = column.data_page_offset
    content[at : at + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    file.write_bytes(content)
    data = open_dataset(file, chunk_rows=chunk_rows or 250)
    reader, refs = data.reader(), data.refs()
    good = [ref for ref in refs if ref.stop <= 500]
    for ref in good:
        reader.read(ref)
    with pytest.raises(
        SourceError, match=r"hurt.parquet, row group 2, rows 0\.\..*damaged"
    ) as info:
        reader.read(refs[len(good)])
    assert info.value.__cause__ is not None
    file.unlink()
    with pytest.raises(SourceError, match="cannot be reached"):
        next(data.iter_chunks())


def test_whole_numbers_beyond_float64_are_refused(tmp_path):
    x = np.arange(100)
    x[57] = 2**53 + 1
    for kind in ("int64", "uint64"):
        pq.write_table(pa.table({"id": x.astype(kind)}), tmp_path / "a.parquet", row_group_size=40)
        data = open_dataset(tmp_path / "a.parquet")
        with pytest.raises(
            SourceError, match=rf"'id' holds 9007199254740993 \({kind}\).*row group 1, rows 17..18"
        ):
            read(data)
        assert (
            read(open_dataset(tmp_path / "a.parquet", filters=[("id", "<", 40)]))[0].shape[0] == 40
        )


def test_place_names_files_groups_and_rows(tmp_path, table):
    write_parts(tmp_path / "d", table.select(["f32"]), [0, 400, 1000])
    store = open_dataset(tmp_path / "d").store
    assert store.place(10, 20) == "part.0.parquet, row group 0, rows 10..20"
    assert store.place(390, 410) == (
        "part.0.parquet, row group 0, rows 390..400 to part.1.parquet, row group 0, rows 0..10"
    )


# Large footers.


def write_groups(path, n_groups, **options):
    rng = np.random.default_rng(1)
    names = ["a column", "\u00e9", "flag"]
    columns = [rng.random(4 * n_groups), rng.integers(0, 9, 4 * n_groups)]
    columns.append(rng.random(4 * n_groups) < 0.5)
    table = pa.table(columns, names=names).replace_schema_metadata({"k": "v" * 300})
    pq.write_table(table, path, row_group_size=4, **options)
    return table


@pytest.mark.parametrize("n_groups", [2, 14, 15, 16, 300])
@pytest.mark.parametrize("options", [{}, {"write_statistics": False}, {"version": "1.0"}])
def test_a_large_footer_is_parsed_in_blocks(tmp_path, monkeypatch, n_groups, options):
    table = write_groups(tmp_path / "a.parquet", n_groups, **options)
    whole = open_dataset(tmp_path / "a.parquet", features=table.column_names)
    monkeypatch.setattr(parquet_footer, "_WHOLE", 0)
    monkeypatch.setattr(parquet_footer, "_BLOCK", 4000)
    data = open_dataset(tmp_path / "a.parquet", features=table.column_names)
    footers = data.store.footers
    assert data.fingerprint() == whole.fingerprint()
    assert data.stored_nbytes == whole.stored_nbytes
    assert footers.block(0, n_groups - 1)[0] >= n_groups // 60
    known = pq.read_metadata(tmp_path / "a.parquet")
    for g in range(n_groups):
        block, index = footers.block(0, g)
        assert_facts(footers.parsed(0, block).layout, index, known.row_group(g))
    X, _, _ = read(pickle.loads(pickle.dumps(data)))
    np.testing.assert_array_equal(X, as_floats(table, table.column_names))
    assert data.shared_nbytes <= whole.shared_nbytes


def assert_facts(layout, index, known):
    """The library says the same of a row group."""
    assert layout.rows[index] == known.num_rows
    for j in range(known.num_columns):
        column = known.column(j)
        physical = ["BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY"]
        codecs = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
        encodings = {"PLAIN": 0, "PLAIN_DICTIONARY": 2, "RLE": 3, "RLE_DICTIONARY": 8}
        assert layout.facts[index, j].tolist() == [
            physical.index(column.physical_type),
            codecs[column.compression],
            column.num_values,
            column.total_uncompressed_size,
            column.total_compressed_size,
            column.data_page_offset,
            column.dictionary_page_offset or 0,
            sum({1 << encodings[name] for name in column.encodings}),
            -1 if column.statistics is None else column.statistics.null_count,
        ]


@pytest.mark.parametrize("codec", ["none", "gzip", "brotli", "zstd"])
def test_a_footer_says_what_the_library_says_of_nested_columns_too(tmp_path, codec):
    table = pa.table(
        {
            "a": pa.array([1, 2, 3, None]),
            "pair": pa.array([{"x": 1.0, "y": "p"}] * 4),
            "list": pa.array([[1, 2], [], None, [3]]),
            "words": pa.array(["a", "b", "a", None]).dictionary_encode(),
            "deep": pa.array([[{"k": [1.5]}]] * 4),
            "b": pa.array([True, False, True, True]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", compression=codec, row_group_size=3)
    footers = open_dataset(tmp_path / "a.parquet", features=["a", "b"]).store.footers
    known, layout = pq.read_metadata(tmp_path / "a.parquet"), footers.parsed(0).layout
    assert layout.column_of.tolist() == [0, 1, 1, 2, 3, 4, 5]
    assert [layout.leaf_of(j) for j in range(6)] == [0, None, None, 4, None, 6]
    for g in range(2):
        assert_facts(layout, g, known.row_group(g))


@given(st.integers(0, 90), st.binary(min_size=1, max_size=9))
def test_a_damaged_footer_is_refused_or_read_alike(tmp_path_factory, at, junk):
    """A layout, or an error: compiled and as Python, without an access out of bounds."""
    path = tmp_path_factory.mktemp("data") / "a.parquet"
    write_groups(path, 3)
    content = path.read_bytes()
    nbytes = int.from_bytes(content[-8:-4], "little")
    footer = bytearray(content[-8 - nbytes : -8])
    footer[at * 7 : at * 7 + len(junk)] = junk
    answers = []
    for kind in (contextlib.nullcontext, as_python):
        with kind():
            try:
                layout = read_layout(bytes(footer))
            except DamagedFooter as error:
                answers.append(str(error))
            else:
                assert layout.starts[-1] <= len(footer)
                answers.append([np.asarray(part).tolist() for part in layout])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("by", [1, 2**30])
def test_a_column_that_reaches_beyond_the_data_is_refused_at_once(tmp_path, by):
    """As the library refuses it, which sees it at the first read alone."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(50.0), "y": np.arange(50.0)}), path)
    raw = path.read_bytes()
    n = int.from_bytes(raw[-8:-4], "little")
    tree, _ = read_struct(raw[-8 - n : -8])
    last = get(get(get(tree, ROW_GROUPS)[1][-1], COLUMNS)[1][-1], FACTS)
    kind, nbytes = next(field[1:] for field in last if field[0] == NBYTES)
    begins = get(last, DICTIONARY_AT) or get(last, DATA_AT)
    put(last, NBYTES, kind, len(raw) - 8 - n - begins + by)
    assert get(last, NBYTES) > nbytes
    path.write_bytes(raw[: -8 - n] + end_of_file(tree))
    with pytest.raises(
        SourceError, match="not a whole parquet file .a column in it reaches beyond"
    ):
        open_dataset(path)


# Memory.


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("group_rows", [2_000, 20_000])
def test_arrow_holds_little_beside_the_chunk(tmp_path, group_rows):
    x = np.random.default_rng(0).standard_normal((20_000, 40)).astype(np.float32)
    columns = pa.table({f"x{j}": x[:, j].copy() for j in range(40)})
    pq.write_table(columns, tmp_path / "a.parquet", row_group_size=group_rows, use_dictionary=False)
    del columns
    data = open_dataset(tmp_path / "a.parquet", chunk_rows=2_000)
    gc.collect()  # what other tests left is not counted
    before, most = pa.total_allocated_bytes(), 0
    for chunk in data.iter_chunks():
        most = max(most, pa.total_allocated_bytes() - before)
        assert chunk.n_rows == 2_000
    assert most < (1 << 16 if group_rows == 2_000 else data.overhead_nbytes)
    assert pa.total_allocated_bytes() == before


def test_page_sizes_are_read_from_page_headers(tmp_path):
    x = np.arange(50_000, dtype=np.float64)
    # a page ends by its bytes: the rows of one are no option of pyarrow 17
    for rows, dictionary, size in (
        (1_000, False, 8_000),
        (20_000, False, 160_000),
        (5_000, True, 4_375),
    ):
        pq.write_table(
            pa.table({"x": x % 100}),
            tmp_path / "a.parquet",
            compression="zstd",
            use_dictionary=dictionary,
            write_batch_size=100,
            data_page_size=size,
        )
        store = open_dataset(tmp_path / "a.parquet").store
        got = page_nbytes(store.footers, 0, 0, ["x"])
        if dictionary:  # 100 values twice, 7-bit codes
            assert 2 * 8 * 100 < got < 2 * 8 * 100 + 2 * rows
        else:
            assert 8 * rows <= got <= 8 * rows + 100


@pytest.mark.slow
@pytest.mark.parametrize("group_rows", [32_768, 500_000])
def test_peak_stays_below_what_is_promised(tmp_path, group_rows):
    random = np.random.default_rng(0)
    names = {f"x{j}": random.standard_normal(500_000).astype(np.float32) for j in range(50)}
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(names), file, row_group_size=group_rows, use_dictionary=False)
    small = tmp_path / "small.parquet"  # with booleans, so that Arrow decodes too
    pq.write_table(pa.table(names | {"k": np.arange(500_000) % 2 == 0}).slice(0, 10), small)
    code = f"""
    import numpy as np, pyarrow.parquet as pq
    from streamlearn.data.open import open_dataset
    import streamlearn.data.parquet.store, fsspec.implementations.local

    def status(key):
        with open("/proc/self/status") as lines:
            return next(int(l.split()[1]) * 1024 for l in lines if l.startswith(key))

    for _ in open_dataset({str(small)!r}).iter_chunks():
        pass  # the baseline is taken with the libraries loaded
    before = status("VmRSS")
    data = open_dataset({str(file)!r}).with_slice_rows(32_768)
    for chunk in data.iter_chunks():
        pass
    promised = data.overhead_nbytes + data.shared_nbytes + data.refs()[0].nbytes
    print(status("VmHWM") - before, promised)
    import sys
    assert "pandas" not in sys.modules
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    peak, promised = map(int, run.stdout.split())
    assert peak <= promised
    assert promised < 2.5 * peak
