"""Projection pursuit regression: what it recovers, its stops, its refits, and bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from pursuit.direct import product
from sklearn.exceptions import ConvergenceWarning

from streamlearn import JensenShannonBoostClassifier, ProjectionPursuitRegressor
from streamlearn.pursuit.tables import runs_for_tables


@pytest.mark.parametrize("seed", range(3))
def test_a_single_index_is_recovered(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1000, 6)).astype(np.float32)
    a = np.array([1, -2, 0, 0.5, 0, 0]) / np.sqrt(5.25)
    y = np.tanh(2 * X @ a) + (X @ a) ** 2 / 4
    model = ProjectionPursuitRegressor(n_terms=1, tau=1e4).fit(X, y)
    raw = model.directions_[0] / model._columns.scale
    assert abs(raw @ a) / np.linalg.norm(raw) >= 0.99


@pytest.mark.slow
def test_product_toy():
    """Issue's figures: support in 95 % of draws, median error 1e-3 (a constant has 0.0486)."""
    rng = np.random.default_rng(99)
    T = rng.random((6000, 5))
    truth = T[:, 0] * T[:, 1]
    errors, support, directions = [], 0, 0
    pairs = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    for seed in range(20):
        model = ProjectionPursuitRegressor(n_terms=2, tau=20.0, stop=None).fit(*product(seed, 0.1))
        errors.append(float(np.mean((model.predict(T) - truth) ** 2)))
        support += model.directions_.any(0).tolist() == [True, True, False, False, False]
        cosines = np.abs(model.directions_[:, :2] @ pairs.T).max(0)
        directions += bool((cosines >= 0.9).all())
    assert support >= 19
    assert directions >= 19
    assert np.median(errors) <= 1e-3


def test_irrelevant_weight_and_names():
    X, y = product(3, 0.1)
    model = ProjectionPursuitRegressor(n_terms=2).fit(pd.DataFrame(X, columns=list("abcde")), y)
    assert model.irrelevant_weight(["c", "d", "e"]) < 0.05
    assert model.irrelevant_weight(["c", "d", "e"]) + model.irrelevant_weight([0, 1]) == (
        pytest.approx(1.0)
    )
    with pytest.raises(ValueError, match="no column 'z'; the columns are .'a'"):
        model.irrelevant_weight(["z"])
    with pytest.raises(ValueError, match="column 7 of 5 columns"):
        model.irrelevant_weight([7])


def test_noise_alone_gives_no_term():
    rng = np.random.default_rng(0)
    model = ProjectionPursuitRegressor().fit(rng.random((500, 5)), rng.standard_normal(500))
    assert len(model.directions_) == 0
    assert len(np.unique(model.predict(rng.random((9, 5))))) == 1


def test_validation_stops_and_chooses():
    X, y = product(0, 0.1, 600)
    model = ProjectionPursuitRegressor(n_terms=6, tau=[5.0, 30.0], stop="validation")
    model.fit(X, y, validation=0.3)
    losses = {point["tau"]: point["validation_loss"] for point in model.path_}
    assert model.tau_ == min(losses, key=losses.get)
    assert len(model.directions_) < 6
    with pytest.raises(ValueError, match="stop='validation' needs rows"):
        ProjectionPursuitRegressor(stop="validation").fit(X, y)


def test_without_refit_the_terms_are_those_of_their_searches():
    X, y = product(0, 0.1)
    loose = ProjectionPursuitRegressor(n_terms=2, refit=False, backfit=0, stop=None).fit(X, y)
    joint = ProjectionPursuitRegressor(n_terms=2, backfit=0, stop=None).fit(X, y)
    np.testing.assert_allclose(loose.directions_[0], joint.directions_[0])
    r = y - loose.predict(X)
    assert loose.history_[-1]["mean_squared_error"] == pytest.approx(np.mean(r**2), rel=1e-6)
    r = y - joint.predict(X)
    assert joint.history_[-1]["mean_squared_error"] == pytest.approx(np.mean(r**2), rel=1e-5)


