"""Oracles of the objective: coefficients, gradients, removal (algorithms E4)."""

import numpy as np
import pytest
from oracles import gradient_by_differences
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise
from supersparse.supersparse_kit import objective, rows, written_out

from streamlearn.supersparse.equations import removal_costs, removal_order, solve, without
from streamlearn.supersparse.similarity import NAMES, make_similarity


def tent(X, Z):
    return 1.0 / (1.0 + 2.0 * ((X[:, None, :] - Z[None]) ** 2).sum(axis=2))


def tent_vjp(X, Z, R):
    S = tent(X, Z)
    return 4.0 * np.einsum("ij,ijd->jd", R * S**2, X[:, None, :] - Z[None])


def places(m=4, p=3, seed=1):
    return np.random.default_rng(seed).random((m, p)) + 0.1


@pytest.mark.parametrize("similarity", [*NAMES, (tent, tent_vjp)])
@pytest.mark.parametrize("T", [1, 3])
def test_gradient_is_that_of_finite_differences_and_of_eqs_5_and_6(similarity, T):
    sample, Z = objective(similarity, T=T), places()
    solution = sample.solution(Z)
    envelope = sample.gradient(Z, solution.theta)
    numeric = gradient_by_differences(
        lambda z: sample.solution(z.reshape(Z.shape)).objective, Z.ravel()
    ).reshape(Z.shape)
    scale = np.abs(numeric).max()
    np.testing.assert_allclose(envelope, numeric, atol=1e-6 * scale)
    np.testing.assert_allclose(envelope, full_gradient(sample, Z), atol=1e-6 * scale)


def full_gradient(sample, Z):
    """Eq. 5 with the derivatives of the coefficients of eq. 6, nothing cancelled."""
    sim, W, m = sample.problem.similarity, sample.u.sum(), len(Z)
    K = np.column_stack([sim.values(sample.X, Z), np.ones(len(sample.X))])
    U = sample.u[:, None] / W
    L = sample.problem.ridge * np.diag([*np.ones(m), 0.0])
    A = K.T @ (U * K) + L
    theta = np.linalg.solve(A, K.T @ (U * sample.Y))
    r = K @ theta - sample.Y
    rest = K.T @ (U * r) + L @ theta
    out = np.empty(Z.shape)
    for j in range(m):
        for d in range(Z.shape[1]):
            kappa = derivative(sim, sample.X, Z[j], d)
            turn = np.zeros(theta.shape)
            turn[j] = kappa @ (U * r)
            turn += np.outer(K.T @ (U[:, 0] * kappa), theta[j])
            change = -np.linalg.solve(A, turn)
            out[j, d] = 2 * (kappa @ (U * r)) @ theta[j] + 2 * (change * rest).sum()
    return out


def derivative(sim, X, z, d, h=1e-4):
    def at(step):
        return sim.values(X, (z + step * (np.arange(len(z)) == d))[None])[:, 0]

    return (8 * (at(h) - at(-h)) - at(2 * h) + at(-2 * h)) / (12 * h)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "linear", "poly"])
def test_values_are_scikit_learns(name):
    X, _, _ = rows()
    kernel = getattr(pairwise, {"poly": "polynomial"}.get(name, name) + "_kernel")
    kw = {} if name == "linear" else {"gamma": 0.7}
    sim = make_similarity(name, gamma=0.7, centre=X.mean(axis=0))
    np.testing.assert_allclose(sim.values(X, X[:5]), kernel(X, X[:5], **kw), rtol=1e-12)


def test_rbf_is_exact_far_from_the_origin():
    X = rows()[0]
    near = make_similarity("rbf", gamma=2.0).values(X, X[:4])
    far = make_similarity("rbf", gamma=2.0, centre=X.mean(axis=0) + 1e6)
    np.testing.assert_allclose(far.values(X + 1e6, X[:4] + 1e6), near, rtol=1e-8)


@pytest.mark.parametrize("T", [1, 2])
def test_coefficients_are_weighted_ridge(T):
    sample, Z = objective(T=T), places()
    solution = sample.solution(Z)
    S = sample.problem.similarity.values(sample.X, Z)
    alpha = sample.problem.ridge * sample.u.sum()
    ridge = Ridge(alpha=alpha, solver="svd").fit(S, sample.Y, sample.u)
    np.testing.assert_allclose(solution.theta[:-1].T, ridge.coef_.reshape(T, -1), rtol=1e-9)
    np.testing.assert_allclose(solution.theta[-1], np.ravel(ridge.intercept_), rtol=1e-9)
    assert solution.objective == pytest.approx(written_out(sample, Z, solution.theta), rel=1e-12)


