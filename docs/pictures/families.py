"""A picture of each family but the additive one, on tables made here or of scikit-learn."""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import streamlearn as sl


def mixture() -> Figure:
    """The regions of four components on a chessboard."""
    rng = np.random.default_rng(0)
    X = rng.random((4000, 2), dtype=np.float32)
    y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    model = sl.SVMMixtureClassifier(4, gate="linear", expert_loss="log_loss").fit(X, y)
    return sl.MixtureDisplay.from_estimator(model, X[:120], y[:120]).figure_


def shareboost() -> Figure:
    """The path of twelve pixels of handwritten digits, and the weights of the ten classes."""
    X, y = load_digits(return_X_y=True)
    model = sl.ShareBoostClassifier(12).fit(X, y)
    return sl.ShareBoostDisplay.from_estimator(model).figure_


def pursuit() -> Figure:
    """The one direction of a square of two columns among eighteen of noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, (4000, 20)).astype(np.float32)
    z = (X[:, 3] + X[:, 11]) ** 2 / 2 + 0.1 * rng.standard_normal(4000)
    model = sl.ProjectionPursuitRegressor(n_terms=1).fit(X, z)
    return sl.PursuitDisplay.from_estimator(model, X).figure_


def supersparse() -> Figure:
    """Six prototypes that tell 3 from 8."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 8))
    model = sl.SuperSparseClassifier(6, ridge=1e-3).fit(X[chosen] / 16, y[chosen])
    return sl.PrototypeDisplay.from_estimator(model, shape=(8, 8)).figure_


PICTURES = {
    "mixture": mixture,
    "shareboost": shareboost,
    "pursuit": pursuit,
    "supersparse": supersparse,
}
"""Name of the file, and what draws it."""
