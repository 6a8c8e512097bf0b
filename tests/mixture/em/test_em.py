"""EM climbs, and where it ends is where others end."""

import numpy as np
import pytest
from mixture_kit import (
    GATES,
    KINDS,
    SMOOTH,
    begin,
    by_hand,
    fit,
    make,
    maximise,
    measure,
    rows_of,
    table,
)
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from streamlearn.mixture.em import curvature, selection
from streamlearn.mixture.em.curvature import FORMS, Curvature, axes_of
from streamlearn.mixture.objective import posterior, row_blocks, slopes

TREES = [(g, 5) for g in KINDS] + [(g, (2, 3)) for g in KINDS if g != "generative"]


def never_falls(seen):
    """But where a component went, which their number shows."""
    for (k, before, _), (later_k, after, _) in zip(seen[:-1], seen[1:], strict=True):
        if k == later_k:
            assert after >= before - 1e-10 * abs(before)


@pytest.mark.parametrize(("gate", "k"), TREES)
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_objective_never_falls_between_prunings(gate, k, loss, form, seed):
    X, y, s = table(150, seed=seed)
    rows = rows_of(X, y, s)
    problem, start = make(gate, loss, rows, k, nu=8.0, seed=seed)
    state, seen = maximise(problem, start, rows, max_reads=50, form=form)
    never_falls(seen)
    assert seen[-1][1] > seen[0][1]
    leaves = state.point.mass[state.problem.tree.n_branches :]
    assert state.reason.startswith("50") or leaves.min() > 8.0 or len(leaves) == 1


@pytest.mark.parametrize(
    ("gate", "loss"), [("generative", "log_loss"), ("rbf", "squared_hinge"), ("linear", "hinge")]
)
def test_history_of_a_fit_never_falls(gate, loss):
    X, y, s = table(120, n_classes=3)
    model = fit(X, y, s, n_components=4, gate=gate, expert_loss=loss, nu=5.0, max_passes=8)
    for phase in {record["phase"] for record in model.history_}:
        of_phase = [record for record in model.history_ if record["phase"] == phase]
        never_falls([(r["n_components"], r["objective"], r["event"]) for r in of_phase])
        assert all("log_likelihood" in record for record in of_phase)


@pytest.mark.parametrize("gate", KINDS)
@pytest.mark.parametrize("loss", SMOOTH)
def test_it_ends_where_the_gradient_is_nothing(gate, loss):
    X, y, _ = table(200)
    rows = rows_of(X, y)
    problem, start = begin(gate, loss, rows, 3, nu=0.0, C=0.5)
    state, _ = maximise(problem, start, rows, tol=1e-13, max_reads=2000)
    assert state.converged
    assert np.abs(state.point.gradient).max() < 2e-3 * len(y)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("gate", GATES)
def test_one_component_is_liblinear(gate, loss):
    X, y, _ = table(200)
    model = fit(X, y, n_components=1, gate=gate, expert_loss=loss, C=0.7, scaling="none", tol=1e-13)
    other = LinearSVC(loss=loss, dual=True, C=0.7, tol=1e-10, max_iter=100_000).fit(X, y)

    def objective(w, b):
        short = np.maximum(0, 1 - (2 * y - 1) * (X @ w + b))
        return 0.5 * (w @ w + b * b) / 0.7 + (short ** (1 + (loss[0] == "s"))).sum()

    best = objective(other.coef_[0], other.intercept_[0])
    assert objective(model.coef_[0, 0], model.intercept_[0, 0]) <= best * (1 + 1e-6)
    if gate == "linear":
        assert -model.certificate_.objective == pytest.approx(best, rel=1e-6)


def test_one_component_with_log_loss_is_logistic_regression():
    X, y, _ = table(200, n_classes=3)
    model = fit(
        X, y, n_components=1, gate="linear", expert_loss="log_loss", scaling="none", tol=1e-14
    )
    A = np.column_stack([X, np.ones(len(X))])
    other = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(A, y)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(A), atol=1e-5)


def test_a_sharp_gate_is_an_svm_for_each_cluster():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    X = np.repeat(centres, 60, axis=0) + rng.standard_normal((180, 2))
    local = X - np.repeat(centres, 60, axis=0)
    y = (local[:, 0] + 0.5 * rng.standard_normal(180) > 0) * 1.0
    options = {"tau": 5.0, "nu": 0.0, "scaling": "none", "tol": 1e-13}
    model = fit(X, y, n_components=3, expert_loss="squared_hinge", **options)
    label = model.gate_probabilities(X).argmax(axis=1)
    for j in range(3):
        own = label == j
        assert own.sum() == 60
        other = LinearSVC(loss="squared_hinge", dual=True, tol=1e-10, max_iter=200_000)
        other.fit(X[own], y[own])
        np.testing.assert_allclose(model.coef_[j], other.coef_, atol=2e-3)


