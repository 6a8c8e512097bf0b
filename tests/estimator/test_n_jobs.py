"""Searches of scikit-learn that fit in processes of their own give what one process gives."""

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn.model_selection import GridSearchCV

import streamlearn as sl

rng = np.random.default_rng(0)
X = rng.random((600, 4))
Y = (X[:, 0] + X[:, 1] + 0.2 * rng.standard_normal(600) > 1).astype(int)

SEARCHES = {
    "newton": (sl.AdditiveClassifier(n_bases=4), {"C": [0.1, 10.0]}),
    "cached rows": (sl.AdditiveClassifier(n_bases=4, loss="hinge"), {"C": [0.1, 1.0]}),
    "shareboost": (sl.ShareBoostClassifier(random_state=0), {"n_selected": [1, 2]}),
    "supersparse": (
        sl.SuperSparseClassifier(n_passes=2, tol=0.1, random_state=0),
        {"n_prototypes": [2, 4]},
    ),
}


@pytest.fixture(scope="module", autouse=True)
def workers_go():
    """Later tests look for processes that were left: the workers would wait for minutes."""
    yield
    get_reusable_executor().shutdown(wait=True)


@pytest.mark.fault
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SEARCHES)
def test_two_jobs_score_what_one_scores(name):
    model, grid = SEARCHES[name]
    one, two = (GridSearchCV(model, grid, cv=2, n_jobs=n).fit(X, Y) for n in (1, 2))
    assert two.best_params_ == one.best_params_
    np.testing.assert_array_equal(
        two.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(two.predict(X), one.predict(X))
