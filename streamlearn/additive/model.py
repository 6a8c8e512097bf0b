"""The part that the additive classifier and regressor share: the fit and its attributes."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, Self

import numpy as np

from ..data.order import Order, derive_seed
from ..data.source import Chunk, Source
from ..engine.run import Run
from ..estimator.base import StreamEstimator
from ..estimator.certificate import Certificate
from ..estimator.fitting import replan
from ..estimator.planning import after_summary, all_needs
from ..estimator.predicting import check_finite
from ..numeric.bases.roughness import make_reference, make_roughness
from ..passes.sample import sample_fold, thinned
from ..passes.summary.summary import Summary
from ..solvers.newton import relative_gap
from .basis.column_bases import Shape, fit_bases, mean_splines, reference_vector
from .basis.resolution import counts_of_nodes
from .costs import needs, pair_choice, sizes
from .costs.pairs import size_with
from .costs.solver_choice import DUAL, LBFGS, NEWTON, Choice
from .dual.descent import GROUP
from .dual.in_memory import fit_held
from .inspect.terms import AdditiveState
from .objective import Problem
from .pairs import (
    check_interactions,
    check_sizes,
    density_fold,
    has_pairs,
    most_screened,
    with_density,
    with_terms,
)
from .planned import GRAM, LATE, Planned
from .screening.costs import SCREENING, is_wide, without_pairs
from .screening.reading import (
    Factor,
    finer_gains,
    main_effects,
    make_layout,
    screening_fold,
    screening_problem,
    screening_share,
)
from .smooth import costs as smooth_costs
from .smooth.criteria import CRITERIA
from .smooth.model import Given, goes_by_moments, null_decisions, posterior_at, train_smooth
from .smooth.pair_weights import weigh_pairs
from .smooth.posterior import check_posterior
from .smooth.sampled import Curves, weigh_curves
from .smooth.shape import check_shapes
from .stochastic.partial_fit import check_stream
from .stochastic.pegasos import fit_pegasos
from .targets import Adjustment, adjust, adjusted, weight_factor, without_column
from .training import Outcome, Watch, fit_dual, fit_gram, fit_newton, labels_of_refs
from .warm_start import Before, warm_bases, warm_point

SINGLE_TOL = 1e-7
"""Tolerances from here on are above the rounding of float32 passes."""
WARM_PARTS = ("bases", "coef", "intercept", "shifts")
"""Parts of a saved model at which a warm start begins."""


class Outline(NamedTuple):
    """A fit of which all but the coefficients is known: its bases, pairs and penalties."""

    model: AdditiveModel
    """The estimator, in which no `interactions` are left open."""
    choice: Choice
    criterion: str | None
    """Criterion that chooses the smoothness; None: the problem has its weights."""
    problem: Problem
    before: Before | None
    """The fit at which a warm start begins."""
    sample: Chunk | None
    """Rows in hand, with targets and weights as the solver sees them."""
    share: float
    """Share of the rows, by weight, that were drawn."""
    first: Curves | None
    """The fit of a sample that has found no pairs, where all rows choose the smoothness."""
    n_reads: int
    """Reads that the fit has made."""


class AdditiveModel(Planned, StreamEstimator):
    """A mixin of the estimators; `objective` says what is minimised."""

    # Saving.

    def _state(self) -> dict[str, object]:
        return super()._state() | {
            "stream": getattr(self, "_stream", None),
            "posterior": getattr(self, "_posterior", None),
            "criterion": self._criterion,
        }

    def _restore(self, tree: AdditiveState) -> None:
        super()._restore(tree)
        self._stream = tree.get("stream")
        self._criterion = tree.get("criterion", self.smoothness)  # older files do not say it
        if self._criterion not in (None, *CRITERIA):
            raise ValueError(f"the criterion of smoothness is {self._criterion!r}")
        self.__dict__.pop("_posterior", None)
        if tree.get("posterior") is not None:
            shape = (*self.coef_.shape, len(self.bases_.degree))
            self._posterior = check_posterior(tree["posterior"], shape)
        if self._stream is not None:
            check_stream(self, self._stream)

    # Fitting.

    def _adjustment(self, dataset: Source, summary: Summary) -> Adjustment:
        """The changes of targets and weights before a solver sees them."""
        return Adjustment(self._loss)

    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        sample: Chunk | None = None,
    ) -> Certificate:
        self._stream = None  # what partial_fit has seen does not go into this fit
        adjustment = self._adjustment(dataset, summary)
        rows, dataset = dataset, adjusted(dataset, adjustment)
        if validation is not None:
            validation = adjusted(validation, adjustment)
        outline = self._outline(run, rows, summary, adjustment, sample)
        problem = outline.problem
        self.bases_, self._criterion = problem.bases, outline.criterion
        watch = Watch(run, problem, validation, self.early_stopping, partial(check_finite, self))
        self.__dict__.pop("_posterior", None)  # of an earlier fit
        means = mean_splines(summary, problem.bases) if dataset.sparse else problem.reference.c
        if goes_by_moments(self, outline.criterion):
            given = self._given(summary, means)
            outcome = self._fit_by_moments(run, dataset, outline, watch, given)
        else:
            outcome = self._fit_one_c(run, dataset, summary, outline, watch)
        if problem.bases.pairs is not None:
            # of the rows as they are: exposures are no part of their weight
            density = run.fold(density_fold(problem), rows, name="pairs")
            means = with_density(problem.bases, means, density)
        self._keep_fit(problem, outcome.theta, means, summary)
        if self.covariance and outline.criterion is None:
            exact, given = problem._replace(single=False), self._given(summary, means)
            self._posterior = posterior_at(run, dataset, exact, outcome.theta, given)
        return self._certificate(outcome, outline.choice)

    def _outline(
        self,
        run: Run,
        rows: Source,
        summary: Summary,
        adjustment: Adjustment,
        sample: Chunk | None,
    ) -> Outline:
        """The fit but for its coefficients; `rows` and their `sample` as they are read."""
        asked, why = self._decided(rows, summary)
        if asked is self and sample is not None and self._decided(rows)[0] is not self:
            # only the summary has said that there are no pairs: the sample was drawn for them too
            wanted = self._rows_in_hand(rows)
            sample = thinned(sample, rows, wanted, self.random_state) if wanted else None
        choice, dataset = asked._choice(rows, summary), adjusted(rows, adjustment)
        late = asked._late_rows(rows, summary)
        if late:
            drawn = sample_fold(rows, late, self.random_state)
            sample = run.fold(drawn, rows, name=LATE).chunk()
        before = self._before(run)
        curved = asked._curves(dataset, summary, adjustment, choice.solver, before)
        share = 1.0
        if sample is not None:
            share = sizes.sample_share(sample, summary.total_weight)
            sample = adjust(adjustment, sample)
        main, curves = curved, None
        if asked._weighs_curves(dataset, summary):
            assert sample is not None  # `_sample_rows` is at least 1
            null = null_decisions(self._loss, self._shares(summary))
            curves = weigh_curves(self, curved, sample, null, run.n_threads)
            main = curves.problem
        factor = partial(weight_factor, adjustment)
        pairs = asked._given_pairs(main, dataset, summary, adjustment)
        if most_screened(asked):
            assert sample is not None  # `_sample_rows` is at least 1
            pairs = asked._screened(run, dataset, main, sample, share, factor)
        if asked is not self and not len(pairs):
            why, criterion = pair_choice.NONE_FOUND, self._chosen_by(dataset, summary)
            if curves is not None and criterion is not None:
                # all rows choose the smoothness, as where no pairs are sought
                own = partial(self._needs_without, dataset, summary, asked._rows_in_hand(dataset))
                replan(
                    run,
                    lambda: after_summary(self, own(), summary),
                    always=True,
                    done=SCREENING,
                )
                choice = self._choice(dataset, summary).because(pair_choice.no_pairs(why))
                exact = curved._replace(single=False)
                return Outline(self, choice, criterion, exact, before, None, share, curves, 2)
        if len(pairs) and curves is not None:
            size = sizes.size_of(asked, dataset, summary)
            problem = asked._with_weighed_pairs(curves, pairs, size, run.n_threads, factor)
        else:
            problem = self._with_pairs(main, pairs)
        if curves is not None:
            choice = choice.because("curves, and pairs, smoothed as 'reml' does on a sample")
        if why:
            choice = choice.because(pair_choice.no_pairs(why))
        criterion = asked._chosen_by(dataset, summary)
        if goes_by_moments(self, criterion):
            problem = problem._replace(single=False)
        if has_pairs(asked):
            size = asked._size(dataset, summary)
            known = size_with(size, main, problem, asked._rows_in_hand(dataset))
            own = partial(asked._phases, dataset, summary, known)
            replan(run, lambda: after_summary(self, own(), summary), always=True)
        elif self._was_bound(dataset, summary, joint=problem.joint):
            replan(run, partial(all_needs, self, dataset, summary), always=True)
        n_reads = 1 + (late > 0)
        return Outline(asked, choice, criterion, problem, before, sample, share, None, n_reads)

    def _fit_by_moments(
        self, run: Run, dataset: Source, outline: Outline, watch: Watch, given: Given
    ) -> Outcome:
        """The fit whose smoothness a criterion chooses, or whose curves have shapes."""
        problem, first = outline.problem, outline.first
        shapes = check_shapes(self, dataset, problem.bases, problem.n_outputs)
        given = given._replace(shapes=shapes, sample=outline.sample, share=outline.share)
        given = given._replace(start=warm_point(problem, outline.before), n_reads=outline.n_reads)
        # an exact read needs no start: terms that vanished in the sample come back from it slowly
        if first is not None and not problem.loss.quadratic:
            given = given._replace(start=first.theta, weights=first.weights)
        outcome, posterior = train_smooth(
            self, outline.criterion, run, dataset, problem, watch, given
        )
        if posterior is not None:
            self._posterior = posterior
        return outcome

    def _fit_one_c(
        self, run: Run, dataset: Source, summary: Summary, outline: Outline, watch: Watch
    ) -> Outcome:
        """The fit of given penalties by the solver that was chosen."""
        problem, asked, solver = outline.problem, outline.model, outline.choice.solver
        tol, seed = self.tol, self.random_state
        most = max(asked._most_passes - outline.n_reads, 1)
        if solver == GRAM:
            return fit_gram(run, dataset, problem, watch, tol)
        if solver in (NEWTON, LBFGS):
            assert outline.sample is not None  # `_sample_rows` is at least 1
            return fit_newton(
                run,
                dataset,
                problem,
                outline.sample,
                watch,
                tol=tol,
                max_reads=most,
                start=warm_point(problem, outline.before),
                share=outline.share,
                seed=seed,
                may_grow=needs.may_grow(problem.n_outputs, problem.dim),
                matrix_free=solver == LBFGS,
            )
        if solver == DUAL:
            return asked._fit_dual(run, dataset, dataset, problem, summary, watch)
        return fit_pegasos(
            run,
            dataset,
            problem,
            labels_of_refs(dataset, run.source, summary),
            watch,
            tol=tol,
            max_reads=most,
            total_weight=float(summary.total_weight),
            seed=seed,
        )

    def _problem(
        self, dataset: Source, summary: Summary, adjustment: Adjustment, solver: str
    ) -> Problem:
        """The problem to be minimised, with the pairs that are given."""
        problem = self._curves(dataset, summary, adjustment, solver)
        return self._with_pairs(problem, self._given_pairs(problem, dataset, summary, adjustment))

    def _curves(
        self,
        dataset: Source,
        summary: Summary,
        adjustment: Adjustment,
        solver: str,
        before: Before | None = None,
    ) -> Problem:
        """The problem of main effects alone."""
        regression = not hasattr(self, "classes_")
        summary = without_column(summary, adjustment.column)
        if before is not None:
            bases = warm_bases(before, summary)
        else:
            bases = fit_bases(summary, Shape.of(self, summary), dataset.dtype)
        c = reference_vector(summary, bases, dataset.sparse)
        roughness = make_roughness(
            bases, self.penalty_order, self.penalty_scale, c if dataset.sparse else None
        )
        n_classes = 2 if regression else len(self.classes_)
        n_outputs = max(len(self._levels), 1) if n_classes == 2 else n_classes
        return Problem(
            bases,
            roughness,
            make_reference(roughness, c),
            adjustment.solved,
            self._weight,
            float(self.intercept_scaling),
            n_outputs,
            self._target_mean(summary, adjustment) if regression else 0.0,
            single=solver in (NEWTON, LBFGS)
            and not regression
            and self.tol >= SINGLE_TOL
            and not bases.dense,
            joint=solver == LBFGS and n_classes > 2 and self._joins(dataset, summary),
            levels=tuple(self._levels),
        )

    def _given_pairs(
        self, problem: Problem, dataset: Source, summary: Summary, adjustment: Adjustment
    ) -> np.ndarray:
        """(m, 2) the pairs of columns that `interactions` names."""
        pairs = check_interactions(self, dataset)
        check_sizes(problem.bases, pairs, summary.columns.names, adjustment.column)
        return pairs

    def _with_weighed_pairs(
        self,
        curves: Curves,
        pairs: np.ndarray,
        size: sizes.Size,
        n_threads: int,
        factor: Factor,
    ) -> Problem:
        """The problem with terms of these pairs (m, 2) too, as fine and as smooth as they carry."""
        main = curves.problem
        gains = finer_gains(screening_problem(main), curves.theta, pairs, curves.sample, factor)
        room = smooth_costs.room_of_pairs(size)
        problem = self._with_pairs(
            main, pairs, counts_of_nodes(main.bases, pairs, gains, room.finer)
        )
        if problem.dim - main.dim > room.weighed:
            return problem
        return weigh_pairs(curves, problem, n_threads)

    def _with_pairs(
        self, problem: Problem, pairs: np.ndarray, nodes: np.ndarray | None = None
    ) -> Problem:
        return with_terms(problem, pairs, self.penalty_order, self.penalty_scale, nodes)

    def _screened(
        self,
        run: Run,
        dataset: Source,
        problem: Problem,
        sample: Chunk,
        share: float,
        factor: Factor,
    ) -> np.ndarray:
        """(m, 2) the pairs that one read finds beside the sample's main effects."""
        main, size = screening_problem(problem), self._size(dataset)
        wide = is_wide(without_pairs(size))
        theta = main_effects(main, sample, share, run.n_threads, matrix_free=wide)
        layout = make_layout(main, theta)
        fold = screening_fold(
            main,
            theta,
            layout,
            most_screened(self),
            screening_share(dataset.n_physical_rows, len(layout.columns)),
            derive_seed(self.random_state, 2),
            factor,
        )
        pairs: np.ndarray = run.fold(fold, dataset, name=SCREENING)
        return pairs

    def _decides_with(self, other: Self) -> None:
        """Take over from a model of the same rows what decisions go by beside coefficients."""

    def _target_mean(self, summary: Summary, adjustment: Adjustment) -> float:
        return 0.0

    def _given(self, summary: Summary, means: np.ndarray) -> Given:
        """The facts that a choice of the smoothness, or a covariance, begins with."""
        return Given(null_decisions(self._loss, self._shares(summary)), means)

    def _shares(self, summary: Summary) -> np.ndarray | None:
        """(K,) share of the weight that each class has; None: no classes."""
        if not hasattr(self, "classes_"):
            return None
        counts = summary.target.counts[summary.target.counts > 0].astype(np.float64)
        shares: np.ndarray = counts / counts.sum()
        return shares[1:] if len(shares) == 2 else shares

    def _fit_dual(
        self,
        run: Run,
        dataset: Source,
        rows: Source,
        problem: Problem,
        summary: Summary,
        watch: Watch,
    ) -> Outcome:
        """Dual coordinate descent; `rows`: of `dataset`, perhaps as coordinates already."""
        tol, most, seed = self.tol, max(self._most_passes - 1, 1), self.random_state
        if sizes.holds_rows(self._size(dataset)):
            return fit_held(run, rows, problem, watch, tol=tol, max_reads=most, seed=seed)
        order = Order(seed, GROUP, labels_of_refs(dataset, run.source, summary))
        return fit_dual(run, rows, problem, order, watch, tol=tol, max_reads=most)

    def _before(self, run: Run) -> Before | None:
        """The last fit, where a warm start begins; a checkpoint keeps it."""
        if not self.warm_start:
            return None
        before: Before | None = run.restore("warm-start")
        if before is None and hasattr(self, "coef_"):
            before = {name: part for name, part in self._state().items() if name in WARM_PARTS}
            before["levels"] = self.levels_
            run.commit("warm-start", before)
        if before is not None and before["levels"] != self.levels_:
            raise ValueError(
                f"warm_start=True goes on from a fit with other levels of {list(self.levels_)}; "
                "fit a new estimator"
            )
        return before

    def _certificate(self, outcome: Outcome, choice: Choice) -> Certificate:
        gap = relative_gap(outcome.primal, outcome.dual)
        as_array = len(gap) > 1
        return Certificate(
            converged=outcome.converged,
            primal=outcome.primal if as_array else float(outcome.primal[0]),
            dual=outcome.dual if as_array else float(outcome.dual[0]),
            relative_gap=float(gap.max()),
            criterion=outcome.criterion,
            tolerance=float(self.tol),
            solver=choice.solver,
            reason="; ".join(filter(None, (outcome.reason, choice.reason))),
        )