def test_the_papers_penalty_is_defeated_by_scale():
    """alpha may shrink at no cost in fit, and does (D1): why it is not the default."""
    X, y = product(0, 0.1)
    model = ProjectionPursuitRegressor(n_terms=1, penalty="paper", tau=5.0, stop=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it shrinks until most moves are made
        model.fit(X, y)
    assert np.abs(model._terms[0].alpha).sum() < 0.5


class TestBadInput:
    """Legal oddities do not break a fit; what is wrong is named."""

    @pytest.mark.parametrize("tau", [0, -1.0, [5.0, 0.0], ["a"], float("nan")])
    def test_tau(self, tau):
        with pytest.raises(ValueError, match="tau.*(range|expected a number above 0)"):
            ProjectionPursuitRegressor(tau=tau).fit(*product(0, 0.1))

    def test_weights_that_sum_to_zero(self):
        X, y = product(0, 0.1)
        with pytest.raises(ValueError, match="weights must contain at least one non-zero"):
            ProjectionPursuitRegressor().fit(X, y, np.zeros(len(y)))

    def test_constant_columns_are_never_used(self):
        X, y = product(0, 0.1)
        X[:, 3] = 7.0
        model = ProjectionPursuitRegressor(n_terms=2, tau=np.inf).fit(X, y)
        assert not model.directions_[:, 3].any()
        X[:] = 1.0
        assert np.ptp(ProjectionPursuitRegressor().fit(X, y).predict(X)) == 0

    def test_huge_outliers_do_not_set_the_scale(self):
        X, y = product(0, 0.05, 3000)
        X[5, 0], X[6, 1], X[7, 4] = 1e12, -1e15, 1e30
        model = ProjectionPursuitRegressor(n_terms=2).fit(X, y)
        others = np.delete(np.arange(3000), [5, 6, 7])
        assert np.mean((model.predict(X) - y)[others] ** 2) < 1.3 * 0.05**2

    def test_a_projection_of_one_value(self):
        """All rows but one share the value of each column."""
        X = np.zeros((50, 2))
        X[0] = 1.0
        y = np.random.default_rng(0).standard_normal(50)
        predicted = ProjectionPursuitRegressor(stop=None).fit(X, y).predict(X)
        assert np.ptp(predicted[1:]) == 0
        best = ((y[1:] - y[1:].mean()) ** 2).sum()  # row 0 to itself, one value for the others
        assert 0.999 * best <= ((y - predicted) ** 2).sum() <= 1.001 * ((y - y.mean()) ** 2).sum()

    def test_constant_target(self):
        X, _ = product(0, 0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = ProjectionPursuitRegressor().fit(X, np.full(len(X), 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)


def test_many_columns_are_screened(tmp_path):
    """100 columns, 32 tables a read: the two that matter are found by their slopes."""
    rng = np.random.default_rng(0)
    X = rng.random((3000, 100), dtype=np.float32)
    y = np.sin(3 * (X[:, 70] + X[:, 91])) + 0.1 * rng.standard_normal(3000)
    model = ProjectionPursuitRegressor(n_terms=1, tau=50.0).fit(X, y)
    assert np.flatnonzero(model.directions_[0]).tolist() == [70, 91]


def test_tables_of_a_share_of_the_rows():
    """The rows drawn do not depend on how they are cut; all rows measure what these promise."""

    def drawn(rows):
        runs = runs_for_tables(rows, 0.3)
        assert (np.diff(runs) > 0).all()
        return np.concatenate([np.asarray(rows)[a:b] for a, b in runs])

    rows = drawn(range(200_000))
    assert len(rows) / 200_000 == pytest.approx(0.3, abs=0.1)
    np.testing.assert_array_equal(drawn(range(3000, 200_000)), rows[rows >= 3000])
    some = np.flatnonzero(np.random.default_rng(0).random(200_000) < 0.01)
    np.testing.assert_array_equal(drawn(some), np.intersect1d(some, rows))
    assert runs_for_tables(range(5, 10), 1.0).tolist() == [[0, 5]]


@pytest.mark.parametrize("smoother", ["pspline", "supsmu"])
def test_a_share_of_the_rows_finds_the_same(monkeypatch, smoother):
    monkeypatch.setattr("streamlearn.pursuit.tables.TABLE_ROWS", 6000)
    X, y = product(0, 0.1, 20_000)
    model = ProjectionPursuitRegressor(n_terms=2, tau=20.0, smoother=smoother).fit(X, y)
    assert model.directions_.any(0).tolist() == [True, True, False, False, False]
    assert np.mean((model.predict(X) - X[:, 0] * X[:, 1]) ** 2) < 1e-4
    for record in model.history_:
        assert (np.diff(record["costs"]) < 0).all()
    by_columns = model.__class__(**model.get_params()).fit(np.asfortranarray(X), y)
    np.testing.assert_array_equal(by_columns.predict(X), model.predict(X))
    weights = model.history_[0]["weight"]
    assert weights == pytest.approx(np.sum((y - y.mean()) ** 2) / 20, rel=1e-6)
    boosted = JensenShannonBoostClassifier(n_learners=3).fit(X, y > 0.25)
    assert boosted.irrelevant_weight([2, 3, 4]) < 0.05
