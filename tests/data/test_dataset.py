"""The public noun over a store in memory: choices of rows and columns, runs, what it says."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlearn.data.dataset import Dataset
from streamlearn.data.open import dataset_of, open_dataset
from streamlearn.data.row_ranges import GROUP_BYTES, SLICE_BYTES, cut_runs
from streamlearn.data.source import Chunk, Csr
from streamlearn.data.store import NUMBERED, Column, Store
from streamlearn.errors import SourceError


class Table(Store):
    """Columns x0, x1, ..., y of row numbers times powers of ten, in units of given lengths."""

    kind = "table"

    def __init__(self, units=(5, 7, 3), dtypes=("float32", "float32"), layout="F", sparse=False):
        self.starts = np.concatenate([[0], np.cumsum(units)]).astype(np.int64)
        self.n_rows = int(self.starts[-1])
        self.columns = (
            *(Column(f"x{i}", kind) for i, kind in enumerate(dtypes)),
            Column("y", "int64"),
            Column("w", "float64"),
        )
        self.layout, self.sparse = layout, sparse

    def boundaries(self):
        return self.starts

    def overhead_nbytes(self, names, slice_rows):
        return 100

    def stored_nbytes(self, names):
        return 10 * len(names)

    def open(self, names, target, weight, dtype):
        return TableReader(self, names, target, weight, dtype)

    def place(self, start, stop):
        return f"table rows {start}..{stop}"

    def fingerprint(self):
        return {"kind": "table"}


class TableReader:
    def __init__(self, store, names, target, weight, dtype):
        self.store, self.names, self.dtype = store, names, dtype
        self.target, self.weight = target, weight

    def read(self, start, stop):
        rows = np.arange(start, stop)
        X = np.empty((stop - start, len(self.names)), self.dtype, order=self.store.layout)
        for j, name in enumerate(self.names):
            X[:, j] = rows * 10.0 ** int(name[1:])
        if self.store.sparse:
            m, p = X.shape
            X = Csr(X.ravel(), np.tile(np.arange(p), m), np.arange(0, m * p + 1, p), p)
        return Chunk(
            X,
            y=rows if self.target else None,
            weight=rows / 2 if self.weight else None,
            rows=range(start, stop),
        )

    def close(self):
        pass


def rows_of(dataset):
    return np.concatenate([np.asarray(c.rows) for c in dataset.iter_chunks()] or [[]])


def test_runs_slice_large_units_and_join_small_ones():
    def runs(units, slice_rows, row_nbytes, live=None):
        starts = np.concatenate([[0], np.cumsum(units)]).astype(np.int64)
        alive = np.ones(len(units), bool) if live is None else np.array(live)
        return list(cut_runs(starts, alive, slice_rows, row_nbytes))

    assert runs([10], 4, 1) == [(0, 4), (4, 8), (8, 10)]
    assert runs([3, 3, 3], 8, 1) == [(0, 6), (6, 9)]
    assert runs([3, 3, 3], 100, 1) == [(0, 9)]
    assert runs([3, 9, 3], 4, 1) == [(0, 3), (3, 7), (7, 11), (11, 12), (12, 15)]
    assert runs([3, 3, 3], 8, GROUP_BYTES) == [(0, 3), (3, 6), (6, 9)]
    assert runs([3, 3, 3, 3], 100, 1, [True, False, True, True]) == [(0, 3), (6, 12)]


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.integers(1, 40),
    st.sampled_from([1, GROUP_BYTES / 20, GROUP_BYTES]),
)
def test_runs_tile_the_rows(units, slice_rows, row_nbytes):
    starts = np.concatenate([[0], np.cumsum(units)]).astype(np.int64)
    runs = list(cut_runs(starts, np.ones(len(units), bool), slice_rows, row_nbytes))
    assert [a for a, _ in runs] == [0, *(b for _, b in runs[:-1])]
    assert runs[-1][1] == starts[-1]
    assert all(0 < b - a <= slice_rows for a, b in runs)


@pytest.mark.parametrize("p", [1, 3, 50, 64, 784])
def test_slices_are_the_largest_power_of_two_in_16_mib(p):
    data = dataset_of(Table(dtypes=("float32",) * p), "y", "w")
    assert data.slice_rows == 2 ** math.floor(math.log2(SLICE_BYTES / (4 * p)))
    assert data.with_slice_rows(5).slice_rows == 5
    assert data.with_slice_rows(5).refs()[0].nbytes == 5 * 4 * p


@pytest.mark.parametrize(
    ("dtypes", "want"),
    [
        (("bool", "int8", "uint16", "float16", "float32"), np.float32),
        (("float32", "int32"), np.float64),
        (("float64",), np.float64),
    ],
)
def test_float32_only_where_it_is_exact(dtypes, want):
    assert dataset_of(Table(dtypes=dtypes), "y", "w").dtype == want


def test_select_reads_these_columns_in_this_order():
    data = dataset_of(Table(dtypes=("float32",) * 3), "y", "w").select(["x2", "x0"])
    assert data.feature_names == ("x2", "x0")
    [chunk] = data.iter_chunks()
    np.testing.assert_array_equal(chunk.X[:, 0], np.arange(15) * 100)
    np.testing.assert_array_equal(chunk.weight, np.arange(15) / 2)
    assert data.stored_nbytes == 40


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("sparse", [False, True])
def test_split_parts_are_disjoint_complete_and_keep_row_numbers(layout, sparse):
    data = dataset_of(Table((6000, 9000), layout=layout, sparse=sparse), "y", "w")
    data = data.with_slice_rows(7000)
    a, b = data.split(0.75, seed=3)
    rows_a, rows_b = rows_of(a), rows_of(b)
    assert len(rows_a) == a.n_rows
    assert a.n_rows + b.n_rows == 15_000
    assert abs(a.n_rows - 11_250) < 5 * math.sqrt(15_000 * 0.1875)
    np.testing.assert_array_equal(np.union1d(rows_a, rows_b), np.arange(15_000))
    for chunk in a.iter_chunks():
        X = chunk.X
        if sparse:
            X = X.data.reshape(X.shape)
        np.testing.assert_array_equal(X[:, 0], chunk.rows)
        np.testing.assert_array_equal(X[:, 1], np.float32(10) * chunk.rows)
        np.testing.assert_array_equal(chunk.y, chunk.rows)
        np.testing.assert_array_equal(chunk.weight, chunk.rows / 2)


def test_nested_choices_with_one_seed_are_independent():
    data = dataset_of(Table((40_000,)), "y", "w")
    half = data.split(0.5, seed=0)[0]
    assert abs(half.take(0.5, seed=0).n_rows - 10_000) < 500
    # folds are hash shares of the same seed: none of them may be missing from a part of a split
    folds = [half.where_hash(k / 5, (k + 1) / 5, 0).n_rows for k in range(5)]
    assert sum(folds) == half.n_rows
    assert min(folds) > 3600


def test_take_a_number_of_rows_is_exact():
    data = dataset_of(Table((3000, 1)), "y", "w")
    assert data.take(17, seed=1).n_rows == len(rows_of(data.take(17, seed=1))) == 17
    assert data.split(0.5)[0].take(100).n_rows == 100
    assert data.take(10**9).n_rows == 3001
    assert data.take(1.0).n_rows == 3001


def test_choices_do_not_depend_on_chunks():
    data = dataset_of(Table((50, 70, 30)), "y", "w").take(0.3, seed=4)
    want = rows_of(data)
    for n in (1, 7, 64):
        np.testing.assert_array_equal(rows_of(data.with_slice_rows(n)), want)


def test_read_only_arrays_in_memory_are_left_alone():
    X = np.arange(200.0).reshape(100, 2)
    kept = X.copy()
    a, _ = open_dataset(X).split(0.5)
    got = np.concatenate([c.X for c in a.iter_chunks()])
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_array_equal(got, X[rows_of(a)])


def test_map_applies_chunk_by_chunk_and_select_follows_it():
    data = dataset_of(Table(), "y", "w").with_slice_rows(4)
    logs = data.map(np.log1p)
    assert logs.feature_names == ("x0", "x1")
    np.testing.assert_array_equal(
        np.concatenate([c.X[:, 0] for c in logs.iter_chunks()]),
        np.log1p(np.arange(15, dtype=np.float32)),
    )
    both = data.map(_sum_and_difference, ["s", "d"])
    [d] = {c.X.shape[1] for c in both.select(["d"]).iter_chunks()}
    assert d == 1
    assert both.select(["d"]).map(np.abs).feature_names == ("d",)
    assert {c.X.dtype for c in both.iter_chunks()} == {np.dtype(np.float32)}
    with pytest.raises(SourceError, match="no feature 'x0'; there are 's', 'd'"):
        both.select(["x0"])
    with pytest.raises(SourceError, match=r"shape \(4, 1\).*table rows 0..4, expected \(4, 2\)"):
        next(data.map(_first_column).iter_chunks())


def _sum_and_difference(X):
    return np.column_stack([X.sum(axis=1), X[:, 1] - X[:, 0]]).astype(np.float64)


def _first_column(X):
    return X[:, :1]


def test_pickling_sends_no_derived_state():
    data = dataset_of(Table((3,) * 1000), "y", "w").map(np.log1p).take(0.5)
    before = len(pickle.dumps(data))
    data.refs(), data.n_rows
    assert len(pickle.dumps(data)) == before
    again = pickle.loads(pickle.dumps(data))
    assert again.refs() == data.refs()
    assert again.fingerprint() == data.fingerprint()
    np.testing.assert_array_equal(rows_of(again), rows_of(data))


def test_fingerprints_tell_choices_apart():
    data = dataset_of(Table(dtypes=("float32",) * 3), "y", "w")
    choices = [
        data,
        data.select(["x1"]),
        data.take(0.5),
        data.take(0.5, seed=1),
        data.map(np.log1p),
        data.map(np.exp),
        data.with_slice_rows(3),
        dataset_of(data.store, "y", features=["x0", "x1", "x2"]),
    ]
    assert len({str(d.fingerprint()) for d in choices}) == len(choices)


def test_repr_can_be_read():
    data = dataset_of(Table((20_000,), dtypes=("float32",) * 9), "y", "w")
    assert repr(data).splitlines() == [
        "Dataset of 20,000 rows x 9 features (table, float32)",
        "  features: x0, x1, x2, x3, x4, x5, ...",
        "  target: y, weight: w",
        "  703.1 KiB decoded in 1 chunks, 110 B stored",
    ]
    assert "rows of 20,000 rows" in repr(data.take(0.5))


def test_bad_roles_are_named():
    store = Table(dtypes=("float32", "string", "nested", "binary"))
    with pytest.raises(SourceError, match=r"not: 'x2' \(nested\), 'x3' \(binary\)"):
        dataset_of(store, "y", "w")
    good = dataset_of(store, "x1", "w", features=["x0"])
    assert good.target == "x1"
    with pytest.raises(SourceError, match="target 'x3' is binary"):
        dataset_of(store, "x3", "w", features=["x0"])
    with pytest.raises(SourceError, match="weight 'x1' is string"):
        dataset_of(store, "y", "x1", features=["x0"])
    with pytest.raises(SourceError, match="no target column 'z'; the columns are 'x0'"):
        dataset_of(store, "z", features=["x0"])
    with pytest.raises(SourceError, match="no weight column 'z'"):
        dataset_of(store, "y", "z", features=["x0"])
    with pytest.raises(SourceError, match="no column 'a', 'b'; the columns are"):
        good.select(["a", "x0", "b"])
    with pytest.raises(SourceError, match="named twice: 'x0'"):
        good.select(["x0", "x0"])
    with pytest.raises(SourceError, match="target 'y' is among the features"):
        dataset_of(store, "y", features=["x0", "y"])
    with pytest.raises(SourceError, match="no feature columns"):
        dataset_of(store, "y", features=[])
    with pytest.raises(SourceError, match="one string"):
        dataset_of(store, "y", features="x0")


def test_bad_choices_are_named():
    data = dataset_of(Table(), "y", "w")
    for bad in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match=f"fraction={bad}"):
            data.split(bad)
    with pytest.raises(ValueError, match="a number of rows is an int"):
        data.take(2.0)
    with pytest.raises(ValueError, match="at least one row"):
        data.take(0)
    with pytest.raises(ValueError, match="not inside"):
        data.where_hash(0.5, 0.2, 0)
    with pytest.raises(ValueError, match="chunk_rows=0"):
        data.with_slice_rows(0)


def test_open_refuses_what_it_does_not_know():
    with pytest.raises(SourceError, match="no such path: 'nowhere"):
        open_dataset("nowhere/x.parquet")
    with pytest.raises(SourceError, match="already a Dataset"):
        open_dataset(dataset_of(Table(), "y", "w"))
    with pytest.raises(SourceError, match="filters are for parquet"):
        open_dataset(np.ones((3, 2)), filters=[("x0", ">", 0)])
    assert isinstance(open_dataset(np.ones((3, 2))), Dataset)


@pytest.mark.parametrize("role", ["target", "weight"])
@pytest.mark.parametrize("values", [np.zeros(3), [0, 1, 0], 2])
def test_values_in_place_of_a_columns_name_are_refused(role, values):
    with pytest.raises(TypeError, match=f"{role} is the name of a column, got .* fit arrays X, y"):
        open_dataset(np.zeros((3, 2)), **{role: values})


def test_columns_of_arrays_are_made_once_unless_they_are_very_many():
    """10,000 records a prediction took as long as the prediction."""
    X = np.zeros((2, 300), np.float32)
    stores = [open_dataset(X).store for _ in range(2)]
    assert stores[0].columns is stores[1].columns
    assert [c.name for c in stores[0].columns[:2]] == ["x0", "x1"]
    assert open_dataset(X.astype(np.float64)).store.columns[0].dtype == "float64"
    wide = np.zeros((1, NUMBERED + 1), np.float32)
    first, second = (open_dataset(wide).store for _ in range(2))
    assert first.columns == second.columns
    assert first.columns is not second.columns
