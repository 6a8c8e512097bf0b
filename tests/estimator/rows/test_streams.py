"""What `partial_fit` says of a stream that misleads it; found for every estimator that has one."""

import warnings

import numpy as np
import pytest
from laws.subjects import STREAMS, Subject, rows_of

import streamlearn as sl
from streamlearn.estimator.rows.streams import ClassOrder

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


def told(model):
    """All that decides how a stream goes on."""
    X, _ = rows(1)
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict(X)


@pytest.mark.parametrize("name", STREAMS)
def test_a_shuffled_stream_is_the_same_however_later_rows_are_cut(name):
    """Knots, scales and clusters come from the first call, and with nu=0 nothing is pruned."""
    first, rest = np.arange(200), np.arange(200, N)
    kept = {"nu": 0.0, "n_components": 2} if name == "SVMMixtureClassifier" else {}
    X, y = rows()
    found = []
    for cuts in ([], [300, 301, 700], range(240, N, 40)):
        model = Subject(name).make(**STREAMS[name], **kept)
        classes = {"classes": [0, 1]} if Subject(name).classifies else {}
        model.partial_fit(X[first], y[first], shuffle_buffer=150, **classes)
        for part in np.split(rest, [cut - 200 for cut in cuts]):
            model.partial_fit(X[part], y[part])
        model.partial_fit(X[:60], y[:60], shuffle_buffer=0)
        assert "rows wait" not in model.certificate_.reason
        found.append(told(model))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("name", STREAMS)
def test_a_saved_stream_goes_on_with_the_rows_that_wait(name, tmp_path):
    whole, _ = learn(name, np.array_split(np.arange(N), 4), shuffle_buffer=500)
    half, _ = learn(name, np.array_split(np.arange(N), 4)[:2], shuffle_buffer=500)
    assert "rows wait" in half.certificate_.reason
    sl.save(half, tmp_path / "m.slm")
    loaded, (X, y) = sl.load(tmp_path / "m.slm"), rows()
    for part in np.array_split(np.arange(N), 4)[2:]:
        loaded.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(told(loaded), told(whole))
    assert loaded.certificate_.reason == whole.certificate_.reason
    with pytest.raises(ValueError, match="but 500 rows have room since an earlier call"):
        loaded.partial_fit(X, y, shuffle_buffer=100)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_buffer_mends_a_stream_that_comes_class_by_class(name):
    X, y = rows()
    by_class = np.argsort(y, kind="stable")
    parts = np.array_split(np.concatenate([by_class[::2], by_class[1::2]]), 24)
    said = learn(name, parts, **promised(name))[1]
    mended, quiet = learn(name, parts, shuffle_buffer=N, **promised(name))
    mended.partial_fit(X[:2], y[:2], shuffle_buffer=0)
    assert said
    assert "shuffle_buffer=" in said[-1]
    assert quiet == []
    assert mended.score(X, y) >= 0.9
    _, still = learn(name, parts, shuffle_buffer=20, **promised(name))
    assert still  # a buffer that is too small does not silence the warning


def promised(name):
    return {"n_rows": 2 * N} if name.startswith("Additive") else {}


@pytest.mark.parametrize("name", STREAMS)
def test_a_buffer_is_planned(name):
    model = Subject(name).make(**STREAMS[name])
    X, y = rows()
    classes = {"classes": [0, 1]} if Subject(name).classifies else {}
    with (
        sl.config_context(memory_budget="64MiB"),
        pytest.raises(sl.MemoryBudgetError, match="over the budget|memory_budget"),
    ):
        model.partial_fit(X, y, shuffle_buffer=50_000_000, **classes)
    for _ in range(2):  # the plan of the first call is of the summary too
        model.partial_fit(X, y, **classes)
    small = model.plan_.peak_bytes
    model.partial_fit(X, y, shuffle_buffer=100_000)
    assert model.plan_.peak_bytes >= small + 3 * 100_000 * (3 * 8 + 16)


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
