"""What `partial_fit` says of a stream that misleads it; found for every estimator that has one."""

import warnings

import numpy as np
import pytest
from laws.subjects import STREAMS, Subject, rows_of

import streamlearn as sl
from streamlearn.estimator.streams import ClassOrder

N = 1_200
CLASSIFIERS = [name for name in STREAMS if Subject(name).classifies]


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((N, 3))
    return X, (X[:, 0] + 0.1 * rng.standard_normal(N) > 0.5).astype(int)


def learn(name, parts, **first):
    """The estimator after these parts of the rows, and what it warned of."""
    model, (X, y) = Subject(name).make(**STREAMS[name]), rows()
    if Subject(name).classifies:
        first["classes"] = [0, 1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k, part in enumerate(parts):
            model.partial_fit(X[part], y[part], **(first if k == 0 else {}))
    return model, [str(warning.message) for warning in caught]


def test_every_stream_is_here():
    public = {name: getattr(sl, name) for name in sl.__all__}
    takes = {
        name
        for name, kind in public.items()
        if isinstance(kind, type) and callable(getattr(kind, "partial_fit", None))
    }
    assert takes == set(STREAMS)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_stream_that_comes_class_by_class_is_warned_of(name):
    y = rows()[1]
    by_class = np.argsort(y, kind="stable")
    for parts in (np.array_split(by_class, 2), np.array_split(by_class, 12)):
        said = learn(name, parts)[1]
        assert said
        assert "looks sorted by class: the class shares of its" in said[-1]
        assert "shuffle the rows before partial_fit" in said[-1]


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("n_parts", [2, 12, 120])
def test_a_stream_in_random_order_is_not(name, n_parts):
    assert learn(name, np.array_split(np.arange(N), n_parts))[1] == []


def test_one_call_with_sorted_rows_is_warned_of_where_it_is_read_in_their_order():
    X, y = rows()
    order = np.argsort(y, kind="stable")
    model = sl.SVMMixtureClassifier(2, algorithm="online-em")
    with pytest.warns(UserWarning, match="the class shares of its 12 parts vary"):
        model.partial_fit(rows_of(X[order], y[order], None, chunk_rows=100), classes=[0, 1])


@pytest.mark.parametrize("name", [name for name in STREAMS if name.startswith("Additive")])
def test_more_rows_than_were_promised_are_warned_of(name):
    parts = np.array_split(np.arange(N), 4)
    assert learn(name, parts, n_rows=N)[1] == []
    assert learn(name, parts)[1] == []  # nothing was promised
    _, said = learn(name, parts, n_rows=N // 2)
    assert len(said) == 2  # in the third call and the fourth
    assert "has seen rows of weight 1,200, but n_rows=600 was promised" in said[-1]


def test_the_ratio_is_that_of_a_summary():
    """From sums alone, what the summary of a dataset finds from a table of its parts."""
    X, y = rows()
    w = np.random.default_rng(1).integers(0, 3, N).astype(float)
    labels = rows_of(X, y, w, chunk_rows=100).summary().labels
    order = ClassOrder(np.zeros(2))
    for counts in labels.by_ref:
        order = order.with_part(counts)
    assert order.n_parts == 12
    assert order.ratio == pytest.approx(labels.order_bias.ratio, rel=1e-9)
    assert ClassOrder(np.zeros(2)).with_part(np.zeros(2)).ratio == 0.0
