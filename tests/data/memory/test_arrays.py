import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

from streamlearn.data.memory.opening import as_vector, open_arrays
from streamlearn.data.memory.stream import StreamStore, write_stream
from streamlearn.data.source import Csr
from streamlearn.errors import SourceError

X = np.random.default_rng(0).integers(-9, 9, (50, 4)).astype(np.float64)
Y = np.arange(50) % 3
NAMES = ["x0", "x1", "x2", "x3"]
SOME = ["x3", "x0", "x2"]


def dense(X):
    if not isinstance(X, Csr):
        return X
    return sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape).toarray()


def read(store, names, start=7, stop=31, target=None, weight=None, dtype="float64"):
    reader = store.open(names, target, weight, np.dtype(dtype))
    reader.read(0, 3)  # another read before: buffers are used again
    chunk = reader.read(start, stop)
    assert len(chunk.rows) == stop - start
    return chunk


def frame(kind):
    columns = {
        "i": pa.array(range(6), pa.int32()),
        "f": pa.array([1.5, None, 2.0, 3.0, None, 4.0], pa.float32()),
        "b": pa.array([True, False, None, True, True, False]),
        "n": pa.array([1, None, 3, 4, 5, 6], pa.int64()),
        "s": pa.array(["u", "v", None, "u", "v", "w"]),
    }
    table = pa.table(columns)
    if kind == "pyarrow":
        return pa.concat_tables([table.slice(0, 2), table.slice(2)])
    if kind == "polars":
        return pl.from_arrow(table)
    data = table.to_pandas()
    data["b"], data["n"] = data["b"].astype("boolean"), pd.array([1, None, 3, 4, 5, 6], "Int64")
    return data


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f4", "f2", "i2", "u1", "i8", "?"])
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_numpy_of_any_dtype_and_layout(dtype, layout):
    source = np.asarray(X.astype(dtype), order="F" if layout == "F" else "C")
    source = np.repeat(source, 2, axis=1)[::-1, ::2] if layout == "strided" else source
    for names in (NAMES, SOME, NAMES[1:3]):
        chunk = read(open_arrays(source), names, dtype="f4")
        assert chunk.X.dtype == np.float32
        np.testing.assert_array_equal(chunk.X, source[7:31][:, [NAMES.index(n) for n in names]])


def test_rows_that_need_no_copy_are_views():
    store = open_arrays(X, Y)
    assert np.shares_memory(read(store, NAMES).X, X)
    assert store.in_memory
    frozen = X.copy()
    frozen.flags.writeable = False  # kernels would be compiled again for read-only arrays
    assert read(open_arrays(frozen), NAMES).X.flags.writeable


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "i2", ">f4"])
def test_memory_map_is_read_through_its_file(tmp_path, order, dtype):
    np.save(tmp_path / "x.npy", np.asarray(X.astype(dtype), order=order))
    whole = np.load(tmp_path / "x.npy", mmap_mode="r")
    for source in (whole, whole[5:45]):
        store = pickle.loads(pickle.dumps(open_arrays(source)))
        assert (store.kind, store.in_memory) == ("memmap", False)
        assert len(pickle.dumps(store)) < 2000
        for names in (NAMES, SOME):
            expected = np.asarray(source)[7:31][:, [NAMES.index(n) for n in names]]
            np.testing.assert_array_equal(read(store, names, target="x1").X, expected)
        np.testing.assert_array_equal(read(store, NAMES, target="x1").y, source[7:31, 1])


def test_memory_map_that_differs_from_its_file_is_copied(tmp_path):
    np.save(tmp_path / "x.npy", X)
    source = np.load(tmp_path / "x.npy", mmap_mode="c")
    source[7] = 99
    store = open_arrays(source)
    assert store.kind == "array"
    assert (read(store, NAMES).X[0] == 99).all()


def test_memory_map_whose_file_was_cut(tmp_path):
    np.save(tmp_path / "x.npy", X)
    store = open_arrays(np.load(tmp_path / "x.npy", mmap_mode="r"))
    with open(tmp_path / "x.npy", "r+b") as file:
        file.truncate(600)
    with pytest.raises(SourceError, match="has changed since .*size 1728 then, 600 now"):
        read(store, NAMES)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "int64 indices", "not canonical"])
