"""Answers: the same numbers from arrays, files and dask; lazily, in parts, within the budget."""

import tracemalloc

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from estimator.ridge import RidgeClassifier, RidgeRegressor
from sklearn.exceptions import NotFittedError

import streamlearn as sl
from streamlearn.data.order import row_share
from streamlearn.errors import MemoryBudgetError, SourceError
from streamlearn.estimator import predicting

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def model(table):
    X, y, _ = table
    frame = pd.DataFrame(X, columns=NAMES)
    return RidgeClassifier().fit(frame, np.where(y == 1, "yes", "no"))


@pytest.fixture(scope="module")
def many(table):
    """Three classes."""
    return RidgeClassifier().fit(table[0], np.digitize(table[2], [-1, 1]))


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
def test_file_and_array_agree(model, parquet, table, method):
    here = getattr(model, method)(pd.DataFrame(table[0], columns=NAMES))
    np.testing.assert_array_equal(getattr(model, method)(parquet), here)
    small = sl.open_dataset(parquet, features=NAMES, chunk_rows=64)
    np.testing.assert_array_equal(getattr(model, method)(small), here)


def test_shapes(model, many, table):
    frame = pd.DataFrame(table[0], columns=NAMES)
    assert model.predict(frame).dtype == model.classes_.dtype
    assert model.decision_function(frame).shape == (500,)
    assert model.predict_proba(frame).shape == (500, 2)
    assert many.decision_function(table[0]).shape == (500, 3)
    np.testing.assert_allclose(many.predict_proba(table[0]).sum(axis=1), 1)


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
def test_dask_in_dask_out(many, table, method):
    X = table[0]
    lazy = getattr(many, method)(da.from_array(X, chunks=(120, 2)))
    assert isinstance(lazy, da.Array)
    assert lazy.chunks[0] == (120, 120, 120, 120, 20)
    np.testing.assert_array_equal(lazy.compute(), getattr(many, method)(X))


def test_dask_frame_is_matched_by_name(model, table):
    frame = pd.DataFrame(table[0], columns=NAMES)
    collection = dd.from_pandas(frame[["c", "b", "a"]], npartitions=3)
    lazy = model.predict_proba(collection)
    assert isinstance(lazy, da.Array)
    assert lazy.shape[1] == 2
    np.testing.assert_array_equal(lazy.compute(), model.predict_proba(frame))
    with pytest.raises(ValueError, match="lacks 1 of the 3 columns"):
        model.predict(collection[["a", "b"]])


def test_dask_of_another_width(many, table):
    with pytest.raises(ValueError, match="X has 2 features"):
        many.predict(da.from_array(table[0][:, :2], chunks=100))


def test_model_is_one_key_of_the_graph(many, table):
    lazy = many.predict(da.from_array(table[0], chunks=(50, 3)))
    holders = [v for v in dict(lazy.__dask_graph__()).values() if v is many]
    assert len(holders) <= 1


@pytest.mark.parametrize(
    ("what", "columns"),
    [
        ("prediction", ["prediction"]),
        ("decision", ["decision"]),
        ("probability", ["probability_no", "probability_yes"]),
    ],
)
def test_predict_to_parquet(model, parquet, tmp_path, what, columns):
    data = sl.open_dataset(parquet, features=NAMES, chunk_rows=64)
    model.predict_to(data, tmp_path / "out", what)
    assert (tmp_path / "out" / "_SUCCESS").exists()
    found = pq.read_table(tmp_path / "out").to_pandas()
    assert list(found.columns) == columns
    method = {"prediction": "predict", "decision": "decision_function"}
    expected = getattr(model, method.get(what, "predict_proba"))(data)
    np.testing.assert_array_equal(found.to_numpy().squeeze(), expected)


def test_predict_to_zarr(many, table, tmp_path):
    many.predict_to(table[0], tmp_path / "out.zarr", "decision")
    group = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")
    found = np.column_stack([group[f"decision_{k}"][:] for k in range(3)])
    np.testing.assert_array_equal(found, many.decision_function(table[0]))


