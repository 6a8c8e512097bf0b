"""Weights far from one a row: every fit says so, or gives the model of weights near one."""

import re
import warnings

import numpy as np
import pytest
from laws.cells import close, known, table
from laws.subjects import ONE, Subject, names

from streamlearn.estimator.rows.weights import SAID

SCALE_FREE = re.compile("(Fourier|Spline)Embedding|ShareBoost.*|compress")
"""Families whose model does not depend on the scale of the weights."""


def fitted(subject, factor, w):
    X, z = table()
    more = known(subject, random_state=0, **ONE.get(subject.name, {}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = subject.fit(X, subject.target(z), factor * w, **more)
    said = [str(c.message) for c in caught if "add up to" in str(c.message)]
    return subject.answer(model, X), said


@pytest.mark.parametrize("name", names())
def test_the_scale_of_weights_is_warned_of_or_changes_nothing(name):
    subject = Subject(name)
    w = np.random.default_rng(0).integers(0, 3, 240).astype(float)
    plain, said = fitted(subject, 1.0, w)
    assert not said
    for factor in (2.0**-10, 2.0**10):
        answer, said = fitted(subject, factor, w)
        if SCALE_FREE.fullmatch(name):
            assert not said
            close(answer, plain, 1e-6)
        else:
            (only,) = said
            # rows of weight 0 are absent
            n, total = np.count_nonzero(w), factor * w.sum()
            assert f"weights of {n} rows add up to {total:,.6g}: a weight counts copies" in only
            assert f"divide the weights by their mean, {total / n:.6g}" in only
            assert re.match(SAID, only)
