import pickle

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from laws.laws_kit import with_lengths
from sklearn.exceptions import DataConversionWarning

from streamlearn.data.dask.reader import partition_store
from streamlearn.data.dask.store import open_dask
from streamlearn.errors import SourceError

N = 20
X = np.arange(3.0 * N, dtype=np.float32).reshape(N, 3)
Y = np.arange(N)
NAMES = ["x0", "x1", "x2"]
CUTS = [0, 6, 12, 18, 20]


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def unknown(values, chunks=6):
    array = da.from_array(values, chunks=chunks)
    return array[da.from_array(Y, chunks=chunks) >= 0]


def blocks(values):
    return [values[a:b] for a, b in zip(CUTS, CUTS[1:], strict=False)]


def dense(X):
    if isinstance(X, np.ndarray):
        return X
    return sp.csr_array(tuple(X[:3]), shape=X.shape).toarray()


def check(store, target="y", names=NAMES, step=7):
    """Every way to the rows gives the same ones."""
    store = pickle.loads(pickle.dumps(store))
    computed = dask.compute(*store.partitions)
    if store.known is None:
        with pytest.raises(SourceError, match="does not know the lengths of its partitions"):
            store.boundaries()
        store = with_lengths(store, [partition_store(block).n_rows for block in computed])
    assert store.n_rows == N
    assert store.boundaries()[[0, -1]].tolist() == [0, N]
    reader = store.open(names, target, None, np.dtype("f4"))
    starts = range(0, N, step)
    chunks = [reader.read(a, min(a + step, N)).copy() for a in starts]
    np.testing.assert_array_equal(np.concatenate([dense(chunk.X) for chunk in chunks]), X)
    np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), Y)
    assert np.concatenate([chunk.rows for chunk in chunks]).tolist() == list(range(N))
    return store


@pytest.mark.parametrize("chunks", [6, (6, 2), (N, 3)])
@pytest.mark.parametrize("y_chunks", [None, 6, 5])
def test_arrays_of_known_chunks(chunks, y_chunks):
    y = Y if y_chunks is None else da.from_array(Y, chunks=y_chunks)
    store = open_dask(da.from_array(X, chunks=chunks), y)
    assert (store.kind, store.default_target, store.default_weight) == ("dask.array", "y", None)
    assert {column.dtype for column in store.columns} == {"float32", "int64"}
    check(store)


def test_arrays_of_unknown_chunks():
    store = open_dask(unknown(X), unknown(Y))
    assert (store.n_rows, store.known) == (None, None)
    check(store)
    with pytest.raises(SourceError, match="y is an array in memory, but the lengths"):
        open_dask(unknown(X), Y)
    with pytest.raises(SourceError, match="X has 4 partitions but y has 2; they must be cut alike"):
        open_dask(unknown(X), unknown(Y, 10))


def test_nothing_is_computed_at_opening():
    def fail(block):
        raise AssertionError("computed")

    source = da.from_array(X, chunks=6).map_blocks(fail, dtype=X.dtype, meta=np.empty((0, 0), "f4"))
    assert open_dask(source, Y).n_rows == N


def test_chunks_are_no_views_of_the_users_array():
    source = X.copy()
    reader = open_dask(da.from_array(source, chunks=6)).open(NAMES, None, None, np.dtype("f4"))
    reader.read(0, 5).X[...] = -1
    np.testing.assert_array_equal(source, X)


def test_dataframes():
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y, s=["u", "v"] * 10)
    whole = dd.from_pandas(frame, npartitions=3)
    store = open_dask(whole)
    dtypes = {column.name: column.dtype for column in store.columns}
    assert dtypes == {"a": "float32", "b": "float32", "c": "float32", "y": "int64", "s": "string"}
    check(store, "y", list("abc"))
    store = open_dask(whole[list("abc")], whole["y"], whole["a"])
    assert (store.default_target, store.default_weight) == ("y", "sample_weight")
    check(store, "y", list("abc"))


