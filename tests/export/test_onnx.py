"""ONNX answers as the models do, to 1e-6 of their decisions, on awkward rows."""

import numpy as np
import pandas as pd
import pytest
from export.test_sql import awkward, decisions, models, rows

import streamlearn as sl

pytest.importorskip("onnx", reason="onnx is not installed: streamlearn[onnx]")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def run(model, inputs):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        sl.to_onnx(model), options, providers=["CPUExecutionProvider"]
    )
    (out,) = session.run(["decision"], inputs)
    assert out.dtype == np.float64
    return out


def as_inputs(frame):
    """An array (n, 1) for each column; words are strings, and no word is the empty one."""
    return {
        name: frame[[name]].astype(object).fillna("").to_numpy().astype(object)
        if name == "word"
        else frame[[name]].to_numpy(np.float64)
        for name in frame
    }


@pytest.mark.parametrize("at", range(10))
def test_additive_models(at):
    model, y = list(models())[at]
    model.fit(rows()[0], y)
    frame = awkward()
    got, wanted = run(model, as_inputs(frame)), decisions(model, frame)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


def numbers(n_classes, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 4)) + 0.1
    f = np.sin(5 * X[:, 0]) + X[:, 1]
    return X, np.digitize(f, np.quantile(f, np.arange(1, n_classes) / n_classes))


def beyond(X):
    """Rows of the training table, the corners of it, and far outside."""
    return np.vstack([X[:50], X.min(axis=0), X.max(axis=0), 30 * X[:5], np.full((1, 4), 1e-9)])


CASES = {
    "mixture": [
        {"gate": gate, "expert_loss": loss, "n_components": n}
        for gate, loss, n in (
            ("generative", "squared_hinge", 3),
            ("rbf", "log_loss", 3),
            ("linear", "log_loss", (2, 2)),
            ("linear", "squared_hinge", 2),
        )
    ],
    "shareboost": [{"candidates": name} for name in ("columns", "products", "stumps")],
    "supersparse": [
        {"similarity": name, "scaling": scaling}
        for name in ("rbf", "linear", "poly", "laplacian", "chi2")
        for scaling in ("none", "standard")
    ],
}


def make(family, parameters):
    if family == "mixture":
        return sl.SVMMixtureClassifier(max_passes=3, tol=1e-2, nu=0.0, **parameters)
    if family == "shareboost":
        return sl.ShareBoostClassifier(2, tol=1e-2, **parameters)
    return sl.SuperSparseClassifier(3, n_passes=2, tol=0.1, **parameters)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("family", CASES)
def test_models_of_numbers(family, n_classes):
    X, y = numbers(n_classes)
    for parameters in CASES[family]:
        model = make(family, parameters).fit(X, y)
        new = beyond(X)
        wanted = model.decision_function(new).reshape(len(new), -1)
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(
            run(model, {"X": new}), wanted, rtol=1e-6, atol=1e-9 * scale, err_msg=str(parameters)
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_has_no_exact_form_is_refused():
    X, y = numbers(2)
    words = pd.DataFrame(X).astype({3: str}).rename(columns=str)
    with pytest.raises(ValueError, match="encodes its columns"):
        sl.to_onnx(make("shareboost", {}).fit(words, y))
    with pytest.raises(ValueError, match="distance from anchors"):
        sl.to_onnx(sl.ShareBoostClassifier(2, candidates="pieces", tol=1e-2).fit(X, y))
    with pytest.raises(ValueError, match="a similarity of your own"):
        sl.to_onnx(make("supersparse", {"similarity": lambda A, B: A @ B.T}).fit(X, y))
    with pytest.raises(TypeError, match="is not exported to ONNX"):
        sl.to_onnx(sl.ProjectionPursuitRegressor(1, backfit=0).fit(X, y))


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("language", ["onnx", "sql"])
@pytest.mark.parametrize("kind", ["number", "cyclic"])
def test_times_of_any_unit_are_seconds_since_1970(unit, language, kind):
    """As one number, or as a year and the circles of hours, weekdays and days of the year."""
    rng = np.random.default_rng(0)
    x, day = rng.random(300), np.datetime64("2020-01-01") + rng.integers(0, 900, 300)
    frame = pd.DataFrame({"x": x, "when": day.astype(f"M8[{unit}]")})
    pairs = [("x", "when=weekday")] if kind == "cyclic" else 0
    model = sl.AdditiveRegressor(n_bases=5, interactions=pairs, encoding={"when": kind})
    model.fit(frame, x + day.astype(int) / 300 + day.astype(int) % 7)
    seconds = frame.assign(when=day.astype("M8[s]").astype(np.int64).astype(float))
    if language == "onnx":
        got = run(model, as_inputs(seconds))[:, 0]
    else:
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        got = duckdb.sql(f"SELECT {sl.to_sql(model)} AS f FROM seconds").fetchnumpy()["f"]
    tol = 1e-9 if kind == "number" else 1e-6  # what is left of a period, rounded to float32
    np.testing.assert_allclose(got, model.predict(frame), rtol=tol)
    said = [column.get("time", {}).get("period") for column in sl.to_dict(model)["columns"]]
    assert said == ([None, None] if kind == "number" else [None, 0.0, 7.0, 365.2425])


@pytest.mark.parametrize("language", ["onnx", "sql"])
def test_numbers_with_a_period(language):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(300), "hour": rng.integers(-90, 90, 300) / 2.0})
    y = frame.x + np.sin(2 * np.pi * frame.hour / 24)
    model = sl.AdditiveRegressor(n_bases=5, interactions=[("x", "hour")], encoding={"hour": 24})
    model.fit(frame, y)
    if language == "onnx":
        got = run(model, as_inputs(frame))[:, 0]
    else:
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        got = duckdb.sql(f"SELECT {sl.to_sql(model)} AS f FROM frame").fetchnumpy()["f"]
    np.testing.assert_allclose(got, model.predict(frame), rtol=1e-9, atol=1e-9)
    said = [column.get("time") for column in sl.to_dict(model)["columns"]]
    assert said == [None, {"unit": 1.0, "begin": 0.0, "period": 24.0}]