def test_existing_target_is_refused_unless_overwritten(model, parquet, tmp_path):
    model.predict_to(parquet, tmp_path / "out")
    with pytest.raises((sl.StreamlearnError, FileExistsError), match="overwrite"):
        model.predict_to(parquet, tmp_path / "out")
    model.predict_to(parquet, tmp_path / "out", "decision", overwrite=True)
    assert pq.read_table(tmp_path / "out").column_names == ["decision"]


def test_nothing_half_written(model, table, tmp_path):
    X = table[0].copy()
    X[-1, 0] = np.nan
    with pytest.raises(SourceError, match="NaN in column 'a'"):
        model.predict_to(pd.DataFrame(X, columns=NAMES), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unknown_answers(model, parquet, tmp_path):
    with pytest.raises(ValueError, match="what='score' is not known; use one of 'prediction'"):
        model.predict_to(parquet, tmp_path / "out", "score")
    number = RidgeRegressor().fit(parquet_features(parquet, "z"))
    with pytest.raises(AttributeError, match="predicts numbers, not probabilities"):
        number.predict_to(parquet, tmp_path / "out", "probability")
    with pytest.raises(NotFittedError, match="RidgeRegressor instance is not fitted"):
        RidgeRegressor().predict(parquet)


def parquet_features(path, target):
    return sl.open_dataset(path, target=target, features=NAMES)


def test_answer_over_the_budget_is_refused(model, parquet, monkeypatch):
    data = sl.open_dataset(parquet, features=NAMES)
    with (
        sl.config_context(memory_budget="1KiB"),
        pytest.raises(MemoryBudgetError, match=r"500 rows x 8 B = .* predict_to"),
    ):
        model.decision_function(data)


def test_size_of_a_filtered_answer_is_checked_as_it_grows(model, parquet):
    from streamlearn.estimator.predicting import _append_answer, _join

    data = sl.open_dataset(parquet, features=NAMES, filters=[("z", ">", -100.0)], chunk_rows=64)
    assert data.n_rows is None
    parts, chunks, limit = [], data.iter_chunks(), 2048
    for _ in range(2):
        _append_answer(model, "decision", limit, parts, next(chunks))
    with pytest.raises(MemoryBudgetError, match=r"answer alone, 1\d\d rows x 8 B"):
        _append_answer(model, "decision", limit, parts, next(chunks))
    with pytest.raises(MemoryBudgetError, match="answer alone, 200 rows"):
        _join(limit, [np.zeros(100)], [np.zeros(100)])


def test_target_that_cannot_be_scored(model, table):
    X, y, z = table
    frame = pd.DataFrame(X.copy(), columns=NAMES)
    labels = np.where(y == 1, "yes", "no").astype(object)
    expected = model.score(frame.drop(7), np.delete(labels, 7))
    labels[7] = None
    with pytest.raises(ValueError, match="target is None in row 7"):
        model.score(frame, labels)
    frame.loc[7, "a"] = np.nan
    assert model.score(frame, labels, np.arange(500) != 7) == expected
    number = RidgeRegressor().fit(X, z)
    with pytest.raises(ValueError, match=r"target is .*nan.* in row 3"):
        number.score(X, np.where(np.arange(500) == 3, np.nan, z))


def test_scores(model, parquet, table):
    from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

    from streamlearn.estimator.scores.scoring import evaluate, suitable_metrics

    X, y, z = table
    w = np.arange(500) % 3.0
    frame = pd.DataFrame(X, columns=NAMES)
    labels = np.where(y == 1, "yes", "no")
    data = sl.open_dataset(parquet, target="label", weight="w", features=NAMES, chunk_rows=64)
    expected = accuracy_score(labels, model.predict(frame), sample_weight=w)
    assert model.score(data) == pytest.approx(expected, rel=1e-12)
    assert model.score(frame, labels, w) == pytest.approx(expected, rel=1e-12)
    assert model.score(parquet, "label", "w") == pytest.approx(expected, rel=1e-12)
    scores = evaluate(model, data, scoring=suitable_metrics(model))
    expected = log_loss(labels, model.predict_proba(frame), sample_weight=w)
    assert scores["log_loss"] == pytest.approx(expected, rel=1e-12)

    number = RidgeRegressor().fit(X, z)
    scores = evaluate(number, X, z, w, scoring=["r2", "mean_squared_error"])
    assert scores["r2"] == pytest.approx(r2_score(z, number.predict(X), sample_weight=w))
    assert scores["mean_squared_error"] == pytest.approx(
        mean_squared_error(z, number.predict(X), sample_weight=w)
    )
    with pytest.raises(ValueError, match="'accuracy' does not fit RidgeRegressor; use one of r2"):
        evaluate(number, X, z, scoring=["accuracy"])
    with pytest.raises(ValueError, match="scoring='f1' is not known"):
        evaluate(number, X, z, scoring=["f1"])
    with pytest.raises(ValueError, match="scoring needs the targets"):
        number.score(X)


def test_unseen_label_is_a_miss(model, table):
    frame = pd.DataFrame(table[0], columns=NAMES)
    assert model.score(frame, np.full(500, "maybe")) == 0


def small_tables(table):
    """Small tables that are decided at once, with the columns in training's order."""
    frame = pd.DataFrame(table[0], columns=NAMES)
    return {
        "float64": (table[0], False),
        "float32": (table[0].astype(np.float32), False),
        "column-major": (np.asfortranarray(table[0]), False),
        "strided": (np.repeat(table[0], 2, axis=0)[::2], False),
        "big endian": (table[0].astype(">f8"), False),
        "read only": (np.frombuffer(table[0].tobytes()).reshape(table[0].shape), False),
        "integers": (np.round(table[0]).astype(np.int64), False),
        "bytes": (np.abs(np.round(table[0])).astype(np.uint8), False),
        "frame": (frame, True),
        "frame of several types": (frame.astype({"a": np.float32, "b": bool}), True),
        "frame of singles": (frame.astype({"a": np.float32, "b": np.int8, "c": "f2"}), True),
    }


@pytest.mark.parametrize("what", ["prediction", "decision", "probability"])
def test_small_tables_are_decided_as_large_ones_are(model, many, table, what, monkeypatch):
    for name, (X, named) in small_tables(table).items():
        chosen = model if named else many
        assert predicting.small_rows(chosen, X) is not None, name
        found = predicting.answer(chosen, X, what)
        with monkeypatch.context() as patch:
            patch.setattr(predicting, "small_rows", lambda model, X: None)
            expected = predicting.answer(chosen, X, what)
        np.testing.assert_array_equal(found, expected, name)
        assert found.dtype == expected.dtype


def test_other_tables_are_opened(model, many, table, tmp_path):
    X = table[0]
    frame = pd.DataFrame(X, columns=NAMES)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for chosen, other in (
        (model, X),  # without names: warned of
        (many, frame),
        (model, frame[["c", "b", "a"]]),
        (model, frame.astype({"a": "Float64"})),
        (model, frame.astype({"a": object})),
        (many, X[:0]),
        (many, X[0]),
        (many, X[:, :2]),
        (many, X.astype(str)),
        (many, X.tolist()),
        (many, mapped),
        (many, np.asarray(mapped)),
        (many, np.tile(X, (100, 1))),
    ):
        assert predicting.small_rows(chosen, other) is None
    with pytest.raises(SourceError, match="NaN in column 1, row 3"):
        many.predict(np.where(np.arange(X.size).reshape(X.shape) == 10, np.nan, X))


@pytest.mark.parametrize("what", ["prediction", "decision", "probability", "explanation"])
def test_answers_are_written_in_place(tmp_path, what):
    """One answer is held, however many chunks it comes in; choices of rows are the same rows."""
    X = np.random.default_rng(0).random((160_000, 8))
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(8)}), path, row_group_size=20_000)
    model = sl.AdditiveClassifier(n_bases=4, max_passes=3, tol=0.5, C=1.0)
    model.fit(X, (X[:, 0] > 0.5).astype(np.int64))
    data = sl.open_dataset(path, chunk_rows=1_000)
    expected = predicting.answer(model, X, what)
    half = predicting.answer(model, data.where_hash(0.0, 0.5, 3), what)  # joined from parts
    tracemalloc.start()
    try:
        found = predicting.answer(model, data, what)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(half, expected[row_share(np.arange(len(X)), 3) < 0.5])
    assert peak < found.nbytes + (8 << 20)  # an explanation has 10 MiB, and its parts as many
