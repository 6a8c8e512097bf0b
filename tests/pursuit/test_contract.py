"""scikit-learn's contract, and what both estimators refuse."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamlearn import JensenShannonBoostClassifier, ProjectionPursuitRegressor


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [
        # its 15 rows leave GCV nothing to choose by among 16 splines
        ProjectionPursuitRegressor(n_terms=2, n_bases=6),
        JensenShannonBoostClassifier(n_learners=5),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
