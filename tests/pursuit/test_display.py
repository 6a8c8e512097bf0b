"""Pictures: what they hold is what the model says."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import streamlearn as sl
from streamlearn import JensenShannonBoostClassifier, ProjectionPursuitRegressor, PursuitDisplay


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((400, 4)), columns=list("abcd"))
    return X, X["a"] * X["b"] + 0.02 * rng.standard_normal(400)


def test_regression_terms(rows):
    X, y = rows
    model = ProjectionPursuitRegressor(n_terms=2).fit(X, y)
    display = PursuitDisplay.from_estimator(model, X)
    assert display.axes_.shape == (2, 2)
    assert sorted(display.names[0]) == ["a", "b"]
    np.testing.assert_allclose(sum(display.densities[0]), 1.0)
    (line,) = [line for line in display.axes_[0, 1].lines if len(line.get_xdata()) > 2]
    t = model.project(X, 0)
    f = np.interp(t, line.get_xdata(), line.get_ydata())
    rest = np.interp(model.project(X, 1), display.grids[1], display.curves[1])
    np.testing.assert_allclose(f + rest + model.intercept_, model.predict(X), atol=2e-3)
    plt.close("all")


def test_boosted_histograms(rows):
    X, y = rows
    model = JensenShannonBoostClassifier(n_learners=3).fit(X, y > 0.2)
    _, ax = plt.subplots(1, 2, squeeze=False)
    display = PursuitDisplay.from_estimator(model, terms=[0], ax=ax)
    assert display.densities is None
    assert len(display.grids[0]) == len(display.curves[0]) + 1
    assert display.figure_ is ax[0, 0].figure
    plt.close("all")


def test_refused(rows):
    X, y = rows
    model = ProjectionPursuitRegressor(n_terms=1).fit(X, y)
    with pytest.raises(ValueError, match=r"terms \[5\] of a model with 1 terms"):
        PursuitDisplay.from_estimator(model, terms=[5])
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=r"ax must hold \(1, 2\) axes"):
        PursuitDisplay.from_estimator(model, ax=ax)
    plt.close("all")
    empty = ProjectionPursuitRegressor().fit(np.ones((20, 4)), y[:20])
    with pytest.raises(ValueError, match="nothing to draw"):
        PursuitDisplay.from_estimator(empty)


def test_projections_of_a_dataset_are_those_of_its_rows(rows, tmp_path):
    X, y = rows
    X.to_parquet(tmp_path / "x.parquet")
    data = sl.open_dataset(tmp_path / "x.parquet", chunk_rows=90)
    model = ProjectionPursuitRegressor(n_terms=1).fit(X, y)
    np.testing.assert_array_equal(model.project(data, 0), model.project(X, 0))
    mean, deviation = X.to_numpy().mean(axis=0), X.to_numpy().std(axis=0)
    scaled = (X.to_numpy() - mean) / deviation
    found = np.corrcoef(scaled @ model.pieces_[0]["direction"], model.project(X, 0))
    assert found[0, 1] > 0.999
    shown = [PursuitDisplay.from_estimator(model, of).densities[0] for of in (data, X)]
    np.testing.assert_array_equal(*shown)
    with sl.config_context(memory_budget="1KiB"):
        with pytest.raises(sl.MemoryBudgetError, match="the answer alone"):
            model.project(data, 0)
    plt.close("all")
