"""Probabilities of Jensen-Shannon boosting: the logistic curve of its margins."""

import numpy as np
import pytest
from pursuit.direct import circle
from scipy.stats import norm

from streamlearn import JensenShannonBoostClassifier
from streamlearn.data.source import Chunk
from streamlearn.pursuit.answers import margin_rows
from streamlearn.pursuit.boosting.histograms import fit_logistic
from streamlearn.pursuit.boosting.rows import N_MARGINS


def test_logistic_curve():
    F = np.linspace(-3, 3, 200)
    p = 1 / (1 + np.exp(-(1.7 * F - 0.4)))
    a, b = fit_logistic(F, 1000 * np.column_stack([1 - p, p]))
    assert (a, b) == (pytest.approx(1.7, rel=1e-3), pytest.approx(-0.4, abs=1e-3))
    assert fit_logistic(F, np.column_stack([p, 1 - p]))[0] == 0.0  # never upside down
    a, b = fit_logistic(np.zeros(1), np.array([[30.0, 10.0]]))
    assert b == pytest.approx(np.log(1 / 3), abs=0.05)


def test_the_logistic_curve_solves_its_equations():
    """sum (y - p) = 0 and sum F (y - p) = 0 over the training rows, up to what is known of both.

    The curve was fitted to margins in bins, which moves a row's p by at most a quarter of the slope
    times half a bin, and to a half of a row of each class more, at F = 0.
    """
    X, y = circle(0)
    fitted = JensenShannonBoostClassifier().fit(X, y)
    (model,) = fitted._models
    F = margin_rows(fitted._columns, [model], Chunk(X, rows=range(len(X))))[:, 0]
    p = fitted.predict_proba(X)[:, 1]
    reach = sum(np.abs(new.heights).max() for new in model.learners)
    half = reach / N_MARGINS
    bound = len(y) * model.slope / 4 * half + 0.5
    assert abs((y - p).sum()) <= bound
    assert abs(F @ (y - p)) <= reach * bound + half * np.abs(y - p).sum() + 1e-3 * model.slope


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_are_calibrated_where_a_logistic_curve_is_right(seed):
    """Log odds of one column: each tenth of fresh rows is within the binomial noise of two samples.

    As many fresh rows as training rows, so a tenth's frequency and its p have at most the same
    noise each; the bound is that of ten two-sided tests at 0.1 % together.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (8000, 3))
    y = (rng.random(8000) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(int)
    p = JensenShannonBoostClassifier().fit(X[:4000], y[:4000]).predict_proba(X[4000:])[:, 1]
    for rows in np.array_split(np.argsort(p), 10):
        noise = np.sqrt(2 * (p[rows] * (1 - p[rows])).sum())
        assert abs((y[4000:][rows] - p[rows]).sum()) <= norm.isf(0.001 / 20) * noise
