"""Dual fits that read their rows again and again, of which they may cache a few."""

import numpy as np
import pandas as pd
import pytest
from additive_kit import as_dataset, table
from oracles import liblinear, linear_problem
from scipy import sparse
from sklearn.base import clone

import streamlearn as sl
from streamlearn.additive.costs import sizes
from streamlearn.additive.dual import descent, partitions
from streamlearn.engine import planning
from streamlearn.numeric.losses import LOSSES
from streamlearn.passes.summary.label_sums import MAX_CLASSES

DUAL = [name for name, kind in LOSSES.items() if kind().has("dual_rule")]
TOL = 1e-5


@pytest.fixture(params=[1 << 40, 2_000], ids=["one lane", "4 partitions"])
def few_cached(request, monkeypatch):
    """Room for some 15 % of 400 rows; rows in memory are streamed as well."""
    monkeypatch.setattr(partitions, "PARTITION_NBYTES", request.param)
    monkeypatch.setattr(partitions, "MOST", 4)
    monkeypatch.setattr(planning, "CHOSEN_BYTES", 10_000)
    monkeypatch.setattr(sizes, "holds_rows", lambda size: False)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_a_fit_from_disk_that_caches_few_rows_finds_the_optimum_of_liblinear(
    loss, few_cached, tmp_path
):
    X, y = table(400)
    X = X.astype(np.float32)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    data = sl.open_dataset(tmp_path / "t.parquet", target="y")
    best = liblinear(linear_problem(sl.SplineEmbedding(6).fit(X), X, 2 * y - 1, loss, C=0.2))[1]
    model = sl.AdditiveClassifier(loss, solver="dual-cd", C=0.2, tol=TOL, max_passes=500, n_bases=6)
    assert 40 < sl.plan(model, data).chosen_rows < 100
    certificate = model.fit(data).certificate_
    assert certificate.converged
    assert certificate.dual <= best * (1 + 1e-7)
    assert best * (1 - 1e-7) <= certificate.primal <= best * (1 + TOL)


@pytest.mark.turns(2, 0)
@pytest.mark.parametrize("form", ["dense", "csr", "missing", "cosine"])
@pytest.mark.parametrize(
    ("loss", "n_classes"), [(loss, 2) for loss in DUAL] + [("hinge", 3), ("log_loss", 3)]
)
def test_every_dual_and_form_of_rows_ends_where_rows_in_memory_do(
    loss, n_classes, form, few_cached, monkeypatch
):
    X, y = table(400, n_classes=n_classes)
    if form == "csr":
        X = sparse.csr_array(X)
    if form == "missing":
        X[::7, 1] = np.nan
    kind = sl.AdditiveClassifier if loss in ("hinge", "squared_hinge", "log_loss") else None
    if kind is None:
        kind, y = sl.AdditiveRegressor, np.sin(np.arange(400.0)) + y
    basis = "cosine" if form == "cosine" else "bspline"
    shape = dict(n_bases=6, basis=basis, C=0.2, tol=1e-3, max_passes=500)
    weight = np.random.default_rng(1).integers(0, 3, 400).astype(float)
    data = as_dataset(X, y, weight, rows=20)
    model = kind(loss, solver="dual-cd", **shape)
    assert 0 < sl.plan(model, data).chosen_rows < 120
    streamed = model.fit(data).certificate_
    monkeypatch.undo()
    whole = kind(loss, solver="dual-cd", **shape).fit(data).certificate_
    assert streamed.converged
    assert streamed.n_passes > whole.n_passes  # the rows were read again
    np.testing.assert_allclose(streamed.primal, whole.primal, rtol=1e-3)
    assert (np.asarray(streamed.dual) <= np.asarray(whole.primal) * (1 + 1e-7)).all()


@pytest.mark.parametrize("solver", ["auto", "dual-cd", "pegasos"])
def test_targets_of_more_values_than_are_counted_are_fitted_from_disk(solver, tmp_path):
    """The certified optimum of rows in memory; a summary counts up to `MAX_CLASSES` values."""
    X, _ = table(MAX_CLASSES + 200)
    y = np.sin(3 * X[:, 0]) + np.random.default_rng(2).normal(size=len(X))
    assert len(np.unique(y)) > MAX_CLASSES
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    data = sl.open_dataset(tmp_path / "t.parquet", target="y", chunk_rows=100)
    shape = dict(loss="quantile", n_bases=6, C=0.2)
    least = sl.AdditiveRegressor(solver="dual-cd", tol=1e-4, **shape).fit(X, y).certificate_
    tol = 1e-2 if solver == "pegasos" else 1e-4
    found = sl.AdditiveRegressor(solver=solver, tol=tol, **shape).fit(data).certificate_
    assert (found.solver == solver) or solver == "auto"
    assert found.converged
    assert least.dual * (1 - 1e-7) <= found.primal <= least.primal * (1 + tol)


def test_where_all_rows_are_cached_reads_do_not_wait_for_small_gains(tmp_path, monkeypatch):
    X, y = table(400)
    X = X.astype(np.float32)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    data = sl.open_dataset(tmp_path / "t.parquet", target="y")
    model = sl.AdditiveClassifier("hinge", C=30.0, n_bases=6, tol=1e-2, max_passes=60)
    many = model.fit(data)
    assert many.certificate_.converged
    monkeypatch.setattr(descent, "ROUNDS", 1)
    assert 2 * many.n_passes_ <= clone(model).fit(data).n_passes_
    problem = linear_problem(sl.SplineEmbedding(n_bases=6).fit(X), X, 2 * y - 1, "hinge", C=30.0)
    assert many.certificate_.primal <= liblinear(problem)[1] * (1 + 1e-2)
