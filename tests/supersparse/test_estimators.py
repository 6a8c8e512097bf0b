"""The estimators as scikit-learn and their users see them."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamlearn as sl
from streamlearn.supersparse.parameters import OF_DIFFERENCES
from streamlearn.supersparse.similarity import make_similarity


def expected_failures(estimator):
    """`cv` is a number of folds by the hash of a row's content; these checks give lists of rows."""
    if not hasattr(estimator, "cv"):
        return {}
    reason = "cv takes a number of folds, not lists of row numbers"
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.turns(3, 0)
@parametrize_with_checks(
    [
        sl.SuperSparseRegressor(),
        sl.SuperSparseClassifier(),
        sl.SuperSparseRegressorCV((1, 2), cv=2),
        sl.SuperSparseClassifierCV((1, 2), cv=2),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def moons(n=300):
    return make_moons(n, noise=0.15, random_state=0)


@pytest.mark.parametrize("classes", [2, 3])
def test_log_loss_coefficients_are_those_of_logistic_regression(classes):
    X, y = make_blobs(300, centers=classes, cluster_std=3.0, random_state=0)
    model = sl.SuperSparseClassifier(4, ridge=1e-3).fit(X, y)
    S = model.similarity_.values(X.astype(np.float64), model.prototypes_)
    oracle = LogisticRegression(C=1 / (2 * 1e-3 * len(X)), tol=1e-10, max_iter=10_000).fit(S, y)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(S), atol=1e-5)


def test_refit_by_reads_is_the_refit_in_memory(monkeypatch):
    X, y = moons(600)
    start = X[:4]
    options = {"init": start, "tol": 1e-6, "n_passes": 60}
    monkeypatch.setattr("streamlearn.supersparse.descent.SWAPS", 0)
    whole = sl.SuperSparseClassifier(4, **options).fit(X, y)
    monkeypatch.setattr("streamlearn.supersparse.model.SAMPLE_ROWS", 300)
    monkeypatch.setattr("streamlearn.supersparse.model.ROWS_PER_ENTRY", 0)
    streamed = sl.SuperSparseClassifier(4, **options).fit(X, y)
    losses = [m.history_[-1]["log_loss_objective"] for m in (whole, streamed)]
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)
    assert streamed.score(X, y) == pytest.approx(whole.score(X, y), abs=0.01)


def test_classes_share_prototypes():
    X, y = make_blobs(300, centers=5, random_state=1)
    model = sl.SuperSparseClassifier(6).fit(X, y)
    assert model.prototypes_.shape == (6, 2)
    assert model.coef_.shape == (5, 6)
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_squared_error_is_the_papers():
    """Binary targets -1 and 1: the decisions are those of the regressor."""
    X, y = moons()
    options = {"n_prototypes": 5, "init": X[:5]}
    model = sl.SuperSparseClassifier(**options, loss="squared_error").fit(X, y)
    same = sl.SuperSparseRegressor(**options).fit(X, 2.0 * y - 1.0)
    np.testing.assert_allclose(model.decision_function(X), same.predict(X), atol=1e-3)


def test_what_a_fit_tells():
    X, y = moons()
    model = sl.SuperSparseClassifier(5, loss="squared_error").fit(X, y)
    size = np.abs(model.coef_[0])
    assert (np.diff(size) <= 0).all()
    assert model.increase_.shape == (5,)
    assert model.gamma_ == pytest.approx(1 / (2 * X.var()), rel=1e-6)
    assert model.certificate_.converged
    assert model.certificate_.dual is None


def test_paper_schedule_reaches_a_like_place():
    X, y = moons()
    all_at_once = sl.SuperSparseClassifier(4, loss="squared_error").fit(X, y)
    paper = sl.SuperSparseClassifier(4, loss="squared_error", schedule="paper").fit(X, y)
    assert paper.score(X, y) > 0.95
    assert paper.certificate_.objective < 2 * all_at_once.certificate_.objective


def test_more_than_the_budget_is_refused():
    X, y = moons()
    with (
        sl.config_context(memory_budget="6MiB"),
        pytest.raises(sl.MemoryBudgetError, match="prototypes"),
    ):
        sl.SuperSparseClassifier(200).fit(X, y)


SIMILARITIES = ("rbf", "laplacian", "linear", "poly", "chi2")


@pytest.mark.parametrize("similarity", OF_DIFFERENCES)
def test_what_sees_differences_alone_does_not_see_where_columns_lie(similarity):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 64, (300, 3)) / 64.0  # so that a shift loses no digit
    y = np.sin(6 * X[:, 0]) + X[:, 1]
    fits = [
        sl.SuperSparseRegressor(4, similarity=similarity, scaling="standard").fit(X + shift, y)
        for shift in (np.zeros(3), np.array([0.0, 64.0, -256.0]))
    ]
    assert [fit.gamma_ for fit in fits] == pytest.approx([1 / 3] * 2, rel=1e-6)
    assert fits[1].score(X + [0.0, 64.0, -256.0], y) == pytest.approx(fits[0].score(X, y), abs=1e-2)


