"""Choosing in shared reads against one fit after the other."""

import numpy as np
import pandas as pd
import pytest
from additive_kit import table
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamlearn as sl
from streamlearn.additive.choose import costs
from streamlearn.errors import SourceError
from streamlearn.solvers.splits import split_of_rows


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [
        sl.AdditiveClassifierCV(Cs=[1.0], n_bases=4, cv=3),
        sl.AdditiveRegressorCV(Cs=[1.0], n_bases=4, cv=3),
    ],
    expected_failed_checks=lambda estimator: dict.fromkeys(
        (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ),
        "sets cv to lists of row numbers, which are as long as the data: folds are by hash. The "
        "laws of tests/laws hold copies against weights.",
    ),
)
def test_scikit_learn_checks(estimator, check):
    """One candidate: a row's fold is by its number, so copies of rows may choose another."""
    check(estimator)


def scores_of(model):
    names = [key for key in model.cv_results_ if key.startswith("split")]
    return np.column_stack([model.cv_results_[name] for name in names])


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier_is_the_fits_one_by_one(loss, n_classes):
    """The sums of a read weigh the rows of a fold nothing: as if they were absent."""
    X, y = table(900, n_classes=n_classes)
    weight = np.random.default_rng(5).integers(0, 3, len(y)).astype(float)
    options = {"tol": 1e-9, "penalty_order": 2}
    Cs, counts = [0.01, 1.0], [4, 7]
    model = sl.AdditiveClassifierCV(loss, Cs=Cs, n_bases=counts, cv=3, **options)
    model.fit(X, y, weight)
    fold = split_of_rows(np.arange(len(y)), 3, 0)
    for k, params in enumerate(model.cv_results_["params"]):
        for f in range(3):
            plain = sl.AdditiveClassifier(loss, multi_class="ovr", **params, **options)
            plain.fit(X, y, np.where(fold == f, 0.0, weight))
            rows = fold == f
            if loss == "log_loss":
                p = plain.predict_proba(X[rows])
                of_label = p[np.arange(len(p)), np.searchsorted(plain.classes_, y[rows])]
                expected = np.average(np.log(of_label), weights=weight[rows])
            else:
                expected = plain.score(X[rows], y[rows], weight[rows])
            # knots are those of all rows in one case, of the rows outside the fold in the other
            assert scores_of(model)[k, f] == pytest.approx(expected, abs=0.02)
    assert model.cv_results_["mean_test_score"].argmax() == model.best_index_
    final = sl.AdditiveClassifier(loss, multi_class="ovr", **model.best_params_, **options)
    final.fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, final.coef_, atol=1e-5 * abs(final.coef_).max())
    assert model.certificate_.relative_gap <= 1e-9
    assert model.n_passes_ <= 8


def test_folds_are_those_of_cross_validate():
    X, y = table(600)
    X = np.round(8 * X) / 8  # few values: the knots are the same whichever rows are left out
    model = sl.AdditiveClassifierCV(Cs=[0.1, 10], n_bases=12, cv=3, tol=1e-8, random_state=4)
    model.fit(X, y)
    other = sl.cross_validate(
        sl.AdditiveClassifier(n_bases=12, tol=1e-8), X, 3, {"C": [0.1, 10]}, 4, "neg_log_loss", y=y
    )
    np.testing.assert_allclose(scores_of(model), other.scores, rtol=2e-3)


def regression(n=700, seed=1):
    X, _ = table(n, seed)
    rng = np.random.default_rng(seed)
    return X, 5 + np.sin(9 * X[:, 0]) + X[:, 2] + rng.normal(0, 0.5, n)


@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "r2"])
def test_regressor_scores_are_those_of_fits_to_the_other_rows(scoring):
    X, y = regression()
    X = np.round(16 * X) / 16  # knots do not depend on the rows left out
    weight = np.random.default_rng(5).integers(0, 3, len(y)).astype(float)
    model = sl.AdditiveRegressorCV(Cs=[0.01, 1.0, 100.0], n_bases=24, cv=4, scoring=scoring)
    model.fit(X, y, weight)
    assert model.n_passes_ == 2
    fold = split_of_rows(np.arange(len(y)), 4, 0)
    for k, params in enumerate(model.cv_results_["params"]):
        for f in range(4):
            train = np.where(fold == f, 0.0, weight)
            plain = sl.AdditiveRegressor(**params).fit(X, y, train)
            rows = fold == f
            if scoring == "r2":
                expected = plain.score(X[rows], y[rows], weight[rows])
            else:
                error = (plain.predict(X[rows]) - y[rows]) ** 2
                expected = -np.average(error, weights=weight[rows])
            # the reference vector is the mean over all rows: it bears on the penalised intercept
            assert scores_of(model)[k, f] == pytest.approx(expected, rel=1e-3, abs=1e-4)
    final = sl.AdditiveRegressor(C=model.C_, n_bases=24).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, final.coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(X), final.predict(X), atol=1e-9)


