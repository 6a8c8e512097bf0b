"""A fit that stops short names parameters that help, and the estimator takes each of them.

Every solver with every loss that it serves, and every family that can stop short.
"""

import ast
import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import streamlearn as sl
from streamlearn.additive.costs.solver_choice import PEGASOS, solver_table
from streamlearn.numeric.losses import make_loss
from streamlearn.numeric.targets import CLASS

SHORT = {"max_passes": 2, "tol": 1e-15, "C": 1e6, "n_bases": 5}
ADDITIVE = [
    (loss, solver)
    for loss, solvers in solver_table().items()
    for solver in solvers
    if not (make_loss(loss.split()[-1]).quadratic and solver == "newton")  # one Gram is exact
]
FAMILIES = {
    "SVMMixtureClassifier": {"n_components": 2, "max_passes": 4, "tol": 1e-15, "gate": "linear"},
    "SVMMixtureClassifierCV": {"n_components": [2], "max_passes": 4, "tol": 1e-15, "cv": 2},
    "SuperSparseClassifier": {"n_prototypes": 6, "n_passes": 2, "tol": 1e-15},
    "SuperSparseRegressor": {"n_prototypes": 6, "n_passes": 2, "tol": 1e-15},
    "AdditiveClassifierCV": {"Cs": [1e6], "n_bases": [5], "max_passes": 2, "tol": 1e-15, "cv": 2},
    "AdditiveRegressorCV": {
        "loss": "huber", "Cs": [1e6], "n_bases": [5], "max_passes": 2, "tol": 1e-15, "cv": 2,
    },
}  # fmt: skip


def table():
    rng = np.random.default_rng(0)
    X = rng.random((240, 3), dtype=np.float32)
    f = np.sin(6 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(240)
    return X, f


def told(model, X, y):
    """The warning's text; None if the fit converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    texts = [str(one.message) for one in caught if one.category is ConvergenceWarning]
    assert bool(texts) == (not model.certificate_.converged)
    return texts[-1] if texts else None


def take_the_advice(model, X, y):
    text = told(model, X, y)
    advice = model._remedies(sl.open_dataset(X))  # of a fit that converges at once as well
    if text is not None:
        listed = text.rpartition("set one of")[2]
        found = dict(re.findall(r"(\w+)=('[\w-]+'|[\d.e+-]+)(?=,)", listed))
        assert {name: ast.literal_eval(value) for name, value in found.items()} == advice, text
    assert advice
    assert set(advice) <= set(model.get_params())
    for name, value in advice.items():
        now = model.get_params()[name]
        other = type(model)(**{**model.get_params(), name: value})
        assert other.get_params()[name] != now
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other.fit(X, y)
    return advice


@pytest.mark.parametrize(("loss", "solver"), ADDITIVE)
def test_advice_of_additive_models_is_taken(loss, solver):
    joint, name = loss.startswith("multinomial"), loss.split()[-1]
    X, f = table()
    given = {"loss": name, "solver": solver, **SHORT}
    if make_loss(name).target == CLASS:
        y = np.digitize(f, [0.3, 1.0]) if joint else (f > 0.5).astype(int)
        more = {"multi_class": "multinomial"} if joint else {}
        model = sl.AdditiveClassifier(**given, **more)
    else:
        counts = name in ("poisson", "negative_binomial", "gamma", "tweedie")
        model = sl.AdditiveRegressor(**given)
        y = 1.0 + np.floor(np.exp(f)) if counts else f
    advice = take_the_advice(model, X, y)
    assert "C" in advice
    others = set(solver_table()[loss]) - {solver, PEGASOS}
    assert ("solver" in advice) == bool(others), advice


@pytest.mark.parametrize("name", FAMILIES)
def test_advice_of_the_other_families_is_taken(name):
    X, f = table()
    model = getattr(sl, name)(**FAMILIES[name])
    y = (f > 0.5).astype(int) if "Classifier" in name else f
    take_the_advice(model, X, y)


def test_an_objective_is_no_rise():
    X, f = table()
    model = sl.SVMMixtureClassifier(**FAMILIES["SVMMixtureClassifier"])
    text = told(model, X, (f > 0.5).astype(int))
    assert re.search(r"at an objective of -?[\d.]+ with no small rise of the penalised", text), text
    assert not re.search(r"(rise|raised|rose)[^;(]* of -|by -", text), text