@pytest.mark.parametrize(("n", "ridge"), [(40, 1e-3), (400, 1e-4), (80_000, 1e-6)])
def test_few_rows_have_more_of_a_ridge(n, ridge):
    X = np.linspace(0, 1, n)[:, None]
    y = np.sin(6 * X[:, 0])
    auto = sl.SuperSparseRegressor(3).fit(X, y)
    given = sl.SuperSparseRegressor(3, ridge=ridge).fit(X, y)
    np.testing.assert_allclose(auto.coef_, given.coef_, rtol=1e-5)  # 0.04 / n in float32


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("sparse", [False, True])
def test_scaling_is_a_fit_to_scaled_columns(similarity, sparse):
    """The fit scales columns by itself, and gives prototypes in the columns' units."""
    rng = np.random.default_rng(0)
    unit = np.array([1e-6, 1.0, 1e5])
    X = rng.random((200, 3)) * unit
    y = np.sin(6 * X[:, 0] / unit[0]) + X[:, 2] / unit[2]
    given = csr_array(X) if sparse else X
    options = {"similarity": similarity, "random_state": 1}
    model = sl.SuperSparseRegressor(4, scaling="standard", **options).fit(given, y)
    scale = (1 / X.std(axis=0)).astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(model.similarity_.scale, scale, rtol=1e-6)
    scale = model.similarity_.scale
    options["gamma"] = model.gamma_
    plain = sl.SuperSparseRegressor(4, scaling="none", **options).fit(X * scale, y)
    np.testing.assert_allclose(model.predict(given), plain.predict(X * scale), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.prototypes_ * scale, plain.prototypes_, rtol=1e-6)
    S = model.similarity_.values(X, model.prototypes_)
    decisions = S @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.predict(given), decisions, rtol=1e-6, atol=1e-8)


def test_a_column_without_spread_keeps_its_unit_and_histograms_theirs():
    X, y = moons()
    X = np.column_stack([X, np.full(len(X), 7.0)])
    model = sl.SuperSparseClassifier(5, scaling="standard").fit(X, y)
    assert model.similarity_.scale[2] == 1.0
    shifted = X - X.min(axis=0)
    assert sl.SuperSparseClassifier(5, similarity="chi2").fit(shifted, y).similarity_.scale is None


def test_columns_that_share_one_scale_are_taken_as_they_are():
    """Like pixels, of which many make the distances; whatever their unit."""
    rng = np.random.default_rng(0)
    pixels = 255 * rng.random((200, 8)) * np.linspace(0.3, 1, 8)
    y = pixels[:, 0] + pixels[:, 7]
    for factors, scaled in ((1.0, False), (1e6, False), (np.r_[100.0, np.ones(7)], True)):
        model = sl.SuperSparseRegressor(3).fit(pixels * factors, y)
        assert (model.similarity_.scale is not None) == scaled
    assert sl.SuperSparseRegressor(3).fit(pixels[:, :1], y).similarity_.scale is None


def test_a_start_is_given_in_the_units_of_the_columns():
    X, y = moons()
    first = sl.SuperSparseRegressor(4, random_state=3).fit(X, y)
    again = sl.SuperSparseRegressor(4, init=first.prototypes_).fit(X, y)
    assert again.certificate_.objective <= first.certificate_.objective * (1 + 1e-9)


def test_the_derivative_of_a_scaled_similarity():
    rng = np.random.default_rng(0)
    X, Z, R = rng.random((9, 2)), rng.random((3, 2)), rng.random((9, 3))
    sim = make_similarity("rbf", gamma=0.7, centre=np.ones(2), scale=np.array([2.0, 0.5]))
    found = sim.gradient(X, Z, sim.values(X, Z), R)
    for j in range(3):
        for d in range(2):
            step = np.zeros((3, 2))
            step[j, d] = 1e-6
            rise = (R * (sim.values(X, Z + step) - sim.values(X, Z - step))).sum() / 2e-6
            assert found[j, d] == pytest.approx(rise, rel=1e-6)


def test_the_scale_is_saved(tmp_path):
    X, y = moons()
    X = X * [1.0, 1e4]
    model = sl.SuperSparseClassifier(5).fit(X, y)
    sl.save(model, tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    np.testing.assert_array_equal(loaded.similarity_.scale, model.similarity_.scale)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
