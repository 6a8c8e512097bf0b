"""Every loss of the additive classes is a candidate's loss: each against fits by hand."""

import numpy as np
import pytest
from additive_kit import table
from laws.subjects import rows_of

import streamlearn as sl
from streamlearn.additive.targets import names_of
from streamlearn.estimator.scores.cross_validate import without_split
from streamlearn.numeric.losses import LOSSES
from streamlearn.numeric.targets import AMOUNT, COUNT
from streamlearn.solvers.splits import split_shares

N, SEED = 240, 4
EVERY = [
    (kind, loss)
    for kind in (sl.AdditiveClassifierCV, sl.AdditiveRegressorCV)
    for loss in sorted(names_of(kind._targets))
]
SMOOTH = {"tol": 1e-9, "intercept_scaling": 1e3}  # so that it is no matter where they are held to
KINKED = {"tol": 0.05}


def rows(loss):
    """Columns of few values, so that the knots are those of every split; weights 1 and 2."""
    X, y = table(N)
    X = np.round(6 * X) / 6
    rng = np.random.default_rng(1)
    f = np.sin(6 * X[:, 0]) + X[:, 2] - 0.5
    target = LOSSES[loss].target
    if target is COUNT:
        y = rng.poisson(np.exp(f)).astype(float)
    elif target is AMOUNT:
        y = rng.gamma(2.0, np.exp(f) / 2) + 1e-3
    elif target.name == "total":
        y = rng.poisson(np.exp(f)) * rng.gamma(2.0, 0.5, N)
    elif target.name == "number":
        y = f + rng.normal(0, 0.4, N)
    return rows_of(X, y, rng.integers(1, 3, N).astype(float), chunk_rows=100)


def test_no_loss_is_left_out():
    assert {loss for _, loss in EVERY} == set(LOSSES)


@pytest.mark.parametrize(("kind", "loss"), EVERY)
def test_a_choice_is_that_of_fits_by_hand(kind, loss):
    """Smooth losses to the optimum's precision, others bit by bit; all in fewer reads."""
    data, smooth = rows(loss), LOSSES[loss]().has("curvature")
    options = SMOOTH if smooth else KINKED
    model = kind(loss, Cs=[0.1, 10.0], n_bases=8, cv=2, random_state=SEED, **options).fit(data)
    edges, seed = split_shares(2, SEED)
    results, n_passes = model.cv_results_, 0
    for split in range(2):
        train, apart = without_split(data, edges, split, seed)
        for k, parameters in enumerate(results["params"]):
            plain = kind._plain(loss, **parameters, random_state=SEED, **options).fit(train)
            score = plain.score(apart, metric=model._scoring())
            near = pytest.approx(score, rel=1e-5) if smooth else score
            assert results[f"split{split}_test_score"][k] == near
            n_passes += plain.n_passes_
    parameters = results["params"][model.best_index_]
    best = kind._plain(loss, **parameters, random_state=SEED, **options).fit(data)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=1e-5 if smooth else 0, rtol=0)
    np.testing.assert_allclose(model.predict(data), best.predict(data), rtol=1e-5 * smooth)
    assert model.best_params_ == parameters
    assert (model.C_, model.n_bases_) == (parameters["C"], parameters["n_bases"])
    assert results["relative_gap"].max() <= options["tol"]
    assert model.n_passes_ < n_passes + 2 + best.n_passes_


@pytest.mark.parametrize(
    ("loss", "given", "scoring"),
    [
        ("poisson", {"exposure": 4}, None),
        ("gamma", {"offset": 4}, None),
        ("squared_error", {"offset": 4}, None),
        ("squared_error", {"offset": 4}, "r2"),
        ("huber", {"offset": 4}, None),
        ("quantile", {"offset": 4}, None),
    ],
)
def test_exposures_and_offsets_are_those_of_fits_by_hand(loss, given, scoring):
    X, _ = table(N)
    X = np.round(6 * X) / 6
    X[:, 4] = 0.5 + X[:, 1]
    rng = np.random.default_rng(2)
    y = rng.poisson(X[:, 4] * np.exp(X[:, 2])) + 1.0
    smooth = loss != "quantile"
    options = {**given, **(SMOOTH if smooth else KINKED)}
    model = sl.AdditiveRegressorCV(
        loss, Cs=[0.1, 10.0], n_bases=8, cv=2, scoring=scoring, **options
    )
    data = rows_of(X, y, np.ones(N), chunk_rows=100)
    model.fit(data)
    found = sl.cross_validate(
        sl.AdditiveRegressor(loss, n_bases=8, **options),
        data,
        2,
        {"C": [0.1, 10.0]},
        scoring=model._scoring(),
    )
    scores = [model.cv_results_[f"split{split}_test_score"] for split in range(2)]
    np.testing.assert_allclose(np.transpose(scores), found.scores, rtol=1e-5)
    best = sl.AdditiveRegressor(loss, C=model.C_, n_bases=8, **options).fit(data)
    np.testing.assert_allclose(model.predict(data), best.predict(data), rtol=1e-5)


def test_more_coefficients_than_newton_solves_for_are_fitted_split_by_split():
    rng = np.random.default_rng(0)
    X = rng.random((60, 50))
    y = (X[:, 0] > 0.5).astype(int)
    model = sl.AdditiveClassifierCV(n_bases=256, Cs=[1.0], cv=2, tol=1e-2).fit(X, y)
    plain = sl.AdditiveClassifier(n_bases=256, C=1.0, tol=1e-2)
    found = sl.cross_validate(plain, X, 2, scoring="neg_log_loss", y=y)
    scores = [model.cv_results_[f"split{split}_test_score"] for split in range(2)]
    np.testing.assert_array_equal(np.transpose(scores), found.scores)
    with sl.config_context(memory_budget="256MiB"):
        assert sl.plan(model, X).peak_bytes < 256 << 20
