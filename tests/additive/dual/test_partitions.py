"""Sweeps of several partitions: what each minimises, what their sum is, how many there are."""

import dask
import numpy as np
import pytest
from additive_kit import as_dataset, make_problem, table
from oracles import dense_splines
from scipy import sparse

import streamlearn as sl
from streamlearn.additive.costs import sizes
from streamlearn.additive.dual import partitions
from streamlearn.additive.dual.cached_rows import Cache, MovedRows
from streamlearn.additive.dual.descent import (
    Reading,
    alpha_width,
    certificate_fold,
    start_sweep,
    sweep_fold,
)
from streamlearn.additive.objective import add_dual_values, forces_of
from streamlearn.engine import planning
from streamlearn.numeric.bases.roughness import times
from streamlearn.numeric.losses import LOSSES
from streamlearn.passes.fold import read_all, run_fold

DUAL = [name for name, kind in LOSSES.items() if kind().has("dual_rule")]
SLICE, L = 50, 4


class Partitions:
    """Sweeps over a table of 400 rows in four partitions of two groups each."""

    def __init__(self, loss, n_most, form="dense", n_classes=2, by_class=False):
        X, y = table(400, n_classes=n_classes)
        if by_class:
            order = np.argsort(y, kind="stable")
            X, y = X[order], y[order]
        self.y = y
        if form == "csr":
            X = sparse.csr_array(X)
        weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
        outputs = {} if n_classes == 2 else {"n_outputs": n_classes}
        kind = {"basis": "cosine"} if form == "cosine" else {}
        self.source = as_dataset(X, y, weight, rows=SLICE)
        self.problem, _ = make_problem(as_dataset(X, y, weight), loss, **outputs, **kind)
        self.alpha = np.zeros((len(y), alpha_width(self.problem)), np.float32)
        self.sweep, self.n = start_sweep(self.problem), 0
        self.cache = n_most and Cache(n_most, 8.0 * X.shape[1], 1e-6, self.source, L)

    def chunks(self, groups=range(8)):
        for number, chunk in enumerate(read_all(self.source)):
            if number not in groups:
                continue
            rows = slice(chunk.rows[0], chunk.rows[-1] + 1)
            chunk.state = {"alpha": self.alpha[rows].copy()}
            chunk.order = np.arange(chunk.n_rows, dtype=np.intp)
            yield chunk
            self.alpha[rows] = chunk.state["alpha"]

    def parts(self, fold):
        """The closed state of each partition, whose groups are drawn anew in every sweep."""
        drawn = np.random.default_rng(self.n).permutation(8).reshape(L, 2)
        for groups in drawn:
            state = fold.start()
            for chunk in self.chunks(groups):
                state = fold.step(state, chunk)
            yield state if fold.close is None else fold.close(state)

    def fold(self):
        return sweep_fold(self.problem, self.sweep, Reading(2, (0, self.n), self.cache or None, L))

    def more(self):
        fold = self.fold()
        first, *rest = self.parts(fold)
        for state in rest:
            first = fold.merge(first, state)
        self.sweep, self.n = fold.finish(first), self.n + 1
        return self.sweep

    def certificate(self):
        fold = certificate_fold(self.problem, self.sweep.theta, self.sweep.moved)
        at = run_fold(fold, self.chunks())
        return at, float(((at.value - at.bound) / at.value).max())


@pytest.mark.parametrize("loss", DUAL)
def test_local_problem_is_the_one_of_the_paper(loss):
    """Ma et al. 2015, eq. 9 with sigma' = L, up to a constant, at dual variables of no meaning."""
    data = Partitions(loss, 0)
    problem, local = data.problem, partitions.local_problem(data.problem, L)
    [chunk] = read_all(data.source.with_slice_rows(400))
    rng = np.random.default_rng(2)
    y, width = problem.targets(chunk), alpha_width(problem)
    alpha = rng.uniform(0.1, 0.4, (2, 400, width)).astype(np.float32) * problem.C
    A = dense_splines(problem.bases, chunk.dense) - problem.reference.c

    def model_of(forces, problem):
        W = times(problem.roughness.L, problem.roughness, forces.T @ A)
        return W, problem.intercept_scaling**2 * forces.sum(axis=0)

    w, b = rng.normal(size=(1, problem.dim)), rng.normal(size=1)
    values, forces = np.zeros((2, 1)), [forces_of(problem, y, a) for a in alpha]
    for a, value in zip(alpha, values, strict=True):
        add_dual_values(problem, y, np.ones(400), a, value)
    dw, db = model_of(forces[1] - forces[0], problem)
    by_paper = values[1] - values[0] - 0.5 * L * problem.penalty(np.column_stack([dw, db])) * 2
    Pw = times(problem.roughness.P, problem.roughness, w)
    by_paper -= (Pw * dw).sum() + b * db / problem.intercept_scaling**2
    moved = model_of(forces[1] - forces[0], local)
    penalties = [
        local.penalty(np.column_stack(at)) for at in ((w, b), (w + moved[0], b + moved[1]))
    ]
    found = values[1] - values[0] - (penalties[1] - penalties[0])
    np.testing.assert_allclose(found, by_paper, rtol=1e-9)


