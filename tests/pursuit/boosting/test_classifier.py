"""Jensen-Shannon boosting: its identities, its stop, and the circle toy."""

import numpy as np
import pytest
from pursuit.direct import charge_of, circle, divergence_of, z_of
from scipy.stats import kstest

import streamlearn as sl
from streamlearn import JensenShannonBoostClassifier
from streamlearn.data.memory.opening import open_arrays
from streamlearn.data.open import dataset_of
from streamlearn.data.source import Chunk
from streamlearn.numeric.rows.dense import flat_rows
from streamlearn.pursuit.answers import margin_rows
from streamlearn.pursuit.boosting.histograms import (
    blurred,
    charge_of_bins,
    divergence,
    learner,
    noise_of,
    significance,
    smoothed,
)
from streamlearn.pursuit.boosting.reads import boost_fold
from streamlearn.pursuit.boosting.rows import BoostRequest, Halves, Learner, half_of
from streamlearn.pursuit.columns import make_columns
from streamlearn.pursuit.search import Trial


def margins(model, X):
    return margin_rows(model._columns, model._models, Chunk(X, rows=range(len(X))))[:, 0]


def histograms_of(model, new, X, y, F):
    """Unsmoothed histograms of mass 1 (minus, plus) of rows weighted by e^(-yF)."""
    t = z_of(X, model._columns) @ new.alpha
    B = len(new.heights)
    place = np.clip(((t - new.low) / (new.high - new.low) * B).astype(int), 0, B - 1)
    v = np.exp(np.where(y == 1, -F, F))
    h = [np.bincount(place[y == c], v[y == c], B) for c in (0, 1)]
    return h[0] / h[0].sum(), h[1] / h[1].sum()


@pytest.fixture(scope="module")
def paper():
    X, y = circle(0, 3000, 0.1)
    model = JensenShannonBoostClassifier(
        n_learners=6, shrinkage=1.0, stop=None, smooth=False, n_bins=12, tau=np.inf
    )
    return model.fit(X, y), X, y


def test_boosting_identities(paper):
    """At shrinkage 1 and unsmoothed: Z+ = Z- = sum sqrt(h+ h-), then divergence 0 (D4)."""
    model, X, y = paper
    F, product = np.zeros(len(y)), 1.0
    learners = model._models[0].learners
    columns = model._columns
    assert len(learners) == 6
    for new, record in zip(learners, model.history_, strict=True):
        minus, plus = histograms_of(model, new, X, y, F)
        np.testing.assert_allclose(
            new.heights, 0.5 * np.log(np.maximum(plus, 1e-10) / np.maximum(minus, 1e-10)), atol=1e-9
        )
        cost = np.sqrt(plus * minus).sum()
        assert record["bhattacharyya"] == pytest.approx(cost, rel=1e-10)
        single = [model._models[0]._replace(learners=(new,))]
        f = margin_rows(columns, single, Chunk(X, rows=range(len(X))))[:, 0]
        for sign, c in ((-1, 0), (1, 1)):
            v = np.exp(-sign * F[y == c])
            Z = (v * np.exp(-sign * f[y == c])).sum() / v.sum()
            assert Z == pytest.approx(cost, rel=1e-6)
        F += f
        product *= cost
        after = histograms_of(model, new, X, y, F)
        assert float(divergence(after[1], after[0])) < 1e-8
        balanced = 0.5 * (np.mean(F[y == 1] <= 0) + np.mean(F[y == 0] >= 0))
        assert balanced <= product + 1e-12
    np.testing.assert_allclose(F, margins(model, X))


