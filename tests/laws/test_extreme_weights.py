"""Weights at the ends of float64 are fitted in silence of numpy's, or refused by name."""

import re
import warnings

import numpy as np
import pytest
from laws.subjects import QUICK
from sklearn.base import is_classifier

import streamlearn as sl

N = 120
WEIGHTS = {
    "all 1e300": lambda rows: np.full(N, 1e300),
    "all 1e150": lambda rows: np.full(N, 1e150),
    "all 1e-300": lambda rows: np.full(N, 1e-300),
    "the least number": lambda rows: np.full(N, 5e-324),
    "sums that overflow": lambda rows: np.full(N, 1.7e308),
    "1e300 and 1e-300": lambda rows: np.where(rows % 3, 1e300, 1e-300),
    "1 and 1e-300": lambda rows: np.where(rows % 3, 1.0, 1e-300),
    "1 and 1e300": lambda rows: np.where(rows % 3, 1.0, 1e300),
    "all zero": lambda rows: np.zeros(N),
    "one row": lambda rows: 1.0 * (rows == 4),
}
"""Name -> function of the rows' numbers -> their weights."""

NAMED = r"[Ss]ample weights|1 class|n_samples=1|split(s 1 to)? \d+ of cv|of a weight above 0"


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", sorted(set(QUICK) - {"compress"}))
def test_extreme_weights_are_fitted_or_refused_by_name(name, weights):
    kind = getattr(sl, name)
    rng, rows = np.random.default_rng(0), np.arange(N)
    X = rng.random((N, 3), dtype=np.float32)
    f = np.sin(6 * X[:, 0]) + X[:, 1]
    y = (f > 1).astype(int) if is_classifier(kind()) else f
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kind(**QUICK[name]).fit(X, y, WEIGHTS[weights](rows))
        except ValueError as error:
            said = str(error)
        else:
            said = None
    assert said is None or re.search(NAMED, said), said
    assert [str(one.message) for one in caught if one.category is RuntimeWarning] == []
