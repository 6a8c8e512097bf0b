"""Small mixtures for the tests of the mixture family."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.mixture import objective
from streamlearn.mixture.em import initial, iteration
from streamlearn.mixture.em.curvature import Curvature, axes_of
from streamlearn.mixture.experts import n_outputs
from streamlearn.mixture.gate import make_tree
from streamlearn.mixture.objective import Parameters, Problem

GATES = ("generative", "rbf", "linear")
KINDS = (*GATES, "normalised")
"""Forms of gates in a `Problem`."""
SMOOTH = ("squared_hinge", "log_loss")


def table(n=240, p=3, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, -1] + 0.3 * rng.standard_normal(n)
    cuts = np.quantile(score, np.arange(1, n_classes) / n_classes)
    return X, np.digitize(score, cuts).astype(np.float64), rng.integers(0, 3, n).astype(float)


def rows_of(X, y, weight=None):
    return Chunk(X, y, weight, range(len(y)))


def make(gate, loss, rows, k=4, *, C=2.0, tau=0.7, nu=0.5, n_classes=2, seed=0, shift=None):
    """A problem, and parameters that are nothing special."""
    random = np.random.default_rng(seed)
    p = rows.X.shape[1]
    factor = None if shift is None else np.linspace(0.5, 2.0, p)
    tree = make_tree(k)
    n, O = tree.n_leaves, n_outputs(n_classes)
    problem = Problem(gate, loss, tree, O, tau, C, nu, np.arange(n), shift, factor)
    R = np.vstack(
        [random.standard_normal((tree.n_gates, p + 1)), random.standard_normal((n * O, p + 1))]
    )
    if problem.has_centres:
        R[: tree.n_gates, -1] = 0.0
    log_mix = np.zeros(tree.n_gates)
    if problem.has_centres:
        for part in tree.contests():
            mix = random.random(len(log_mix[part])) + 0.2
            log_mix[part] = np.log(mix / mix.sum())
    return problem, Parameters(R, log_mix)


def measure(problem, at, *chunks):
    fold = objective.evaluation_fold(problem, at)
    state = fold.start()
    for chunk in chunks:
        state = fold.step(state, chunk)
    return fold.finish(state)


def maximise(problem, start, rows, *, tol=1e-9, max_reads=400, form="newton"):
    """EM in memory: its last state, and the objectives of all accepted points by tree size."""
    seen = []

    def record(state, trial, event):
        seen.append((state.problem.tree.n_leaves, state.point.objective, event))
        return ""

    state = iteration.maximise(
        lambda problem, at, number, last: measure(problem, at, rows),
        lambda problem, at: Curvature(
            problem, at, rows, 1.0, form=form, axes=axes_of(problem, rows)
        ),
        problem,
        start,
        tol=tol,
        max_reads=max_reads,
        record=record,
    )
    return state, seen


def begin(gate, loss, rows, k, seed=0, **kw):
    centres, tree = initial.clusters(rows, k, np.random.default_rng(seed))
    problem, _ = make(gate, loss, rows, k, **kw)
    problem = problem._replace(tree=tree, names=np.arange(tree.n_leaves))
    return problem, initial.begin(problem, centres, rows)


def fit(X, y, sample_weight=None, **kw):
    """A fitted classifier; that it stopped short is another test's matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return sl.SVMMixtureClassifier(**kw).fit(X, y, sample_weight)


def by_hand(problem, at, X, y, s):
    """The objective row by row, written as the paper's sums (eq. 6, 7, 8, 10, 19 and 22)."""
    tree, n, total = problem.tree, problem.tree.n_gates, 0.0
    shift = 0.0 if problem.shift is None else problem.shift
    X = (X - shift) * (1.0 if problem.factor is None else problem.factor)
    mix, G = np.exp(at.log_mix), at.rows[:n]
    W = at.rows[n:].reshape(tree.n_leaves, problem.n_outputs, -1)
    for x, code, weight in zip(X, y, s, strict=True):
        if not problem.has_centres:
            e = np.exp(G @ np.r_[x, 1.0])
        else:
            e = np.exp(-problem.tau * ((x - G[:, :-1]) ** 2).sum(axis=1))
        if problem.kind == "generative":
            g = e * (problem.tau / np.pi) ** (len(x) / 2)
        else:
            g = np.concatenate([e[part] / e[part].sum() for part in tree.contests()])
        g = g * mix
        likelihood = 0.0
        for j in range(tree.n_leaves):
            share = g[tree.n_branches + j]
            if tree.n_branches:
                share *= g[tree.parent[j]]
            f = W[j] @ np.r_[x, 1.0]
            if problem.n_outputs > 1 and problem.loss == "log_loss":
                loss = np.log(np.exp(f).sum()) - f[int(code)]
            else:
                sign = np.where(np.arange(len(f)) == code, 1, -1) if len(f) > 1 else 2 * code - 1
                z = sign * f
                loss = {
                    "log_loss": np.log1p(np.exp(-z)),
                    "hinge": np.maximum(0, 1 - z),
                    "squared_hinge": np.maximum(0, 1 - z) ** 2,
                }[problem.loss].sum()
            likelihood += share * np.exp(-loss)
        total += weight * np.log(likelihood)
    penalty = (W**2).sum() / (2 * problem.C)
    if problem.kind == "linear":
        penalty += (G**2).sum() / (2 * problem.C)
    elif problem.has_centres:
        leaves = at.log_mix[tree.n_branches :].copy()
        if tree.n_branches:
            leaves += at.log_mix[tree.parent]
        penalty += problem.nu * leaves.sum()
    return total, total - penalty
