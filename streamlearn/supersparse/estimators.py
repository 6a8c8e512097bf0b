"""Super-sparse machines: learned prototypes, a handful where a kernel machine keeps thousands."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..estimator.base import StreamClassifier, StreamRegressor
from ..estimator.certificate import Certificate
from .logistic import refit
from .model import SuperSparseModel


class SuperSparseRegressor(SuperSparseModel, StreamRegressor):
    """Regressor that is a sum of similarities to a few prototypes, which are learned themselves.

        minimise  1/W sum_i u_i (y_i - g(x_i))^2 + ridge |beta|^2,
        g(x) = b + sum_j beta_j s(x, z_j)

    over beta, b and the prototypes z_j (Biggio 2015, eqs. 1-3; the paper's lambda is ridge W,
    W = sum_i u_i).
    """

    def __init__(
        self,
        n_prototypes=10,
        *,
        similarity="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        ridge=1e-6,
        repulsion=0.0,
        init="k-means",
        neighbours=None,
        schedule="all",
        n_passes=20,
        tol=1e-3,
        random_state=0,
    ):
        self.n_prototypes = n_prototypes
        self.similarity = similarity
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.repulsion = repulsion
        self.init = init
        self.neighbours = neighbours
        self.schedule = schedule
        self.n_passes = n_passes
        self.tol = tol
        self.random_state = random_state


class SuperSparseClassifier(SuperSparseModel, StreamClassifier):
    """Classifier."""

    _parameter_constraints: dict[str, list[Any]] = {
        **SuperSparseModel._parameter_constraints,
        "loss": [StrOptions({"squared_error", "log_loss"})],
    }

    def __init__(
        self,
        n_prototypes=10,
        *,
        loss="log_loss",
        similarity="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        ridge=1e-6,
        repulsion=0.0,
        init="k-means",
        neighbours=None,
        schedule="all",
        n_passes=20,
        tol=1e-3,
        random_state=0,
    ):
        self.n_prototypes = n_prototypes
        self.loss = loss
        self.similarity = similarity
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.repulsion = repulsion
        self.init = init
        self.neighbours = neighbours
        self.schedule = schedule
        self.n_passes = n_passes
        self.tol = tol
        self.random_state = random_state

    def _finish(self, run, dataset, rows, whole) -> Certificate:
        certificate = super()._finish(run, dataset, rows, whole)
        if self.loss == "log_loss":
            theta, value = refit(
                run, dataset, rows, self.prototypes_, whole=whole, tol=0.1 * self.tol
            )
            run.record(log_loss_objective=value)
            self._set_theta(theta, rows.problem.shift)
        return certificate

    def _check_probability(self) -> None:
        if self.loss != "log_loss":
            raise AttributeError(
                f"loss={self.loss!r} gives no probabilities; use loss='log_loss', or "
                "decision_function"
            )

    def _probability(self, decision: np.ndarray) -> np.ndarray:
        if decision.ndim == 1:
            p = 0.5 * (1.0 + np.tanh(0.5 * decision))
            return np.column_stack([1.0 - p, p])
        e = np.exp(decision - decision.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
