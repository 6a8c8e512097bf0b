"""One gross target among many: every regression names it, once; none complains of honest ones."""

import re
import warnings

import numpy as np
import pytest
from laws.cells import known, table
from laws.subjects import ONE, Subject, names

from streamlearn.estimator.rows.spread import FEWEST_TARGETS, TARGET_SAID

REGRESSIONS = [n for n in names() if not (Subject(n).classifies or Subject(n).transforms)]
HONEST = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "skewed": lambda rng, n: rng.exponential(size=n),
    "log-normal": lambda rng, n: np.exp(rng.standard_normal(n)),
    "rare": lambda rng, n: (rng.random(n) < 0.03).astype(float),
    "constant": lambda rng, n: np.ones(n),
}
WRONG = {"high": 1e4, "low": -1e4, "huge": 1e150}


def said(name, y):
    subject = Subject(name)
    X, _ = table(len(y))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subject.fit(X, y, **known(subject, **ONE.get(name, {})))
    return [str(c.message) for c in caught if "of the variance in one row" in str(c.message)]


def targets(kind):
    return HONEST[kind](np.random.default_rng(3), FEWEST_TARGETS)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_gross_target_is_named_once(name):
    y = targets("normal")
    y[17] = WRONG["high"]
    (only,) = said(name, y)
    assert re.match(TARGET_SAID, only)
    assert "one row of 1,000, where it is 10000 and its mean" in only


@pytest.mark.parametrize("wrong", WRONG)
def test_of_either_sign_and_any_size(wrong):
    y = targets("normal")
    y[-1] = WRONG[wrong]
    (only,) = said("AdditiveRegressor", y)
    assert f"where it is {WRONG[wrong]:.6g} and" in only


@pytest.mark.parametrize("kind", HONEST)
def test_honest_targets_are_not_complained_of(kind):
    assert not said("AdditiveRegressor", targets(kind))


def test_of_few_rows_one_may_hold_much():
    y = targets("normal")[: FEWEST_TARGETS - 1]
    y[0] = 100.0
    assert not said("AdditiveRegressor", y)
