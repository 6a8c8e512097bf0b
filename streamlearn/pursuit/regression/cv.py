"""Projection pursuit that chooses its number of terms and tau by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from ...estimator.scores.choosing import ChoosesBySplits, Member
from .regressor import ProjectionPursuitRegressor


class ProjectionPursuitRegressorCV(ChoosesBySplits, ProjectionPursuitRegressor):
    """`ProjectionPursuitRegressor` with its number of terms and tau chosen by splits.

    The fit of a split grows the models of all tau in the same reads.  Terms are fitted together,
    and moved when the last has come, so that a model of fewer terms is a fit of its own.  A choice
    is cv fits for each number of terms, a scoring read for each split, and the fit of the best to
    all rows.  A row's split is a hash of its number, as in `cross_validate` with this seed.

    Parameters
    ----------
    n_terms : int or list of int, default=5
        Largest numbers of terms to try.
    tau : float or list of float, default=(3.0, 10.0, 30.0, 100.0)
        Several share the tables of a read: beyond 64 columns a search looks at fewer of them at
        once.
    cv : int, default=5
        Number of splits.
    scoring : str, optional
        "neg_mean_squared_error" by default; or another metric of `score` of which more is better.
    one_standard_error : bool, default=False
        Take the first candidate (fewest terms, then the first tau) whose mean score is within one
        standard error of the best (Breiman et al. 1984).
    smoother, n_bases, penalty, refit, backfit, stop, standardize, tol, random_state, encoding
        As in `ProjectionPursuitRegressor`; `stop` is not "validation", and `random_state` is the
        seed of the splits, too.

    Attributes
    ----------
    best_params_, best_index_, best_score_
        The choice, its place in `cv_results_`, and its mean score.
    cv_results_ : dict
        As `GridSearchCV` has it: "params", "param_n_terms", "param_tau", "split0_test_score", ...,
        "mean_test_score", "std_test_score", "rank_test_score".
    directions_, intercept_, tau_, path_, certificate_, history_, n_passes_
        Of the final fit, as in `ProjectionPursuitRegressor`; reads are those of all fits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import ProjectionPursuitRegressorCV
    >>> X = np.random.default_rng(0).random((500, 5))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = ProjectionPursuitRegressorCV([1, 2], tau=30.0, cv=2).fit(X, y)
    >>> model.best_params_
    {'n_terms': 2, 'tau': 30.0}
    """

    _parameter_constraints: dict[str, list[object]] = {
        **ProjectionPursuitRegressor._parameter_constraints,
        **ChoosesBySplits._choosing_constraints,
        "n_terms": ["array-like", Interval(Integral, 1, None, closed="left")],
        "tau": ["array-like", Interval(Real, 0, None, closed="right")],
        "stop": [StrOptions({"gcv"}), None],
    }
    _plain: ClassVar[Member] = ProjectionPursuitRegressor
    _choices: ClassVar[dict[str, str]] = {"n_terms": "n_terms", "tau": "tau"}
    _in_one_fit: ClassVar[tuple[str, ...]] = ("tau",)

    def __init__(
        self,
        n_terms: int | Sequence[int] = 5,
        tau: float | Sequence[float] = (3.0, 10.0, 30.0, 100.0),
        *,
        cv: int = 5,
        scoring: str | None = None,
        one_standard_error: bool = False,
        smoother: str = "pspline",
        n_bases: int | None = None,
        penalty: str = "scale-free",
        refit: bool = True,
        backfit: int = 1,
        stop: str | None = "gcv",
        standardize: bool = True,
        tol: float = 1e-4,
        random_state: int = 0,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self._store(locals())