def test_regressor_by_another_metric():
    """Newton's reads and one that scores, instead of Grams: the same fits."""
    X, y = regression()
    X = np.round(16 * X) / 16
    options = {"Cs": [0.01, 1.0, 100.0], "n_bases": 24, "cv": 3, "tol": 1e-9}
    model = sl.AdditiveRegressorCV(scoring="neg_mean_absolute_error", **options).fit(X, y)
    other = sl.cross_validate(
        sl.AdditiveRegressor(n_bases=24, tol=1e-9),
        X,
        3,
        {"C": options["Cs"]},
        scoring="neg_mean_absolute_error",
        y=y,
    )
    np.testing.assert_allclose(scores_of(model), other.scores, rtol=2e-3)
    by_grams = sl.AdditiveRegressorCV(**options).fit(X, y)
    assert by_grams.n_passes_ == 2 < model.n_passes_
    assert by_grams.C_ == model.C_
    np.testing.assert_allclose(model.coef_, by_grams.coef_, atol=1e-6)


def test_gcv_is_the_formula_on_explicit_features():
    X, y = regression(300)
    model = sl.AdditiveRegressorCV(Cs=[0.1, 10.0], n_bases=[5, 8], cv="gcv").fit(X, y)
    assert model.n_passes_ == 2
    features = sl.SplineEmbedding(n_bases=8).fit(X)  # Psi: the penalty is 1/2 |w|^2
    Psi = np.column_stack([features.transform(X).toarray(), np.ones(len(y))])
    for k, params in enumerate(model.cv_results_["params"]):
        if params["n_bases"] != 8:
            continue
        C = params["C"]
        ridge = Ridge(alpha=1 / (2 * C), fit_intercept=False).fit(Psi, y - y.mean())
        hat = Psi @ np.linalg.solve(Psi.T @ Psi + np.eye(Psi.shape[1]) / (2 * C), Psi.T)
        residual = y - y.mean() - Psi @ ridge.coef_
        expected = np.mean(residual**2) / (1 - np.trace(hat) / len(y)) ** 2
        assert -model.cv_results_["mean_test_score"][k] == pytest.approx(expected, rel=1e-8)


def test_one_standard_error_takes_the_simplest_that_is_as_good():
    X, y = regression(300)
    Cs = np.logspace(-3, 4, 15)
    best = sl.AdditiveRegressorCV(Cs=Cs, n_bases=[9, 20]).fit(X, y)
    simple = sl.AdditiveRegressorCV(Cs=Cs, n_bases=[9, 20], one_standard_error=True).fit(X, y)
    results = simple.cv_results_
    scores = scores_of(simple)[best.best_index_]
    bound = scores.mean() - scores.std(ddof=1) / np.sqrt(5)
    within = np.flatnonzero(results["mean_test_score"] >= bound)
    assert simple.best_index_ == within[0] < best.best_index_


def test_groups_that_fit_the_budget_give_the_same_bits(monkeypatch):
    X, y = table(3000)
    options = {"Cs": [0.01, 0.1, 1.0], "n_bases": [4, 9], "cv": 3}
    whole = sl.AdditiveClassifierCV(**options).fit(X, y)
    parts = sl.AdditiveClassifierCV(**options)
    with monkeypatch.context() as small:
        small.setattr(
            costs, "groups_of_models", lambda size, n: [range(k, k + 3) for k in range(0, n, 3)]
        )
        parts.fit(X, y)
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    np.testing.assert_array_equal(scores_of(parts), scores_of(whole))
    assert parts.n_passes_ > whole.n_passes_
    X, y = regression()
    whole = sl.AdditiveRegressorCV(Cs=3, n_bases=[4, 9]).fit(X, y)
    parts = sl.AdditiveRegressorCV(Cs=3, n_bases=[4, 9])
    parts._counts_in_groups = lambda dataset: [[4], [9]]
    parts.fit(X, y)
    np.testing.assert_array_equal(parts.coef_, whole.coef_)


