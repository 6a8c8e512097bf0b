"""The parameters of a choice by splits, the candidates, and the plan: which way, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from ...config import format_bytes
from ...data.source import Source
from ...engine.plan import Needs
from ...estimator.scores.choosing import ChoosesBySplits, Member
from ...estimator.scores.metrics import check_gain, find_metric
from ...estimator.scores.paths import Candidate
from ...numeric.sequences import integers_of, numbers_of
from ...passes.summary.summary import Summary
from ..costs import needs, pair_choice, sizes
from ..costs.pairs import with_pairs
from ..costs.solver_choice import DUAL, NEWTON, NEWTON_DIM, solvers_of
from ..model import AdditiveModel
from ..pairs import AUTO, has_pairs, most_screened
from . import costs as cost

GRID = (-3, 4)
"""An integer `Cs` is so many powers of 10, evenly spaced between these."""

STRENGTHS = "a number of values, or one or more positive finite numbers, such as Cs=[0.1, 1.0]"
COUNTS = "an integer from 2 to 256, or one or more of them, such as n_bases=[5, 20]"

OF_MOMENTS = ("r2", "neg_mean_squared_error")
"""Metrics that follow from the moments of a split, without a read that scores."""
GRAM, SPLITS = "gram", "splits"
"""Ways to the choice, beside Newton's method and dual-cd."""


