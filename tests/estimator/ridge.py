"""A new family in sixty lines: ridge regression and its classifier, by one streamed Gram pass.

    minimise  1/2 |w|^2 + 1/2 b^2 + C sum_i s_i (y_i - x_i.w - b)^2

The classifier regresses on +-1, one-vs-rest.  What a family must supply is what stands here.
"""

from functools import partial
from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval

from streamlearn.data.source import Csr
from streamlearn.engine.plan import Needs
from streamlearn.estimator.base import StreamClassifier, StreamRegressor
from streamlearn.estimator.certificate import Certificate
from streamlearn.passes.fold import Fold


def with_constant(X):
    if isinstance(X, Csr):
        out = np.zeros((len(X.indptr) - 1, X.n_columns))
        out[np.repeat(np.arange(len(out)), np.diff(X.indptr)), X.indices] = X.data
        X = out
    return np.column_stack([X.astype(np.float64), np.ones(len(X))])


def start(p, n_targets):
    return {
        "gram": np.zeros((p + 1, p + 1)),
        "moment": np.zeros((p + 1, n_targets)),
        "square": np.zeros(n_targets),
    }


def step(n_classes, state, chunk):
    X = with_constant(chunk.X)
    Y = chunk.y[:, None] if not n_classes else targets_of(chunk.y, n_classes)
    s = np.ones(len(X)) if chunk.weight is None else chunk.weight
    state["gram"] += X.T @ (s[:, None] * X)
    state["moment"] += X.T @ (s[:, None] * Y)
    state["square"] += s @ Y**2
    return state


def targets_of(codes, n_classes):
    if n_classes == 2:
        return (2 * codes - 1)[:, None]
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)


def merge(a, b):
    return {key: a[key] + b[key] for key in a}


class Ridge:
    """The mathematics, shared by both estimators."""

    _parameter_constraints = {"C": [Interval(Real, 0, None, closed="neither")], "tol": [Real]}
    _accepts_sparse = True

    def __init__(self, C=1.0, tol=1e-6):
        self.C = C
        self.tol = tol

    def _needs(self, dataset, summary=None):
        n_targets = 1 if summary is None else len(getattr(self, "classes_", [0]))
        size = 8 * (dataset.n_features + 2) * (dataset.n_features + 2 + n_targets)
        return [
            Needs(
                "gram",
                state_bytes=size,
                step_bytes_per_row=16 * dataset.n_features,
                driver_bytes=3 * size,
            )
        ]

    def _fit(self, run, dataset, summary, validation=None):
        K = len(getattr(self, "classes_", ()))
        fold = Fold(partial(start, dataset.n_features, 1 if K <= 2 else K), partial(step, K), merge)
        sums = run.fold(fold, dataset, name="gram")
        self.coef_ = np.linalg.solve(
            np.eye(len(sums["gram"])) + 2 * self.C * sums["gram"], 2 * self.C * sums["moment"]
        )
        residual = sums["square"] - 2 * (self.coef_ * sums["moment"]).sum(0)
        residual += (self.coef_ * (sums["gram"] @ self.coef_)).sum(0)
        primal = 0.5 * (self.coef_**2).sum(0) + self.C * residual
        run.record(objective=float(primal.sum()))
        return Certificate(
            converged=self.tol >= 0,
            primal=primal,
            dual=primal,
            relative_gap=0.0,
            tolerance=self.tol,
            solver="gram",
        )

    def _decision_chunk(self, chunk):
        decision = (with_constant(chunk.X)[:, :, None] * self.coef_).sum(axis=1)
        return decision[:, 0] if decision.shape[1] == 1 else decision

    def _state(self):
        return {"coef": self.coef_}

    def _restore(self, tree):
        self.coef_ = tree["coef"]


class RidgeRegressor(Ridge, StreamRegressor):
    """Least squares with a penalty."""


class RidgeClassifier(Ridge, StreamClassifier):
    """Least squares on +-1, a softmax for probabilities."""

    def _check_probability(self):
        pass

    def _probability(self, decision):
        if decision.ndim == 1:
            decision = np.column_stack([-decision, decision])
        e = np.exp(decision - decision.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
