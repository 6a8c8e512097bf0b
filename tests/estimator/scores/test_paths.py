"""`cross_validate` of grids: fits that give several models, against a fit of each by hand."""

import math

import numpy as np
import pytest
from laws.subjects import rows_of
from sklearn.base import is_classifier

import streamlearn as sl
from streamlearn.estimator.scores.cross_validate import without_split
from streamlearn.estimator.scores.paths import fits_of
from streamlearn.solvers.splits import split_shares

N = 300
GRIDS = {
    "AdditiveClassifier": {"C": [0.1, 1.0], "n_bases": [4, 6]},
    "AdditiveRegressor": {"C": [0.1, 1.0], "n_bases": [4, 6]},
    "SVMMixtureClassifier": {"n_components": [1, 2], "C": [0.1, 1.0]},
    "ShareBoostClassifier": {"n_selected": [1, 3], "ridge": [1e-3, 1e-1]},
    "JensenShannonBoostClassifier": {"n_learners": [1, 2, 4], "tau": [5.0, 30.0]},
    "ProjectionPursuitRegressor": {"tau": [3.0, 10.0, 30.0], "n_terms": [1, 2]},
    "SuperSparseClassifier": {"n_prototypes": [2, 4]},
    "SuperSparseRegressor": {"n_prototypes": [2, 4]},
}
"""Estimator -> values of its parameters, those of a path among them."""


def plain_estimators():
    every = [getattr(sl, name) for name in sl.__all__]
    return {
        cls.__name__
        for cls in every
        if isinstance(cls, type) and hasattr(cls, "predict") and not cls.__name__.endswith("CV")
    }


def table(classifies, n_classes=2):
    X = np.random.default_rng(0).standard_normal((N, 5))
    f = X[:, 0] * X[:, 1] + X[:, 2]
    return X, np.digitize(f, [-0.5, 0.5][: n_classes - 1]) if classifies else f


def test_every_estimator_has_a_grid():
    assert set(GRIDS) == plain_estimators()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", GRIDS)
def test_scores_are_those_of_a_fit_of_each(name, n_classes):
    """Bit for bit, in a summary less for each fit that gives the models of others too."""
    model = getattr(sl, name)()
    classifies = is_classifier(model)
    if n_classes > 2 and not classifies:
        pytest.skip("a regressor has no classes")
    X, y = table(classifies, n_classes)
    rows, (edges, seed) = rows_of(X, y, None, chunk_rows=100), split_shares(2, 3)
    found = sl.cross_validate(model, rows, 2, GRIDS[name], 3)
    passes = [0, 0]
    for split in range(2):
        train, apart = without_split(rows, edges, split, seed)
        for k, parameters in enumerate(found.parameters):
            fitted = getattr(sl, name)(**parameters).fit(train)
            assert found.scores[k, split] == fitted.score(apart)
            passes[split] += fitted.n_passes_
    shared = len(found.parameters) - len(fits_of(model, found.parameters))
    assert (shared > 0) == bool(model._same_in_one_fit)
    # what the splits share and what one fit gives: the reads of the longer split, and its own
    apart = sum(passes) if name == "ShareBoostClassifier" else max(passes)
    assert found.n_passes - found.n_score_passes <= apart - shared


def test_fits_that_share_are_of_one_path_and_of_no_more_values_than_it_has_room_for():
    boosting, pursuit = sl.JensenShannonBoostClassifier(), sl.ProjectionPursuitRegressor()
    assert boosting._same_in_one_fit == {"n_learners": math.inf}
    tau, other = 5.0, 30.0
    grid = [{"tau": t, "n_learners": n} for t in (tau, other) for n in (1, 2)]
    assert fits_of(boosting, grid) == [[0, 1], [2, 3]]
    # the model's own number of learners, and a number: not of one grid
    assert fits_of(boosting, [{"tau": tau}, {"n_learners": 3}, {"n_learners": 4}]) == [[0], [1, 2]]
    of_tau = [{"tau": t} for t in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert fits_of(pursuit, of_tau) == [[0, 1], [2, 3], [4]]
    # a path of taus as one candidate is a fit that chooses
    assert fits_of(pursuit, [{"tau": [1.0, 2.0]}, {"tau": 3.0}]) == [[0], [1]]
    choosing = sl.ProjectionPursuitRegressorCV()
    assert fits_of(choosing, of_tau) == [[k] for k in range(5)]


def test_a_budget_for_one_fit_of_each_is_enough():
    """2,000 columns: models of two taus take more memory than one, and are fitted one by one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2_000)).astype(np.float32)
    y = X[:, 0].astype(float)
    data, grid = rows_of(X, y, None, chunk_rows=100), {"tau": [10.0, 30.0]}
    model = sl.ProjectionPursuitRegressor(1)
    enough = []
    for tau in (10.0, [10.0, 30.0]):
        with pytest.raises(sl.MemoryBudgetError, match="budget is 1.0 MiB") as refused:
            sl.plan(model.set_params(tau=tau), data, memory_budget="1MiB")
        enough.append(refused.value.enough)
    with sl.config_context(memory_budget="4GiB"):
        together = sl.cross_validate(model.set_params(tau=30.0), data, 2, grid)
    with sl.config_context(memory_budget=f"{sum(enough) // 2}MiB"):
        apart = sl.cross_validate(model, data, 2, grid)
    np.testing.assert_array_equal(together.scores, apart.scores)
    assert together.n_passes < apart.n_passes
