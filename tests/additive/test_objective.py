import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table
from oracles import LOSS, dense_splines, gradient_by_differences
from scipy import sparse

from streamlearn.additive.basis.kernels_loss import curvatures
from streamlearn.additive.newton.curvature import (
    add_gram,
    empty_gram,
    gram_fold,
    inverse,
)
from streamlearn.additive.objective import evaluation_fold, loss_fold
from streamlearn.numeric.dual_rule import dual_value
from streamlearn.numeric.losses import LOSSES, make_loss
from streamlearn.numeric.targets import AMOUNT
from streamlearn.passes.fold import read_all, run_fold

SMOOTH = ["log_loss", "squared_hinge", "squared_error"]


def measured(problem, dataset, theta):
    return run_fold(evaluation_fold(problem, theta), read_all(dataset))


def written_out(problem, X, y, weight, theta):
    """F(theta) from dense splines."""
    A = dense_splines(problem.bases, X) - problem.reference.c
    f = A @ theta[:-1] + theta[-1]
    return problem.penalty(theta[None])[0] + problem.C * weight @ LOSS[problem.loss.name](y, f)


def case(loss, weighted=False, **kw):
    X, y = table(120)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weighted else None
    dataset = as_dataset(X, y, weight, rows=50)
    problem, _ = make_problem(dataset, loss, **kw)
    target = y - problem.target_mean if loss == "squared_error" else 2.0 * y - 1
    return problem, dataset, X, target, np.ones(len(y)) if weight is None else weight


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize(
    ("degree", "order", "weighted"), [(1, 1, True), (3, 2, False), (2, 0, True)]
)
def test_value_and_gradient_are_those_of_the_objective(loss, degree, order, weighted):
    problem, dataset, X, y, weight = case(
        loss, weighted, degree=degree, order=order, B=2.0, target_mean=0.3
    )
    theta = 0.3 * np.random.default_rng(2).standard_normal((1, problem.dim + 1))
    at = measured(problem, dataset, theta)
    f = lambda t: written_out(problem, X, y, weight, t)  # noqa: E731
    np.testing.assert_allclose(at.value, f(theta[0]), rtol=1e-12)
    tolerance = 1e-4 if loss == "squared_hinge" else 1e-6  # its slope has a kink
    by_differences = gradient_by_differences(f, theta[0])
    np.testing.assert_allclose(at.gradient[0], by_differences, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_bound_is_the_dual_value_of_the_forces(loss):
    """The gap 1/2 g'P^-1 g equals primal less dual computed from the forces themselves."""
    problem, dataset, X, y, weight = case(loss, weighted=True, B=0.5)
    theta = 0.2 * np.random.default_rng(3).standard_normal((1, problem.dim + 1))
    at = measured(problem, dataset, theta)
    A = dense_splines(problem.bases, X) - problem.reference.c
    f = A @ theta[0, :-1] + theta[0, -1]
    v = np.array([-problem.loss.slope(a, b) for a, b in zip(y, f, strict=True)])
    conjugate = sum(
        s * dual_value(problem.loss.dual_rule(), a, b) for s, a, b in zip(weight, y, v, strict=True)
    )
    V = problem.C * (weight * v) @ A
    norm = problem.half_norm(V[None], np.array([problem.C * weight @ v]))
    np.testing.assert_allclose(at.bound, problem.C * conjugate - norm, rtol=1e-9)


@pytest.mark.parametrize("loss", SMOOTH)
def test_solve_is_that_of_the_whole_system(loss):
    problem, dataset, X, y, weight = case(loss, weighted=True, degree=2, B=3.0)
    theta = 0.1 * np.random.default_rng(4).standard_normal((1, problem.dim + 1))
    at = measured(problem, dataset, theta)
    [[gram, total]] = run_fold(gram_fold(problem, theta), read_all(dataset))
    step = inverse(problem, gram, total)(at.gradient[0])
    A = np.column_stack([dense_splines(problem.bases, X) - problem.reference.c, np.ones(len(X))])
    h = problem.C * weight * curvatures(problem.loss, y, A @ theta[0])
    H = A.T @ (h[:, None] * A)
    H[-1, -1] += 1 / problem.intercept_scaling**2
    P = np.zeros_like(H)
    for a, b, at_table in zip(
        problem.bases.first[:-1], problem.bases.first[1:], problem.roughness.table, strict=True
    ):
        n = b - a
        P[a:b, a:b] = problem.roughness.P[at_table : at_table + n * n].reshape(n, n)
    np.testing.assert_allclose(step, np.linalg.solve(H + P, at.gradient[0]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "loss", [name for name, kind in LOSSES.items() if hasattr(kind, "curvature")]
)
def test_curvatures_of_many_rows_are_those_of_one(loss):
    f = np.linspace(-5, 5, 11)
    y = np.where(np.arange(11) % 2, 1.0, 2.0 if make_loss(loss).target is AMOUNT else -1.0)
    one = [make_loss(loss).curvature(a, b) for a, b in zip(y, f, strict=True)]
    np.testing.assert_allclose(curvatures(make_loss(loss), y, f), one, rtol=1e-14)


def test_chunking_changes_rounding_only():
    problem, dataset, *_ = case("log_loss", weighted=True)
    theta = 0.2 * np.ones((1, problem.dim + 1))
    a, b = measured(problem, dataset, theta), measured(problem, dataset.with_slice_rows(7), theta)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-11, atol=1e-11)


def test_csr_and_dense_rows_agree_for_the_same_reference():
    X, y = table(100)
    dense, csr = as_dataset(X, y), as_dataset(sparse.csr_array(X), y)
    problem, _ = make_problem(csr, "log_loss")
    theta = 0.2 * np.random.default_rng(5).standard_normal((1, problem.dim + 1))
    for a, b in zip(measured(problem, csr, theta), measured(problem, dense, theta), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_one_against_the_rest_is_as_many_binary_problems():
    X, y = table(150, n_classes=3)
    problem, _ = make_problem(as_dataset(X, y), "log_loss", n_outputs=3)
    theta = 0.2 * np.random.default_rng(6).standard_normal((3, problem.dim + 1))
    together = measured(problem, as_dataset(X, y), theta)
    for k in range(3):
        binary = measured(
            problem._replace(n_outputs=1), as_dataset(X, (y == k) * 1), theta[k : k + 1]
        )
        np.testing.assert_allclose(together.gradient[k], binary.gradient[0], rtol=1e-10, atol=1e-10)
        gram = empty_gram(problem.dim)
        chunk = next(iter(read_all(as_dataset(X, y.astype(float)))))
        one = run_fold(
            gram_fold(problem._replace(n_outputs=1), theta[k : k + 1]),
            read_all(as_dataset(X, (y == k) * 1)),
        )
        assert add_gram(problem, theta, k, gram, chunk) == pytest.approx(one[0][1], rel=1e-12)


def test_single_precision_measures_the_point_it_keeps():
    problem, dataset, *_ = case("log_loss", weighted=True)
    single = problem._replace(single=True)
    theta = single.rounded(np.random.default_rng(7).standard_normal((1, problem.dim + 1)))
    a, b = measured(problem, dataset, theta), measured(single, dataset, theta)
    np.testing.assert_allclose(a.value, b.value, rtol=3e-7)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-5, atol=1e-4)


def test_mean_loss_counts_weights():
    problem, dataset, X, y, weight = case("log_loss", weighted=True)
    theta = np.zeros((1, problem.dim + 1))
    assert run_fold(loss_fold(problem, theta), read_all(dataset)) == pytest.approx(np.log(2))
