"""Facts of the columns, which a fit holds to its end: every phase after the summary counts them."""

import inspect

import numpy as np
import pytest
import scipy.sparse
from estimator.test_row_size import MODELS, N, P, fitted, opened, targets
from sklearn.base import clone

import streamlearn as sl
from streamlearn.estimator.planning import NOT_COUNTED, SUMMARY
from streamlearn.passes.summary.reading import facts_nbytes

KINDS = {
    "normal": lambda rng, n: rng.standard_normal((n, 3), dtype=np.float32),
    "all magnitudes": lambda rng, n: np.exp(40 * rng.standard_normal((n, 3))),
    "few values": lambda rng, n: rng.integers(0, 200, (n, 3)).astype(float),
    "bytes": lambda rng, n: rng.integers(0, 256, (n, 3)).astype(np.uint8),
    "one value": lambda rng, n: np.ones((n, 3)),
}


@pytest.mark.parametrize("n", [1, 300, 40_000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_facts_take_what_is_counted_before_they_are_known(kind, weighted, n):
    rng = np.random.default_rng(0)
    table = {f"x{j}": column for j, column in enumerate(KINDS[kind](rng, n).T)}
    if weighted:
        table["w"] = rng.random(n) + 0.5
    data = sl.open_dataset(table, weight="w" if weighted else None)
    facts = data.summary().columns
    arrays = [value for value in vars(facts).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < facts.nbytes
    if kind != "all magnitudes":
        assert facts.nbytes <= facts_nbytes(data)


def facts_terms(plan):
    """Of each phase after the summary: the bytes of facts that it counts."""
    names = [name for name, _ in plan.terms]
    phases = plan.terms[names.index(SUMMARY) + 1 :] if SUMMARY in names else plan.terms
    return [sum(t.total_bytes for t in terms if t.label == "facts") for _, terms in phases]


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize(("name", "target"), [cell for cell in MODELS if cell[1] != "words"])
def test_every_phase_of_a_fit_counts_them(name, target):
    X, _ = targets()
    model, _ = fitted(name, target)
    known = sl.open_dataset({**{f"x{j}": X[:, j] for j in range(P)}}).summary().columns.nbytes
    least = 100 * P if model._moments_only() else known // 2
    for plan in (model.plan_, sl.plan(clone(model), opened(target))):
        terms = facts_terms(plan)
        assert terms
        assert min(terms) >= least, plan


STREAMS = [
    sl.AdditiveClassifier(),
    sl.AdditiveRegressor(loss="epsilon_insensitive"),
    sl.SVMMixtureClassifier(2, algorithm="online-em", random_state=0),
]


@pytest.mark.parametrize("model", STREAMS, ids=lambda model: type(model).__name__)
def test_every_call_of_a_stream_counts_them(model):
    X, y = targets()
    model = clone(model)
    y = y["two" if "Class" in type(model).__name__ else "number"]
    model.partial_fit(X, y, **({"classes": [0, 1]} if "Class" in type(model).__name__ else {}))
    for _ in range(2):
        assert min(facts_terms(model.plan_)) >= 100 * P
        model.partial_fit(X, y)


def test_those_of_columns_of_all_magnitudes_are_counted_when_they_are_known():
    X = KINDS["all magnitudes"](np.random.default_rng(0), 40_000)
    model = sl.AdditiveClassifier(n_bases=5, interactions=0).fit(X, X[:, 0] > 1)
    known = sl.open_dataset(X).summary().columns.nbytes
    assert facts_nbytes(sl.open_dataset(X)) < known
    assert min(facts_terms(model.plan_)) >= known


def test_those_of_wide_sparse_rows_are_said_to_be_unknown():
    X = scipy.sparse.random_array((N, 3000), density=0.05, rng=np.random.default_rng(0))
    X = scipy.sparse.csr_array(X, dtype=np.float32)
    y = np.arange(N) % 2
    model = sl.AdditiveClassifier(n_bases=5)
    plan = sl.plan(model, sl.open_dataset(X))
    assert NOT_COUNTED in plan.note
    assert max(facts_terms(plan)) < 300 * 3000
    assert min(facts_terms(model.fit(X, y).plan_)) > 300 * 3000
    for _ in range(2):  # the call that reads the summary, and one that has it
        model.partial_fit(X, y, classes=[0, 1])
        assert min(facts_terms(model.plan_)) > 300 * 3000


def test_all_streams_are_walked():
    def learns(kind):
        found = inspect.getattr_static(kind, "partial_fit", None) if inspect.isclass(kind) else None
        return found is not None and not isinstance(found, property)  # which says why there is none

    assert {name for name in sl.__all__ if learns(getattr(sl, name))} == {
        type(model).__name__ for model in STREAMS
    }
