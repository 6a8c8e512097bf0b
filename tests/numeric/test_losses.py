"""Every loss of the package obeys the laws that are shipped for other people's losses."""

import numba
import numpy as np
import pytest

from streamlearn.numeric.links import IDENTITY, LOG, LOGIT, log_sum, share_out, sigmoid
from streamlearn.numeric.losses import (
    LOSSES,
    EpsilonInsensitive,
    Force,
    Huber,
    Loss,
    NegativeBinomial,
    Poisson,
    make_loss,
)
from streamlearn.testing.losses import LAWS, check_compiled, check_curvature, check_slope

ALL = [make_loss(name, epsilon=0.25) for name in LOSSES]
ALL += [Huber(1.3), NegativeBinomial(0.01), NegativeBinomial(30.0)]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_laws(loss, law):
    if law is check_compiled and numba.config.DISABLE_JIT:
        pytest.skip("compares with compiled code")
    law(loss)


@pytest.mark.parametrize("y", [0.0, 1.0, 7.0, 1e6])
@pytest.mark.parametrize("f", [-800.0, -20.0, 0.0, 1.9, 13.8, 20.0, 800.0])
def test_a_negative_binomial_of_no_dispersion_is_poisson(y, f):
    """To first order in the dispersion, and without losing digits where it is small."""
    near, poisson = NegativeBinomial(1e-12), Poisson()
    size = max(y, np.exp(min(f, 700.0)))
    if size <= 1e6:
        assert near.value(y, f) == pytest.approx(poisson.value(y, f), rel=1e-5, abs=1e-9 * size)
        assert near.slope(y, f) == pytest.approx(poisson.slope(y, f), rel=1e-5)
    for dispersion in (1e-100, 1e-12, 1.0, 1e12, 1e100):
        loss = NegativeBinomial(dispersion)
        values = loss.value(y, f), loss.slope(y, f), loss.curvature(y, f)
        assert np.isfinite(values).all(), (dispersion, values)


def test_a_negative_binomial_is_least_at_its_mean_and_is_scipys():
    from scipy.stats import nbinom

    rng = np.random.default_rng(0)
    points = rng.gamma(1, 2, 50), rng.poisson(4, 50), rng.normal(size=50)
    for dispersion, y, f in zip(*points, strict=True):
        loss, r, mean = NegativeBinomial(dispersion), 1 / dispersion, np.exp(f)
        log = [nbinom.logpmf(y, r, r / (r + m)) for m in (y, mean)]
        assert loss.value(float(y), f) == pytest.approx(log[0] - log[1], rel=1e-9, abs=1e-12)
        if y:
            assert loss.slope(float(y), np.log(y)) == pytest.approx(0.0, abs=1e-14 * y)


def test_a_force_sums_itself():
    assert Force().value(2.0, 3.0) == 6.0
    assert Force().slope(2.0, 3.0) == 2.0


class WrongSlope(Loss):
    def value(self, y, f):
        return (y - f) * (y - f)

    def slope(self, y, f):
        return f - y


class WrongCurvature(WrongSlope):
    def slope(self, y, f):
        return 2.0 * (f - y)

    def curvature(self, y, f):
        return -2.0


def test_the_laws_catch_a_wrong_factor_and_a_wrong_sign():
    with pytest.raises(AssertionError, match=r"WrongSlope\(\).slope.* is not the derivative"):
        check_slope(WrongSlope())
    with pytest.raises(AssertionError, match=r"WrongCurvature\(\).curvature"):
        check_curvature(WrongCurvature())


def test_parameters_are_named_floats_with_defaults():
    assert Huber() == Huber(epsilon=0.1)
    assert make_loss("huber", epsilon=2) == Huber(2.0)
    assert make_loss(Huber(3)) == Huber(3.0)
    assert isinstance(make_loss(Huber(3)).epsilon, float)
    assert Huber(0.1) != EpsilonInsensitive(0.1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'delta'"):
        Huber(delta=1.0)


@pytest.mark.parametrize("link", [IDENTITY, LOG, LOGIT], ids=lambda link: link.name)
def test_links_are_quiet_and_undo_themselves(link):
    f = np.array([-30.0, -1.0, 0.0, 2.0, 30.0])
    near = f[1:-1]
    np.testing.assert_allclose(link.decision(link.mean(near)), near, rtol=1e-12)
    assert np.isfinite(link.mean(f)).all()


def test_probabilities_of_huge_decisions():
    np.testing.assert_array_equal(sigmoid(np.array([-1e6, 0.0, 1e6])), [0.0, 0.5, 1.0])
    S = np.array([[1e6, 1e6 - 1.0], [-1e6, 3.0]])
    total, shares = share_out(S, 1)
    np.testing.assert_array_equal(total, log_sum(S, 1))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert S[0, 0] == 1e6