@pytest.mark.parametrize(
    ("loss", "form", "n_classes"),
    [(loss, "dense", 2) for loss in DUAL]
    + [("hinge", "csr", 3), ("hinge", "cosine", 2), ("log_loss", "csr", 2)],
)
@pytest.mark.parametrize("n_most", [0, 15, 100])
def test_joined_sweeps_know_their_dual_value_which_never_falls(loss, form, n_classes, n_most):
    data = Partitions(loss, n_most, form, n_classes)
    duals, gaps = [], []
    for _ in range(6):
        sweep = data.more()
        at, gap = data.certificate()
        np.testing.assert_allclose(sweep.dual, at.bound, rtol=1e-6)
        duals.append(at.bound)
        gaps.append(gap)
    assert len(sweep.moved.rows) <= L * n_most
    assert (np.diff(sweep.moved.rows) > 0).all()
    assert (np.diff(duals, axis=0) >= -1e-6 * abs(duals[-1])).all()
    assert -1e-9 <= gaps[-1] < 0.5 * gaps[0]


def test_one_step_of_one_partition_raises_the_value_of_all_by_at_least_its_own():
    """The bound of the paper that makes the sum of all changes safe."""
    data = Partitions("hinge", 0)
    fold = data.fold()
    local = partitions.local_problem(data.problem, L)
    rise = 0.0
    states = list(data.parts(fold))
    for state in states:
        theta = np.column_stack([state["W"], state["b"]])
        rise += float((state["dual"] - local.penalty(theta)).sum())
    first, *rest = states
    for state in rest:
        first = fold.merge(first, state)
    assert fold.finish(first).dual.sum() >= rise * (1 - 1e-12) > 0


def test_moved_variables_of_partitions_are_joined_in_order():
    a = MovedRows(np.array([4, 9]), np.array([[1.0], [2.0]], np.float32))
    b = MovedRows(np.array([0, 5, 12]), np.array([[3.0], [4.0], [5.0]], np.float32))
    joined = a.joined(b)
    assert joined.rows.tolist() == [0, 4, 5, 9, 12]
    assert joined.alpha[:, 0].tolist() == [3, 1, 4, 2, 5]


@pytest.fixture
def partitioned(monkeypatch):
    """Four partitions of 400 rows with room for some 15 % of them, none held in memory."""
    monkeypatch.setattr(planning, "CHOSEN_BYTES", 10_000)
    monkeypatch.setattr(sizes, "holds_rows", lambda size: False)
    monkeypatch.setattr(partitions, "PARTITION_NBYTES", 2_000)
    monkeypatch.setattr(partitions, "MOST", L)


def fitted(loss="hinge", threads=2, n_classes=2, by_class=False, checkpoint=None):
    X, y = table(400, n_classes=n_classes)
    if by_class:
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    weight = np.random.default_rng(1).integers(0, 3, 400).astype(float)
    model = sl.AdditiveClassifier(
        loss, solver="dual-cd", C=0.2, n_bases=6, tol=1e-4, max_passes=2000
    )
    with dask.config.set(num_workers=threads):
        return model.fit(as_dataset(X, y, weight, rows=10), checkpoint=checkpoint)


@pytest.mark.parametrize(("loss", "n_classes"), [("hinge", 2), ("log_loss", 3)])
def test_bits_are_those_of_one_thread(loss, n_classes, partitioned):
    one, *others = (fitted(loss, threads, n_classes) for threads in (1, 2, 3))
    assert one.plan_.partitions == L
    assert [model.plan_.partitions_at_once for model in (one, *others)] == [1, 2, 3]
    for model in others:
        np.testing.assert_array_equal(model.coef_, one.coef_)
        assert model.certificate_.dual == pytest.approx(one.certificate_.dual, abs=0)


@pytest.mark.parametrize("by_class", [False, True])
def test_partitions_end_at_the_optimum_of_one_lane(by_class, partitioned, monkeypatch):
    several = fitted(by_class=by_class).certificate_
    monkeypatch.setattr(partitions, "MOST", 1)
    alone = fitted(by_class=by_class).certificate_
    assert several.converged
    assert alone.dual <= several.primal * (1 + 1e-7)
    assert several.dual <= alone.primal * (1 + 1e-7)
    assert several.primal <= alone.primal * (1 + 1e-4)


@pytest.mark.parametrize(
    ("nbytes", "n"),
    [(0.0, 1), (1.99, 1), (2.0, 2), (3.9, 2), (4.0, 4), (1e9, 4)],
)
def test_number_of_partitions_follows_from_the_size_alone(nbytes, n, monkeypatch):
    monkeypatch.setattr(partitions, "MOST", 4)
    assert partitions.count_partitions(nbytes * partitions.PARTITION_NBYTES) == n


def test_plan_says_how_many_partitions_there_are_whatever_the_threads(partitioned):
    X, y = table(400)
    model = sl.AdditiveClassifier("hinge", solver="dual-cd", n_bases=6)
    data = as_dataset(X, y, rows=10)
    plans = []
    for threads in (1, 3):
        with dask.config.set(num_workers=threads):
            plans.append(sl.plan(model, data))
    one, three = plans
    assert (one.partitions, one.partitions_at_once) == (L, 1)
    assert (three.partitions, three.partitions_at_once) == (L, 3)
    assert one.chosen_rows == three.chosen_rows
    assert "partitions       4 of 100 rows, 3 at once; so many by the size of the table" in str(
        three
    )
