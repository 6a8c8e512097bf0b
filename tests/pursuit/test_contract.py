"""scikit-learn's contract, and what both estimators refuse."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamlearn import JensenShannonBoostClassifier, ProjectionPursuitRegressor


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [ProjectionPursuitRegressor(n_terms=2), JensenShannonBoostClassifier(n_learners=5)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
