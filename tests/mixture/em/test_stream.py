"""A stream's first rows: EM over them each time they double, whoever calls, and then no more."""

import numpy as np
import pytest
from scipy import sparse

import streamlearn as sl
from bench.mixture.generated import circle
from streamlearn.mixture import needs
from streamlearn.mixture.em import stream


@pytest.fixture
def few(monkeypatch):
    """EM over 128, 256 and 400 rows."""
    monkeypatch.setattr(stream, "FIRST_EM", 128)
    monkeypatch.setattr(needs, "HELD_ROWS", 400)
    monkeypatch.setattr(needs, "LEAST_SAMPLE_ROWS", 100)


def table(n, seed=0):
    """Rows in and around a circle, in random order."""
    X, y = circle(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    return X[order], y[order]


def new(**parameters):
    parameters = {"gate": "linear", "C": 100.0} | parameters
    return sl.SVMMixtureClassifier(8, algorithm="online-em", **parameters)


def in_calls(model, X, y, cuts, **options):
    for a, b in zip(cuts[:-1], cuts[1:], strict=True):
        model.partial_fit(X[a:b], y[a:b], classes=[0, 1], **options)
    return model


def states(model):
    return [*model.online_.at, *model.online_.average, model.online_.bend, model.online_.shares]


def assert_same_bits(a, b):
    for left, right in zip(states(a), states(b), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gate", ["linear", "generative"])
def test_one_look_learns_what_a_fit_learns(gate, seed):
    """20,000 rows in and around a circle: steps from the clusters alone end with 85 to 89 %."""
    X = np.random.default_rng(seed).uniform(-1, 1, (25_000, 2))
    y = (X**2).sum(axis=1) < 0.5
    model = in_calls(new(gate=gate, random_state=seed), X, y, range(0, 20_001, 1000))
    assert model.score(X[20_000:], y[20_000:]) >= 0.95


def test_two_thousand_rows_suffice_for_the_first_em():
    X, y = table(3_000)
    before = in_calls(new(), X, y, [0, 500, 2000]).score(X, y)
    model = in_calls(new(), X, y, [0, 500, 2000, 2100])
    assert model.score(X, y) > max(before + 0.05, 0.93)


def test_calls_cut_anywhere_teach_the_same(few):
    """From the second call on, where the rows are shuffled: EM runs after so many rows."""
    X, y = table(900)
    a, b = (
        in_calls(new(), X, y, cuts, shuffle_buffer=64)
        for cuts in ([0, 300, 900], [0, 300, 301, 550, 800, 811, 900])
    )
    assert_same_bits(a, b)


@pytest.mark.parametrize("stop", [100, 300, 390, 600])
def test_a_stream_saved_at_any_row_goes_on_exactly(few, stop, tmp_path):
    X, y = table(900)
    model = in_calls(new(), X, y, [0, stop])
    assert (model._held is None) == (stop >= 400)
    sl.save(model, tmp_path / "model")
    loaded = sl.load(tmp_path / "model")
    for each in (model, loaded):
        in_calls(each, X, y, [stop, 700, 900])
    assert_same_bits(model, loaded)
    assert model._held is None


def test_rows_of_weight_zero_are_absent_from_the_first_rows(few):
    X, y = table(300)
    s = np.tile([1.0, 0.0, 2.0], 100)
    keep = s > 0
    a, b = new(), new()
    for model in (a, b):
        model.partial_fit(X[:100], y[:100], classes=[0, 1])
    a.partial_fit(X, y, s)
    b.partial_fit(X[keep], y[keep], s[keep])
    assert_same_bits(a, b)
    assert a._held.n_rows == 300


@pytest.mark.parametrize("expert_loss", ["log_loss", "squared_hinge", "hinge"])
def test_every_loss_and_sparse_rows_are_held(few, expert_loss):
    X, y = table(900)
    given = {"expert_loss": expert_loss, "scaling": "none"}
    dense, thin = (
        in_calls(new(**given), kind(X), y, [0, 300, 900]) for kind in (np.asarray, sparse.csr_array)
    )
    assert dense.score(X, y) > 0.7
    assert abs(dense.score(X, y) - thin.score(X, y)) < 0.05


def test_a_fitted_model_holds_no_rows():
    X, y = table(600)
    model = new().fit(X, y)
    assert in_calls(model, X, y, [0, 600])._held is None


def test_the_plan_counts_the_rows_that_are_held():
    X, y = table(600)
    model = new().partial_fit(X[:300], y[:300])
    held = needs.held_nbytes(needs.size_of_stream(model, sl.open_dataset(X, target=None)), 600)
    with_them = model.partial_fit(X[300:], y[300:]).plan_.peak_bytes
    model._held = None
    assert with_them - model.partial_fit(X[300:], y[300:]).plan_.peak_bytes >= 2 * held
