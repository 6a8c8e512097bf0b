"""Screening of pairs: the scores of brute force, planted pairs first, and nothing from noise."""

from __future__ import annotations

import itertools

import dask
import numpy as np
import pandas as pd
import pytest

import streamlearn as sl
from streamlearn.additive.pairs import AUTO_PAIRS
from streamlearn.additive.screening.kernels_bins import add_tables, code_rows
from streamlearn.additive.screening.scores import best_pairs, gains, score_pairs
from streamlearn.numeric.losses import LOSSES, make_loss


def tables(seed=0):
    rng = np.random.default_rng(seed)
    H = rng.uniform(0.1, 1.0, (40, 4, 3)) * (rng.random((40, 4, 3)) < 0.6)
    return np.sqrt(H) * rng.standard_normal(H.shape), H


def test_the_gain_is_that_of_the_best_table_without_margins():
    """Against least squares: what row and column effects leave of the best table."""
    for G, H in zip(*tables(), strict=True):
        a, b = G.shape
        root = np.sqrt(H).ravel()
        target = np.where(H > 0, -G / np.sqrt(np.where(H > 0, H, 1)), 0).ravel()
        rows, columns = np.repeat(np.eye(a), b, axis=0), np.tile(np.eye(b), (a, 1))
        margins = root[:, None] * np.hstack([rows, columns])
        left = target - margins @ np.linalg.lstsq(margins, target, rcond=1e-12)[0]
        (gain,), (df,) = gains(G[None], H[None])
        np.testing.assert_allclose(gain, left @ left, rtol=1e-6, atol=1e-8)
        assert df == (H > 0).sum() - np.linalg.matrix_rank(margins)


def test_scores_of_noise_are_chi_squared():
    """Twice the gain over the dispersion has mean df; effects of one column change no score."""
    rng = np.random.default_rng(1)
    H = rng.random((400, 6, 5)) + 0.5
    G = np.sqrt(3.0 * H) * rng.standard_normal(H.shape)
    gain, df = gains(G, H)
    assert (df == 20).all()
    assert abs(gain.mean() / 3.0 - 20) < 4 * np.sqrt(40 / 400)
    moved = G + H * (rng.standard_normal((400, 6, 1)) + rng.standard_normal((400, 1, 5)))
    np.testing.assert_allclose(gains(moved, H)[0], gain, rtol=1e-6)
    flat = np.stack([G, H], axis=-1).reshape(1, -1, 2)
    at, shape = np.arange(401) * 30, np.full((400, 2), [6, 5])
    scores = score_pairs(flat, shape, at, np.array([3.0]))
    np.testing.assert_allclose(scores.decrease, gain / 2)
    assert abs(np.mean(scores.p_value < 0.5) - 0.5) < 0.1
    assert len(best_pairs(scores, 10)) <= 1


@pytest.mark.parametrize("compiled", [True, False])
def test_kernels_add_what_loops_add(compiled):
    rng = np.random.default_rng(2)
    m, n_bins = 1500, np.array([3, 2, 4])
    U = rng.uniform(0, 4, (m, 3)).astype(np.float32)
    bins = np.array([[0, 0, 1, 1, 2], [0, 0, 0, 1, 1], [0, 1, 2, 3, 3]], np.uint8)
    codes = np.empty((3, m), np.uint8)
    columns = np.arange(3)
    (code_rows if compiled else code_rows.py_func)(U, columns, bins, codes)
    expected = np.array([bins[d][np.floor(U[:, d] + np.float32(0.5)).astype(int)] for d in columns])
    np.testing.assert_array_equal(codes, expected)
    one, other = np.triu_indices(3, 1)
    at = np.concatenate([[0], np.cumsum(n_bins[one] * n_bins[other])])
    g, h = rng.standard_normal((2, m))
    got = np.zeros((at[-1], 2))
    (add_tables if compiled else add_tables.py_func)(codes, n_bins, one, other, at, g, h, got)
    for i, (d, e) in enumerate(zip(one, other, strict=True)):
        for r, c in itertools.product(range(n_bins[d]), range(n_bins[e])):
            rows = (codes[d] == r) & (codes[e] == c)
            cell = at[i] + r * n_bins[e] + c
            np.testing.assert_allclose(got[cell], [g[rows].sum(), h[rows].sum()], atol=1e-12)


