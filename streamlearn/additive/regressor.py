"""The additive regressor: numbers, counts and amounts."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import ClassVar, Literal, Self, overload

import numpy as np
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..data.source import Chunk, Source
from ..estimator.base import StreamRegressor
from ..estimator.predicting import answer
from ..estimator.row_size import NUMBER_BYTES
from ..estimator.rows.inputs import is_dask
from ..numeric.bases.basis import Basis
from ..numeric.checks import check_integer
from ..numeric.links import LOG
from ..numeric.losses import Loss, Quantile
from ..numeric.targets import AMOUNT, COUNT, NUMBER, TOTAL
from ..passes.summary.summary import Summary
from .inspect.terms import AdditiveState
from .model import AdditiveModel
from .smooth.shape import Signs
from .stochastic.partial_fit import go_on
from .targets import (
    Adjustment,
    check_exposures,
    check_targets,
    column_of,
    exposures,
    find_column,
    names_of,
)

INTERVAL_ROWS = 1 << 16
"""Rows whose intervals are made at once."""
TARGETS = (NUMBER, COUNT, TOTAL, AMOUNT)
"""Kinds of target that a regressor's loss may have."""


class AdditiveRegressor(AdditiveModel, StreamRegressor):
    """Regressor whose prediction is a sum of a smooth curve a column, and of pairs of columns.

        minimise  1/2 w'Pw + 1/2 b^2/B^2 + C sum_i s_i l(y_i, f(x_i)),   f(x) = b + sum_d f_d(x_d)

    for targets less their weighted mean; counts and amounts have the mean m e^f, m their mean.  The
    squared error without pairs takes two reads, the summary and one Gram of all rows, to the exact
    optimum; where the Gram is too large for every lane to have one, Newton reads a few more.

    Parameters
    ----------
    loss : {"squared_error", "epsilon_insensitive", "squared_epsilon_insensitive", "huber", \
"poisson", "negative_binomial", "gamma", "tweedie", "quantile"} or Loss, default="squared_error"
        r^2, max(0, |r| - epsilon), its square, and r^2/2 inside epsilon and linear beyond, of the
        residual r; half the deviance of counts ("poisson", and "negative_binomial" of those that
        vary more), of amounts above 0 ("gamma") and of totals, which may be 0 ("tweedie"), the
        logarithm of whose mean f models; q r above 0 and (q - 1) r below, so that f is the
        q-quantile ("quantile"); or an instance of your own subclass of
        ``streamlearn.numeric.losses.Loss``.
    epsilon : float, default=0.1
        Of the losses with a band or a corner, in units of the target.
    power : float, default=1.5
        Of "tweedie": the variance goes as the mean to this power, between 1 (counts) and 2 (gamma),
        both excluded.
    dispersion : float, default=1.0
        Of "negative_binomial": the variance of a count is m + dispersion m^2, m its mean; it is
        given, not fitted.
    quantile : float or list of float, default=0.5
        Of "quantile": the share q of the targets that lie below f, between 0 and 1.  Several, which
        ascend, are fitted in the same reads, each by itself; predictions of a row are put in order,
        so that they do not cross.
    solver : {"auto", "newton", "dual-cd", "lbfgs", "pegasos"}, default="auto"
        As in `AdditiveClassifier`.  "dual-cd": losses of the residual; "pegasos":
        epsilon_insensitive, huber and quantile.
    exposure : str or int, default=None
        Column of X whose values multiply the mean of counts or amounts; it has no curve.  Not of
        "negative_binomial", nor an offset.
    offset : str or int, default=None
        Column of X whose values are added to f (under the log link: to the mean's logarithm); it
        has no curve.
    C, n_bases, basis, degree, penalty_order, penalty_scale, knots, missing, max_levels, encoding, \
interactions, intercept_scaling, tol, max_passes, \
early_stopping, warm_start, smoothness, select, covariance, monotone, convex, random_state
        As in `AdditiveClassifier`.

    Attributes
    ----------
    coef_ : (1, dim) float64; (K, dim) of K quantiles
    intercept_ : (1,) float64; (K,) of K quantiles
    bases_, pair_tables_, n_features_in_, feature_names_in_, certificate_, history_, n_passes_, \
edits_, merged_, smoothing_, effective_dof_, scale_, line_smoothing_
        As in `AdditiveClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressor
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> model = AdditiveRegressor(C=100).fit(X, np.sin(6 * X[:, 0]))
    >>> model.predict([[0.25]]).round(2), np.sin(1.5).round(2)
    (array([1.]), np.float64(1.0))
    """

    epsilon: float
    power: float
    dispersion: float
    quantile: float | Sequence[float]
    exposure: str | int | None
    offset: str | int | None
    _parameter_constraints: dict[str, list[object]] = {
        **AdditiveModel._parameter_constraints,
        "loss": [StrOptions(names_of(TARGETS)), Loss],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "power": [Interval(Real, 1, 2, closed="neither")],
        "dispersion": [Interval(Real, 1e-100, 1e100, closed="both")],
        "quantile": [Interval(Real, 0, 1, closed="neither"), list, tuple],
        "exposure": [str, Interval(Integral, 0, None, closed="left"), None],
        "offset": [str, Interval(Integral, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        loss: str | Loss = "squared_error",
        *,
        C: float | None = None,
        n_bases: int | str = "auto",
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
        quantile: float | Sequence[float] = 0.5,
        solver: str = "auto",
        exposure: str | int | None = None,
        offset: str | int | None = None,
        intercept_scaling: float = 1.0,
        tol: float = 1e-4,
        max_passes: int = 100,
        early_stopping: bool = False,
        warm_start: bool = False,
        smoothness: str | None = None,
        select: bool = False,
        covariance: bool = False,
        monotone: Signs | None = None,
        convex: Signs | None = None,
        random_state: int = 0,
    ) -> None:
        self._store(locals())

    _targets = TARGETS
    _later_parameters: ClassVar[dict[str, object]] = {
        **AdditiveModel._later_parameters,
        "power": 1.5,
        "dispersion": 1.0,
        "quantile": 0.5,
    }
    _column_of_mean = -1
    """Number of the column of exposures or offsets; -1: there is none."""

    @property
    def _levels(self) -> Sequence[float]:
        if self.loss != Quantile.name or not isinstance(self.quantile, Sequence):
            return ()
        levels = list(self.quantile)
        known = all(isinstance(q, Real) and 0 < q < 1 for q in levels)
        if len(levels) < 2 or not known or (np.diff(np.array(levels, float)) <= 0).any():
            raise ValueError(
                f"quantile={self.quantile!r} must be a number between 0 and 1, or at least two of "
                "them that ascend, such as [0.1, 0.5, 0.9]"
            )
        return [float(q) for q in levels]

    def _adjustment(self, dataset: Source, summary: Summary) -> Adjustment:
        loss, column = self._loss, -1
        check_targets(loss, summary.target, dataset.kind)
        for name, given in (("exposure", self.exposure), ("offset", self.offset)):
            if given is not None and loss.rescaled(2.0) != loss:
                raise ValueError(
                    f"{name}={given!r} was given with loss={loss.name!r}, whose "
                    f"{' and '.join(loss._fields)} would be another one in each row; use "
                    "loss='poisson', or fit y / exposure with sample_weight=exposure: counts of "
                    "variance exposure (m + dispersion m^2)"
                )
        if self.exposure is not None:
            if loss.link is not LOG:
                raise ValueError(
                    f"exposure={self.exposure!r} goes with loss='poisson', 'tweedie' or 'gamma', "
                    f"got loss={self.loss!r}; use offset, which is added to the prediction"
                )
            if self.offset is not None:
                raise ValueError(
                    "exposure and offset were both given; add the exposure's logarithm to the "
                    "offset"
                )
            column = find_column(self, "exposure", self.exposure, dataset)
            check_exposures(self.exposure, summary.columns[column], dataset.kind)
        elif self.offset is not None:
            column = find_column(self, "offset", self.offset, dataset)
        self._column_of_mean = column
        known = Adjustment(loss, column, self.exposure is not None)
        return known._replace(mean=float(known.link.mean(self._target_mean(summary, known))))

    def _decides_with(self, other: Self) -> None:
        self._column_of_mean = other._column_of_mean

    def _target_mean(self, summary: Summary, adjustment: Adjustment) -> float:
        mean, column = float(summary.target.mean), adjustment.column
        given = float(summary.columns[column].mean) if column >= 0 else 0.0
        link = adjustment.link
        if adjustment.exposure:
            return float(link.decision(mean / given))
        # under the log link log(mean e^-given), with one rounding
        return float(np.log(mean * np.exp(-given))) if link is LOG else mean - given

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        f = super()._decision_chunk(chunk)
        known = Adjustment(self._loss, self._column_of_mean, self.exposure is not None)
        if known.link is LOG:
            scaled: np.ndarray = known.link.mean(f) * exposures(known, chunk)
            return scaled
        if f.ndim == 2:  # the rearrangement of Chernozhukov et al. 2010: no worse, and in order
            f.sort(axis=1)
        if known.column >= 0:
            f += column_of(chunk, known.column).reshape(-1, *[1] * (f.ndim - 1))
        return f

    def _decision_row_nbytes(self, dataset: Source) -> float:
        # beside sums of terms the means, exposures or offsets
        beside = 2 if self._loss.link is LOG else int(self._column_of_mean >= 0)
        return super()._decision_row_nbytes(dataset) + beside * NUMBER_BYTES

    def _deviation_chunk(self, chunk: Chunk) -> np.ndarray:
        deviation = super()._deviation_chunk(chunk)
        if self._loss.link is LOG:  # to first order
            deviation *= self._decision_chunk(chunk)
        return deviation

    @overload
    def predict(self, X: object, *, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: object, *, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: object, *, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean of each row, with its standard deviation if that is wanted.

        The deviation is that of the mean, by the Bayesian covariance of the coefficients; counts
        and amounts have it to first order.  It takes a model with `smoothness` or
        ``covariance=True``.

        Parameters
        ----------
        X : anything `fit` takes
        return_std : bool

        Returns
        -------
        array of shape (n,), or two of them; of K quantiles (n, K), which ascend in each row
            Lazy dask arrays for a dask collection.
        """
        if not return_std:
            mean: np.ndarray = answer(self, X, "prediction")
            return mean
        both = answer(self, X, "uncertainty")
        return both[:, 0], both[:, 1]

    def predict_interval(
        self, X: object, coverage: float = 0.95, *, of: str = "mean"
    ) -> np.ndarray:
        """The interval around each row's prediction that holds its mean, or its target.

        Parameters
        ----------
        X : anything `fit` takes
        coverage : float
            How often, on average over the rows, the mean (or the target) is inside.
        of : {"mean", "target"}
            "target": of a new row of weight 1, with ``loss="squared_error"`` and errors that are
            normal with one variance, `scale_`.

        Returns
        -------
        array of shape (n, 2), lower and upper ends
        """
        check_is_fitted(self)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage} must lie between 0 and 1, such as 0.95")
        if of not in ("mean", "target"):
            raise ValueError(f"of={of!r} is not known; use 'mean' or 'target'")
        if of == "target" and not self._loss.quadratic:
            raise ValueError(
                f"of='target' knows how targets spread with loss='squared_error' alone, got "
                f"{self.loss!r}; use of='mean'"
            )
        own = np.zeros(1) if of == "mean" else np.atleast_1d(self.scale_)
        how = float(ndtri(0.5 + 0.5 * coverage)), float(own[0]), self._loss.link is LOG
        both = answer(self, X, "uncertainty")
        if is_dask(both):
            return both.map_blocks(_ends, *how)
        for first in range(0, len(both), INTERVAL_ROWS):  # in place: the answer may fill the budget
            part = both[first : first + INTERVAL_ROWS]
            part[:] = _ends(part, *how)
        return both

    def _explain_chunk(self, chunk: Chunk) -> np.ndarray:
        terms = super()._explain_chunk(chunk)
        d = self._column_of_mean
        if d >= 0:
            terms[:, d] = column_of(chunk, d).reshape(-1, *[1] * (terms.ndim - 2))
            if self.exposure is not None:
                with np.errstate(divide="ignore"):  # no exposure, no counts
                    terms[:, d] = np.log(terms[:, d])
        return terms

    def partial_fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        n_rows: float | None = None,
        shuffle_buffer: int | None = None,
    ) -> Self:
        """Go on learning from rows that are looked at once, as `AdditiveClassifier.partial_fit`.

        Only for ``loss="epsilon_insensitive"``, ``"huber"`` or ``"quantile"``.
        Each call is planned within the memory budget; a saved model goes on where it was.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        n_rows : float, optional
            Rows, by weight, that C counts on; default: those of the first call.
        shuffle_buffer : int, optional
            As in `AdditiveClassifier.partial_fit`.

        Returns
        -------
        self
        """
        self._refuse_edits("partial_fit")
        go_on(self, X, y, sample_weight, None, n_rows, shuffle_buffer)
        return self

    def _state(self) -> dict[str, object]:
        return super()._state() | {"column_of_mean": self._column_of_mean}

    def _restore(self, tree: AdditiveState) -> None:
        super()._restore(tree)
        check_integer("column_of_mean", tree["column_of_mean"], -1, self.bases_.n_columns - 1)
        self._column_of_mean = tree["column_of_mean"]


def _ends(both: np.ndarray, width: float, scale: float, is_log: bool) -> np.ndarray:
    """(m, 2) the ends of intervals around means, from the means and their deviations (m, 2).

    `width` in deviations; `scale`: the variance of a target about its mean, or 0 for the mean's own
    interval; `is_log`: means whose logarithm is modelled.
    """
    mean, deviation = both.T
    reach = width * np.sqrt(deviation**2 + scale)
    if is_log:
        spread = np.exp(reach / mean)
        return np.column_stack([mean / spread, mean * spread])
    return np.column_stack([mean - reach, mean + reach])
