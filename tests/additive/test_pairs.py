"""Terms of two columns: the joint optimum, purification, and everything a fitted model answers."""

from __future__ import annotations

import dask
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import streamlearn as sl
from streamlearn.numeric.bases.bsplines import evaluate, make_bases, nodes_of
from streamlearn.numeric.bases.pairs import add_pairs, lines_of, without_margins
from streamlearn.numeric.bases.roughness import make_roughness, times

N = 600


def table(seed=0):
    """Numbers with missing values, few values, categories; two of them act together."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.random(N),
            "b": rng.normal(size=N),
            "few": rng.integers(0, 4, N).astype(float),
            "word": rng.choice(["x", "y", "z"], N),
        }
    )
    f = np.sin(6 * X["a"]) + 2 * (X["a"] - 0.5) * X["b"] + 0.5 * (X["word"] == "y") * X["few"]
    X.loc[rng.random(N) < 0.05, "b"] = np.nan
    f = f.fillna(0.3).to_numpy()
    return X, f, rng.random(N) + 0.5


PAIRS = [("a", "b"), ("word", "few")]


def hats(nodes, u):
    return np.array([np.interp(u, nodes, line) for line in np.eye(len(nodes))])


def design(model, X):
    """Phi, P of numpy alone, and where the pairs begin: columns by `evaluate`, pairs by hats."""
    bases = model.bases_
    names = list(model.feature_names_in_)
    codes = {"word": dict(zip(model.levels_["word"], range(9), strict=False))}
    main = []
    for d, name in enumerate(names):
        x = X[name].map(codes[name]).to_numpy(float) if name in codes else X[name].to_numpy()
        main.append(evaluate(bases.main, d, x))
    blocks = list(main)
    for d, e, most in bases.pairs:
        positions = [m @ np.arange(m.shape[1]) for m in (main[d], main[e])]
        one, other = (
            hats(nodes_of(bases, c, most), u) for c, u in zip((d, e), positions, strict=True)
        )
        blocks.append(np.einsum("ai,bi->iab", one, other).reshape(len(X), -1))
    return np.hstack(blocks)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "squared_error", "huber", "poisson"])
def test_the_optimum_is_that_of_an_explicit_design_matrix(loss):
    X, f, weight = table()
    classifies = loss in ("log_loss", "squared_hinge")
    kind = sl.AdditiveClassifier if classifies else sl.AdditiveRegressor
    y = (f > 0.5) if classifies else np.round(np.exp(f / 2)) if loss == "poisson" else f
    model = kind(loss, C=0.3, n_bases=10, interactions=PAIRS, tol=1e-9).fit(X, y, weight)
    assert model.certificate_.converged
    assert model.certificate_.relative_gap <= 1e-8
    Phi = design(model, X)
    # what the model decides is what its design matrix says
    margins = Phi @ model.coef_[0] + model.intercept_[0]
    decision = model.decision_function(X) if classifies else model.predict(X)
    expected = np.exp(margins) if loss == "poisson" else margins
    np.testing.assert_allclose(decision, expected, atol=1e-9)

    bases, order = model.bases_, 1
    c = np.average(Phi, axis=0, weights=weight)[: bases.main.dim]
    made = make_roughness(bases.main, order)
    joined, roughness, c = add_pairs(bases.main, made, c, bases.pairs[:, :2], order, "integral")
    assert joined.dim == bases.dim
    P = times(roughness.P, roughness, np.eye(bases.dim))
    target = 2.0 * y - 1 if classifies else y.astype(float)
    mean = 0.0
    if not classifies:
        mean = np.average(target, weights=weight)
        mean = np.log(mean) if loss == "poisson" else mean
        target = target if loss == "poisson" else target - mean
    own = model._loss
    whiten = np.linalg.inv(np.linalg.cholesky(P).T)

    def objective(theta):
        w, b = whiten @ theta[:-1], theta[-1]
        z = (Phi - c) @ w + b + (mean if loss == "poisson" else 0.0)
        value = [own.value(t, v) for t, v in zip(target, z, strict=True)]
        slope = weight * [own.slope(t, v) for t, v in zip(target, z, strict=True)]
        g = P @ w + 0.3 * (Phi - c).T @ slope
        total = 0.5 * w @ P @ w + 0.5 * b * b + 0.3 * weight @ value
        return total, np.append(whiten.T @ g, b + 0.3 * slope.sum())

    stop = {"maxiter": 3000, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-7}
    start = np.zeros(bases.dim + 1)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=stop)
    np.testing.assert_allclose(
        model.certificate_.primal, found.fun, rtol=1e-5
    )  # the model's c is a histogram's
    z = (Phi - c) @ (whiten @ found.x[:-1]) + found.x[-1] + mean
    np.testing.assert_allclose(margins, z, atol=3e-3)


@pytest.mark.parametrize(
    ("loss", "solver"),
    [
        ("log_loss", "newton"),
        ("log_loss", "lbfgs"),
        ("log_loss", "dual-cd"),
        ("log_loss", "pegasos"),
        ("hinge", "dual-cd"),
        ("squared_hinge", "dual-cd"),
    ],
)
def test_every_solver_serves_pairs(loss, solver, tmp_path):
    """In memory and from disk, where rows are coordinates: the certificate and the same answers."""
    X, f, _ = table()
    y = f > 0.5
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    tol = 1e-3 if solver != "pegasos" else 0.5
    model = sl.AdditiveClassifier(
        loss, C=0.01, n_bases=8, interactions=PAIRS, solver=solver, tol=tol, max_passes=300
    )
    in_memory = model.fit(X, y)
    assert in_memory.certificate_.converged, in_memory.certificate_
    with sl.config_context(scratch=str(tmp_path)):
        data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
        stored = sl.AdditiveClassifier(**model.get_params()).fit(data)
    assert stored.certificate_.converged
    primal = in_memory.certificate_.primal, stored.certificate_.primal
    np.testing.assert_allclose(*primal, rtol=2 * tol)


@pytest.mark.parametrize("multi_class", ["ovr", "multinomial"])
def test_pairs_of_several_classes_are_pure_and_told_apart(multi_class):
    X, f, weight = table()
    y = np.digitize(f, [0.0, 1.0])
    model = sl.AdditiveClassifier(n_bases=8, interactions=PAIRS, multi_class=multi_class)
    model.fit(X, y, weight)
    explained = model.explain(X)
    assert explained.shape == (N, 6, 3)
    assert model.term_names_[4:] == ["a & b", "few & word"]
    total = explained.sum(axis=1) + model.intercept_
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-9)
    # every term is 0 on average
    means = np.average(explained, axis=0, weights=weight)
    np.testing.assert_allclose(means[4:], 0.0, atol=1e-10)
    assert len(model.pair_tables_) == 2
    for pair in model.pair_tables_:
        mass = pair.density[..., None] * pair.table
        assert np.isclose(pair.density.sum(), 1.0)
        for axis in (0, 1):
            np.testing.assert_allclose(mass.sum(axis=axis), 0.0, atol=1e-10)
    assert np.isnan(model.pair_tables_[0].nodes[1][-1])
    assert model.term_importances_.shape == (6,)


def test_purification_changes_no_decision_and_splits_uniquely():
    rng = np.random.default_rng(1)
    density = rng.random((5, 4)) * (rng.random((5, 4)) < 0.7)
    density[2] = 0.0  # a node that no row meets
    w = rng.normal(size=(5, 4))
    pure, rows, columns = (part[..., 0] for part in without_margins(w[..., None], density))
    np.testing.assert_allclose(pure + rows[:, None] + columns, w, atol=1e-13)
    for axis in (0, 1):
        np.testing.assert_allclose((density * pure).sum(axis=axis), 0.0, atol=1e-13)
    moved = w + rng.normal(size=(5, 1)) + rng.normal(size=4)
    again = without_margins(moved[..., None], density)[0][..., 0]
    np.testing.assert_allclose((again - pure)[density > 0], 0.0, atol=1e-12)


def test_lines_are_broken_lines_of_the_columns_own_breakpoints():
    bases = make_bases([np.append(np.linspace(0, 1, 20), np.inf), np.arange(3.0)], [1, 1])
    x = np.array([0.0, 0.31, 0.5, 1.0, np.nan])
    lines = evaluate(bases, 0, x) @ lines_of(bases, 0, 8).T
    assert lines.shape == (5, 9)
    np.testing.assert_allclose(lines.sum(axis=1), 1.0)
    assert lines[4, 8] == 1.0
    nodes = nodes_of(bases, 0, 8)
    np.testing.assert_allclose(lines[:4] @ np.append(bases.knots[nodes[:-1]], 0), x[:4], atol=1e-6)
    np.testing.assert_array_equal(lines_of(bases, 1, 8), np.eye(3))


def test_a_saved_model_answers_as_before_and_damage_is_refused(tmp_path):
    X, f, _ = table()
    model = sl.AdditiveRegressor(n_bases=8, interactions=PAIRS).fit(X, f)
    sl.save(model, tmp_path / "model")
    loaded = sl.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict(X[:3]), model.predict(X[:3]))
    np.testing.assert_array_equal(loaded.explain(X), model.explain(X))
    for one, other in zip(loaded.pair_tables_, model.pair_tables_, strict=True):
        np.testing.assert_array_equal(one.table, other.table)
    good = model.bases_
    for name, value, words in (
        ("pairs", good.pairs + [[9, 0, 0]], "pairs"),
        ("pairs", good.pairs - [[0, 0, 3]], "numbers of functions do not agree"),
        ("pairs", good.pairs[:1], "bases"),
        ("kind", np.where(good.kind > 1, 0, good.kind), "not of its columns"),
    ):
        with pytest.raises(ValueError, match=words):
            good._replace(**{name: value}).check()


def test_two_workers_give_the_bits_of_one(tmp_path):
    X, f, _ = table()
    X.assign(y=f > 0.5).to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    made = []
    for n_threads in (1, 2):
        with dask.config.set(num_workers=n_threads, scheduler="threads"):
            made.append(sl.AdditiveClassifier(n_bases=8, interactions=PAIRS).fit(data))
    np.testing.assert_array_equal(made[0].coef_, made[1].coef_)
    np.testing.assert_array_equal(made[0].pair_tables_[0].density, made[1].pair_tables_[0].density)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"interactions": [("a", "nowhere")]}, "no column 'nowhere'"),
        ({"interactions": [("a", "a")]}, "twice one column"),
        ({"interactions": [("a", "b"), (1, 0)]}, "there twice"),
        ({"interactions": ["ab"]}, "is no pair of columns"),
        ({"basis": "cosine"}, "basis='bspline', or interactions=0"),
        ({"degree": 2}, "degree=1, or interactions=0"),
        ({"warm_start": True}, "warm_start=False"),
        ({"max_passes": 2}, "max_passes=3 or more"),
        ({"offset": "b"}, "holds the offset or exposure"),
    ],
)
def test_what_pairs_do_not_serve_is_refused_by_name(changes, words):
    X, f, _ = table()
    model = sl.AdditiveRegressor(**({"interactions": [("a", "b")]} | changes))
    with pytest.raises(ValueError, match=words):
        model.fit(X.fillna(0.0), f)


def test_sparse_rows_partial_fit_and_too_many_levels_are_refused():
    from scipy.sparse import csr_matrix

    X, f, _ = table()
    numbers = X[["a", "few"]].to_numpy()
    with pytest.raises(ValueError, match="sparse rows; use dense rows"):
        sl.AdditiveRegressor(interactions=[(0, 1)]).fit(csr_matrix(numbers), f)
    stream = sl.AdditiveRegressor("huber", interactions=[(0, 1)])
    with pytest.raises(ValueError, match="use fit, or interactions=0"):
        stream.partial_fit(numbers, f)
    words = pd.DataFrame(
        {"u": [f"u{i % 40}" for i in range(N)], "v": [f"{i % 37}" for i in range(N)]}
    )
    with pytest.raises(ValueError, match="lower max_levels"):
        sl.AdditiveRegressor(interactions=[("u", "v")]).fit(words, f)
