"""The rows of the matrix: every public estimator, and `compress`, behind the same few verbs.

An estimator is found by its public name; what its fit needs to be quick stands in `QUICK`, and a
new one without an entry fails `test_matrix.py`.
"""

import inspect
import warnings

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning

import streamlearn as sl

CHOICE = {"Cs": [0.1, 1.0], "n_bases": [4], "cv": 2}
SPARSE = {"n_prototypes": 3, "n_passes": 12}
QUICK = {
    "AdditiveClassifier": {"n_bases": 5},
    "AdditiveRegressor": {"n_bases": 5},
    "AdditiveClassifierCV": CHOICE,
    "AdditiveRegressorCV": CHOICE,
    "FourierEmbedding": {"n_bases": 4},
    "SplineEmbedding": {"n_bases": 4},
    "ProjectionPursuitRegressor": {"n_terms": 2},
    "JensenShannonBoostClassifier": {"n_learners": 4},
    "ShareBoostClassifier": {"n_selected": 4, "ridge": 1e-4},
    "SVMMixtureClassifier": {"n_components": 2, "max_passes": 30},
    "SuperSparseClassifier": SPARSE,
    "SuperSparseRegressor": SPARSE,
    "SuperSparseClassifierCV": {**SPARSE, "n_prototypes": [2, 4], "cv": 2},
    "SuperSparseRegressorCV": {**SPARSE, "n_prototypes": [2, 4], "cv": 2},
    "ProjectionPursuitRegressorCV": {"n_terms": [2], "tau": [10.0, 30.0], "cv": 2},
    "JensenShannonBoostClassifierCV": {"n_learners": [2, 4], "tau": [10.0, 30.0], "cv": 2},
    "ShareBoostClassifierCV": {"n_selected": [2, 4], "ridge": [1e-4], "cv": 2},
    "SVMMixtureClassifierCV": {"n_components": [1, 2], "max_passes": 30, "cv": 2},
    "compress": SPARSE,
}
"""Public name -> parameters of a quick fit."""

ONE = {
    "AdditiveClassifierCV": {"Cs": [1.0]},
    "AdditiveRegressorCV": {"Cs": [1.0]},
    "ProjectionPursuitRegressorCV": {"tau": 30.0},
    "JensenShannonBoostClassifierCV": {"n_learners": 8, "tau": 30.0},
    "ShareBoostClassifierCV": {"n_selected": 4},
    "SVMMixtureClassifierCV": {"n_components": 2},
}
"""Estimators that choose by the rows' numbers -> parameters of a single candidate."""

STREAMS = {
    "SVMMixtureClassifier": {"algorithm": "online-em"},
    "AdditiveClassifier": {"solver": "pegasos"},
    "AdditiveRegressor": {"loss": "epsilon_insensitive", "solver": "pegasos"},
}
"""What `partial_fit` asks of the other parameters."""


def names():
    """The public names that train: estimators, and functions that keep a checkpoint."""
    found = []
    for name in sl.__all__:
        value = getattr(sl, name)
        if inspect.isclass(value) and issubclass(value, BaseEstimator):
            found.append(name)
        elif inspect.isfunction(value) and "checkpoint" in inspect.signature(value).parameters:
            found.append(name)
    return found


class Subject:
    """One of them: how it is made and fitted, and what it answers."""

    def __init__(self, name):
        self.name, self.kind = name, getattr(sl, name)
        self.original = None  # what is compressed: fitted once, it is not what is tested
        self.compresses = inspect.isfunction(self.kind)
        plain = None if self.compresses else self.kind()
        self.transforms = plain is not None and not hasattr(plain, "predict")
        self.classifies = self.compresses or is_classifier(plain)

    def make(self, **more):
        """The estimator, or the parameters of the function, for a quick fit."""
        parameters = {**QUICK[self.name], **more}
        if self.compresses:
            return parameters
        return self.kind().set_params(**parameters)

    def fit(self, X, y=None, weight=None, *, checkpoint=None, **more):
        """Fitted to these rows; X alone is a `Dataset`."""
        model = self.make(**more)
        with warnings.catch_warnings():
            # these fits are short; that they say so has its own tests
            warnings.simplefilter("ignore", ConvergenceWarning)
            if self.compresses:
                self.original = self.original or sl.AdditiveClassifier(n_bases=5).fit(X, y)
                rows = X if isinstance(X, sl.Dataset) else rows_of(X, None, weight)
                return self.kind(self.original, rows, checkpoint=checkpoint, **model)
            more = {} if checkpoint is None else {"checkpoint": checkpoint}
            return model.fit(X, y, *(() if weight is None else (weight,)), **more)

    def answer(self, model, X):
        """What the fitted model says of rows, as one dense array."""
        if self.transforms:
            made = model.transform(X)
            if isinstance(made, sl.Dataset):
                made = np.concatenate([np.array(chunk.X) for chunk in made.iter_chunks()])
            return made.toarray() if sparse.issparse(made) else made
        return model.decision_function(X) if self.classifies else model.predict(X)

    def target(self, z):
        """(n,) what it learns of a real target: two classes, or the numbers."""
        return (z > np.median(z)).astype(int) if self.classifies else z


def rows_of(X, y, weight, **kw):
    """Rows in memory with what is given of targets and weights, as a dataset."""
    from streamlearn.data.memory.opening import open_arrays
    from streamlearn.data.open import dataset_of

    store = open_arrays(X, y, weight)
    given = {"y": y is not None, "sample_weight": weight is not None}
    names = [c.name for c in store.columns if not given.get(c.name, False)]
    return dataset_of(
        store, *(name if there else None for name, there in given.items()), names, **kw
    )
