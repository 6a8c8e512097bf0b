"""The solver on functions written out here, and on samples of rows."""

import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table

from streamlearn.additive.newton import sampled
from streamlearn.additive.newton.sampled import SampleObjective, StreamedObjective
from streamlearn.passes.fold import read_all, run_fold
from streamlearn.solvers.newton import Evaluation, newton, relative_gap


class Quartics:
    """F_k(x) = sum (x - k)^4 + 1/2 |x - k|^2, minimum 0 at x = k; its bound is exact."""

    rounding = 0.0

    def __init__(self, n_problems, wrong=1.0):
        self.centre = np.arange(n_problems)[:, None] * np.ones(3)
        self.wrong, self.n_reads, self.n_refined = wrong, 0, 0

    def evaluate(self, theta):
        self.n_reads += 1
        d = theta - self.centre
        value = (d**4 + 0.5 * d**2).sum(axis=1) + 1
        return Evaluation(theta, value, 4 * d**3 + d, np.ones(len(theta)))

    def solve(self, at, k, g):
        d = at.theta[k] - self.centre[k]
        return self.wrong * g / (12 * d**2 + 1)

    def refine(self, at):
        self.n_refined += 1


def test_reaches_the_minima_of_all_problems_in_shared_reads():
    problems = Quartics(4)
    solution = newton(problems, np.full((4, 3), 5.0), tol=1e-12, max_reads=50)
    np.testing.assert_allclose(solution.at.theta, problems.centre, atol=1e-6)
    assert solution.reason == ""
    assert solution.n_reads == problems.n_reads < 15
    assert (solution.gap >= 0).all()


@pytest.mark.parametrize("wrong", [0.2, 8.0])
def test_bad_directions_cost_reads_but_never_raise_the_value(wrong):
    problems, values = Quartics(2, wrong), []
    newton(
        problems,
        np.full((2, 3), 5.0),
        tol=1e-8,
        max_reads=200,
        watch=lambda at, gap: values.append(at.value) or "",
    )
    assert (np.diff(values, axis=0) <= 0).all()
    assert values[-1] == pytest.approx(np.ones(2), rel=1e-8)
    assert (problems.n_refined > 0) == (wrong == 0.2 or problems.n_reads > 10)


def test_stops_where_it_is_told_to():
    start = np.full((1, 3), 5.0)
    short = newton(Quartics(1), start, tol=1e-12, max_reads=2)
    assert short.n_reads == 2
    assert "max_passes=2" in short.reason
    watched = newton(Quartics(1), start, tol=1e-12, max_reads=9, watch=lambda at, gap: "enough")
    assert watched.n_reads == 1
    assert watched.reason == "enough"
    loose = newton(Quartics(1), start, tol=0.0, max_reads=99, decrement=0.5)
    assert loose.reason == ""
    assert loose.n_reads < 10


def test_an_uphill_direction_is_given_up():
    problems = Quartics(1, wrong=-1.0)
    solution = newton(problems, np.full((1, 3), 2.0), tol=1e-12, max_reads=99)
    assert "no step" in solution.reason
    assert solution.n_reads < 30


def test_relative_gap_of_zero_values():
    assert relative_gap(np.zeros(1), np.zeros(1)) == 0


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_a_sample_of_all_rows_has_the_full_optimum_and_honest_gaps(loss):
    X, y = table(300)
    dataset = as_dataset(X, y)
    problem, _ = make_problem(dataset, loss)
    [rows] = read_all(dataset)
    sample = SampleObjective(problem, rows, 1.0)
    seen = []
    newton(
        sample,
        np.zeros((1, problem.dim + 1)),
        tol=1e-13,
        max_reads=60,
        watch=lambda at, gap: seen.append((at.value[0], at.bound[0])) or "",
    )
    values, bounds = np.array(seen).T
    assert relative_gap(values[-1:], bounds[-1:])[0] <= 1e-12
    slack = 1e-12 * values[-1]
    assert (bounds <= values[-1] + slack).all()  # a bound is never above the minimum
    assert (values - bounds >= values - values[-1] - slack).all()
    assert (np.diff(values) <= slack).all()
    assert (np.diff(bounds) >= 0).all()


def test_a_part_of_the_rows_estimates_the_objective_of_all():
    X, y = table(4000)
    dataset = as_dataset(X, y)
    problem, _ = make_problem(dataset, "log_loss")
    theta = 0.1 * np.ones((1, problem.dim + 1))
    [chunk] = read_all(dataset)
    whole = SampleObjective(problem, chunk, 1.0).evaluate(theta)
    [part] = read_all(as_dataset(X[::4], y[::4]))
    estimate = SampleObjective(problem, part, 0.25).evaluate(theta)
    assert estimate.value == pytest.approx(whole.value, rel=0.05)


class OneRead:
    """A run that reads its source here and now."""

    keeps_rows = False

    def fold(self, fold, source, *, name):
        return run_fold(fold, read_all(source))


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_directions_keep_their_matrix_while_the_curvature_hardly_changes(monkeypatch, loss, rare):
    X, y = table(4000)
    if not rare:  # else a value that the sample hardly meets: all rows correct its curvature
        X = np.random.default_rng(1).random((4000, 2))
    problem, _ = make_problem(as_dataset(X, y), loss)
    [part] = read_all(as_dataset(X[::2], y[::2]))
    sample = SampleObjective(problem, part, 0.5)
    assert sample.misses_values == rare

    def new():
        rows = as_dataset(X, y)
        return StreamedObjective(OneRead(), rows, problem, sample, seed=0, may_grow=False)

    summed = []
    add_gram = sampled.add_gram
    monkeypatch.setattr(sampled, "add_gram", lambda *a: summed.append(1) or add_gram(*a))
    streamed = new()
    first = np.random.default_rng(0).normal(0, 0.3, (1, problem.dim + 1))
    near, far = first * 1.001, first * 3.0
    for theta, matrix_of, n_summed in (
        (first, first, 1), (near, first, 1), (far, far, 2), (near, near, 3)
    ):  # fmt: skip
        at = streamed.evaluate(theta)
        step = streamed.solve(at, 0, at.gradient[0])
        assert len(summed) == n_summed
        fresh = new()
        expected = fresh.solve(fresh.evaluate(matrix_of), 0, at.gradient[0])
        summed.pop()
        np.testing.assert_array_equal(step, expected)
