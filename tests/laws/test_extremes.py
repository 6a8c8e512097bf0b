"""Real parameters of every predictor at extreme values: finite answers, or a refusal by name."""

import warnings
from numbers import Real

import numpy as np
import pytest
from laws.test_estimators import MODELS, make
from sklearn.base import is_classifier
from sklearn.utils._param_validation import Interval

import streamlearn as sl

EXTREMES = (1e300, 1e16, 1e-16, 1e-300)


def intervals(name):
    """(parameter, interval) of every real parameter."""
    constraints = getattr(sl, name)._parameter_constraints
    return [
        (parameter, one)
        for parameter, allowed in constraints.items()
        for one in allowed
        if isinstance(one, Interval) and one.type is Real
    ]


CASES = [(name, *case) for name in MODELS for case in intervals(name)]


def test_every_family_has_real_parameters():
    assert {name for name, *_ in CASES} == set(MODELS)


@pytest.mark.parametrize(("name", "parameter", "interval"), CASES)
def test_extremes_are_finite_or_refused_by_name(name, parameter, interval):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    z = X[:, 0] + np.sin(2 * X[:, 1])
    for value in EXTREMES:
        model = make(name, max_passes=5, n_passes=5, random_state=0, **{parameter: value})
        if "n_prototypes" in model.get_params():
            model.set_params(n_prototypes=(1, 2) if name.endswith("CV") else 2)
        y = (z > 0).astype(int) if is_classifier(model) else z
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of stopping short, which five reads are
            try:
                model.fit(X, y)
            except ValueError as error:
                message = str(error)
            else:
                message = ""
                answers = model.decision_function(X) if is_classifier(model) else model.predict(X)
                assert np.isfinite(answers).all(), value
        assert not message or parameter in message, (value, message)
        if message and value not in interval:
            assert f"The {parameter!r} parameter" in message
