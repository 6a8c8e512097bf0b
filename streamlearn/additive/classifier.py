"""The additive classifier: curves of columns and of pairs of columns, to a proved optimum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import StrOptions

from ..estimator.base import StreamClassifier
from ..estimator.rows.class_weights import CONSTRAINT
from ..numeric.bases.basis import Basis
from ..numeric.links import rest_probabilities, softmax_probabilities
from ..numeric.losses import Loss
from ..numeric.targets import CLASS
from ..solvers.calibration import METHODS, Calibration
from .inspect.terms import AdditiveState
from .model import AdditiveModel
from .multi_class import APART, AUTO_CLASSES, JOINT
from .objective import Problem
from .smooth.shape import Signs
from .stochastic.partial_fit import go_on
from .targets import names_of

TARGETS = (CLASS,)
"""Kinds of target that a classifier's loss may have."""


class AdditiveClassifier(AdditiveModel, StreamClassifier):
    """Classifier whose decision is a sum of a smooth curve a column, and of pairs of columns.

        minimise  1/2 w'Pw + 1/2 b^2/B^2 + C sum_i s_i l(y_i f(x_i)),   f(x) = b + sum_d f_d(x_d)

    (Maji 2012, with penalties scaled to the curves and terms centred), and of surfaces of two
    columns where `interactions` finds such.  More than two classes: one against the rest, all in
    the same reads, or one multinomial problem.  Reads 4 to 8 passes with ``solver="newton"`` (one
    more that looks for pairs), tens with ``"dual-cd"``.

    Parameters
    ----------
    loss : {"log_loss", "squared_hinge", "hinge"} or Loss, default="log_loss"
        log(1 + e^-z), max(0, 1-z)^2 and max(0, 1-z) of the margin z = y f; or an instance of your
        own subclass of ``streamlearn.numeric.losses.Loss``.
    C : float, optional
        Weight of the losses against the penalty.  Left out, `smoothness` says how each term is
        weighed; where nothing chooses it, C is 1.
    n_bases : int or "auto", default="auto"
        Splines per column; columns with no more distinct values than this get one per value.
        "auto": one for every 200 rows (of the first call of `partial_fit`), from 20 to 128, and as
        many above 20 as keep all coefficients to 724, whose matrix takes 4 MiB (to a matrix of a
        64th of a smaller budget).  What a curve cannot follow costs more than splines that the
        penalty holds.  Of a `basis` other than splines: 20.
    basis : {"bspline", "cosine", "trigonometric", "hermite"} or Basis, default="bspline"
        Of columns with more values than that.  The others (Maji 2012, Table 1) meet every row with
        every function, at `n_bases` products a value, and smooth where splines follow: "cosine" is
        half-range, "trigonometric" has a period, "hermite" takes the standardised column (with
        knots="quantile" its normal scores).  They need ``penalty_order`` 1 or 2.  Or an instance of
        your own subclass of ``streamlearn.numeric.bases.basis.Basis``.
    degree : {1, 2, 3}, default=1
        Of the splines: 1 gives broken lines.
    penalty_order : {0, 1, 2}, default=1
        Derivative that the penalty takes.
    penalty_scale : {"integral", "paper"}, default="integral"
        "integral": the penalty is close to the integral of the squared derivative over the
        column's range taken as [0, 1], so C means the same for any n_bases.  "paper": unscaled
        differences.
    knots : {"quantile", "uniform"}, default="quantile"
    missing : {"level", "error"}, default="level"
        NaN in a column is a level of its own, learned like the curve beside it; a column that has
        none in training takes none later.  "error": refused.
    max_levels : int, default=255
        Most categories of a column of strings, dictionaries or pandas categories that have a level
        each.  Those not seen in training, and missing ones, share one more.
    encoding : dict, optional
        "levels" or "target" of a column of categories, "cyclic" or "number" of dates and times,
        "number", "target" or a period of numbers, by the column's name.  Left out: a column of at
        most `max_levels` categories has "levels", one of more has "target", which reads it once or
        twice more: a curve of the target's mean among the rows of the category (of several classes
        one each), shrunk and without the row's own part, and one of the logarithm of their number.
        "levels" of more than `max_levels`: the most frequent have one each, all others share one.
        Dates are "cyclic": a curve of the year, and one each of the hour, the weekday and the day
        of the year that ends where it begins.  These terms are called ``column=mean``,
        ``column=count``, ``column=hour``, ``column=weekday`` and ``column=yearday``; `encoding_`
        makes them.  A number is the period of a column of numbers, whose curve then ends where it
        begins: ``{"hour": 24}``.
    interactions : int, "auto" or list of pairs of int or str, default="auto"
        Pairs of columns, by number or name, that get a term of both, fitted jointly with the
        curves: bilinear between 8 x 8 quantiles (Eilers & Marx 2003), of categories all levels, of
        missing values a level of their own; at most 1,024 functions a pair.  Their means along
        each column then move into its curve, which changes no decision.  Where neither `C` nor
        `smoothness` is given, a sample chooses how much each curve and each pair of a smooth loss
        is smoothed, and pairs that gain by it have up to 32 x 32 quantiles.  Dense rows, splines of
        degree 1, no `smoothness`, `select`, `monotone` or `convex`, no `warm_start` or
        `partial_fit`, and one read more.
        An integer takes at most so many pairs: those whose tables of slopes and
        curvatures in bins promise most beyond effects of single columns (Lou et al. 2013), none
        that noise may give at a level of 1 %, of pairs of at most 256 functions, from one more read
        of a share of the rows.  With more than about 250 columns those of the largest main effects
        are screened.
        "auto" takes at most 10 in this way, and none where these parameters or the table exclude
        them, where there are fewer than 4,200 rows, the loss is not smooth, single rows are visited
        (dual-cd, pegasos), curves have more than 8,000 coefficients, C is chosen by splits, or the
        budget does not hold them: `plan` and the certificate say why, and the fit is that of 0.
        Where it finds none and neither C nor smoothness is given, all rows choose the smoothness.
    solver : {"auto", "newton", "dual-cd", "lbfgs", "pegasos"}, default="auto"
        "newton" has few reads and holds 8 dim^2 bytes; smooth losses only.  "lbfgs" has more reads
        and holds no matrix.  Both keep the rows in memory, as large as they are read, and take no
        more than two reads from the store, where the budget has room for that.  "dual-cd" holds
        8 dim bytes and 4 to 8 a row on disk.  "pegasos" (hinge and log_loss) is averaged mini-batch
        descent: near the optimum in a pass or two if C is small, far from a small `tol` in many.
        "auto" takes Newton where it fits, else "dual-cd"; for log_loss of dense rows in memory also
        where "dual-cd" is predicted to be far faster, from shape and parameters alone.
    multi_class : {"auto", "ovr", "multinomial"}, default="auto"
        Of more than two classes: one curve a class against the rest, each a problem of its own, or
        ``loss="log_loss"`` of their softmax, one problem of all by ``solver="lbfgs"``.  "auto": the
        latter, whose probabilities are better, but for what takes one class at a time: another
        loss or solver, `smoothness` (also where it is chosen with nothing set), `covariance`,
        `calibration`, `partial_fit`, sparse rows or pairs of more coefficients than Newton solves
        for, and where half of the budget does not hold what it takes.  `multi_class_` says which it
        was, the certificate why.  Two classes are one curve either way.
    class_weight : None, "balanced" or dict, default=None
        Factors of the rows' weights, by class; "balanced": inversely as their counts.  Classes that
        a dict does not name count 1.
    intercept_scaling : float, default=1.0
        B; the larger, the less the intercept is held to 0.
    tol : float, default=1e-4
        On the relative duality gap.
    max_passes : int, default=100
        Most reads of the data, the summary included.
    early_stopping : bool, default=False
        Stop, and go back, when the loss on `validation` falls no more.
    warm_start : bool, default=False
        Go on from the last fit: its bases and its coefficients ("newton" and "lbfgs"); of the
        squared error, whose one read needs no start, the bases alone.
    smoothness : {None, "reml", "gcv"}, default=None
        How much each term is smoothed. None: C says it, for all alike; and if C is left out too,
        "reml" where it is cheap: a smooth loss of one output at a time, `solver` "auto" or
        "newton", no pairs, `monotone`, `convex`, `early_stopping` or `warm_start`, 4,200 rows or
        more, a curvature of all outputs (8 K dim^2 bytes) of at most 4 MiB, and a budget of
        64 times that. Elsewhere it is None with C = 1; but beside pairs, on the other
        conditions and with any `solver`, the penalty of each curve, not of pairs, is multiplied by
        the weight that "reml" gives it on the sample of the rows, main effects alone. "reml": each
        term (of each class) has a weight of its own in the objective, 1/2 sum_d lambda_d w_d'P_d
        w_d + sum_i s_i l(y_i f(x_i)), the one of largest restricted likelihood, by Newton's
        steps (Wood 2011), or where one would lower it a generalised Fellner-Schall update (Wood &
        Fasiolo 2017); "gcv": of least generalised cross-validation.  Newton's method with the
        curvature of all rows, so each read also sums up 8 K dim^2 bytes a lane; the reads are about
        as few for two classes, and two or three times as many for several.
    select : bool, default=False
        With `smoothness`: each term may vanish.  With ``penalty_order=2`` its straight line, which
        is else all but free, has a penalty of its own (Marra & Wood 2011); the penalties of lower
        orders take in all of a term in any case.
    covariance : bool, default=False
        Know the covariance of the coefficients, for bands, tests and `summary_table`: one more
        read, which takes the curvature of all rows.  With `smoothness` it is known without.  Terms
        of two columns have what is left of it once their means are in the curves.
    monotone : dict, optional
        Column (name or number) -> 1 if its curve may only rise, -1 if only fall.  Exact at degree
        1, at higher degrees by rising coefficients, which is enough.  Newton's method with the
        curvature of all rows, splines and two classes only; the certificate proves the optimum
        among such curves.
    convex : dict, optional
        Column -> 1 if its curve is to be convex, -1 concave.  With ``degree=1``, or 2 and
        ``knots="uniform"``.
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
    pair_tables_ : list of PairTable
        The terms of two columns, with the density of the training rows on each.
    multi_class_ : {"ovr", "multinomial"}
        Way in which the classes were fitted; of two classes "ovr".
    calibration_ : Calibration
        With `calibration` only.
    smoothing_, effective_dof_, scale_, line_smoothing_
        With `smoothness` or `covariance`: weight and degrees of freedom of each term.
    classes_, n_features_in_, feature_names_in_
    edits_ : list of dict
        Record of what `edit` changed, in its order; empty after a fit.
    merged_ : list of dict
        Record of the fits that `merge` joined; empty after a fit.
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
    >>> model = AdditiveClassifier().fit(X, abs(X[:, 0]) > 0.5)
    >>> model.predict([[-0.9], [0.0], [0.9]])
    array([ True, False,  True])
    >>> round(model.score(X, abs(X[:, 0]) > 0.5), 2)
    1.0
    """

    class_weight: object
    calibration: str | None
    multi_class_: str
    _parameter_constraints: dict[str, list[object]] = {
        **AdditiveModel._parameter_constraints,
        "loss": [StrOptions(names_of(TARGETS)), Loss],
        "multi_class": [StrOptions({AUTO_CLASSES, APART, JOINT})],
        "class_weight": CONSTRAINT,
        "calibration": [None, StrOptions(set(METHODS))],
    }

    def __init__(
        self,
        loss: str | Loss = "log_loss",
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
        solver: str = "auto",
        multi_class: str = "auto",
        class_weight: object = None,
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
        calibration: str | None = None,
        random_state: int = 0,
    ) -> None:
        self._store(locals())

    _targets = TARGETS

    @property
    def _is_joint(self) -> bool:
        return self.multi_class_ == JOINT

    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None:
        super()._keep(problem, theta, means)
        self.multi_class_ = JOINT if problem.joint else APART

    def _state(self) -> dict[str, object]:
        return super()._state() | {"multi_class": self.multi_class_}

    def _restore(self, tree: AdditiveState) -> None:
        super()._restore(tree)
        K = len(self.classes_)
        asked = JOINT if self._asks_joint and K > 2 else APART
        way = tree.get("multi_class", asked)  # older files do not say it
        if way != APART and (way != JOINT or K == 2 or not self._loss.multinomial):
            raise ValueError(f"the way of {K} classes is {way!r}")
        self.multi_class_ = way

    def partial_fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        classes: npt.ArrayLike | None = None,
        n_rows: float | None = None,
        shuffle_buffer: int | None = None,
    ) -> Self:
        """Go on learning from rows that are looked at once: averaged mini-batch PEGASOS.

        Only for ``loss="hinge"`` or ``"log_loss"``.  The first call fixes knots and centres.
        Each call is planned within the memory budget; a saved model goes on where it was.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        classes : array-like, needed in the first call
            All labels that will come.
        n_rows : float, optional
            Rows, by weight, that C counts on: those of the whole stream.  Default: those of the
            first call.  Later calls do not change it.
        shuffle_buffer : int, optional
            Rows that wait in memory, for a stream that comes in an order: with so many a half of
            them, drawn by `random_state`, is learned from.  A saved model holds those that wait.
            Later calls go on with it; 0 in one of them, the last, learns from all that wait.  How
            rows after the first call's are cut into calls then does not change a bit.

        Returns
        -------
        self
        """
        self._refuse_edits("partial_fit")
        go_on(self, X, y, sample_weight, classes, n_rows, shuffle_buffer)
        return self

    def _check_probability(self) -> None:
        if self._loss.link is None and self.calibration is None:
            raise AttributeError(
                f"loss={self.loss!r} gives no probabilities; use loss='log_loss', "
                "calibration='sigmoid' or decision_function"
            )

    def _probability(self, decision: np.ndarray) -> np.ndarray:
        if hasattr(self, "calibration_"):
            calibration: Calibration = self.calibration_
            return calibration.probability(decision)
        if self._is_joint:
            return softmax_probabilities(decision)
        link = self._loss.link
        assert link is not None  # `_check_probability` refuses others
        return rest_probabilities(decision, link.mean)