def test_sparse_rows_stay_sparse(form):
    source = sp.csr_array(np.where(X > 0, X, 0))
    if form in ("csc", "coo"):
        source = source.asformat(form)
    if form == "int64 indices":
        source.indices, source.indptr = source.indices.astype("i8"), source.indptr.astype("i8")
    if form == "not canonical":
        source.indices[:2] = source.indices[:2][::-1].copy()
        source.has_sorted_indices = False
    before = source.toarray()
    store = open_arrays(source, Y)
    assert store.sparse
    for names in (NAMES, SOME):
        for dtype in ("f4", "f8"):
            chunk = read(store, names, target="y", dtype=dtype)
            assert (chunk.X.data.dtype, chunk.X.indptr.dtype) == (np.dtype(dtype), np.int64)
            assert sp.csr_array(tuple(chunk.X[:3]), shape=chunk.X.shape).has_canonical_format
            expected = before[7:31][:, [NAMES.index(n) for n in names]]
            np.testing.assert_array_equal(dense(chunk.X), expected)
    np.testing.assert_array_equal(source.toarray(), before)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames(kind):
    store = open_arrays(frame(kind), sample_weight=np.arange(6))
    dtypes = {column.name: column.dtype for column in store.columns}
    assert dtypes["s"] == "string"
    assert store.default_weight == "sample_weight"
    chunk = read(store, ["n", "i", "b", "f"], 1, 5, "s", "sample_weight")
    nan = np.nan
    expected = [[nan, 1, 0, nan], [3, 2, nan, 2], [4, 3, 1, 3], [5, 4, 1, nan]]
    np.testing.assert_array_equal(chunk.X, expected)
    assert chunk.y.tolist() == ["v", None, "u", "v"]
    assert (chunk.weight.dtype, chunk.weight.tolist()) == (np.float64, [1, 2, 3, 4])
    assert read(store, ["f"], 2, 5, "n").y.dtype == np.int64
    assert np.isnan(read(store, ["f"], 0, 3, "n").y[1])
    with pytest.raises(SourceError, match=r"column 's' holds string values, which are"):
        store.open(["f", "s"], None, None, np.dtype("f4"))


def test_pandas_categories_and_objects():
    data = pd.DataFrame({"c": pd.Categorical(["u", None, "v"]), "k": pd.Categorical([3, 1, 3])})
    data["o"] = pd.Series([1, 2.5, None], dtype=object)
    data["mixed"] = pd.Series(["a", 1, 2], dtype=object)
    store = open_arrays(data)
    assert [c.dtype for c in store.columns] == ["dictionary", "dictionary", "float64", "mixed"]
    np.testing.assert_array_equal(read(store, ["o"], 0, 3).X, [[1], [2.5], [np.nan]])
    assert read(store, ["o"], 0, 3, "c").y.tolist() == ["u", None, "v"]
    assert read(store, ["o"], 0, 3, "k").y.tolist() == [3, 1, 3]
    unnamed = open_arrays(pd.DataFrame(X))
    assert [column.name for column in unnamed.columns] == NAMES


STRINGS = ("object", "string", "string[python]", "string[pyarrow]", "category", "arrow", "str")


@pytest.mark.parametrize("kind", STRINGS)
def test_words_of_any_type_of_pandas(kind):
    """pandas has several types of words; "str" is what version 3 makes of them by itself."""
    words = ["a", None, "b"] * 20
    with pd.option_context("future.infer_string", kind == "str"):
        column = pd.Series(words, dtype=None if kind == "str" else "object")
        if kind not in ("object", "str"):
            column = column.astype(pd.ArrowDtype(pa.string()) if kind == "arrow" else kind)
        assert column.dtype.name != "object" or kind == "object"
        store = open_arrays(pd.DataFrame({"word": column, "x": np.arange(60.0)}), column)
        assert store.columns[0].dtype == ("dictionary" if kind == "category" else "string")
        vectors = [store.extra.vectors[0], as_vector("y", column)]
        for vector in vectors:
            assert vector.values(1, 5).tolist() == [None, "b", "a", None]
            found = [
                levels[i] if i >= 0 else None for run, levels in vector.encoded(1, 5) for i in run
            ]
            assert found == [None, "b", "a", None]


def test_structures_of_arrow_are_no_words():
    column = pd.Series([{"a": 1}], dtype=pd.ArrowDtype(pa.struct({"a": pa.int64()})))
    assert open_arrays(pd.DataFrame({"s": column})).columns[0].dtype == "nested"


def stream(kind, seen=None):
    table = frame("pyarrow")
    if kind == "lazy":
        return frame("polars").lazy()
    reader = table.to_reader(max_chunksize=4)
    if kind == "reader":
        return reader

    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            return reader.__arrow_c_stream__(requested_schema)

    return Capsule()


