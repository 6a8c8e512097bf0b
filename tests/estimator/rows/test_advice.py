"""What a message advises works for the source at hand: rows left out, targets, dask's lengths."""

import re
import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamlearn as sl
from streamlearn.errors import SourceError

N, BAD = 80, 7
SOURCES = ["parquet", "frame", "arrow", "stream"]
FILTERS = "leave such rows out with open_dataset(..., filters=...), or give them weight 0"
OF_DATA = "leave such rows out of the data, or give them weight 0"


def columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return {
        "a": X[:, 0],
        "e": rng.random(N) + 1.0,
        "y": np.floor(4 * rng.random(N)) + 1.0,
        "w": np.ones(N),
        "died": (X[:, 1] > 0).astype(float),
        "word": np.array(["p", "q"] * (N // 2), object),
    }


def opened(kind, table, folder, target, features):
    made = pa.table(table)
    given = {
        "parquet": lambda: folder / "t.parquet",
        "frame": lambda: pd.DataFrame(table),
        "arrow": lambda: made,
        "stream": lambda: made.to_reader(),
    }
    if kind == "parquet":
        pq.write_table(made, folder / "t.parquet")
    return sl.open_dataset(given[kind](), target=target, weight="w", features=features)


GOOD = columns()
MODEL = sl.AdditiveRegressor(n_bases=4)
POISSON = sl.AdditiveRegressor("poisson", n_bases=4, exposure="e")
FAULTS = {
    "feature": ("a", np.inf, "y", ["a", "e"], lambda: MODEL.fit),
    "target": ("y", np.nan, "y", ["a", "e"], lambda: MODEL.fit),
    "missing word": (
        "word",
        None,
        "word",
        ["a", "e"],
        lambda: sl.AdditiveClassifier(n_bases=4).fit,
    ),
    "exposure": ("e", 0.0, "y", ["a", "e"], lambda: POISSON.fit),
    "count": ("y", -1.0, "y", ["a", "e"], lambda: POISSON.fit),
    "score": ("y", np.nan, "y", ["a"], lambda: MODEL.fit({"a": GOOD["a"]}, GOOD["y"]).score),
    "score of a word": (
        "word",
        None,
        "word",
        ["a"],
        lambda: sl.AdditiveClassifier(n_bases=4).fit({"a": GOOD["a"]}, GOOD["word"]).score,
    ),
    "at risk": (
        "y",
        -1.0,
        "died",
        ["a", "y"],
        lambda: (
            lambda data: sl.AdditiveRegressor("poisson", n_bases=4, exposure="exposure").fit(
                data.at_risk("y", cuts=[2, 5])
            )
        ),
    ),
}


@pytest.mark.filterwarnings("ignore:.*weigh")
@pytest.mark.filterwarnings("ignore:.*did not|.*stopped")
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("fault", FAULTS)
def test_rows_that_cannot_be_used_are_left_out_as_the_message_says(fault, kind, tmp_path):
    name, value, target, features, verb = FAULTS[fault]
    if kind == "stream" and fault.startswith("score"):
        pytest.skip("a stream is scored as it is fitted: from scratch")
    table = columns()
    if value is None:
        table[name] = table[name].copy()
    table[name][BAD] = value
    do = verb()
    with pytest.raises(ValueError, match="leave such rows out") as caught:
        do(opened(kind, table, tmp_path, target, features))
    said = str(caught.value)
    assert (FILTERS if kind == "parquet" else OF_DATA) in said
    assert not re.search(r"np\.\w+\(", said)
    table["w"][BAD] = 0.0
    do(opened(kind, table, tmp_path, target, features))
    if kind == "parquet":
        table["w"][BAD] = 1.0
        opened(kind, table | {"keep": np.arange(N) != BAD}, tmp_path, target, features)
        rows = {"target": target, "weight": "w", "features": features}
        do(sl.open_dataset(tmp_path / "t.parquet", filters=[("keep", "==", True)], **rows))


def test_a_target_that_is_too_large_is_not_to_be_mapped():
    y = np.linspace(0.0, 1e300, N)
    with pytest.raises(SourceError, match=r"divide it by 1e\+300 before it is given") as caught:
        MODEL.fit(GOOD["a"][:, None], y)
    assert "Dataset.map" not in str(caught.value)  # which sees features alone
    MODEL.fit(GOOD["a"][:, None], y / 1e300)


@pytest.mark.parametrize("kind", ["array", "parquet"])
def test_a_target_ruled_by_one_row_is_not_to_be_mapped(kind, tmp_path):
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=2000), "y": rng.normal(size=2000)}
    table["y"][BAD] = 1e4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if kind == "array":
            MODEL.fit(table["a"][:, None], table["y"])
        else:
            pq.write_table(pa.table(table), tmp_path / "t.parquet")
            MODEL.fit(tmp_path / "t.parquet", "y")
    said = " ".join(str(one.message) for one in caught)
    assert (FILTERS if kind == "parquet" else OF_DATA) in said
    assert "Dataset.map" not in said


@pytest.mark.filterwarnings("ignore:.*feature names")
def test_dask_frames_are_not_told_what_arrays_can():
    frame = dd.from_pandas(pd.DataFrame({"a": GOOD["a"], "y": GOOD["y"]}), npartitions=4)
    with pytest.raises(SourceError, match=r"X\.to_dask_array\(lengths=True\).*column of X") as one:
        MODEL.fit(frame[["a"]], GOOD["y"])
    with pytest.raises(SourceError, match=r"cut alike: pass as y the name of a column of X") as two:
        MODEL.fit(frame[["a"]], dd.from_pandas(pd.Series(GOOD["y"]), npartitions=2))
    for caught in (one, two):
        assert "compute_chunk_sizes" not in str(caught.value)
    expected = MODEL.fit({"a": GOOD["a"]}, GOOD["y"]).predict({"a": GOOD["a"]})
    array = frame[["a"]].to_dask_array(lengths=True)
    for rows, y in ((array, GOOD["y"]), (frame, "y"), (frame[["a"]], frame["y"])):
        found = MODEL.fit(rows, y).predict(GOOD["a"][:, None])
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_dask_arrays_learn_their_lengths_as_the_message_says():
    X = da.from_array(GOOD["a"][:, None], chunks=(20, 1))
    unknown = X[da.from_array(np.ones(N, bool), chunks=20)]
    with pytest.raises(SourceError, match=r"X\.compute_chunk_sizes\(\) finds them; or pass as y"):
        MODEL.fit(unknown, GOOD["y"])
    MODEL.fit(unknown.compute_chunk_sizes(), GOOD["y"])