def test_removal_costs_are_those_of_brute_force():
    sample, Z = objective(), places(6)
    equations = sample.equations(Z)
    solution = solve(equations, 1e-3)
    costs = removal_costs(equations, 1e-3, solution.theta)
    brute = [
        sample.solution(np.delete(Z, j, axis=0)).objective - solution.objective for j in range(6)
    ]
    np.testing.assert_allclose(costs, brute, rtol=1e-7)
    kept = removal_order(equations, 1e-3, 5)
    assert set(range(6)) - set(kept) == {int(np.argmin(brute))}


@pytest.mark.parametrize("ridge", [1e-3, 0.0])
def test_equal_prototypes_cost_nothing(ridge):
    """Without a ridge the equations are singular: the shortest coefficients are taken."""
    sample, Z = objective(ridge=ridge), places(3)
    twice = np.vstack([Z, Z[:1]])
    equations = sample.equations(twice)
    solution = solve(equations, ridge)
    assert solution.objective <= sample.solution(Z).objective + 1e-12
    np.testing.assert_allclose(solution.theta[0], solution.theta[3], rtol=1e-6)
    costs = removal_costs(equations, ridge, solution.theta)
    if not ridge:
        assert costs[[0, 3]].max() < 1e-9 * solution.objective
    assert solve(without(equations, np.arange(3)), ridge).objective == pytest.approx(
        sample.solution(Z).objective, rel=1e-9
    )


def test_a_prototype_at_every_row_interpolates():
    sample = objective(ridge=1e-13, n=25, gamma=30.0)
    solution = sample.solution(sample.X)
    assert np.abs(sample.residual(solution.theta)).max() < 1e-6


def test_linear_similarity_spans_the_same_functions_wherever_the_prototypes_are():
    """m >= p and no ridge: the least squares of the columns."""
    sample = objective("linear", ridge=1e-12)
    K = np.column_stack([sample.X, np.ones(len(sample.X))])
    root = np.sqrt(sample.u)[:, None]
    left = np.linalg.lstsq(root * K, root * sample.Y, rcond=None)[1] / sample.u.sum()
    for seed in (1, 2):
        assert sample.solution(places(4, seed=seed)).objective == pytest.approx(left[0], rel=1e-6)


def test_gain_of_a_further_prototype_is_exact():
    sample, Z = objective(), places(3)
    solution = sample.solution(Z)
    gains = sample.gains(sample.X[:5], solution.theta) / sample.weight
    brute = [
        solution.objective - sample.solution(np.vstack([Z, x])).objective for x in sample.X[:5]
    ]
    np.testing.assert_allclose(gains, brute, rtol=1e-6)


def test_repulsion_gradient():
    sample, Z = objective(), places()
    numeric = gradient_by_differences(lambda z: sample.repulsion(z.reshape(Z.shape))[0], Z.ravel())
    np.testing.assert_allclose(sample.repulsion(Z)[1].ravel(), numeric, atol=1e-8)


def test_a_callable_is_not_asked_again_for_what_it_gave_last():
    asked = []

    def similarity(X, Z):
        asked.append(len(Z))
        return np.exp(-np.abs(X[:, None] - Z).sum(axis=2))

    sample = objective(similarity)
    Z = np.random.default_rng(1).random((4, 3))
    moved = Z.copy()
    moved[2] += 0.1
    # begin, a trial, back, another trial, on from it, a trial of all
    for at, columns in ((Z, 4), (moved, 1), (Z, 0), (moved + [[0], [0], [1], [0]], 1), (Z + 1, 4)):
        asked.clear()
        found = sample.equations(at)
        S, theta = sample.similarities.copy(), sample.solution(at).theta
        assert set(asked) == ({columns} if columns else set())
        fresh = objective(similarity)
        np.testing.assert_allclose(found.A, fresh.equations(at).A, rtol=1e-14)
        np.testing.assert_array_equal(S, fresh.similarities)
        np.testing.assert_allclose(sample.gradient(at, theta), fresh.gradient(at, theta))
