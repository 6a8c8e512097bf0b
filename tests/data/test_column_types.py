"""Column types have one set of names in every store, and each is read or refused by name."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from streamlearn.data.column_types import (
    CATEGORIES,
    MEASURED,
    NUMBERS,
    REMEDIES,
    TIMES,
    is_readable,
)
from streamlearn.data.open import open_dataset
from streamlearn.engine.scratch.materialise import materialised
from streamlearn.errors import SourceError

ARROW = {
    "binary": pa.array([b"a"] * 3),
    "null": pa.nulls(3),
    "nested": pa.array([[1.0]] * 3),
}
DAY = 86400.0
WHEN = datetime.datetime(1970, 1, 2, 3, 0, 0, 500000)
MEASURES = {
    "timestamp": (pa.array([WHEN, None, WHEN], pa.timestamp("ns")), DAY + 3 * 3600 + 0.5),
    "date": (pa.array([WHEN.date(), None, WHEN.date()], pa.date32()), DAY),
    "time": (pa.array([WHEN.time(), None, WHEN.time()], pa.time64("us")), 3 * 3600 + 0.5),
    "duration": (pa.array([-7000, None, -7000], pa.duration("ms")), -7.0),
    "decimal": (pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("1.25")]), 1.25),
}
OTHER_UNITS = {
    "timestamp": (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "Europe/Rome")),
    "date": (pa.date64(),),
    "time": (pa.time32("s"), pa.time32("ms"), pa.time64("ns")),
    "duration": (pa.duration("s"), pa.duration("us"), pa.duration("ns")),
}
NUMPY = {"timestamp": "datetime64[s]", "duration": "timedelta64[s]"}
CONTAINERS = ("parquet", "table", "dataset", "pandas", "polars", "stream", "dict", "dask")


def contain(table, kind, folder):
    """The table in one of the containers that hold times."""
    if kind == "parquet":
        pq.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"
    if kind == "dataset":
        return pyarrow.dataset.dataset(table)
    if kind == "stream":
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    if kind == "polars":
        return pytest.importorskip("polars").from_arrow(table)
    if kind == "table":
        return table
    pd = pytest.importorskip("pandas")
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    if kind == "dict":
        return {name: table[name] for name in table.column_names}
    if kind == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
    return frame


def read(source):
    with materialised(open_dataset(source)) as dataset:
        return np.concatenate([np.array(chunk.X) for chunk in dataset.iter_chunks()])


def test_every_type_is_refused_or_read():
    assert {*ARROW, "mixed"} == set(REMEDIES)  # which Arrow has no type for
    assert set(MEASURES) == set(MEASURED)
    assert not set(REMEDIES) & {*NUMBERS, *CATEGORIES, *MEASURED}
    assert [name for name in REMEDIES if is_readable(name)] == []


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_times_are_seconds_and_decimals_numbers_in_every_container(tmp_path, name, kind):
    values, expected = MEASURES[name]
    table = pa.table({"x": np.arange(3.0), "odd": values})
    X = read(contain(table, kind, tmp_path))
    np.testing.assert_array_equal(X, [[0, expected], [1, np.nan], [2, expected]])


@pytest.mark.parametrize("name, other", [(n, t) for n, some in OTHER_UNITS.items() for t in some])
def test_units_do_not_matter(tmp_path, name, other):
    values, expected = MEASURES[name]
    whole = np.floor(expected) if other in (pa.timestamp("s"), pa.time32("s")) else expected
    table = pa.table({"x": np.arange(3.0), "odd": values.cast(other, safe=False)})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        np.testing.assert_array_equal(read(source)[:, 1], [whole, np.nan, whole])


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_types_have_the_same_names(name):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": np.arange(3.0), "odd": np.array([5, "NaT", 7], NUMPY[name])})
    dataset = open_dataset(frame)
    assert dataset.column_types["odd"] == name
    np.testing.assert_array_equal(read(frame)[:, 1], [5, np.nan, 7])


def test_python_dates_and_decimals_in_object_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "date": [WHEN.date(), None, WHEN.date()],
            "zone": [WHEN.replace(tzinfo=datetime.UTC)] * 3,
            "price": [decimal.Decimal("1.25"), None, decimal.Decimal("2")],
        },
        dtype=object,
    )
    stamp = MEASURES["timestamp"][1]
    np.testing.assert_array_equal(
        read(frame), [[DAY, stamp, 1.25], [np.nan, stamp, np.nan], [DAY, stamp, 2]]
    )


@pytest.mark.parametrize("name", TIMES)
def test_times_are_no_targets_and_no_weights(name):
    table = pa.table({"x": np.arange(3.0), "odd": MEASURES[name][0]})
    with pytest.raises(SourceError, match=f"the target 'odd' is {name}"):
        open_dataset(table, target="odd")
    with pytest.raises(SourceError, match=f"the weight 'odd' is {name}"):
        open_dataset(table, weight="odd")


def test_decimals_may_be_target_and_weight(tmp_path):
    table = pa.table({"x": np.arange(3.0), "odd": MEASURES["decimal"][0].fill_null(2)})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        chunk = next(open_dataset(source, target="odd").iter_chunks())
        np.testing.assert_array_equal(chunk.y, [1.25, 2, 1.25])
        chunk = next(open_dataset(source, weight="odd").iter_chunks())
        np.testing.assert_array_equal(chunk.weight, [1.25, 2, 1.25])


@pytest.mark.parametrize("name", ARROW)
@pytest.mark.parametrize("kind", ["parquet", "table", "pandas"])
def test_a_refusal_names_the_type(tmp_path, name, kind):
    source = contain(pa.table({"x": np.arange(3.0), "odd": ARROW[name]}), kind, tmp_path)
    told = rf"'odd' \({name}\).*{REMEDIES[name]}"
    with pytest.raises(SourceError, match=told):
        open_dataset(source)
    with pytest.raises(SourceError, match=f"'odd' is {name}"):
        open_dataset(source, target="odd")
    assert open_dataset(source, features=["x"]).n_rows == 3


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": np.arange(4.0)}, index=[5, 3, 1, 0])
    frame.to_parquet(tmp_path / "t.parquet")
    assert open_dataset(tmp_path / "t.parquet").feature_names == ("x",)
    asked = open_dataset(tmp_path / "t.parquet", features=["__index_level_0__"])
    assert asked.feature_names == ("__index_level_0__",)


def test_columns_of_a_dict_have_one_length():
    with pytest.raises(SourceError, match="columns of a dict differ in length: .*'b': 2"):
        open_dataset({"a": [1.0, 2, 3], "b": [1.0, 2]})


def test_a_lazy_frame_can_be_printed():
    polars = pytest.importorskip("polars")
    assert "stream of rows x 2 features" in repr(
        open_dataset(polars.LazyFrame({"a": [1], "b": [2]}))
    )


def test_text_is_not_called_a_damaged_parquet_file(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n" + "1,2,0\n" * 100)
    with pytest.raises(SourceError, match=r"t.csv is not a parquet file: .*b'a,b,'.*CSV"):
        open_dataset(tmp_path / "t.csv")
