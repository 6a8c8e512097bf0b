"""Fits by dual coordinate descent that share their reads, against LIBLINEAR on the rows of each."""

import numpy as np
import pandas as pd
import pytest
from additive_kit import as_dataset, table
from oracles import EPSILON, QUANTILE, kinked_optimum, liblinear, linear_problem
from scipy import sparse

import streamlearn as sl
from streamlearn.additive.choose import choosing, planned
from streamlearn.additive.choose import costs as cost
from streamlearn.additive.costs import sizes
from streamlearn.engine import planning
from streamlearn.numeric.losses import LOSSES
from streamlearn.solvers.splits import split_of_rows

DUAL = [name for name, kind in LOSSES.items() if kind().has("dual_rule")]
TOL, N, CS, CV = 1e-3, 400, [0.02, 0.2], 3


@pytest.fixture
def by_dual(monkeypatch):
    """Losses go to dual-cd that Newton's method would serve; what each group of fits has proved."""
    proved = []
    fit_together = choosing.fit_together

    def spying(run, source, turns, *args, **options):
        found = fit_together(run, source, turns, *args, **options)
        proved.extend(zip(turns.models, found, strict=True))
        return found

    monkeypatch.setattr(planned, "NEWTON_DIM", 1)
    monkeypatch.setattr(choosing, "fit_together", spying)
    return proved


@pytest.fixture(params=["all cached", "few cached", "none cached", "two groups"])
def room(request, monkeypatch):
    """Room for all rows, for some of 400 or for none; or for half of the fits."""
    if request.param == "two groups":
        monkeypatch.setattr(cost, "room", lambda: 60_000)
    elif request.param != "all cached":
        monkeypatch.setattr(planning, "CHOSEN_BYTES", 30_000 * (request.param == "few cached"))
    return request.param


def rows_of(loss):
    """Rows, their targets and weights."""
    X, y = table(N)
    X = X.astype(np.float32)
    if LOSSES[loss].target.name == "number":
        y = np.sin(6.0 * X[:, 0]) + np.random.default_rng(3).normal(0, 0.4, N)
    return X, y, np.random.default_rng(1).integers(0, 3, N).astype(float)


def written(X, y, weight, tmp_path):
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=y, w=weight)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    return sl.open_dataset(tmp_path / "t.parquet", target="y", weight="w")


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_each_fit_is_the_optimum_of_liblinear_on_the_rows_of_its_split(
    loss, by_dual, room, tmp_path
):
    X, y, weight = rows_of(loss)
    data = written(X, y, weight, tmp_path)
    model = sl.AdditiveClassifierCV(loss, Cs=CS, n_bases=6, cv=CV, tol=TOL, max_passes=500)
    model.fit(data)
    assert model.certificate_.solver == "dual-cd"
    assert len(by_dual) == len(CS) * CV
    embedding = sl.SplineEmbedding(6).fit(X, sample_weight=weight)
    split = split_of_rows(np.arange(N), CV, 0)
    copies = np.repeat(np.arange(N), weight.astype(int))
    for (problem, f), found in by_dual:
        own = copies[split[copies] != f]
        features = linear_problem(embedding, X[own], 2 * y[own] - 1, loss, C=problem.C)
        best = liblinear(features)[1]
        assert found.bound[0] <= best * (1 + 1e-6)
        assert best * (1 - 1e-6) <= found.value[0] <= best * (1 + 2 * TOL)
    assert model.cv_results_["relative_gap"].max() <= TOL


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "quantile"])
def test_each_fit_is_the_optimum_of_scipy_on_the_rows_of_its_split(loss, by_dual, tmp_path):
    """Held to the mean target of all rows, as smooth losses are; knots are those of all rows."""
    X, y, weight = rows_of(loss)
    data = written(X, y, weight, tmp_path)
    Cs = [0.02, 0.1]
    model = sl.AdditiveRegressorCV(
        loss, Cs=Cs, n_bases=6, cv=CV, tol=TOL, max_passes=500, epsilon=EPSILON, quantile=QUANTILE
    ).fit(data)
    assert len(by_dual) == len(Cs) * CV
    embedding = sl.SplineEmbedding(6).fit(X, sample_weight=weight)
    split = split_of_rows(np.arange(N), CV, 0)
    centred = y - np.average(y, weights=weight)
    for (problem, f), found in by_dual:
        own = (split != f) & (weight > 0)
        features = linear_problem(embedding, X[own], centred[own], loss, problem.C, weight[own])
        best = kinked_optimum(features)[1]
        assert found.bound[0] <= best * (1 + 1e-6)
        assert best * (1 - 1e-6) <= found.value[0] <= best * (1 + 2 * TOL)
    assert model.cv_results_["relative_gap"].max() <= TOL


