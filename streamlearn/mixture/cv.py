"""The mixture that chooses its number of components, its gate and C by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from ..estimator.scores.choosing import ChoosesBySplits, Member
from . import gate as gates
from .estimator import SVMMixtureClassifier

DEFAULT_COMPONENTS = (2, 5, 10)
"""Numbers of components that are tried by default."""


class SVMMixtureClassifierCV(ChoosesBySplits, SVMMixtureClassifier):
    """`SVMMixtureClassifier` with its number of components, its gate and C chosen by splits.

    EM of one candidate gives no model of another, so each candidate is fitted for each split with
    its own reads; all candidates of a split are scored in one read, and the best is fitted to all
    rows.  EM on the sample, where no row is read, does most of the work.  A row's split is a hash
    of its number, as in `cross_validate` with this seed.

    Parameters
    ----------
    n_components : int, tuple or list of them, optional
        Numbers of components to try, by default 2, 5 and 10; a tuple is one value, a tree of gates
        in two levels.
    gate : str or list of str, default="generative"
    Cs : float or list of float, default=1.0
        Values of C.
    cv : int, default=5
        Number of splits.
    scoring : str, optional
        "neg_log_loss" by default; or another metric of `score` of which more is better.
    one_standard_error : bool, default=False
        Take the first candidate (by components, then gate, then C, as they are written) whose mean
        score is within one standard error of the best (Breiman et al. 1984).
    expert_loss, tau, nu, scaling, n_init, tol, max_passes, random_state, class_weight, encoding
        As in `SVMMixtureClassifier`; `random_state` is the seed of the splits, too.

    Attributes
    ----------
    best_params_, best_index_, best_score_
        The choice, its place in `cv_results_`, and its mean score.
    cv_results_ : dict
        As `GridSearchCV` has it: "params", "param_n_components", "param_gate", "param_C",
        "split0_test_score", ..., "mean_test_score", "std_test_score", "rank_test_score".
    n_components_, weights_, coef_, intercept_, classes_, certificate_, history_, n_passes_
        Of the final fit, as in `SVMMixtureClassifier`; reads are those of all fits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import SVMMixtureClassifierCV
    >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 2))
    >>> y = (X**2).sum(axis=1) < 0.5
    >>> model = SVMMixtureClassifierCV([1, 6], gate="linear", Cs=100.0, cv=2, nu=1.0).fit(X, y)
    >>> model.best_params_
    {'n_components': 6, 'gate': 'linear', 'C': 100.0}
    """

    _parameter_constraints: dict[str, list[object]] = {
        **{
            name: value
            for name, value in SVMMixtureClassifier._parameter_constraints.items()
            if name not in ("C", "algorithm")
        },
        **ChoosesBySplits._choosing_constraints,
        "n_components": ["array-like", Interval(Integral, 1, None, closed="left"), None],
        "gate": ["array-like", StrOptions(set(gates.GATES))],
        "Cs": ["array-like", Interval(Real, 0, None, closed="neither")],
    }
    _plain: ClassVar[Member] = SVMMixtureClassifier
    _choices: ClassVar[dict[str, str]] = {
        "n_components": "n_components",
        "gate": "gate",
        "Cs": "C",
    }

    def __init__(
        self,
        n_components: object = None,
        *,
        gate: str | Sequence[str] = "generative",
        Cs: float | Sequence[float] = 1.0,
        cv: int = 5,
        scoring: str | None = None,
        one_standard_error: bool = False,
        expert_loss: str = "log_loss",
        tau: float | str = "scale",
        nu: float | str = "mml",
        scaling: str = "standard",
        n_init: int = 1,
        tol: float = 1e-5,
        max_passes: int = 100,
        random_state: int = 0,
        class_weight: object = None,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self._store(locals())

    def _tried(self, name: str) -> list[object]:
        """The values to try of one parameter."""
        if name == "n_components" and self.n_components is None:
            return list(DEFAULT_COMPONENTS)
        return super()._tried(name)
