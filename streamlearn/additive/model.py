"""The part that the additive classifier and regressor share: cost, solver, attributes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..data.order import derive_seed
from ..data.source import Chunk, Source, level_counts
from ..engine.plan import Needs
from ..engine.run import Run
from ..estimator.base import StreamEstimator
from ..estimator.certificate import Certificate
from ..estimator.predicting import check_finite
from ..numeric.bases.basis import Basis
from ..numeric.bases.pairs import add_pairs
from ..numeric.bases.registry import make_basis
from ..numeric.bases.roughness import make_reference, make_roughness
from ..numeric.losses import LOSS_PARAMETERS, Loss, Target, make_loss
from ..passes.summary.summary import Summary
from ..solvers.newton import relative_gap
from . import costs as needs
from .basis.column_bases import (
    BASIS_CONSTRAINTS,
    Shape,
    fit_bases,
    mean_splines,
    reference_vector,
)
from .basis.resolution import AUTO, CountOfSplines
from .dual.in_memory import fit_held
from .inspect.terms import Terms
from .objective import Problem
from .pairs import check_interactions, check_sizes, density_fold, has_pairs, most_screened
from .screening.costs import is_wide, screening_needs, without_pairs
from .screening.reading import (
    main_effects,
    make_layout,
    screening_fold,
    screening_problem,
    screening_share,
)
from .smooth import costs as smooth_costs
from .smooth.criteria import CRITERIA
from .smooth.model import (
    SMOOTHNESS,
    Given,
    check_smoothness,
    goes_by_moments,
    null_decisions,
    posterior_at,
    train_smooth,
    why_moments,
)
from .smooth.posterior import check_posterior
from .smooth.sampled import weigh_curves
from .smooth.shape import Signs, check_shapes
from .stochastic.partial_fit import check_stream
from .stochastic.pegasos import fit_pegasos
from .targets import Adjustment, adjust, adjusted, names_of, without_column
from .training import Outcome, Watch, fit_dual, fit_gram, fit_newton
from .warm_start import warm_bases, warm_point

WARM = ("newton", "lbfgs")
"""Solvers that can start from coefficients, and take directions from a sample."""

SINGLE_TOL = 1e-7
"""Tolerances from here on are above the rounding of float32 passes."""


WARM_PARTS = ("bases", "coef", "intercept", "shifts")


class AdditiveModel(Terms, StreamEstimator):
    """A mixin of the estimators; `objective` says what is minimised."""

    loss: str | Loss
    C: float | None
    basis: str | Basis
    n_bases: CountOfSplines
    penalty_order: int
    penalty_scale: str
    missing: str
    max_levels: int
    solver: str
    intercept_scaling: float
    tol: float
    max_passes: int
    interactions: int | str | Sequence[Sequence[int | str]] = 0
    early_stopping: bool
    warm_start: bool
    smoothness: str | None
    select: bool
    covariance: bool
    monotone: Signs | None
    convex: Signs | None
    knots: str
    degree: int
    random_state: int
    classes_: np.ndarray
    _parameter_constraints: dict[str, list[object]] = {
        **BASIS_CONSTRAINTS,
        "n_bases": [*BASIS_CONSTRAINTS["n_bases"], StrOptions({AUTO})],
        "max_levels": [Interval(Integral, 1, 255, closed="both")],
        "interactions": [
            Interval(Integral, 0, None, closed="left"),
            StrOptions({"auto"}),
            list,
            tuple,
        ],
        "C": [Interval(Real, 0, None, closed="neither"), None],
        "intercept_scaling": [Interval(Real, 1e-100, 1e100, closed="both")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_passes": [Interval(Integral, 2, None, closed="left")],
        "early_stopping": ["boolean"],
        "solver": [StrOptions({"auto", "newton", "dual-cd", "lbfgs", "pegasos"})],
        "warm_start": ["boolean"],
        **SMOOTHNESS,
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }
    _later_parameters: ClassVar[dict[str, object]] = {
        "interactions": 0,
        "smoothness": None,
        "select": False,
        "covariance": False,
        "monotone": None,
        "convex": None,
    }
    _accepts_sparse = True
    _accepts_levels = True

    @property
    def _accepts_missing(self) -> bool:
        return self.missing == "level"

    _targets: tuple[Target, ...] = ()
    """Kinds of target that the estimator's losses may have."""

    @property
    def _loss(self) -> Loss:
        """The loss that `loss` names or is, with the estimator's parameters of its names."""
        # by name: classifiers lack the parameters of the losses of numbers
        given = {name: getattr(self, name) for name in LOSS_PARAMETERS if hasattr(self, name)}
        loss = make_loss(self.loss, **given)
        if loss.target not in self._targets:
            kinds = " or ".join(target.name for target in self._targets)
            raise ValueError(
                f"loss={self.loss!r} is a loss of a {loss.target.name} target, "
                f"{type(self).__name__} takes losses of a {kinds} target: "
                f"{', '.join(sorted(names_of(self._targets)))}, or your own"
            )
        return loss

    # What it costs.

    def _chosen_by(self, dataset: Source, summary: Summary | None = None) -> str | None:
        """The criterion of the smoothness; before the summary, the one of columns of few values."""
        size = needs.size_of(self, dataset, summary)
        if summary is None:
            size = smooth_costs.least_size(size, self.n_bases, dataset)
        return smooth_costs.criterion_of(self, size, self._is_joint)

    def _weighs_curves(self, dataset: Source, summary: Summary | None = None) -> bool:
        """Whether the sample says how much each curve is smoothed, beside pairs."""
        size = needs.size_of(self, dataset, summary)
        if summary is None:
            least = smooth_costs.least_size(size, self.n_bases, dataset)
            size = size._replace(dim=least.dim + size.pair_dim)
        return smooth_costs.weighs_curves(self, size, self._is_joint)

    def _choice(self, dataset: Source, summary: Summary | None = None) -> needs.Choice:
        """The solver, chosen from metadata: the plan that is shown is the one that is run.

        But for the smoothness that nothing is said of, which one C replaces where the summary finds
        too many coefficients.
        """
        check_smoothness(self)
        size, criterion = needs.size_of(self, dataset), self._chosen_by(dataset, summary)
        why = why_moments(self, criterion)
        if why:
            least = smooth_costs.least_size(size, self.n_bases, dataset)
            choice = smooth_costs.choose_moments(why, least, self.solver, self._is_joint)
        if not goes_by_moments(self, criterion):
            easy = not why and self._is_easy
            choice = needs.choose(self._loss, self.solver, size, self._is_joint, easy)
        if self.warm_start and choice.solver not in WARM:
            raise ValueError(
                f"warm_start=True goes with solver={' or '.join(map(repr, WARM))}, got "
                f"{choice.solver!r}, which does not start from coefficients; leave it out"
                + ("" if choice.solver != "pegasos" else ", or go on with partial_fit")
            )
        return choice

    def _one_c(self, size: needs.Size) -> needs.Choice:
        """The solver of a fit with one C, were nothing chosen."""
        return needs.choose(self._loss, self.solver, size, self._is_joint, self._is_easy)

    @property
    def _is_easy(self) -> bool:
        """Whether dual CD has been measured for these parameters, and they allow it."""
        return bool(
            not self.warm_start
            and make_basis(self.basis).local
            and not has_pairs(self)
            and self._weight <= needs.DUAL_C
            and self.tol >= needs.DUAL_TOL
            and self.max_passes >= needs.DUAL_ROUNDS
        )

    @property
    def _most_passes(self) -> int:
        """Reads that the summary and the solver may take."""
        return self.max_passes - has_pairs(self) - (most_screened(self) > 0)

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        size, choice = needs.size_of(self, dataset, summary), self._choice(dataset, summary)
        criterion = self._chosen_by(dataset, summary)
        alone = goes_by_moments(self, criterion)
        phases = [] if alone else needs.needs_of(choice.solver, size, self._most_passes)
        if summary is None and criterion != self.smoothness:  # one C may take its place
            one_c = needs.needs_of(self._one_c(size).solver, size, self._most_passes)
            most = size._replace(dim=min(size.dim, smooth_costs.largest_dim()))
            chosen = smooth_costs.moments_needs(most, self.max_passes, at_end=False)
            phases = smooth_costs.either(one_c, chosen)
        elif why := why_moments(self, criterion):
            if summary is None:
                size = smooth_costs.least_size(size, self.n_bases, dataset)
            smooth_costs.choose_moments(why, size, self.solver, self._is_joint)
            phases += smooth_costs.moments_needs(size, self.max_passes, at_end=not alone)
        if self._weighs_curves(dataset, summary):
            phases = [smooth_costs.curves_needs(size), *phases]
        if most_screened(self):
            has_levels = bool((level_counts(dataset, 0) >= 0).any())
            phases = [screening_needs(size, has_levels), *phases]
        return needs.with_temporaries(phases, self, size, summary)

    def _sample_rows(self, dataset: Source) -> int:
        size, criterion = needs.size_of(self, dataset), self._chosen_by(dataset)
        one_read = goes_by_moments(self, criterion) and self._loss.quadratic
        wanted = self._choice(dataset).solver in WARM and not one_read
        if criterion != self.smoothness:  # one C may take its place
            wanted = wanted or self._one_c(size).solver in WARM
        wanted = wanted or most_screened(self) > 0 or self._weighs_curves(dataset)
        return needs.sample_rows(size) if wanted else 0

    # Saving.

    def _state(self) -> dict[str, object]:
        return super()._state() | {
            "stream": getattr(self, "_stream", None),
            "posterior": getattr(self, "_posterior", None),
            "criterion": self._criterion,
        }

    def _restore(self, tree: dict[str, Any]) -> None:
        super()._restore(tree)
        self._stream = tree.get("stream")
        self._criterion = tree.get("criterion", self.smoothness)  # older files do not say it
        if self._criterion not in (None, *CRITERIA):
            raise ValueError(f"the criterion of smoothness is {self._criterion!r}")
        self.__dict__.pop("_posterior", None)
        if tree.get("posterior") is not None:
            shape = (*self.coef_.shape, self.n_features_in_)
            self._posterior = check_posterior(tree["posterior"], shape)
        if self._stream is not None:
            check_stream(self, self._stream)

    # Fitting.

    @property
    def _is_joint(self) -> bool:
        """Whether the multinomial loss was requested; for two classes it is the one curve."""
        return False

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
        choice = self._choice(dataset, summary)
        criterion = self._criterion = self._chosen_by(dataset, summary)
        by_moments = goes_by_moments(self, criterion)
        adjustment = self._adjustment(dataset, summary)
        rows, dataset = dataset, adjusted(dataset, adjustment)
        if validation is not None:
            validation = adjusted(validation, adjustment)
        before = self._before(run)
        problem = self._curves(dataset, summary, adjustment, choice.solver, before)
        null = null_decisions(self._loss, self._shares(summary))
        if self._weighs_curves(dataset, summary):
            assert sample is not None  # `_sample_rows` is at least 1
            coded = adjust(adjustment, sample)
            problem = weigh_curves(self, problem, coded, null, run.n_threads)
            choice = choice._replace(reason=f"{choice.reason}; curves smoothed as 'reml' does")
        problem = self._with_given_pairs(problem, dataset, summary, adjustment)
        if by_moments:
            problem = problem._replace(single=False)
        if most_screened(self):
            assert sample is not None  # `_sample_rows` is at least 1
            share = needs.sample_share(sample, summary.total_weight)
            problem = self._screened(run, dataset, problem, adjust(adjustment, sample), share)
        self.bases_ = problem.bases
        watch = Watch(run, problem, validation, self.early_stopping, partial(check_finite, self))
        most = max(self._most_passes - 1, 1)
        tol, seed = self.tol, self.random_state
        means = mean_splines(summary, problem.bases) if dataset.sparse else problem.reference.c
        given = Given(null, means)
        self.__dict__.pop("_posterior", None)  # of an earlier fit
        shapes = check_shapes(self, dataset, problem.bases, problem.n_outputs)
        if by_moments:
            given = given._replace(shapes=shapes, start=warm_point(problem, before))
            if sample is not None:
                share = needs.sample_share(sample, summary.total_weight)
                given = given._replace(sample=adjust(adjustment, sample), share=share)
            outcome, posterior = train_smooth(self, criterion, run, dataset, problem, watch, given)
            if posterior is not None:
                self._posterior = posterior
        elif choice.solver == "gram":
            outcome = fit_gram(run, dataset, problem, watch, tol)
        elif choice.solver in ("newton", "lbfgs"):
            assert sample is not None  # `_sample_rows` is at least 1
            outcome = fit_newton(
                run,
                dataset,
                problem,
                adjust(adjustment, sample),
                watch,
                tol=tol,
                max_reads=most,
                start=warm_point(problem, before),
                share=needs.sample_share(sample, summary.total_weight),
                seed=seed,
                may_grow=needs.may_grow(problem.n_outputs, problem.dim),
                matrix_free=choice.solver == "lbfgs",
            )
        elif choice.solver == "dual-cd" and needs.holds_rows(needs.size_of(self, dataset)):
            outcome = fit_held(run, dataset, problem, watch, tol=tol, max_reads=most, seed=seed)
        else:
            labels = needs.labels_of_refs(dataset, run.source, summary)
            if choice.solver == "pegasos":
                outcome = fit_pegasos(
                    run,
                    dataset,
                    problem,
                    labels,
                    watch,
                    tol=tol,
                    max_reads=most,
                    total_weight=float(summary.total_weight),
                    seed=seed,
                )
            else:
                outcome = fit_dual(
                    run, dataset, problem, labels, watch, tol=tol, max_reads=most, seed=seed
                )
        density = None
        if (
            problem.bases.pairs is not None
        ):  # of the rows as they are: exposures are no part of their weight
            density = run.fold(density_fold(problem), rows, name="pairs")
        self._keep_fit(problem, outcome.theta, means, summary, density)
        if self.covariance and criterion is None:
            exact = problem._replace(single=False)
            self._posterior = posterior_at(run, dataset, exact, outcome.theta, given)
        return self._certificate(outcome, choice)

    def _problem(
        self, dataset: Source, summary: Summary, adjustment: Adjustment, solver: str
    ) -> Problem:
        """The problem to be minimised, with the pairs that are given."""
        problem = self._curves(dataset, summary, adjustment, solver)
        return self._with_given_pairs(problem, dataset, summary, adjustment)

    def _curves(
        self,
        dataset: Source,
        summary: Summary,
        adjustment: Adjustment,
        solver: str,
        before: dict[str, Any] | None = None,
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
        return Problem(
            bases,
            roughness,
            make_reference(roughness, c),
            self._loss,
            self._weight,
            float(self.intercept_scaling),
            1 if n_classes == 2 else n_classes,
            self._target_mean(summary, adjustment) if regression else 0.0,
            single=solver in ("newton", "lbfgs")
            and not regression
            and self.tol >= SINGLE_TOL
            and not bases.dense,
            joint=self._is_joint and n_classes > 2,
        )

    def _with_given_pairs(
        self, problem: Problem, dataset: Source, summary: Summary, adjustment: Adjustment
    ) -> Problem:
        """The problem with terms of the pairs that `interactions` names."""
        pairs = check_interactions(self, dataset)
        check_sizes(problem.bases, pairs, summary.columns.names, adjustment.column)
        return self._with_pairs(problem, pairs)

    def _with_pairs(self, problem: Problem, pairs: np.ndarray) -> Problem:
        """The problem with terms of these pairs of columns (m, 2) too."""
        if not len(pairs):
            return problem
        bases, roughness, c = problem.bases, problem.roughness, problem.reference.c
        order, scale = self.penalty_order, self.penalty_scale
        bases, roughness, c = add_pairs(bases, roughness, c, pairs, order, scale)
        reference = make_reference(roughness, c)
        return problem._replace(bases=bases, roughness=roughness, reference=reference, single=False)

    def _screened(
        self, run: Run, dataset: Source, problem: Problem, sample: Chunk, share: float
    ) -> Problem:
        """The problem with the pairs that one read finds beside the sample's main effects."""
        main, size = screening_problem(problem), needs.size_of(self, dataset)
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
        )
        return self._with_pairs(problem, run.fold(fold, dataset, name="screening"))

    def _decides_with(self, other: Any) -> None:
        """Take over from a model of the same rows what decisions go by beside coefficients."""

    def _target_mean(self, summary: Summary, adjustment: Adjustment) -> float:
        return 0.0

    def _shares(self, summary: Summary) -> np.ndarray | None:
        """(K,) share of the weight that each class has; None: no classes."""
        if not hasattr(self, "classes_"):
            return None
        counts = summary.target.counts[summary.target.counts > 0].astype(np.float64)
        shares: np.ndarray = counts / counts.sum()
        return shares[1:] if len(shares) == 2 else shares

    def _before(self, run: Run) -> dict[str, Any] | None:
        """The last fit, where a warm start begins; a checkpoint keeps it."""
        if not self.warm_start:
            return None
        before: dict[str, Any] | None = run.restore("warm-start")
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

    def _certificate(self, outcome: Outcome, choice: needs.Choice) -> Certificate:
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
            reason=f"{outcome.reason}; {choice.reason}" if choice.reason else outcome.reason,
        )
