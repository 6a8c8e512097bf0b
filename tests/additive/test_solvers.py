"""Every loss with every solver offered for it, against other people's solvers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from additive_kit import as_dataset, table
from oracles import (
    DISPERSION,
    EPSILON,
    HOMOGENEITY,
    LOG_LINK,
    QUANTILE,
    kinked_optimum,
    linear_problem,
    multinomial_problem,
    smooth_optimum,
)
from scipy import sparse

import streamlearn as sl
from streamlearn.additive.costs import sizes
from streamlearn.additive.costs.solver_choice import METHODS, solver_table
from streamlearn.numeric.losses import LOSSES
from streamlearn.numeric.targets import NUMBER

OFFERED = solver_table()

BASES = dict(n_bases=6)
REGRESSIONS = [
    (loss, solver)
    for loss, solvers in OFFERED.items()
    for solver in solvers
    if solver != "pegasos" and loss in LOSSES and LOSSES[loss].target is NUMBER
]
LINKED = [(loss, solver) for loss in LOG_LINK for solver in ("newton", "lbfgs")]


def numbers(n=300, seed=0, loss="squared_error"):
    X, _ = table(n, seed)
    rng = np.random.default_rng(seed)
    f = np.sin(6 * X[:, 0]) + X[:, 2] - 0.5
    if loss in ("poisson", "negative_binomial"):
        return X, rng.poisson(np.exp(f)).astype(float)
    if loss == "gamma":
        return X, rng.gamma(2.0, np.exp(f) / 2) + 1e-3
    if loss == "tweedie":
        return X, rng.gamma(2.0, np.exp(f) / 2) * rng.poisson(np.exp(f))
    return X, f + 0.3 * rng.standard_normal(n) + 5


def optimum(problem):
    """(v, objective) by scipy."""
    kinked = problem.loss in ("epsilon_insensitive", "quantile")
    return kinked_optimum(problem) if kinked else smooth_optimum(problem)


def embedding_of(basis, **shape):
    if basis == "bspline":
        return sl.SplineEmbedding(6, **shape)
    return sl.FourierEmbedding(6, basis=basis, **shape)


def regress(X, y, loss, solver, **kw):
    tol = 2e-7 if solver == "dual-cd" else 1e-8
    kw = (
        BASES
        | dict(solver=solver, epsilon=EPSILON, quantile=QUANTILE, dispersion=DISPERSION)
        | dict(tol=tol, max_passes=3000)
        | kw
    )
    return sl.AdditiveRegressor(loss, **kw)


@pytest.mark.parametrize(("loss", "solver"), REGRESSIONS)
@pytest.mark.parametrize(("order", "form"), [(0, "dense"), (1, "csr"), (2, "dense"), (1, "cosine")])
def test_regression_optimum_is_that_of_the_explicit_features(loss, solver, order, form):
    X, y = numbers()
    basis = "cosine" if form == "cosine" else "bspline"
    rows = sparse.csr_array(X) if form == "csr" else X
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    mean = weight @ y / weight.sum()
    C = (
        0.1 if loss in ("epsilon_insensitive", "quantile") else 0.7
    )  # not smooth: epochs grow with C
    embedding = embedding_of(basis, penalty_order=order).fit(rows, sample_weight=weight)
    problem = linear_problem(embedding, rows, y - mean, loss, C=C, weight=weight)
    v, best = optimum(problem)
    model = regress(X, y, loss, solver, C=C, penalty_order=order, basis=basis)
    model.fit(rows, y, weight)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert model.certificate_.converged
    assert model.certificate_.solver in (solver, "gram")
    np.testing.assert_allclose(model.predict(rows), problem.A @ v + mean, atol=0.01)


@pytest.mark.parametrize(("loss", "solver"), LINKED)
@pytest.mark.parametrize("form", ["dense", "csr", "cosine"])
def test_counts_and_amounts(loss, solver, form):
    X, y = numbers(loss=loss)
    rows = sparse.csr_array(X) if form == "csr" else X
    basis = "cosine" if form == "cosine" else "bspline"
    problem = linear_problem(embedding_of(basis).fit(rows), rows, y, loss, C=0.7)
    problem = replace(problem, offset=np.log(y.mean()))
    v, best = smooth_optimum(problem)
    model = regress(X, y, loss, solver, C=0.7, basis=basis).fit(rows, y)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(model.predict(rows), y.mean() * np.exp(problem.A @ v), rtol=1e-3)


@pytest.mark.parametrize("loss", HOMOGENEITY)
@pytest.mark.parametrize("kind", ["exposure", "offset"])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_exposure_is_a_column_without_a_curve(loss, kind, form):
    X, y = numbers(loss=loss)
    exposure = np.random.default_rng(2).uniform(0.5, 3, len(y))
    y = np.ceil(y * exposure) + (loss == "gamma")
    column = exposure if kind == "exposure" else np.log(exposure)
    both = np.column_stack([X, column])
    form = sparse.csr_array if form == "csr" else np.asarray
    model = regress(X, y, loss, "newton", **{kind: 5}).fit(form(both), y)
    assert len(model.knots_[5]) == 0
    mean = y.mean() / (exposure.mean() if kind == "exposure" else np.exp(column.mean()))
    problem = linear_problem(
        sl.SplineEmbedding(6).fit(form(X)), form(X), y / exposure / mean, loss,
        weight=(exposure * mean) ** HOMOGENEITY[loss],
    )  # fmt: skip
    v, best = smooth_optimum(problem)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(
        model.predict(form(both)), exposure * mean * np.exp(problem.A @ v), rtol=2e-3
    )


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_so_many_targets_lie_below_a_quantile(quantile):
    X, y = numbers(2000)
    model = sl.AdditiveRegressor("quantile", quantile=quantile, n_bases=6, C=1.0).fit(X, y)
    assert np.mean(y < model.predict(X)) == pytest.approx(quantile, abs=0.02)


@pytest.mark.parametrize(
    ("loss", "kind", "solver"),
    [
        ("poisson", "exposure", "newton"),
        ("poisson", "exposure", "lbfgs"),
        ("gamma", "offset", "newton"),
        ("huber", "offset", "newton"),
        ("huber", "offset", "dual-cd"),
        ("squared_error", "offset", "newton"),
    ],
)
def test_exposures_and_offsets_of_a_file_are_seen_before_columns_become_coordinates(
    loss, kind, solver, tmp_path
):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = numbers(loss=loss)
    column = np.random.default_rng(2).uniform(0.5, 3, len(y))
    both = np.column_stack([X, column]).astype(np.float32)
    columns = {f"x{j}": both[:, j] for j in range(6)} | {"y": y}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=100)
    model = regress(X, y, loss, solver, **{kind: "x5"})
    model.fit(sl.open_dataset(tmp_path / "t.parquet", target="y"))
    alone = regress(X, y, loss, solver, **{kind: 5}).fit(both, y)
    assert model.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(
        model.predict(columns_of(both)), alone.predict(both), rtol=1e-2, atol=1e-2
    )


def columns_of(X):
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def test_offset_is_added_to_the_prediction():
    X, y = numbers()
    offset = 3 * np.random.default_rng(3).standard_normal(len(y))
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcde")).assign(known=offset)
    model = regress(X, y, "huber", "newton", offset="known").fit(frame, y + offset)
    alone = regress(X, y, "huber", "newton").fit(X, y)
    assert model.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(model.predict(frame), alone.predict(X) + offset, atol=1e-3)


def test_saved_model_keeps_its_exposure(tmp_path):
    X, y = numbers(loss="poisson")
    X[:, 1] += 0.5
    model = sl.AdditiveRegressor("poisson", exposure=1, **BASES).fit(X, y)
    sl.save(model, tmp_path / "m.slm")
    np.testing.assert_array_equal(sl.load(tmp_path / "m.slm").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (dict(loss="poisson"), "counts of at least 0"),
        (dict(loss="gamma"), "amounts above 0"),
        (dict(loss="tweedie"), "totals of at least 0"),
        (dict(loss="negative_binomial"), "counts of at least 0"),
        (dict(loss="negative_binomial", exposure=1), "whose dispersion would be another one in"),
        (dict(loss="negative_binomial", offset=1), "use loss='poisson', or fit y / exposure"),
        (dict(loss="negative_binomial", dispersion=0), "'dispersion' parameter"),
        (dict(exposure=0), "loss='poisson', 'tweedie' or"),
        (dict(loss="poisson", exposure=1, offset=2), "both given"),
        (dict(loss="poisson", solver="dual-cd"), "needs a loss whose dual.*'newton' or 'lbfgs'"),
        (dict(loss="epsilon_insensitive", solver="newton"), "needs a smooth loss"),
        (dict(loss="squared_error", solver="pegasos"), "bounded slope"),
        (dict(offset="z"), "none of the columns"),
        (dict(offset=9), "none of the 5 columns"),
        (dict(warm_start=True, solver="dual-cd"), "warm_start=True goes with"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(parameters, message):
    X, y = numbers(50)
    y = y - 6 if parameters.get("loss") in LOG_LINK and len(parameters) == 1 else y
    with pytest.raises(ValueError, match=message):
        sl.AdditiveRegressor(**parameters).fit(X, y)


def test_exposures_must_be_above_0():
    X, y = numbers(50, loss="poisson")
    with pytest.raises(ValueError, match="exposure=2 must be above 0"):
        sl.AdditiveRegressor("poisson", exposure=2).fit(X, y)


# Classification beyond one curve.


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_lbfgs_reaches_the_optimum_that_newton_proves(loss, form):
    X, y = table(300, n_classes=3)
    rows = sparse.csr_array(X) if form == "csr" else X
    kw = dict(tol=1e-8, max_passes=500, C=2.0, multi_class="ovr", **BASES)
    a = sl.AdditiveClassifier(loss, solver="lbfgs", **kw).fit(rows, y)
    b = sl.AdditiveClassifier(loss, solver="newton", **kw).fit(rows, y)
    np.testing.assert_allclose(a.certificate_.primal, b.certificate_.primal, rtol=1e-8)
    assert a.certificate_.solver == "lbfgs"


def test_lbfgs_reads_many_rows_few_times(monkeypatch):
    monkeypatch.setattr(sizes, "SAMPLE_ROWS", 400)
    monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 0)
    X, y = table(4000)
    model = sl.AdditiveClassifier(solver="lbfgs", tol=1e-7, **BASES).fit(X, y)
    best = sl.AdditiveClassifier(solver="dual-cd", tol=1e-6, **BASES).fit(X, y)
    assert model.certificate_.primal == pytest.approx(best.certificate_.primal, rel=1e-6)
    assert 3 < model.n_passes_ < 25


@pytest.mark.parametrize(
    ("small", "basis"), [(False, "bspline"), (True, "bspline"), (False, "cosine")]
)
def test_multinomial_optimum_is_scikit_learns(small, basis, monkeypatch):
    if small:
        monkeypatch.setattr(sizes, "SAMPLE_ROWS", 300)
        monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 0)
    X, y = table(1500 if small else 300, n_classes=3)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    embedding = embedding_of(basis).fit(X, sample_weight=weight)
    best, probability = multinomial_problem(embedding, X, y, weight, C=0.8)
    model = sl.AdditiveClassifier(
        multi_class="multinomial", C=0.8, tol=1e-8, max_passes=500, basis=basis, **BASES
    ).fit(as_dataset(X, y, weight, rows=100))
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert model.certificate_.solver == "lbfgs"
    np.testing.assert_allclose(model.predict_proba(X), probability, atol=2e-3)
    assert 0 <= model.certificate_.relative_gap <= 1e-8


def test_multinomial_of_two_classes_is_the_one_curve():
    X, y = table(200)
    a = sl.AdditiveClassifier(multi_class="multinomial", **BASES).fit(X, y)
    b = sl.AdditiveClassifier(solver="lbfgs", **BASES).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


def test_multinomial_belongs_to_the_log_loss_and_lbfgs():
    X, y = table(60, n_classes=3)
    with pytest.raises(ValueError, match="needs loss='log_loss'"):
        sl.AdditiveClassifier("hinge", multi_class="multinomial").fit(X, y)
    with pytest.raises(ValueError, match=r"multinomial.*use solver='lbfgs'"):
        sl.AdditiveClassifier(multi_class="multinomial", solver="newton").fit(X, y)


@pytest.mark.parametrize(
    ("loss", "solver"), [("log_loss", "newton"), ("hinge", "dual-cd"), ("squared_hinge", "lbfgs")]
)
@pytest.mark.parametrize("given", ["balanced", "dict"])
def test_class_weights_multiply_sample_weights(loss, solver, given):
    X, y = table(200)
    weight = np.random.default_rng(1).integers(1, 3, 200).astype(float)
    counts = np.bincount(y, weight)
    factors = counts.sum() / (2 * counts) if given == "balanced" else np.array([1.0, 2.5])
    kw = dict(solver=solver, tol=1e-7, max_passes=2000, **BASES)
    a = sl.AdditiveClassifier(
        loss, class_weight="balanced" if given == "balanced" else {1: 2.5}, **kw
    ).fit(X, y, weight)
    problem = linear_problem(
        sl.SplineEmbedding(6).fit(X, sample_weight=weight * factors[y]), X, 2 * y - 1, loss,
        weight=weight * factors[y],
    )  # fmt: skip
    from oracles import liblinear

    assert a.certificate_.primal == pytest.approx(liblinear(problem)[1], rel=1e-6)


def test_bad_class_weights_are_named():
    X, y = table(60)
    with pytest.raises(ValueError, match="none of the classes"):
        sl.AdditiveClassifier(class_weight={7: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight must be finite and above 0, got"):
        sl.AdditiveClassifier(class_weight={0: -1.0}).fit(X, y)


# Warm start.


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_warm_start_begins_where_the_last_fit_ended(solver, monkeypatch):
    monkeypatch.setattr(sizes, "SAMPLE_ROWS", 400)
    monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 0)
    X, y = table(3000)
    model = sl.AdditiveClassifier(solver=solver, tol=1e-6, warm_start=True, **BASES).fit(X, y)
    cold, first = model.certificate_.primal, model.history_[0]["objective"]
    model.fit(X, y)
    # two evaluations of one point differ by the rounding of single precision: 3e-9 of the value
    assert model.certificate_.primal <= cold * (1 + 1e-8)
    assert model.history_[0]["objective"] <= first
    assert model.history_[0]["objective"] == pytest.approx(cold, rel=1e-4)
    model.set_params(C=3.0).fit(X, y)
    again = sl.AdditiveClassifier(solver=solver, C=3.0, tol=1e-6, **BASES).fit(X, y)
    assert model.certificate_.primal == pytest.approx(again.certificate_.primal, rel=2e-6)
    with pytest.raises(ValueError, match="fit a new estimator"):
        model.fit(X[:, :3], y)
    with pytest.raises(ValueError, match="fit a new estimator"):
        model.fit(X, y + (X[:, 0] > 0.5))


def test_warm_start_of_a_regression_and_of_a_checkpoint(tmp_path):
    X, y = numbers(loss="poisson")
    model = sl.AdditiveRegressor("poisson", warm_start=True, **BASES).fit(X, y)
    before = model.certificate_.primal
    model.fit(X, y, checkpoint=tmp_path / "run")
    assert model.certificate_.primal <= before * (1 + 1e-9)
    fresh = sl.AdditiveRegressor("poisson", warm_start=True, **BASES)
    fresh.fit(X, y, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(fresh.coef_, model.coef_)


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "dual-cd", "pegasos"])
def test_early_stopping_for_every_solver(solver, monkeypatch):
    monkeypatch.setattr(sizes, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 0)
    X, y = table(2000)
    model = sl.AdditiveClassifier(
        solver=solver, C=100.0, tol=1e-12, early_stopping=True, max_passes=40, **BASES
    )
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, validation=table(300, seed=1))
    losses = [r["validation_loss"] for r in model.history_ if "validation_loss" in r]
    assert len(losses) >= 3
    if model.certificate_.criterion == "validation loss":
        f = (2 * table(300, seed=1)[1] - 1) * model.decision_function(table(300, seed=1)[0])
        assert np.logaddexp(0, -f).mean() == pytest.approx(min(losses), rel=1e-5)


def test_targets_of_any_size_take_no_exponential():
    """The mean of numbers is far from what exp can take; warnings are errors here."""
    X, y = numbers(loss="squared_error")
    small = sl.AdditiveRegressor(**BASES).fit(X, y).predict(X)
    large = sl.AdditiveRegressor(**BASES).fit(X, y + 1e5).predict(X)
    np.testing.assert_allclose(large - 1e5, small, atol=1e-6)


def test_the_page_of_families_lists_the_solvers_of_each_loss():
    page = (Path(__file__).parents[2] / "docs" / "families" / "additive.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    listed = {row[1].split("`")[1]: set(row[2].split("`")[1::2]) for row in rows if len(row) == 5}
    single = {name: solvers for name, solvers in OFFERED.items() if " " not in name}
    of_solver = {s: {n for n, offered in single.items() if s in offered} for s in METHODS}
    for solver in ("newton", "pegasos"):
        assert listed[solver] == of_solver[solver]
    assert of_solver["lbfgs"] == of_solver["newton"]
    assert "lbfgs" in OFFERED["multinomial log_loss"]
    assert set(single) - of_solver["dual-cd"] == listed["dual-cd"]
