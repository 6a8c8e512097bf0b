"""Additive models: a smooth curve a column, from data larger than memory to a proved optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..estimator.base import StreamClassifier, StreamRegressor
from ..solvers.calibration import METHODS
from .model import AdditiveModel


class AdditiveClassifier(AdditiveModel, StreamClassifier):
    """Classifier whose decision is a sum of one smooth curve a column.

        minimise  1/2 w'Pw + 1/2 b^2/B^2 + C sum_i s_i l(y_i f(x_i)),   f(x) = b + sum_d f_d(x_d)

    (Maji 2012, with penalties scaled to the curves and terms centred).  More than two classes: one
    against the rest, all in the same reads.  Reads 4 to 8 passes with ``solver="newton"``, tens
    with ``"dual-cd"``.

    Parameters
    ----------
    loss : {"log_loss", "squared_hinge", "hinge"}, default="log_loss"
        log(1 + e^-z), max(0, 1-z)^2 and max(0, 1-z) of the margin z = y f.
    C : float, default=1.0
        Weight of the losses against the penalty.
    n_bases : int, default=20
        Splines per column; columns with no more distinct values than this get one per value.
    degree : {1, 2, 3}, default=1
        Of the splines: 1 gives broken lines.
    penalty_order : {0, 1, 2}, default=1
        Derivative that the penalty takes.
    penalty_scale : {"integral", "paper"}, default="integral"
        "integral": the penalty is close to the integral of the squared derivative over the
        column's range taken as [0, 1], so C means the same for any n_bases.  "paper": unscaled
        differences.
    knots : {"quantile", "uniform"}, default="quantile"
    solver : {"auto", "newton", "dual-cd"}, default="auto"
        "newton" has few reads and holds 8 dim^2 bytes; smooth losses only.  "dual-cd" holds 8 dim
        bytes and 4 to 8 a row on disk.  "auto" takes Newton where it fits.
    intercept_scaling : float, default=1.0
        B; the larger, the less the intercept is held to 0.
    tol : float, default=1e-4
        On the relative duality gap.
    max_passes : int, default=100
        Most reads of the data, the summary included.
    early_stopping : bool, default=False
        Stop, and go back, when the loss on `validation` falls no more.
    calibration : {None, "sigmoid", "isotonic"}, default=None
        Hold out a tenth of the rows by hash and fit curves to their decisions, in one more read:
        Platt's sigmoid or an isotonic one.  Any loss then has probabilities, and `predict` goes by
        them.  None: probabilities with ``loss="log_loss"`` only.
    random_state : int, default=0
        Of the sample of rows and the order of visits.

    Attributes
    ----------
    coef_ : (K, dim) float64
        Coefficients of the splines of all columns; K = 1 for two classes.
    intercept_ : (K,) float64
    bases_ : Bases
        ``first`` says which coefficients are whose; `knots_` lists the breakpoints by column.
    calibration_ : Calibration
        With `calibration` only.
    classes_, n_features_in_, feature_names_in_
    certificate_ : Certificate
    history_ : list of dict
        One record per measurement: objective, dual, relative_gap.
    n_passes_ : int
        Reads of the data, the summary included.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveClassifier
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> AdditiveClassifier().fit(X, abs(X[:, 0]) > 0.5).predict([[-0.9], [0.0], [0.9]])
    array([ True, False,  True])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **AdditiveModel._parameter_constraints,
        "loss": [StrOptions({"log_loss", "squared_hinge", "hinge"})],
        "solver": [StrOptions({"auto", "newton", "dual-cd"})],
        "calibration": [None, StrOptions(set(METHODS))],
    }

    def __init__(
        self,
        loss="log_loss",
        *,
        C=1.0,
        n_bases=20,
        degree=1,
        penalty_order=1,
        penalty_scale="integral",
        knots="quantile",
        solver="auto",
        intercept_scaling=1.0,
        tol=1e-4,
        max_passes=100,
        early_stopping=False,
        calibration=None,
        random_state=0,
    ):
        self.loss = loss
        self.C = C
        self.n_bases = n_bases
        self.degree = degree
        self.penalty_order = penalty_order
        self.penalty_scale = penalty_scale
        self.knots = knots
        self.solver = solver
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_passes = max_passes
        self.early_stopping = early_stopping
        self.calibration = calibration
        self.random_state = random_state

    def _check_probability(self) -> None:
        if self.loss != "log_loss" and self.calibration is None:
            raise AttributeError(
                f"loss={self.loss!r} gives no probabilities; use loss='log_loss', "
                "calibration='sigmoid' or decision_function"
            )

    def _probability(self, decision: np.ndarray) -> np.ndarray:
        if hasattr(self, "calibration_"):
            return self.calibration_.probability(decision)
        p = 0.5 * (1.0 + np.tanh(0.5 * decision))
        if decision.ndim == 1:
            return np.column_stack([1.0 - p, p])
        return p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


class AdditiveRegressor(AdditiveModel, StreamRegressor):
    """Regressor whose prediction is a sum of one smooth curve a column.

        minimise  1/2 w'Pw + 1/2 b^2/B^2 + C sum_i s_i (y_i - f(x_i))^2,   f(x) = b + sum_d f_d(x_d)

    for targets less their weighted mean.  Two reads, the summary and one Gram of all rows, give the
    exact optimum; where the Gram is too large for every lane to have one, Newton reads a few more.

    Parameters
    ----------
    loss : {"squared_error"}, default="squared_error"
    C, n_bases, degree, penalty_order, penalty_scale, knots, intercept_scaling, tol, max_passes, \
early_stopping, random_state
        As in `AdditiveClassifier`.

    Attributes
    ----------
    coef_ : (1, dim) float64
    intercept_ : (1,) float64
    bases_, n_features_in_, feature_names_in_, certificate_, history_, n_passes_
        As in `AdditiveClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressor
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> model = AdditiveRegressor(C=100).fit(X, np.sin(6 * X[:, 0]))
    >>> bool(abs(model.predict([[0.25]])[0] - np.sin(1.5)) < 0.01)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **AdditiveModel._parameter_constraints,
        "loss": [StrOptions({"squared_error"})],
    }

    def __init__(
        self,
        loss="squared_error",
        *,
        C=1.0,
        n_bases=20,
        degree=1,
        penalty_order=1,
        penalty_scale="integral",
        knots="quantile",
        intercept_scaling=1.0,
        tol=1e-4,
        max_passes=100,
        early_stopping=False,
        random_state=0,
    ):
        self.loss = loss
        self.C = C
        self.n_bases = n_bases
        self.degree = degree
        self.penalty_order = penalty_order
        self.penalty_scale = penalty_scale
        self.knots = knots
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_passes = max_passes
        self.early_stopping = early_stopping
        self.random_state = random_state
