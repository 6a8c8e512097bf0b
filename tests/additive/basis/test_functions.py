"""Bases that every row meets with every function: each solver against others' on the features."""

import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table
from oracles import gradient_by_differences, least_squares, liblinear, linear_problem
from scipy import sparse

import streamlearn as sl
from streamlearn.additive.basis import (
    functions as explicit,
)
from streamlearn.additive.basis import (
    kernels,
)
from streamlearn.additive.basis import (
    kernels_functions as kernels_fourier,
)
from streamlearn.additive.basis.written import WrittenRows, written_nbytes
from streamlearn.additive.costs import sizes
from streamlearn.additive.objective import add_evaluation, finish_evaluation
from streamlearn.data.source import Csr
from streamlearn.numeric.bases.bsplines import evaluate

BASES = ["cosine", "trigonometric", "hermite"]


def rows_of(form, n=200):
    X, y = table(n)
    if form == "csr":
        X = np.round(X * (np.random.default_rng(1).random(X.shape) < 0.5), 2)
        return sparse.csr_array(X), y
    if form == "missing":
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    return X, y


def fit(X, y, loss, solver, **parameters):
    tol = 2e-7 if solver == "dual-cd" else 1e-9
    kw = {"n_bases": 4, "C": 0.05, "tol": tol, "max_passes": 3000} | parameters
    return sl.AdditiveClassifier(loss, solver=solver, **kw).fit(X, y)


@pytest.mark.turns(3, 0)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("form", ["dense", "csr", "missing"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "hinge"])
def test_optimum_is_that_of_liblinear_on_the_explicit_features(basis, form, loss):
    X, y = rows_of(form)
    order = 2 if form == "dense" else 1
    embedding = sl.FourierEmbedding(4, basis=basis, penalty_order=order).fit(X)
    problem = linear_problem(embedding, X, 2 * y - 1, loss, C=0.05)
    v, best = liblinear(problem)
    for solver in ["dual-cd"] if loss == "hinge" else ["newton", "lbfgs", "dual-cd"]:
        model = fit(X, y, loss, solver, basis=basis, penalty_order=order)
        assert model.certificate_.primal == pytest.approx(best, rel=1e-6), solver
        np.testing.assert_allclose(model.decision_function(X), problem.A @ v, atol=0.02)


@pytest.mark.parametrize("basis", BASES)
def test_papers_penalty_uniform_knots_and_many_classes(basis):
    X, y = table(150, n_classes=3)
    shape = dict(penalty_scale="paper", knots="uniform", basis=basis)
    embedding = sl.FourierEmbedding(4, **shape).fit(X)
    for solver in ("newton", "dual-cd"):
        model = fit(X, y, "log_loss", solver, **shape)
        for k in range(3):
            problem = linear_problem(embedding, X, np.where(y == k, 1, -1), "log_loss", C=0.05)
            assert model.certificate_.primal[k] == pytest.approx(liblinear(problem)[1], rel=1e-6)


@pytest.mark.parametrize("basis", BASES)
def test_squared_error_is_the_direct_solve(basis):
    X, _ = table(200)
    y = np.sin(6 * X[:, 0]) + X[:, 2] + 5
    embedding = sl.FourierEmbedding(5, basis=basis).fit(X)
    problem = linear_problem(embedding, X, y - y.mean(), "squared_error", C=3.0)
    v, best = least_squares(problem)
    model = sl.AdditiveRegressor(n_bases=5, basis=basis, C=3.0).fit(as_dataset(X, y, rows=37))
    np.testing.assert_allclose(model.predict(X), problem.A @ v + y.mean(), rtol=1e-8)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("basis", BASES)
def test_gradient_is_the_difference_of_values(basis):
    X, y = rows_of("missing", 60)
    dataset = as_dataset(X, y)
    problem, _ = make_problem(dataset, "log_loss", n_bases=4, basis=basis)
    chunk = next(iter(dataset.iter_chunks()))

    def at(theta):
        sums = kernels.empty_sums(1, problem.dim)
        return finish_evaluation(
            problem, theta[None], add_evaluation(problem, theta[None], sums, chunk)
        )

    theta = np.random.default_rng(0).normal(size=problem.dim + 1) / 5
    slopes = gradient_by_differences(lambda x: at(x).value[0], theta)
    np.testing.assert_allclose(at(theta).gradient[0], slopes, atol=1e-7)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_newton_from_a_sample_proves_the_optimum_of_all_rows(monkeypatch, sparse_rows):
    monkeypatch.setattr(sizes, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 0)
    X, y = rows_of("csr" if sparse_rows else "missing", 3000)
    model = fit(X, y, "log_loss", "newton", basis="cosine", tol=1e-8, C=0.5)
    assert model.certificate_.converged
    assert 2 < model.n_passes_ < 25


def test_terms_and_intercept_add_up_and_terms_have_mean_0():
    X, y = rows_of("missing")
    model = fit(X, y, "log_loss", "newton", basis="cosine")
    terms = np.stack([model.shape_function(d, X[:, d]) for d in range(5)])
    np.testing.assert_allclose(terms.sum(0) + model.intercept_, model.decision_function(X))
    assert abs(terms.mean(1)).max() < 0.02