def test_a_sample_of_the_rows_gives_directions():
    """More rows than the sample holds: reads measure, and every fit is certified."""
    rng = np.random.default_rng(0)
    X = rng.random((80_000, 3), dtype=np.float32)
    y = rng.random(len(X)) < 1 / (1 + np.exp(-4 * np.sin(6 * X[:, 0]) - X[:, 1]))
    model = sl.AdditiveClassifierCV(Cs=[0.1, 10.0], n_bases=8, cv=3, tol=1e-5).fit(X, y)
    assert model.cv_results_["relative_gap"].max() <= 1e-5
    assert model.certificate_.relative_gap <= 1e-5
    assert model.n_passes_ <= 14
    best = sl.AdditiveClassifier(C=model.C_, n_bases=8, tol=1e-5).fit(X, y)
    assert model.certificate_.primal == pytest.approx(best.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("basis", ["bspline", "cosine"])
def test_levels_missing_values_and_other_bases(basis):
    """What is chosen is what the plain estimator makes of the same choice."""
    X, y = table(600)
    frame = pd.DataFrame(X.copy(), columns=list("abcde"))
    frame["b"] = np.array(["red", "green", "blue"], object)[np.arange(600) % 3]
    frame.loc[::7, "a"] = np.nan
    for cls, target in ((sl.AdditiveClassifier, y), (sl.AdditiveRegressor, y + X[:, 0])):
        options = {"basis": basis, "max_levels": 2, "encoding": {"b": "levels"}, "tol": 1e-8}
        chooses = getattr(sl, cls.__name__ + "CV")
        model = chooses(Cs=[0.1, 1.0], n_bases=[4, 7], cv=3, **options).fit(frame, target)
        plain = cls(C=model.C_, n_bases=model.n_bases_, **options).fit(frame, target)
        assert model.levels_ == plain.levels_
        scale = abs(plain.coef_).max()
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4 * scale)
        np.testing.assert_allclose(model.predict(frame), plain.predict(frame), atol=1e-3)
        assert model.explain(frame).shape == (600, 5)
        with pytest.raises(AttributeError, match="no partial_fit"):
            model.partial_fit(frame, target)
    with pytest.raises(SourceError, match=r"column 'a' holds \d+ NaN \(missing\)"):
        chooses(Cs=[1.0], missing="error").fit(frame, target)


def test_saved_and_calibrated(tmp_path):
    X, y = table(600)
    model = sl.AdditiveClassifierCV("squared_hinge", Cs=2, n_bases=5, calibration="sigmoid")
    model.fit(X, y)
    sl.save(model, tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (loaded.C_, loaded.n_bases_) == (model.C_, model.n_bases_)
    np.testing.assert_array_equal(scores_of(loaded), scores_of(model))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (sl.AdditiveClassifierCV(Cs=[0.0, 1.0]), "Cs=.*expected a number of values, or"),
        (sl.AdditiveClassifierCV(n_bases=[1, 5]), "n_bases=.*expected an integer from 2"),
        (sl.AdditiveClassifierCV("squared_hinge", scoring="neg_log_loss"), "probabilities"),
        (sl.AdditiveClassifierCV(scoring="r2"), "does not fit"),
        (sl.AdditiveClassifierCV(scoring="log_loss"), "use 'neg_log_loss'"),
    ],
)
def test_refused_by_name(model, message):
    X, y = table(60)
    with pytest.raises((ValueError, AttributeError), match=message):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (sl.AdditiveRegressorCV(cv="gcv", one_standard_error=True), "spread over splits"),
        (sl.AdditiveRegressorCV(cv="gcv", scoring="r2"), "mean squared error"),
        (sl.AdditiveRegressorCV("huber", cv="gcv"), "loss='squared_error', got loss='huber'"),
    ],
)
def test_gcv_combinations_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*regression(60))


def test_validation_is_refused():
    X, y = table(60)
    with pytest.raises(ValueError, match="judges on its splits"):
        sl.AdditiveClassifierCV(Cs=2).fit(X, y, validation=0.2)
