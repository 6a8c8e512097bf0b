"""Newton's step on the restricted likelihood: its derivatives, its end, and few of them."""

import numpy as np
import pytest
from additive.smooth.test_smoothness import quadratic_model

from streamlearn.additive.smooth import criteria
from streamlearn.additive.smooth.criteria import fit_at, reml
from streamlearn.additive.smooth.weight_steps import derivatives


def likelihood(model, penalties, log, psi):
    """Minus its logarithm twice, but for a constant, at a fixed dispersion."""
    fit = fit_at(model, penalties, np.exp(log))
    S = penalties.matrix(fit.weights)
    ranks = np.array([penalty.size for penalty in penalties.each])
    value = 2 * model.at(fit.theta) + fit.theta @ S @ fit.theta
    return value / psi + np.linalg.slogdet(model.H + S)[1] - ranks @ log


@pytest.mark.parametrize("known", [False, True])
def test_the_derivatives_are_those_of_differences(known):
    model, penalties, _, _ = quadratic_model(known)
    log = np.array([-1.0, 0.5, 0.3, -2.0])
    fit = fit_at(model, penalties, np.exp(log))
    slope, curvature = derivatives(penalties, fit, np.arange(4))
    value = lambda x: likelihood(model, penalties, x, fit.psi)  # noqa: E731
    e = 1e-3 * np.eye(4)
    slopes = [(value(log + d) - value(log - d)) / 2e-3 for d in e]
    np.testing.assert_allclose(slope, slopes, rtol=1e-5, atol=1e-6)
    second = [
        [(value(log + a + b) - value(log + a - b) - value(log - a + b) + value(log - a - b)) / 4e-6
         for b in e]
        for a in e
    ]  # fmt: skip
    np.testing.assert_allclose(curvature, second, rtol=1e-4, atol=1e-4)
    assert fit.log_det == pytest.approx(
        np.linalg.slogdet(model.H + penalties.matrix(np.exp(log)))[1], rel=1e-12
    )


def test_roots_are_those_of_their_penalties():
    _, penalties, _, _ = quadratic_model(True)
    for penalty in penalties.each:
        assert penalty.root.shape == (len(penalty.S), penalty.size)
        np.testing.assert_allclose(penalty.root @ penalty.root.T, penalty.S, atol=1e-10)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("far", [-6.0, 0.0, 2.0])
def test_the_end_is_that_of_fellner_and_schall_in_fewer_inverses(known, far, monkeypatch):
    model, penalties, _, _ = quadratic_model(known)
    counts, solve = [], fit_at

    def counted(*given):
        counts.append(1)
        return solve(*given)

    monkeypatch.setattr(criteria, "fit_at", counted)
    start = fit_at(model, penalties, np.exp(np.full(4, far)))
    fit = reml(model, penalties, start)
    assert len(counts) < 20
    log = np.full(4, far) if far < 1 else np.zeros(4)
    for _ in range(2000):  # the update alone, which is slow
        slow = solve(model, penalties, np.exp(log))
        sums = np.maximum(penalties.sums(slow.theta), 1e-300)
        step = np.log(slow.psi * np.maximum(slow.gamma, 1e-300) / sums) - log
        log = np.clip(log + np.clip(step, -5, 5), -30, 15)
    np.testing.assert_allclose(fit.gamma, slow.gamma, atol=2e-3)


def test_an_early_choice_ends_after_few_updates_and_goes_on():
    model, penalties, _, _ = quadratic_model(True)
    start = fit_at(model, penalties, np.exp(np.full(4, -6.0)))
    early, late = reml(model, penalties, start, most=2), reml(model, penalties, start)
    assert not np.array_equal(early.weights, late.weights)
    for _ in range(20):
        early = reml(model, penalties, early, most=2)
    np.testing.assert_allclose(early.gamma, late.gamma, atol=1e-3)
