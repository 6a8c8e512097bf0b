"""The full correction against scipy's minimum, from points where Newton's own step is no help."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from streamlearn.data.source import Chunk
from streamlearn.passes.fold import RowState
from streamlearn.shareboost.correction import correct
from streamlearn.shareboost.curvature import Metric, squares_fold
from streamlearn.shareboost.design import BASE, TARGET, Layout
from streamlearn.shareboost.objective import Penalty, margin_softmax

M, P, K = 80, 3, 3


def problem(ridge, largest=1.0):
    """(layout, chunk, value and gradient of theta (K, 1 + P), penalty); the first row is larger."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((M, P))
    X[0] *= largest
    codes = (X[:, 0] + 0.5 * rng.standard_normal(M) > 0).astype(int) + (X[:, 1] > 1)
    codes[0] = 0
    share = rng.random(M)
    share /= share.sum()
    feature = RowState("feature", "float64", P, False)
    layout = Layout(
        (TARGET, feature), tuple(("feature", j) for j in range(P)), 0, *2 * ("float64",)
    )
    states = {TARGET.name: np.column_stack([codes, share]), "feature": X}
    chunk, penalty = Chunk(np.empty((M, 0)), rows=range(M), state=states), Penalty(ridge, 0.0, 1.0)

    def value(flat):
        theta = flat.reshape(K, 1 + P)
        A = np.column_stack([np.ones(M), X])
        loss, rho = margin_softmax(A @ theta.T, codes)
        rho[np.arange(M), codes] -= 1.0
        g = (rho * share[:, None]).T @ A
        g[:, 1:] += penalty.gradient(theta[:, 1:])
        return share @ loss + penalty.value(theta[:, 1:]), g.ravel()

    return layout, chunk, value, penalty


def read(chunk, fold):
    return fold.finish(fold.step(fold.start(), chunk))


@pytest.mark.parametrize("kind", ["newton", "blocks"])
@pytest.mark.parametrize(
    ("far", "largest", "most"),
    [(0.0, 1.0, 30), (30.0, 1.0, 100), (3_000.0, 1.0, 200), (0.0, 1e4, 100), (30.0, 1e4, 500)],
)
def test_the_minimum_is_found_from_rows_that_are_wrong_without_doubt(kind, far, largest, most):
    """Such a row pulls, and its curvature is 0: undamped steps are 10^11 times too long."""
    layout, chunk, value, penalty = problem(1e-3, largest)
    best = minimize(value, np.zeros(K * (1 + P)), jac=True, method="BFGS", options={"gtol": 1e-9})
    theta = far * np.random.default_rng(1).standard_normal((K, 1 + P))
    theta -= theta.mean(axis=0)
    metric = Metric(kind, ((0, 1 + P),), 1)
    solved = correct(partial(read, chunk), layout, theta, penalty, metric, 1e-9)
    assert solved.converged
    assert solved.n_reads <= most
    assert solved.value == pytest.approx(best.fun, rel=1e-6)
    assert np.abs(solved.theta.sum(axis=0)).max() < 1e-9 * max(far, 1)


def test_where_nothing_pulls_a_damped_correction_ends():
    """A damped step leads to scores by which every row is right to the last bit."""
    rng = np.random.default_rng(0)
    X, codes = np.repeat([[-1.0], [1.0]], 4, axis=0), np.repeat([0, 1], 4)
    feature = RowState("feature", "float64", 1, False)
    layout = Layout((TARGET, feature), (("feature", 0),), 0, "float64", "float64")
    states = {TARGET.name: np.column_stack([codes, np.full(8, 1 / 8)]), "feature": X}
    chunk = Chunk(np.empty((8, 0)), rows=range(8), state=states)
    theta = 2_000.0 * np.array([[0.0, 1.0], [0.0, -1.0]]) + rng.normal(size=(2, 1))
    theta -= theta.mean(axis=0)
    metric = Metric("newton", ((0, 2),), 1)
    solved = correct(partial(read, chunk), layout, theta, Penalty(0.0, 0.0, 1.0), metric, 0.0)
    assert solved.converged
    assert (solved.value, np.abs(solved.gradient).max()) == (0.0, 0.0)


def test_a_row_in_doubt_of_nothing_needs_no_damping():
    """From the minimum no squares are read: one read of the value and one of the curvature."""
    layout, chunk, value, penalty = problem(1e-3)
    best = minimize(value, np.zeros(K * (1 + P)), jac=True, method="BFGS", options={"gtol": 1e-9})
    theta = best.x.reshape(K, 1 + P)
    metric = Metric("newton", ((0, 1 + P),), 1)
    solved = correct(
        partial(read, chunk), layout, theta - theta.mean(axis=0), penalty, metric, 1e-6
    )
    assert solved.converged
    assert solved.n_reads == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pieces", [False, True])
def test_squares_are_those_of_the_design_written_out(dtype, pieces):
    rng = np.random.default_rng(0)
    V, w, share = rng.random((M, 2)).astype(dtype), rng.random((M, P)).astype(dtype), rng.random(M)
    w[::3] = 0
    share[::5] = 0  # absent rows
    feature = RowState("feature", dtype, P, False)
    picks = tuple(("feature", j) for j in range(P))
    layout = Layout((TARGET, feature), picks, 2 if pieces else 0, dtype, dtype)
    states = {TARGET.name: np.column_stack([np.zeros(M), share]), "feature": w, BASE: V}
    chunk = Chunk(np.empty((M, 0)), rows=range(M), state=states)
    base = np.column_stack([V, np.ones(M)]) if pieces else np.ones((M, 1))
    A = np.concatenate([np.ones((M, 1)), *(base * w[:, [j]] for j in range(P))], axis=1)
    np.testing.assert_allclose(read(chunk, squares_fold(layout)), share @ A**2, rtol=1e-6)
