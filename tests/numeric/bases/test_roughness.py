"""A12.1: the tables, and the penalties they invert."""

import numpy as np
import pytest

from streamlearn.numeric.bases.bsplines import evaluate, make_bases
from streamlearn.numeric.bases.roughness import (
    make_reference,
    make_roughness,
    reference_at_zero,
    times,
)
from streamlearn.numeric.bases.splines import Spline

RNG = np.random.default_rng(0)


def table(n, order, scale):
    R = Spline().factor(n, n - 1, order, scale)
    return np.linalg.inv(R.T @ R)


@pytest.mark.parametrize("n", [3, 5, 20])
def test_paper_tables_have_closed_forms(n):
    i, j = np.meshgrid(np.arange(1, n + 1), np.arange(1, n + 1))
    a, b = np.minimum(i, j), np.maximum(i, j)
    L1 = np.linalg.inv(Spline().factor(n, n - 1, 1, "paper"))
    np.testing.assert_allclose(L1 @ L1.T, a, rtol=1e-12)
    L2 = np.linalg.inv(Spline().factor(n, n - 1, 2, "paper"))
    closed = a * (a + 1) * (2 * a + 1) / 6 + (b - a) * a * (a + 1) / 2
    np.testing.assert_allclose(L2 @ L2.T, closed, rtol=1e-10)
    np.testing.assert_array_equal(Spline().factor(n, n - 1, 0, "paper"), np.eye(n))


def test_norm_of_a_hat_function_is_j_plus_f_squared():
    bases = make_bases([np.linspace(0, 1, 10)], [1])
    rough = make_roughness(bases, 1, "paper")
    L = rough.L.reshape(10, 10)
    x = RNG.random(50)
    phi = evaluate(bases, 0, x)
    u = np.float64(np.float32(x * 9))
    np.testing.assert_allclose(((phi @ L) * phi).sum(1), 1 + u // 1 + (u % 1) ** 2, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_integral_penalty_is_the_integral_and_leaves_polynomials(order):
    m, degree = 200, 3
    bases = make_bases([np.linspace(0, 1, m + 1)], [degree])
    n = bases.dim
    P = make_roughness(bases, order).P.reshape(n, n)
    # coefficients of a smooth function: values at the splines' centres, to O(h^2)
    centre = (np.arange(n) - 1) / m
    w = np.sin(3 * centre)
    exact = {1: 9 * (0.5 + np.sin(6) / 12), 2: 81 * (0.5 - np.sin(6) / 12)}[order]
    Q = np.linalg.qr(np.vander(np.linspace(-1, 1, n), order))[0]
    assert w @ P @ w - ((Q.T @ w) ** 2).sum() == pytest.approx(exact, rel=0.03)
    line = np.vander(np.linspace(-1, 1, n), order)[:, 0]
    assert line @ P @ line == pytest.approx(line @ line, rel=1e-6)


@pytest.mark.parametrize("scale", ["integral", "paper"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_stacks_invert_and_factor(order, scale):
    points = [np.linspace(0, 1, 8), [1.0], [0.0, 1.0], [0.0, 1.0, 2.0], np.linspace(0, 1, 8)]
    bases = make_bases(points, [3, 1, 1, 1, 3])
    rough = make_roughness(bases, order, scale)
    V = RNG.normal(size=(2, bases.dim))
    np.testing.assert_allclose(times(rough.P, rough, times(rough.L, rough, V)), V, atol=1e-7)
    assert rough.table[0] == rough.table[4]
    for d in (0, 2, 3):
        n = bases.first[d + 1] - bases.first[d]
        block = slice(rough.table[d], rough.table[d] + n * n)
        P, R = (stack[block].reshape(n, n) for stack in (rough.P, rough.R))
        np.testing.assert_allclose(R.T @ R, P, atol=1e-9 * abs(P).max())
        assert np.linalg.eigvalsh(P).min() > 0


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("scale", ["integral", "paper"])
def test_binary_column_pays_half_the_square_of_its_step(order, scale):
    bases = make_bases([[0.0, 1.0]], [1])
    rough = make_roughness(bases, order, scale)
    P = rough.P.reshape(2, 2)
    # smallest penalty with w_1 - w_0 = 3, which is all that Phi - c sees
    L, e = np.linalg.inv(P), np.array([-1.0, 1.0])
    assert 9 / (e @ L @ e) == pytest.approx(9.0)


def test_reference():
    bases = make_bases([np.linspace(-1, 1, 6), [5.0], [0.0, 1.0, 3.0]], [2, 1, 1])
    c = reference_at_zero(bases)
    rough = make_roughness(bases, 1)
    ref = make_reference(rough, c)
    np.testing.assert_allclose(c[bases.first[2] :], [1, 0, 0])
    np.testing.assert_allclose(times(rough.P, rough, ref.t[None])[0], c, atol=1e-12)
    assert ref.s.sum() == pytest.approx(c @ ref.t)
    assert ref.s[1] == 0
