"""An estimator that chooses is not worse, with nothing set, than the one that does not."""

from functools import cache

import numpy as np
import pytest
from laws.subjects import Subject, names
from laws.tables import REAL

import streamlearn as sl

PLAIN = {name: name.removesuffix("CV") for name in names() if name.endswith("CV")}
ERRORS = 2.0
"""Standard errors of a difference that are noise."""


@cache
def table_of(table, classifies):
    return REAL[table](classifies)


def losses(name, it):
    """Loss of each held-out row: the log-loss, or the squared error, which the splits judge by."""
    model = getattr(sl, name)().fit(it.X, it.y)
    if not hasattr(model, "predict_proba"):
        return (model.predict(it.X_test) - it.y_test) ** 2
    chances = model.predict_proba(it.X_test)
    at = np.searchsorted(model.classes_, it.y_test)
    return -np.log(np.maximum(chances[np.arange(len(at)), at], 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("table", REAL)
@pytest.mark.parametrize("name", PLAIN)
def test_choosing_is_not_worse_than_the_default(name, table):
    it = table_of(table, Subject(name).classifies)
    if it is None:
        pytest.skip(f"no {table} with such a target here")
    own, plain = losses(name, it), losses(PLAIN[name], it)
    noise = ERRORS * np.std(own - plain) / np.sqrt(len(own))
    print(f"\n{name} {table}: {own.mean():.4g} plain {plain.mean():.4g} noise {noise:.2g}")
    assert own.mean() <= plain.mean() + noise


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_chosen_from_has_the_default(name):
    """Of the parameters that are chosen as the plain estimator has them, and not by its data."""
    model, plain = getattr(sl, name)(), getattr(sl, PLAIN[name])()
    tried = model._candidates()
    assert {key: getattr(plain, key) for key in tried[0]} in tried
