"""Damped Newton against closed forms and scipy.optimize."""

import numpy as np
import pytest
from scipy.optimize import minimize

from streamlearn.solvers.damped_newton import damped_newton, shorter


def counted(evaluate):
    """The same function, and the list of the values it gave."""
    values = []

    def counting(x):
        found = evaluate(x)
        values.append(found[0])
        return found

    return counting, values


def test_a_quadratic_takes_one_step():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 4))
    H, b = A.T @ A, rng.standard_normal(4)
    evaluate, values = counted(lambda x: (0.5 * x @ H @ x - b @ x, H @ x - b, H))
    x, _ = damped_newton(evaluate, np.zeros(4))
    np.testing.assert_allclose(x, np.linalg.solve(H, b), rtol=1e-9)
    assert len(values) == 2


@pytest.mark.parametrize("start", [-20.0, 0.0, 5.0])
def test_exponentials_have_a_closed_form(start):
    """sum e^x - b.x is least at log b; full steps from -20 would lead to e^20 and further."""
    b = np.array([0.1, 1.0, 300.0])

    def evaluate(x):
        with np.errstate(over="ignore"):
            e = np.exp(x)
        return float(e.sum() - b @ x), e - b, np.diag(e)

    x, value = damped_newton(evaluate, np.full(3, start))
    np.testing.assert_allclose(x, np.log(b), rtol=1e-13, atol=1e-13)
    assert value == pytest.approx(b.sum() - b @ np.log(b), rel=1e-14)


def test_steps_that_overshoot_are_shortened():
    """Newton's undamped iteration on sqrt(1 + x^2) is x -> -x^3: it diverges from |x| > 1."""

    def evaluate(x):
        root = np.sqrt(1.0 + x @ x)
        return float(root), x / root, np.array([[root**-3]])

    evaluate, values = counted(evaluate)
    x, value = damped_newton(evaluate, np.array([30.0]))
    assert abs(x[0]) < 1e-9
    assert value == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_logistic_regression_agrees_with_scipy(seed):
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((200, 3)), rng.integers(0, 2, 200)
    s = rng.integers(1, 4, 200)

    def evaluate(x):
        z = A @ x
        p = 0.5 * (1.0 + np.tanh(0.5 * z))
        value = float(s @ (np.logaddexp(0.0, z) - y * z)) + 0.05 * x @ x
        H = A.T @ ((s * p * (1 - p))[:, None] * A) + 0.1 * np.eye(3)
        return value, A.T @ (s * (p - y)) + 0.1 * x, H

    x, value = damped_newton(evaluate, np.zeros(3))
    oracle = minimize(lambda x: evaluate(x)[:2], np.zeros(3), jac=True, tol=1e-10)
    assert value <= oracle.fun * (1 + 1e-14)
    np.testing.assert_allclose(x, oracle.x, rtol=1e-5, atol=1e-7)
    assert np.abs(evaluate(x)[1]).max() < 1e-12 * s.sum()


def test_a_direction_without_curvature_is_left_alone():
    b = np.array([2.0, 0.0])
    x, _ = damped_newton(
        lambda x: (0.5 * x[0] ** 2 - b @ x, np.array([x[0], 0.0]) - b, np.diag([1.0, 0.0])),
        np.array([0.0, 7.0]),
    )
    np.testing.assert_allclose(x, [2.0, 7.0], rtol=1e-11)


def test_a_step_is_cut_at_the_minimum_of_the_parabola_within_bounds():
    # f(t) = t^2 - 0.6 t from t = 1: before 0, after 0.4, slope -0.6, least at 0.3
    assert shorter(0.0, 0.4, -0.6) == pytest.approx(0.3)
    assert shorter(0.0, 1e9, -1.0) == 0.1
    assert shorter(0.0, np.nan, -1.0) == 0.1
    assert shorter(0.0, -1.0, -1.0) == 0.5
