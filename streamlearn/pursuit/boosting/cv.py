"""Jensen-Shannon boosting that chooses its number of learners and tau by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from ...data.dataset import Dataset
from ...estimator.scores.choosing import ChoosesBySplits, Member
from ...estimator.scores.paths import Candidate
from .classifier import JensenShannonBoostClassifier


class JensenShannonBoostClassifierCV(ChoosesBySplits, JensenShannonBoostClassifier):
    """`JensenShannonBoostClassifier` with its number of learners and tau chosen by splits.

    The fit of a split grows the models of all tau in the same reads, and the models of fewer
    learners are its first learners with their own curve: those of fits that end there.  So a choice
    is cv fits of the largest number, a scoring read for each split, and the fit of the best to all
    rows.  A row's split is a hash of its number, as in `cross_validate` with this seed.

    A few held-out rows that are wrong and sure of it decide between means of log-losses, while the
    test of `JensenShannonBoostClassifier` has already ended its fit.  So where its own defaults are
    among the candidates they are taken, unless the best is better by more than a standard error
    of the difference, over the splits, whose variance is (1 / cv + 1 / (cv - 1)) that of the splits
    (Nadeau & Bengio 2003).

    Parameters
    ----------
    n_learners : int or list of int, default=(10, 30, 100)
    tau : float or list of float, default=30.0
        Several share the tables of a read: beyond 64 columns a search looks at fewer of them at
        once.
    cv : int, default=5
        Number of splits.
    scoring : str, optional
        "neg_log_loss" by default; or another metric of `score` of which more is better.
    one_standard_error : bool, default=False
        Take the first candidate (fewest learners, then the first tau) whose mean score is within
        one standard error of the best (Breiman et al. 1984).
    n_bins, shrinkage, smooth, stop, penalty, standardize, tol, random_state, class_weight, encoding
        As in `JensenShannonBoostClassifier`; `random_state` is the seed of the splits, too.

    Attributes
    ----------
    best_params_, best_index_, best_score_
        The choice, its place in `cv_results_`, and its mean score.
    cv_results_ : dict
        As `GridSearchCV` has it: "params", "param_n_learners", "param_tau", "split0_test_score",
        ..., "mean_test_score", "std_test_score", "rank_test_score".
    directions_, tau_, path_, classes_, certificate_, history_, n_passes_
        Of the final fit, as in `JensenShannonBoostClassifier`; reads are those of all fits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import JensenShannonBoostClassifierCV
    >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 5))
    >>> y = (X[:, :2] ** 2).sum(axis=1) < 0.6
    >>> model = JensenShannonBoostClassifierCV([1, 20], cv=2).fit(X, y)
    >>> model.best_params_
    {'n_learners': 20, 'tau': 30.0}
    """

    _parameter_constraints: dict[str, list[object]] = {
        **JensenShannonBoostClassifier._parameter_constraints,
        **ChoosesBySplits._choosing_constraints,
        "n_learners": ["array-like", Interval(Integral, 1, None, closed="left")],
        "tau": ["array-like", Interval(Real, 0, None, closed="right")],
    }
    _plain: ClassVar[Member] = JensenShannonBoostClassifier
    _choices: ClassVar[dict[str, str]] = {"n_learners": "n_learners", "tau": "tau"}
    _in_one_fit: ClassVar[tuple[str, ...]] = ("n_learners", "tau")
    # the fit's own test ends it: fewer learners need better evidence than luck
    _keeps_default: ClassVar[bool] = True

    def __init__(
        self,
        n_learners: int | Sequence[int] = (10, 30, 100),
        tau: float | Sequence[float] = 30.0,
        *,
        cv: int = 5,
        scoring: str | None = None,
        one_standard_error: bool = False,
        n_bins: int | None = None,
        shrinkage: float = 0.3,
        smooth: bool = True,
        stop: str | None = "significance",
        penalty: str = "scale-free",
        standardize: bool = True,
        tol: float = 1e-3,
        random_state: int = 0,
        class_weight: object = None,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self._store(locals())

    def _fit_without(self, parameters: Candidate, train: Dataset, checkpoint: str | None) -> Member:
        member = self._member(parameters)
        member._path_is_scored = True
        return member.fit(train, checkpoint=checkpoint)
