"""The parameters of an additive estimator, and the plan of a fit with them: solver and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..data.encoding import Encoding
from ..data.source import Source, level_counts
from ..engine.plan import Needs
from ..numeric.bases.basis import Basis
from ..numeric.bases.registry import make_basis
from ..numeric.losses import LOSS_PARAMETERS, Loss, make_loss
from ..numeric.targets import Target
from ..passes.sample import sample_nbytes
from ..passes.summary.summary import Summary
from .basis.column_bases import BASIS_CONSTRAINTS
from .basis.resolution import AUTO, CountOfSplines
from .costs import needs, pair_choice, sizes
from .costs.pairs import beside_sample, bound_note, with_pairs
from .costs.solver_choice import DUAL_C, DUAL_ROUNDS, DUAL_TOL, PEGASOS, Choice, choose, solvers_of
from .inspect.merging import Mergeable
from .multi_class import APART, AUTO_CLASSES, JOINT, OPEN_NOTE, why_apart
from .pairs import AUTO as AUTO_INTERACTIONS
from .pairs import AUTO_PAIRS, has_pairs, most_screened
from .screening.costs import screening_needs, without_pairs
from .smooth import costs as smooth_costs
from .smooth.model import SMOOTHNESS, check_smoothness, goes_by_moments, why_moments
from .smooth.shape import Signs
from .targets import names_of

WARM = ("newton", "lbfgs")
"""Solvers that can start from coefficients, and take directions from a sample."""
LATE = "sample"
"""Name of the read that draws a sample after the summary."""
UNCOUNTED_NOTE = (
    "columns may have fewer coefficients than n_bases and max_levels allow; they are counted as "
    "what the budget has room for until the summary has counted them"
)
GRAM = "gram"
"""The way that needs no start: a warm start gives it the bases of the last fit alone."""


class Planned(Mergeable):
    """A mixin of the estimators: their parameters, and the solver and memory that these lead to."""

    loss: str | Loss
    multi_class: str = APART
    """The way to several outputs; a parameter of the classifier alone."""
    C: float | None
    basis: str | Basis
    n_bases: CountOfSplines
    penalty_order: int
    penalty_scale: str
    missing: str
    max_levels: int
    encoding: Mapping[str, str | float] | None
    encoding_: Encoding
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
        "encoding": [dict, None],
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
        "encoding": None,
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
    def _levels(self) -> Sequence[float]:
        """The quantiles that are fitted together, where several are."""
        return ()

    @property
    def _loss(self) -> Loss:
        """The loss that `loss` names or is, with the estimator's parameters of its names.

        Of several quantiles the loss of the first: the others differ in their level alone.
        """
        # by name: classifiers lack the parameters of the losses of numbers
        given = {name: getattr(self, name) for name in LOSS_PARAMETERS if hasattr(self, name)}
        if len(self._levels):
            given["quantile"] = self._levels[0]
        loss = make_loss(self.loss, **given)
        if loss.target not in self._targets:
            kinds = " or ".join(target.name for target in self._targets)
            raise ValueError(
                f"loss={self.loss!r} is a loss of a {loss.target.name} target, "
                f"{type(self).__name__} takes losses of a {kinds} target: "
                f"{', '.join(sorted(names_of(self._targets)))}, or your own"
            )
        return loss

    # Whether there are pairs.

    def _decided(self, dataset: Source, summary: Summary | None = None) -> tuple[Self, str]:
        """The estimator of this fit, in which no `interactions` are left open, and why it has none.

        With "auto" it is one that screens for pairs, or `self`, which then has none, and the reason
        in words.
        """
        if self.interactions != AUTO_INTERACTIONS:
            return self, ""
        why = self._why_no_pairs(dataset, summary)
        if why:
            return self, why
        screens = copy(self)
        screens.interactions = AUTO_PAIRS
        return screens, ""

    def _why_no_pairs(self, dataset: Source, summary: Summary | None) -> str:
        """Reason for which "auto" looks for no pairs; what the summary knows only adds to them."""
        if why := pair_choice.why_excluded(self, dataset):
            return why
        if why := pair_choice.why_slow(self._size(dataset), self._choice(dataset)):
            return why
        screens = copy(self)
        screens.interactions = AUTO_PAIRS
        if self._joins(dataset, summary) and not screens._joins(dataset, summary):
            return pair_choice.why_joint(screens._why_apart(dataset, summary))
        if summary is not None and self.covariance:
            if why := pair_choice.why_uncounted(screens._size(dataset, summary)):
                return why
        for known in (None,) if summary is None else (None, summary):
            drawn = sample_nbytes(dataset, screens._rows_in_hand(dataset))
            if why := pair_choice.why_unheld(screens._needs(dataset, known), drawn, dataset):
                return why
        return ""

    # What it costs.

    def _was_bound(self, dataset: Source, summary: Summary, *, joint: bool) -> bool:
        """Whether the plan before the summary was of more than this fit may be.

        It counted the most that the curvature of all rows may be, or one class at a time.
        """
        of_moments = bool(why_moments(self, self._chosen_by(dataset)))
        return of_moments or (joint and self._is_open(summary))

    @property
    def _is_free(self) -> bool:
        """Whether the parameters say nothing of the smoothness."""
        return self.smoothness is None and self.C is None

    def _chosen_by(self, dataset: Source, summary: Summary | None = None) -> str | None:
        """The criterion of the smoothness; before the summary, the one of columns of few values."""
        if not self._is_free:
            return self.smoothness
        size = sizes.size_of(self, dataset, summary)
        if summary is None:
            size = smooth_costs.least_size(size, self.n_bases, dataset)
        return smooth_costs.criterion_of(self, size, self._asks_joint)

    def _weighs_curves(self, dataset: Source, summary: Summary | None = None) -> bool:
        """Whether the sample says how much each curve is smoothed, beside pairs."""
        if not (self._is_free and has_pairs(self)):
            return False
        size = sizes.size_of(self, dataset, summary)
        if summary is None:
            least = smooth_costs.least_size(size, self.n_bases, dataset)
            size = size._replace(dim=least.dim + size.pair_dim)
        return smooth_costs.weighs_curves(self, size, self._asks_joint)

    def _size(self, dataset: Source, summary: Summary | None = None) -> sizes.Size:
        """The size of the fit, with as many functions of pairs as their smoothness allows."""
        size = sizes.size_of(self, dataset, summary)
        if not self._weighs_curves(dataset, summary):
            return size
        return sizes.size_of(self, dataset, summary, smooth_costs.room_of_pairs(size))

    @property
    def _asks_joint(self) -> bool:
        """Whether one problem of all classes was asked for; for two it is the one curve."""
        if self.multi_class != JOINT:
            return False
        if not self._loss.multinomial:
            raise ValueError(
                f"multi_class='multinomial' needs loss='log_loss', got loss={self.loss!r}; use "
                "multi_class='ovr'"
            )
        return True

    def _why_apart(self, dataset: Source, summary: Summary | None = None) -> str:
        """Reason for which classes whose way is left open are fitted one against the rest.

        Empty: they are one problem; before the summary, which counts them, that they may be.
        """
        size = self._size(dataset, summary)
        criterion, weighs_curves = self.smoothness, False
        if summary is not None:
            criterion = self._chosen_by(dataset, summary)
            weighs_curves = self._weighs_curves(dataset, summary)
        why = why_apart(self, size, criterion, weighs_curves=weighs_curves)
        if why or self._rows_in_hand(dataset):
            return why
        # more coefficients than Newton solves for
        if size.sparse:
            return "sparse rows of so many coefficients are fitted for one class at a time"
        return "max_passes=2 leaves no read for a sample" if self.max_passes < 3 else ""

    def _may_join(self, dataset: Source) -> bool:
        """Whether the summary is to say if the classes are one problem."""
        return self.multi_class == AUTO_CLASSES and not self._why_apart(dataset)

    def _is_open(self, summary: Summary | None) -> bool:
        """Whether the way to classes that are counted, more than two, is left open."""
        return self.multi_class == AUTO_CLASSES and summary is not None and len(self.classes_) > 2

    def _joins(self, dataset: Source, summary: Summary | None) -> bool:
        """Whether the classes are one problem, as far as it is known."""
        if self._is_open(summary):
            return not self._why_apart(dataset, summary)
        return self._asks_joint

    def _choice(self, dataset: Source, summary: Summary | None = None) -> Choice:
        """The solver, chosen from metadata: the plan that is shown is the one that is run.

        But for the smoothness that nothing is said of, which one C replaces where the summary finds
        too many coefficients.
        """
        check_smoothness(self)
        size, criterion = self._size(dataset), self._chosen_by(dataset, summary)
        why, joint = why_moments(self, criterion), self._joins(dataset, summary)
        if why:
            least = smooth_costs.least_size(size, self.n_bases, dataset)
            choice = smooth_costs.choose_moments(why, least, self.solver, joint)
        if not goes_by_moments(self, criterion):
            easy = not why and self._is_easy
            choice = choose(self._loss, self.solver, size, joint, easy)
        if self.warm_start and choice.solver not in (*WARM, GRAM):
            raise ValueError(
                f"warm_start=True goes with solver={' or '.join(map(repr, WARM))}, got "
                f"{choice.solver!r}, which does not start from coefficients; leave it out"
                + ("" if choice.solver != "pegasos" else ", or go on with partial_fit")
            )
        if self._is_open(summary) and not joint:
            why = self._why_apart(dataset, summary)
            choice = choice.because(f"one class against the rest as {why}")
        return choice

    def _own_remedies(self, dataset: Source) -> dict[str, object]:
        """A smaller C, and of solvers the first that these parameters go with."""
        found: dict[str, object] = {}
        if isinstance(C := vars(self).get("C"), Real):  # those that choose have several
            found["C"] = float(C) / 10
        for solver in self._other_solvers() if "solver" in vars(self) else ():
            other = copy(self)
            other.solver = solver
            try:
                other._choice(dataset)
            except ValueError:
                continue
            return {"solver": solver, **found}
        return found

    def _other_solvers(self) -> list[str]:
        """The loss's solvers but the one used, and none that ends less near to the optimum."""
        used = self.certificate_.solver
        return [one for one in solvers_of(self._loss) if one not in (used, PEGASOS)]

    def _one_c(self, size: sizes.Size) -> Choice:
        """The solver of a fit with one C, were nothing chosen."""
        return choose(self._loss, self.solver, size, self._asks_joint, self._is_easy)

    @property
    def _is_easy(self) -> bool:
        """Whether dual CD has been measured for these parameters, and they allow it."""
        return bool(
            not self.warm_start
            and make_basis(self.basis).local
            and not has_pairs(self)
            and self._weight <= DUAL_C
            and self.tol >= DUAL_TOL
            and self.max_passes >= DUAL_ROUNDS
        )

    @property
    def _most_passes(self) -> int:
        """Reads that the summary and the solver may take."""
        return self.max_passes - has_pairs(self) - (most_screened(self) > 0)

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        model, why = self._decided(dataset, summary)
        size = model._size(dataset, summary)
        phases = model._phases(dataset, summary, size, bound_note(model))
        if model is not self and self._chosen_by(dataset, summary) is not None:
            phases += self._needs_without(dataset, summary, model._rows_in_hand(dataset))
        if summary is None and model._may_join(dataset):
            phases[-1] = replace(phases[-1], note=OPEN_NOTE)
        if why:
            phases[-1] = replace(phases[-1], decided=pair_choice.no_pairs(why))
        return phases

    def _needs_without(
        self, dataset: Source, summary: Summary | None, drawn_rows: int
    ) -> list[Needs]:
        """The phases of a fit whose screening finds no pairs, beside a sample of so many rows.

        It takes as many reads as the solver would that they stand in for.
        """
        size = self._size(dataset, summary)._replace(drawn_rows=drawn_rows)
        if summary is None:
            size = size._replace(dim=min(size.dim, smooth_costs.largest_dim()))
        held = sizes.held_nbytes_of_sample(size)
        phases = [
            replace(phase, passes=(0, 0))
            for phase in smooth_costs.moments_needs(size, self.max_passes, at_end=False, held=held)
        ]
        return needs.with_temporaries(phases, self, size, summary, pairs=False)

    def _phases(
        self, dataset: Source, summary: Summary | None, size: sizes.Size, note: str = ""
    ) -> list[Needs]:
        """The phases of a fit of this size; `note`: what is not known of it yet."""
        choice = self._choice(dataset, summary)
        criterion = self._chosen_by(dataset, summary)
        alone = goes_by_moments(self, criterion)
        # beside pairs the sample is counted with them
        has_sample = not (size.loss.quadratic or has_pairs(self))
        phases = [] if alone else needs.needs_of(choice.solver, size, self._most_passes)
        n_after = -len(phases)
        if summary is None and criterion != self.smoothness:  # one C may take its place
            one_c = needs.needs_of(self._one_c(size).solver, size, self._most_passes)
            most = size._replace(dim=min(size.dim, smooth_costs.largest_dim()))
            held = sizes.held_nbytes_of_sample(most) if has_sample else 0
            chosen = smooth_costs.moments_needs(most, self.max_passes, at_end=False, held=held)
            phases = smooth_costs.either(one_c, chosen)
        elif why := why_moments(self, criterion):
            least = smooth_costs.least_size(size, self.n_bases, dataset)
            known = least if summary is None else size
            smooth_costs.choose_moments(why, known, self.solver, self._asks_joint)
            counted = smooth_costs.planned_size(size) if summary is None else size
            held = sizes.held_nbytes_of_sample(size) if has_sample else 0
            phases += smooth_costs.moments_needs(
                counted, self.max_passes, at_end=not alone, held=held
            )
            if counted.dim < size.dim:
                phases[-1] = replace(phases[-1], note=UNCOUNTED_NOTE)
        n_after = 0 if alone else n_after + len(phases)
        if late := self._late_rows(dataset, summary):
            phases.insert(0, Needs(LATE, 0, driver_bytes=sample_nbytes(dataset, late)))
        if not has_pairs(self):
            return needs.with_temporaries(phases, self, size, summary, pairs=False)
        held = sizes.held_nbytes_of_sample(size) if self._rows_in_hand(dataset) else 0
        phases = with_pairs(phases, self, size, summary, held=held, n_after=n_after, note=note)
        phases = beside_sample(phases, size, held)
        before, made = [], []
        if self._weighs_curves(dataset, summary):
            before.append(smooth_costs.curves_needs(size))
            made.append(smooth_costs.pair_weights_needs(size))
        if most_screened(self):
            has_levels = bool((level_counts(dataset, 0) >= 0).any())
            before += screening_needs(size, has_levels)
        main = without_pairs(size)
        before = needs.with_temporaries(before, self, main, summary, pairs=False)
        made = needs.with_temporaries(made, self, size, summary, pairs=True)
        return [*before, *made, *phases]

    def _late_rows(self, dataset: Source, summary: Summary | None) -> int:
        """Rows of a sample that only the number of classes calls for: it has a read of its own.

        Drawn beside the summary it would take memory from fits to two classes too.
        """
        if not self._joins(dataset, summary) or self._rows_in_hand(dataset):
            return 0
        return sizes.sample_rows(self._size(dataset))

    def _sample_rows(self, dataset: Source) -> int:
        return self._decided(dataset)[0]._rows_in_hand(dataset)

    def _rows_in_hand(self, dataset: Source) -> int:
        """Rows of the sample that the summary draws, with `interactions` that are decided."""
        size, criterion = self._size(dataset), self._chosen_by(dataset)
        one_read = goes_by_moments(self, criterion) and self._loss.quadratic
        wanted = self._choice(dataset).solver in WARM and not one_read
        if criterion != self.smoothness:  # one C may take its place
            wanted = wanted or self._one_c(size).solver in WARM
        wanted = wanted or most_screened(self) > 0 or self._weighs_curves(dataset)
        return sizes.sample_rows(size) if wanted else 0
