import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from shareboost_kit import loss_of, optimum

from streamlearn.shareboost.design import Dense, Pieces
from streamlearn.shareboost.objective import (
    Penalty,
    best_intercept,
    margin_softmax,
    probabilities,
    residual,
)
from streamlearn.shareboost.selection.candidates import spread_pieces
from streamlearn.shareboost.selection.kernels import score_pieces, sum_pieces

CODES = np.array([0, 2, 1, 1, 0, 2, 2])


def scores(seed=0, scale=3.0):
    return scale * np.random.default_rng(seed).standard_normal((len(CODES), 3))


def test_loss_is_eq_3_and_its_derivative_the_residual():
    Z = scores()
    share = np.full(len(CODES), 1 / len(CODES))
    expected = loss_of(Z, CODES, np.eye(3), 0.0)
    assert share @ margin_softmax(Z.copy(), CODES)[0] == pytest.approx(expected, rel=1e-14)

    def value(z):
        return share @ margin_softmax(z.reshape(Z.shape).copy(), CODES)[0]

    slope = approx_fprime(Z.ravel(), value, 1e-7).reshape(Z.shape)
    np.testing.assert_allclose(residual(Z.copy(), CODES, share), slope, atol=1e-7)


def test_loss_is_an_upper_bound_of_the_error_and_does_not_overflow():
    Z = scores(scale=1000.0)
    losses, rho = margin_softmax(Z.copy(), CODES)
    assert (losses >= (Z.argmax(axis=1) != CODES) - 1e-12).all()
    np.testing.assert_allclose(rho.sum(axis=1), 1.0)


VARIANCE = np.array([0.5, 2.0, 1.0, 0.1])


@pytest.mark.parametrize(
    "penalty",
    [Penalty(0.3, 0.0, 10.0), Penalty(0.1, 0.4, 5.0), Penalty(0.1, 0.4, 5.0, 0.7).of(VARIANCE)],
)
def test_penalty(penalty):
    W = np.random.default_rng(1).standard_normal((3, 4))
    assert penalty.value(np.zeros((3, 4))) == pytest.approx(0.0, abs=1e-15)

    def value(w):
        return penalty.value(w.reshape(W.shape))

    slope = approx_fprime(W.ravel(), value, 1e-7).reshape(W.shape)
    np.testing.assert_allclose(penalty.gradient(W), slope, atol=1e-5)
    # the bound that the scores divide by: value(u) <= gradient(0)'u + curvature/2 |u|_inf^2
    for u in (
        np.random.default_rng(2).standard_normal((50, 3, 1)) * np.logspace(-3, 1, 50)[:, None, None]
    ):
        for j in range(4):
            one = penalty._replace(ridge=np.broadcast_to(penalty.ridge, 4)[[j]])
            bound = one.curvature(3, 0.0).item()  # without the loss
            assert one.value(u) <= 0.5 * bound * np.abs(u).max() ** 2 + 1e-12


def test_a_relative_penalty_has_the_features_units():
    W, units = np.random.default_rng(1).standard_normal((3, 4)), np.array([1e-3, 1.0, 10.0, 1e4])
    penalty = Penalty(0.0, 0.0, 10.0, 0.7)
    value = penalty.of(VARIANCE).value(W)
    assert value == pytest.approx(0.7 * (VARIANCE * (W**2).sum(axis=0)).sum(), rel=1e-14)
    assert penalty.of(VARIANCE * units**2).value(W / units) == pytest.approx(value, rel=1e-12)
    of = penalty.curvature(3, VARIANCE)
    np.testing.assert_allclose(of, penalty.of(VARIANCE).curvature(3, VARIANCE), rtol=1e-14)


@pytest.mark.parametrize("K", [2, 3, 6])
def test_probabilities_are_those_whose_expected_loss_the_scores_minimise(K):
    """Sure ones too: scipy minimises sum_y p_y log sum_c exp(1[c != y] + z_c - z_y)."""
    rng = np.random.default_rng(K)
    for sharpness in (0.1, 1.0, 3.0):
        p = np.exp(sharpness * rng.standard_normal(K))
        p /= p.sum()

        def expected(z, p=p):
            losses, rho = margin_softmax(np.tile(z, (K, 1)), np.arange(K))
            return p @ losses, p @ rho - p

        z = minimize(expected, np.zeros(K), jac=True, options={"gtol": 1e-10}).x
        scores = z[None] if K > 2 else z[1:] - z[:1]
        np.testing.assert_allclose(probabilities(scores), p[None], atol=1e-7)


def test_probabilities_of_sure_scores_are_finite_and_in_order():
    Z = scores(scale=1000.0)
    p = probabilities(Z)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(p.argmax(axis=1), Z.argmax(axis=1))
    np.testing.assert_array_equal(probabilities(np.array([-1e308, 0.0, 1e308]))[1], [0.5, 0.5])


