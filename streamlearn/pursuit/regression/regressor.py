"""Sparse projection pursuit regression (SpPPR)."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ...data.source import Chunk
from ...engine.plan import Needs
from ...estimator.base import StreamRegressor
from ...estimator.certificate import Certificate
from ...numeric.checks import check_number, check_records
from ...numeric.huge_pages import resident
from ...passes.summary.summary import Summary
from ..answers import loss_fold, predict_rows
from ..columns import block_nbytes, make_columns
from ..kernels import ScaledColumns
from ..model import GRID_POINTS, PursuitModel, check_tau, drive, unit_length
from ..search import N_TRIALS
from ..tables import table_room, table_share
from .growing import Grown, LossAsk, Settings, grow
from .reads import Term, ridge_fold
from .smoothers import PSpline
from .supsmu import SuperSmoother

N_BASES = {"pspline": 16, "supsmu": 256}


class ProjectionPursuitRegressor(PursuitModel, StreamRegressor):
    """Regressor whose prediction is a sum of smooth functions of sparse projections.

        f(x) = b + sum_j f_j(alpha_j'z),    z the standardised columns

    Terms are found one by one (Zhang, Liang, Tang & Shum 2009, Table 3): the direction by greedy
    coordinate search (Table 2) on

        cost(alpha) + lambda_j ||alpha||_1 / ||alpha||_2,    lambda_j = sum w r^2 / tau

    where the cost is the GCV cost of a smooth function of alpha'z through the residuals r, with
    log(n)/2 for each degree of freedom, as many directions are compared.  (The paper's ||alpha||_1
    is defeated by shrinking alpha, which the smoother undoes.)  Of the penalty a column more has at
    least what the extended BIC charges for it (Chen & Chen 2008; at most lambda_j).  Each read
    measures the best steps exactly and scores all steps for the next, of up to 64 columns (of more,
    of those in use and the steepest, 32 in all; by half a million rows, where there are more): a
    term takes at most 2 + moves reads, and its cost falls with every move.

    Parameters
    ----------
    n_terms : int, default=5
        Most terms.
    tau : float or sequence of float, default=30.0
        The smaller, the sparser; ``float("inf")`` is plain projection pursuit.  A sequence trains
        all of them in shared reads and keeps the one of least validation loss, or GCV cost.
    smoother : {"pspline", "supsmu"}, default="pspline"
        "pspline": cubic splines, their second differences penalised (Eilers & Marx 1996).
        "supsmu": running lines whose span is chosen at each point (Friedman 1984), through the mean
        residuals of rows binned by their projection; for functions that bend more in one place than
        in another.  Its degrees of freedom in the GCV cost are the trace of the lines used.
    n_bases : int, optional
        Cubic splines of a ridge function (default 16), or bins of "supsmu" (default 256); at
        least 5.
    penalty : {"scale-free", "paper"}, default="scale-free"
        "paper": ||alpha||_1 as printed.
    refit : bool, default=True
        Fit all ridge functions together after each term; it costs no read.
    backfit : int, default=1
        How often, at the end, each direction is searched again from where it is, with the residuals
        of the other terms (eq. 9); kept if the GCV cost falls.
    stop : {"gcv", "validation", None}, default="gcv"
        No more terms when the GCV cost of the model (or the loss of `validation`) falls no more.
    standardize : bool, default=True
        Search on columns of unit deviation; False: in the columns' own units.
    tol : float, default=1e-4
        A move must promise to lower the cost by this share of sum w r^2; a term, its GCV cost.
    random_state : int, default=0
        Of the sample of rows from which a term's first column is guessed.

    Attributes
    ----------
    directions_ : (J, n_features) float64
        alpha_j in the units of the standardised columns, of unit length.
    intercept_ : float
    tau_ : float
        The strength that was kept.
    path_ : list of dict
        For each tau: ``tau``, ``n_terms``, ``n_zeros``, ``gcv``, ``validation_loss``.
    n_features_in_, feature_names_in_, certificate_, history_, n_passes_
        ``history_`` has one record per term and tau, with the costs after each move.

    Notes
    -----
    Values beyond a column's 0.1 % and 99.9 % quantiles are taken as these, here and in
    predictions.  A ridge function is constant outside the range of its projections.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import ProjectionPursuitRegressor
    >>> X = np.random.default_rng(0).random((500, 5))
    >>> model = ProjectionPursuitRegressor(n_terms=2).fit(X, X[:, 0] * X[:, 1])
    >>> np.flatnonzero(model.directions_.any(axis=0)).tolist()
    [0, 1]
    """

    _parameter_constraints: dict[str, list[object]] = PursuitModel._parameter_constraints | {
        "n_terms": [Interval(Integral, 1, None, closed="left")],
        "smoother": [StrOptions({"pspline", "supsmu"})],
        "n_bases": [Interval(Integral, 5, None, closed="left"), None],
        "refit": ["boolean"],
        "backfit": [Interval(Integral, 0, None, closed="left")],
        "stop": [StrOptions({"gcv", "validation"}), None],
    }

    def __init__(
        self,
        n_terms=5,
        tau=30.0,
        *,
        smoother="pspline",
        n_bases=None,
        penalty="scale-free",
        refit=True,
        backfit=1,
        stop="gcv",
        standardize=True,
        tol=1e-4,
        random_state=0,
    ):
        self.n_terms = n_terms
        self.tau = tau
        self.smoother = smoother
        self.n_bases = n_bases
        self.penalty = penalty
        self.refit = refit
        self.backfit = backfit
        self.stop = stop
        self.standardize = standardize
        self.tol = tol
        self.random_state = random_state

    def _needs(self, dataset: Any, summary: Summary | None = None) -> list[Needs]:
        M, T, smoother = dataset.n_features, len(check_tau(self.tau)), self._make_smoother()
        n = smoother.n_bases
        room = table_room(M, T)
        trials = 8 * n * (N_TRIALS * 5 + n * self.n_terms)
        state = T * (resident(room * (64 << 10)) + trials + 8 * M)
        # the block's own rows: projections, residuals, pairs, one dense block of sparse rows
        block = block_nbytes(dataset, 14 + self.n_terms)
        cells = 4096 * 8 * 8
        joint = smoother.entry_nbytes * (n * self.n_terms) ** 2
        driver = state + T * joint + room * cells
        model = T * self.n_terms * 8 * (M + n) + M * 8 * 70
        reads = self.n_terms * (1 + self.backfit) * (4 * M + 18)
        fits = 40 * smoother.fit_nbytes
        return [Needs("search", state + block, 0, driver + fits, model, passes=(1, reads))]

    def _fit(self, run, dataset, summary, validation=None, sample=None) -> Certificate:
        if self.stop == "validation" and validation is None:
            raise ValueError(
                "stop='validation' needs rows to validate on; call fit(..., validation=0.1), or "
                "use stop='gcv'"
            )
        taus = check_tau(self.tau)
        columns = make_columns(summary, self.standardize)
        settings = Settings(
            columns,
            float(summary.labels.mean),
            self.n_terms,
            self._make_smoother(),
            self.penalty,
            self.refit,
            self.backfit,
            self.stop,
            self.tol,
            len(taus),
            table_share(summary.n_rows),
        )

        def read(number: int, asked: list[tuple[int, Any]]) -> list[Any]:
            losses = [ask for _, ask in asked if isinstance(ask, LossAsk)]
            searches = tuple(ask for _, ask in asked if not isinstance(ask, LossAsk))
            answers: dict[bool, Any] = {}
            if searches:
                fold = ridge_fold(columns, searches)
                answers[False] = iter(run.fold(fold, dataset, name=f"search-{number}"))
            if losses:
                fold = loss_fold(columns, losses)
                answers[True] = iter(run.fold(fold, validation, name=f"validation-{number}"))
            return [next(answers[isinstance(ask, LossAsk)]) for _, ask in asked]

        path = drive(read, [grow(settings, tau, sample, validation is not None) for tau in taus])
        for grown in path:
            for record in grown.history:
                run.record(**record)
        self._columns, self._taus, self._path = columns, taus, path
        self._losses = [g.validation_loss if validation is not None else g.gcv for g in path]
        best = int(np.argmin(np.nan_to_num(self._losses, nan=np.inf)))
        self._choose(taus[best])
        chosen = path[best]
        return Certificate(
            converged=chosen.converged,
            objective=chosen.gcv,
            criterion="GCV cost per row",
            tolerance=float(self.tol),
            solver="informative feature first",
            reason="no step promises a lower cost" if chosen.converged else "most moves were made",
        )

    def _make_smoother(self) -> PSpline | SuperSmoother:
        kind = {"pspline": PSpline, "supsmu": SuperSmoother}[self.smoother]
        return kind(self.n_bases or N_BASES[self.smoother])

    def _check(self, grown: Any, columns: ScaledColumns) -> None:
        if not isinstance(grown, Grown):
            raise ValueError(f"a model of the path is a {type(grown).__name__}")
        check_number("intercept", grown.intercept)
        check_records("terms", grown.terms, Term)
        for alpha, low, high, theta, smoother in grown.terms:
            if not isinstance(smoother, PSpline | SuperSmoother):
                raise ValueError(f"a smoother is a {type(smoother).__name__}")
            columns.check_function(alpha, low, high, theta, 4 if type(smoother) is PSpline else 1)

    def _keep(self, grown: Grown) -> None:
        self._terms, self.intercept_ = grown.terms, grown.intercept

    @property
    def _alphas(self) -> list[np.ndarray]:
        return [term.alpha for term in self._terms]

    @property
    def _weights(self) -> list[float]:
        return [float(piece["values"].std()) for piece in self.pieces_]

    @property
    def directions_(self) -> np.ndarray:
        """(J, n_features) directions of unit length."""
        return np.array(list(map(unit_length, self._alphas))).reshape(-1, self.n_features_in_)

    @property
    def path_(self) -> list[dict[str, Any]]:
        """What each tau gave."""
        return [
            {
                "tau": grown.tau,
                "n_terms": len(grown.terms),
                "n_zeros": int(sum((term.alpha == 0).sum() for term in grown.terms)),
                "gcv": grown.gcv,
                "validation_loss": grown.validation_loss,
            }
            for grown in self._path
        ]

    @property
    def pieces_(self) -> list[dict[str, Any]]:
        """Each term: unit-length ``direction``, ``grid`` of its projection, ``values`` there."""
        pieces = []
        for k, term in enumerate(self._terms):
            size = float(np.sqrt(term.alpha @ term.alpha))
            grid = np.linspace(term.low, term.high, GRID_POINTS)
            f = np.zeros(GRID_POINTS)
            term.add_values(grid, f)
            direction, title = term.alpha / size, f"term {k + 1}"
            pieces.append(
                {"direction": direction, "grid": grid / size, "values": f, "title": title}
            )
        return pieces

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        return predict_rows(self._columns, self._terms, self.intercept_, chunk)
