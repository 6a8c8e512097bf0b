"""The classifier as a user meets it."""

import numpy as np
import pytest
from mixture_kit import GATES, fit, table
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamlearn as sl
from streamlearn.mixture import needs


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([sl.SVMMixtureClassifier(3, max_passes=500, tol=1e-13)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
