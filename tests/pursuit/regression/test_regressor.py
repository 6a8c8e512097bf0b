"""Projection pursuit regression: the costs of its reads, and its search."""

import numpy as np
import pytest
from pursuit.direct import cost_of, design, product, z_of

import streamlearn as sl
from streamlearn import ProjectionPursuitRegressor
from streamlearn.data.memory.opening import open_arrays
from streamlearn.data.open import dataset_of
from streamlearn.estimator.rows.targets import coded
from streamlearn.passes.fold import run_fold
from streamlearn.pursuit.columns import make_columns
from streamlearn.pursuit.regression.reads import RidgeRequest, Term, ridge_fold
from streamlearn.pursuit.regression.smoothers import PSpline, full_gram
from streamlearn.pursuit.search import COARSE, Strength, Trial, make_strength, seek


@pytest.fixture(scope="module")
def rows():
    X, y = product(0, 0.1, 700)
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    store = open_arrays(X, y, w)
    dataset = dataset_of(store, "y", "sample_weight", [f"x{j}" for j in range(5)], chunk_rows=150)
    return X, y, w, dataset


def answer(rows, ask):
    X, y, w, dataset = rows
    columns = make_columns(dataset.summary(), True)
    source = coded(dataset, None)
    with source.reader() as reader:
        told = run_fold(ridge_fold(columns, (ask,)), (reader.read(ref) for ref in source.refs()))
    return columns, told[0]


def make_ask(trials, **changes):
    ask = RidgeRequest(
        (), 0.25, tuple(trials), np.arange(5), None, 10.0, "scale-free", PSpline(16), False, 1.0
    )
    return ask._replace(**changes)


ALPHAS = [[1, 0, 0, 0, 0], [1, 0.5, 0, 0, -0.2], [0, 0, 0.3, 0.9, 0]]


def make_trials(alphas=ALPHAS):
    none = np.zeros(16)
    return [Trial(np.array(a, float), -4.0, 4.5, none) for a in alphas]


def test_costs_of_a_read_are_those_of_direct_fits(rows):
    X, y, w, _ = rows
    columns, told = answer(rows, make_ask(make_trials()))
    for trial, cost in zip(make_trials(), told.costs, strict=True):
        t = z_of(X, columns) @ trial.alpha
        assert cost == pytest.approx(cost_of(t, y - 0.25, w, -4.0, 4.5, 16), rel=1e-9)


def test_sums_of_a_read_are_exact(rows):
    X, y, w, _ = rows
    rng = np.random.default_rng(0)
    term = Term(np.array([0, 1.0, 0, 0.5, 0]), -3.0, 3.0, rng.standard_normal(12), PSpline(12))
    columns, told = answer(rows, make_ask(make_trials(), terms=(term,)))
    Z = z_of(X, columns)
    Psi = design(Z @ term.alpha, term.low, term.high, 12)
    r = y - 0.25 - Psi @ term.theta
    assert told.scale == pytest.approx(w @ r**2, rel=1e-12)
    for trial, measured in zip(make_trials(), told.measured, strict=True):
        Phi = design(Z @ trial.alpha, trial.low, trial.high, 16)
        pairs = [
            (full_gram(measured.band), Phi.T @ (w[:, None] * Phi)),
            (measured.moment, Phi.T @ (w * r)),
            *((cross, Psi.T @ (w[:, None] * Phi)) for cross in measured.cross),
        ]
        assert len(pairs) == (3 if trial.alpha[1] == 0 and trial.alpha[0] else 2)
        for got, expected in pairs:
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_a_table_scores_a_step_as_the_rows_do(rows):
    """Within 2 % of the gain; and its favourite is the rows' favourite."""
    X, y, w, _ = rows
    start = make_trials([[1, 0, 0, 0, 0]])
    columns, told = answer(rows, make_ask(start, tau=np.inf))
    best = told.moves[0]
    Z, r = z_of(X, columns), y - 0.25
    exact = {}
    for m in range(5):
        for shift in COARSE:
            alpha = start[0].alpha.copy()
            alpha[m] += shift
            if alpha.any():
                t = Z @ alpha
                cost = cost_of(t, r, w, t.min() - 0.05, t.max() + 0.05, 16)
                exact[m, round(float(shift), 1)] = cost
    now = exact[0, 0.0]
    m, shift = min(exact, key=exact.get)
    assert np.flatnonzero(best.alpha).tolist() == sorted({0, m})
    assert best.predicted == pytest.approx(exact[m, shift] - now, rel=0.02)
    assert best.alpha[m] / best.alpha[0] == pytest.approx(shift, abs=0.15)


def test_slopes_are_those_of_the_cost(rows):
    """The envelope slope against a difference of direct fits at the same penalty."""
    X, y, w, dataset = rows
    columns, told = answer(rows, make_ask(make_trials()))
    first = told.measured[0]
    fit = PSpline(16).fit(first.band[None], first.moment[None], first.rr, first.n)
    trial = make_trials()[0]._replace(theta=fit.theta[0])
    ask = make_ask([trial], chosen=np.arange(2), screens=True)
    _, screened = answer(rows, ask)
    Z, r = z_of(X, columns), y - 0.25
    D = np.diff(np.eye(16), 2, axis=0)

    def value(alpha):
        Phi = design(Z @ alpha, -4.0, 4.5, 16)
        A = Phi.T @ (w[:, None] * Phi) + fit.mu[0] * D.T @ D
        b = Phi.T @ (w * r)
        return -b @ np.linalg.pinv(A, hermitian=True) @ b

    e = 1e-4
    slopes = [
        (value(trial.alpha + e * u) - value(trial.alpha - e * u)) / (2 * e) for u in np.eye(5)
    ]
    # the kernel's pull is f(t + h) - f(t - h) with h = 0.001 of the range
    got = -2 * screened.slopes / (2e-3 * 8.5)
    np.testing.assert_allclose(got[1:], slopes[1:], rtol=0.02, atol=0.02 * np.abs(slopes).max())


