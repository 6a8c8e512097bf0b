"""Each pair's smoothness is that of the restricted likelihood of a sample, and its nodes follow."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from additive_kit import as_dataset, make_problem

import streamlearn as sl
from streamlearn.additive.basis.resolution import counts_of_nodes
from streamlearn.additive.costs import sizes
from streamlearn.additive.pairs import AUTO_PAIRS, Room, planned_nodes, weighed_sizes
from streamlearn.additive.screening.reading import finer_gains
from streamlearn.additive.smooth import costs as smooth_costs
from streamlearn.additive.smooth import pair_weights
from streamlearn.additive.smooth.sampled import Curves
from streamlearn.numeric.bases.bsplines import nodes_of
from streamlearn.numeric.bases.pairs import (
    MOST_FUNCTIONS,
    MOST_NODES,
    N_NODES,
    add_pairs,
    fill_pairs,
    scale_pairs,
)
from streamlearn.numeric.bases.roughness import make_reference, times
from streamlearn.passes.fold import read_all

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    f = np.sin(6 * X[:, 0]) + 6 * (X[:, 1] - 0.5) * (X[:, 2] - 0.5)
    return X, f + 0.5 * rng.standard_normal(n)


def with_pairs(X, y, loss, pairs, nodes=None, n_bases=9):
    """The problem of curves, the same with pairs, and the rows as a chunk."""
    data = as_dataset(X, y)
    main, _ = make_problem(data, loss, n_bases=n_bases, C=1.0)
    joined, roughness, c = add_pairs(
        main.bases, main.roughness, main.reference.c, np.array(pairs), 1, "integral", nodes
    )
    problem = main._replace(
        bases=joined, roughness=roughness, reference=make_reference(roughness, c)
    )
    return main, problem, next(iter(read_all(data)))


def explicit(problem, X):
    """(n, dim + 1) the functions of all terms, less their reference, and 1."""
    bases, columns = problem.bases, []
    for d in range(bases.n_columns):
        knots = bases.knots[slice(*bases.first_knot[d : d + 2])]
        columns += [np.interp(X[:, d], knots, line) for line in np.eye(len(knots))]
    Phi = np.zeros((bases.dim, len(X)))
    Phi[: len(columns)] = columns
    fill_pairs(bases, Phi)
    return np.column_stack([Phi.T - problem.reference.c, np.ones(len(X))])


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_the_weight_of_one_pair_is_a_fixed_point_of_fellner_schall_with_all_terms(
    loss, monkeypatch
):
    """Beside other terms whose weights are fixed, by the inverse of all equations."""
    monkeypatch.setattr(pair_weights, "STEADY", 1e-9)
    monkeypatch.setattr(pair_weights, "MOST_UPDATES", 1000)
    monkeypatch.setattr(pair_weights, "ROUNDS", 1)
    X, y = table()
    main, problem, chunk = with_pairs(X, y if loss == "squared_error" else y > 0, loss, [(1, 2)])
    theta = np.zeros((1, main.dim + 1))
    found = pair_weights.weigh_pairs(Curves(main, theta, chunk, np.zeros(1), []), problem, 1)
    n = problem.dim - main.dim
    own = slice(main.dim, problem.dim)
    before, after = (
        times(one.roughness.P, one.roughness, np.eye(problem.dim)) for one in (problem, found)
    )
    np.testing.assert_array_equal(after[: main.dim], before[: main.dim])
    weight = after[-1, -1] / before[-1, -1]
    np.testing.assert_allclose(after[own], weight * before[own], rtol=1e-12)

    Z = explicit(problem, X)
    curvature, target = (2.0, y) if loss == "squared_error" else (0.25, 4.0 * (y > 0) - 2.0)
    P = np.eye(problem.dim + 1)  # the intercept's too
    P[:-1, :-1] = after
    V = np.linalg.inv(curvature * Z.T @ Z + P)
    w = V @ (curvature * Z.T @ target)
    gamma = n - np.trace(V[own, own] @ after[own, own])
    psi = 1.0
    if loss == "squared_error":
        curves = np.r_[: main.dim, problem.dim]
        A = curvature * Z[:, curves].T @ Z[:, curves]
        edf = gamma + np.trace(np.linalg.solve(A + P[np.ix_(curves, curves)], A))
        held = w[curves] @ P[np.ix_(curves, curves)] @ w[curves] / 2
        psi = 2.0 * (((y - Z @ w) ** 2).sum() + held) / (len(y) - edf)
    expected = psi * gamma / (w[own] @ before[own, own] @ w[own])
    np.testing.assert_allclose(weight, expected, rtol=1e-5)


def test_two_outputs_that_mirror_each_other_have_the_weights_of_one():
    X, y = table()
    weights = []
    for K in (1, 2):
        main, problem, chunk = with_pairs(X, y > 0, "log_loss", [(1, 2), (0, 1)])
        theta = np.zeros((K, main.dim + 1))
        if K == 2:  # classes 0 and 1, each against the other: decisions of one sign and the other
            main, problem = (one._replace(n_outputs=2) for one in (main, problem))
        curves = Curves(main, theta, chunk, np.zeros(K), [])
        found = pair_weights.weigh_pairs(curves, problem, 1).roughness
        weights.append([found.P[at] for at in found.table[3:]])
    np.testing.assert_allclose(*weights, rtol=1e-6)


@pytest.mark.parametrize("missing", [False, True])
def test_scaled_penalties_and_their_factors_agree(missing):
    X, y = table()
    if missing:
        X[::7, 1] = np.nan
    _, problem, _ = with_pairs(X, y, "squared_error", [(0, 1), (0, 2), (1, 2)])
    weights = np.array([0.1, 1.0, 30.0])
    found = scale_pairs(problem.bases, problem.roughness, weights)
    assert len(set(found.table.tolist()[3:])) == 3
    each = np.repeat([1.0, *weights], np.diff([0, *problem.bases.first[3:]]))
    unit = np.eye(problem.dim)
    for name, factor in (("P", each), ("L", 1 / each), ("R", np.sqrt(each))):
        before = times(getattr(problem.roughness, name), problem.roughness, unit)
        after = times(getattr(found, name), found, unit)
        np.testing.assert_allclose(after, before * factor[:, None], rtol=1e-12)


@pytest.mark.parametrize("room", [0, 500, 1000, 1600, 5000])
@pytest.mark.parametrize("gains", [(0, 0, 0), (1, 0, 0), (5, 1, 1), (1, 1, 1), (-1, 3, 0)])
def test_nodes_follow_the_gains_within_the_room(room, gains):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((600, 3)), rng.integers(0, 3, 600)])
    main, _ = make_problem(as_dataset(X, X[:, 0]), "squared_error", n_bases=40)
    pairs = np.array([(0, 1), (1, 2), (2, 3)])
    nodes = counts_of_nodes(main.bases, pairs, np.array(gains, float), room)
    size = [
        len(nodes_of(main.bases, d, n)) * len(nodes_of(main.bases, e, n))
        for (d, e), n in zip(pairs.tolist(), nodes.tolist(), strict=True)
    ]
    assert ((nodes >= N_NODES) & (nodes <= MOST_NODES)).all()
    assert sum(size) <= max(room, 64 + 64 + 24)
    assert max(size) <= MOST_FUNCTIONS
    assert (nodes[np.array(gains) <= 0] == N_NODES).all()
    if room == 5000 and max(gains) > 0:
        assert nodes[np.argmax(gains)] == MOST_NODES
    if gains == (5, 1, 1):
        assert nodes[0] >= nodes[1]


def test_finer_tables_promise_gains_where_neighbours_differ():
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 3))
    f = np.sign(np.sin(40 * X[:, 0]) * np.sin(40 * X[:, 1])) + (X[:, 1] - 0.5) * (X[:, 2] - 0.5)
    data = as_dataset(X, f + rng.standard_normal(len(X)), rows=len(X))
    main, _ = make_problem(data, "squared_error", n_bases=60)
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    gains = finer_gains(main, np.zeros((1, main.dim + 1)), pairs, next(iter(read_all(data))))
    assert gains[0] > 1000
    np.testing.assert_array_equal(gains[1:], 0)


def test_a_ragged_pair_is_learned_and_what_is_noise_is_smoothed_away():
    rng = np.random.default_rng(0)
    X = rng.random((16_000, 4))
    f = np.sign(np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1])) + X[:, 2]
    y = f + rng.standard_normal(len(X))
    train, test = slice(0, 12_000), slice(12_000, None)
    pairs = {"interactions": [(0, 1), (1, 2), (2, 3)]}
    model = sl.AdditiveRegressor(**pairs).fit(X[train], y[train])
    one = sl.AdditiveRegressor(C=1.0, **pairs).fit(X[train], y[train])
    most = dict(zip(model.bases_.pair_columns, model.bases_.pairs[:, 2].tolist(), strict=True))
    assert most[0, 1] > 24
    assert most[1, 2] == most[2, 3] == N_NODES
    left = [1 - own.score(X[test], y[test]) for own in (model, one)]
    best = 1 / np.var(y[test])
    assert left[0] - best < 0.4 * (left[1] - best)
    assert model.certificate_.converged
    ragged, noise = (model.term_importances_[name] for name in (4, 6))
    assert noise < 0.02 * ragged


def test_models_with_more_nodes_are_kept_in_files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((8000, 2))
    y = np.sign(np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1])) + rng.standard_normal(len(X))
    model = sl.AdditiveRegressor(interactions=[(0, 1)]).fit(X, y)
    assert model.bases_.pairs[0, 2] > N_NODES
    sl.save(model, tmp_path / "model.slm")
    np.testing.assert_array_equal(sl.load(tmp_path / "model.slm").predict(X), model.predict(X))
    parts = model.explain(X[:50])
    total = parts.sum(axis=1) + np.ravel(model.intercept_)
    np.testing.assert_allclose(total, model.predict(X[:50]), rtol=1e-9)
    (pure,) = model.pair_tables_
    assert pure.table.shape == (model.bases_.pairs[0, 2],) * 2
    for axis in (0, 1):
        np.testing.assert_allclose((pure.density * pure.table).sum(axis=axis), 0, atol=1e-10)


KINDS = ("many", "few", "word", "gaps", "two")


def frame(n=700):
    rng = np.random.default_rng(0)
    out = {}
    for twin in "ab":
        out |= {
            f"many {twin}": rng.random(n),
            f"few {twin}": rng.integers(0, 12, n).astype(float),
            f"word {twin}": rng.choice(list("abcdefghijkl"), n).astype(object),
            f"gaps {twin}": np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
            f"two {twin}": rng.integers(0, 2, n).astype(float),
        }
    return pd.DataFrame(out)


FRAME = frame()
PAIRS = [
    [(f"{one} a", f"{other} b")] for one, other in combinations(KINDS, 2)
] + [[(f"{one} a", f"{one} b") for one in KINDS]]  # fmt: skip


@pytest.mark.parametrize("interactions", [*PAIRS, AUTO_PAIRS], ids=str)
def test_a_plan_knows_the_most_functions_and_penalties_of_weighed_pairs(interactions, monkeypatch):
    monkeypatch.setattr(smooth_costs, "LEAST_ROWS", 200)
    monkeypatch.setattr(smooth_costs, "ROWS_A_FUNCTION", 1)
    y = FRAME["many a"] * FRAME["few a"] + FRAME["two a"] * (FRAME["word a"] == "b")
    data = sl.open_dataset(FRAME.assign(target=y), target="target")
    model = sl.AdditiveRegressor(interactions=interactions, n_bases=20)
    known, before = (model._size(data, one) for one in (data.summary(), None))
    model.fit(data)
    p = model.bases_.n_columns
    n = np.diff(model.bases_.first[p:])
    assert n.sum() <= known.pair_dim <= before.pair_dim
    assert (n**2).sum() <= known.pair_squares <= before.pair_squares


@pytest.mark.parametrize("finer", [100, 700, 2000])
@pytest.mark.parametrize("weighed", [100, 700, 2000])
def test_sizes_are_those_of_the_worst_share(finer, weighed):
    """Against every way to share the room among given pairs, in steps."""
    model = sl.AdditiveRegressor(interactions=[(0, 1), (2, 3)])
    pairs, least, most = np.array([(0, 1), (2, 3)]), np.full(4, 8), np.array([32, 32, 16, 16])
    found = weighed_sizes(model, pairs, (least, most), (128, 64**2), Room(finer, weighed))
    worst = [0, 0]
    for a in range(8, 33):
        for b in range(8, 17):
            n = a * a, b * b
            if sum(n) == 128 or sum(n) <= finer:
                squares = sum(x * x for x in n) if sum(n) <= weighed else 64**2
                worst = [max(worst[0], sum(n)), max(worst[1], squares)]
    assert found[0] >= worst[0]
    assert found[1] >= worst[1]


def test_a_plan_of_columns_with_few_values_counts_no_more_nodes_than_values():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (6000, 12)).astype(float)
    data = as_dataset(X, X[:, 0] * X[:, 1])
    model = sl.AdditiveRegressor(interactions=AUTO_PAIRS)
    assert model._size(data, data.summary()).pair_dim == 40
    assert sizes.size_of(model, data, data.summary()).pair_dim == 40
    assert planned_nodes(model, data, data.summary().columns, MOST_NODES).n.tolist() == [2] * 12
