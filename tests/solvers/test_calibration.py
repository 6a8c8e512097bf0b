"""Calibration from histograms against scikit-learn's from rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibrationDisplay, _sigmoid_calibration
from sklearn.isotonic import IsotonicRegression

import streamlearn as sl
from streamlearn.data.order import row_share
from streamlearn.data.source import Chunk
from streamlearn.passes.fold import run_fold
from streamlearn.solvers.calibration import calibrate, fit_isotonic, fit_sigmoid, score_fold
from streamlearn.solvers.splits import CALIBRATION, CALIBRATION_SHARE


def scores(n=3000, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    F = 2 * rng.standard_normal((n, 1 if n_classes == 2 else n_classes))
    if n_classes == 2:
        return F, (rng.random(n) < 1 / (1 + np.exp(-1.5 * F[:, 0] + 0.5))).astype(float)
    return F, (F + rng.gumbel(size=F.shape)).argmax(axis=1).astype(float)


def column_decision(chunk):
    return chunk.X[:, 0] if chunk.X.shape[1] == 1 else chunk.X


def histograms(F, y, weight=None, cuts=4):
    edges = np.linspace(0, len(y), cuts + 1).astype(int)
    chunks = [
        Chunk(F[a:b], y[a:b], None if weight is None else weight[a:b], range(a, b))
        for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]
    return run_fold(score_fold(column_decision, F.shape[1]), chunks)


def test_sigmoid_of_rows_is_platts():
    F, y = scores()
    (slope, intercept), _ = fit_sigmoid(F[:, 0], y, np.ones(len(y)))
    a, b = _sigmoid_calibration(F[:, 0], y)
    np.testing.assert_allclose([slope, intercept], [-a, -b], rtol=1e-4)


def test_sigmoid_of_rows_that_are_apart_is_finite():
    f = np.r_[-np.ones(5), np.ones(5)]
    (slope, _), _ = fit_sigmoid(f, (f > 0).astype(float), np.ones(10))
    p = 1 / (1 + np.exp(-slope))
    np.testing.assert_allclose(p, 6 / 7, rtol=1e-6)  # the target of a positive row


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_bins_say_what_rows_say(method):
    F, y = scores()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    binned = calibrate(method, histograms(F, y, weight))
    kept = weight > 0
    fit = {"sigmoid": fit_sigmoid, "isotonic": fit_isotonic}[method]
    order = np.argsort(F[kept, 0])
    of_rows = fit(F[kept, 0][order], (weight * y)[kept][order], weight[kept][order])
    exact = binned._replace(scores=[of_rows[0]], values=[of_rows[1]])
    grid = np.linspace(-6, 6, 400)
    difference = np.abs(binned.probability(grid) - exact.probability(grid))
    assert difference.mean() < {"sigmoid": 1e-6, "isotonic": 2e-3}[method]


def test_isotonic_is_scikit_learns():
    F, y = scores(400)
    order = np.argsort(F[:, 0])
    f, y = F[order, 0], y[order]
    kept, p = fit_isotonic(f, y, np.ones(len(y)))
    theirs = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(f, y)
    grid = np.linspace(-9, 9, 999)
    np.testing.assert_allclose(np.interp(grid, kept, p), theirs.predict(grid), atol=1e-12)
    assert len(kept) < len(f)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_probabilities_of_classes_sum_to_one(method):
    F, y = scores(n_classes=4)
    p = calibrate(method, histograms(F, y)).probability(F)
    assert p.shape == (len(y), 4)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    for k in range(4):
        assert p[:, k].mean() == pytest.approx((y == k).mean(), abs=0.02)


def test_a_class_of_probability_zero_everywhere():
    calibration = calibrate("isotonic", histograms(np.zeros((4, 3)) - 1, np.full(4, 9.0)))
    np.testing.assert_allclose(calibration.probability(np.zeros((2, 3))), 1 / 3)


def task(n=4000, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3), dtype=np.float32)
    f = 3 * np.sin(6 * X[:, 0]) + 4 * X[:, 1]
    noise = rng.logistic(size=n)
    cuts = np.quantile(f, np.arange(1, n_classes) / n_classes)
    return X, np.array(["a", "b", "c"])[np.digitize(f + noise, cuts)]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_hinge_machine_gets_probabilities(tmp_path, method, n_classes):
    X, y = task(n_classes=n_classes)
    test_X, test_y = task(seed=1, n_classes=n_classes)
    model = sl.AdditiveClassifier("hinge", n_bases=8, C=1.0, tol=1e-2, calibration=method)
    model.fit(X, y)
    p = model.predict_proba(test_X)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(test_X))
    assert model.score(test_X, test_y) == np.mean(model.predict(test_X) == test_y)
    of_label = p[np.arange(len(p)), np.searchsorted(model.classes_, test_y)]
    proper = sl.AdditiveClassifier(n_bases=8).fit(X, y).predict_proba(test_X)
    best = proper[np.arange(len(p)), np.searchsorted(model.classes_, test_y)]
    # the isotonic curve of 400 rows ends in 0 and 1
    assert -np.log(of_label.clip(0.01)).mean() < -np.log(best).mean() + 0.08
    sl.save(model, tmp_path / "m.slm")
    np.testing.assert_array_equal(sl.load(tmp_path / "m.slm").predict_proba(test_X), p)


def test_calibration_is_of_rows_that_were_not_trained_on():
    X, y = task()
    model = sl.AdditiveClassifier("hinge", n_bases=8, C=1.0, tol=1e-2, calibration="sigmoid")
    model.fit(X, y)
    held_out = row_share(np.arange(len(y)), CALIBRATION) < CALIBRATION_SHARE
    swapped = np.where(held_out, np.where(y == "a", "b", "a"), y)
    other = clone(model).fit(X, swapped)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert model.calibration_.scores[0][0] > 0 > other.calibration_.scores[0][0]
    assert "calibration" in str(sl.plan(model, sl.open_dataset(X, target=None)))
    model.set_params(calibration=None).fit(X, y)
    assert not hasattr(model, "calibration_")
    with pytest.raises(AttributeError, match="calibration='sigmoid'"):
        model._check_probability()


def test_calibration_of_too_few_rows_is_refused():
    with pytest.raises(ValueError, match="a tenth of the rows"):
        sl.AdditiveClassifier(calibration="sigmoid").fit(np.eye(4), [0, 1, 0, 1])


def test_scikit_learns_calibration_display():
    import matplotlib.pyplot as plt

    X, y = task()
    model = sl.AdditiveClassifier("hinge", n_bases=8, C=1.0, tol=1e-2, calibration="isotonic")
    display = CalibrationDisplay.from_estimator(model.fit(X, y), *task(seed=1), n_bins=5)
    assert np.abs(display.prob_true - display.prob_pred).max() < 0.1
    plt.close("all")
