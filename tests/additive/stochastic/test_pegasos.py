"""PEGASOS against the recursion written out, its bound against the optimum, and `partial_fit`."""

import numpy as np
import pandas as pd
import pytest
from additive_kit import as_dataset, make_problem, table
from oracles import dense_splines, liblinear, linear_problem
from scipy import sparse

import streamlearn as sl
from streamlearn.additive.stochastic.pegasos import (
    last_point,
    lower_bound,
    mean_point,
    start_averaged,
    step_batches,
)
from streamlearn.numeric.bases.roughness import times
from streamlearn.numeric.dual_rule import dual_value
from streamlearn.passes.fold import read_all

BASES = dict(n_bases=6)


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_the_naive_recursion_and_the_naive_average(loss, weighted):
    X, y = table(120)
    weight = np.random.default_rng(1).integers(0, 3, 120).astype(float) if weighted else None
    problem, _ = make_problem(as_dataset(X, y, weight), loss, B=2.0)
    [chunk] = read_all(as_dataset(X, y, weight))
    s = np.ones(120) if weight is None else weight
    total, sign = s.sum(), 2.0 * y - 1
    order = np.random.default_rng(2).permutation(120)
    chunk.order = order
    state = step_batches(problem, start_averaged(problem), chunk, 16, total)
    # w_{t+1} = (1 - a/tau) w_t + (1/(lambda tau)) sum s v Psi, in coefficients
    A = dense_splines(problem.bases, X) - problem.reference.c
    w, b, tau, mean, mass, D = np.zeros(problem.dim), 0.0, 0.0, np.zeros(problem.dim + 1), 0.0, 0.0
    scale = problem.C * total  # 1 / lambda
    for first in range(0, 120, 16):
        rows = order[first : first + 16]
        a = s[rows].sum()
        if a == 0:
            continue
        f = A[rows] @ w + b
        v = np.array([-problem.loss.slope(t, g) for t, g in zip(sign[rows], f, strict=True)])
        tau += a
        L = times(problem.roughness.L, problem.roughness, ((s[rows] * v) @ A[rows])[None])[0]
        w = (1 - a / tau) * w + scale / tau * L
        b = (1 - a / tau) * b + scale / tau * 4.0 * (s[rows] @ v)
        mean += a * tau * np.append(w, b)
        mass += a * tau
        duals = [
            dual_value(problem.loss.dual_rule(), t, g) for t, g in zip(sign[rows], v, strict=True)
        ]
        D += s[rows] @ duals
    np.testing.assert_allclose(last_point(problem, state, total)[0], np.append(w, b), rtol=1e-9)
    np.testing.assert_allclose(mean_point(problem, state, total)[0], mean / mass, rtol=1e-9)
    bound = problem.C * D - problem.penalty(np.append(w, b)[None])
    np.testing.assert_allclose(lower_bound(problem, state, total), bound, rtol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
@pytest.mark.parametrize("form", ["dense", "csr", "cosine"])
def test_epochs_close_in_on_the_optimum_from_both_sides(loss, form):
    X, y = table(250)
    rows = sparse.csr_array(X) if form == "csr" else X
    basis = "cosine" if form == "cosine" else "bspline"
    embedding = sl.FourierEmbedding(6) if form == "cosine" else sl.SplineEmbedding(6)
    embedding.fit(rows)
    best = liblinear(linear_problem(embedding, rows, 2 * y - 1, loss, C=0.2))[1]
    model = sl.AdditiveClassifier(
        loss, solver="pegasos", C=0.2, tol=1e-2, max_passes=60, basis=basis, **BASES
    )
    certificate = model.fit(rows, y).certificate_
    assert certificate.converged
    assert certificate.dual <= best <= certificate.primal
    assert certificate.primal - certificate.dual <= 1e-2 * certificate.primal


def test_classes_and_regressions():
    X, y = table(200, n_classes=3)
    kw = dict(solver="pegasos", tol=0.05, max_passes=60, **BASES)
    model = sl.AdditiveClassifier("hinge", **kw).fit(X, y)
    assert len(model.certificate_.primal) == 3
    target = np.sin(6 * X[:, 0]) + 5
    for loss in ("epsilon_insensitive", "huber"):
        regressor = sl.AdditiveRegressor(loss, **kw | {"tol": 0.5}).fit(X, target)
        assert regressor.score(X, target) > 0.7


def test_stopping_short_is_said():
    X, y = table(200)
    with pytest.warns(UserWarning, match="max_passes"):
        sl.AdditiveClassifier("hinge", solver="pegasos", tol=1e-9, max_passes=5).fit(X, y)


def test_partial_fit_learns_from_batches(tmp_path):
    X, y = table(2000)
    model = sl.AdditiveClassifier("log_loss", C=0.5, **BASES)
    for first in range(0, 2000, 500):
        part = slice(first, first + 500)
        model.partial_fit(X[part], y[part], classes=[0, 1], n_rows=2000)
    whole = sl.AdditiveClassifier("log_loss", C=0.5, **BASES).fit(X, y)
    assert model.score(X, y) > whole.score(X, y) - 0.02
    assert model.certificate_.solver == "pegasos"
    assert not model.certificate_.converged
    assert "2,000" in model.certificate_.reason
    assert model.n_passes_ == 5  # the first rows are read twice
    sl.save(model, tmp_path / "m.slm")
    np.testing.assert_array_equal(sl.load(tmp_path / "m.slm").explain(X), model.explain(X))
    regressor = sl.AdditiveRegressor("huber", C=0.02, **BASES)
    for _ in range(3):
        regressor.partial_fit(X, np.sin(6 * X[:, 0]), n_rows=6000)
    assert regressor.score(X, np.sin(6 * X[:, 0])) > 0.8


def test_partial_fit_says_what_it_needs():
    X, y = table(100)
    with pytest.raises(ValueError, match="needs classes="):
        sl.AdditiveClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="bounded slope"):
        sl.AdditiveClassifier("squared_hinge").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="is solver='pegasos'"):
        sl.AdditiveClassifier(solver="newton").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="give a dict"):
        sl.AdditiveClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="holds rows out"):
        sl.AdditiveClassifier(calibration="sigmoid").partial_fit(X, y, classes=[0, 1])
    words = pd.DataFrame({"a": X[:, 0], "b": ["x", "y"] * 50})
    with pytest.raises(ValueError, match="'b' holds strings.*use fit"):
        sl.AdditiveClassifier().partial_fit(words, y, classes=[0, 1])


