"""Rivals of projection pursuit, from scikit-learn, on rows in memory."""

from sklearn.ensemble import AdaBoostClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR


def svr():
    return make_pipeline(StandardScaler(), SVR())


def svm():
    return make_pipeline(StandardScaler(), SVC())


def adaboost():
    return AdaBoostClassifier(n_estimators=100, random_state=0)
