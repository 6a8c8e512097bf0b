"""ShareBoost that chooses its number of columns and its ridge by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from ..estimator.scores.choosing import ChoosesBySplits, Member
from .estimator import ShareBoostClassifier


class ShareBoostClassifierCV(ChoosesBySplits, ShareBoostClassifier):
    """`ShareBoostClassifier` with its number of columns and its ridge chosen by splits.

    The models of all numbers come from one fit: they are the points of its greedy path, whose
    corrections before the last are less exact than those of a fit that ends there (a hundredth of
    what the round gained).  So a choice is cv fits of the largest number for each ridge, a scoring
    read for each split, and the fit of the best to all rows.  A row's split is a hash of its
    number, as in `cross_validate` with this seed.

    Parameters
    ----------
    n_selected : int or list of int, default=(1, 2, 5, 10, 20, 40)
    ridge : float, "auto" or list of them, default="auto"
    cv : int, default=5
        Number of splits.
    scoring : str, optional
        "neg_log_loss" by default; or another metric of `score` of which more is better.
    one_standard_error : bool, default=False
        Take the first candidate (fewest columns, then the first ridge) whose mean score is within
        one standard error of the best (Breiman et al. 1984).
    candidates, rule, groups, mixed_norm, sharpness, columns_per_pass, prune, n_anchors, n_radii, \
tol, random_state, class_weight, encoding
        As in `ShareBoostClassifier`; `random_state` is the seed of the splits, too.

    Attributes
    ----------
    best_params_, best_index_, best_score_
        The choice, its place in `cv_results_`, and its mean score.
    cv_results_ : dict
        As `GridSearchCV` has it: "params", "param_n_selected", "param_ridge", "split0_test_score",
        ..., "mean_test_score", "std_test_score", "rank_test_score".
    coef_, intercept_, choices_, support_, columns_, path_, classes_, certificate_, history_, \
n_passes_
        Of the final fit, as in `ShareBoostClassifier`; reads are those of all fits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import ShareBoostClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 20))
    >>> y = X[:, 7] + X[:, 12] + rng.standard_normal(400) > 0
    >>> model = ShareBoostClassifierCV([1, 2, 4, 8], ridge=1e-3, cv=3).fit(X, y)
    >>> model.best_params_, model.support_
    ({'n_selected': 2, 'ridge': 0.001}, array([ 7, 12]))
    """

    _parameter_constraints: dict[str, list[object]] = {
        **ShareBoostClassifier._parameter_constraints,
        **ChoosesBySplits._choosing_constraints,
        "n_selected": ["array-like", Interval(Integral, 1, None, closed="left")],
        "ridge": ["array-like", StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    }
    _plain: ClassVar[Member] = ShareBoostClassifier
    _choices: ClassVar[dict[str, str]] = {"n_selected": "n_selected", "ridge": "ridge"}
    _in_one_fit: ClassVar[tuple[str, ...]] = ("n_selected",)

    def __init__(
        self,
        n_selected: int | Sequence[int] = (1, 2, 5, 10, 20, 40),
        *,
        ridge: float | str | Sequence[float | str] = "auto",
        cv: int = 5,
        scoring: str | None = None,
        one_standard_error: bool = False,
        candidates: str = "columns",
        rule: str = "scale-free",
        groups: object = None,
        mixed_norm: float = 0.0,
        sharpness: float = 10.0,
        columns_per_pass: int | str = "auto",
        prune: bool = False,
        n_anchors: int = 100,
        n_radii: int = 8,
        tol: float = 1e-7,
        random_state: int = 0,
        class_weight: object = None,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self._store(locals())
