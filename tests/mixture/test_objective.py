"""The E-step, its sums and its gradient, against loops, finite differences and symmetries."""

import numpy as np
import pytest
from mixture_kit import KINDS, SMOOTH, by_hand, make, measure, rows_of, table
from scipy import sparse

from streamlearn.data.source import Csr
from streamlearn.mixture import experts
from streamlearn.mixture.objective import Parameters

SHAPES = [(g, k) for g in KINDS for k in (1, 4)]
SHAPES += [(g, (2, 3)) for g in KINDS if g != "generative"]


@pytest.mark.parametrize(("gate", "k"), SHAPES)
@pytest.mark.parametrize("loss", experts.LOSSES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_objective_is_the_papers_sum(gate, k, loss, n_classes):
    X, y, s = table(40, n_classes=n_classes)
    shift = np.array([0.3, -1.0, 2.0])
    problem, at = make(gate, loss, rows_of(X, y), k, n_classes=n_classes, shift=shift)
    point = measure(problem, at, rows_of(X, y, s))
    likelihood, value = by_hand(problem, at, X, y, s)
    assert point.log_likelihood == pytest.approx(likelihood, rel=1e-12)
    assert point.objective == pytest.approx(value, rel=1e-12)
    assert point.mass[problem.tree.n_branches :].sum() == pytest.approx(s.sum())
    assert point.weight == s.sum()


@pytest.mark.parametrize(("gate", "k"), SHAPES)
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradient_passes_finite_differences(gate, k, loss, n_classes):
    """Eq. 14 with the factor 2 tau, and every other row: the gradient of F itself."""
    X, y, s = table(60, n_classes=n_classes)
    rows = rows_of(X, y, s)
    problem, at = make(gate, loss, rows, k, n_classes=n_classes)
    got = measure(problem, at, rows).gradient
    rng, h = np.random.default_rng(1), 1e-5
    for _ in range(3):
        d = rng.standard_normal(at.rows.shape)
        if problem.has_centres:
            d[: problem.tree.n_gates, -1] = 0.0
        values = [
            measure(problem, at._replace(rows=at.rows + t * h * d), rows).objective
            for t in (-2, -1, 1, 2)
        ]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        assert (got * d).sum() == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("gate", KINDS)
def test_streamed_sums_are_those_in_memory(gate):
    X, y, s = table(500)
    problem, at = make(gate, "log_loss", rows_of(X, y))
    whole = measure(problem, at, rows_of(X, y, s))
    cuts = [0, 1, 1, 64, 333, 500]
    parts = [rows_of(X[a:b], y[a:b], s[a:b]) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    for chunks in (parts, parts[::-1]):
        got = measure(problem, at, *chunks)
        assert got.objective == pytest.approx(whole.objective, rel=1e-12)
        np.testing.assert_allclose(got.gradient, whole.gradient, rtol=0, atol=1e-10)
        np.testing.assert_allclose(got.mass, whole.mass, rtol=1e-10)


@pytest.mark.parametrize("gate", KINDS)
def test_sparse_rows_are_dense_ones(gate):
    X, y, s = table(100)
    X[X < 0.3] = 0.0
    problem, at = make(gate, "squared_hinge", rows_of(X, y))
    problem = problem._replace(factor=np.array([2.0, 0.0, 0.5]))
    A = sparse.csr_array(X)
    csr = Csr(A.data, A.indices, A.indptr.astype(np.int64), 3)
    a, b = (measure(problem, at, rows_of(form, y, s)) for form in (X, csr))
    assert a.objective == pytest.approx(b.objective, rel=1e-13)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=0, atol=1e-11)


@pytest.mark.parametrize("gate", KINDS)
def test_components_have_no_order(gate):
    X, y, _ = table(80)
    rows = rows_of(X, y)
    problem, at = make(gate, "log_loss", rows)
    order = np.random.default_rng(2).permutation(4)
    moved = Parameters(at.rows[np.r_[order, 4 + order]], at.log_mix[order])
    a, b = measure(problem, at, rows), measure(problem, moved, rows)
    assert a.objective == pytest.approx(b.objective, rel=1e-13)
    np.testing.assert_allclose(b.gradient, a.gradient[np.r_[order, 4 + order]], atol=1e-11)


def test_tau_zero_is_the_mixture_by_weights_alone():
    X, y, _ = table(80)
    rows = rows_of(X, y)
    problem, at = make("rbf", "log_loss", rows, tau=0.0)
    point = measure(problem, at, rows)
    f = X @ at.rows[4:, :-1].T + at.rows[4:, -1]
    p = np.exp(at.log_mix) / 4 / (1 + np.exp(-(2 * y - 1)[:, None] * f))
    assert point.log_likelihood == pytest.approx(np.log(p.sum(axis=1)).sum())
    assert not point.gradient[:4].any()


def test_an_rbf_gate_is_a_linear_one_with_tied_offsets():
    X, y, _ = table(80)
    rows = rows_of(X, y)
    problem, at = make("rbf", "log_loss", rows, nu=0.0)
    free = at.rows.copy()
    free[:4, :-1] *= 2 * problem.tau
    free[:4, -1] = -problem.tau * (at.rows[:4] ** 2).sum(axis=1)
    a = measure(problem, at._replace(log_mix=np.zeros(4)), rows)
    b = measure(problem._replace(kind="linear"), Parameters(free, np.zeros(4)), rows)
    assert a.log_likelihood == pytest.approx(b.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("gate", KINDS)
@pytest.mark.parametrize("loss", experts.LOSSES)
def test_far_outliers_overflow_nothing(gate, loss):
    X, y, _ = table(50)
    X[7] = 1e30
    problem, at = make(gate, loss, rows_of(X, y))
    with np.errstate(all="raise", under="ignore"):
        point = measure(problem, at, rows_of(X, y))
    assert np.isfinite(point.gradient).all()
    others = np.arange(50) != 7
    without = measure(problem, at, rows_of(X[others], y[others])).objective
    assert -np.inf < point.objective <= without + 1e-9 * abs(without)  # its likelihood is below 1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", experts.LOSSES)
def test_losses_of_the_classes_are_those_of_the_answers(loss, n_classes):
    F = np.random.default_rng(0).standard_normal((6, 4, experts.n_outputs(n_classes)))
    table = experts.class_losses(loss, F)
    for code in range(n_classes):
        value, _ = experts.losses(loss, F, np.full(6, float(code)))
        np.testing.assert_allclose(table[:, :, code], value, rtol=1e-12)
