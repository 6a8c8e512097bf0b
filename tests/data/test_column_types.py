"""Column types have one set of names in every store, and each that is refused is named."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamlearn.data.column_types import CATEGORIES, NUMBERS, REMEDIES, is_readable
from streamlearn.data.open import open_dataset
from streamlearn.errors import SourceError

ARROW = {
    "timestamp": pa.array([datetime.datetime(2026, 1, 1)] * 3),
    "date": pa.array([datetime.date(2026, 1, 1)] * 3),
    "time": pa.array([datetime.time(1, 2)] * 3),
    "duration": pa.array([datetime.timedelta(seconds=7)] * 3),
    "decimal": pa.array([decimal.Decimal("1.5")] * 3),
    "binary": pa.array([b"a"] * 3),
    "null": pa.nulls(3),
    "nested": pa.array([[1.0]] * 3),
}
NUMPY = {"timestamp": "datetime64[s]", "duration": "timedelta64[s]"}


def test_every_refused_type_is_enumerated():
    assert set(ARROW) == set(REMEDIES)
    assert not set(REMEDIES) & {*NUMBERS, *CATEGORIES}
    assert [name for name in REMEDIES if is_readable(name)] == []


@pytest.mark.parametrize("name", REMEDIES)
@pytest.mark.parametrize("kind", ["parquet", "table", "pandas"])
def test_a_refusal_names_the_type(tmp_path, name, kind):
    table = pa.table({"x": np.arange(3.0), "odd": ARROW[name]})
    if kind == "parquet":
        pq.write_table(table, tmp_path / "t.parquet")
    if kind == "pandas":
        pd = pytest.importorskip("pandas")
        table = table.to_pandas(types_mapper=pd.ArrowDtype)
    source = tmp_path / "t.parquet" if kind == "parquet" else table
    told = rf"'odd' \({name}\).*{REMEDIES[name]}"
    with pytest.raises(SourceError, match=told):
        open_dataset(source)
    with pytest.raises(SourceError, match=f"'odd' is {name}"):
        open_dataset(source, target="odd")
    assert open_dataset(source, features=["x"]).n_rows == 3


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_types_have_the_same_names(name):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": np.arange(3.0), "odd": np.zeros(3, NUMPY[name])})
    with pytest.raises(SourceError, match=rf"'odd' \({name}\)"):
        open_dataset(frame)


def test_text_is_not_called_a_damaged_parquet_file(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n" + "1,2,0\n" * 100)
    with pytest.raises(SourceError, match=r"t.csv is not a parquet file: .*b'a,b,'.*CSV"):
        open_dataset(tmp_path / "t.csv")
