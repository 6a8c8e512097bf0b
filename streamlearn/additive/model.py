"""What the additive classifier and regressor share: cost, solver, attributes, decisions."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..data.levels import Coder
from ..data.source import Chunk, Csr
from ..engine.plan import Needs
from ..estimator import predicting
from ..estimator.certificate import Certificate
from ..numeric.bsplines import COSINE, LEVELS, Bases, evaluate, select_columns
from ..numeric.roughness import make_reference, make_roughness
from ..solvers.newton import relative_gap
from . import needs
from .adjusted import Adjustment, adjust, adjusted, without_column
from .distribution import densities, term_importances
from .embeddings import BASIS_CONSTRAINTS, Shape, fit_bases, mean_splines, reference_vector
from .held import fit_held
from .kernels import margins_rows, present
from .kernels_csr import dense_coordinates
from .objective import Problem, make_loss
from .pegasos import fit_pegasos
from .training import Outcome, Watch, fit_dual, fit_gram, fit_newton, plain
from .warm_start import warm_bases, warm_point

WARM = ("newton", "lbfgs")
"""Solvers that can start from coefficients, and take directions from a sample."""

SINGLE_TOL = 1e-7
"""Tolerances from here on are above the rounding of float32 passes."""


WARM_PARTS = ("bases", "coef", "intercept", "shifts")


class AdditiveModel:
    """A mixin; `objective` says what is minimised."""

    _parameter_constraints: dict[str, list[Any]] = {
        **BASIS_CONSTRAINTS,
        "max_levels": [Interval(Integral, 1, 255, closed="both")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_passes": [Interval(Integral, 2, None, closed="left")],
        "early_stopping": ["boolean"],
        "solver": [StrOptions({"auto", "newton", "dual-cd", "lbfgs", "pegasos"})],
        "warm_start": ["boolean"],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }
    _accepts_sparse = True
    _accepts_levels = True

    @property
    def _accepts_missing(self) -> bool:
        return self.missing == "level"

    @property
    def _has_level(self) -> np.ndarray:
        """(p,) bool: the columns in which a missing value has a meaning."""
        return self.bases_.has_missing | (self.bases_.kind == LEVELS)

    # What it costs.

    def _choice(self, dataset: Any) -> needs.Choice:
        """The solver, chosen from metadata: the plan that is shown is the one that is run."""
        size = needs.size_of(self, dataset)
        choice = needs.choose(self.loss, self.solver, size, self._is_joint)
        if self.warm_start and choice.solver not in WARM:
            raise ValueError(
                f"warm_start=True goes with solver={' or '.join(map(repr, WARM))}, got "
                f"{choice.solver!r}, which does not start from coefficients; leave it out"
                + ("" if choice.solver != "pegasos" else ", or go on with partial_fit")
            )
        return choice

    def _needs(self, dataset: Any, summary: Any = None) -> list[Needs]:
        size = needs.size_of(self, dataset, summary)
        phases = needs.needs_of(self._choice(dataset).solver, size, self.max_passes)
        return needs.with_temporaries(phases, self, size, summary)

    def _sample_rows(self, dataset: Any) -> int:
        wanted = self._choice(dataset).solver in WARM
        return needs.sample_rows(needs.size_of(self, dataset)) if wanted else 0

    # Fitting.

    _is_joint = False
    """Whether the multinomial loss was asked for; of two classes it is the one curve."""

    def _adjustment(self, dataset: Any, summary: Any) -> Adjustment:
        """What is done to targets and weights before a solver sees them."""
        return Adjustment(loss=self.loss)

    def _fit(self, run, dataset, summary, validation=None, sample=None) -> Certificate:
        self._stream = None  # what partial_fit has seen does not go into this fit
        choice = self._choice(dataset)
        adjustment = self._adjustment(dataset, summary)
        dataset, validation = (adjusted(rows, adjustment) for rows in (dataset, validation))
        before = self._before(run)
        problem = self._problem(dataset, summary, adjustment, choice.solver, before)
        watch = Watch(run, problem, validation, self.early_stopping)
        reads = {"tol": self.tol, "max_reads": max(self.max_passes - 1, 1)}
        if choice.solver == "gram":
            outcome = fit_gram(run, dataset, problem, watch, self.tol)
        elif choice.solver in ("newton", "lbfgs"):
            outcome = fit_newton(
                run,
                dataset,
                problem,
                adjust(adjustment, sample),
                watch,
                **reads,
                start=warm_point(problem, before),
                share=needs.sample_share(sample, summary.total_weight),
                seed=self.random_state,
                may_grow=needs.may_grow(problem.n_outputs, problem.dim),
                matrix_free=choice.solver == "lbfgs",
            )
        elif choice.solver == "dual-cd" and needs.holds_rows(needs.size_of(self, dataset)):
            seed = self.random_state
            outcome = fit_held(run, dataset, problem, watch, **reads, seed=seed)
        else:
            labels = needs.labels_of_refs(dataset, run.source, summary)
            if choice.solver == "pegasos":
                reads["total_weight"] = self._total_weight(summary, adjustment)
            train = fit_pegasos if choice.solver == "pegasos" else fit_dual
            outcome = train(run, dataset, problem, labels, watch, **reads, seed=self.random_state)
        self._keep(problem, outcome.theta, mean_splines(summary, problem.bases))
        self._keep_distribution(summary)
        return self._certificate(outcome, choice)

    def _problem(
        self, dataset: Any, summary: Any, adjustment: Adjustment, solver: str, before: Any = None
    ) -> Problem:
        regression = not hasattr(self, "classes_")
        summary = without_column(summary, adjustment.column)
        if before is not None:
            bases = warm_bases(before, dataset.n_features)
        else:
            bases = fit_bases(summary, Shape.of(self), dataset.dtype)
        roughness = make_roughness(bases, self.penalty_order, self.penalty_scale)
        c = reference_vector(summary, bases, dataset.sparse)
        n_classes = 2 if regression else len(self.classes_)
        return Problem(
            bases,
            roughness,
            make_reference(roughness, c),
            make_loss(self.loss, getattr(self, "epsilon", 0.0)),
            float(self.C),
            float(self.intercept_scaling),
            1 if n_classes == 2 else n_classes,
            self._target_mean(summary, adjustment) if regression else 0.0,
            single=solver in ("newton", "lbfgs")
            and not regression
            and self.tol >= SINGLE_TOL
            and not bases.dense,
            joint=self._is_joint and n_classes > 2,
        )

    def _target_mean(self, summary: Any, adjustment: Adjustment) -> float:
        return 0.0

    def _total_weight(self, summary: Any, adjustment: Adjustment) -> float:
        """Of all rows, as the losses count them."""
        if adjustment.class_weight is None:
            return float(summary.total_weight)
        counts = summary.labels.counts
        return float(counts[counts > 0] @ adjustment.class_weight)

    def _before(self, run: Any) -> dict[str, Any] | None:
        """The last fit, where a warm start begins; a checkpoint keeps it."""
        if not self.warm_start:
            return None
        before = run.restore("warm-start")
        if before is None and hasattr(self, "coef_"):
            before = {name: part for name, part in self._state().items() if name in WARM_PARTS}
            run.commit("warm-start", before)
        return before

    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None:
        """Set the fitted attributes: terms less their training means, which go to the intercept."""
        theta = problem.by_output(theta)
        W, b = theta[:, :-1].copy(), theta[:, -1] - theta[:, :-1] @ problem.reference.c
        first = problem.bases.first
        self._shifts = np.zeros((len(W), len(first) - 1))
        for d, (a, z) in enumerate(zip(first[:-1], first[1:], strict=True)):
            shift = W[:, a:z] @ means[a:z]
            if problem.bases.kind[d] < COSINE:
                W[:, a:z] -= shift[:, None]  # the splines of a column sum to 1
            else:  # others have no constant among them
                self._shifts[:, d] = shift
            b += shift
        self.bases_ = problem.bases
        self.coef_ = W
        self.intercept_ = b + problem.target_mean

    def _keep_distribution(self, summary: Any) -> None:
        """What pictures and importances need of the rows: how they lie along each column."""
        self.densities_ = densities(summary, self.knots_)
        self._importances = term_importances(self, summary)

    def _certificate(self, outcome: Outcome, choice: needs.Choice) -> Certificate:
        gap = relative_gap(outcome.primal, outcome.dual)
        as_array = len(gap) > 1
        return Certificate(
            converged=outcome.converged,
            primal=outcome.primal if as_array else plain(outcome.primal),
            dual=outcome.dual if as_array else plain(outcome.dual),
            relative_gap=float(gap.max()),
            criterion=outcome.criterion,
            tolerance=float(self.tol),
            solver=choice.solver,
            reason=f"{outcome.reason}; {choice.reason}" if choice.reason else outcome.reason,
        )

    # Using it.

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        F = np.empty((chunk.n_rows, len(self.coef_)))
        margins_rows(chunk.X, self.bases_, self.coef_, F)
        F += self.intercept_ - self._shifts.sum(axis=1)
        return F[:, 0] if F.shape[1] == 1 else F

    def explain(self, X):
        """What each term adds to the decision of each row.

        The terms and `intercept_` add up to `decision_function` (a regressor's `predict`; with
        loss="poisson" or "gamma" its logarithm).  Every term is 0 on average over the training
        rows, so each says how the row differs from them; an offset, or the logarithm of an
        exposure, stands in its own column.

        Parameters
        ----------
        X : anything `predict` takes

        Returns
        -------
        array of shape (n, p), or (n, p, K) with more than two classes
            A lazy dask array for a dask collection.  Of a Dataset an answer over the memory budget
            is refused: ``predict_to(X, path, what="explanation")`` writes it to disk.
        """
        return predicting.answer(self, X, "explanation")

    def _explain_chunk(self, chunk: Chunk) -> np.ndarray:
        bases, X, K = self.bases_, present(chunk.X, self.bases_), len(self.coef_)
        if isinstance(X, Csr):
            X, bases = dense_coordinates(X, bases), bases._replace(prepared=True)
        terms = np.zeros((chunk.n_rows, len(bases.degree), K))
        F = np.empty((chunk.n_rows, K))
        for d in np.flatnonzero(np.diff(bases.first)):
            own = slice(*bases.first[d : d + 2])
            margins_rows(X[:, d : d + 1], select_columns(bases, [d]), self.coef_[:, own], F)
            terms[:, d] = F - self._shifts[:, d]
        return terms[:, :, 0] if K == 1 else terms

    @property
    def term_importances_(self) -> np.ndarray:
        """(p,) mean distance of each term from 0 over the training rows; of K classes their mean.

        From the summary's distribution of each column: no read.
        """
        return self._importances

    def shape_function(self, column: int | str, grid: Any) -> np.ndarray:
        """The learned curve of a column at the values `grid`.

        Its mean over the training rows is 0; the terms and the intercept add up to the decision.

        Parameters
        ----------
        column : int or str
            Number or name of the column.
        grid : array-like of shape (m,)
            Of a column of categories: their names.  NaN (None) is the level of missing values.

        Returns
        -------
        array of shape (m,), or (m, K) with more than two classes
        """
        check_is_fitted(self)
        d = self._column(column)
        if self.bases_.kind[d] == LEVELS:
            name = str(self.feature_names_in_[d])
            grid = Coder(name, self.levels_[name]).of_values(np.asarray(grid, object))
        return self._curve(d, grid)

    def _curve(self, d: int, grid: Any) -> np.ndarray:
        phi = evaluate(self.bases_, d, np.asarray(grid))
        f = phi @ self.coef_[:, slice(*self.bases_.first[d : d + 2])].T - self._shifts[:, d]
        return f[:, 0] if f.shape[1] == 1 else f

    def _column(self, column: int | str) -> int:
        if isinstance(column, str):
            names = [str(name) for name in getattr(self, "feature_names_in_", [])]
            if column not in names:
                raise ValueError(f"no column {column!r}; the columns are {names[:10]}")
            return names.index(column)
        if not -self.n_features_in_ <= column < self.n_features_in_:
            raise ValueError(f"column {column} of {self.n_features_in_} columns")
        return int(column) % self.n_features_in_

    @property
    def knots_(self) -> list[np.ndarray]:
        """Breakpoints of every column; none if it is constant.  Those of categories are codes."""
        knots = np.split(self.bases_.knots, self.bases_.first_knot[1:-1])
        return [k[np.isfinite(k)] for k in knots]

    def _state(self) -> dict[str, Any]:
        return {
            "bases": self.bases_,
            "coef": self.coef_,
            "intercept": self.intercept_,
            "shifts": self._shifts,
            "densities": self.densities_,
            "importances": self._importances,
        }

    def _restore(self, tree: dict[str, Any]) -> None:
        self.bases_ = Bases(*tree["bases"])
        self.coef_, self.intercept_ = tree["coef"], tree["intercept"]
        self._shifts = tree["shifts"]
        self.densities_, self._importances = tree["densities"], tree["importances"]
