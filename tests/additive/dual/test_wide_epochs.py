"""Epochs by blocks of rows: the visits of one row at a time, to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from streamlearn.additive.basis.kernels import NONE, DualProblem, coordinates_rows
from streamlearn.additive.dual.epochs import DualEpochs, DualState
from streamlearn.additive.dual.wide_rows import PART_COLUMNS
from streamlearn.numeric.bases.bsplines import evaluate, make_bases
from streamlearn.numeric.bases.roughness import make_reference, make_roughness
from streamlearn.numeric.losses import Hinge, LogLoss, SquaredError, SquaredHinge

M = 45
"""Rows, of which the last block is no whole one."""
NEVER = 1 << 62


def table(p, penalty_order, n_classes=1, constant=False):
    """Coordinates, bases, problem and targets of p columns with 2 to 5 splines."""
    rng = np.random.default_rng(p)
    X = rng.random((M, p)).astype(np.float32)
    X[0], X[1] = 0.0, 1.0
    knots = [np.linspace(0, 1, 2 + d % 4) for d in range(p)]
    if constant:
        knots[3] = np.empty(0)
    bases = make_bases(knots, [1] * p)
    rough = make_roughness(bases, penalty_order)
    c = np.concatenate([evaluate(bases, d, X[:, d]) for d in range(p)], axis=1).mean(axis=0)
    problem = DualProblem(rough, make_reference(rough, c), 0.1, 2.0)
    y = rng.integers(0, n_classes, M).astype(float) if n_classes > 1 else rng.choice([-1.0, 1.0], M)
    U = coordinates_rows(X, bases, "C")
    return U, bases._replace(prepared=True), problem, y, rng


def visited(given, loss, n_classes, weight, orders, **options):
    """The state after the orders, and the rows' norms and decisions."""
    U, bases, problem, y, _ = given
    width = n_classes * (2 if isinstance(loss, LogLoss) else 1)
    alpha = np.zeros((M, width), np.float32)
    state = DualState(alpha, np.zeros((n_classes, bases.dim)), np.zeros(n_classes))
    epochs = DualEpochs(U, bases, loss, problem, y, weight, state, **options)
    for order in orders:
        epochs.visit([order])
    return *state, epochs.norms, epochs.decisions()


def explicit(given):
    """(m, dim) the rows' functions."""
    U, bases, *_ = given
    Phi, at = np.zeros((M, bases.dim)), bases.first
    for d in np.flatnonzero(bases.n_intervals > 0):
        j = np.minimum(U[:, d].astype(int), bases.n_intervals[d] - 1)
        Phi[np.arange(M), at[d] + j] = 1 - (U[:, d] - j)
        Phi[np.arange(M), at[d] + j + 1] = U[:, d] - j
    return Phi


@pytest.mark.parametrize("loss", [Hinge(), LogLoss(), SquaredHinge(), SquaredError()], ids=repr)
@pytest.mark.parametrize("penalty_order", [0, 1])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_blocks_take_the_steps_of_single_visits(loss, penalty_order, n_classes):
    given = table(300, penalty_order, n_classes, constant=True)
    rng = given[-1]
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], M)
    # some rows left out, some repeated, one next to itself
    orders = [rng.permutation(M), np.array([4, 4, 9, 4]), rng.integers(0, M, 2 * M)]
    single = visited(given, loss, n_classes, weight, orders, wide_nbytes=NEVER)
    blocks = visited(given, loss, n_classes, weight, orders, wide_nbytes=0)
    for one, other in zip(single, blocks, strict=True):
        # the products are sums in float32, and so are the dual variables
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5 * np.abs(one).max())


@pytest.mark.parametrize("penalty_order", [0, 1])
def test_blocks_have_the_same_bits_for_any_number_of_threads(penalty_order):
    given = table(2 * PART_COLUMNS + 3, penalty_order)
    orders = [given[-1].permutation(M) for _ in range(2)]
    one, *more = (
        visited(given, LogLoss(), 1, NONE, orders, wide_nbytes=0, n_threads=n) for n in (1, 2, 5)
    )
    for other in more:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_penalties_without_simple_products_are_visited_a_row_at_a_time():
    given = table(30, 2)
    orders = [given[-1].permutation(M)]
    single = visited(given, Hinge(), 1, NONE, orders, wide_nbytes=NEVER)
    blocks = visited(given, Hinge(), 1, NONE, orders, wide_nbytes=0)
    for a, b in zip(single, blocks, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_margins_and_sums_are_products_with_the_explicit_functions(n_classes):
    U, bases, problem, y, rng = given = table(200, 1, n_classes, constant=True)
    alpha, W = np.zeros((M, n_classes), np.float32), rng.normal(size=(n_classes, bases.dim))
    state = DualState(alpha, np.zeros_like(W), np.zeros(n_classes))
    epochs = DualEpochs(U, bases, Hinge(), problem, y, NONE, state, wide_nbytes=0)
    Phi, A = explicit(given), rng.normal(size=(M, n_classes))
    np.testing.assert_allclose(epochs.margins(W), Phi @ W.T, atol=1e-11)
    np.testing.assert_allclose(epochs.sums(A), A.T @ Phi, atol=1e-11)
