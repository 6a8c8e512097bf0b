"""Every public estimator with nothing set, on tables that people have and on hostile ones.

A cell is a fit whose answers are finite and worth what a plain linear model's are, or a refusal
that says what is wrong and what to do.
"""

import re
import warnings
from functools import cache

import numpy as np
import pytest
from laws.subjects import Subject, names
from laws.tables import HOSTILE, REAL
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import streamlearn as sl
from streamlearn.estimator.rows.weights import SAID

TABLES = {**REAL, **HOSTILE}
ESTIMATORS = [name for name in names() if not Subject(name).compresses]
EMBEDDINGS = [name for name in ESTIMATORS if Subject(name).transforms]
FEW = ("1 row", "2 rows", "3 rows")
JUDGED = [name for name in TABLES if name not in (*FEW, "one class", "weights of sum 1")]
"""Tables from which something can be learned; of weights that say "one row" little can."""
SHARE = {True: 0.8, False: 0.5}
"""Share of a linear model's gain over the constant that each must have, on real tables or not.

Families that choose few columns or prototypes give up some of it, and one that learns curves cannot
tell them from 40 rows.
"""
ERRORS = 2.0
"""Standard errors of the difference from the linear model that are noise."""
LOSS_MARGIN = 0.05
"""Nats by which a log-loss may be above the constant model's, and of few rows `FEW_MARGIN`."""
FEW_MARGIN = 1.0

CLASSIFIERS, CHOOSERS = ".*Classifier(CV)?", "(?!SuperSparse|Additive).*CV"
ONE_CLASS = "the target 'y' holds 1 class .* needs at least 2 classes; (.*; if not, )?check"
REFUSALS = {
    (CLASSIFIERS, "1 row"): ONE_CLASS,
    (CLASSIFIERS, "one class"): ONE_CLASS,
    ("AdditiveRegressorCV", "1 row"): "cv=5 splits .* n_samples=1; fit more rows",
    ("SuperSparseRegressorCV", "1 row"): "split 2 of cv=3: .* n_samples=0 .*; .*use fewer",
    ("ProjectionPursuitRegressorCV", "1 row"): "split [1-5] of cv=5: .*no rows.* use a smaller cv",
    ("SuperSparseClassifierCV", "2 rows"): "split 2 of cv=3: .* n_samples=0 .*; .*use fewer",
    ("SuperSparseRegressor", "1 row"): "n_prototypes=10 is more .*n_samples=1; use n",
    **{
        (name, f"{n} rows"): said
        for n in (2, 3)
        for name, said in {
            "SuperSparse(Classifier|Regressor)": f"n_prototypes=10 is more .*n_samples={n}; use",
            "SVMMixtureClassifier": f"n_components=10 .* n_samples={n} rows; .*: ask for fewer",
            CHOOSERS: "split [1-5] of cv=5: in .*; .* use a smaller cv",
        }.items()
    },
    (".*Regressor(CV)?", "target of 1e.*"): "the target 'y' goes from .*; divide it",
    (".*Embedding", "adult"): "the columns '.* hold strings, .*; or leave them out",
}
"""(pattern of names, pattern of tables) -> how the error goes.  Every other cell is a fit."""
WARNED = {
    "weights of sum 1": SAID,
    "gross cell": "column '3' varies up to 1e.30 although half of the variance is in one row",
}
"""Table -> the one warning that a fit to it may give."""
SLOW = re.compile("(digits|adult|wide|wine) .*|.* (Projection|JensenShannon).*CV")
"""Table and estimator of fits that take more than half a second."""


@cache
def table_of(table, classifies):
    return TABLES[table](classifies)


def cells():
    """Each estimator on each table that has such a target, or may be absent here."""
    return [
        pytest.param(
            name,
            table,
            marks=[pytest.mark.slow, pytest.mark.turns(10, 5)]
            * bool(table not in FEW and SLOW.fullmatch(f"{table} {name}")),
        )
        for name in ESTIMATORS
        for table in TABLES
        if table == "adult" or table_of(table, Subject(name).classifies) is not None
    ]


@cache
def linear(table, classifies):
    """What a plain linear model of scikit-learn predicts for the rows held out."""
    it = table_of(table, classifies)
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include=object)),
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=1000) if classifies else Ridge())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it meets the same hostile columns
        return model.fit(it.X, it.y / it.scale if not classifies else it.y).predict(it.X_test)


def refusal(name, table):
    found = [
        said
        for (of, where), said in REFUSALS.items()
        if re.fullmatch(of, name) and re.fullmatch(where, table)
    ]
    assert len(found) <= 1, (name, table)
    return found[0] if found else None


