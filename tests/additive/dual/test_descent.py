import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table
from oracles import LOSS, dense_splines
from scipy import sparse

from streamlearn.additive.dual.descent import (
    Reading,
    alpha_width,
    certificate_fold,
    shuffled,
    start_sweep,
    sweep_fold,
)
from streamlearn.numeric.bases.roughness import times
from streamlearn.passes.fold import read_all, run_fold

LOSSES = ["log_loss", "squared_hinge", "hinge"]


class Rows:
    """All rows as one group, with their dual variables kept between sweeps."""

    def __init__(self, X, y, loss, weight=None, **kw):
        self.problem, _ = make_problem(as_dataset(X, y, weight), loss, **kw)
        [self.chunk] = read_all(as_dataset(X, y, weight))
        self.alpha = np.zeros((len(y), alpha_width(self.problem)), np.float32)
        self.sweep, self.n = start_sweep(self.problem), 0

    def with_state(self):
        self.chunk.state, self.chunk.order = (
            {"alpha": self.alpha},
            shuffled(len(self.alpha), (9, self.n)),
        )
        return [self.chunk]

    def more(self, n_epochs=2):
        fold = sweep_fold(self.problem, self.sweep, Reading(n_epochs, (0, self.n)))
        self.sweep, self.n = run_fold(fold, self.with_state()), self.n + 1
        return self.sweep

    def certificate(self):
        return run_fold(
            certificate_fold(self.problem, self.sweep.theta, self.sweep.moved), self.with_state()
        )


def rows(loss, weighted=False, n_classes=2, **kw):
    X, y = table(200, n_classes=n_classes)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weighted else None
    outputs = {} if n_classes == 2 else {"n_outputs": n_classes}
    return Rows(X, y, loss, weight, **outputs, **kw), X, y, weight


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_model_is_the_sum_of_its_dual_variables(loss, weighted):
    data, X, y, weight = rows(loss, weighted, degree=2, B=2.0)
    sweep = data.more()
    problem = data.problem
    A = dense_splines(problem.bases, X) - problem.reference.c
    pull = data.alpha[:, 0].astype(float) * (2 * y - 1)
    W = times(problem.roughness.L, problem.roughness, (pull @ A)[None])
    np.testing.assert_allclose(sweep.W, W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sweep.b, 4.0 * pull.sum(), rtol=1e-9, atol=1e-9)
    assert (data.alpha[:, 0] >= 0).all()
    if loss != "squared_hinge":
        top = problem.C * (np.ones(len(y)) if weight is None else weight)
        assert (data.alpha[:, 0] <= top).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_dual_value_rises_and_stays_below_the_primal_one(loss):
    data, *_ = rows(loss, weighted=True)
    duals, gaps = [], []
    for _ in range(8):
        sweep = data.more()
        at = data.certificate()
        np.testing.assert_allclose(sweep.dual, at.bound, rtol=1e-8)  # the sweep's own is exact
        duals.append(at.bound[0])
        gaps.append((at.value - at.bound)[0])
    assert (np.diff(duals) >= -1e-6 * abs(duals[-1])).all()  # variables are rounded to float32
    assert min(gaps) >= 0
    assert gaps[-1] < 0.1 * gaps[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_certificate_measures_the_primal_value(loss):
    data, X, y, weight = rows(loss, weighted=True, degree=3, order=2)
    sweep, at = data.more(), data.certificate()
    A = dense_splines(data.problem.bases, X) - data.problem.reference.c
    f = A @ sweep.W[0] + sweep.b[0]
    value = data.problem.penalty(sweep.theta)[0] + data.problem.C * weight @ LOSS[loss](
        2 * y - 1, f
    )
    np.testing.assert_allclose(at.value, value, rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_against_the_rest_is_as_many_binary_problems(loss):
    together, X, y, _ = rows(loss, n_classes=3)
    sweep = together.more(1)
    for k in range(3):
        binary = Rows(X, (y == k) * 1, loss)
        alone = binary.more(1)
        np.testing.assert_allclose(sweep.W[k], alone.W[0], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(sweep.dual[k], alone.dual[0], rtol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_rows_with_their_reference_are_the_dense_problem(loss):
    X, y = table(150)
    csr = Rows(sparse.csr_array(X), y, loss)
    dense = Rows(X, y, loss)
    dense.problem = csr.problem  # c = Phi(0) for both
    np.testing.assert_allclose(csr.more().W, dense.more().W, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(csr.certificate().bound, dense.certificate().bound, rtol=1e-6)


def test_rows_of_weight_0_are_left_alone():
    data, *_, weight = rows("hinge", weighted=True)
    data.more()
    assert not data.alpha[weight == 0].any()
    assert data.alpha[weight > 0].any()


def test_orders_are_permutations_drawn_by_their_key():
    order = shuffled(100, (0, 1, 2))
    assert sorted(order) == list(range(100))
    assert order.dtype == np.intp
    np.testing.assert_array_equal(order, shuffled(100, (0, 1, 2)))
    assert (order != shuffled(100, (0, 1, 3))).any()
