"""Where all rows can be fitted but those of a split cannot, the error names the split.

Every estimator that chooses by splits, and `cross_validate` of every other one, is given tables so
small, or classes so rare, that splits are short of rows.
"""

import pickle
import warnings

import numpy as np
import pytest
from laws.subjects import QUICK
from sklearn.base import is_classifier

import streamlearn as sl
from streamlearn.errors import LackError

ESTIMATORS = sorted(name for name in QUICK if hasattr(getattr(sl, name), "predict"))
LIGHT = {"SVMMixtureClassifier": {"n_components": 1}, "SuperSparseRegressor": {"n_prototypes": 1}}
LIGHT["SuperSparseClassifier"] = LIGHT["SuperSparseRegressor"]
"""Parameters that take few rows."""

TABLES = {
    "2 rows": (2, lambda rows: rows % 2, None),
    "3 rows": (3, lambda rows: rows % 2, None),
    "4 rows": (4, lambda rows: rows % 2, None),
    "6 rows": (6, lambda rows: rows % 2, None),
    "a class of one row": (12, lambda rows: rows == 5, None),
    "one row of weight": (12, lambda rows: rows % 2, lambda rows: 1.0 * (rows < 2)),
}
"""Name -> number of rows, the classes, and their weights."""


def table(name, classifies):
    n, classes, weights = TABLES[name]
    rows, rng = np.arange(n), np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    y = classes(rows).astype(int) if classifies else rng.normal(size=n)
    return X, y, None if weights is None else weights(rows)


@pytest.mark.parametrize("cv", [2, 3])
@pytest.mark.parametrize("rows", TABLES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_a_split_lacks_is_said_of_the_split(name, rows, cv):
    kind = getattr(sl, name)
    given = {**QUICK[name], **LIGHT.get(name, {})}
    X, y, weight = table(rows, is_classifier(kind()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if name.endswith("CV"):
                kind(**{**given, "cv": cv}).fit(X, y, weight)
            else:
                sl.cross_validate(kind(**given), X, cv, y=y, sample_weight=weight)
        except ValueError as error:
            said, kind_of = str(error), type(error)
        else:
            return
    assert kind_of is LackError, said
    seed = "random_state" if name.endswith("CV") else "seed"
    for part in (f"of cv={cv}", f"another {seed}", "more rows"):
        assert part in said
    assert ("a smaller cv" in said) == (cv > 2)


def test_an_error_of_what_is_lacking_travels():
    copy = pickle.loads(pickle.dumps(LackError("1 class is there", "fit more rows")))
    assert str(copy) == "1 class is there; fit more rows"