@pytest.fixture(scope="module")
def fitted():
    X, y = product(3, 0.1)
    taus = [10.0, 30.0, 1e9, np.inf]
    return ProjectionPursuitRegressor(n_terms=2, tau=taus, stop=None).fit(X, y)


def test_the_cost_falls_with_every_move_and_reads_are_few(fitted):
    for record in fitted.history_:
        assert (np.diff(record["costs"]) < 0).all()
        assert record["n_reads"] <= 2 + len(record["costs"]) - 1


def test_no_coarse_step_lowers_the_cost_by_much(fitted):
    """Of a direction found, by direct fits of every coarse step of every column."""
    X, y = product(3, 0.1)
    fitted.select(30.0)
    record = fitted.history_[4]
    assert (record["tau"], record["term"]) == (30.0, 1)
    Z = z_of(X, fitted._columns)
    model = ProjectionPursuitRegressor(n_terms=1, tau=30.0, stop=None).fit(X, y)
    (term,) = model._terms
    (found,) = model.history_
    r, w = y - y.mean(), np.ones(len(y))
    for m in range(5):
        for shift in COARSE[COARSE != 0]:
            alpha = term.alpha.copy()
            alpha[m] += shift
            t = Z @ alpha
            cost = cost_of(t, r, w, t.min() - 0.05, t.max() + 0.05, 16)
            cost += Strength(found["weight"], found["charge"]).at(alpha, "scale-free")
            assert cost > found["costs"][-1] - 2e-3 * (r @ r)


def test_tau_to_infinity_is_no_penalty(fitted):
    X, _ = product(4, 0.0)
    np.testing.assert_array_equal(fitted.select(1e9).predict(X), fitted.select(np.inf).predict(X))


def test_a_path_gives_what_single_fits_give(fitted):
    X, y = product(3, 0.1)
    alone = ProjectionPursuitRegressor(n_terms=2, tau=30.0, stop=None).fit(X, y)
    np.testing.assert_array_equal(alone.predict(X), fitted.select(30.0).predict(X))
    single = sum(r["n_reads"] for r in alone.history_)
    assert alone.n_passes_ == 1 + single
    most = max(sum(r["n_reads"] for r in fitted.history_ if r["tau"] == t) for t in (10.0, np.inf))
    assert fitted.n_passes_ <= 1 + max(most, single) + 6
    with pytest.raises(ValueError, match=r"tau=7 is not on the path \[10.0, 30.0"):
        fitted.select(7)


def test_saved_and_loaded(tmp_path, fitted):
    X, _ = product(5, 0.0)
    sl.save(fitted.select(10.0), tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    assert loaded.tau_ == 10.0
    np.testing.assert_array_equal(loaded.select(30.0).predict(X), fitted.select(30.0).predict(X))


def test_search_ends_when_the_favourite_fails():
    """By hand: the second trial is taken if it is better, and no read follows."""

    class Answer:
        scale, slopes, measured = 1.0, None, ["a", "b"]

        def __init__(self, costs, moves):
            self.costs, self.moves, self.strength = np.array(costs), moves, Strength(0.0, 0.0)

    def trial(a, predicted):
        return Trial(np.array([1.0, a]), 0.0, 1.0, np.zeros(0), predicted)

    search = seek(lambda *ask: ask, (trial(0, 0.0),), None, "paper", 1e-4)
    next(search)
    moves = (trial(0.1, -0.2), trial(0.2, -0.1))
    search.send(Answer([5.0], moves))
    last = search.send(Answer([5.1, 4.9], moves))
    assert last[0] == (moves[1],)  # read once more, as a first trial
    with pytest.raises(StopIteration) as end:
        search.send(Answer([4.9], moves))
    found = end.value.value
    assert (found.cost, found.n_reads, found.costs) == (4.9, 3, [5.0, 4.9])
    assert found.answer.measured[found.place] == "a"


def test_the_penalty_has_a_least_part_for_each_column():
    """By hand; it knows no scale, and without a charge it is the ratio of norms."""
    plain, charged = Strength(2.0, 0.0), Strength(2.0, 0.5)
    alpha = np.array([0.0, 3.0, -4.0])
    assert plain.at(alpha, "scale-free") == pytest.approx(2 * 7 / 5)
    assert plain.at(alpha, "paper") == 14
    assert charged.at(alpha, "scale-free") == pytest.approx(2.8)  # 0.8 for the second is enough
    assert charged.at(np.array([1.0, 0.0, 0.01]), "scale-free") == pytest.approx(2.5)
    three = np.array([1.0, -1.0, 1e-3])
    assert charged.at(7 * three, "scale-free") == pytest.approx(charged.at(three, "scale-free"))
    assert charged.at(three, "scale-free") == pytest.approx(2 * np.sqrt(2) + 0.5, abs=1e-2)
    assert make_strength(1.0, 100.0, 10, 1e-2).charge == pytest.approx(0.04 * np.log(10))
    assert make_strength(0.0, 100.0, 10, 1.0) == Strength(0.0, 0.0)  # tau = inf
