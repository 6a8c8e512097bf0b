"""Running lines: the super smoother against its direct form, and pursuit with it on every input."""

import numpy as np
import pytest
import scipy.sparse
from pursuit.direct import binned, product, super_smoother, z_of
from sklearn.base import clone

import streamlearn as sl
from streamlearn import ProjectionPursuitRegressor
from streamlearn.pursuit.regression.kernels_supsmu import (
    add_joint_counts,
    running_lines,
    super_smooth,
)
from streamlearn.pursuit.regression.supsmu import SuperSmoother


def curve(seed, n=1500):
    """Fast on the left, slow on the right, noise growing; some bins get no row."""
    rng = np.random.default_rng(seed)
    t = rng.beta(2, 3, n)
    r = np.sin(2 * np.pi * (1 - t) ** 3) + t * 0.3 * rng.standard_normal(n)
    return t, r, rng.integers(0, 3, n).astype(float)


@pytest.mark.parametrize("n", [30, 1500])
def test_the_smoother_is_the_direct_one_of_the_same_bins(n):
    counts, moments = binned(*curve(0, n), 0.0, 1.0, 64)
    values, df = np.empty((1, 64)), np.empty(1)
    super_smooth(counts[None], moments[None], values, df)
    direct, trace = super_smoother(counts, moments)
    np.testing.assert_allclose(values[0], direct, atol=1e-10)
    assert df[0] == pytest.approx(trace, rel=1e-6)
    again = np.empty_like(values)
    super_smooth.py_func(counts[None], moments[None], again, df)
    np.testing.assert_allclose(again, values, atol=1e-13)
    smooth, leverage = np.empty(64), np.empty(64)
    u = np.linspace(0, 1, 64)
    running_lines.py_func(u, np.ones(64), 3 * u + 1, 0.2, smooth, leverage)
    np.testing.assert_allclose(smooth, 3 * u + 1)  # a line is kept


def test_bins_as_fine_as_the_rows_smooth_the_rows():
    """All rows, each a point of its own: coarser bins change little of that."""
    t, r, _ = curve(1)
    at = np.argsort(t)
    w = np.ones(len(t))
    fine, coarse = np.empty((1, 8192)), np.empty((1, 256))
    for values in (fine, coarse):
        B = values.shape[1]
        counts, moments = binned(t, r, w, 0.0, 1.0, B)
        super_smooth(counts[None], moments[None], values, np.empty(1))
    rows = fine[0, (t * 8192).astype(int)], coarse[0, (t * 256).astype(int)]
    truth = np.sin(2 * np.pi * (1 - t) ** 3)
    size = [np.sqrt(np.mean((f - truth)[at] ** 2)) for f in rows]
    assert size[0] < 0.03
    assert size[1] < 1.2 * size[0]


def test_steps_say_exactly_what_they_leave_of_the_rows():
    t, r, w = curve(2)
    counts, moments = binned(t, r, w, 0.0, 1.0, 40)
    rr = float(w @ r**2)
    fit = SuperSmoother(40).fit(counts[None, :, None], moments[None], rr, w.sum())
    f = np.zeros(len(t))
    SuperSmoother(40).add_values(t, 0.0, 1.0, fit.theta[0], f)
    assert fit.rss[0] == pytest.approx(w @ (r - f) ** 2, rel=1e-10)


def test_terms_fitted_together_leave_nothing_to_each_other():
    rng = np.random.default_rng(0)
    t, w = rng.random((2, 3000)), np.ones(3000)
    r = np.sin(6 * t[0]) + t[1] ** 2 + 0.1 * rng.standard_normal(3000)
    smoother = SuperSmoother(50)
    sums = [binned(x, r, w, 0.0, 1.0, 50) for x in t]
    cross = np.zeros((50, 50))
    add_joint_counts(t[0], 0.0, 1.0, t[1], 0.0, 1.0, w, cross)
    grams = [[np.diag(sums[0][0]), cross], [cross.T, np.diag(sums[1][0])]]
    fit = smoother.fit_together(grams, [s[1] for s in sums], None, r @ r, 3000.0, 0.0)
    f = np.zeros(3000)
    for x, theta in zip(t, np.split(fit.theta[0], 2), strict=True):
        smoother.add_values(x, 0.0, 1.0, theta, f)
    assert fit.rss[0] == pytest.approx(np.sum((r - f) ** 2), rel=1e-9)
    assert fit.rss[0] / 3000 == pytest.approx(0.01, rel=0.1)
    # each function smooths what the others leave of the rows
    own = smoother.fit(
        *[part[None] for part in residual_sums(t[0], r, f, w, fit.theta[0][:50])], 1, 1
    )
    np.testing.assert_allclose(own.theta[0], fit.theta[0][:50], atol=0.02)


