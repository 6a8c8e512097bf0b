"""An estimator that chooses is not worse, with nothing set, than the one that does not.

Each run walks a fifth of the products, ``--runlong`` all: they take a quarter of an hour.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from laws.subjects import Subject, names
from laws.tables import REAL, divided

import streamlearn as sl

PLAIN = {name: name.removesuffix("CV") for name in names() if name.endswith("CV")}
BY_DATA = ("AdditiveClassifierCV", "AdditiveRegressorCV")
"""Those whose plain estimator finds C and n_bases by the rows themselves, which no list holds."""
BY_ERRORS = ("SuperSparseClassifierCV",)
"""Those whose splits count errors, by which they are judged here too."""
DIVISIONS = {"breast cancer": 4, "wine": 4, "diabetes": 4}
"""Table -> ways to hold rows out, where one of them has too few rows to tell a choice from luck."""
ERRORS = 2.0
"""Standard errors of a difference that are noise."""


@cache
def tables_of(table, classifies):
    """The table as it is, and its rows divided anew."""
    it = REAL[table](classifies)
    if it is None:
        return []
    X, y = pd.concat([it.X, it.X_test], ignore_index=True), np.concatenate([it.y, it.y_test])
    orders = [np.random.default_rng(k).permutation(len(y)) for k in range(DIVISIONS.get(table, 1))]
    return [it, *(divided(X.iloc[order], y[order]) for order in orders[1:])]


def losses(name, it, errors):
    """Loss of each held-out row: the log-loss, the squared error, or 1 if it is wrong."""
    model = getattr(sl, name)().fit(it.X, it.y)
    predicted = model.predict(it.X_test)
    if errors:
        return (predicted != it.y_test).astype(float)
    if not hasattr(model, "predict_proba"):
        return (predicted - it.y_test) ** 2
    chances = model.predict_proba(it.X_test)
    at = np.searchsorted(model.classes_, it.y_test)
    return -np.log(np.maximum(chances[np.arange(len(at)), at], 1e-6))


@pytest.mark.slow
@pytest.mark.turns(10, 0)
@pytest.mark.parametrize("table", REAL)
@pytest.mark.parametrize("name", PLAIN)
def test_choosing_is_not_worse_than_the_default(name, table):
    tables = tables_of(table, Subject(name).classifies)
    if not tables:
        pytest.skip(f"no {table} with such a target here")
    own, plain = (
        np.concatenate([losses(of, it, name in BY_ERRORS) for it in tables])
        for of in (name, PLAIN[name])
    )
    noise = ERRORS * np.std(own - plain) / np.sqrt(len(own))
    assert own.mean() <= plain.mean() + noise, f"{own.mean():.4g} > {plain.mean():.4g}"


@pytest.mark.parametrize("name", sorted(set(PLAIN) - set(BY_DATA)))
def test_what_is_chosen_from_has_the_default(name):
    model, plain = getattr(sl, name)(), getattr(sl, PLAIN[name])()
    if hasattr(model, "_sizes"):
        assert plain.n_prototypes in model._sizes(1000)
    else:
        tried = model._candidates()
        assert {key: getattr(plain, key) for key in tried[0]} in tried
