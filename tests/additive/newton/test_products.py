"""The curvature of a sample by its products, beside the matrix written out."""

import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table
from oracles import dense_splines
from scipy.linalg import block_diag
from scipy.special import expit, softmax

from streamlearn.additive.newton import blocks, products
from streamlearn.additive.newton import parts as parts_of_rows
from streamlearn.additive.newton.parts import Parts, count_of_parts, parts_nbytes
from streamlearn.additive.newton.products import Forcing, SampledCurvature
from streamlearn.additive.newton.sampled import EXACT, SampleObjective
from streamlearn.passes.fold import read_all
from streamlearn.solvers.newton import Evaluation, relative_gap

KINDS = ["one curve", "one class of three", "multinomial"]


def case(kind, n=240):
    """(problem, rows, theta, k, H): the curvature of problem k at theta, summed row by row."""
    n_classes = 2 if kind == "one curve" else 3
    X, y = table(n, n_classes=n_classes)
    weight = np.random.default_rng(1).integers(0, 3, n).astype(float)
    dataset = as_dataset(X, y, weight)
    K, joint = 1 if n_classes == 2 else 3, kind == "multinomial"
    problem, _ = make_problem(dataset, "log_loss", B=2.0, n_outputs=K, joint=joint)
    [rows] = read_all(dataset)
    theta = 0.3 * np.random.default_rng(2).standard_normal((K, problem.dim + 1))
    A = np.column_stack([dense_splines(problem.bases, X) - problem.reference.c, np.ones(n)])
    F = A @ theta.T
    penalty = np.zeros((problem.dim + 1, problem.dim + 1))
    for d, (a, b) in enumerate(zip(problem.bases.first[:-1], problem.bases.first[1:], strict=True)):
        begin, size = problem.roughness.table[d], b - a
        penalty[a:b, a:b] = problem.roughness.P[begin : begin + size**2].reshape(size, size)
    penalty[-1, -1] = 1 / 2.0**2
    k = K - 1
    if not joint:
        h = problem.C * weight * expit(F[:, k]) * expit(-F[:, k])
        return problem, rows, theta, k, (A.T * h) @ A + penalty
    p = softmax(F, axis=1)
    H = block_diag(*[penalty] * K)
    for a, q, s in zip(A, p, weight, strict=True):
        H += problem.C * s * np.kron(np.diag(q) - np.outer(q, q), np.outer(a, a))
    return problem, rows, problem.by_problem(theta), 0, H


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_matrix(kind):
    problem, rows, theta, k, H = case(kind)
    curvature = SampledCurvature(problem, theta, k, Parts(problem, rows))
    v = np.random.default_rng(3).standard_normal(len(H))
    np.testing.assert_allclose(curvature.times(v), H @ v, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_directions_leave_the_share_of_the_gradient_that_is_asked_for(kind):
    problem, rows, theta, k, H = case(kind)
    curvature = SampledCurvature(problem, theta, k, Parts(problem, rows))
    g = np.random.default_rng(4).standard_normal(len(H))
    expected = np.linalg.solve(H, g)
    # an error of the residual is divided by the least eigenvalue, that of the penalty
    error = curvature.solve(g, 1e-12) - expected
    assert np.linalg.norm(error) <= 1e-9 * np.linalg.norm(expected)

    def size(r):
        return np.sqrt(r @ curvature.in_penalty(r))

    for residual in (0.3, 0.01):
        assert size(g - H @ curvature.solve(g, residual)) <= residual * size(g) * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_share_parts_and_leave_the_bits(kind, monkeypatch):
    monkeypatch.setattr(parts_of_rows, "PART_ROWS", 32)
    problem, rows, theta, k, H = case(kind)
    assert count_of_parts(rows.n_rows, len(H), problem.joint) == 4
    g = np.random.default_rng(5).standard_normal(len(H))
    steps, values = [], []
    for n_threads in (1, 2, 3):
        parts = Parts(problem, rows, n_threads)
        steps.append(SampledCurvature(problem, theta, k, parts).solve(g, 1e-12))
        sample = SampleObjective(problem, rows, 1.0, matrix_free=True, n_threads=n_threads)
        values.append(sample.evaluate(theta))
    for step, at in zip(steps[1:], values[1:], strict=True):
        np.testing.assert_array_equal(step, steps[0])
        for a, b in zip(at, values[0], strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(steps[0], np.linalg.solve(H, g), rtol=1e-7, atol=1e-10)
    whole = SampleObjective(problem, rows, 1.0).evaluate(theta)  # with matrices: in one part
    for a, b in zip(values[0], whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_the_number_of_parts_is_of_the_data_and_bounded():
    for joint, numbers in parts_of_rows.PART_NUMBERS.items():
        counts = [count_of_parts(n, 100, joint) for n in (1, 4095, 4096, 8192, 10**6)]
        assert counts == [1, 1, 2, 4, 8]
        assert count_of_parts(10**6, 10**6, joint) == 1
        for n, dim in ((10**6, 10**4), (5000, 10**5)):
            held = 8 * numbers * dim * count_of_parts(n, dim, joint)
            assert held <= parts_nbytes(n, dim) <= max(parts_of_rows.PARTS_NBYTES, 8 * 28 * dim)


def test_directions_are_solved_as_far_as_the_last_one_brought_the_gap():
    def at(gap):
        return Evaluation(np.zeros((1, 1)), np.ones(1), np.zeros((1, 1)), np.array([1 - gap]))

    forcing = Forcing(0.0)
    shares = [forcing.residual(at(gap), 0) for gap in (0.8, 0.4, 0.08, 8e-4, -1e-17)]
    np.testing.assert_allclose(shares, [0.3, 0.3, 0.18, 0.1, 0.1])
    forcing = Forcing(1e-3)  # a share of 0.25 of the norm is 1/16 of the gap
    shares = [forcing.residual(at(gap), 0) for gap in (0.8, 8e-3, 1e-3)]
    np.testing.assert_allclose(shares, [0.3, 0.25, 0.3])


@pytest.mark.parametrize("kind", KINDS)
def test_a_loose_tolerance_costs_fewer_products_and_is_met(kind, monkeypatch):
    problem, rows, theta, _, _ = case(kind)
    counted, n_products = products.SampledCurvature.times, []
    monkeypatch.setattr(
        products.SampledCurvature, "times", lambda self, v: n_products.append(1) or counted(self, v)
    )
    sample = SampleObjective(problem, rows, 1.0, matrix_free=True)
    zero = np.zeros_like(theta)
    best = sample.evaluate(sample.minimise(zero, tol=EXACT))
    to_rounding = len(n_products)
    loose = sample.evaluate(sample.minimise(zero, tol=1e-3))
    assert len(n_products) - to_rounding < to_rounding / 2
    assert (relative_gap(best.value, best.bound) <= 1e-12).all()
    assert (relative_gap(loose.value, loose.bound) <= 1e-3).all()
    assert (loose.value <= best.value * (1 + 1e-3)).all()
    exact = SampleObjective(problem._replace(joint=False), rows, 1.0)
    if kind != "multinomial":
        by_matrix = exact.evaluate(exact.minimise(zero, tol=EXACT))
        np.testing.assert_allclose(best.value, by_matrix.value, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_parts", [1, 4])
def test_blocks_are_those_of_the_matrix(kind, n_parts, monkeypatch):
    monkeypatch.setattr(parts_of_rows, "PART_ROWS", 32 if n_parts > 1 else 2048)
    monkeypatch.setattr(blocks, "LEAST_COEFFICIENTS", 0)
    problem, rows, theta, k, H = case(kind)
    parts = Parts(problem, rows)
    assert len(parts.each(lambda part: part.n_rows)) == n_parts
    curvature = SampledCurvature(problem, theta, k, parts)
    first, own = problem.bases.first, np.zeros_like(H)
    for output in range(len(H) // (problem.dim + 1)):
        begin = output * (problem.dim + 1)
        ends = [*(begin + first), begin + problem.dim + 1]
        for a, b in zip(ends[:-1], ends[1:], strict=True):
            own[a:b, a:b] = H[a:b, a:b]
    g = np.random.default_rng(6).standard_normal(len(H))
    np.testing.assert_allclose(curvature.precondition(g), np.linalg.solve(own, g), rtol=1e-8)


def test_blocks_save_products_and_are_left_out_where_they_are_large(monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_COEFFICIENTS", 0)
    problem, rows, theta, k, H = case("one curve")
    problem = problem._replace(C=1e3 * problem.C)
    counted, n_products = products.SampledCurvature.times, []
    monkeypatch.setattr(
        products.SampledCurvature, "times", lambda self, v: n_products.append(1) or counted(self, v)
    )
    g, counts, steps = np.random.default_rng(7).standard_normal(len(H)), [], []
    for most in (blocks.BLOCKS_NBYTES, 0):
        monkeypatch.setattr(blocks, "BLOCKS_NBYTES", most)
        n_products.clear()
        curvature = SampledCurvature(problem, theta, k, Parts(problem, rows))
        steps.append(curvature.solve(g, 1e-9))
        counts.append(len(n_products))
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-6)
    assert 2 * counts[0] <= counts[1]


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_some_rows_are_a_preconditioner_too(kind, monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_COEFFICIENTS", 0)
    monkeypatch.setattr(blocks, "ROWS", 30)
    problem, rows, theta, k, H = case(kind)
    curvature = SampledCurvature(problem, theta, k, Parts(problem, rows))
    M = np.array([curvature.precondition(e) for e in np.eye(len(H))])
    np.testing.assert_allclose(M, M.T, atol=1e-10)
    assert np.linalg.eigvalsh(M)[0] > 0
    g = np.random.default_rng(8).standard_normal(len(H))
    np.testing.assert_allclose(curvature.solve(g, 1e-12), np.linalg.solve(H, g), atol=1e-8)


def test_the_number_of_parts_does_not_take_blocks_away(monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_COEFFICIENTS", 0)
    monkeypatch.setattr(parts_of_rows, "PART_ROWS", 32)
    problem, rows, theta, k, _ = case("one curve")
    room = blocks.COPIES * 8 * int(blocks.block_begins(problem)[-1])
    for most, has_blocks in ((room, True), (room - 1, False)):
        monkeypatch.setattr(blocks, "BLOCKS_NBYTES", most)
        parts = Parts(problem, rows, n_threads=2)
        weights = parts.each(lambda part: np.ones(part.n_rows))
        made = blocks.make_blocks(problem, parts, weights, lambda h: h[None])
        assert (made is not None) == has_blocks


def test_directions_between_reads_take_no_more_products_than_a_read_costs(monkeypatch):
    assert [products.products_a_read(share) for share in (1.0, 0.5, 0.25, 0.1)] == [3, 3, 4, 10]
    problem, rows, theta, k, H = case("one curve")
    counted, n_products = products.SampledCurvature.times, []
    monkeypatch.setattr(
        products.SampledCurvature, "times", lambda self, v: n_products.append(1) or counted(self, v)
    )
    sample = SampleObjective(problem, rows, 0.25, matrix_free=True)
    sample.solve_nearly(theta, k, np.ones(len(H)), 0.0, products.products_a_read(sample.share))
    assert len(n_products) == 4


def test_few_coefficients_have_no_blocks():
    problem, rows, theta, k, H = case("one curve")
    curvature = SampledCurvature(problem, theta, k, Parts(problem, rows))
    g = np.random.default_rng(9).standard_normal(len(H))
    np.testing.assert_array_equal(curvature.precondition(g), curvature.in_penalty(g))
    assert blocks.blocks_nbytes(problem.dim) == 0
    assert blocks.blocks_nbytes(5000) == blocks.BLOCKS_NBYTES