def planted(n=6000, p=12, seed=0):
    """Numbers, one with missing values, and categories; three pairs act together."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"x{j}": rng.random(n) for j in range(p)})
    X["word"] = rng.choice(["r", "s", "t"], n)
    X["town"] = rng.choice([f"t{k}" for k in range(30)], n)
    number = X["town"].str[1:].astype(int)
    f = np.sin(6 * X["x0"]) + 4 * (X["x1"] - 0.5) * (X["x2"] - 0.5)
    f += 1.5 * (X["word"] == "s") * (X["x3"] - 0.5)
    f += 0.6 * np.where(X["word"] == "t", 1, -0.5) * np.where(number % 2, 1, -1)
    X.loc[rng.random(n) < 0.1, "x1"] = np.nan
    return X, f.fillna(f.mean()).to_numpy(), rng


WANTED = {"x1 & x2", "x3 & word", "word & town"}


def found(model):
    return set(model.term_names_[model.n_features_in_ :])


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_planted_pairs_are_found_with_every_loss(loss):
    X, f, rng = planted()
    target = make_loss(loss).target.name
    noisy = f + 0.3 * rng.standard_normal(len(f))
    y = {
        "class": noisy > 0,
        "number": noisy,
        "count": rng.poisson(np.exp(f)),
        "amount": np.exp(f) * rng.gamma(5.0, 0.2, len(f)),
        "total": np.exp(f) * rng.gamma(5.0, 0.2, len(f)) * (rng.random(len(f)) < 0.8),
    }[target]
    kind = sl.AdditiveClassifier if target == "class" else sl.AdditiveRegressor
    model = kind(loss, n_bases=8, interactions=3, tol=0.1, C=0.1, max_passes=60).fit(X, y)
    assert found(model) == WANTED
    for pair in model.pair_tables_:
        for axis in (0, 1):
            mass = (pair.density * pair.table).sum(axis=axis)
            np.testing.assert_allclose(mass, 0.0, atol=1e-10)


@pytest.mark.parametrize("multi_class", ["ovr", "multinomial"])
def test_planted_pairs_are_found_with_several_classes(multi_class):
    X, f, rng = planted()
    y = np.digitize(f + 0.3 * rng.standard_normal(len(f)), [-0.5, 0.5])
    model = sl.AdditiveClassifier(
        n_bases=8, interactions=AUTO_PAIRS, multi_class=multi_class, tol=0.1, max_passes=60
    ).fit(X, y)
    assert WANTED <= found(model)
    assert len(model.pair_tables_) <= AUTO_PAIRS


def test_a_planted_product_among_fifty_columns_is_the_first():
    rng = np.random.default_rng(3)
    X = rng.random((20_000, 50))
    y = np.sin(5 * X[:, :8]).sum(axis=1) + (X[:, 20] - 0.5) * (X[:, 33] - 0.5)
    y += 0.5 * rng.standard_normal(len(y))
    model = sl.AdditiveRegressor(n_bases=8, interactions=AUTO_PAIRS).fit(X, y)
    assert model.bases_.pair_columns[0] == (20, 33)
    named = sl.AdditiveRegressor(n_bases=8, interactions=model.bases_.pair_columns).fit(X, y)
    # the same problem, whose bound of coefficients may lead to another solver
    np.testing.assert_allclose(named.coef_, model.coef_, rtol=1e-8, atol=1e-12)
    assert model.n_passes_ == named.n_passes_ + 1  # the screening is one read


def test_no_pair_is_taken_from_noise():
    """Main effects that the curves cannot follow, and noise: nothing acts together."""
    rng = np.random.default_rng(4)
    X = rng.random((8000, 15))
    noise = (1 + X[:, 2]) * rng.standard_normal(len(X))
    y = np.sin(40 * X[:, 0]) + np.floor(9 * X[:, 1]) + noise
    model = sl.AdditiveRegressor(n_bases=4, C=1.0, interactions=AUTO_PAIRS).fit(X, y)
    assert model.bases_.pair_columns == []
    assert model.pair_tables_ == []
    plain = sl.AdditiveRegressor(n_bases=4, C=1.0, interactions=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_the_order_of_two_scores_is_that_of_brute_force():
    """Each pair added alone and fitted jointly lowers the objective in the order of the scores."""
    X, f, rng = planted(n=3000, p=5)
    X, y = X.drop(columns="town"), f + 0.2 * rng.standard_normal(len(f))
    lowered = {}
    names = list(X.columns)
    for pair in itertools.combinations(names, 2):
        model = sl.AdditiveRegressor(n_bases=8, interactions=[pair], C=10.0).fit(X, y)
        lowered[" & ".join(pair)] = model.certificate_.primal
    order = sorted(lowered, key=lowered.get)
    model = sl.AdditiveRegressor(n_bases=8, interactions=4, C=10.0).fit(X, y)
    terms = model.term_names_[len(names) :]
    assert terms[:2] == order[:2]


def test_the_bits_do_not_depend_on_threads_or_a_stop(tmp_path, monkeypatch):
    from streamlearn.engine.run import Run

    X, f, _ = planted(n=2000)
    X.assign(y=f > 0).to_parquet(tmp_path / "rows.parquet", row_group_size=200)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    model = sl.AdditiveClassifier(n_bases=6, interactions=AUTO_PAIRS, tol=1e-2)
    made = []
    for n_threads in (1, 2):
        with dask.config.set(num_workers=n_threads, scheduler="threads"):
            made.append(sl.AdditiveClassifier(**model.get_params()).fit(data).coef_)
    np.testing.assert_array_equal(*made)
    run_fold = Run.fold

    def stops(run, fold, source=None, *, name):
        if name == "pairs":
            raise KeyboardInterrupt
        return run_fold(run, fold, source, name=name)

    monkeypatch.setattr(Run, "fold", stops)
    with pytest.raises(KeyboardInterrupt):
        model.fit(data, checkpoint=tmp_path / "kept")
    monkeypatch.undo()
    model.fit(data, checkpoint=tmp_path / "kept")
    np.testing.assert_array_equal(model.coef_, made[0])


def test_columns_of_small_effects_are_left_out_where_tables_would_not_fit(monkeypatch):
    from streamlearn.additive.screening import reading

    X, f, _ = planted()
    numbers = X[[f"x{j}" for j in range(8)]].fillna(0.5).to_numpy()
    monkeypatch.setattr(reading, "TABLES_NBYTES", 16 * 64 * 6)  # the pairs of four columns
    y = f + 2 * numbers[:, 1] + 2 * numbers[:, 2]
    model = sl.AdditiveRegressor(n_bases=8, interactions=1, C=10.0).fit(numbers, y)
    assert model.bases_.pair_columns == [(1, 2)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"interactions": -1}, "interactions"),
        ({"interactions": "all"}, "interactions"),
        ({"interactions": 2, "max_passes": 3}, "max_passes=4 or more"),
        ({"interactions": 2, "degree": 2}, "degree=1, or interactions=0"),
        ({"interactions": 2, "smoothness": "reml"}, "interactions=2 does not go with"),
        ({"interactions": 2, "warm_start": True}, "use warm_start=False"),
    ],
)
def test_what_screening_does_not_serve_is_refused_by_name(changes, words):
    X, f, _ = planted(n=300)
    with pytest.raises(ValueError, match=words):
        sl.AdditiveRegressor(**changes).fit(X, f)


def test_choosing_by_splits_screens_without_the_rows_of_the_split():
    X, f, _ = planted(n=300)
    data = sl.open_dataset(X.assign(y=f), target="y")
    options = {"n_bases": 5, "interactions": 1}
    model = sl.AdditiveRegressorCV(Cs=[0.1, 1.0], cv=2, scoring="r2", **options).fit(data)
    found = sl.cross_validate(sl.AdditiveRegressor(**options), data, 2, {"C": [0.1, 1.0]})
    names = ["split0_test_score", "split1_test_score"]
    scores = np.column_stack([model.cv_results_[name] for name in names])
    np.testing.assert_array_equal(scores, found.scores)
    best = sl.AdditiveRegressor(C=model.C_, **options).fit(data)
    np.testing.assert_array_equal(model.coef_, best.coef_)
    assert len(model.pair_tables_) == 1
    with pytest.raises(ValueError, match="name the pairs, or use an integer cv"):
        sl.AdditiveRegressorCV(cv="gcv", **options).fit(data)


def test_a_table_of_one_column_has_no_pairs():
    X, f, _ = planted(n=300)
    model = sl.AdditiveRegressor(interactions=AUTO_PAIRS).fit(X[["x0"]], f)
    assert model.pair_tables_ == []