def test_mixed_norm_is_the_least_over_common_shifts():
    W = np.random.default_rng(1).standard_normal((3, 4))
    hard = (W.max(axis=0) - W.min(axis=0)).sum() / 2  # least max |w + c|
    assert Penalty(0.0, 1.0, 1e4).value(W) == pytest.approx(hard, rel=1e-3)
    penalty = Penalty(0.2, 0.4, 3.0)
    shifted = Penalty(0.0, 0.4, 3.0)
    assert shifted.value(W + [1.0, -2.0, 0.0, 5.0]) == pytest.approx(shifted.value(W))
    for j in range(4):

        def slope(w, j=j):
            return penalty.gradient(w[:, None])[:, 0]

        numeric = np.array(
            [(slope(W[:, j] + h) - slope(W[:, j] - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
        )
        H = penalty.hessian(W[:, [j]])[0]
        np.testing.assert_allclose(H, numeric, atol=1e-7)
        extra = np.diag(penalty.diagonal(W[:, [j]])[:, 0]) - H
        assert np.linalg.eigvalsh(extra).min() > -1e-12


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.7, 0.2, 0.1], [0.96, 0.01, 0.02, 0.01]])
def test_intercept(shares):
    shares = np.array(shares)
    n = np.round(1000 * shares).astype(int)
    y = np.repeat(np.arange(len(n)), n)
    expected, _, b = optimum(np.zeros((len(y), 1)), y, len(n), lambda W: (0.0, np.zeros_like(W)))
    found, loss = best_intercept(shares)
    assert loss == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(found, b - b.mean(), atol=1e-4)


def test_hessian_is_at_most_the_largest_entry_squared():
    """The covariance bound (1/2 |v|_inf^2, half of Lemma 1's) that every proved gain rests on."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        z, v = 4 * rng.standard_normal((1, 5)), rng.standard_normal((1, 5))
        code = np.array([1])
        at, rho = margin_softmax(z.copy(), code)
        rho[0, 1] -= 1
        after, _ = margin_softmax(z + v, code)
        assert after[0] <= at[0] + (rho @ v[0]).item() + 0.5 * np.abs(v).max() ** 2 + 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pieces_are_their_columns_times_flags(dtype):
    rng = np.random.default_rng(0)
    m, p, q, K = 60, 3, 4, 5
    base = rng.standard_normal((m, p)).astype(dtype)
    flags = np.asfortranarray(rng.random((m, q)) < 0.4).astype(np.uint8)
    pieces = Pieces(base, flags, np.dtype(dtype))
    dense = Dense(np.column_stack([np.ones(m), spread_pieces(base.astype(float), flags)]))
    theta, R = rng.standard_normal((K, 1 + q * (p + 1))), rng.standard_normal((m, K))
    close = {"atol": 1e-4 if dtype == np.float32 else 1e-12}
    np.testing.assert_allclose(pieces.forward(theta), dense.forward(theta), **close)
    np.testing.assert_allclose(pieces.backward(R), dense.backward(R), **close)
    H = rng.random((m, K))
    for a, b in ((0, 1), (1 + (p + 1), 1 + 2 * (p + 1))):
        A = np.column_stack([np.ones(m), spread_pieces(base.astype(float), flags)])[:, a:b]
        for heavy in (H > 0, H > 0.5, H > 1):
            exact = np.array([(A * h[:, None]).T @ A for h in np.where(heavy, H, 0).T])
            light = [np.diag(h @ A**2) for h in np.where(heavy, 0, H).T]
            for design in (pieces, dense):
                grams = np.ones((K, b - a, b - a))  # in place, added
                design.add_gram(H, heavy, a, b, grams)
                np.testing.assert_allclose(grams, 1 + exact + light, **close)


def either(function):
    return pytest.mark.parametrize("function", [function, getattr(function, "py_func", function)])


@either(score_pieces)
def test_scores_of_pieces_compiled_and_not(function):
    rng = np.random.default_rng(1)
    V, U = rng.standard_normal((7, 2)), rng.standard_normal((3, 2 * 4))
    flags = (rng.random((7, 3)) < 0.5).astype(np.uint8)
    Z = np.ones((7, 4))
    function(V, flags, U, np.empty(8), np.empty(4, np.intp), Z)
    expected = 1 + np.einsum("ij,ik,kjc->ic", V, flags, U.reshape(3, 2, 4))
    np.testing.assert_allclose(Z, expected, atol=1e-13)


@either(sum_pieces)
def test_sums_of_pieces_compiled_and_not(function):
    rng = np.random.default_rng(1)
    V, R = rng.standard_normal((7, 2)), rng.standard_normal((7, 4))
    flags = (rng.random((7, 3)) < 0.5).astype(np.uint8)
    out = np.ones((3, 2 * 4))
    function(V, R, flags, np.empty(8), np.empty(4, np.intp), out)
    expected = 1 + np.einsum("ij,ic,ik->kjc", V, R, flags).reshape(3, -1)
    np.testing.assert_allclose(out, expected, atol=1e-13)
