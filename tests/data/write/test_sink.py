"""Parts written by many tasks in any order, published whole or not at all."""

import json
import os
import pickle

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from streamlearn.data.open import open_dataset
from streamlearn.data.write.sink import open_sink
from streamlearn.errors import SourceError

COLUMNS = [("prediction", "float64"), ("label", "string")]


def part(start, stop):
    rows = np.arange(start, stop)
    return {"prediction": rows / 8, "label": np.array([f"c{r % 3}" for r in rows], object)}


def left_behind(folder):
    return sorted(p.name for p in folder.iterdir())


def test_parts_are_in_row_order_whoever_wrote_them_first(tmp_path):
    path = tmp_path / "scores.parquet"
    sink = open_sink(path, columns=COLUMNS, format="parquet", reads=())
    for lane, k, start, stop in [(2, 0, 70, 100), (0, 1, 20, 30), (0, 0, 0, 20), (1, 0, 30, 70)]:
        pickle.loads(pickle.dumps(sink)).write(lane, k, part(start, stop))
    sink.write(1, 0, part(30, 70))  # a task that was run twice
    assert not path.exists()
    sink.commit(100)
    assert left_behind(tmp_path) == ["scores.parquet"]
    names = left_behind(path)
    assert names[0] == "_SUCCESS"
    table = pa.concat_tables([pq.read_table(path / name) for name in names[1:]])
    assert table["prediction"].to_pylist() == (np.arange(100) / 8).tolist()
    assert table["label"].to_pylist() == [f"c{r % 3}" for r in range(100)]
    assert open_dataset(path, target="label").n_rows == 100


def test_abort_leaves_nothing(tmp_path):
    sink = open_sink(tmp_path / "a", columns=COLUMNS, format="parquet", reads=())
    sink.write(0, 0, part(0, 5))
    sink.abort()
    sink.abort()
    assert left_behind(tmp_path) == []


def test_a_lost_part_is_not_published(tmp_path):
    for format, columns in (("parquet", COLUMNS), ("zarr", COLUMNS[:1])):
        sink = open_sink(tmp_path / "a", columns=columns, format=format, reads=())
        sink.write(0, 0, {name: part(0, 5)[name] for name, _ in columns})
        with pytest.raises(SourceError, match="5 rows were written, expected 7"):
            sink.commit(7)
        sink.abort()
    assert left_behind(tmp_path) == []


def test_existing_targets_are_refused_unless_overwritten(tmp_path):
    path = tmp_path / "a"
    first = open_sink(path, columns=COLUMNS, format="parquet", reads=())
    first.write(0, 0, part(0, 7))
    first.commit(7)
    with pytest.raises(FileExistsError, match="exists already; pass overwrite=True"):
        open_sink(path, columns=COLUMNS, format="parquet", reads=())
    sink = open_sink(path, columns=COLUMNS, format="parquet", reads=(), overwrite=True)
    sink.write(0, 0, part(0, 5))
    assert pq.read_table(path).num_rows == 7
    sink.commit(5)
    assert pq.read_table(path).num_rows == 5
    assert left_behind(path) == ["_SUCCESS", "part-0000000000-000000.parquet"]
    late = open_sink(tmp_path / "b", columns=COLUMNS, format="parquet", reads=())
    late.write(0, 0, part(0, 5))
    (tmp_path / "b").mkdir()
    with pytest.raises(FileExistsError, match="was made while"):
        late.commit(5)
    late.abort()
    assert left_behind(tmp_path) == ["a", "b"]