@pytest.mark.parametrize("charged", [False, True])
def test_costs_of_a_read_are_those_of_direct_histograms(charged):
    X, y = circle(1)
    w = np.random.default_rng(2).integers(0, 3, len(y)).astype(float)
    store = open_arrays(X, y, w)
    dataset = dataset_of(store, "y", "sample_weight", [f"x{j}" for j in range(5)])
    columns = make_columns(dataset.summary(), True)
    alphas = np.array([[1, 0, 0, 0, 0], [0.5, -1, 0, 0, 0.1]])
    trials = tuple(Trial(a, -3.0, 3.0, np.zeros(32)) for a in alphas)
    old = Learner(alphas[1], -3.0, 3.0, np.linspace(-1, 1, 16), 1.0)
    halves, offset = Halves(5, np.arange(5)), np.array([1.0, 1.5])
    fixed = (None, 10.0, "scale-free", 16, charged, False, 1.0)
    ask = BoostRequest(1, old, halves, trials, np.arange(5), *fixed, offset, 2.0)
    fold = boost_fold(columns, (ask,), (0,), 1)
    chunk = Chunk(X, y.astype(float), w, range(len(y)), {"margin": np.zeros((len(y), 1))})
    answer = fold.finish(fold.step(fold.start(), chunk))[0]
    F, Z = chunk.state["margin"][:, 0], z_of(X, columns)
    place = np.clip(((Z @ alphas[1] + 3) / 6 * 16).astype(int), 0, 15)
    np.testing.assert_allclose(F, old.heights[place])
    half = half_of(halves, flat_rows(X), range(len(y)))
    assert 0.4 < half.mean() < 0.6
    v = np.exp(np.where(y == 1, -F, F))
    for a, cost in zip(alphas, answer.costs, strict=True):
        use = half == 0
        t, plus = Z[use] @ a, y[use] == 1
        direct = -divergence_of(t, plus, (w * v)[use], -3.0, 3.0, 16)
        if charged:
            direct += charge_of(t, plus, w[use], v[use], -3.0, 3.0, 16)
        assert cost == pytest.approx(direct, rel=1e-10)
    assert answer.scale == pytest.approx(
        divergence_of(Z[half == 0] @ alphas[0], y[half == 0] == 1, (w * v)[half == 0], -3, 3, 16)
    )
    assert answer.largest == pytest.approx(
        [F[(y == 0) & (w > 0)].max(), -F[(y == 1) & (w > 0)].min()]
    )
    assert answer.margins.sum(0) == pytest.approx([w[y == 0].sum(), w[y == 1].sum()])


def test_divergence_is_bounded_and_blind_to_the_order_of_bins():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(12), 2)
    assert 0 <= divergence(p, q) <= 2 * np.log(2)
    order = rng.permutation(12)
    assert divergence(p[order], q[order]) == pytest.approx(divergence(p, q), rel=1e-12)
    assert divergence(np.eye(2)[0], np.eye(2)[1]) == pytest.approx(2 * np.log(2))
    assert divergence(p, p) == 0


@pytest.mark.parametrize("n_filled", [2, 5, 32])
def test_noise_gains_half_of_the_charge(n_filled):
    """Equal classes of unequal size, weighted rows: the mean divergence is noise / 4 a bin."""
    rng = np.random.default_rng(n_filled)
    gains, charges = [], []
    for _ in range(300):
        t, y = rng.integers(0, n_filled, 3000), rng.random(3000) < 0.3
        v = rng.uniform(0.5, 1.5, 3000)
        sums = np.column_stack([np.bincount(t[y == c], v[y == c], 32) for c in (0, 1)])
        noise = noise_of(sums, np.array([(v[y == c] ** 2).sum() for c in (0, 1)])).sum()
        h = sums / sums.sum(0)
        gains.append(divergence(h[:, 1], h[:, 0]))
        charges.append(charge_of_bins(sums[None], noise)[0])
    error = np.std(gains) / np.sqrt(300)
    assert 2 * np.mean(gains) == pytest.approx(np.mean(charges), abs=6 * error, rel=0.03)


