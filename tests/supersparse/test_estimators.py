import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamlearn as sl


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([sl.SuperSparseRegressor(), sl.SuperSparseClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
