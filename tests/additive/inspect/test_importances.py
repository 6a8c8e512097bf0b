"""Standard errors of importances: a closed form, refits of fresh samples, where they are told."""

import numpy as np
import pytest
from additive_kit import mixed, table

import streamlearn as sl
from streamlearn.additive.inspect.importances import N_DRAWS, importance_errors

# a standard deviation of N_DRAWS normal draws is off by one part in sqrt(2 N_DRAWS): three of these
NOISE = 3 / np.sqrt(2 * N_DRAWS)


def rows(n, seed):
    """(X, y): a wave, a parabola, and a column of noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    return X, np.sin(6 * X[:, 0]) + 4 * (X[:, 1] - 0.5) ** 2 + 0.5 * rng.normal(size=n)


def test_of_two_values_the_error_is_that_of_their_difference():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(2000) < 0.3, rng.random(2000)]).astype(float)
    y = 2 * X[:, 0] + X[:, 1] + rng.normal(size=len(X))
    model = sl.AdditiveRegressor(C=10, n_bases=6, covariance=True).fit(X, y)
    share = X[:, 0].mean()
    low, high = model.shape_function(0, [0.0, 1.0])
    # the curve is (-share, 1 - share) times the difference
    size = 2 * share * (1 - share)
    assert model.term_importances_[0] == pytest.approx(size * (high - low))
    deviation = model.shape_function(0, [1.0], return_std=True)[1][0] / (1 - share)
    assert model.term_importance_errors_[0] == pytest.approx(size * deviation, rel=NOISE)


@pytest.mark.parametrize("how", [{"smoothness": "reml"}, {"C": 1, "covariance": True}], ids=str)
def test_refits_of_fresh_samples_differ_by_as_much(how):
    found, told = [], []
    for seed in range(100):
        model = sl.AdditiveRegressor(**how, n_bases=10).fit(*rows(400, seed))
        found.append(model.term_importances_)
        told.append(model.term_importance_errors_)
    deviations, told = np.std(found, axis=0), np.mean(told, axis=0)
    # a deviation of 100 samples is off by 7 %, thrice that
    np.testing.assert_allclose(told[:2], deviations[:2], rtol=0.25)
    # of noise the smoothness, taken as known, is what differs most
    if "C" in how:
        assert told[2] == pytest.approx(deviations[2], rel=0.35)


def test_errors_of_a_column_are_the_same_alone_and_in_files(tmp_path):
    X, y = mixed()
    y = y + np.random.default_rng(0).normal(size=len(y))
    model = sl.AdditiveRegressor(C=10, n_bases=9, covariance=True).fit(X, y)
    errors = model.term_importance_errors_
    assert errors.shape == (5,)
    assert (errors[:4] > 0).all()
    assert errors[4] == 0  # a constant column has no curve
    assert (errors[:4] < 0.3 * model.term_importances_[:4]).all()
    np.testing.assert_array_equal(model.term_importance_errors_, errors)
    np.testing.assert_array_equal(importance_errors(model, model._posterior, [2])[0], errors[[2]])
    sl.save(model, tmp_path / "m.slm")
    np.testing.assert_array_equal(sl.load(tmp_path / "m.slm").term_importance_errors_, errors)
    edited = model.edit("word", ["red"], 0.0)
    expected = np.where(np.arange(5) == 2, np.nan, errors)
    np.testing.assert_array_equal(edited.term_importance_errors_, expected)
    plain = sl.AdditiveRegressor(C=10, n_bases=9).fit(X, y)
    assert not hasattr(plain, "term_importance_errors_")
    with pytest.raises(AttributeError, match="term_importance_errors_ needs the covariance"):
        _ = plain.term_importance_errors_


def test_several_classes_count_as_independent():
    X, y = table(900, n_classes=3)
    model = sl.AdditiveClassifier(C=1, n_bases=6, covariance=True).fit(X, y)
    by_class = importance_errors(model, model._posterior, range(5))
    assert by_class.shape == (3, 5)
    expected = np.sqrt((by_class**2).sum(axis=0)) / 3
    np.testing.assert_allclose(model.term_importance_errors_, expected)
    assert "importance" not in model.summary_table().columns  # a line is of one class


def test_tables_facts_and_reports_tell_the_errors():
    X, y = mixed()
    y = y + np.random.default_rng(0).normal(size=len(y))
    model = sl.AdditiveRegressor(C=10, n_bases=9, covariance=True).fit(X, y)
    columns = model.summary_table().columns
    np.testing.assert_array_equal(columns["importance"], model.term_importances_[:4])
    np.testing.assert_array_equal(columns["std error"], model.term_importance_errors_[:4])
    edited = model.edit("word", ["red"], 0.0)
    table = edited.summary_table().columns
    np.testing.assert_array_equal(table["importance"], edited.term_importances_[:4])
    assert np.isnan(table["std error"]).tolist() == [False, False, True, False]
    first = model._parts().parts[0]
    assert first.error == model.term_importance_errors_.max() or first.error > 0
    facts = dict(model._facts())["terms"]
    assert f"{first.name} {first.size:.3g} ± {first.error:.2g}" in facts
    page = model.report()
    assert "whiskers: 1.96 standard errors" in page
    assert "standard error" in page
    plain = sl.AdditiveRegressor(C=10, n_bases=9).fit(X, y)
    assert "±" not in dict(plain._facts())["terms"]
    assert "whiskers: 1.96" not in plain.report()
    assert "±" in dict(edited._facts())["terms"]
    assert "whiskers: 1.96" in edited.report()
