"""Dual coordinate descent of weighted hinges, compiled and as plain Python."""

import numpy as np
import pytest

from streamlearn.mixture.em.kernels import hinge_rows

M, P, R = 30, 3, 2


def problem(seed=0):
    rng = np.random.default_rng(seed)
    B, signs = rng.standard_normal((M, P)), rng.choice([-1.0, 1.0], (M, R))
    bounds = rng.random((M, R)) * (rng.random((M, R)) < 0.8)
    return B, bounds, signs


def solve(kernel, B, bounds, signs, alpha=None, n=1):
    alpha = np.zeros((M, R), np.float32) if alpha is None else alpha
    W = np.einsum("ir,ip->rp", alpha * signs, np.column_stack([B, np.ones(M)]))
    kernel(B, np.tile(np.arange(M), n), bounds, signs, alpha, W)
    return alpha, W


@pytest.mark.parametrize("kernel", [hinge_rows, hinge_rows.py_func])
def test_it_ends_at_the_optimum(kernel):
    B, bounds, signs = problem()
    alpha, W = solve(kernel, B, bounds, signs, n=300)
    A = np.column_stack([B, np.ones(M)])
    np.testing.assert_allclose(W, np.einsum("ir,ip->rp", alpha * signs, A), atol=1e-12)
    z = signs * (A @ W.T)
    primal = 0.5 * (W**2).sum(1) + (bounds * np.maximum(0, 1 - z)).sum(0)
    dual = alpha.sum(0, dtype=float) - 0.5 * (W**2).sum(1)
    np.testing.assert_allclose(primal, dual, rtol=1e-4)
    assert (alpha >= 0).all()
    assert (alpha <= bounds + 1e-7).all()


def test_compiled_and_plain_agree():
    B, bounds, signs = problem(1)
    for a, b in zip(
        solve(hinge_rows, B, bounds, signs),
        solve(hinge_rows.py_func, B, bounds, signs),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kernel", [hinge_rows, hinge_rows.py_func])
def test_lowered_bounds_are_kept_and_the_weights_follow(kernel):
    B, bounds, signs = problem(2)
    alpha, _ = solve(kernel, B, bounds, signs, n=20)
    lower = bounds * 0.3
    lower[:5] = 0.0
    alpha, W = solve(kernel, B, lower, signs, alpha)
    assert (alpha <= lower + 1e-7).all()
    assert not alpha[:5].any()
    A = np.column_stack([B, np.ones(M)])
    np.testing.assert_allclose(W, np.einsum("ir,ip->rp", alpha * signs, A), atol=1e-12)
