"""The search: what a read finds is exact, Omega never rises, planted expansions are recovered."""

import numpy as np
import pytest
from supersparse.supersparse_kit import as_dataset, objective, problem, rows

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.passes.fold import run_fold
from streamlearn.solvers.splits import split_of_content
from streamlearn.supersparse import model as model_module
from streamlearn.supersparse.descent import descend, swapped, warm_start
from streamlearn.supersparse.equations import solve
from streamlearn.supersparse.parameters import ridge_for
from streamlearn.supersparse.prototypes import Candidate, candidates_fold
from streamlearn.supersparse.sample import SampleObjective, canonical


@pytest.fixture
def small_sample(monkeypatch):
    """Tables of a few hundred rows are many: a sample is a part of them."""
    monkeypatch.setattr(model_module, "SAMPLE_ROWS", 150)
    monkeypatch.setattr(model_module, "ROWS_PER_ENTRY", 0)


def curve(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)


def tent(X, Z):
    return np.maximum(0.0, 1.0 - np.abs(X[:, None, :] - Z[None]).max(axis=2))


def test_a_read_finds_what_the_rows_in_memory_say():
    X, Y, u = rows(200)
    p = problem()
    sample = SampleObjective(p, *canonical(X, Y, u))
    Z = X[:4] + 0.05
    theta = sample.solution(Z).theta + 0.1
    chunk = Chunk(X, Y[:, 0], u, range(200))
    fold = candidates_fold(p, [Candidate(Z, theta), Candidate(Z[:2], None, 1)], 3, 5)
    first, second = run_fold(fold, [chunk])
    np.testing.assert_allclose(first.equations.A, sample.equations(Z).A, rtol=1e-11)
    gradient = first.pull * 2 / first.equations.weight
    sample.equations(Z)
    np.testing.assert_allclose(gradient, sample.gradient(Z, theta), rtol=1e-10)
    apart = split_of_content(X, 3, 5) == 1
    assert 0 < apart.sum() < 200
    assert second.held_out.weight == u[apart].sum()
    part = SampleObjective(p, X[~apart], Y[~apart], u[~apart])
    assert solve(second.equations, 1e-3).objective == pytest.approx(
        part.solution(Z[:2]).objective, rel=1e-10
    )


def test_splits_keep_copies_together():
    X = rows(50)[0]
    twice = split_of_content(np.vstack([X, X[::-1]]), 4, 9)
    np.testing.assert_array_equal(twice[:50], twice[50:][::-1])
    assert (
        np.bincount(split_of_content(np.random.default_rng(0).random((4000, 2)), 4, 9)).min() > 850
    )


@pytest.mark.parametrize("similarity", ["rbf", "laplacian"])
def test_a_planted_expansion_is_recovered(similarity):
    X, _, u = rows(300, p=2)
    Z = np.array([[0.3, 0.3], [0.8, 0.4], [0.4, 0.9]])
    p = problem(similarity, ridge=1e-12, gamma=4.0)
    Y = p.similarity.values(X, Z) @ np.array([[1.0], [-2.0], [1.5]]) + 0.3
    sample = SampleObjective(p, X, Y, u)
    found, value = descend(sample, Z + 0.05, tol=1e-13)
    assert value <= (1e-8 if similarity == "rbf" else 1e-4)
    if similarity == "rbf":
        np.testing.assert_allclose(found, Z, atol=1e-3)


