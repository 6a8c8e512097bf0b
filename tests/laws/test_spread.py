"""An odd cell, shift or scale of a column: as good as without, or said by the column's name."""

import warnings

import numpy as np
import pytest
from laws.test_estimators import MODELS, make
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

import streamlearn as sl

N, BAD = 1500, 7
WORSE = 0.05
"""How much lower the score on the other rows may be without a word."""


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, X[:, 0] + np.sin(2 * X[:, 1])


def with_cell(X, value):
    X[BAD, 0] = value


def with_shift(X, by):
    X[:, 0] += by


def with_scale(X, by):
    X[:, 0] *= by


ODD = {
    "cell 1e6": (with_cell, 1e6),
    "cell 1e30": (with_cell, 1e30),
    "cell -1e200": (with_cell, -1e200),
    "cell 1e308": (with_cell, 1e308),
    "shift 1e4": (with_shift, 1e4),
    "shift 1e12": (with_shift, 1e12),
    "shift 1e14": (with_shift, 1e14),
    "scale 1e-150": (with_scale, 1e-150),
    "scale 1e-300": (with_scale, 1e-300),
    "scale 1e150": (with_scale, 1e150),
    "scale 1e300": (with_scale, 1e300),
}
NOT_SCALED = {
    name: {"shift 1e4", "scale 1e-150"} for name in MODELS if name.startswith("SuperSparse")
}
"""Distances between rows as they are: what a column counts for is its scale, by definition."""


def score(name, X, z):
    model = make(name)
    y = (z > np.median(z)).astype(int) if is_classifier(model) else z
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
        answers = model.decision_function(X) if is_classifier(model) else model.predict(X)
        rest = np.delete(np.arange(N), BAD)
        found = model.score(X[rest], y[rest])
    told = [str(w.message) for w in caught if not issubclass(w.category, ConvergenceWarning)]
    assert np.isfinite(answers[rest]).all()
    return found, told


@pytest.fixture(scope="module")
def clean():
    X, z = table()
    return {name: score(name, X, z) for name in MODELS}


@pytest.mark.turns(4, 0)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", MODELS)
def test_an_odd_column_is_harmless_or_named(name, odd, clean):
    best, told = clean[name]
    assert told == []
    X, z = table()
    change, by = ODD[odd]
    change(X, by)
    try:
        found, told = score(name, X, z)
    except sl.SourceError as error:
        found, told = best, [str(error)]
    assert all("'x0'" in text for text in told)
    if not told and odd not in NOT_SCALED.get(name, ()):
        assert found > best - WORSE