def fitted(name, table):
    """The estimator fitted with nothing set; only the table's own warning may come."""
    it = table_of(table, is_classifier(getattr(sl, name)()))
    with warnings.catch_warnings():
        if table in WARNED:
            warnings.filterwarnings("ignore", WARNED[table], UserWarning)
        return getattr(sl, name)().fit(it.X, it.y, *(() if it.weight is None else (it.weight,)))


@pytest.mark.parametrize(("name", "table"), cells())
def test_nothing_set(name, table):
    subject = Subject(name)
    it = table_of(table, subject.classifies)
    if it is None:
        pytest.skip(f"no {table} here; set STREAMLEARN_DATA to the folder of real data")
    said = refusal(name, table)
    if said is not None:
        with pytest.raises(ValueError, match=said):
            fitted(name, table)
        return
    model = fitted(name, table)
    if subject.transforms:
        features = model.transform(it.X_test)
        features = features.toarray() if sparse.issparse(features) else features
        assert np.isfinite(features).all()
        return
    (check_classes if subject.classifies else check_numbers)(model, it, table)


def check_numbers(model, it, table):
    """Finite predictions, whose squared errors are near the linear model's."""
    predicted, y = model.predict(it.X_test) / it.scale, it.y_test / it.scale
    assert np.isfinite(predicted).all()
    if table in JUDGED:
        constant = (it.y / it.scale).mean()
        errors = [(p - y) ** 2 for p in (predicted, linear(table, False), constant)]
        check_gain(*errors, SHARE[table in REAL])


def check_classes(model, it, table):
    """Classes as right as the linear model's; probabilities that add up, and are worth having."""
    predicted = model.predict(it.X_test)
    if table in JUDGED:
        most = model.classes_[np.argmax([np.mean(it.y == c) for c in model.classes_])]
        errors = [p != it.y_test for p in (predicted, linear(table, True), most)]
        check_gain(*(np.asarray(e, float) for e in errors), SHARE[table in REAL])
    p = model.predict_proba(it.X_test)
    assert np.isfinite(p).all()
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    known = np.isin(it.y_test, model.classes_)
    at = np.searchsorted(model.classes_, it.y_test[known])
    shares = np.array([np.mean(it.y == c) for c in model.classes_])
    loss = -np.log(p[known][np.arange(len(at)), at]).mean()
    assert loss <= -np.log(shares[at]).mean() + (FEW_MARGIN if table in FEW else LOSS_MARGIN)


def check_gain(own, linear, constant, share):
    """The errors of a model are below the constant's by that share of the linear model's gain."""
    noise = ERRORS * np.std(own - linear) / np.sqrt(len(own))
    gain, wanted = np.mean(constant - own), share * np.mean(constant - linear) - noise
    assert gain > 0
    assert gain >= wanted, f"gain {gain:.3g} over the constant, wanted {wanted:.3g}"


@pytest.mark.parametrize("unit", [1e-150, 1e-60, 1e60, 1e150])
@pytest.mark.parametrize("name", [n for n in ESTIMATORS if re.fullmatch(".*Regressor", n)])
def test_targets_may_be_in_any_unit_whose_squares_are_numbers(name, unit):
    it = table_of("constant column", False)
    plain = getattr(sl, name)().fit(it.X, it.y).predict(it.X_test)
    scaled = getattr(sl, name)().fit(it.X, unit * it.y).predict(it.X_test)
    np.testing.assert_allclose(scaled / unit, plain, atol=0.01 * np.std(it.y))


def test_every_table_and_refusal_is_met():
    assert set(WARNED) <= set(TABLES)
    for of, where in REFUSALS:
        met = [
            n for n in ESTIMATORS for t in TABLES if re.fullmatch(of, n) and re.fullmatch(where, t)
        ]
        assert met, (of, where)


@pytest.mark.parametrize("calls", [1, 2])
def test_streams_refuse_targets_whose_squares_are_infinite(calls):
    it = table_of("constant column", False)
    model = sl.AdditiveRegressor("epsilon_insensitive", solver="pegasos")
    for _ in range(calls - 1):
        model.partial_fit(it.X, it.y)
    with pytest.raises(sl.SourceError, match="the target 'y' .* in float64; divide it by"):
        model.partial_fit(it.X, 1e200 * it.y)


def test_an_embedding_takes_what_is_missing_everywhere():
    it = table_of("missing column", False)
    for name in EMBEDDINGS:
        features = getattr(sl, name)().fit(it.X).transform(it.X_test)
        assert np.isfinite(features.toarray() if sparse.issparse(features) else features).all()
