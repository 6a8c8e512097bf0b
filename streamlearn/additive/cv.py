"""Additive models that choose C and the number of splines by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from ..estimator.scores.choosing import Member
from ..estimator.scores.paths import Candidate
from ..numeric.bases.basis import Basis
from ..numeric.losses import Loss
from .choose.choosing import Choosing
from .classifier import AdditiveClassifier
from .regressor import AdditiveRegressor

_METRICS = {
    "poisson": "neg_mean_poisson_deviance",
    "negative_binomial": "neg_mean_negative_binomial_deviance({})",
    "gamma": "neg_mean_gamma_deviance",
    "tweedie": "neg_mean_tweedie_deviance({})",
    "quantile": "neg_mean_pinball_loss({})",
    "epsilon_insensitive": "neg_mean_absolute_error",
}
"""Loss -> the metric that judges its candidates where none is asked for; `{}`: its parameter.

Others are judged by the squared error.
"""


class AdditiveClassifierCV(Choosing, AdditiveClassifier):
    """`AdditiveClassifier` with C and n_bases chosen by splits, in reads that the fits share.

    Every candidate is fitted on the rows outside each split, a row's split being a hash of its
    number.  With a smooth loss all of them read the rows together: one summary, some 4 to 8 reads
    for Newton's method (more if the models of a group do not fit the memory budget), one that
    scores all of them on their splits, and 2 to 4 for the fit of the best to all rows.  Knots come
    from all rows, targets never cross splits.

    With the hinge, and with more coefficients than Newton's method solves for, the reads are those
    of dual coordinate descent: for each n_bases as many as the slowest of its fits takes, as each
    is done when its own gap is proved (again more, in order of C, if the models do not fit the
    budget); one that scores all; and those of an `AdditiveClassifier` for the best.  `max_passes`
    limits each of these.  While the unsettled rows of all fits have room in memory each read is
    followed by as many visits of them as small gaps want.

    ``interactions="auto"`` has no pairs here, as each split would find its own.  With a number of
    them, and where dual coordinate descent would have any, or its rows in memory anyway, each fit
    takes the reads of an `AdditiveClassifier` without the rows of its split, knots included: cv
    fits for each candidate, one scoring read for each split, and the fit of the best to all rows.

    More than two classes are fitted one against the rest.

    Parameters
    ----------
    loss : {"log_loss", "squared_hinge", "hinge"} or Loss, default="log_loss"
        As in `AdditiveClassifier`.
    Cs : int or array-like, default=8
        Values of C; an integer is so many powers of 10 from 0.001 to 10,000.
    n_bases : int or array-like of int, default=20
    cv : int, default=5
        Number of splits.
    scoring : str, optional
        "neg_log_loss" (default for the log-loss), "accuracy" (default otherwise), "roc_auc" or
        another metric of `score` of which more is better.
    one_standard_error : bool, default=False
        Take the simplest candidate (fewest splines, then smallest C) whose mean score is within one
        standard error of the best (Breiman et al. 1984).
    basis, degree, penalty_order, penalty_scale, knots, missing, max_levels, encoding, \
