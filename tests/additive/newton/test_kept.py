"""Matrices that serve several steps lead to the optimum that a matrix a step leads to."""

import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table
from oracles import linear_problem, smooth_optimum

import streamlearn as sl
from streamlearn.additive.newton import kept
from streamlearn.additive.newton.kept import KeptFactors, newton_with_kept
from streamlearn.additive.newton.sampled import DECREMENT, EXACT, SampleObjective
from streamlearn.passes.fold import read_all
from streamlearn.solvers.newton import Evaluation, newton, relative_gap

SMOOTH = ["log_loss", "squared_hinge", "poisson", "gamma", "huber", "squared_epsilon_insensitive"]


class Counted:
    """The objective, with the matrices that it made."""

    def __init__(self, sample):
        self.rounding, self.evaluate, self.refine = sample.rounding, sample.evaluate, sample.refine
        self._sample, self.n_made = sample, 0

    def inverse_of(self, at, k):
        self.n_made += 1
        return self._sample.inverse_of(at, k)

    def solve(self, at, k, g):
        return self.inverse_of(at, k)(g)


def case(loss, C, n=400):
    X, y = table(n)
    if loss in ("poisson", "gamma"):
        y = np.random.default_rng(0).poisson(np.exp(2 * X[:, 0])) + 0.5 * (loss == "gamma")
    dataset = as_dataset(X, y)
    problem, _ = make_problem(dataset, loss, C=C)
    [rows] = read_all(dataset)
    return SampleObjective(problem, rows, 1.0), np.zeros((1, problem.dim + 1))


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_the_optimum_is_that_of_a_matrix_a_step_to_rounding(loss, C):
    sample, zero = case(loss, C)
    each, some = Counted(sample), Counted(sample)
    exact = newton(each, zero, tol=EXACT, max_reads=100)
    found = newton_with_kept(some, zero, tol=EXACT, max_reads=100)
    assert (relative_gap(exact.at.value, exact.at.bound) <= 1e-12).all()
    assert (relative_gap(found.at.value, found.at.bound) <= 1e-12).all()
    assert found.at.value == pytest.approx(exact.at.value, rel=1e-12)
    # those that kept ones serve badly cost the two that were tried, and few steps
    assert some.n_made <= each.n_made + kept.MOST_RENEWED + 1


def test_one_matrix_serves_a_fit_of_log_loss():
    sample, zero = case("log_loss", 1.0)
    each, some = Counted(sample), Counted(sample)
    newton(each, zero, tol=EXACT, max_reads=50)
    newton_with_kept(some, zero, tol=EXACT, max_reads=50)
    assert some.n_made == 1 < each.n_made


def test_a_first_guess_stops_where_a_step_of_newton_promises_little():
    sample, zero = case("log_loss", 1.0)
    guess = newton(sample, zero, tol=0.0, max_reads=50, decrement=DECREMENT).at
    assert sample.minimise(zero).tobytes() == guess.theta.tobytes()


class Kinked:
    """F(x) = sum |x|^1.1 beside a quadratic: its curvature is of no use a step later."""

    rounding = 1e-13

    def __init__(self):
        self.n_made = self.n_refined = 0

    def evaluate(self, theta):
        size = np.abs(theta) + 1e-9
        value = (size**1.1 + 1e-3 * theta**2).sum(axis=1) + 1
        gradient = np.sign(theta) * 1.1 * size**0.1 + 2e-3 * theta
        return Evaluation(theta, value, gradient, np.ones(len(theta)))

    def inverse_of(self, at, k):
        self.n_made += 1
        h = 0.11 * (np.abs(at.theta[k]) + 1e-9) ** -0.9 + 2e-3
        return lambda g: g / h

    def solve(self, at, k, g):
        return self.inverse_of(at, k)(g)

    def refine(self, at):
        self.n_refined += 1


def test_matrices_that_serve_badly_are_given_up():
    problem = Kinked()
    watched = KeptFactors(problem)
    at = problem.evaluate(np.full((1, 3), 4.0))
    assert watched.too_slow(at, at.value) == ""
    for _ in range(kept.MOST_RENEWED + 1):
        watched.solve(at, 0, at.gradient[0])
        watched.solve(at, 0, at.gradient[0])
        watched.refine(at)
    assert problem.n_made == problem.n_refined == kept.MOST_RENEWED + 1
    assert "few steps" in watched.too_slow(at, at.value)
    found = newton_with_kept(problem, at.theta, tol=1e-3, max_reads=200)
    alone = newton(Kinked(), at.theta, tol=1e-3, max_reads=200)
    assert found.at.value <= max(alone.at.value, at.value)


@pytest.mark.parametrize("n", [60, 400])  # fewer rows than coefficients, and more
def test_a_fit_has_the_optimum_of_an_independent_solver(n):
    X, y = table(n)
    model = sl.AdditiveClassifier(C=0.3, n_bases=8, tol=1e-9).fit(X, y)
    problem = linear_problem(sl.SplineEmbedding(8).fit(X), X, 2 * y - 1, "log_loss", C=0.3)
    assert model.certificate_.primal == pytest.approx(smooth_optimum(problem)[1], rel=1e-9)
    assert model.certificate_.relative_gap <= 1e-13