def test_empty_partitions_are_legal():
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=Y), npartitions=3)
    rest = frame[(frame["y"] < 5) | (frame["y"] > 15)]
    store = open_dask(rest)
    computed = dask.compute(*store.partitions)
    store = with_lengths(store, [partition_store(block).n_rows for block in computed])
    assert 0 in store.known
    assert np.diff(store.boundaries()).min() > 0
    chunk = store.open(NAMES, "y", None, np.dtype("f4")).read(2, 8)
    assert chunk.y.tolist() == [2, 3, 4, 16, 17, 18]


def test_bags_and_delayed_blocks():
    apart = {"y": [dask.delayed(block) for block in blocks(Y)]}
    check(open_dask([dask.delayed(block) for block in blocks(X)], **apart))
    bag = db.from_sequence(X.tolist(), npartitions=4)
    store = open_dask(bag, [dask.delayed(Y[a : a + 5]) for a in range(0, N, 5)])
    assert store.columns[0].dtype == "float64"
    check(store)


def test_sparse_blocks():
    parts = [dask.delayed(sp.csr_array)(block) for block in blocks(X)]
    store = open_dask(parts, [dask.delayed(block) for block in blocks(Y)])
    assert store.sparse
    check(store)


def test_fingerprint_and_place():
    store = open_dask(da.from_array(X, chunks=6), Y)
    assert store.fingerprint() == open_dask(da.from_array(X, chunks=6), Y).fingerprint()
    assert store.fingerprint() != open_dask(da.from_array(X + 1, chunks=6), Y).fingerprint()
    assert store.place(6, 12) == "dask.array, partition 1, rows 6 to 12"
    assert store.place(6, 13) == "dask.array, partitions 1 to 2, rows 6 to 13"
    assert store.overhead_nbytes(NAMES, 4) == 6 * (3 * 4 + 8)


def test_column_vector():
    for y in (Y[:, None], da.from_array(Y[:, None], chunks=(6, 1))):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
            store = open_dask(da.from_array(X, chunks=6), y)
        check(store)


@pytest.mark.parametrize(
    ("source", "y", "message"),
    [
        (da.zeros(5), None, r"Expected 2D array with a known number of columns, got shape \(5,\)"),
        (da.zeros((2, 2, 2)), None, "Expected 2D array"),
        (da.zeros((2, 2), dtype=complex), None, "Complex data not supported"),
        (da.zeros((2, 2), dtype=object, chunks=2), None, "expected numbers, got object"),
        (da.zeros((0, 2)), None, r"0 sample\(s\)"),
        (da.zeros((2, 0)), None, r"0 feature\(s\)"),
        (da.zeros((4, 2)), np.zeros(3), "X has 4 rows, y has 3; they must be of equal length"),
        (da.zeros((4, 2)), da.zeros(3), "X has 4 rows, y has 3; they must be of equal length"),
        (da.zeros((4, 2)), da.zeros((4, 2)), r"y should be a 1d array, got an array of shape \(4"),
        (da.zeros((4, 2)), [dask.delayed(1)] * 2, "X has 1 blocks but y has 2"),
        ({"a": 1}, None, "got dict; expected a dask array, dataframe, bag or list of Delayed"),
    ],
)
def test_bad_input(source, y, message):
    with pytest.raises(SourceError, match=message):
        open_dask(source, y)


def test_partitions_that_disagree():
    parts = [dask.delayed(X), dask.delayed(X[:, :2])]
    store = with_lengths(open_dask(parts), [N, N])
    with pytest.raises(SourceError, match="a partition has the 2 columns"):
        store.open(NAMES, None, None, np.dtype("f4")).read(N, N + 5)
    store = with_lengths(open_dask(parts[:1]), [N + 1])
    with pytest.raises(SourceError, match="partition 0 has 20 rows, 21 were announced"):
        store.open(NAMES, None, None, np.dtype("f4")).read(0, 5)
