"""Fits of tables that fit in a chunk: what they must not do, and that the model is the same."""

import cProfile
import pstats

import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table
from scipy.optimize import minimize_scalar

import streamlearn as sl
from streamlearn.additive.newton import sampled
from streamlearn.additive.newton.kept import newton_with_kept
from streamlearn.additive.newton.sampled import EXACT, SAMPLE_ITERATIONS, SampleObjective
from streamlearn.passes.fold import read_all
from streamlearn.solvers.newton import Evaluation, newton

CALLS = 14_000
"""Calls of Python functions of a fit of 300 rows at most: it made 10,800 when this was written, and
20,100 when plans looked for pairs that nobody asked for and maps were made of more steps."""


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("n_rows", [300, 6_000])  # of many rows directions take every fourth
def test_steps_that_share_the_memory_of_a_matrix_are_the_same_bits(monkeypatch, loss, n_rows):
    dataset = as_dataset(*table(n_rows))
    problem, _ = make_problem(dataset, loss)
    [rows] = read_all(dataset)
    zero, rooms = np.zeros((1, problem.dim + 1)), []
    sample = SampleObjective(problem, rows, 1.0)
    alone = newton_with_kept(sample, zero, tol=EXACT, max_reads=SAMPLE_ITERATIONS)
    empty_gram = sampled.empty_gram
    monkeypatch.setattr(
        sampled, "empty_gram", lambda dim, room: rooms.append(room) or empty_gram(dim, room)
    )
    shared = SampleObjective(problem, rows, 1.0).minimise(zero, tol=EXACT)
    assert shared.tobytes() == alone.at.theta.tobytes()
    assert len(rooms) > (loss == "squared_hinge" and n_rows > 300)
    assert all(room is rooms[0] for room in rooms)
    assert rooms[0].shape == (problem.dim, problem.dim)


class Level:
    """F(x) = 1/2 x^2 + 1 with a gradient and a bound that are off by rounding, for ever."""

    rounding = 1e-13

    def __init__(self):
        self.n_reads = self.n_solved = 0

    def evaluate(self, theta):
        self.n_reads += 1
        value = (0.5 * theta**2).sum(axis=1) + 1
        return Evaluation(theta, value, theta + 1e-9, np.ones(len(theta)) - 2e-13)

    def solve(self, at, k, g):
        self.n_solved += 1
        return g

    def refine(self, at):
        raise AssertionError


def test_a_problem_that_stands_still_is_asked_for_no_direction():
    problem = Level()
    solution = newton(problem, np.full((1, 1), 3.0), tol=1e-15, max_reads=50)
    assert abs(solution.at.theta[0, 0]) < 1e-8
    assert solution.reason == "no step lowers the objective any more"
    assert problem.n_solved == problem.n_reads - 1


def test_columns_that_are_all_constant_leave_the_intercept():
    y = np.repeat([0, 1], [100, 200])
    model = sl.AdditiveClassifier(C=1.0, tol=1e-9).fit(np.zeros((300, 2)), y)

    def objective(b):
        return 0.5 * b**2 + 100 * np.logaddexp(0, b) + 200 * np.logaddexp(0, -b)

    assert model.coef_.shape == (1, 0)
    assert model.certificate_.relative_gap < 1e-12
    assert model.intercept_[0] == pytest.approx(minimize_scalar(objective).x, abs=1e-6)


def test_a_fit_of_300_rows_is_little_but_arithmetic():
    rng = np.random.default_rng(0)
    X = rng.random((300, 20), dtype=np.float32)
    y = X[:, 0] + 0.3 * rng.random(300) > 0.6
    model = sl.AdditiveClassifier(C=1.0).fit(X, y)
    with cProfile.Profile() as profile:
        model.fit(X, y)
    assert pstats.Stats(profile).total_calls < CALLS