def test_no_permission_is_said(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.raises(PermissionError, match="cannot write .*a.parquet.*choose a folder"):
        open_sink(tmp_path / "a.parquet", columns=COLUMNS, format="parquet", reads=())


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot write .*choose a folder"):
        open_sink(tmp_path / "file" / "a", columns=COLUMNS, format="parquet", reads=())


def test_bad_columns_are_named(tmp_path):
    with pytest.raises(SourceError, match="named twice"):
        open_sink(tmp_path / "a", columns=[("x", "f4")] * 2, format="parquet", reads=())
    with pytest.raises(SourceError, match="'label' are strings; write parquet"):
        open_sink(tmp_path / "a", columns=COLUMNS, format="zarr", reads=())
    with pytest.raises(ValueError, match="format='csv'"):
        open_sink(tmp_path / "a", columns=COLUMNS, format="csv", reads=())
    sink = open_sink(tmp_path / "a", columns=COLUMNS, format="parquet", reads=())
    with pytest.raises(ValueError, match="'label'.*not those"):
        sink.write(0, 0, {"prediction": np.zeros(2)})
    with pytest.raises(ValueError, match=r"\[2, 3\] rows in one part"):
        sink.write(0, 0, {"prediction": np.zeros(2), "label": np.array(["a"] * 3)})
    sink.abort()


def test_types_and_missing_values(tmp_path):
    kinds = ["bool", "int8", "uint16", "int64", "float32", "float64"]
    columns = [(kind, kind) for kind in kinds] + [("words", "<U3"), ("holes", "int16")]
    arrays = {kind: np.array([0, 1, 1], kind) for kind in kinds}
    arrays["float32"][1] = np.nan
    arrays |= {"words": np.array(["a", None, "bé"], object), "holes": np.array([1, np.nan, 3])}
    sink = open_sink(tmp_path / "a", columns=columns, format="parquet", reads=())
    sink.write(0, 0, arrays)
    sink.commit(3)
    table = pq.read_table(next((tmp_path / "a").glob("part*")))
    for kind in kinds:
        assert table[kind].type == pa.from_numpy_dtype(np.dtype(kind))
        np.testing.assert_array_equal(table[kind].to_numpy(), arrays[kind])
    assert table["words"].to_pylist() == ["a", None, "bé"]
    assert table["holes"].to_pylist() == [1, None, 3]
    assert table["float32"].null_count == 0


def test_no_rows_make_an_empty_table(tmp_path):
    sink = open_sink(tmp_path / "a", columns=COLUMNS, format="parquet", reads=())
    sink.commit(0)
    assert pq.read_table(tmp_path / "a").schema.names == ["prediction", "label"]


def test_zarr_arrays_are_chunk_aligned(tmp_path, monkeypatch):
    from streamlearn.data.write import sink as module

    monkeypatch.setattr(module, "_CHUNK_BYTES", 16 * 8)
    X = np.arange(3 * 53, dtype=np.float32).reshape(53, 3)
    columns = [("X", "float32"), ("y", "int64")]
    sink = open_sink(
        tmp_path / "a.zarr",
        columns=columns,
        format="zarr",
        reads=(),
        attributes={"feature_names": list("abc")},
    )
    cuts = [0, 5, 6, 30, 53]
    for i in (3, 1, 0, 2):
        rows = slice(cuts[i], cuts[i + 1])
        sink.write(i, 0, {"X": X[rows], "y": np.arange(53)[rows]})
    sink.commit(53)
    assert left_behind(tmp_path) == ["a.zarr"]
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    np.testing.assert_array_equal(group["X"][:], X)
    np.testing.assert_array_equal(group["y"][:], np.arange(53))
    assert group["X"].chunks == (8, 3)
    assert group["y"].chunks == (8,)
    assert json.loads((tmp_path / "a.zarr" / "zarr.json").read_text())["zarr_format"] == 3
    data = open_dataset(tmp_path / "a.zarr", target="y")
    assert data.feature_names == ("a", "b", "c")


def test_urls():
    memory = fsspec.filesystem("memory")
    for overwrite in (False, True):
        sink = open_sink(
            "memory://out/a", columns=COLUMNS, format="parquet", reads=(), overwrite=overwrite
        )
        sink.write(0, 0, part(0, 5))
        sink.commit(5)
        found = sorted(os.path.basename(p) for p in memory.find("/out"))
        assert found == ["_SUCCESS", "part-0000000000-000000.parquet"]
    zarr_sink = open_sink(
        "memory://out/z.zarr", columns=[("X", "float64")], format="zarr", reads=()
    )
    zarr_sink.write(0, 0, {"X": np.arange(10.0).reshape(5, 2)})
    zarr_sink.commit(5)
    X = next(iter(open_dataset("memory://out/z.zarr").iter_chunks())).X
    np.testing.assert_array_equal(X, np.arange(10.0).reshape(5, 2))


@pytest.fixture
def data(tmp_path):
    random = np.random.default_rng(0)
    n = 1000
    pq.write_table(
        pa.table(
            {
                "a": random.standard_normal(n).astype(np.float32),
                "b": pa.array([None if i % 9 == 0 else float(i) for i in range(n)], pa.float32()),
                "w": random.random(n),
                "word": [f"c{i % 3}" for i in range(n)],
                "y": random.integers(0, 2, n).astype(np.int8),
            }
        ),
        tmp_path / "in.parquet",
        row_group_size=300,
    )
    return lambda **roles: open_dataset(
        tmp_path / "in.parquet", features=["b", "a"], chunk_rows=128, **roles
    )


def contents(dataset):
    chunks = [(c.X.copy(), np.copy(c.y), np.copy(c.weight)) for c in dataset.iter_chunks()]
    return [np.concatenate(parts) for parts in zip(*chunks, strict=True)]


@pytest.mark.parametrize("target", ["y", "word"])
def test_dataset_to_parquet_and_back(tmp_path, data, target):
    for chosen in (data(target=target, weight="w"), data(target=target, weight="w").take(0.4)):
        chosen.to_parquet(tmp_path / "out", overwrite=True)
        again = open_dataset(tmp_path / "out", target=target, weight="w")
        assert again.feature_names == ("b", "a")
        assert again.n_rows == chosen.n_rows
        for x, y in zip(contents(chosen), contents(again), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


def test_dataset_to_zarr_and_back(tmp_path, data):
    chosen = data(target="y", weight="w").take(0.4).map(np.abs)
    chosen.to_zarr(tmp_path / "out.zarr")
    again = open_dataset(tmp_path / "out.zarr", target="y", weight="weight")
    assert again.feature_names == ("b", "a")
    for x, y in zip(contents(chosen), contents(again), strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(SourceError, match="'y' are strings; write parquet"):
        data(target="word").to_zarr(tmp_path / "words.zarr")


def test_a_failed_write_leaves_nothing(tmp_path, data):
    def fail(X):
        raise ZeroDivisionError

    before = left_behind(tmp_path)
    with pytest.raises(ZeroDivisionError):
        data(target="y").map(fail).to_parquet(tmp_path / "out")
    with pytest.raises(ZeroDivisionError):
        data(target="y").map(fail).to_zarr(tmp_path / "out")
    with pytest.raises(ValueError, match="in.parquet, which is read"):
        data(target="y").to_parquet(tmp_path / "in.parquet")
    with pytest.raises(SourceError, match="no rows are left"):
        data(target="y").where_hash(0.0, 0.0, 0).to_zarr(tmp_path / "out")
    assert left_behind(tmp_path) == before


def test_sparse_rows_say_where_to_go(tmp_path):
    from scipy import sparse

    data = open_dataset(sparse.random_array((20, 5), density=0.3, format="csr", rng=0))
    with pytest.raises(SourceError, match="sparse columns are not written to parquet; use to_zarr"):
        data.to_parquet(tmp_path / "out")
    assert "sparse" in repr(data)


def test_only_columns_of_words_are_coded_by_dictionaries(tmp_path):
    """A dictionary of float64 took Arrow 50 MiB beside parts of 2 MiB."""
    sink = open_sink(tmp_path / "a", columns=COLUMNS, format="parquet", reads=())
    sink.write(0, 0, part(0, 50))
    sink.commit(50)
    (path,) = (tmp_path / "a").glob("*.parquet")
    columns = pq.ParquetFile(path).metadata.row_group(0)
    assert [columns.column(k).has_dictionary_page for k in range(2)] == [False, True]
