"""Unsettled rows that stay in memory during a read: which they are, and that they change no sum."""

import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table
from scipy import sparse

from streamlearn.additive.dual.cached_rows import (
    Cache,
    MovedRows,
    distance_from_settled,
    nothing_moved,
)
from streamlearn.additive.dual.descent import (
    Reading,
    alpha_width,
    certificate_fold,
    start_sweep,
    sweep_fold,
)
from streamlearn.additive.dual.kernels_step import dual_step
from streamlearn.numeric.losses import LOSSES
from streamlearn.passes.fold import read_all, run_fold

DUAL = [name for name, kind in LOSSES.items() if kind().has("dual_rule")]
SLICE = 64


def closed(fold, state):
    return state if fold.close is None else fold.close(state)


class Sweeps:
    """Sweeps over a table in slices, each a group, with the dual variables kept between them."""

    def __init__(self, loss, n_most, form="dense", n_classes=2):
        X, y = table(400, n_classes=n_classes)
        if form == "csr":
            X = sparse.csr_array(X)
        weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
        outputs = {} if n_classes == 2 else {"n_outputs": n_classes}
        kind = {"basis": "cosine"} if form == "cosine" else {}
        self.source = as_dataset(X, y, weight, rows=SLICE)
        self.problem, _ = make_problem(as_dataset(X, y, weight), loss, **outputs, **kind)
        self.alpha = np.zeros((len(y), alpha_width(self.problem)), np.float32)
        self.sweep, self.n = start_sweep(self.problem), 0
        row_nbytes = 8.0 * X.shape[1]
        self.cache = n_most and Cache(n_most, row_nbytes, 1e-6, self.source)

    def chunks(self):
        for chunk in read_all(self.source):
            rows = slice(chunk.rows[0], chunk.rows[-1] + 1)
            chunk.state = {"alpha": self.alpha[rows].copy()}
            chunk.order = np.arange(chunk.n_rows, dtype=np.intp)
            yield chunk
            self.alpha[rows] = chunk.state["alpha"]

    def fold(self):
        reading = Reading(2, (0, self.n), self.cache or None)
        return sweep_fold(self.problem, self.sweep, reading)

    def more(self):
        fold = self.fold()
        state = fold.start()
        for chunk in self.chunks():
            state = fold.step(state, chunk)
        self.sweep, self.n = fold.finish(closed(fold, state)), self.n + 1
        return self.sweep

    def certificate(self):
        fold = certificate_fold(self.problem, self.sweep.theta, self.sweep.moved)
        at = run_fold(fold, self.chunks())
        return at, float(((at.value - at.bound) / at.value).max())


@pytest.mark.parametrize("loss", [name for name in DUAL if name != "log_loss"])
def test_settled_rows_are_those_that_a_step_would_leave(loss):
    rng = np.random.default_rng(0)
    problem, _ = make_problem(as_dataset(*table(50)), loss)
    rule, m = problem.loss.dual_rule(), 400
    numbers = rule.both_signs
    y = rng.normal(size=m) if numbers else np.where(rng.random(m) < 0.5, 1.0, -1.0)
    most = np.nextafter(np.float32(min(problem.C * rule.bound, 3.0)), np.float32(0))
    choice = rng.integers(0, 4 if numbers else 3, m)
    alpha = np.select([choice == 0, choice == 1, choice == 3], [0.0, most, -most], 0.3 * most)
    alpha = alpha.astype(np.float32)[:, None]
    F = y[:, None] + rng.normal(0, 0.5, (m, 1)) if numbers else rng.normal(0, 2, (m, 1))
    far = distance_from_settled(problem, y, np.empty(0), alpha, F)
    moved = np.array([
        dual_step.py_func(rule, problem.C, alpha.copy(), i, 0, 1, y[i], F[i, 0], 1.0)
        for i in range(m)
    ])  # fmt: skip
    assert (abs(moved[far > 1e-7]) <= 1e-6).all()  # at most to the other neighbour of its bound
    assert (abs(moved[far < -1e-4]) > 1e-6).all()
    assert (far < -1e-4).any()
    assert (far > 1e-7).any() or loss == "squared_error"


def test_rows_of_log_loss_are_settled_where_they_are_sure_and_right():
    problem, _ = make_problem(as_dataset(*table(50)), "log_loss", C=1.0)
    F, y = np.array([[8.0], [8.0], [0.0]]), np.ones(3)
    u = np.array([1 / (1 + np.exp(8.0)), 0.5, 0.5])
    alpha = np.column_stack([u, 1 - u]).astype(np.float32)
    far = distance_from_settled(problem, y, np.empty(0), alpha, F)
    assert (np.sign(far) == [1, -1, -1]).all()
    far = distance_from_settled(problem, y, np.array([0.0, 0.0, 1.0]), alpha, F)
    assert (far[:2] == np.inf).all()
    assert far[2] < 0


@pytest.mark.parametrize("rows", [range(10, 16), np.array([10, 13, 15])])
def test_moved_variables_replace_those_of_the_row_state(rows):
    moved = MovedRows(np.array([3, 10, 14, 15, 20]), np.arange(5, dtype=np.float32)[:, None])
    [chunk] = read_all(as_dataset(np.zeros((len(rows), 1))))
    chunk.rows = rows
    alpha = moved.over(chunk, np.full((len(rows), 1), 9, np.float32))
    known = dict(zip(moved.rows.tolist(), moved.alpha[:, 0], strict=True))
    assert alpha[:, 0].tolist() == [known.get(int(row), 9.0) for row in rows]


@pytest.mark.parametrize(
    ("loss", "form", "n_classes"),
    [(loss, "dense", 2) for loss in DUAL]
    + [("hinge", "csr", 3), ("hinge", "cosine", 2), ("log_loss", "csr", 2)],
)
@pytest.mark.parametrize("n_most", [60, 400])
def test_sweep_with_cached_rows_knows_its_dual_value_and_is_no_worse(loss, form, n_classes, n_most):
    data, plain = (Sweeps(loss, n, form, n_classes) for n in (n_most, 0))
    for _ in range(3):
        sweep = data.more()
        plain.more()
        at, gap = data.certificate()
        np.testing.assert_allclose(sweep.dual, at.bound, rtol=1e-6)
    assert 0 < len(sweep.moved.rows) <= n_most
    assert -1e-9 <= gap <= 1.05 * plain.certificate()[1] + 1e-6


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_interrupted_sweep_reads_its_cached_rows_again(form):
    whole, broken = (Sweeps("hinge", 60, form) for _ in range(2))
    for data in (whole, broken):
        data.more()
    whole.more()
    fold = broken.fold()
    state = fold.start()
    for number, chunk in enumerate(broken.chunks()):
        state = fold.step(state, chunk)
        if number in (2, 4):
            state = fold.stored(state)
            kept = state["cached"]
            assert set(kept) == {"rows", "alpha"}  # no row's values are kept
    sweep = fold.finish(fold.close(state))
    for a, b in zip(sweep[:4] + sweep.moved, whole.sweep[:4] + whole.sweep.moved, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_moved_changes_nothing():
    [chunk] = read_all(as_dataset(np.zeros((3, 1))))
    alpha = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(nothing_moved(2).over(chunk, alpha), np.ones((3, 2)))
