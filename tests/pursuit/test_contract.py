"""scikit-learn's contract, and what both estimators refuse."""

import numpy as np
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


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (JensenShannonBoostClassifier(), "0 learners: the model is the share of each class"),
        (ProjectionPursuitRegressor(), "the model is the mean of the target"),
    ],
)
def test_a_certificate_says_that_a_model_without_a_term_is_constant(model, said):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    model.fit(X, y)
    assert len(model.pieces_) == 0
    assert said in model.certificate_.reason
    assert len(np.unique(np.round(model.predict(X), 12))) == 1
