"""Functions of the bases that are not splines, against numpy's own, and their penalties."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import HermiteE

from streamlearn.numeric.bases import fourier
from streamlearn.numeric.bases.bsplines import evaluate, make_bases
from streamlearn.numeric.bases.fourier import CLIP, Cosine, Hermite, Trigonometric
from streamlearn.numeric.bases.registry import kind_of
from streamlearn.numeric.bases.roughness import make_reference, make_roughness, times

BASES = {
    Cosine(): fourier.fill_cosines,
    Trigonometric(): fourier.fill_trigonometric,
    Hermite(): fourier.fill_hermite,
}


def plain(basis, n, t):
    """The functions one by one, by their names."""
    k = np.arange(1, n + 1)
    if basis == Cosine():
        return np.cos(np.pi * np.outer(t, k))
    if basis == Trigonometric():
        angle = np.pi * np.outer(2 * t - 1, (k + 1) // 2)
        return np.where(k % 2, np.cos(angle), np.sin(angle))
    z = CLIP * (2 * t - 1)
    norms = np.sqrt(np.cumprod(k.astype(float)))
    return np.stack([HermiteE.basis(i)(z) for i in k], axis=1) / norms


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_recurrences_give_the_functions(basis, n):
    t, kernel = np.linspace(0, 1, 41), BASES[basis]
    for fill in (basis.fill, kernel, getattr(kernel, "py_func", kernel)):
        fill(t, out := np.empty((n, 41)))
        np.testing.assert_allclose(out.T, plain(basis, n, t), atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_a_missing_value_has_a_function_of_its_own(basis):
    bases = make_bases([[0.0, 1.0, 3.0, np.inf]], [1], [kind_of(basis)], 4)
    phi = evaluate(bases, 0, np.array([0.0, 2.0, np.nan, 9.0]))
    t = np.array([0.0, 0.75, 0.0, 1.0])
    np.testing.assert_allclose(phi[[0, 1, 3], :4], plain(basis, 4, t)[[0, 1, 3]], atol=1e-6)
    np.testing.assert_array_equal(phi[2], [0, 0, 0, 0, 1])
    assert not phi[[0, 1, 3], 4].any()


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("order", [1, 2])
def test_the_penalty_is_the_squared_derivative(basis, order):
    """By quadrature: the derivatives are orthogonal, and their squares the weights."""
    n = 6
    if basis == Hermite():
        z, mass = np.polynomial.hermite_e.hermegauss(40)
        mass = mass / mass.sum()
        norms = np.sqrt(np.cumprod(np.arange(1.0, n + 1)))
        slopes = np.stack([HermiteE.basis(k).deriv(order)(z) for k in range(1, n + 1)], 1) / norms
    else:
        t, mass = (np.arange(4000) + 0.5) / 4000, 1 / 4000
        h = 1e-3
        values = [plain(basis, n, t + s) for s in (-h, 0, h)]
        low, middle, high = values
        slopes = (high - low) / (2 * h) if order == 1 else (high - 2 * middle + low) / h**2
    gram = (slopes.T * mass) @ slopes
    weights = basis.penalty(n, order, "integral")
    if basis == Hermite() and order == 2:
        assert weights[0] == 1  # a straight line has no second derivative
        gram[0, 0] = 1
    np.testing.assert_allclose(gram, np.diag(weights), rtol=1e-3, atol=1e-4 * weights.max())


def test_the_papers_features_are_functions_over_powers():
    """Table 1 of Maji 2012: cos(k pi x) / k^r, sin(k pi x) / k^r."""
    bases = make_bases([[-1.0, 1.0]], [1], [kind_of(Trigonometric())], 4)
    roughness = make_roughness(bases, 2, "paper")
    np.testing.assert_array_equal(np.diag(roughness.P.reshape(4, 4)), [1, 1, 16, 16])
    c = np.arange(4.0)
    reference = make_reference(roughness, c)
    np.testing.assert_allclose(reference.t, c / [1, 1, 16, 16])
    np.testing.assert_allclose(times(roughness.L, roughness, c[None])[0], reference.t)


def test_order_0_is_refused():
    with pytest.raises(
        ValueError, match="penalty_order=0 is not one of basis='cosine', which has 1 or 2"
    ):
        make_roughness(make_bases([[0.0, 1.0]], [1], [kind_of(Cosine())], 3), 0)
    with pytest.raises(ValueError, match="columns of several bases beside splines"):
        make_bases([[0.0, 1.0]] * 2, [1, 1], [kind_of(Cosine()), kind_of(Hermite())], 3)