def test_the_linear_gate_alone_is_multinomial_logistic_regression():
    """Experts held fast: EM's gate is the fit to the soft labels, rows repeated with weights q."""
    X, y, _ = table(120)
    rows = rows_of(X, y)
    problem, at = make("linear", "log_loss", rows, 3, C=1.0)
    (blk,) = row_blocks(problem, at, X)
    e = posterior(problem, at, blk[2], blk[3], y)
    A = np.column_stack([X, np.ones(len(X))])
    other = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=5000)
    other.fit(np.tile(A, (3, 1)), np.repeat(np.arange(3), len(y)), e.q.T.ravel())
    soft = other.predict_proba(A)
    # at those gate rows the bound's gradient, with the old posteriors, is nothing
    trial = at.rows.copy()
    trial[:3] = other.coef_
    problem_rows = A.T @ (e.q - soft)
    np.testing.assert_allclose(problem_rows.T - trial[:3], 0, atol=1e-4)
    # and at the start it is what a read says
    got = measure(problem, at, rows).gradient[:3]
    D = slopes(problem, e)[:, :3]
    np.testing.assert_allclose(got, (A.T @ D).T - at.rows[:3], atol=1e-10)


@pytest.mark.parametrize("gate", KINDS)
def test_newton_steps_of_the_bound_are_exact_for_squares(gate):
    """Curvature of gates and experts against finite differences of the bound's gradient."""
    X, y, s = table(100)
    rows = rows_of(X, y, s)
    problem, at = make(gate, "log_loss", rows, 3)
    H = Curvature(problem, at, rows, 1.0, form="newton")
    diagonal = Curvature(problem, at, rows, 1.0, form="first-order")
    (blk,) = row_blocks(problem, at, X)
    e = posterior(problem, at, blk[2], blk[3], y)
    f = e.F[:, :, 0]
    p = 1 / (1 + np.exp(-f))
    A = np.column_stack([X, np.ones(len(X))])
    for j in range(3):
        exact = (A.T * (s * e.q[:, j] * p[:, j] * (1 - p[:, j]))) @ A + np.eye(4) / problem.C
        g = np.zeros_like(at.rows)
        g[3 + j] = np.arange(1.0, 5.0)
        np.testing.assert_allclose(H.solve(g)[3 + j], np.linalg.solve(exact, g[3 + j]), rtol=1e-3)
        np.testing.assert_allclose(diagonal.solve(g)[3 + j], g[3 + j] / np.diag(exact), rtol=1e-9)
    if gate == "generative":
        point = measure(problem, at, rows)
        step = H.solve(point.gradient)[:3, :-1]
        means = (e.q * s[:, None]).T @ X / point.mass[:, None]
        np.testing.assert_allclose(at.rows[:3, :-1] + step, means, rtol=1e-6)


def test_shared_curvature_is_exact_where_all_rows_bend_alike(monkeypatch):
    """Log-loss experts of 0 and a linear gate of 0: every second derivative is a constant."""
    X, y, s = table(100)
    rows = rows_of(X, y, s)
    problem, at = make("linear", "log_loss", rows, 3)
    at = at._replace(rows=np.zeros_like(at.rows))
    exact = Curvature(problem, at, rows, 1.0, form="newton")
    monkeypatch.setattr(curvature, "DAMPING", 0.0)
    shared = Curvature(problem, at, rows, 1.0, form="shared", axes=axes_of(problem, rows))
    g = np.random.default_rng(0).standard_normal(at.rows.shape)
    np.testing.assert_allclose(shared.solve(g), exact.solve(g), rtol=1e-7)


def test_mixing_coefficients_are_equations_12_and_20():
    X, y, _ = table(100)
    rows = rows_of(X, y)
    for nu in (0.0, 3.0):
        problem, at = make("generative", "log_loss", rows, nu=nu)
        point = measure(problem, at, rows)
        excess = point.mass - nu
        expected = excess / excess.sum()
        np.testing.assert_allclose(np.exp(selection.mixing(problem, point)), expected, rtol=1e-12)


def test_components_go_one_at_a_time_and_the_last_stays():
    X, y, _ = table(100)
    rows = rows_of(X, y)
    problem, start = make("generative", "log_loss", rows, 6, nu=1e6)
    state, seen = maximise(problem, start, rows)
    counts = [k for k, _, _ in seen]
    assert counts[0] == 6
    assert min(np.diff(counts)) == -1
    assert state.problem.tree.n_leaves == 1
    assert [event for _, _, event in seen].count("pruned") == 5


def test_a_tree_loses_bare_branches():
    X, y, _ = table(100)
    rows = rows_of(X, y)
    problem, at = make("rbf", "log_loss", rows, (2, 2))
    for leaf, left in ((1, [0, 1, 1]), (0, [0, 0])):
        problem, at = selection.without(problem, at, leaf)
        assert problem.tree.parent.tolist() == left
        assert len(at.rows) == problem.tree.n_gates + problem.n_experts
        np.testing.assert_allclose(
            [np.exp(at.log_mix[part]).sum() for part in problem.tree.contests()], 1.0
        )
        expected = by_hand(problem, at, X, y, np.ones(len(y)))[1]
        assert measure(problem, at, rows).objective == pytest.approx(expected, rel=1e-10)
    assert problem.names.tolist() == [2, 3]
