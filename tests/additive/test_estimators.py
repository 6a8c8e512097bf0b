import numpy as np
import pytest
from additive_kit import as_dataset, table
from oracles import least_squares, liblinear, linear_problem, repeat_rows
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import streamlearn as sl
from streamlearn.additive.costs import sizes, solver_choice
from streamlearn.additive.costs.solver_choice import solver_table
from streamlearn.numeric.losses import LOSSES
from streamlearn.numeric.targets import CLASS

BASES = dict(n_bases=6)
ENDS = [
    ("log_loss", "newton"),
    ("squared_hinge", "newton"),
    ("log_loss", "dual-cd"),
    ("squared_hinge", "dual-cd"),
    ("hinge", "dual-cd"),
]


def fit(X, y, loss="log_loss", solver="auto", **kw):
    kw = BASES | {"tol": 1e-8 if solver == "newton" else 2e-7, "max_passes": 2000} | kw
    return sl.AdditiveClassifier(loss, solver=solver, **kw).fit(X, y)


@pytest.fixture
def small_sample(monkeypatch):
    """Tables of a few thousand rows are many: a sample is a tenth of them."""
    monkeypatch.setattr(sizes, "SAMPLE_ROWS", 400)
    monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 0)


@pytest.mark.parametrize(("loss", "solver"), ENDS)
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_optimum_is_that_of_liblinear_on_the_explicit_features(loss, solver, degree, order):
    X, y = table(250)
    shape = dict(n_bases=6, degree=degree, penalty_order=order)
    problem = linear_problem(sl.SplineEmbedding(**shape).fit(X), X, 2 * y - 1, loss, C=0.2)
    v, best = liblinear(problem)
    model = fit(X, y, loss, solver, C=0.2, **shape)
    certificate = model.certificate_
    assert certificate.primal == pytest.approx(best, rel=1e-6)
    assert certificate.primal - certificate.dual >= certificate.primal - best - 1e-9 * best
    np.testing.assert_allclose(model.decision_function(X), problem.A @ v, atol=0.02)
    assert certificate.solver == solver
    assert certificate.converged


@pytest.mark.parametrize(("loss", "solver"), [ENDS[0], ENDS[4]])
def test_optimum_with_paper_penalty_uniform_knots_and_another_intercept(loss, solver):
    X, y = table(200)
    shape = dict(n_bases=6, penalty_order=2, penalty_scale="paper", knots="uniform", degree=2)
    embedding = sl.SplineEmbedding(**shape).fit(X)
    problem = linear_problem(embedding, X, 2 * y - 1, loss, C=0.01, intercept_scaling=3.0)
    model = fit(X, y, loss, solver, C=0.01, intercept_scaling=3.0, **shape)
    assert model.certificate_.primal == pytest.approx(liblinear(problem)[1], rel=1e-6)


@pytest.mark.parametrize("rows", [None, 37])
def test_squared_error_is_the_direct_solve(rows):
    X, _ = table(400)
    y = np.sin(6 * X[:, 0]) + X[:, 2] + 5
    weight = np.random.default_rng(0).integers(0, 3, 400).astype(float)
    embedding = sl.SplineEmbedding(6).fit(X, sample_weight=weight)
    mean = weight @ y / weight.sum()
    problem = linear_problem(embedding, X, y - mean, "squared_error", C=3.0, weight=weight)
    v, best = least_squares(problem)
    model = sl.AdditiveRegressor(n_bases=6, C=3.0).fit(as_dataset(X, y, weight, rows))
    np.testing.assert_allclose(model.predict(X), problem.A @ v + mean, rtol=1e-9)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-9)
    assert model.n_passes_ == 2
    assert 0 <= model.certificate_.relative_gap < 1e-12


def test_squared_error_by_newton_is_the_same_optimum(monkeypatch, small_sample):
    X, _ = table(4000)
    y = np.sin(6 * X[:, 0]) + X[:, 2]
    one = sl.AdditiveRegressor(n_bases=6).fit(X, y)
    monkeypatch.setattr(solver_choice, "GRAM_NBYTES", 0)
    many = sl.AdditiveRegressor(n_bases=6, tol=1e-10).fit(X, y)
    assert many.certificate_.solver == "newton"
    assert many.n_passes_ > 2
    np.testing.assert_allclose(one.predict(X), many.predict(X), atol=1e-4)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_newton_from_a_sample_proves_the_optimum_of_all_rows(loss, small_sample):
    X, y = table(4000)
    model = fit(X, y, loss, "newton", tol=1e-9)
    whole = fit(X, y, loss, "dual-cd", tol=1e-7)
    assert 3 < model.n_passes_ < 15
    best = model.certificate_.primal
    assert best == pytest.approx(whole.certificate_.primal, rel=2e-7)
    for record in model.history_:  # every read's gap covers the true suboptimality
        assert record["objective"] - record["dual"] >= record["objective"] - best - 1e-9 * best
        assert record["objective"] >= record["dual"]