@pytest.mark.parametrize("smooth", [False, True])
def test_a_column_of_two_values_stands_its_ground_against_noise(smooth):
    """Sixty columns fill all bins: with the charge the one that says something is found."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 61)).astype(np.float32)
    X[:, 7] = rng.random(1200) < 0.5
    y = rng.random(1200) < np.where(X[:, 7] == 1, 0.6, 0.4)
    model = JensenShannonBoostClassifier(smooth=smooth, stop=None, n_learners=1).fit(X, y)
    assert (model.directions_[0][0].nonzero()[0].tolist() == [7]) == smooth


def test_the_first_learner_is_tested_at_half_a_percent_and_others_at_a_fifth():
    X, y = circle(3)
    model = JensenShannonBoostClassifier().fit(X, y)
    records = [record for record in model.history_ if "p_value" in record]
    before, seen = 0, []
    for record in records:
        level = 0.2 if before else 0.005
        assert (record["learners"] > before) == (record["p_value"] <= level)
        seen.append(record["p_value"])
        before = record["learners"]
    assert (np.array(seen[-4:]) > 0.2).all()
    assert any(0.005 < p <= 0.2 for p in seen)


def test_smoothing_keeps_the_mass():
    h = smoothed(np.array([[0.0, 3.0, 1.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(h.sum(1), 1)
    np.testing.assert_allclose(h[1], 1 / 3)
    np.testing.assert_allclose(blurred(h).sum(1), 1)
    assert learner(h[0], h[1])[1] > 0
    assert (h > 0).all()


def test_the_test_has_its_level():
    """p-values of weighted counts without signal are uniform, whatever heights are tested."""
    rng = np.random.default_rng(0)
    p = []
    for _ in range(400):
        t, y, v = rng.integers(0, 16, 600), rng.integers(0, 2, 600), rng.exponential(1.0, 600)
        sums = np.column_stack([np.bincount(t[y == c], v[y == c], 16) for c in (0, 1)])
        squares = np.array([(v[y == c] ** 2).sum() for c in (0, 1)])
        p.append(significance(sums, squares, rng.standard_normal(16)))
    assert kstest(p, "uniform").statistic < 0.08
    assert np.mean(np.array(p) < 0.01) < 0.025


def test_a_difference_counts_only_in_the_direction_that_is_tested():
    sums, squares = np.array([[30.0, 60.0], [60.0, 30.0]]), np.array([90.0, 90.0])
    found = np.array([1.0, -1.0])
    assert significance(sums, squares, found) < 1e-4
    assert significance(sums, squares, -found) > 0.99
    assert significance(sums, squares, np.ones(2)) == 1.0  # says nothing of a row


@pytest.mark.parametrize(
    ("sums", "squares"),
    [(np.zeros((4, 2)), np.zeros(2)), (np.eye(4)[:, :2] * [[1, 0]], np.ones(2))],
)
def test_without_rows_of_a_class_nothing_is_significant(sums, squares):
    assert significance(sums, squares, np.arange(4.0)) == 1.0


@pytest.fixture(scope="module")
def fitted():
    X, y = circle(0)
    return JensenShannonBoostClassifier().fit(X, y)


def test_the_cost_falls_with_every_move_and_reads_are_few(fitted):
    for record in fitted.history_:
        assert (np.diff(record["costs"]) < 0).all()
        assert record["n_reads"] <= 2 + len(record["costs"]) - 1
    assert fitted.n_passes_ == 1 + sum(record["n_reads"] for record in fitted.history_)


def test_bins_grow_with_the_rows(fitted):
    assert len(fitted.pieces_[0]["values"]) == 17  # 2 x 600^(1/3)
    X, y = circle(0)
    twice = JensenShannonBoostClassifier(n_learners=1).fit(X, y, np.full(600, 8.0))
    assert len(twice.pieces_[0]["values"]) == 34


@pytest.mark.slow
def test_circle_toy():
    """Clean error 5 %, irrelevant weight 10 %, medians of 20 draws, all defaults."""
    errors, shares = [], []
    for seed in range(20):
        model = JensenShannonBoostClassifier(random_state=seed).fit(*circle(seed))
        errors.append(1 - model.score(*circle(1000 + seed, 6000, 0.0)))
        shares.append(model.irrelevant_weight([2, 3, 4]))
    assert np.median(errors) <= 0.05
    assert np.median(shares) <= 0.10


@pytest.mark.slow
def test_data_without_signal_gives_no_learner():
    some = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(-1, 1, (600, 5)), rng.integers(0, 2, 600)
        model = JensenShannonBoostClassifier(random_state=seed).fit(X, y)
        some += len(model.directions_[0]) > 0
    assert some <= 8


def test_tau_to_infinity_is_no_penalty_and_a_path_shares_its_reads():
    X, y = circle(2)
    model = JensenShannonBoostClassifier(n_learners=3, tau=[5.0, 1e9, np.inf])
    model.fit(X, y, validation=0.25)
    F = model.select(1e9).decision_function(X)
    np.testing.assert_array_equal(model.select(np.inf).decision_function(X), F)
    most = max(
        sum(r["n_reads"] for r in model.history_ if r.get("tau") == t and "n_reads" in r)
        for t in (5.0, np.inf)
    )
    assert model.n_passes_ <= 1 + most + 3 + 1
    losses = [point["validation_loss"] for point in model.path_]
    assert losses[1] == losses[2]  # one model, one loss
    assert 0 < losses[0] < np.log(2) > losses[1]  # both are better than no learner
    with pytest.raises(ValueError, match=r"tau=\[5.0, 10.0\] is a path.*validation"):
        JensenShannonBoostClassifier(tau=[5, 10]).fit(X, y)
    with pytest.raises(ValueError, match="tau=3 is not on the path"):
        model.select(3)


def test_several_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 4))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])]
    model = JensenShannonBoostClassifier(n_learners=15).fit(X, y)
    assert model.score(X, y) > 0.9
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    assert model.decision_function(X).shape == (900, 3)
    assert len(model.directions_) == 3
    assert model.irrelevant_weight([2, 3]) < 0.15


class TestBadInput:
    """Legal oddities do not break a fit; what is wrong is named."""

    @pytest.mark.parametrize("tau", [0, -1.0, [5.0, 0.0], []])
    def test_tau(self, tau):
        with pytest.raises(ValueError, match="tau.*(range|expected a number|is an empty)"):
            JensenShannonBoostClassifier(tau=tau).fit(*circle(0))

    def test_weights_that_sum_to_zero(self):
        X, y = circle(0)
        with pytest.raises(ValueError, match="weights must contain at least one non-zero"):
            JensenShannonBoostClassifier().fit(X, y, np.zeros(len(y)))

    def test_constant_columns_and_outliers(self):
        X, y = circle(0, 3000)
        X[:, 3], X[4, 0], X[5, 2] = 7.0, 1e15, -1e20
        model = JensenShannonBoostClassifier().fit(X, y)
        assert not model.directions_[0][:, 3].any()
        assert model.score(*circle(9, 3000, 0.0)) > 0.9

    def test_nothing_but_constants_gives_the_frequencies(self):
        y = np.arange(100) % 4 == 0
        model = JensenShannonBoostClassifier().fit(np.ones((100, 3)), y)
        assert model.predict_proba(np.ones((1, 3)))[0, 1] == pytest.approx(0.25, abs=0.01)

    def test_few_valued_columns_are_halved_by_row_number(self):
        rng = np.random.default_rng(0)
        X = rng.integers(0, 2, (2000, 2)).astype(float)
        y = (X[:, 0] == 1) ^ (rng.random(2000) < 0.2)
        model = JensenShannonBoostClassifier().fit(X, y)
        assert model.score(X, y) > 0.75

    def test_separable_classes(self):
        X, y = circle(0)
        y = (X[:, 0] > 0.1).astype(int)
        new = circle(1, 6000)[0]
        for smooth, least in ((False, 1.0), (True, 0.98)):
            model = JensenShannonBoostClassifier(
                stop=None, n_learners=30, shrinkage=1.0, smooth=smooth
            ).fit(X, y)
            assert model.score(X, y) >= least
        assert model.score(new, new[:, 0] > 0.1) >= 0.98


def test_many_columns_are_screened():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 90)).astype(np.float32)
    y = X[:, 70] + X[:, 80] > 0
    model = JensenShannonBoostClassifier(n_learners=1, tau=100.0).fit(X, y)
    assert np.flatnonzero(model.directions_[0][0]).tolist() == [70, 80]


def test_saved_and_loaded(tmp_path, fitted):
    X, _ = circle(5)
    sl.save(fitted, tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.path_[0]["n_learners"] == fitted.path_[0]["n_learners"]
