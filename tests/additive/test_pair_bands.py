"""Bands beside pairs: covariance, degrees of freedom and tests against matrices written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import streamlearn as sl
from streamlearn.estimator.predicting import answer
from streamlearn.numeric.bases.bsplines import evaluate, nodes_of
from streamlearn.numeric.bases.pairs import add_pairs, lines_of
from streamlearn.numeric.bases.roughness import make_roughness, times

N = 500
PAIRS = [("a", "b"), ("word", "few"), ("word", "sign"), ("a", "word")]
"""Numbers with numbers of which some are missing, categories with few values, with categories, and
numbers with categories."""
WORDS = {"word": ["x", "y", "z"], "sign": ["+", "-"]}
C, B = 0.3, 2.0


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.random(N),
            "b": rng.normal(size=N),
            "few": rng.integers(0, 4, N).astype(float),
            "word": rng.choice(WORDS["word"], N),
            "sign": rng.choice(WORDS["sign"], N),
        }
    )
    f = np.sin(6 * X["a"]) + 2 * (X["a"] - 0.5) * X["b"] + 0.5 * (X["word"] == "y") * X["few"]
    f += 0.5 * ((X["word"] == "z") & (X["sign"] == "+"))
    X.loc[rng.random(N) < 0.05, "b"] = np.nan
    return X, f.fillna(0.3).to_numpy() + 0.5 * rng.normal(size=N), rng.random(N) + 0.5


def targets(loss, f):
    return {
        "squared_error": f,
        "poisson": np.round(np.exp(f / 2)),
        "log_loss": f > 0.5,
        "three classes": np.digitize(f, [0.0, 0.9]),
    }[loss]


def make(loss, **parameters):
    given = {"C": C, "n_bases": 7, "interactions": PAIRS, "tol": 1e-9, "intercept_scaling": B}
    given |= {"covariance": True} | parameters
    if loss == "three classes":
        return sl.AdditiveClassifier(**given, multi_class="ovr")
    kind = sl.AdditiveClassifier if loss == "log_loss" else sl.AdditiveRegressor
    return kind(loss, **given)


def design(model, X):
    """(N, dim) functions: of columns by `evaluate`, of pairs by products of broken lines."""
    bases, main = model.bases_, []
    for d, name in enumerate(model.feature_names_in_):
        codes = {word: code for code, word in enumerate(model.levels_.get(name, []))}
        x = X[name].map(codes).to_numpy(float) if codes else X[name].to_numpy()
        main.append(evaluate(bases.main, d, x))
    blocks = list(main)
    for d, e, most in bases.pairs:
        one, other = (lines_at(bases, c, most, main[c]) for c in (d, e))
        blocks.append(np.einsum("ia,ib->iab", one, other).reshape(len(X), -1))
    return np.hstack(blocks)


def lines_at(bases, d, most, phi):
    nodes, u = nodes_of(bases, d, most), phi @ np.arange(phi.shape[1])
    return np.array([np.interp(u, nodes, line) for line in np.eye(len(nodes))]).T


def map_of(model):
    """T (dim, dim), of every pair by weighted least squares on the indicators of its nodes."""
    bases, means = model.bases_, model._posterior.means
    T = np.eye(bases.dim)
    for i, (d, e, most) in enumerate(bases.pairs):
        own, one, other = (slice(*bases.first[t : t + 2]) for t in (bases.n_columns + i, d, e))
        k, l = (len(nodes_of(bases, c, most)) for c in (d, e))
        sides = np.hstack(
            [np.kron(np.eye(k), np.ones((l, 1))), np.kron(np.ones((k, 1)), np.eye(l))]
        )
        root = np.sqrt(means[own])[:, None]
        margins = np.linalg.lstsq(root * sides, root * np.eye(k * l), rcond=1e-12)[0]
        T[own, own] -= sides @ margins
        T[one, own] = lines_of(bases, d, most).T @ margins[:k]
        T[other, own] = lines_of(bases, e, most).T @ margins[k:]
    return T


def penalty(model):
    bases, made = model.bases_, make_roughness(model.bases_.main, 1)
    c = model._posterior.reference[: bases.main.dim]
    roughness = add_pairs(bases.main, made, c, bases.pairs[:, :2], 1, "integral")[1]
    S = np.zeros((bases.dim + 1, bases.dim + 1))
    S[:-1, :-1] = times(roughness.P, roughness, np.eye(bases.dim))
    S[-1, -1] = 1 / B**2
    return S / C


def curvature(loss, model, X, y, weight, k):
    """(N,) s l'' at the decisions of output k, and twice the sum of the losses."""
    if loss == "squared_error":
        return 2 * weight, 2 * weight @ (y - model.predict(X)) ** 2
    if loss == "poisson":
        return weight * model.predict(X), np.nan
    F = model.decision_function(X).reshape(len(X), -1)[:, k]
    p = 1 / (1 + np.exp(-F))
    return weight * p * (1 - p), np.nan


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "log_loss", "three classes"])
def test_all_that_is_said_of_precision_is_that_of_matrices_written_out(loss):
    X, f, weight = table()
    y = targets(loss, f)
    model = make(loss).fit(X, y, weight)
    posterior, bases = model._posterior, model.bases_
    Phi, T, S = design(model, X), map_of(model), penalty(model)
    np.testing.assert_allclose(Phi @ T, Phi, atol=1e-10)  # no decision changes
    plain = np.column_stack([Phi - posterior.reference, np.ones(N)])
    centred = Phi - posterior.means
    lift = np.eye(bases.dim + 1)
    lift[:-1, :-1] = T
    table_of = model.summary_table()
    n_terms = len(bases.degree)
    for k in range(len(posterior.scale)):
        h, squares = curvature(loss, model, X, y, weight, k)
        V = np.linalg.inv(plain.T @ (h[:, None] * plain) + S)
        edf = np.trace(V @ plain.T @ (h[:, None] * plain))
        assert posterior.total_freedom[k] == pytest.approx(edf, rel=1e-6)
        psi = squares / (weight.sum() - edf) if loss == "squared_error" else 1.0
        deviation = np.sqrt(psi * np.einsum("ij,jk,ik->i", plain, V, plain))
        found = answer(model, X, "deviation").reshape(N, -1)[:, k]
        if loss == "poisson":
            found = found / model.predict(X)
        np.testing.assert_allclose(found, deviation, rtol=1e-6)
        own = lift @ V @ lift.T
        np.testing.assert_allclose(posterior.covariance[k], psi * own, atol=1e-6 * psi * own.max())
        influence = lift @ V @ (h[:, None] * plain).T
        for j in range(n_terms):
            at = slice(*bases.first[j : j + 2])
            A = centred[:, at]
            freedom = np.trace(influence[at] @ plain[:, at])
            assert posterior.freedom[k, j] == pytest.approx(freedom, rel=1e-5, abs=1e-6)
            VHV = (lift @ (V - V @ S @ V) @ lift.T)[at, at]
            total = np.trace(A.T @ (h[:, None] * A) @ VHV)
            curve = A @ model.coef_[k, at]
            statistic = h @ curve**2 / psi / total
            assert posterior.statistic[k, j] == pytest.approx(statistic, rel=1e-5)
            line = table_of.columns["edf"][k * n_terms + j]
            assert line == pytest.approx(freedom, rel=1e-5)
        of_intercept = 1 - V[-1, -1] * S[-1, -1]
        assert posterior.freedom[k].sum() == pytest.approx(edf - of_intercept, rel=1e-6)
        for i, pair in enumerate(model.pair_tables_):
            at = slice(*bases.first[bases.n_columns + i : bases.n_columns + i + 2])
            expected = np.sqrt(psi * np.diag(own)[at])
            np.testing.assert_allclose(model._pair_deviation(i)[:, k], expected, rtol=1e-5)
            assert pair.table.shape[:2] == pair.density.shape
    assert len(set(table_of.columns["term"])) == n_terms


def test_deviations_of_a_pair_are_those_of_its_values():
    X, f, _ = table()
    model = make("squared_error").fit(X, f)
    values, deviations = model.shape_function(
        ("word", "few"), [["y", "z", None], [1.0, 3.0, 2.0]], return_std=True
    )
    swapped = model.shape_function(
        ("few", "word"), [[1.0, 3.0, 2.0], ["y", "z", None]], return_std=True
    )
    np.testing.assert_array_equal(deviations, swapped[1])
    pair = model.pair_tables_[1]
    grid = model._pair_deviation(1).reshape(pair.table.shape)
    assert pair.columns == (2, 3)
    words = model.levels_["word"]
    at = [1, 3, 2], [words.index("y"), words.index("z"), -1]
    np.testing.assert_allclose(values, pair.table[at], atol=1e-12)
    np.testing.assert_allclose(deviations, grid[at], rtol=1e-10)


def test_all_answers_of_precision_are_there_kept_in_files_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt
    from scipy.stats import norm

    X, f, _ = table()
    model = make("squared_error").fit(X, f)
    mean, deviation = model.predict(X, return_std=True)
    low, high = model.predict_interval(X).T
    np.testing.assert_allclose(high - low, 2 * norm.ppf(0.975) * deviation)
    X.assign(y=f).to_parquet(tmp_path / "rows.parquet", row_group_size=97)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    np.testing.assert_array_equal(model.predict(data, return_std=True)[1], deviation)
    sl.save(model, tmp_path / "model.slm")
    again = sl.load(tmp_path / "model.slm")
    np.testing.assert_array_equal(again.predict(X, return_std=True)[1], deviation)
    assert str(again.summary_table()) == str(model.summary_table())
    errors = model.term_importance_errors_
    assert errors.shape == model.term_importances_.shape == (len(model.term_names_),)
    assert (errors > 0).all()
    for name in ("smoothing_", "effective_dof_", "line_smoothing_"):
        assert getattr(model, name).shape == errors.shape
    np.testing.assert_allclose(model.smoothing_, 1 / C)
    display = sl.AdditiveDisplay.from_estimator(model, features=["a", ("a", "b")], coverage=0.9)
    maps = display.axes_[1:]
    assert [ax.get_title() for ax in maps] == [
        "a & b",
        "half width of 90 % bands",
        "share of the rows",
    ]
    reach = norm.ppf(0.95) * model._pair_deviation(0).reshape(model.pair_tables_[0].table.shape)
    np.testing.assert_allclose(maps[1].images[0].get_array(), reach)
    plain = sl.AdditiveDisplay.from_estimator(model, features=[("a", "b")], coverage=None)
    assert len(plain.axes_) == 2
    page = model.report()
    assert "a &amp; b: half width of the band" in page
    assert "what is smaller may be noise" in page
    plt.close("all")


def test_an_edit_of_a_pair_leaves_bands_of_what_it_did_not_touch():
    X, f, _ = table()
    model = make("squared_error").fit(X, f)
    edited = model.edit(("a", "b"), [[0.5], [0.0]], 1.0)
    changed = ["a", "b", "a & b"]
    columns = edited.summary_table().columns
    for name, p in zip(columns["term"], columns["p-value"], strict=True):
        assert np.isnan(p) == (name in changed)
    assert np.isnan(edited._pair_deviation(0)).all()
    np.testing.assert_array_equal(edited._pair_deviation(1), model._pair_deviation(1))
    grid = [0.2, 0.8]
    assert np.isnan(edited.shape_function("a", grid, return_std=True)[1]).all()
    assert np.isnan(edited.shape_function(("b", "a"), [grid, grid], return_std=True)[1]).all()
    display = sl.AdditiveDisplay.from_estimator(edited, features=[("a", "b"), ("word", "few")])
    assert [pair.n_maps for pair in display.pairs] == [2, 3]
    with pytest.raises(AttributeError, match="as a & b, a, b was edited after the fit"):
        edited.predict(X, return_std=True)


def test_the_weights_of_a_sample_are_those_that_are_told():
    rng = np.random.default_rng(0)
    X = rng.random((4500, 3))
    f = np.sin(9 * X[:, 0]) + np.sin(6 * X[:, 0] * X[:, 1])
    model = sl.AdditiveRegressor(interactions=[(0, 1), (1, 2)], covariance=True)
    model.fit(X, f + 0.3 * rng.normal(size=4500))
    weights = model.smoothing_
    assert model.summary_table().facts["smoothness"] == "reml on a sample"
    assert (weights != 1.0).all()
    # what matters is smoothed less than noise, of which few degrees of freedom are left
    assert weights[0] < weights[2]
    assert weights[3] < weights[4]
    assert model.effective_dof_[4] < 6.0 < model.effective_dof_[3]
    table = model.summary_table().columns
    assert table["p-value"][3] < 1e-12


def test_auto_has_bands_with_pairs_and_without():
    rng = np.random.default_rng(1)
    X = rng.random((4500, 3))
    f = X[:, 2] + np.sin(6 * X[:, 0] * X[:, 1])
    y = f + 0.3 * rng.normal(size=4500)
    model = sl.AdditiveRegressor(covariance=True).fit(X, y)
    assert "x0 & x1" in model.term_names_
    assert len(model.effective_dof_) == len(model.term_names_)
    none = sl.AdditiveRegressor(covariance=True).fit(X[:, [2]] * [1.0, 2.0], X[:, 2])
    assert none.pair_tables_ == []
    assert len(none.effective_dof_) == 2


def test_a_pair_of_a_constant_column_has_no_bands():
    X, f, _ = table()
    model = make("squared_error", interactions=[("a", "flat"), ("a", "b")]).fit(
        X.assign(flat=1.0), f
    )
    names = model.summary_table().columns["term"]
    assert "a & flat" not in names
    assert "a & b" in names
    assert model.term_importance_errors_[model.term_names_.index("a & flat")] == 0.0
    sl.AdditiveDisplay.from_estimator(model)


def test_workers_and_slices_leave_the_bands_as_they_are(tmp_path):
    import dask

    X, f, _ = table()
    X.assign(y=f).to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    found = []
    for threads in (1, 2):
        with dask.config.set(num_workers=threads):
            model = make("squared_error").fit(data)
        found.append(model._posterior.covariance)
    np.testing.assert_array_equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "poisson"])
def test_bands_cover_terms_that_are_drawn_as_their_penalty_says(loss):
    """The penalty is minus a logarithm of the chances of coefficients, w ~ N(0, psi S^-1).

    Of such w the bands of purified terms cover 95 in 100, exactly for the squared error.
    """
    X, f, _ = table()
    model = make(loss, C=1.0).fit(X, targets(loss, f))
    posterior, bases = model._posterior, model.bases_
    Phi, T, n_terms = design(model, X), map_of(model), len(bases.degree)
    psi = 0.5 if loss == "squared_error" else 1.0  # the noise has the variance 1/4
    root = np.linalg.cholesky(np.linalg.inv(C * penalty(model)) * psi)
    covered = np.empty((60, n_terms))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        w = (root @ rng.normal(size=bases.dim + 1))[:-1]
        F = (Phi - posterior.reference) @ w
        if loss == "squared_error":
            y = F + 0.5 * rng.normal(size=N)
        elif loss == "poisson":
            y = rng.poisson(np.exp(F + 1.0))
        else:
            y = rng.random(N) < 1 / (1 + np.exp(-F))
        model.fit(X, y)
        covariance, A = model._posterior.covariance[0], Phi - model._posterior.means
        gaps = A * (model.coef_[0] - T @ w)
        for j in range(n_terms):
            at = slice(*bases.first[j : j + 2])
            variances = np.einsum("ij,jk,ik->i", A[:, at], covariance[at, at], A[:, at])
            covered[seed, j] = (gaps[:, at].sum(axis=1) ** 2 < 1.96**2 * variances).mean()
    assert 0.93 < covered.mean() < 0.97
    # of two degrees of freedom, the fewest, the mean of 60 tables is off by 0.02 (a deviation)
    of_pairs = covered[:, bases.n_columns :].mean(axis=0)
    np.testing.assert_allclose(of_pairs, 0.95, rtol=0, atol=3 * 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "poisson"])
def test_bands_of_curves_and_tables_cover_as_often_as_they_say(loss):
    """On average over the rows of 60 tables, whose smoothness a sample of the rows chose.

    Classes tell less of the same curves: at half this signal they are smoother than what the
    penalty of slopes expects, and bands cover 98 % (of curves without pairs, too).
    """
    covered, size = {"x0": [], "x1": [], "x0 & x1": []}, 2.0 if loss == "log_loss" else 1.0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.random((5000, 2))
        one, other = size * np.sin(6 * X[:, 0]), 4 * size * (X[:, 1] - 0.5) ** 2
        both = 2 * size * (np.cos(5 * X[:, 0]) - np.sin(5) / 5) * (X[:, 1] - 0.5)  # pure
        f = one + other + both
        model = sl.AdditiveRegressor(loss, interactions=[(0, 1)], covariance=True)
        if loss == "squared_error":
            y = f + 0.7 * rng.normal(size=len(X))
        elif loss == "poisson":
            y = rng.poisson(np.exp(f))
        else:
            y = rng.random(len(X)) < 1 / (1 + np.exp(-f))
            model = sl.AdditiveClassifier(interactions=[(0, 1)], covariance=True)
        model.fit(X, y)
        own = [model.shape_function(d, X[:, d], return_std=True) for d in (0, 1)]
        own.append(model.shape_function((0, 1), [X[:, 0], X[:, 1]], return_std=True))
        for shares, truth, (curve, deviation) in zip(
            covered.values(), (one, other, both), own, strict=True
        ):
            gap = curve - truth + truth.mean()
            shares.append((abs(gap) < 1.96 * deviation).mean())
    shares = {name: float(np.mean(found)) for name, found in covered.items()}
    assert 0.93 < np.mean(list(shares.values())) < 0.97, shares
