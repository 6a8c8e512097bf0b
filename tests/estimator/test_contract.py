"""scikit-learn's contract, on the test's own family: what a new family gets by inheriting."""

from dataclasses import replace

import dask
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from estimator.ridge import RidgeClassifier, RidgeRegressor
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamlearn as sl
from streamlearn.errors import MemoryBudgetError
from streamlearn.estimator.certificate import Certificate


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([RidgeRegressor(), RidgeClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_grid_search_pipeline_and_set_output(table):
    X, y, _ = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipe = make_pipeline(StandardScaler(), RidgeClassifier()).set_output(transform="pandas")
    search = GridSearchCV(pipe, {"ridgeclassifier__C": [0.1, 1.0]}, cv=2).fit(frame, y)
    assert search.best_score_ > 0.9
    best = search.best_estimator_[-1]
    assert list(best.feature_names_in_) == ["a", "b", "c"]
    assert clone(best).get_params() == best.get_params()


def test_weight_is_number_of_copies(table):
    X, y, z = table
    k = np.arange(500) % 4
    for model, target in ((RidgeRegressor(), z), (RidgeClassifier(), y)):
        weighted = clone(model).fit(X, target, k)
        copied = clone(model).fit(np.repeat(X, k, axis=0), np.repeat(target, k))
        np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=1e-10)


def test_class_of_weight_zero_is_absent(table):
    X, y, _ = table
    labels = np.where(np.arange(500) < 10, 7, y)
    model = RidgeClassifier().fit(X, labels, (labels != 7).astype(float))
    assert model.classes_.tolist() == [0, 1]


def test_certificate(table):
    X, _, z = table
    model = RidgeRegressor().fit(X, z)
    certificate = model.certificate_
    assert certificate.converged
    assert certificate.n_passes == model.n_passes_ == 2
    assert certificate.rows_read == 1000
    assert certificate.converged is True
    assert certificate.peak_memory_bytes >= certificate.memory_before_bytes > 0
    assert "over the" in repr(certificate).splitlines()[-2]
    assert "relative_gap" in repr(certificate)
    assert "n_passes           2" in repr(certificate)
    assert model.history_[-1]["objective"] == pytest.approx(float(certificate.primal[0]))


def test_warning_when_it_stops_short(table):
    with pytest.warns(ConvergenceWarning, match=r"RidgeRegressor stopped after 2 passes at a "
                      r"relative duality gap of 0; the tolerance is -1"):  # fmt: skip
        RidgeRegressor(tol=-1).fit(table[0], table[2])


def test_certificates_compare_arrays():
    a = Certificate(True, primal=np.array([1.0, 2.0]))
    assert "primal             [1. 2.]" in repr(a)
    assert a == Certificate(True, primal=np.array([1.0, 2.0]))
    assert a != Certificate(True, primal=np.array([1.0, 3.0]))


def test_plan(parquet):
    model = RidgeRegressor()
    data = sl.open_dataset(parquet, target="z", features=["a", "b", "c"])
    plan = sl.plan(model, data, memory_budget="64MiB")
    assert plan.budget == 64 << 20
    assert 0 < plan.peak_bytes <= plan.budget
    assert "gram" in str(plan)
    assert "summary" in str(plan)
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(MemoryBudgetError, match="budget is 1.0 KiB.*raise memory_budget"):
        sl.plan(model, data, memory_budget="1KiB")
    with pytest.raises(ValueError, match="a size in bytes was expected"):
        sl.plan(model, data, memory_budget="plenty")
    with pytest.raises(ValueError, match="'C' parameter"):
        sl.plan(RidgeRegressor(C=-1), data)


class Recording(RidgeClassifier):
    """Keeps what it was given."""

    def _fit(self, run, dataset, summary, validation=None):
        self.seen_ = validation
        return super()._fit(run, dataset, summary, validation)


class TestValidation:
    """Rows held out, coded as the training rows are."""

    def test_fraction(self, parquet):
        data = sl.open_dataset(parquet, target="label", features=["a", "b", "c"])
        model = Recording().fit(data, validation=0.2)
        with model.seen_.reader() as reader:
            held_out = [reader.read(ref) for ref in model.seen_.refs()]
        n = sum(chunk.n_rows for chunk in held_out)
        assert 60 < n < 140
        assert set(np.concatenate([chunk.y for chunk in held_out])) == {0.0, 1.0}
        assert model.certificate_.rows_read in (2 * (500 - n), 1000)

    def test_pair_and_dataset(self, table, parquet):
        X, y, _ = table
        assert Recording().fit(X, y, validation=(X[:50], y[:50])).seen_.n_rows == 50
        data = sl.open_dataset(parquet, target="y", features=["c", "b", "a"])
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        assert Recording().fit(frame, y, validation=data).seen_.feature_names == ("a", "b", "c")

    @pytest.mark.parametrize(
        ("validation", "match"),
        [
            (1.5, "between 0 and 1, got 1.5"),
            (3, "must be a Dataset with a target, .X, y., or a fraction.*got int"),
            ((1,), "got 1 items"),
        ],
    )
    def test_refused(self, table, validation, match):
        with pytest.raises(ValueError, match=match):
            RidgeClassifier().fit(table[0], table[1], validation=validation)

    def test_unknown_label(self, table):
        X, y, _ = table
        model = Recording().fit(X, y, validation=(X, y + 5))
        with (
            model.seen_.reader() as reader,
            pytest.raises(ValueError, match=r"target holds 5, 6, expected one of the 2 classes"),
        ):
            reader.read(model.seen_.refs()[0])


class Hungry(RidgeClassifier):
    """Needs much more memory once it knows the classes."""

    def _needs(self, dataset, summary=None):
        (need,) = super()._needs(dataset, summary)
        return [need if summary is None else replace(need, state_bytes=30 << 20)]


def test_plan_is_made_again_when_the_classes_are_known(parquet):
    data = sl.open_dataset(parquet, target="y", features=["a", "b", "c"], chunk_rows=32)
    with dask.config.set(num_workers=2):
        with sl.config_context(memory_budget="250MiB"):
            assert Hungry().fit(data).plan_.lanes_in_flight == 2
        with sl.config_context(memory_budget="200MiB"):
            model = Hungry().fit(data)
        assert model.plan_.lanes_in_flight == 1
        np.testing.assert_array_equal(model.coef_, RidgeClassifier().fit(data).coef_)
    with (
        sl.config_context(memory_budget="64MiB"),
        pytest.raises(MemoryBudgetError, match="raise memory_budget"),
    ):
        Hungry().fit(data)


@pytest.mark.parametrize("place", ["feature", "sparse feature", "target", "label"])
def test_row_of_weight_zero_may_hold_anything(table, place):
    X, y, z = (a.copy() for a in table)
    k = np.ones(500)
    k[[3, 300]] = 0
    model, target = (RidgeClassifier(), y) if place == "label" else (RidgeRegressor(), z)
    expected = clone(model).fit(X[k > 0], target[k > 0])
    if "feature" in place:
        X[3, 1], X[300, 0] = np.nan, np.inf
    elif place == "target":
        target[[3, 300]] = np.nan, -np.inf
    else:
        target = np.where(target == 1, "yes", "no").astype(object)
        target[[3, 300]] = None, "maybe"
    given = scipy.sparse.csr_array(X) if place == "sparse feature" else X
    kept = X.copy()
    np.testing.assert_allclose(clone(model).fit(given, target, k).coef_, expected.coef_, rtol=1e-10)
    np.testing.assert_array_equal(X, kept)
