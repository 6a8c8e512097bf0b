"""Small mixtures for the tests of the mixture family."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.mixture import em, initial, objective
from streamlearn.mixture.curvature import Curvature, axes_of
from streamlearn.mixture.experts import n_outputs
from streamlearn.mixture.gate import make_tree
from streamlearn.mixture.objective import Parameters, Problem

GATES = ("generative", "rbf", "linear")
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
    if gate != "linear":
        R[: tree.n_gates, -1] = 0.0
    log_mix = np.zeros(tree.n_gates)
    if gate != "linear":
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

    state = em.maximise(
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
