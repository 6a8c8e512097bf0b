"""Bases, losses and solvers that the other files leave out: each against an independent solver."""

from dataclasses import replace

import numpy as np
import pytest
from additive_kit import table
from oracles import (
    DISPERSION,
    EPSILON,
    LOG_LINK,
    QUANTILE,
    kinked_optimum,
    liblinear,
    linear_problem,
    multinomial_problem,
    smooth_optimum,
)
from scipy import sparse

import streamlearn as sl
from streamlearn.additive.costs.solver_choice import solver_table

OFFERED = solver_table()

CLASSES = ("log_loss", "squared_hinge", "hinge")
PAIRS = [(loss, solver) for loss in OFFERED for solver in OFFERED[loss]]
NUMBERS = [
    (loss, solver)
    for loss, solver in PAIRS
    if loss.split()[-1] not in CLASSES and solver != "pegasos"
]
REFUSED = [
    (loss, solver)
    for loss in OFFERED
    for solver in ("newton", "dual-cd", "lbfgs", "pegasos")
    if solver not in OFFERED[loss]
]


def embedding_of(basis, n, **shape):
    if basis == "bspline":
        return sl.SplineEmbedding(n, **shape)
    return sl.FourierEmbedding(n, basis=basis, **shape)


def tolerance(solver):
    return {"tol": 2e-7 if solver == "dual-cd" else 1e-9, "max_passes": 3000}


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "solver"), NUMBERS)
@pytest.mark.parametrize("basis", ["trigonometric", "hermite"])
def test_numbers_on_bases_without_knots(loss, solver, basis):
    X, _ = table(150, 3)
    rng = np.random.default_rng(3)
    f = np.sin(6 * X[:, 0]) + X[:, 2] - 0.5
    if loss in ("poisson", "negative_binomial"):
        y = rng.poisson(np.exp(f)).astype(float)
    elif loss == "gamma":
        y = rng.gamma(2.0, np.exp(f) / 2) + 1e-3
    elif loss == "tweedie":
        y = rng.gamma(2.0, np.exp(f) / 2) * rng.poisson(np.exp(f))
    else:
        y = f + 0.3 * rng.standard_normal(len(f))
    C, link = 0.1, loss in LOG_LINK
    embedding = embedding_of(basis, 4).fit(X)
    problem = linear_problem(embedding, X, y if link else y - y.mean(), loss, C=C)
    if link:
        problem = replace(problem, offset=np.log(y.mean()))
    kinked = loss in ("epsilon_insensitive", "quantile")
    best = (kinked_optimum(problem) if kinked else smooth_optimum(problem))[1]
    model = sl.AdditiveRegressor(
        loss, n_bases=4, basis=basis, solver=solver, epsilon=EPSILON, quantile=QUANTILE,
        dispersion=DISPERSION, C=C, **tolerance(solver),
    ).fit(X, y)  # fmt: skip
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize(("degree", "order"), [(1, 0), (2, 1), (3, 2)])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_lbfgs_of_splines_is_liblinear(loss, degree, order, form):
    X, y = table(200)
    rows = sparse.csr_array(X) if form == "csr" else X
    shape = dict(n_bases=6, degree=degree, penalty_order=order)
    problem = linear_problem(sl.SplineEmbedding(**shape).fit(rows), rows, 2 * y - 1, loss, C=0.2)
    model = sl.AdditiveClassifier(loss, solver="lbfgs", C=0.2, **shape, **tolerance("lbfgs"))
    model.fit(rows, y)
    assert model.certificate_.primal == pytest.approx(liblinear(problem)[1], rel=1e-6)


@pytest.mark.parametrize(("loss", "solver"), [("log_loss", "newton"), ("squared_hinge", "newton")])
@pytest.mark.parametrize("order", [0, 2])
def test_newton_on_sparse_splines_is_liblinear(loss, solver, order):
    X, y = table(200)
    rows = sparse.csr_array(X)
    embedding = sl.SplineEmbedding(6, penalty_order=order).fit(rows)
    problem = linear_problem(embedding, rows, 2 * y - 1, loss, C=0.2)
    model = sl.AdditiveClassifier(
        loss, solver=solver, n_bases=6, penalty_order=order, C=0.2, **tolerance(solver)
    ).fit(rows, y)
    assert model.certificate_.primal == pytest.approx(liblinear(problem)[1], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", CLASSES)
@pytest.mark.parametrize(("order", "knots"), [(0, "uniform"), (1, "uniform"), (2, "quantile")])
def test_dual_cd_on_sparse_splines_is_liblinear(loss, order, knots):
    X, y = table(200)
    rows = sparse.csr_array(X)
    shape = dict(n_bases=6, penalty_order=order, knots=knots)
    problem = linear_problem(sl.SplineEmbedding(**shape).fit(rows), rows, 2 * y - 1, loss, C=0.2)
    model = sl.AdditiveClassifier(loss, solver="dual-cd", C=0.2, **shape, **tolerance("dual-cd"))
    model.fit(rows, y)
    assert model.certificate_.primal == pytest.approx(liblinear(problem)[1], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("basis", ["trigonometric", "hermite"])
def test_multinomial_on_bases_without_knots(basis):
    X, y = table(150, n_classes=3)
    best, _ = multinomial_problem(embedding_of(basis, 4).fit(X), X, y, np.ones(len(y)), C=0.5)
    model = sl.AdditiveClassifier(
        multi_class="multinomial", n_bases=4, basis=basis, C=0.5, tol=1e-8, max_passes=500
    ).fit(X, y)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("basis", ["bspline", "trigonometric", "hermite"])
@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_pegasos_has_the_optimum_between_its_bounds(basis, loss):
    """Its steps are of the order 1/t: no number of reads brings it to 1e-6."""
    X, y = table(300)
    problem = linear_problem(embedding_of(basis, 4).fit(X), X, 2 * y - 1, loss, C=0.05)
    _, best = liblinear(problem)
    model = sl.AdditiveClassifier(
        loss, n_bases=4, basis=basis, solver="pegasos", C=0.05, tol=5e-2, max_passes=400
    ).fit(X, y)
    at = model.certificate_
    assert at.converged
    assert at.dual <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= at.primal <= best * 1.053


@pytest.mark.parametrize(("loss", "solver"), REFUSED)
def test_a_solver_that_a_loss_is_not_offered_with_is_refused_by_name(loss, solver):
    X, y = table(40, n_classes=3 if "multinomial" in loss else 2)
    joint = {"multi_class": "multinomial"} if "multinomial" in loss else {}
    name = loss.split()[-1]
    estimator = sl.AdditiveClassifier if name in CLASSES else sl.AdditiveRegressor
    remedy = " or ".join(map(repr, OFFERED[loss]))
    with pytest.raises(ValueError, match=f"solver='{solver}' needs .*use solver={remedy}"):
        estimator(name, solver=solver, **joint).fit(X, y + 1.0)