@pytest.mark.parametrize("kind", ["reader", "capsule", "lazy"])
@pytest.mark.parametrize("block_rows", [1, 4, 100])
def test_streams_are_written_once(tmp_path, kind, block_rows):
    store = open_arrays(stream(kind))
    assert isinstance(store, StreamStore)
    written = pickle.loads(pickle.dumps(write_stream(store, tmp_path, block_rows)))
    table = open_arrays(frame("pyarrow"))
    assert written.columns == table.columns
    for target in ("i", "n", "s", "b"):
        chunk = read(written, ["n", "f", "i"], 1, 6, target)
        expected = read(table, ["n", "f", "i"], 1, 6, target)
        np.testing.assert_array_equal(chunk.X, expected.X)
        assert chunk.y.dtype == expected.y.dtype
        assert str(chunk.y.tolist()) == str(expected.y.tolist())
    with pytest.raises(SourceError, match="has been read before and gives its rows once"):
        write_stream(store, tmp_path, block_rows)


def test_stream_refusals(tmp_path):
    with pytest.raises(SourceError, match="a stream is read once, so y"):
        open_arrays(stream("reader"), y=Y)
    with pytest.raises(SourceError, match="no rows to go back to before it is written to scratch"):
        open_arrays(stream("reader")).open(["i"], None, None, np.dtype("f4"))
    with pytest.raises(SourceError, match="ended without a row"):
        write_stream(open_arrays(frame("pyarrow").slice(0, 0).to_reader()), tmp_path, 4)


def test_arrow_without_pandas(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(frame("pyarrow"), tmp_path / "t.parquet")
    code = (
        "import sys, numpy as np, pyarrow.parquet as pq\n"
        "from streamlearn.data.memory.opening import open_arrays\n"
        f"store = open_arrays(pq.ParquetFile({str(tmp_path / 't.parquet')!r}).read())\n"
        "store.open(['n', 'b', 'f'], None, None, np.dtype('f4')).read(0, 6)\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_y_and_weights():
    store = open_arrays(X.tolist(), np.array(["a", "b"] * 25), sample_weight=np.ones(50, "f4"))
    chunk = read(store, NAMES, target=store.default_target, weight=store.default_weight)
    assert set(map(type, chunk.y)) == {str}
    assert chunk.weight.dtype == np.float64
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        store = open_arrays(X, Y[:, None])
    assert (read(store, NAMES, target="y").y == Y[7:31]).all()
    named = open_arrays(pd.DataFrame({"x": X[:, 0], "y": X[:, 1]}), Y)
    assert named.default_target == "_y"
    for y in (pd.Series(Y), pl.Series(Y), pa.array(Y)):
        assert (read(open_arrays(X, y), NAMES, target="y").y == Y[7:31]).all()


def test_fingerprint_knows_the_content():
    big = np.zeros((200_000, 2), np.float32)
    same = open_arrays(big).fingerprint()
    assert same == open_arrays(big.copy()).fingerprint()
    assert same != open_arrays(big + 1).fingerprint()
    assert open_arrays(X, Y).fingerprint() != open_arrays(X, Y + 1).fingerprint()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros(5), r"Expected 2D array, got shape \(5,\) instead. Reshape your data"),
        (np.zeros((2, 2, 2)), r"Expected 2D array, got shape \(2, 2, 2\)"),
        (np.zeros((2, 2), complex), "Complex data not supported"),
        (sp.csr_array(np.ones((2, 2), complex)), "Complex data not supported"),
        (np.zeros((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (np.zeros((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.array([["a", 1]], object), "X is an object array that does not hold numbers alone"),
        (np.array([["a", "b"]]), "expected numbers, got <U1; encode strings first"),
        ([[1, 2], [3]], "rows of unequal length do not make a table"),
        (pd.Series(X[:, 0]), "Expected 2D array"),
        (pd.DataFrame(X, columns=list("abca")), r"occur more than once: \['a'\]; rename them"),
    ],
)
def test_bad_input(source, message):
    with pytest.raises(SourceError, match=message):
        open_arrays(source)


def test_bad_input_of_other_kinds():
    with pytest.raises(TypeError, match="argument must be .* string.* number"):
        open_arrays(np.array([[1, {"a": 1}]], object))
    with pytest.raises(SourceError, match="X has 50 rows, y has 49; they must be of equal length"):
        open_arrays(X, Y[:-1])
    with pytest.raises(SourceError, match=r"y should be a 1d array, got an array of shape \(50, 2"):
        open_arrays(X, X[:, :2])
    with pytest.raises(SourceError, match="y holds mixed values; .* turn all into strings"):
        open_arrays(X, np.array(["a", 1] * 25, object))
    big = open_arrays(np.array([[1], [2**53 + 2]])).open(["x0"], None, None, np.dtype("f8"))
    with pytest.raises(SourceError, match=r"X, rows 0 to 2: integer 9007199254740994 is beyond 2"):
        big.read(0, 2)
    with pytest.raises(SourceError, match=r"X has no column 'x9'; it has 'x0', 'x1'"):
        open_arrays(X).open(["x9"], None, None, np.dtype("f8"))
