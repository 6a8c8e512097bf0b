"""What the additive classifier and regressor share: cost, solver, attributes, decisions."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..data.source import Chunk, Csr
from ..engine.plan import Needs
from ..estimator import predicting
from ..estimator.certificate import Certificate
from ..numeric.bsplines import Bases, evaluate, select_columns
from ..numeric.roughness import make_reference, make_roughness
from ..solvers.newton import relative_gap
from . import needs
from .distribution import densities, term_importances
from .embeddings import BASIS_CONSTRAINTS, fit_bases, mean_splines, reference_vector
from .kernels import margins_rows
from .kernels_csr import dense_coordinates
from .objective import LOSSES, Problem
from .training import Outcome, Watch, fit_dual, fit_gram, fit_newton, plain

SINGLE_TOL = 1e-7
"""Tolerances from here on are above the rounding of float32 passes."""


class AdditiveModel:
    """A mixin; `objective` says what is minimised."""

    _parameter_constraints: dict[str, list[Any]] = {
        **BASIS_CONSTRAINTS,
        "C": [Interval(Real, 0, None, closed="neither")],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_passes": [Interval(Integral, 2, None, closed="left")],
        "early_stopping": ["boolean"],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }
    _accepts_sparse = True

    # What it costs.

    def _choice(self, dataset: Any) -> needs.Choice:
        """The solver, chosen from metadata: the plan that is shown is the one that is run."""
        solver = getattr(self, "solver", "auto")
        return needs.choose(self.loss, solver, needs.size_of(self, dataset))

    def _needs(self, dataset: Any, summary: Any = None) -> list[Needs]:
        size = needs.size_of(self, dataset, summary)
        return needs.needs_of(self._choice(dataset).solver, size, self.max_passes)

    def _sample_rows(self, dataset: Any) -> int:
        wanted = self._choice(dataset).solver == "newton"
        return needs.sample_rows(needs.size_of(self, dataset)) if wanted else 0

    # Fitting.

    def _fit(self, run, dataset, summary, validation=None, sample=None) -> Certificate:
        choice = self._choice(dataset)
        problem = self._problem(dataset, summary, choice.solver)
        watch = Watch(run, problem, validation, self.early_stopping)
        reads = {"tol": self.tol, "max_reads": max(self.max_passes - 1, 1)}
        if choice.solver == "gram":
            outcome = fit_gram(run, dataset, problem, watch, self.tol)
        elif choice.solver == "newton":
            outcome = fit_newton(
                run,
                dataset,
                problem,
                sample,
                summary.total_weight,
                watch,
                **reads,
                share=needs.sample_share(sample, summary.total_weight),
                seed=self.random_state,
                may_grow=needs.may_grow(problem.n_outputs, problem.dim),
            )
        else:
            labels = needs.labels_of_refs(dataset, run.source, summary)
            outcome = fit_dual(
                run, dataset, problem, labels, watch, **reads, seed=self.random_state
            )
        self._keep(problem, outcome.theta, mean_splines(summary, problem.bases))
        self._keep_distribution(summary)
        return self._certificate(outcome, choice)

    def _problem(self, dataset: Any, summary: Any, solver: str) -> Problem:
        bases = fit_bases(summary, self.n_bases, self.degree, self.knots, dataset.dtype)
        roughness = make_roughness(bases, self.penalty_order, self.penalty_scale)
        c = reference_vector(summary, bases, dataset.sparse)
        classes = getattr(self, "classes_", None)
        regression = classes is None
        return Problem(
            bases,
            roughness,
            make_reference(roughness, c),
            LOSSES[self.loss],
            float(self.C),
            float(self.intercept_scaling),
            1 if regression or len(classes) == 2 else len(classes),
            float(summary.labels.mean) if regression else 0.0,
            single=solver == "newton" and not regression and self.tol >= SINGLE_TOL,
        )

    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None:
        """Set the fitted attributes: terms less their training means, which go to the intercept."""
        W, b = theta[:, :-1].copy(), theta[:, -1] - theta[:, :-1] @ problem.reference.c
        first = problem.bases.first
        for a, z in zip(first[:-1], first[1:], strict=True):
            shift = W[:, a:z] @ means[a:z]
            W[:, a:z] -= shift[:, None]  # the splines of a column sum to 1
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
        F += self.intercept_
        return F[:, 0] if F.shape[1] == 1 else F

    def explain(self, X):
        """What each term adds to the decision of each row.

        The terms and `intercept_` add up to `decision_function` (a regressor's `predict`).  Every
        term is 0 on average over the training rows, so each says how the row differs from them.

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
        bases, X, K = self.bases_, chunk.X, len(self.coef_)
        if isinstance(X, Csr):
            X, bases = dense_coordinates(X, bases), bases._replace(prepared=True)
        terms = np.zeros((chunk.n_rows, len(bases.degree), K))
        F = np.empty((chunk.n_rows, K))
        for d in np.flatnonzero(np.diff(bases.first)):
            own = slice(*bases.first[d : d + 2])
            margins_rows(X[:, d : d + 1], select_columns(bases, [d]), self.coef_[:, own], F)
            terms[:, d] = F
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

        Returns
        -------
        array of shape (m,), or (m, K) with more than two classes
        """
        check_is_fitted(self)
        return self._curve(self._column(column), grid)

    def _curve(self, d: int, grid: Any) -> np.ndarray:
        phi = evaluate(self.bases_, d, np.asarray(grid))
        f = phi @ self.coef_[:, slice(*self.bases_.first[d : d + 2])].T
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
        """Breakpoints of every column; none if it is constant."""
        return np.split(self.bases_.knots, self.bases_.first_knot[1:-1])

    def _state(self) -> dict[str, Any]:
        return {
            "bases": self.bases_,
            "coef": self.coef_,
            "intercept": self.intercept_,
            "densities": self.densities_,
            "importances": self._importances,
        }

    def _restore(self, tree: dict[str, Any]) -> None:
        self.bases_ = Bases(*tree["bases"])
        self.coef_, self.intercept_ = tree["coef"], tree["intercept"]
        self.densities_, self._importances = tree["densities"], tree["importances"]
