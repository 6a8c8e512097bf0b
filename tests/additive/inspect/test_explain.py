"""Terms add up to the decision, whatever holds the rows."""

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from additive_kit import table
from estimator.ridge import RidgeRegressor

import streamlearn as sl
from streamlearn.errors import MemoryBudgetError


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, scipy.sparse.csr_array])
def test_terms_and_intercept_are_the_decision(n_classes, layout):
    X, y = table(n_classes=n_classes)
    model = sl.AdditiveClassifier(n_bases=6, degree=2).fit(layout(X), y)
    terms = model.explain(layout(X))
    assert terms.shape == (len(X), 5) + ((3,) if n_classes == 3 else ())
    total = terms.sum(axis=1) + (model.intercept_[0] if n_classes == 2 else model.intercept_)
    np.testing.assert_allclose(total, model.decision_function(layout(X)), atol=1e-10)
    for d in (0, 2, 3):
        expected = model.shape_function(d, X[:, d])
        np.testing.assert_allclose(terms[:, d], expected, atol=1e-12)
    # the summary's bins hold the mean to their width
    np.testing.assert_allclose(terms.mean(axis=0), 0, atol=0.02)


def test_regressor_datasets_and_dask(tmp_path):
    X, _ = table()
    y = 5 + X[:, 0]
    model = sl.AdditiveRegressor(n_bases=6).fit(X, y)
    terms = model.explain(X)
    np.testing.assert_allclose(terms.sum(axis=1) + model.intercept_[0], model.predict(X))
    lazy = model.explain(da.from_array(X, chunks=(150, 5)))
    assert lazy.chunks == ((150, 150, 100), (5,))
    np.testing.assert_array_equal(lazy.compute(), terms)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({f"x{d}": X[:, d] for d in range(5)}), path, row_group_size=90)
    dataset = sl.open_dataset(path)
    np.testing.assert_array_equal(model.explain(dataset), terms)
    model.predict_to(dataset, tmp_path / "out", what="explanation")
    written = pq.read_table(tmp_path / "out")
    assert written.column_names == [f"explanation_x{d}" for d in range(5)]
    np.testing.assert_array_equal(written["explanation_x2"].to_numpy(), terms[:, 2])
    with (
        sl.config_context(memory_budget=8000),
        pytest.raises(MemoryBudgetError, match=r"400 rows x 40 B"),
    ):
        model.explain(dataset)


def test_terms_of_classes_have_a_column_each(tmp_path):
    X, y = table(n_classes=3)
    model = sl.AdditiveClassifier(n_bases=6).fit(X, y)
    model.predict_to(X, tmp_path / "out", what="explanation")
    written = pq.read_table(tmp_path / "out")
    expected = model.explain(X)[:, 1, 2]
    np.testing.assert_array_equal(written["explanation_x1_2"].to_numpy(), expected)


@pytest.mark.parametrize("basis", ["cosine", "trigonometric", "hermite"])
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
def test_terms_of_other_bases_and_of_missing_values(basis, layout):
    X, y = table(n_classes=3)
    X = X.copy()
    X[::7, 3] = np.nan
    model = sl.AdditiveClassifier(n_bases=4, basis=basis).fit(layout(X), y)
    terms = model.explain(layout(X))
    total = terms.sum(axis=1) + model.intercept_
    np.testing.assert_allclose(total, model.decision_function(layout(X)), atol=1e-10)
    for d in range(4):
        np.testing.assert_allclose(terms[:, d], model.shape_function(d, X[:, d]), atol=1e-10)
    # the summary's bins hold the mean to their width
    np.testing.assert_allclose(terms.mean(axis=0), 0, atol=0.02)
    expected = np.abs(terms).mean(axis=(0, 2))
    np.testing.assert_allclose(model.term_importances_, expected, rtol=0.02, atol=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [{"loss": "poisson", "exposure": 4}, {"loss": "gamma", "offset": 4}, {"offset": 4}],
)
def test_offsets_and_exposures_stand_in_their_column(parameters):
    X, _ = table()
    X = X.copy()
    X[:, 4] = np.random.default_rng(3).uniform(0.5, 2.0, len(X))
    y = np.round(5 * X[:, 4] * np.exp(X[:, 0])) + 1
    model = sl.AdditiveRegressor(n_bases=6, **parameters).fit(X, y)
    total = model.explain(X).sum(axis=1) + model.intercept_[0]
    expected = model.predict(X)
    np.testing.assert_allclose(total, np.log(expected) if "loss" in parameters else expected)


def test_importances_are_mean_sizes_of_terms(tmp_path):
    X, y = table(2000)
    weight = np.arange(len(y)) % 3.0
    model = sl.AdditiveClassifier(n_bases=6).fit(X, y, weight)
    expected = np.average(np.abs(model.explain(X)), axis=0, weights=weight)
    np.testing.assert_allclose(model.term_importances_, expected, rtol=0.02, atol=1e-9)
    sl.save(model, tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    np.testing.assert_array_equal(loaded.term_importances_, model.term_importances_)
    np.testing.assert_array_equal(loaded.densities_[0].share, model.densities_[0].share)


def test_other_families_say_that_they_have_no_terms():
    X, y = table()
    with pytest.raises(AttributeError, match="no sum of terms"):
        RidgeRegressor().fit(X, y).predict_to(X, "nowhere", what="explanation")