class PlannedChoice(ChoosesBySplits, AdditiveModel):
    """A mixin of the estimators that choose: their parameters, and what a choice costs."""

    Cs: int | Sequence[float]
    cv: int | str  # type: ignore[assignment]  # "gcv" too
    _default_scoring: Callable[[], str]
    _choices = {"n_bases": "n_bases", "Cs": "C"}  # a mapping that is not changed
    _choosing_constraints = {
        **ChoosesBySplits._choosing_constraints,
        "Cs": ["array-like", Interval(Integral, 1, None, closed="left")],
        "n_bases": ["array-like", Interval(Integral, 2, 256, closed="both")],
    }
    # the plain estimators have these as parameters
    solver, early_stopping, warm_start = "newton", False, False
    smoothness, select, covariance, monotone, convex = None, False, False, None, None

    def _decided(self, dataset: Source, summary: Summary | None = None) -> tuple[Self, str]:
        """Itself, in which ``interactions="auto"`` takes no pairs."""
        return self, pair_choice.SPLIT_PAIRS if self.interactions == AUTO else ""

    def _member(self, parameters: Candidate) -> Member:
        decided = {"interactions": 0} if self.interactions == AUTO else {}
        return super()._member({**parameters, **decided})

    # What it costs.

    def _candidates(self) -> list[Candidate]:
        return candidates(self.Cs, self.n_bases)

    def _layout(self, dataset: Source, summary: Summary | None = None) -> tuple[str, sizes.Size]:
        """The way, from metadata alone, and the largest candidate's size."""
        largest = self._member(self._candidates()[-1])
        size = sizes.size_of(largest, dataset)
        matrix, room, screens = 8 * size.dim**2, cost.room(), most_screened(self) > 0
        fits = self._loss.quadratic and self._n_splits * matrix <= room // 8 and not screens
        if fits and (self.cv == "gcv" or self._follows_from_moments()):
            way = GRAM
        elif self.cv == "gcv" and not self._loss.quadratic:
            raise ValueError(
                f"cv='gcv' estimates the mean squared error of loss='squared_error', got "
                f"loss={self.loss!r}; use an integer cv"
            )
        elif self.cv == "gcv" and screens:
            raise ValueError(
                f"cv='gcv' knows the degrees of freedom of curves and pairs that are given, got "
                f"interactions={self.interactions!r}; name the pairs, or use an integer cv"
            )
        elif self.cv == "gcv":
            raise ValueError(
                f"cv='gcv' needs a Gram of {format_bytes(matrix)} in every lane, and an eighth of "
                f"{format_bytes(room)} is the most; raise memory_budget, take fewer n_bases or an "
                "integer cv"
            )
        elif screens:
            way = SPLITS
        elif self._loss.has("curvature") and size.dim <= NEWTON_DIM and matrix <= room // 2:
            way = NEWTON
        elif DUAL in solvers_of(self._loss) and not (has_pairs(self) or sizes.holds_rows(size)):
            way = DUAL
        else:  # from memory reads cost nothing, and fits by themselves less arithmetic
            way = SPLITS
        return way, sizes.size_of(largest, dataset, summary)

    @property
    def _n_splits(self) -> int:
        return 1 if self.cv == "gcv" else int(self.cv)

    def _sample_rows(self, dataset: Source) -> int:
        way, size = self._layout(dataset)
        if way == SPLITS:
            return super()._sample_rows(dataset)
        return sizes.sample_rows(size) if way == NEWTON else 0

    def _n_fits(self, dataset: Source) -> tuple[int, int]:
        way, _ = self._layout(dataset)
        return super()._n_fits(dataset) if way == SPLITS else (1, 1)

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        way, size = self._layout(dataset, summary)
        if way == SPLITS:
            phases = super()._needs(dataset, summary)
        else:
            phases = self._needs_together(way, size, dataset, summary)
        if self.interactions == AUTO:
            said = pair_choice.no_pairs(pair_choice.SPLIT_PAIRS)
            phases[-1] = replace(phases[-1], decided=said)
        return phases

    def _needs_together(
        self, way: str, size: sizes.Size, dataset: Source, summary: Summary | None
    ) -> list[Needs]:
        """The phases of fits that share their reads."""
        n_models = len(self._candidates()) * self._n_splits
        each = find_metric(self._scoring()).state_bytes(len(getattr(self, "classes_", (0, 0))))
        if way == GRAM:
            phases = cost.gram_needs(size, self._n_splits, self._counts_in_groups(dataset))
        elif way == NEWTON:
            n_groups = len(cost.groups_of_models(size, n_models))
            phases = cost.newton_needs(
                size, self._n_splits, n_models, n_groups, self.max_passes, each
            )
        else:
            n_counts = len(np.unique(self.n_bases))
            phases = cost.dual_needs(
                size, self._n_splits, n_models, n_counts, self._most_passes, each
            )
        if not has_pairs(self):
            return needs.with_temporaries(phases, self, size, summary, pairs=False, alone=False)
        held = sizes.held_nbytes_of_sample(size) if self._sample_rows(dataset) else 0
        return with_pairs(phases, self, size, summary, held=held)

    def _counts_in_groups(self, dataset: Source) -> list[list[int]]:
        dims = {
            candidate["n_bases"]: sizes.size_of(self._member(candidate), dataset).dim
            for candidate in self._candidates()
        }
        return cost.groups_of_counts(dims, self._n_splits)

    def _shares_reads(self, dataset: Source) -> bool:
        return self._layout(dataset)[0] != SPLITS

    def _scoring(self) -> str:
        scoring = self.scoring or self._default_scoring()
        check_gain(self, scoring)
        if self.cv == "gcv" and scoring != "neg_mean_squared_error":
            raise ValueError(
                f"cv='gcv' estimates the mean squared error, got scoring={scoring!r}; use "
                "'neg_mean_squared_error' or an integer cv"
            )
        return scoring

    def _follows_from_moments(self) -> bool:
        """Whether Grams tell the score; with an offset they know the spread of y less it alone."""
        scoring = self._scoring()
        whole = getattr(self, "offset", None) is None
        return scoring in OF_MOMENTS and (whole or scoring != "r2")


def candidates(Cs: Any, n_bases: npt.ArrayLike) -> list[Candidate]:
    """All of them, the simplest first: few splines, then small C."""
    if isinstance(Cs, Integral):
        values = np.logspace(*GRID, int(Cs))
    else:
        values = np.unique(numbers_of("Cs", Cs, STRENGTHS))
        if not len(values) or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"Cs={Cs!r}; expected {STRENGTHS}")
    several = [n_bases] if isinstance(n_bases, Integral) else n_bases
    counts = sorted(set(integers_of("n_bases", several, COUNTS)))
    if not counts or not 1 < counts[0] <= counts[-1] < 257:
        raise ValueError(f"n_bases={n_bases!r}; expected {COUNTS}")
    return [{"C": float(C), "n_bases": int(n)} for n in counts for C in values]
