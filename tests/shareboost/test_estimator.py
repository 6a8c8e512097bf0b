"""The oracles: what the theory proves, and brute force."""

import numpy as np
import pytest
from shareboost_kit import as_dataset, loss_of, optimum, planted
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamlearn as sl
from streamlearn.shareboost import needs
from streamlearn.shareboost.selection import scoring

ONE = dict(columns_per_pass=1)


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([sl.ShareBoostClassifier(n_selected=3, ridge=1e-3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "kw",
    [
        {},
        {"ridge": 0.01},
        {"mixed_norm": 0.05},
        {"rule": "l1"},
        {"rule": "lookahead"},
        {"candidates": "products"},
        {"candidates": "stumps"},
        {"candidates": "pieces", "n_anchors": 6, "n_radii": 3, "ridge": 1e-3},
        {"candidates": "soft-pieces", "n_anchors": 6, "n_radii": 3, "ridge": 1e-3},
        {"groups": np.arange(12) // 3},
        {"columns_per_pass": 3},
    ],
)
def test_every_round_lowers_the_objective_by_the_proved_amount(kw):
    X, y, _ = planted(400, 12, columns=(2, 5, 9))
    model = sl.ShareBoostClassifier(5, **(ONE | kw)).fit(X, y)
    path = model.path_
    gains = -np.diff(path["objective"])
    assert len(gains) >= 2
    # best first: the promise of the best candidate, or (look-ahead) of the one taken instead
    if kw.get("rule") != "lookahead":
        assert (gains >= path["promised_gain"][:-1] * (1 - 1e-9)).all()
    assert (gains > 0).all()
    penalty = path["objective"] - path["loss"]
    assert (penalty >= -1e-15).all()


def test_loss_after_t_columns_is_within_the_bound_of_any_matrix():
    X, y, _ = planted(500, 40)
    _, W, b = optimum(X[:, [2, 7, 19]], y, 4, lambda W: (1e-3 * (W**2).sum(), 2e-3 * W))
    best, norm = loss_of(X[:, [2, 7, 19]], y, W, b), np.abs(W).max(axis=0).sum()
    for rule in ("l1", "scale-free"):
        path = sl.ShareBoostClassifier(12, rule=rule, **ONE).fit(X, y).path_
        T = path["n"][1:]
        assert (path["loss"][1:] <= best + 2 * norm**2 / T).all()


@pytest.mark.parametrize("pass_", [1, 4])
@pytest.mark.parametrize("ridge", [0.01, "auto"])
def test_all_columns_reach_the_optimum(pass_, ridge):
    X, y, _ = planted(300, 6, columns=(1, 4))
    of = 0.01 if ridge == 0.01 else X.var(axis=0) / (2 * len(X))
    expected, W, b = optimum(X, y, 4, lambda W: ((of * W**2).sum(), 2 * of * W))
    model = sl.ShareBoostClassifier(6, ridge=ridge, tol=1e-12, columns_per_pass=pass_).fit(X, y)
    assert model.certificate_.objective == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(model.coef_, W[:, [c for (c,) in model.choices_]], atol=1e-5)
    np.testing.assert_allclose(model.intercept_, b - b.mean(), atol=1e-5)
    assert loss_of(X, y, W, b) == pytest.approx(model.path_["loss"][-1], rel=1e-6)


def test_mixed_norm_optimum():
    X, y, _ = planted(200, 5, columns=(1, 4))
    from streamlearn.shareboost.objective import Penalty

    penalty = Penalty(0.0, 0.05, 10.0)
    expected, *_ = optimum(X, y, 4, lambda W: (penalty.value(W), penalty.gradient(W)))
    model = sl.ShareBoostClassifier(5, ridge=0.0, mixed_norm=0.05, tol=1e-12).fit(X, y)
    assert model.certificate_.objective == pytest.approx(expected, rel=1e-8)


def test_many_coefficients_reach_the_same_optimum(monkeypatch):
    """The blocks' metric with L-BFGS instead of Newton."""
    from streamlearn.shareboost import curvature

    X, y, _ = planted(300, 10, columns=(1, 4))
    newton = sl.ShareBoostClassifier(10, ridge=1e-3, tol=1e-10).fit(X, y)
    monkeypatch.setattr(curvature, "NEWTON_SIZE", 0)
    blocks = sl.ShareBoostClassifier(10, ridge=1e-3, tol=1e-10).fit(X, y)
    assert blocks.certificate_.objective == pytest.approx(newton.certificate_.objective, rel=1e-9)
    monkeypatch.setattr(curvature, "BLOCK_WORK", 1e4)  # the metric from some rows only
    some = sl.ShareBoostClassifier(10, ridge=1e-3, tol=1e-10).fit(X, y)
    assert some.certificate_.objective == pytest.approx(newton.certificate_.objective, rel=1e-8)


def test_the_gradient_is_that_of_finite_differences():
    X, y, _ = planted(200, 8, columns=(1, 4))
    model = sl.ShareBoostClassifier(2, ridge=1e-2, tol=1e-13, **ONE).fit(X, y)
    W = np.zeros((4, 8))
    W[:, [c for (c,) in model.choices_]] = model.coef_
    slopes = np.empty((4, 8))
    for k in range(4):
        for j in range(8):
            moved = W.copy()
            moved[k, j] += 1e-6
            up = loss_of(X, y, moved, model.intercept_)
            moved[k, j] -= 2e-6
            slopes[k, j] = (up - loss_of(X, y, moved, model.intercept_)) / 2e-6
    rest = [j for j in range(8) if (j,) not in model.choices_]
    expected = np.abs(slopes[:, rest]).sum(axis=0).max()
    assert model.path_["largest_gradient"][-1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("k", [4, 8, 16, 32, 64])
def test_appendix_c_the_first_pick_is_shared(k):
    """One-hot columns against the bits of the class: the paper's rule needs many classes."""
    n_bits = int(np.log2(k))
    bits = 1.0 - 2.0 * ((np.arange(k)[:, None] >> np.arange(n_bits)) & 1)
    X = np.column_stack([bits, 2 * n_bits * np.eye(k)])
    y = np.arange(k)
    scale_free = sl.ShareBoostClassifier(1).fit(X, y)
    l1 = sl.ShareBoostClassifier(1, rule="l1").fit(X, y)
    assert scale_free.support_[0] < n_bits
    assert (l1.support_[0] < n_bits) == (k >= 16)


@pytest.mark.parametrize("pass_", [1, 3])
@pytest.mark.parametrize("rule", ["scale-free", "l1"])
def test_lazy_reads_select_what_full_reads_do(monkeypatch, pass_, rule):
    X, y, _ = planted(500, 60, columns=range(8), spread=0.8)
    X *= np.linspace(0.1, 3, 60)
    how = dict(n_selected=12, rule=rule, columns_per_pass=pass_, ridge=1e-3)
    monkeypatch.setattr(scoring, "FULL_READ", 0.0)
    plain = sl.ShareBoostClassifier(**how).fit(X, y)
    monkeypatch.setattr(scoring, "FULL_READ", 1.0)
    lazy = sl.ShareBoostClassifier(**how).fit(X, y)
    assert lazy.choices_ == plain.choices_
    np.testing.assert_allclose(lazy.coef_, plain.coef_, rtol=1e-6, atol=1e-8)
    assert lazy.history_[-1]["full_reads"] < plain.history_[-1]["full_reads"]
    # an upper bound where columns were not read; and no more than what they could have moved
    assert (lazy.path_["largest_gradient"] >= plain.path_["largest_gradient"] * (1 - 1e-6)).all()


def test_a_copy_of_a_column_is_not_selected_while_others_help():
    X, y, _ = planted(400, 10, columns=(2, 7))
    doubled = np.column_stack([X, X])
    model = sl.ShareBoostClassifier(6, **ONE).fit(doubled, y)
    taken = [c % 10 for (c,) in model.choices_]
    assert len(set(taken)) == len(taken)
    several = sl.ShareBoostClassifier(6, columns_per_pass=3).fit(doubled, y)
    taken = [c % 10 for (c,) in several.choices_]
    assert len(set(taken)) == len(taken)


def brute_stump(x, y, K):
    """The best z over all thresholds of all columns: (score, column, rows at most it)."""
    n = len(y)
    shares = np.bincount(y, minlength=K) / n
    from streamlearn.shareboost.objective import best_intercept, residual

    b, _ = best_intercept(shares)
    R = residual(np.tile(b, (n, 1)), y, np.full(n, 1 / n))
    best = (0.0, -1, None)
    for j in range(x.shape[1]):
        for t in np.unique(x[:, j])[:-1]:
            inside = x[:, j] <= t
            q = inside.mean()
            z = np.abs(R[inside].sum(axis=0)).sum() / np.sqrt(q * (1 - q))
            if z > best[0] * (1 + 1e-12):
                best = (z, j, inside)
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("K", [2, 3])
def test_stumps_equal_brute_force_over_all_thresholds(seed, K, monkeypatch):
    from streamlearn.shareboost.selection import stumps

    monkeypatch.setattr(stumps, "N_BINS", 8)
    monkeypatch.setattr(stumps, "CUTS", 5)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((700, 3))
    x[:, 1] = np.exp(4 * x[:, 1])  # values far apart, and near one another
    x[:, 2] = rng.integers(0, 9, 700)
    y = (np.digitize(x[:, seed % 3], np.quantile(x[:, seed % 3], [0.4, 0.9])) % K).astype(int)
    y = np.where(rng.random(700) < 0.4, rng.integers(0, K, 700), y)
    z, j, inside = brute_stump(x, y, K)
    model = sl.ShareBoostClassifier(1, candidates="stumps", ridge=0.0).fit(x, y)
    ((column, t),) = model.choices_
    assert column == j
    np.testing.assert_array_equal(x[:, j] <= t, inside)
    assert model.path_["promised_gain"][0] == pytest.approx(z**2 / 2, rel=1e-9)


def test_products_are_the_explicit_products():
    X, y, _ = planted(300, 7, columns=(1, 4))
    y = (X[:, 1] * X[:, 4] > 0).astype(int) + (X[:, 2] * X[:, 6] > 0.1)
    pairs = [(i, j) for i in range(7) for j in range(i + 1, 7)]
    made = np.column_stack([X[:, i] * X[:, j] for i, j in pairs])
    fly = sl.ShareBoostClassifier(4, candidates="products", ridge=1e-3).fit(X, y)
    explicit = sl.ShareBoostClassifier(4, ridge=1e-3).fit(made, y)
    assert fly.choices_ == [pairs[c] for (c,) in explicit.choices_]
    np.testing.assert_allclose(fly.coef_, explicit.coef_, rtol=1e-6)
    assert list(fly.get_feature_names_out())[0] == "x1 * x4"
    np.testing.assert_allclose(
        fly.decision_function(X), explicit.decision_function(made), rtol=1e-6
    )


@pytest.mark.parametrize("candidates", ["pieces", "soft-pieces"])
def test_pieces_are_the_explicit_groups(monkeypatch, candidates):
    from streamlearn.shareboost.selection.candidates import spread_pieces

    # corrections by blocks and by Newton's method stop at different places: let both go on
    monkeypatch.setattr("streamlearn.shareboost.training.PRECISION", 1e-7)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2)) * [1.0, 2.0]
    y = (np.floor(X[:, 0]) % 2).astype(int) + (X[:, 1] > 0)
    how = dict(ridge=1e-3, columns_per_pass=1, tol=1e-9)
    fly = sl.ShareBoostClassifier(3, candidates=candidates, n_anchors=5, n_radii=3, **how).fit(X, y)
    kind = fly._kind
    every = [(a, r) for a in range(len(kind.anchors)) for r in range(3)]
    squares = ((X[:, None] - kind.anchors) ** 2).sum(axis=2)[:, :, None]
    weights = (squares < kind.limits).astype(float)
    if candidates == "soft-pieces":
        weights *= 1 - squares / kind.limits
    np.testing.assert_allclose(
        kind.values(X, [0, 1], every), weights.reshape(len(X), -1), atol=1e-12
    )
    # each anchor has radii of its own, the last around all rows
    assert (np.diff(kind.limits) > 0).all()
    assert weights[:, :, -1].astype(bool).all()
    made = spread_pieces(X, kind.values(X, [0, 1], every))
    groups = np.repeat(np.arange(len(every)), 3)
    explicit = sl.ShareBoostClassifier(3, groups=groups, **how).fit(made, y)
    assert fly.choices_ == [every[g] for (g,) in explicit.choices_]
    assert fly.certificate_.objective == pytest.approx(explicit.certificate_.objective, rel=1e-7)
    np.testing.assert_allclose(
        fly.transform(X), spread_pieces(X, kind.values(X, [0, 1], fly.choices_))
    )


def test_lookahead_takes_the_best_single_step():
    X, y, _ = planted(300, 6, columns=(1, 4))
    model = sl.ShareBoostClassifier(1, rule="lookahead", ridge=0.0).fit(X, y)
    none = lambda W: (0.0, np.zeros_like(W))  # noqa: E731
    values = [optimum(X[:, [j]], y, 4, none)[0] for j in range(6)]
    assert model.support_.tolist() == [int(np.argmin(values))]
    assert model.certificate_.objective == pytest.approx(min(values), rel=1e-7)


@pytest.mark.parametrize(
    "kw",
    [
        {},
        {"candidates": "pieces", "n_anchors": 5, "n_radii": 3, "ridge": 1e-4},
        {"candidates": "soft-pieces", "n_anchors": 5, "n_radii": 3, "ridge": 1e-4},
    ],
)
def test_the_side_store_gives_the_same_bits_from_disk(monkeypatch, kw):
    X, y, _ = planted(3000, 10, columns=(1, 4))
    how = dict(n_selected=5, prune=True, columns_per_pass=2) | kw
    weight = np.random.default_rng(0).integers(0, 3, 3000).astype(float)
    data = as_dataset(X.astype(np.float32), y, weight, rows=257)
    memory = sl.ShareBoostClassifier(**how).fit(data)
    monkeypatch.setattr(needs, "fits_in_memory", lambda plan: False)
    disk = sl.ShareBoostClassifier(**how).fit(data)
    assert disk.choices_ == memory.choices_
    np.testing.assert_array_equal(disk.coef_, memory.coef_)
    np.testing.assert_array_equal(disk.intercept_, memory.intercept_)
    assert disk.n_passes_ > memory.n_passes_


@pytest.mark.parametrize("candidates", ["columns", "products", "stumps", "pieces", "soft-pieces"])
def test_blocks_of_columns_give_the_same_model(monkeypatch, candidates):
    X, y, _ = planted(400, 9, columns=(1, 4))
    how = dict(n_selected=3, candidates=candidates, n_anchors=6, n_radii=3, ridge=1e-3)
    whole = sl.ShareBoostClassifier(**how).fit(X, y)
    monkeypatch.setattr(needs, "block_of", lambda size, limit: 2)
    cut = sl.ShareBoostClassifier(**how).fit(X, y)
    assert cut.choices_ == whole.choices_
    np.testing.assert_allclose(cut.coef_, whole.coef_, rtol=1e-7, atol=1e-9)
    assert cut.n_passes_ > whole.n_passes_


@pytest.mark.parametrize("rule", ["scale-free", "l1", "lookahead"])
@pytest.mark.parametrize("candidates", ["columns", "products", "stumps"])
def test_rows_that_are_told_apart_without_doubt_have_a_curvature(candidates, rule):
    """Coefficients grow until nothing but rounding is left of 1 - rho, of which one is made of."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 450)
    rate = rng.gamma(0.3, 1, (450, 40))
    rate[np.arange(450)[:, None], 4 * y[:, None] + np.arange(4)] += 2
    X = np.log1p(rng.poisson(rate.astype(np.float32))).astype(np.float32)
    model = sl.ShareBoostClassifier(20, candidates=candidates, rule=rule, ridge=0.0).fit(X, y)
    assert np.all(np.diff(model.path_["objective"]) <= 0)
    assert model.path_["objective"][-1] < 0.02 * model.path_["objective"][0]


def test_two_classes():
    X, y, _ = planted(300, 8, K=2, columns=(1, 4))
    model = sl.ShareBoostClassifier(2).fit(X, y)
    assert model.coef_.shape == (2, 2)
    d = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), (d > 0).astype(int))
    # the decision minimises p log(1 + e^(1 - d)) + (1 - p) log(1 + e^(1 + d))
    p = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(p / (1 + np.exp(d - 1)), (1 - p) / (1 + np.exp(-d - 1)), atol=1e-12)


SEPARABLE = {
    "columns": {},
    "several a read": {"columns_per_pass": 3},
    "l1": {"rule": "l1"},
    "lookahead": {"rule": "lookahead"},
    "groups": {"groups": [0, 0, 1, 1, 2, 2]},
    "pruned": {"prune": True},
    "products": {"candidates": "products"},
    "stumps": {"candidates": "stumps"},
    "pieces": {"candidates": "pieces", "n_anchors": 6, "n_radii": 3},
    "soft-pieces": {"candidates": "soft-pieces", "n_anchors": 6, "n_radii": 3},
}


@pytest.mark.parametrize("kw", SEPARABLE.values(), ids=SEPARABLE)
def test_separable_rows_end_in_the_same_model_in_any_units(kw):
    """With nothing set every correction converges, rounds gain what they promise, and columns in
    other units are the same columns (pieces, whose distances have units, in one other unit)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 6))
    y = (X[:, 0] > 0.1).astype(int) + (X[:, 3] > 0)
    units = np.array([1.0, 30.0, 1e-3, 1e4, 1.0, 50.0])
    units = 64.0 if kw.get("candidates") in ("pieces", "soft-pieces") else units
    model = sl.ShareBoostClassifier(4, **kw).fit(X, y)
    assert model.certificate_.converged
    path = model.path_
    if kw.get("rule") != "lookahead" and not kw.get("prune"):
        gains = -np.diff(path["objective"])
        assert (gains >= path["promised_gain"][:-1] * (1 - 1e-9)).all()
    V = model._features(X)
    of = V.var(axis=0) / (2 * len(X))
    penalty = (of * model.coef_**2).sum()
    assert path["objective"][-1] - path["loss"][-1] == pytest.approx(penalty, rel=1e-5)
    if kw.get("rule") != "l1":  # which is not scale-free
        other = sl.ShareBoostClassifier(4, **kw).fit(X * units, y)
        np.testing.assert_allclose(
            other.predict_proba(X * units), model.predict_proba(X), atol=1e-4
        )