interactions, class_weight, intercept_scaling, tol, max_passes, calibration
        As in `AdditiveClassifier`; `tol` holds for each of the fits, and scores are weighed too.
    random_state : int, default=0
        Of the sample of rows and of the splits, which are those of `cross_validate` with this seed.

    Attributes
    ----------
    C_, n_bases_ : float, int
        The choice.
    best_index_, best_score_ : int, float
        Its place in `cv_results_`, and its mean score.
    cv_results_ : dict
        As `GridSearchCV` has it: "params", "param_C", "param_n_bases", "split0_test_score", ...,
        "mean_test_score", "std_test_score", "rank_test_score"; and "relative_gap", the largest of
        each candidate's fits.
    coef_, intercept_, bases_, classes_, certificate_, history_, n_passes_ :
        Of the final fit, as in `AdditiveClassifier`; reads are those of all fits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveClassifierCV
    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> y = abs(X[:, 0]) + 0.2 * np.sin(99 * X[:, 0]) > 0.5
    >>> model = AdditiveClassifierCV(Cs=[0.01, 1.0], n_bases=[4, 12]).fit(X, y)
    >>> model.C_, model.n_bases_
    (1.0, 12)
    """

    _parameter_constraints: dict[str, list[object]] = {
        **AdditiveClassifier._parameter_constraints,
        **Choosing._choosing_constraints,
    }
    _later_parameters: ClassVar[dict[str, object]] = {
        **AdditiveClassifier._later_parameters,
        "class_weight": None,
    }

    def __init__(
        self,
        loss: str | Loss = "log_loss",
        *,
        Cs: int | Sequence[float] = 8,
        n_bases: int | Sequence[int] = 20,
        cv: int | str = 5,
        scoring: str | None = None,
        one_standard_error: bool = False,
        basis: str | Basis = "bspline",
        degree: int = 1,
        penalty_order: int = 1,
        penalty_scale: str = "integral",
        knots: str = "quantile",
        missing: str = "level",
        max_levels: int = 255,
        encoding: dict[str, str] | None = None,
        interactions: int | str | Sequence[Sequence[int | str]] = "auto",
        class_weight: object = None,
        intercept_scaling: float = 1.0,
        tol: float = 1e-4,
        max_passes: int = 100,
        calibration: str | None = None,
        random_state: int = 0,
    ) -> None:
        self._store(locals())

    _plain: ClassVar[Member] = AdditiveClassifier

    def _member(self, parameters: Candidate) -> Member:
        return super()._member({**parameters, "multi_class": self.multi_class})

    def _default_scoring(self) -> str:
        return "accuracy" if self._loss.link is None else "neg_log_loss"


class AdditiveRegressorCV(Choosing, AdditiveRegressor):
    """`AdditiveRegressor` with C and n_bases chosen by splits or by GCV.

    The squared error takes two reads for all of it, the summary and one Gram for each split,
    whatever the number of values of C: every fit is exact, and so is its error on the rows it left
    out.  (More values of n_bases than fit the memory budget are a read for each group; a Gram too
    large for that, and Newton reads as for the other smooth losses.)

    Other losses, and a number of `interactions`, as in `AdditiveClassifierCV`: the reads of
    Newton's method or, with "epsilon_insensitive" and "quantile", of dual coordinate descent, for
    all fits together where there are no pairs and the rows are not in memory.  Where reads are
    shared, intercepts are held to the mean target of all rows, and the means of counts and amounts
    are relative to it.

    Parameters
    ----------
    loss : {"squared_error", "epsilon_insensitive", "squared_epsilon_insensitive", "huber", \
"poisson", "negative_binomial", "gamma", "tweedie", "quantile"} or Loss, default="squared_error"
        As in `AdditiveRegressor`.
    Cs, n_bases, one_standard_error
        As in `AdditiveClassifierCV`.
    cv : int or "gcv", default=5
        Number of splits; "gcv" estimates the error on new rows from the fit to all rows and its
        effective degrees of freedom (Golub, Heath & Wahba 1979); squared error only.
    scoring : str, optional
        Default "neg_mean_squared_error"; of counts and amounts minus the mean deviance of their
        loss, of "quantile" minus its pinball loss, of "epsilon_insensitive"
        "neg_mean_absolute_error".  The first and "r2" follow from Grams; another metric of `score`
        of which more is better takes a read.
    basis, degree, penalty_order, penalty_scale, knots, missing, max_levels, encoding, \
interactions, epsilon, power, dispersion, quantile, exposure, offset, intercept_scaling, tol, \
max_passes, random_state
        As in `AdditiveRegressor`, but for one quantile: each has a best C of its own.

    Attributes
    ----------
    C_, n_bases_, best_index_, best_score_, cv_results_
        As in `AdditiveClassifierCV`.
    coef_, intercept_, bases_, certificate_, history_, n_passes_
        Of the final fit, as in `AdditiveRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressorCV
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.3 * np.sin(1e4 * X[:, 0])
    >>> model = AdditiveRegressorCV(Cs=[1e-3, 1, 1e4], cv="gcv").fit(X, y)
    >>> model.C_, model.n_passes_
    (1.0, 2)
    """

    _parameter_constraints: dict[str, list[object]] = {
        **AdditiveRegressor._parameter_constraints,
        **Choosing._choosing_constraints,
        "cv": [*Choosing._choosing_constraints["cv"], StrOptions({"gcv"})],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }
    _later_parameters: ClassVar[dict[str, object]] = {
        **AdditiveRegressor._later_parameters,
        "epsilon": 0.1,
        "exposure": None,
        "offset": None,
    }

    def __init__(
        self,
        loss: str | Loss = "squared_error",
        *,
        Cs: int | Sequence[float] = 8,
        n_bases: int | Sequence[int] = 20,
        cv: int | str = 5,
        scoring: str | None = None,
        one_standard_error: bool = False,
        basis: str | Basis = "bspline",
        degree: int = 1,
        penalty_order: int = 1,
        penalty_scale: str = "integral",
        knots: str = "quantile",
        missing: str = "level",
        max_levels: int = 255,
        encoding: dict[str, str] | None = None,
        interactions: int | str | Sequence[Sequence[int | str]] = "auto",
        epsilon: float = 0.1,
        power: float = 1.5,
        dispersion: float = 1.0,
        quantile: float = 0.5,
        exposure: str | int | None = None,
        offset: str | int | None = None,
        intercept_scaling: float = 1.0,
        tol: float = 1e-4,
        max_passes: int = 100,
        random_state: int = 0,
    ) -> None:
        self._store(locals())

    _plain: ClassVar[Member] = AdditiveRegressor

    def _default_scoring(self) -> str:
        loss = self._loss
        found = _METRICS.get(loss.name)
        return "neg_mean_squared_error" if found is None else found.format(*loss)