def test_rare_values_that_the_sample_missed_do_not_stop_newton(small_sample):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (6000, 8)) * (rng.random((6000, 8)) < 0.004) * 1.0
    X[:, 0] = rng.random(6000)
    y = rng.random(6000) < 1 / (1 + np.exp(-(3 * X[:, 0] - 1 + 4 * X[:, 1:].sum(axis=1))))
    model = fit(X, y, "log_loss", "newton", C=10.0, tol=1e-8)
    assert model.certificate_.converged
    assert model.n_passes_ < 20


@pytest.mark.parametrize(("loss", "solver"), ENDS)
def test_classes_one_against_the_rest_are_binary_fits(loss, solver):
    X, y = table(300, n_classes=3)
    together = fit(X, y, loss, solver)
    assert together.coef_.shape[0] == len(together.certificate_.primal) == 3
    for k in range(3):
        alone = fit(X, y == k, loss, solver)
        assert together.certificate_.primal[k] == pytest.approx(alone.certificate_.primal, rel=1e-6)
    gaps = 1 - together.certificate_.dual / together.certificate_.primal
    assert together.certificate_.relative_gap == pytest.approx(gaps.max(), abs=1e-14)


@pytest.mark.parametrize(("loss", "solver"), ENDS)
def test_weights_are_copies_and_0_is_absent(loss, solver):
    X, y = table(300)
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    kw = BASES | {"tol": 1e-7, "max_passes": 2000}
    a = sl.AdditiveClassifier(loss, solver=solver, **kw).fit(X, y, weight)
    b = sl.AdditiveClassifier(loss, solver=solver, **kw).fit(*repeat_rows(weight, X, y))
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=3e-7)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=0.01)


@pytest.mark.parametrize(("loss", "solver"), ENDS)
def test_rows_sorted_by_class_reach_the_same_objective(loss, solver):
    X, y = table(600)
    order = np.argsort(y, kind="stable")
    mixed = fit(as_dataset(X, y, rows=30), None, loss, solver, tol=1e-5)
    ordered = fit(as_dataset(X[order], y[order], rows=30), None, loss, solver, tol=1e-5)
    assert mixed.certificate_.primal == pytest.approx(ordered.certificate_.primal, rel=2e-5)


@pytest.mark.parametrize(("loss", "solver"), ENDS)
def test_same_bits_for_any_number_of_threads(loss, solver, small_sample):
    import dask

    X, y = table(2000)
    dataset = as_dataset(X.astype(np.float32), y, rows=100)
    models = []
    for threads in (1, 2, 4):
        with dask.config.set(num_workers=threads):
            models.append(fit(dataset, None, loss, solver, tol=1e-3))
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        np.testing.assert_array_equal(model.intercept_, models[0].intercept_)


@pytest.mark.parametrize(("loss", "solver"), [ENDS[0], ENDS[4]])
def test_sparse_rows_are_fitted_as_their_reference_says(loss, solver):
    X, y = table(250)
    rows = sparse.csr_array(X)
    embedding = sl.SplineEmbedding(6).fit(rows)
    problem = linear_problem(embedding, rows, 2 * y - 1, loss, C=0.3)
    model = fit(rows, y, loss, solver, C=0.3)
    assert model.certificate_.primal == pytest.approx(liblinear(problem)[1], rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), model.decision_function(rows), rtol=1e-9)


def test_terms_have_mean_0_and_add_up():
    X, y = table(300)
    model = fit(X, y, degree=3)
    terms = np.column_stack([model.shape_function(d, X[:, d]) for d in range(X.shape[1])])
    np.testing.assert_allclose(terms.sum(axis=1) + model.intercept_, model.decision_function(X))
    np.testing.assert_allclose(terms.mean(axis=0), 0, atol=0.02)
    assert not terms[:, 3].any()  # the constant column
    assert len(model.knots_) == 5
    assert list(model.knots_[2]) == [0, 1, 2]
    with pytest.raises(ValueError, match="no column 'z'"):
        model.shape_function("z", [0.0])


def test_reads_cached_in_scratch_change_nothing(tmp_path):
    import pandas as pd

    X, y = table(400)
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcde")).assign(y=y)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    data = sl.open_dataset(tmp_path / "t.parquet", target="y")
    with sl.config_context(scratch=str(tmp_path)):
        a = fit(data, None, "hinge")
    with sl.config_context(scratch=False), pytest.raises(sl.ScratchError, match="scratch is False"):
        fit(data, None, "hinge")  # the dual variables need a place
    b = fit(frame.drop(columns="y"), y, "hinge")
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-6)