def test_swaps_leave_a_bad_place():
    """Two prototypes in one spot, none at the other bump: descent alone stays, a swap does not."""
    X = np.linspace(0, 10, 400)[:, None]
    p = problem(ridge=1e-9, gamma=4.0)
    Y = np.exp(-4 * (X - 2) ** 2) + np.exp(-4 * (X - 8) ** 2)
    sample = SampleObjective(p, X, Y, np.ones(400))
    start = np.array([[2.0], [2.0]])
    stuck = descend(sample, start, tol=1e-9)[1]
    generator = np.random.default_rng(0)
    Z = warm_start(sample, start, repulsion=0.0, tol=1e-9, generator=generator)
    assert stuck > 0.01
    assert sample.solution(Z).objective < 1e-6
    moved = swapped(sample, start, 0, generator)
    assert min(abs(moved - 8.0)) < 1.0


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"schedule": "paper"},
        {"similarity": "laplacian"},
        {"similarity": "chi2"},
        {"similarity": "poly", "scaling": "none"},
        {"similarity": tent},
        {"similarity": tent, "neighbours": lambda z: z + 0.1 * np.vstack([np.eye(2), -np.eye(2)])},
    ],
    ids=lambda p: "-".join(map(str, p)) or "default",
)
def test_the_objective_never_rises_over_reads(small_sample, parameters):
    X, y = curve()
    model = sl.SuperSparseRegressor(4, n_passes=9, tol=1e-2, **parameters).fit(X, y)
    trail = [record["objective"] for record in model.history_]
    assert len(trail) >= 2
    assert all(b <= a for a, b in zip(trail[:-1], trail[1:], strict=True))
    assert model.certificate_.objective == trail[-1]
    error = np.mean((y - model.predict(X)) ** 2)
    penalty = ridge_for(model, len(y)) * (model.coef_**2).sum()
    assert trail[-1] == pytest.approx(error + penalty, rel=1e-6)
    assert model.n_passes_ == len(trail) + 1


def test_reads_reach_what_all_rows_in_memory_reach(small_sample, monkeypatch):
    X, y = curve()
    start = np.array([[0.1, 0.2], [0.5, 0.5], [0.9, 0.7]])
    options = {"init": start, "tol": 1e-6, "n_passes": 60}
    monkeypatch.setattr("streamlearn.supersparse.descent.SWAPS", 0)
    streamed = sl.SuperSparseRegressor(3, **options).fit(X, y).certificate_
    monkeypatch.setattr(model_module, "SAMPLE_ROWS", 10_000)
    whole = sl.SuperSparseRegressor(3, **options).fit(X, y)
    assert whole.n_passes_ == 2
    assert streamed.objective == pytest.approx(whole.certificate_.objective, rel=1e-3)


@pytest.mark.parametrize("rows_a_slice", [64, 97])
def test_chunking_changes_nothing(small_sample, rows_a_slice):
    X, y = curve()
    model = sl.SuperSparseRegressor(3, tol=1e-2).fit(as_dataset(X, y))
    sliced = sl.SuperSparseRegressor(3, tol=1e-2).fit(as_dataset(X, y, chunk_rows=rows_a_slice))
    np.testing.assert_allclose(sliced.prototypes_, model.prototypes_, rtol=1e-6)


def test_repulsion_decays_and_never_costs_the_proof():
    sample = objective(n=200)
    start = np.tile(sample.X[:1], (3, 1)) + 1e-3 * np.arange(3)[:, None]
    Z = warm_start(sample, start, repulsion=1.0, tol=1e-8, generator=np.random.default_rng(0))
    assert sample.solution(Z).objective < sample.solution(start).objective


def test_validation_loss_is_recorded_after_every_read(small_sample):
    X, y = curve()
    model = sl.SuperSparseRegressor(3, tol=1e-2).fit(X, y, validation=0.2)
    assert all(0 < record["validation_loss"] < 0.2 for record in model.history_)


def test_gains_are_falls_of_the_objective():
    """Over several blocks of rows: each candidate is tried by a solution with it."""
    X, Y, u = rows(2500)
    sample = SampleObjective(problem(ridge=1e-3), X, Y, u)
    Z, seeds = X[:4] + 0.05, X[10:40]
    before = sample.solution(Z)
    found = sample.gains(seeds, before.theta)
    after = np.array([sample.solution(np.vstack([Z, z])).objective for z in seeds])
    np.testing.assert_allclose(found / sample.weight, before.objective - after, rtol=1e-5)