@pytest.mark.parametrize(
    ("basis", "degree", "wrote"),
    [("bspline", 1, False), ("cosine", 1, False), *(("bspline", d, True) for d in (1, 2, 3))],
)
def test_sparse_passes_are_the_dense_ones(monkeypatch, basis, degree, wrote):
    """Margins, sums and Grams of stored values, and none of the p columns' coordinates.

    The columns are of many values, of two, of two of which none is 0, and of one.
    """
    S, y = rows_of("csr", 120)
    S = S.toarray()
    S[:, 1], S[:, 2], S[:, 3] = S[:, 1] > 0.3, np.where(S[:, 2] > 0.3, 2.0, -1.0), 0.0
    S = sparse.csr_array(S)
    dataset = as_dataset(S, y)
    problem, _ = make_problem(dataset, "log_loss", n_bases=5, basis=basis, degree=degree)
    X, bases = next(iter(dataset.iter_chunks())).X, problem.bases
    assert isinstance(X, Csr)
    if wrote:
        monkeypatch.setattr(explicit, "written_nbytes", lambda *_: 1 << 20)
        X = explicit.written(X, bases)
        assert isinstance(X, WrittenRows)
    Phi = np.hstack([evaluate(bases, d, S.toarray()[:, d]) for d in range(5)])
    rng = np.random.default_rng(0)
    W, h, r = rng.normal(size=(2, bases.dim)), rng.random(120), rng.normal(size=120)
    kernels.margins_rows(X, bases, W, F := np.empty((120, 2)))
    np.testing.assert_allclose(F, Phi @ W.T, atol=1e-6)
    gram = kernels.GramSums(np.zeros((bases.dim,) * 2), np.zeros(bases.dim), np.zeros(bases.dim))
    kernels.gram_rows(X, bases, h, r, gram)
    np.testing.assert_allclose(np.triu(gram.H), np.triu(Phi.T @ (h[:, None] * Phi)), atol=1e-4)
    np.testing.assert_allclose(gram.g, h @ Phi, atol=1e-5)
    np.testing.assert_allclose(gram.b, r @ Phi, atol=1e-5)


@pytest.mark.parametrize("degree", [1, 3])
def test_functions_of_sparse_rows_take_no_more_than_is_planned(degree):
    """Of values above 0, where 0 is the first breakpoint, and of values around it."""
    X = sparse.random_array((300, 6), density=0.4, rng=0, dtype=np.float32, format="csr")
    for rows in (X, sparse.csr_array(X - 0.5 * (X > 0))):
        dataset = as_dataset(rows, np.zeros(300))
        problem, _ = make_problem(dataset, "squared_error", n_bases=6, degree=degree)
        chunk = next(iter(dataset.iter_chunks()))
        found = explicit.written(chunk.X, problem.bases)
        room = written_nbytes(chunk.X.nbytes, problem.dim, degree)
        if isinstance(found, WrittenRows):
            A = found.tile.A
            assert A.data.nbytes + A.indices.nbytes + 8 * problem.dim**2 <= room
        assert isinstance(found, WrittenRows) == (rows is X or degree > 1)


def test_tiles_are_as_many_as_it_takes(monkeypatch):
    X, y = rows_of("csr", 300)
    whole = fit(X, y, "log_loss", "newton", basis="cosine")
    dense = fit(X.toarray(), y, "log_loss", "newton", basis="cosine")
    monkeypatch.setattr(explicit, "TILE_NBYTES", 4096)
    np.testing.assert_allclose(
        fit(X, y, "log_loss", "newton", basis="cosine").coef_, whole.coef_, atol=1e-6
    )
    np.testing.assert_allclose(
        fit(X.toarray(), y, "log_loss", "newton", basis="cosine").coef_, dense.coef_, atol=1e-6
    )


def test_kernels_compiled_and_as_python_agree():
    S, y = rows_of("csr", 40)
    dataset = as_dataset(S, y)
    problem, _ = make_problem(dataset, "log_loss", n_bases=4, basis="trigonometric")
    X, bases, c = next(iter(dataset.iter_chunks())).X, problem.bases, problem.reference.c
    (_, _, stored), *_ = explicit._stored_tiles(X, bases)
    inverse = explicit.inverse_factors(bases, problem.roughness)
    diagonal = explicit.diagonal_factors(bases, problem.roughness)
    features = inverse, problem.roughness.table, diagonal
    tables = {"stored_functions": (), "stored_features": features}
    for name, extra in tables.items():
        fill = getattr(kernels_fourier, name)
        plain = getattr(fill, "py_func", fill)
        a = explicit._compressed(stored, bases.dim, c, fill, *extra).toarray()
        b = explicit._compressed(stored, bases.dim, c, plain, *extra).toarray()
        np.testing.assert_allclose(a, b, atol=1e-12)
    gram, mirror = kernels_fourier.add_sparse_gram, kernels_fourier.mirror
    A, h = explicit._compressed(stored, bases.dim, c, kernels_fourier.stored_functions), np.ones(40)
    for add, copy in ((gram, mirror), [getattr(k, "py_func", k) for k in (gram, mirror)]):
        add(A.data, A.indices, A.indptr, h, H := np.zeros((bases.dim, bases.dim)))
        np.testing.assert_allclose(H, np.triu((A.T @ A).toarray()), atol=1e-9)
        copy(H)
        np.testing.assert_allclose(H, (A.T @ A).toarray(), atol=1e-9)