@pytest.mark.parametrize("loss", [loss for loss in DUAL if not LOSSES[loss]().quadratic])
def test_the_last_fit_is_that_of_the_estimator_that_does_not_choose(loss, room, by_dual, tmp_path):
    """Bit by bit, with the same rows, plan and orders.  One Gram serves the squared error."""
    X, y, weight = rows_of(loss)
    data = written(X, y, weight, tmp_path)
    classifies = LOSSES[loss].target.name == "class"
    name = "Classifier" if classifies else "Regressor"
    options = dict(n_bases=6, tol=1e-2, max_passes=1000)
    chosen = getattr(sl, f"Additive{name}CV")(loss, Cs=CS, cv=CV, **options).fit(data)
    plain = getattr(sl, f"Additive{name}")(loss, solver="dual-cd", C=chosen.C_, **options).fit(data)
    np.testing.assert_array_equal(chosen.coef_, plain.coef_)
    np.testing.assert_array_equal(chosen.intercept_, plain.intercept_)


def test_reads_are_those_of_the_slowest_fit(by_dual, tmp_path):
    X, y, weight = rows_of("hinge")
    data = written(X, y, weight, tmp_path)
    options = dict(n_bases=6, cv=CV, tol=1e-3, max_passes=200)
    reads = {
        C: len(sl.AdditiveClassifierCV("hinge", Cs=[C], **options).fit(data).history_) for C in CS
    }
    together = sl.AdditiveClassifierCV("hinge", Cs=CS, **options).fit(data)
    assert together.n_passes_ < sum(reads.values())
    left = [record["models_left"] for record in together.history_ if "models_left" in record]
    assert left[-1] == 0
    assert (np.diff(left) <= 0).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_in_memory_that_dual_cd_does_not_hold_take_the_same_way(classes, by_dual, monkeypatch):
    """In one chunk and in several."""
    monkeypatch.setattr(sizes, "holds_rows", lambda size: False)
    X, y = table(N, n_classes=classes)
    options = dict(n_bases=6, Cs=CS, cv=CV, tol=1e-3)
    model = sl.AdditiveClassifierCV("hinge", **options).fit(X, y)
    data = as_dataset(X, y, None, rows=50)
    other = sl.AdditiveClassifierCV("hinge", **options).fit(data)
    assert len(by_dual) == 2 * len(CS) * CV
    for (_, a), (_, b) in zip(by_dual[: len(CS) * CV], by_dual[len(CS) * CV :], strict=True):
        assert (a.bound <= b.value * (1 + 1e-7)).all()
        assert (b.bound <= a.value * (1 + 1e-7)).all()
    assert model.cv_results_["relative_gap"].max() <= 1e-3
    assert other.cv_results_["relative_gap"].max() <= 1e-3


def test_sparse_rows_take_the_same_way(by_dual, monkeypatch):
    monkeypatch.setattr(sizes, "holds_rows", lambda size: False)
    X, y = table(N)
    X = np.where(X < 0.4, 0.0, X)
    options = dict(n_bases=6, Cs=CS, cv=CV, tol=1e-3)
    model = sl.AdditiveClassifierCV("hinge", **options).fit(sparse.csr_array(X), y)
    assert len(by_dual) == len(CS) * CV
    assert model.cv_results_["relative_gap"].max() <= 1e-3
    plain = sl.AdditiveClassifier("hinge", C=model.C_, n_bases=6, tol=1e-3)
    plain.fit(sparse.csr_array(X), y)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-3)


def test_pairs_are_fitted_split_by_split(tmp_path):
    X, y, weight = rows_of("hinge")
    data = written(X, y, weight, tmp_path)
    options = dict(n_bases=4, tol=0.05, interactions=[[0, 1]])
    model = sl.AdditiveClassifierCV("hinge", Cs=CS, cv=2, **options).fit(data)
    plain = sl.AdditiveClassifier("hinge", **options)
    found = sl.cross_validate(plain, data, 2, {"C": CS}, scoring="accuracy")
    scores = [model.cv_results_[f"split{split}_test_score"] for split in range(2)]
    np.testing.assert_array_equal(np.transpose(scores), found.scores)


def test_a_split_that_leaves_no_rows_is_refused(tmp_path):
    X, y = table(N)
    weight = np.where(split_of_rows(np.arange(N), 2, 0) == 1, 1.0, 0.0)
    data = written(X, y, weight, tmp_path)
    with pytest.raises(ValueError, match="split 2 of cv=2: in the rows outside it, .* no rows"):
        sl.AdditiveClassifierCV("hinge", Cs=[1.0], n_bases=4, cv=2).fit(data)
