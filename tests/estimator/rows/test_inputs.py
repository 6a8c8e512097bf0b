"""Every kind of input gives the same model; every bad one is refused by name."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from estimator.ridge import RidgeClassifier, RidgeRegressor

import streamlearn as sl
from streamlearn.errors import SourceError

NAMES = ["a", "b", "c"]


def inputs(X, z, path):
    frame = pd.DataFrame(X, columns=NAMES)
    with_target = frame.assign(z=z)
    return {
        "array": (X, z),
        "fortran": (np.asfortranarray(X), z),
        "list": (X.tolist(), z.tolist()),
        "sparse": (scipy.sparse.csr_array(X), z),
        "coo": (scipy.sparse.coo_matrix(X), z),
        "pandas": (frame, pd.Series(z)),
        "pandas column": (with_target, "z"),
        "polars": (pl.DataFrame(X, schema=NAMES), z),
        "polars column": (pl.DataFrame(with_target.to_dict("list")), "z"),
        "dask array": (da.from_array(X, chunks=(120, 2)), da.from_array(z, chunks=120)),
        "dask frame": (dd.from_pandas(with_target, npartitions=3), "z"),
        "dataset": (sl.open_dataset(path, target="z", features=NAMES), None),
    }


KINDS = [
    "array", "fortran", "list", "sparse", "coo", "pandas", "pandas column", "polars",
    "polars column", "dask array", "dask frame", "dataset",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_input_gives_the_same_model(kind, table, parquet):
    X, _, z = table
    source, target = inputs(X, z, parquet)[kind]
    model = RidgeRegressor().fit(source, target)
    direct = RidgeRegressor().fit(X, z)
    np.testing.assert_allclose(model.coef_, direct.coef_, rtol=1e-9)
    named = kind.startswith(("pandas", "polars", "dask frame", "dataset"))
    assert hasattr(model, "feature_names_in_") == named
    if named:
        assert list(model.feature_names_in_) == NAMES
    assert model.n_features_in_ == 3


def test_path_with_column_names(table, parquet):
    X, _, z = table
    data = sl.open_dataset(parquet, target="z", weight="w", features=NAMES)
    by_name = RidgeRegressor().fit(data)
    by_array = RidgeRegressor().fit(X, z, np.arange(len(z)) % 3.0)
    np.testing.assert_allclose(by_name.coef_, by_array.coef_, rtol=1e-9)


def test_target_given_twice_is_refused(table, parquet):
    data = sl.open_dataset(parquet, target="z", features=NAMES)
    with pytest.raises(ValueError, match="target is given twice: .*target='z'"):
        RidgeRegressor().fit(data, table[2])
    weighted = sl.open_dataset(parquet, target="z", weight="w", features=NAMES)
    with pytest.raises(ValueError, match=r"weight is given twice"):
        RidgeRegressor().fit(weighted, sample_weight="w")


def test_target_cannot_be_added_to_a_dataset(table, parquet):
    with pytest.raises(ValueError, match=r"open it with open_dataset\(\.\.\., target="):
        RidgeRegressor().fit(sl.open_dataset(parquet, features=NAMES), table[2])


def test_no_target(table, parquet):
    with pytest.raises(ValueError, match="requires y to be passed"):
        RidgeRegressor().fit(table[0])
    with pytest.raises(ValueError, match="requires y to be passed.*target="):
        RidgeRegressor().fit(sl.open_dataset(parquet, features=NAMES))


def test_arrays_cannot_be_paired_with_files(table, parquet):
    with pytest.raises(ValueError, match="y must be the name of a column"):
        RidgeRegressor().fit(parquet, table[2])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-1.0, "at least 0, got -1.0 in row 7"),
        (np.nan, "finite, got nan in row 7"),
        (np.inf, "finite, got inf in row 7"),
    ],
)
def test_bad_weights(table, weight, message):
    weights = np.ones(500)
    weights[7] = weight
    with pytest.raises(ValueError, match=message):
        RidgeRegressor().fit(table[0], table[2], weights)


def test_all_weights_zero_and_of_wrong_shape(table):
    X, _, z = table
    with pytest.raises(ValueError, match="weights must contain at least one non-zero"):
        RidgeRegressor().fit(X, z, np.zeros(500))
    with pytest.raises(ValueError, match="1D array"):
        RidgeRegressor().fit(X, z, np.ones((500, 2)))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        RidgeRegressor().fit(X, z, np.ones(499))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_named(table, value):
    X, _, z = table
    X = pd.DataFrame(X.copy(), columns=NAMES)
    X.loc[123, "b"] = value
    with pytest.raises(ValueError, match=r"column 'b' holds .*the first in row 123"):
        RidgeRegressor().fit(X, z)
    model = RidgeRegressor().fit(table[0], z)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity) in column 1, row 123"):
        model.predict(X.to_numpy())
    with pytest.raises(ValueError, match=r"contains (NaN|infinity) in column 1, row 123"):
        model.predict(scipy.sparse.csr_array(X.to_numpy()))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_targets_that_are_not_finite_are_named(table, value):
    X, _, z = table
    z = z.copy()
    z[77] = value
    with pytest.raises(ValueError, match=r"target.*'y'.*(NaN|inf).*row 77"):
        RidgeRegressor().fit(X, z)
    with pytest.raises(ValueError, match=r"target.*(NaN|inf).*row 77"):
        RidgeClassifier().fit(X, np.where(np.isfinite(z), table[1], value))


def test_missing_string_label(table):
    labels = np.where(table[1] == 1, "yes", "no").astype(object)
    labels[5] = None
    with pytest.raises(ValueError, match=r"target.*missing.*row 5"):
        RidgeClassifier().fit(table[0], labels)


def test_one_class_only(table):
    with pytest.raises(ValueError, match="1 class.*'yes'"):
        RidgeClassifier().fit(table[0], np.full(500, "yes"))
    weight = (table[1] == 1).astype(float)
    with pytest.raises(ValueError, match="1 class .*at least 2 classes"):
        RidgeClassifier().fit(table[0], table[1], weight)


def test_numbers_that_are_no_classes(table):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        RidgeClassifier().fit(table[0], table[2])


def test_strings_that_are_no_numbers(table):
    with pytest.raises(ValueError, match="target 'y' holds strings.*numbers"):
        RidgeRegressor().fit(table[0], np.where(table[1] == 1, "yes", "no"))


def test_sparse_where_only_dense_is_taken(table):
    class Dense(RidgeRegressor):
        _accepts_sparse = False

    assert not Dense().__sklearn_tags__().input_tags.sparse
    with pytest.raises(TypeError, match="Sparse data was passed to Dense"):
        Dense().fit(scipy.sparse.csr_array(table[0]), table[2])


def test_parameters_are_checked(table):
    with pytest.raises(ValueError, match="The 'C' parameter of RidgeRegressor must be"):
        RidgeRegressor(C=-1).fit(table[0], table[2])


class TestNames:
    """Columns at predict time: by name where there are names, else by position."""

    @pytest.fixture
    def model(self, table):
        return RidgeRegressor().fit(pd.DataFrame(table[0], columns=NAMES), table[2])

    def test_dataset_columns_are_matched_by_name(self, model, table, parquet):
        expected = model.predict(pd.DataFrame(table[0], columns=NAMES))
        for data in (
            parquet,
            sl.open_dataset(parquet, features=["c", "a", "b"]),
            sl.open_dataset(parquet, target="y", features=[*NAMES, "w"]),
        ):
            np.testing.assert_array_equal(model.predict(data), expected)

    def test_missing_and_renamed_columns(self, model, parquet):
        with pytest.raises(ValueError, match="lacks 1 of the 3 columns.*: 'b'; it has others: 'w'"):
            model.predict(sl.open_dataset(parquet, features=["a", "c", "w"]))

    def test_frames_as_scikit_learn(self, model, table):
        frame = pd.DataFrame(table[0], columns=NAMES)
        with pytest.raises(ValueError, match="same order as they were in fit"):
            model.predict(frame[["c", "a", "b"]])
        with pytest.raises(ValueError, match="unseen at fit time:\\n- d"):
            model.predict(frame.rename(columns={"b": "d"}))

    def test_arrays_by_position(self, table):
        model = RidgeRegressor().fit(*table[::2])
        with pytest.raises(ValueError, match="X has 2 features, but RidgeRegressor is expecting 3"):
            model.predict(table[0][:, :2])


def test_path_that_is_not_there(tmp_path):
    with pytest.raises((SourceError, FileNotFoundError), match=r"nothing\.parquet"):
        RidgeRegressor().fit(str(tmp_path / "nothing.parquet"), "y")


def table_inputs(X, folder):
    """Name -> f() -> rows without a target, of every kind of input."""
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    path = folder / "t.parquet"
    pq.write_table(table, path)

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    return {
        "array": lambda: X,
        "list": X.tolist,
        "sparse": lambda: scipy.sparse.csr_array(X),
        "dict": lambda: dict(zip(NAMES, X.T, strict=True)),
        "frame": lambda: pd.DataFrame(X, columns=NAMES),
        "numbered frame": lambda: pd.DataFrame(X),
        "polars": lambda: pl.from_arrow(table),
        "lazy": lambda: pl.from_arrow(table).lazy(),
        "arrow": lambda: table,
        "batch": lambda: table.to_batches()[0],
        "reader": table.to_reader,
        "stream": Stream,
        "arrow dataset": lambda: pyarrow.dataset.dataset(path),
        "path": lambda: path,
        "dataset": lambda: sl.open_dataset(path),
        "dask array": lambda: da.from_array(X, chunks=(100, 3)),
        "dask frame": lambda: dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=2),
    }


UNNAMED = ("array", "list", "sparse", "numbered frame", "dask array")


@pytest.mark.filterwarnings("error:.*feature names")
def test_what_was_fitted_is_predicted_without_a_warning_of_names(table, tmp_path):
    X, _, z = table
    kinds = table_inputs(X, tmp_path)
    named, unnamed = (RidgeRegressor().fit(kinds[kind](), z) for kind in ("dict", "numbered frame"))
    assert not hasattr(unnamed, "feature_names_in_")
    expected = named.predict(kinds["dict"]())
    for kind, made in kinds.items():
        model = unnamed if kind in UNNAMED else named
        found = np.asarray(model.predict(made()))
        np.testing.assert_allclose(found, expected, err_msg=kind)
        if not kind.startswith(("dask", "lazy", "reader", "stream", "arrow d", "path", "dataset")):
            again = RidgeRegressor().fit(made(), z)  # whose targets lie beside the rows
            assert hasattr(again, "feature_names_in_") == (kind not in UNNAMED), kind
            np.testing.assert_allclose(again.predict(made()), expected, err_msg=kind)


def test_names_that_are_partly_numbers_are_refused(table):
    X, _, z = table
    with pytest.raises(TypeError, match="only supported if all input features have string names"):
        RidgeRegressor().fit(pd.DataFrame(X, columns=["a", 1, "c"]), z)


WEIGHTS = {
    "one number": (2.0, r"1D array of one number a row, got 2\.0 for all rows"),
    "a table": (np.ones((500, 2)), r"1D array of one number a row, got shape \(500, 2\)"),
    "words": (["a"] * 500, r"must hold a number for each row, got others .* dtype <U1"),
    "a hole": (pd.array([None] + [1] * 499, dtype="Int64"), "finite, got nan in row 0"),
    "objects": ([{}] * 500, "must hold a number for each row, got others .* dtype object"),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_that_are_no_row_of_numbers(kind, table):
    X, _, z = table
    weight, message = WEIGHTS[kind]
    model = RidgeRegressor().fit(X, z)
    for verb in (RidgeRegressor().fit, model.score):
        with pytest.raises(ValueError, match=message):
            verb(X, z, weight)


def test_a_table_without_rows_or_columns_is_counted_without_its_target(table):
    X, _, z = table
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, 3\)\)"):
        RidgeRegressor().fit(X[:0], z[:0], z[:0])
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(500, 0\)\)"):
        RidgeRegressor().fit(X[:, :0], z, np.ones(500))
