"""Sparse projection pursuit regression (SpPPR)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ...data.source import Chunk, Source
from ...engine.plan import Needs
from ...engine.run import Run
from ...estimator.base import StreamRegressor
from ...estimator.certificate import Certificate
from ...estimator.rows.encoding import n_features
from ...estimator.scores.paths import Candidate
from ...numeric.checks import check_number, check_records
from ...numeric.huge_pages import resident
from ...passes.summary.summary import Summary
from ..answers import loss_fold, predict_rows
from ..columns import block_nbytes, make_columns
from ..kernels import ScaledColumns
from ..model import GRID_POINTS, Piece, PursuitModel, check_tau, drive, unit_length
from ..search import N_TRIALS
from ..tables import ALL_COLUMNS, MOST_TABLES, table_room, table_share
from .growing import Grown, LossRequest, Settings, grow
from .reads import RidgeAnswer, RidgeRequest, Term, ridge_fold
from .smoothers import PSpline
from .supsmu import SuperSmoother

N_BASES = {"pspline": 16, "supsmu": 256}
"""Default of the parameter `n_bases` for each smoother."""


class ProjectionPursuitRegressor(PursuitModel[Grown], StreamRegressor):
    """Regressor whose prediction is a sum of smooth functions of sparse projections.

        f(x) = b + sum_j f_j(alpha_j'z),    z the standardised columns

    Terms are found one by one (Zhang, Liang, Tang & Shum 2009, Table 3): the direction by greedy
    coordinate search (Table 2) on

        cost(alpha) + lambda_j ||alpha||_1 / ||alpha||_2,    lambda_j = sum w r^2 / tau

    where the cost is the GCV cost of a smooth function of alpha'z through the residuals r, with
    log(n)/2 for each degree of freedom, because many directions are compared.  (The paper's
    ||alpha||_1 can be evaded by shrinking alpha, which the smoother undoes.)  One more column has
    at least the charge of the extended BIC as its part of the penalty (Chen & Chen 2008; at most
    lambda_j).  Each read measures the best steps exactly and scores all steps for the next read:
    those of up to 64 columns, or of 32 if there are more, namely those in use and the steepest; and
    by about half a million rows, if there are more.  A term takes at most 2 + moves reads, and its
    cost falls with every move.

    Parameters
    ----------
    n_terms : int, default=5
        Largest number of terms.
    tau : float or sequence of float, default=30.0
        Inverse strength of the penalty: the smaller, the sparser; ``float("inf")`` is plain
        projection pursuit.  A sequence trains a model for each in shared reads and chooses the one
        of least validation loss, or of least GCV cost.
    smoother : {"pspline", "supsmu"}, default="pspline"
        "pspline": cubic splines with penalised second differences (Eilers & Marx 1996).
        "supsmu": running lines whose span is chosen at each point (Friedman 1984), through the mean
        residuals of rows binned by their projection; for functions whose curvature is not the same
        everywhere.  Its degrees of freedom in the GCV cost are the trace of the lines.
    n_bases : int, optional
        Number of cubic splines of a ridge function (default 16), or of bins of "supsmu" (default
        256), at least 5.
    penalty : {"scale-free", "paper"}, default="scale-free"
        "scale-free" is the penalty above; "paper" has ||alpha||_1 alone, as printed.
    refit : bool, default=True
        Whether all ridge functions are fitted together after each term, which takes no read.
    backfit : int, default=1
        Number of times that, at the end, each direction is searched again from where it is, with
        the residuals of the other terms (eq. 9); it is changed if the GCV cost falls.
    stop : {"gcv", "validation", None}, default="gcv"
        Whether terms end when the GCV cost of the model, or the loss on `validation`, falls no
        more.
    standardize : bool, default=True
        Whether to search on columns of unit deviation, and not in the columns' own units.
    tol : float, default=1e-4
        Share of sum w r^2 by which a move must promise to lower the cost, and share of the GCV cost
        by which a term must lower it.
    random_state : int, default=0
        Seed of the sample of rows from which a term's first column is guessed.
    encoding : dict, optional
        Column name -> "number", "cyclic", "indicator" or "target": how columns become features,
        where the default of `data.encoding` is not wanted; or the period of a column of numbers,
        which becomes ``column=sin`` and ``column=cos`` (``{"hour": 24}``).

    Attributes
    ----------
    directions_ : (J, n_features) float64
        Directions alpha_j of unit length, in the units of the standardised columns.
    intercept_ : float
    tau_ : float
        The chosen tau.
    path_ : list of dict
        For each tau: ``tau``, ``n_terms``, ``n_zeros``, ``gcv``, ``validation_loss``.
    n_features_in_, feature_names_in_, certificate_, history_, n_passes_
        ``history_`` has one record for each term and tau, with the costs after each move.

    Notes
    -----
    Values beyond a column's 0.1 % and 99.9 % quantiles are replaced by these, in fits and in
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
        n_terms: int = 5,
        tau: float | Sequence[float] = 30.0,
        *,
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
        self.encoding = encoding

    # so many have the tables of one, whatever the number of columns
    _same_in_one_fit: ClassVar[Mapping[str, float]] = {"tau": MOST_TABLES // ALL_COLUMNS}

    @classmethod
    def _joint(cls, candidates: Sequence[Candidate]) -> Candidate:
        taus = list(dict.fromkeys(float(candidate["tau"]) for candidate in candidates))
        return {**candidates[0], "tau": taus if len(taus) > 1 else taus[0]}

    def _models_of(self, candidates: Sequence[Candidate]) -> list[Self]:
        return [copy.copy(self).select(float(candidate["tau"])) for candidate in candidates]

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        M, T, smoother = dataset.n_features, len(check_tau(self.tau)), self._make_smoother()
        n = smoother.n_bases
        room = table_room(M, T)
        trials = 8 * n * (N_TRIALS * 5 + n * self.n_terms)
        state = T * (resident(room * (64 << 10)) + trials + 8 * M)
        # for a block's rows: projections, residuals, pairs, and a dense copy of sparse rows
        block = block_nbytes(dataset, 14 + self.n_terms)
        cells = 4096 * 8 * 8
        joint = smoother.entry_nbytes * (n * self.n_terms) ** 2
        driver = state + T * joint + room * cells
        model = T * self.n_terms * 8 * (M + n) + M * 8 * 70
        reads = self.n_terms * (1 + self.backfit) * (4 * M + 18)
        fits = 40 * smoother.fit_nbytes
        return [
            Needs("search", state, 0, driver + fits, model, passes=(1, reads), step_bytes=block)
        ]

    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        sample: Chunk | None = None,
    ) -> Certificate:
        assert sample is not None  # `_sample_rows` is at least 64
        if self.stop == "validation" and validation is None:
            raise ValueError(
                "stop='validation' needs rows to validate on; call fit(..., validation=0.1), or "
                "use stop='gcv'"
            )
        taus = check_tau(self.tau)
        columns = make_columns(summary, self.standardize)
        settings = Settings(
            columns,
            float(summary.target.mean),
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

        def read(
            number: int, batch: list[tuple[int, RidgeRequest | LossRequest]]
        ) -> list[RidgeAnswer | float]:
            losses = [one for _, one in batch if isinstance(one, LossRequest)]
            searches = tuple(one for _, one in batch if isinstance(one, RidgeRequest))
            found: list[RidgeAnswer] = []
            lost: list[float] = []
            if searches:
                ridge = ridge_fold(columns, searches)
                found = run.fold(ridge, dataset, name=f"search-{number}")
            if losses:
                loss = loss_fold(columns, losses)
                lost = run.fold(loss, validation, name=f"validation-{number}")
            rest, measured = iter(lost), iter(found)
            return [
                next(rest) if isinstance(one, LossRequest) else next(measured) for _, one in batch
            ]

        path = drive(read, [grow(settings, tau, sample, validation is not None) for tau in taus])
        for grown in path:
            for record in grown.history:
                run.record(**record)
        self._columns, self._taus, self._path = columns, taus, path
        self._losses = [g.validation_loss if validation is not None else g.gcv for g in path]
        best = int(np.argmin(np.nan_to_num(self._losses, nan=np.inf)))
        self._choose(taus[best])
        chosen = path[best]
        reason = "no step promises a lower cost" if chosen.converged else "most moves were made"
        if not chosen.terms:
            reason += ": the model is the mean of the target"
        return Certificate(
            converged=chosen.converged,
            objective=chosen.gcv,
            criterion="GCV cost per row",
            tolerance=float(self.tol),
            solver="informative feature first",
            reason=reason,
        )

    def _make_smoother(self) -> PSpline | SuperSmoother:
        n = self.n_bases or N_BASES[self.smoother]
        return PSpline(n) if self.smoother == "pspline" else SuperSmoother(n)

    def _check(self, model: object, columns: ScaledColumns) -> None:
        if not isinstance(model, Grown):
            raise ValueError(f"a model of the path is a {type(model).__name__}")
        check_number("intercept", model.intercept)
        check_records("terms", model.terms, Term)
        for alpha, low, high, theta, smoother in model.terms:
            if not isinstance(smoother, PSpline | SuperSmoother):
                raise ValueError(f"a smoother is a {type(smoother).__name__}")
            columns.check_function(alpha, low, high, theta, 4 if type(smoother) is PSpline else 1)

    _measure = "standard deviation of its function over its range"

    def _keep(self, model: Grown) -> None:
        self._terms, self.intercept_ = model.terms, model.intercept

    @property
    def _alphas(self) -> list[np.ndarray]:
        return [term.alpha for term in self._terms]

    @property
    def _weights(self) -> list[float]:
        return [float(piece["values"].std()) for piece in self.pieces_]

    @property
    def directions_(self) -> np.ndarray:
        """(J, n_features) directions of unit length."""
        return np.array(list(map(unit_length, self._alphas))).reshape(-1, n_features(self))

    @property
    def path_(self) -> list[dict[str, object]]:
        """The size and the losses of the model of each tau."""
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
    def pieces_(self) -> list[Piece]:
        """Each term: unit-length ``direction``, ``grid`` of its projection, ``values`` there."""
        pieces: list[Piece] = []
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
