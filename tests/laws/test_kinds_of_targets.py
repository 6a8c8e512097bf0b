"""Targets and weights of every kind: the same models as from arrays, or refused by name."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from laws.subjects import STREAMS, Subject, names
from sklearn.base import is_regressor

import streamlearn as sl
from streamlearn.errors import SourceError
from streamlearn.estimator import predicting

N = 80
TRAINED = [name for name in names() if not Subject(name).transforms and name != "compress"]
REGRESSORS = [name for name in TRAINED if not Subject(name).classifies]
WORDS = "the target 'y' holds strings, a regressor needs numbers"

LABELS = {
    "categorical": lambda words: pd.Categorical(words),
    "categorical index": lambda words: pd.CategoricalIndex(words),
    "string array": lambda words: pd.array(words, dtype="string"),
    "series": lambda words: pd.Series(words, dtype="category"),
    "arrow array": lambda words: pd.array(words, dtype=pd.ArrowDtype(pa.string())),
}
NUMBERS = {
    "nullable": lambda z: pd.array(z, dtype="Float64"),
    "sparse": lambda z: pd.arrays.SparseArray(z),
    "index": lambda z: pd.Index(z),
    "series": lambda z: pd.Series(z, dtype="Float64"),
    "arrow array": lambda z: pd.array(z, dtype=pd.ArrowDtype(pa.float64())),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=N)


def containers(subject):
    return LABELS if subject.classifies else NUMBERS


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name", TRAINED)
def test_columns_of_pandas_are_targets_as_arrays_are(name, table):
    X, z = table
    subject = Subject(name)
    y = np.where(z > 0, "p", "q") if subject.classifies else z
    weight = np.arange(N) % 3.0
    direct = subject.fit(X, y, weight)
    answer, score = subject.answer(direct, X), direct.score(X, y, weight)
    for kind, made in containers(subject).items():
        model = subject.fit(X, made(y), pd.array(weight, dtype="Float64"))
        np.testing.assert_array_equal(subject.answer(model, X), answer, err_msg=kind)
        again = model.score(X, made(y), pd.array(weight, dtype="Float64"))
        assert again == score, kind
        if subject.classifies:
            np.testing.assert_array_equal(model.classes_, direct.classes_)


@pytest.mark.parametrize("name", STREAMS)
def test_columns_of_pandas_are_targets_of_a_stream(name, table):
    X, z = table
    subject = Subject(name)
    y = np.where(z > 0, "p", "q") if subject.classifies else z
    more = {"classes": ["p", "q"]} if subject.classifies else {}
    direct = subject.make(**STREAMS.get(name, {})).partial_fit(X, y, **more)
    for made in containers(subject).values():
        model = subject.make(**STREAMS.get(name, {})).partial_fit(X, made(y), **more)
        np.testing.assert_array_equal(subject.answer(model, X), subject.answer(direct, X))


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_nullable_labels_keep_their_type(dtype, table):
    X, z = table
    y = pd.array((z > 0).astype(int), dtype=dtype)
    plain = y.to_numpy()
    model = sl.AdditiveClassifier(n_bases=4).fit(X, y)
    assert model.classes_.dtype == plain.dtype
    assert model.score(X, y) == model.score(X, plain)


def with_words(kind, X, folder):
    """(X, y) whose target are words."""
    words = np.array(["a", "b"] * (N // 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=words)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if kind == "dataset":
        pq.write_table(table, folder / "t.parquet")
        return sl.open_dataset(folder / "t.parquet", target="y"), None
    given = {
        "arrays": (X, words),
        "objects": (X, words.astype(object)),
        "frame": (frame, "y"),
        "polars": (pl.from_arrow(table), "y"),
        "arrow": (table, "y"),
        "categorical": (X, pd.Categorical(words)),
        "dask": (dd.from_pandas(frame, npartitions=2), "y"),
    }
    return given[kind]


KINDS = ["dataset", "arrays", "objects", "frame", "polars", "arrow", "categorical", "dask"]


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_refuse_words_wherever_they_take_a_target(name, table, tmp_path):
    X, z = table
    subject = Subject(name)
    assert is_regressor(subject.make())
    fitted = subject.fit({"a": X[:, 0], "b": X[:, 1]}, z)
    for kind in KINDS:
        rows, y = with_words(kind, X, tmp_path)
        verbs = [
            lambda rows, y: subject.fit(rows, y),
            lambda rows, y: fitted.score(rows, y),
            lambda rows, y: fitted.report(rows, y),
        ]
        if name in STREAMS:
            stream = subject.make(**STREAMS.get(name, {}))
            verbs.append(lambda rows, y, stream=stream: stream.partial_fit(rows, y))
            begun = subject.make(**STREAMS.get(name, {}))
            begun.partial_fit({"a": X[:, 0], "b": X[:, 1]}, z)
            verbs.append(lambda rows, y, begun=begun: begun.partial_fit(rows, y))
        if kind == "dataset":
            verbs.append(lambda rows, y: sl.plan(subject.make(), rows))
            verbs.append(lambda rows, y: sl.cross_validate(subject.make(), rows, cv=2))
        for verb in verbs:
            with pytest.raises(ValueError, match=WORDS):
                verb(rows, y)


@pytest.mark.filterwarnings("ignore:.*feature names")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "categorical"])
def test_words_are_refused_before_the_rows_are_read(kind, table, tmp_path, monkeypatch):
    X, z = table
    fitted = sl.AdditiveRegressor(n_bases=4).fit({"a": X[:, 0], "b": X[:, 1]}, z)
    rows, y = with_words(kind, X, tmp_path)
    monkeypatch.setattr(predicting, "run", None)
    with pytest.raises(ValueError, match=WORDS):
        fitted.score(rows, y)


@pytest.mark.parametrize("name", TRAINED)
def test_bytes_are_refused_as_labels(name, table):
    X, z = table
    for y in (np.where(z > 0, b"p", b"q"), np.where(z > 0, b"p", b"q").astype(object)):
        with pytest.raises(SourceError, match=r"y holds binary values.*decode it to text"):
            Subject(name).make().fit(X, y)


def test_words_among_numbers_are_called_mixed(table):
    X, _ = table
    y = np.array([1, "a"] * (N // 2), dtype=object)
    with pytest.raises(SourceError, match="y holds mixed values; .*turn all into strings"):
        sl.AdditiveClassifier().fit(X, y)
    with pytest.raises(SourceError, match=r"'b' \(mixed\); .*turn all into strings"):
        sl.AdditiveClassifier().fit({"a": X[:, 0], "b": y}, X[:, 1] > 0)