def residual_sums(t, r, f, w, theta):
    counts, moments = binned(t, r - f, w, 0.0, 1.0, 50)
    return counts[:, None], moments + counts * theta


@pytest.fixture(scope="module")
def fitted():
    model = ProjectionPursuitRegressor(n_terms=2, tau=[20.0, np.inf], smoother="supsmu")
    return model.fit(*product(0, 0.1, 400))


def test_the_product_is_found(fitted):
    X, _ = product(9, 0.0, 5000)
    model = fitted.select(20.0)
    assert model.directions_.any(0).tolist() == [True, True, False, False, False]
    assert np.mean((model.predict(X) - X[:, 0] * X[:, 1]) ** 2) < 2e-3
    for record in fitted.history_:
        assert (np.diff(record["costs"]) < 0).all()
        assert record["n_reads"] <= 2 + len(record["costs"]) - 1


def test_what_is_reported_is_what_is_predicted(fitted):
    X, y = product(0, 0.1, 400)
    kept = {"n_terms": 2, "tau": 20.0, "smoother": "supsmu", "backfit": 0, "stop": None}
    for refit in (True, False):
        model = ProjectionPursuitRegressor(refit=refit, **kept).fit(X, y)
        error = np.mean((model.predict(X) - y) ** 2)
        assert model.history_[-1]["mean_squared_error"] == pytest.approx(error, rel=1e-9)
    (first, second) = model._terms  # without a refit, each smooths what those before it left
    t, old = (z_of(X, model._columns) @ term.alpha for term in (second, first))
    r = y - y.mean()
    first.smoother.add_values(old, first.low, first.high, -first.theta, r)
    direct, _ = super_smoother(*binned(t, r, np.ones(len(t)), second.low, second.high, 256))
    np.testing.assert_allclose(second.theta, direct, atol=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_a_single_index_is_recovered(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1000, 6)).astype(np.float32)
    a = np.array([1, -2, 0, 0.5, 0, 0]) / np.sqrt(5.25)
    y = np.tanh(2 * X @ a) + (X @ a) ** 2 / 4
    model = ProjectionPursuitRegressor(n_terms=1, tau=1e4, smoother="supsmu").fit(X, y)
    raw = model.directions_[0] / model._columns.scale
    assert abs(raw @ a) / np.linalg.norm(raw) >= 0.99


def test_weights_are_copies_and_sparse_rows_are_rows():
    X, y = product(1, 0.1, 400)
    X[X < 0.2] = 0.0
    w = np.random.default_rng(0).integers(0, 3, len(y))
    model = ProjectionPursuitRegressor(n_terms=1, smoother="supsmu", n_bases=64)
    p = clone(model).fit(X, y, w).predict(X)
    copies = clone(model).fit(np.repeat(X, w, 0), np.repeat(y, w))
    np.testing.assert_allclose(copies.predict(X), p, atol=1e-8)
    rows = scipy.sparse.csr_array(X)
    np.testing.assert_allclose(clone(model).fit(rows, y, w).predict(rows), p, atol=1e-8)


def test_with_validation_and_many_columns():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 100), dtype=np.float32)
    y = np.sin(3 * (X[:, 70] + X[:, 91])) + 0.1 * rng.standard_normal(3000)
    model = ProjectionPursuitRegressor(tau=50.0, smoother="supsmu", stop="validation", n_terms=3)
    model.fit(X, y, validation=0.2)
    assert np.flatnonzero(model.directions_[0]).tolist() == [70, 91]
    assert model.path_[0]["validation_loss"] < 0.012


def test_few_values_and_constants():
    X = np.zeros((50, 2))
    X[0] = 1.0
    y = np.random.default_rng(0).standard_normal(50)
    model = ProjectionPursuitRegressor(smoother="supsmu", stop=None)
    predicted = clone(model).fit(X, y).predict(X)
    assert np.ptp(predicted[1:]) == 0
    best = ((y[1:] - y[1:].mean()) ** 2).sum()  # row 0 to itself, one value for the others
    assert 0.999 * best <= ((y - predicted) ** 2).sum() <= 1.001 * ((y - y.mean()) ** 2).sum()
    assert np.ptp(clone(model).fit(np.ones((50, 2)), y).predict(X)) == 0
    with pytest.raises(ValueError, match="smoother"):
        ProjectionPursuitRegressor(smoother="loess").fit(X, y)


def test_saved_and_loaded(tmp_path, fitted):
    X, _ = product(5, 0.0)
    sl.save(fitted.select(20.0), tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    p = fitted.select(np.inf).predict(X)
    np.testing.assert_array_equal(loaded.select(np.inf).predict(X), p)
