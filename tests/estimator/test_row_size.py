"""Bytes of a row that answers and scores are planned with, beside what numpy allocates for them."""

import tracemalloc
from functools import cache, partial

import numpy as np
import pytest
from sklearn.base import clone

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.estimator.predicting import WHAT, answer_chunk, check_what, empty_answer
from streamlearn.estimator.report import measures
from streamlearn.estimator.row_size import decision_bytes, row_size
from streamlearn.estimator.rows.targets import code_targets
from streamlearn.estimator.scores import metrics, scoring

N, M, P = 400, 100_000, 6
BLOCKS = 20
"""Bytes a row, of so few, of blocks whose size is fixed: two MiB."""
RATIO, FEW = 1.5, 24
"""Most that is planned over what is allocated, and bytes a row that may be planned besides."""


def targets():
    rng = np.random.default_rng(0)
    X = rng.random((N, P)).astype(np.float32)
    z = X[:, 0] + 0.2 * rng.standard_normal(N)
    codes = np.digitize(z, [0.2, 0.4, 0.6, 0.8])
    words = np.array(["no", "a longer word"])[(z > 0.5).astype(int)]
    return X, {
        **{"two": (z > 0.5).astype(np.int8), "five": codes, "words": words, "number": z},
        "count": rng.poisson(2 * X[:, 0] + 0.1).astype(float),
    }


CLASSIFIERS = {
    "additive": sl.AdditiveClassifier(n_bases=5),
    "hinge": sl.AdditiveClassifier(loss="hinge", n_bases=5),
    "isotonic": sl.AdditiveClassifier(loss="hinge", calibration="isotonic", n_bases=5),
    "sigmoid": sl.AdditiveClassifier(loss="hinge", calibration="sigmoid", n_bases=5),
    "shareboost": sl.ShareBoostClassifier(2, random_state=0),
    "stumps": sl.ShareBoostClassifier(20, candidates="stumps", random_state=0),
    "boosting": sl.JensenShannonBoostClassifier(2, random_state=0),
    "mixture": sl.SVMMixtureClassifier(2, random_state=0, max_passes=3, tol=0.1),
    "super-sparse": sl.SuperSparseClassifier(4, random_state=0, n_passes=2, tol=0.1),
}
REGRESSORS = {
    "additive": (sl.AdditiveRegressor(n_bases=5, covariance=True), "number"),
    "poisson": (sl.AdditiveRegressor("poisson", n_bases=5), "count"),
    "exposure": (sl.AdditiveRegressor("poisson", exposure="x0", n_bases=5), "count"),
    "tweedie": (sl.AdditiveRegressor("tweedie", n_bases=5), "count"),
    "offset": (sl.AdditiveRegressor(offset="x0", n_bases=5), "number"),
    "quantiles": (sl.AdditiveRegressor("quantile", quantile=[0.1, 0.5, 0.9], n_bases=5), "number"),
    "pursuit": (sl.ProjectionPursuitRegressor(2, backfit=0), "number"),
    "super-sparse": (sl.SuperSparseRegressor(4, random_state=0, n_passes=2, tol=0.1), "number"),
}
MODELS = [(name, y) for name in CLASSIFIERS for y in ("two", "five", "words")]
MODELS += [(name, y) for name, (_, y) in REGRESSORS.items()]


@cache
def fitted(name, target):
    _, ys = targets()
    model = REGRESSORS[name][0] if target in ("number", "count") else CLASSIFIERS[name]
    return clone(model).fit(opened(target)), np.resize(ys[target], M)


def opened(target):
    X, ys = targets()
    return sl.open_dataset({f"x{j}": X[:, j] for j in range(P)} | {"y": ys[target]}, target="y")


def rows(y=None):
    X = np.random.default_rng(1).random((P, M)).astype(np.float32).T
    return Chunk(X, y, None, range(M))


def allocated(function):
    """Bytes a row that a function holds at most, its answer included."""
    function()  # what it makes once
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / M
    finally:
        tracemalloc.stop()


def decided(model):
    return decision_bytes(model) + model._decision_row_nbytes(sl.open_dataset(np.zeros((5, P))))


def answers(model):
    for what in WHAT:
        try:
            check_what(model, what)
        except AttributeError:
            continue
        yield what


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name, target", MODELS)
def test_answers_take_what_is_planned(name, target):
    model, _ = fitted(name, target)
    chunk = rows()
    for what in answers(model):
        planned = decided(model) + row_size(model, what, empty_answer(model, what)).made
        found = allocated(lambda what=what: answer_chunk(model, chunk, what))
        assert found - BLOCKS <= planned <= RATIO * found + FEW, (what, found, planned)


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name, target", MODELS)
def test_scores_take_what_is_planned(name, target):
    model, y = fitted(name, target)
    chunk = rows(y)
    judged = scoring.Judged("y", "array", hasattr(model, "classes_"))
    score = partial(scoring._step, (model,), known_only=False, rows=judged)
    for metric in metrics.NAMES:
        try:
            metrics.check_metric(model, metric)
        except (ValueError, AttributeError):
            continue
        if "gamma" in metric or ("deviance" in metric and target == "number"):
            continue  # these targets are not above 0
        one = metrics.find_metric(metric)
        planned = decided(model) + scoring.scored_bytes(model, [one])
        found = allocated(lambda one=one: score((one,), state=[[None]], chunk=chunk))
        assert found - BLOCKS <= planned <= RATIO * found + FEW, (metric, found, planned)


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name, target", [one for one in MODELS if one[0] != "quantiles"])
def test_reports_take_what_is_planned(name, target):
    model, y = fitted(name, target)
    classes = getattr(model, "classes_", None)
    frame = measures._frame(model, opened(target).summary())
    chunk = rows(y)

    def add():
        coded = code_targets(classes, False, chunk.copy())
        measures._add(frame, measures._empty(len(frame.classes), frame.cuts), coded)

    found = allocated(add) - 4 * P - y.itemsize  # without those of the copy
    planned = measures.measured_bytes(model)
    assert found - BLOCKS <= planned <= RATIO * found + FEW, (found, planned)
