"""The number of prototypes: all folds in the same reads, eq. 8."""

import numpy as np
import pytest

import streamlearn as sl
from streamlearn.solvers.splits import split_of_content


def bumps(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 1)) * 10
    f = sum(np.exp(-2 * (X[:, 0] - c) ** 2) for c in (2, 5, 8))
    return X, f + 0.02 * rng.standard_normal(n)


def fit(**kw):
    options = {"gamma": 2.0, "scaling": "none", "tradeoff": 1e-4, **kw}
    return sl.SuperSparseRegressorCV((1, 2, 3, 5), **options).fit(*bumps())


def test_the_planted_number_is_found():
    model = fit()
    assert model.n_prototypes_ == 3
    assert model.prototypes_.shape == (3, 1)
    np.testing.assert_allclose(sorted(model.prototypes_[:, 0]), [2, 5, 8], atol=0.05)
    curve = model.curve_
    assert curve.loss.shape == (4, 3)
    assert (np.diff(curve.objective) <= 1e-12).all()
    score = curve.loss.mean(axis=1) + 1e-4 * curve.n_prototypes
    assert curve.n_prototypes[score.argmin()] == 3
    assert model.n_passes_ == 2  # a summary, and one read for all folds and all numbers


def test_held_out_loss_is_that_of_a_model_trained_on_the_other_rows():
    X, y = bumps()
    model = fit()
    folds = split_of_content(X.astype(np.float64), 3, 0)
    for fold in range(3):
        rest = sl.SuperSparseRegressor(3, gamma=2.0, scaling="none", tol=1e-6).fit(
            X[folds != fold], y[folds != fold]
        )
        error = np.mean((y[folds == fold] - rest.predict(X[folds == fold])) ** 2)
        assert model.curve_.loss[2, fold] == pytest.approx(error, rel=0.05)


def test_a_dearer_prototype_means_fewer():
    assert fit(tradeoff=10.0).n_prototypes_ == 1
    assert fit(tradeoff=0.0).n_prototypes_ >= 3


def test_classes_are_judged_by_errors():
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    y = np.where(((X - 0.5) ** 2).sum(axis=1) < 0.08, "in", "out")
    model = sl.SuperSparseClassifierCV((1, 2, 4), tradeoff=1e-3).fit(X, y)
    assert model.score(X, y) > 0.93
    assert model.curve_.loss.max() <= 1.0
    assert model.predict_proba(X[:3]).shape == (3, 2)


def test_reads_are_shared_where_the_rows_are_many(monkeypatch):
    monkeypatch.setattr("streamlearn.supersparse.model.SAMPLE_ROWS", 150)
    monkeypatch.setattr("streamlearn.supersparse.model.ROWS_PER_ENTRY", 0)
    model = fit(n_passes=8, tol=1e-2)
    assert model.n_prototypes_ == 3
    assert 3 <= model.n_passes_ <= 8


def test_bad_choices_are_named():
    X, y = bumps(40)
    with pytest.raises(ValueError, match="expected numbers of prototypes"):
        sl.SuperSparseRegressorCV((0, 2)).fit(X, y)
    with pytest.raises(ValueError, match="split 1 of cv=3: .* up to 35 but n_samples="):
        sl.SuperSparseRegressorCV((2, 35)).fit(X, y)