def test_stopping_short_is_said():
    X, y = table(300)
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        model = sl.AdditiveClassifier("hinge", tol=1e-9, max_passes=4, **BASES).fit(X, y)
    assert not model.certificate_.converged
    assert model.n_passes_ <= 4
    assert model.certificate_.relative_gap > 1e-9


def test_early_stopping_goes_back_to_the_best_read(small_sample):
    X, y = table(3000)
    X_test, y_test = table(300, seed=1)
    model = sl.AdditiveClassifier("hinge", C=100.0, tol=1e-9, early_stopping=True, **BASES)
    model.fit(X, y, validation=(X_test, y_test))
    losses = [r["validation_loss"] for r in model.history_ if "validation_loss" in r]
    assert model.certificate_.criterion == "validation loss"
    assert len(losses) >= 4
    f = (2 * y_test - 1) * model.decision_function(X_test)
    assert np.maximum(0, 1 - f).mean() == pytest.approx(min(losses))


@pytest.mark.parametrize(
    ("loss", "budget", "n_columns", "solver"),
    [
        ("log_loss", "1GiB", 50, "newton"),
        ("log_loss", "64MiB", 50, "newton"),
        ("hinge", "1GiB", 5, "dual-cd"),
        ("log_loss", "64MiB", 400, "dual-cd"),
        ("squared_hinge", "64GiB", 784, "dual-cd"),
    ],
)
def test_solver_is_chosen_by_size_and_the_budget_that_was_set(loss, budget, n_columns, solver):
    data = as_dataset(np.zeros((10, n_columns)), np.zeros(10))
    with sl.config_context(memory_budget=budget):
        choice = sl.AdditiveClassifier(loss)._choice(data)
    assert choice.solver == solver
    assert choice.reason


@pytest.mark.parametrize(
    ("n", "p", "kw", "solver"),
    [
        (100_000, 500, {}, "dual-cd"),
        (60_000, 784, {"tol": 1e-2}, "dual-cd"),
        (5_000, 600, {"n_bases": 8}, "dual-cd"),
        (300, 20, {"n_bases": 20}, "newton"),
        (1_000_000, 20, {"n_bases": 20}, "newton"),
        (200_000, 100, {"n_bases": 20}, "newton"),
        # parameters that the prediction was not measured for
        (100_000, 500, {"C": 10.0}, "newton"),
        (100_000, 500, {"tol": 1e-6}, "newton"),
        (100_000, 500, {"max_passes": 10}, "newton"),
        (100_000, 500, {"warm_start": True}, "newton"),
        (100_000, 500, {"basis": "cosine"}, "newton"),
        (100_000, 500, {"loss": "squared_hinge"}, "newton"),
    ],
)
def test_auto_leaves_newton_where_dual_cd_is_predicted_to_be_much_faster(n, p, kw, solver):
    data = as_dataset(np.broadcast_to(np.float32(0), (n, p)), np.zeros(n))
    model = sl.AdditiveClassifier(**({"loss": "log_loss", "n_bases": 10} | kw))
    choice = model._choice(data)
    assert choice.solver == solver
    if solver == "dual-cd":
        assert "newton" in choice.reason


def test_auto_stays_with_newton_where_the_budget_keeps_no_rows_for_dual_cd():
    data = as_dataset(np.broadcast_to(np.float32(0), (100_000, 450)), np.zeros(100_000))
    model = sl.AdditiveClassifier("log_loss", n_bases=10)
    for budget, solver in (("330MiB", "newton"), ("1GiB", "dual-cd")):  # a matrix takes 155 MiB
        with sl.config_context(memory_budget=budget):
            assert model._choice(data).solver == solver


@pytest.mark.parametrize("loss", LOSSES)
def test_many_pairs_are_left_to_gradients_wherever_the_loss_has_them(loss):
    # a dual epoch writes all functions of a pair out for each row, a gradient looks four up
    kind = sl.AdditiveClassifier if LOSSES[loss].target is CLASS else sl.AdditiveRegressor
    data = as_dataset(np.broadcast_to(np.float32(0), (1_000, 20)), np.zeros(1_000))
    choice = kind(loss, C=1.0, n_bases=20, interactions=100)._choice(data)
    if "lbfgs" in solver_table()[loss]:
        assert choice.solver in ("lbfgs", "gram")
    else:
        assert choice.solver == "dual-cd"


def test_newton_refuses_the_hinge():
    X, y = table(50)
    with pytest.raises(ValueError, match="smooth loss.*dual-cd"):
        fit(X, y, "hinge", "newton")


def test_probabilities_belong_to_the_log_loss():
    X, y = table(300, n_classes=3)
    p = fit(X, y).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert not hasattr(fit(X, y, "squared_hinge"), "predict_proba")