def test_partial_fit_has_a_level_for_what_is_missing_at_first():
    X, y = table(400)
    X = X.copy()
    X[::5, 0] = np.nan
    model = sl.AdditiveClassifier(**BASES)
    for _ in range(3):
        model.partial_fit(X, y, classes=[0, 1], n_rows=1200)
    assert model.score(X, y) > 0.6
    X[7, 3] = np.nan  # constant: it adds nothing, whatever it holds
    assert np.isfinite(model.decision_function(X)).all()
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in column 1, row 7"):
        model.partial_fit(X, y)


def test_a_new_fit_forgets_the_stream():
    X, y = table(200)
    model = sl.AdditiveClassifier(**BASES).partial_fit(X, y, classes=[0, 1])
    model.fit(X, y)
    again = sl.AdditiveClassifier(**BASES).partial_fit(X, y, classes=[0, 1])
    model.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_array_equal(model.coef_, again.coef_)


STREAMED = [
    (sl.AdditiveClassifier, {"loss": "log_loss"}),
    (sl.AdditiveClassifier, {"loss": "hinge", "class_weight": {0: 2.0}}),
    (sl.AdditiveRegressor, {"loss": "epsilon_insensitive"}),
]


@pytest.mark.parametrize("kind, parameters", STREAMED)
def test_a_stream_that_is_saved_and_loaded_goes_on_as_if_it_had_not_been(
    kind, parameters, tmp_path
):
    X, y = table(900)
    model = kind(**BASES, **parameters)
    model.partial_fit(X[:300], y[:300], **({"classes": [0, 1]} if "Cl" in kind.__name__ else {}))
    sl.save(model, tmp_path / "model")
    loaded = sl.load(tmp_path / "model")
    for part in (slice(300, 600), slice(600, 900)):
        for each in (model, loaded):
            each.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(model.coef_, loaded.coef_)
    assert model.n_passes_ == loaded.n_passes_ == 4


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
@pytest.mark.parametrize("C", [1e5, 1e20, 1e290])
def test_any_weight_of_the_losses_gives_a_finite_model(loss, C):
    X, y = table(2_000)
    with np.errstate(all="raise", under="ignore"):
        model = sl.AdditiveClassifier(loss, C=C, **BASES).partial_fit(X, y, classes=[0, 1])
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) > 0.5


def test_every_call_is_planned():
    X, y = table(500)
    data = as_dataset(X, y)
    model = sl.AdditiveClassifier(**BASES).partial_fit(data, classes=[0, 1])
    with (
        sl.config_context(memory_budget="2MiB"),
        pytest.raises(sl.MemoryBudgetError, match="Plan needs .* but the budget is 2.0 MiB"),
    ):
        model.partial_fit(data)
    assert model.n_passes_ == 2
    model.partial_fit(data)
    assert model.plan_.passes == (1, 1)
    assert model.plan_.peak_bytes <= model.plan_.budget


def test_a_stream_refuses_other_basis_functions_than_it_began_with():
    X, y = table(300)
    model = sl.AdditiveClassifier(**BASES).partial_fit(X, y, classes=[0, 1])
    model.set_params(n_bases=BASES["n_bases"] + 1)
    with pytest.raises(ValueError, match="goes on with the parameters it began with"):
        model.partial_fit(X, y)
