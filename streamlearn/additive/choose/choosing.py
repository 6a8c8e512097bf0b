"""Choosing C and the number of splines by splits: in shared reads where the fits allow it.

    "gram"      squared error: one read sums up a Gram for each split, and every fit is exact
    "newton"    smooth losses: the fits of all candidates on all splits read the rows together
    "splits"    the others: each candidate is fitted without each split, by its own reads

Losses with kinks (hinge, epsilon-insensitive, quantile) go the last way: dual coordinate descent
keeps a dual variable for each row of each fit, and caches the rows that one fit still has to visit,
which are other rows in every other.  So do pairs that are found by the targets, which a split may
not see, and more coefficients than Newton's method solves for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from ...config import format_bytes
from ...data.source import Chunk, Source
from ...engine.plan import Needs
from ...engine.run import Run
from ...estimator.certificate import Certificate
from ...estimator.model import Model
from ...estimator.scores.choosing import (
    Candidate,
    ChoosesBySplits,
    Member,
    Results,
    best_index,
    cv_results,
)
from ...estimator.scores.metrics import check_gain, find_metric
from ...passes.summary.summary import Summary
from ...solvers.newton import Evaluation, newton, relative_gap
from ..basis.column_bases import mean_splines
from ..costs import needs, sizes
from ..costs.pairs import with_pairs
from ..costs.solver_choice import NEWTON_DIM, Choice
from ..model import AdditiveModel
from ..newton.sampled import EXACT
from ..objective import Problem
from ..pairs import density_fold, has_pairs, most_screened
from ..targets import Adjustment, adjust, adjusted
from ..training import Outcome, plain
from . import costs as cost
from . import gram
from .judging import scores_fold
from .newton import NO_SPLIT, SplitModel, SplitObjective, Splits, samples_of

GRID = (-3, 4)
"""An integer `Cs` is so many powers of 10, evenly spaced between these."""

OF_MOMENTS = ("r2", "neg_mean_squared_error")
"""Metrics that follow from the moments of a split, without a read that scores."""


GRAM, NEWTON, SPLITS = "gram", "newton", "splits"
"""The ways to the choice."""


class Choosing(ChoosesBySplits, AdditiveModel):
    """A mixin before an additive estimator that chooses, then fits all rows."""

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
        elif (
            not self._loss.has("curvature")
            or screens
            or size.dim > NEWTON_DIM
            or matrix > room // 2
        ):
            way = SPLITS
        else:
            way = NEWTON
        return way, sizes.size_of(largest, dataset, summary)

    @property
    def _n_splits(self) -> int:
        return 1 if self.cv == "gcv" else int(self.cv)

    def _sample_rows(self, dataset: Source) -> int:
        way, size = self._layout(dataset)
        if way == SPLITS:
            return super()._sample_rows(dataset)
        return sizes.sample_rows(size) if way == NEWTON else 0

    def _n_fits(self, dataset: Source) -> int:
        way, _ = self._layout(dataset)
        return super()._n_fits(dataset) if way == SPLITS else 1

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        way, size = self._layout(dataset, summary)
        if way == SPLITS:
            return super()._needs(dataset, summary)
        n_models = len(self._candidates()) * self._n_splits
        if way == GRAM:
            phases = cost.gram_needs(size, self._n_splits, self._counts_in_groups(dataset))
        else:
            n_groups = len(self._groups(size, n_models))
            each = find_metric(self._scoring()).state_bytes(len(getattr(self, "classes_", (0, 0))))
            phases = cost.newton_needs(
                size, self._n_splits, n_models, n_groups, self.max_passes, each
            )
        if not has_pairs(self):
            return needs.with_temporaries(phases, self, size, summary, pairs=False)
        held = sizes.held_nbytes_of_sample(size) if self._sample_rows(dataset) else 0
        return with_pairs(phases, self, size, summary, held=held)

    def _groups(self, size: sizes.Size, n_models: int) -> list[range]:
        return cost.groups_of_models(size, n_models)

    def _counts_in_groups(self, dataset: Source) -> list[list[int]]:
        dims = {
            candidate["n_bases"]: sizes.size_of(self._member(candidate), dataset).dim
            for candidate in self._candidates()
        }
        return cost.groups_of_counts(dims, self._n_splits)

    # Fitting.

    def _shares_reads(self, dataset: Source) -> bool:
        return self._layout(dataset)[0] != SPLITS

    def _results_of(
        self, tried: Sequence[Candidate], scores: np.ndarray, fits: Sequence[Member]
    ) -> Results:
        gaps = np.array([fitted.certificate_.relative_gap for fitted in fits])
        gaps = gaps.reshape(len(scores[0]), len(tried)).T
        return {**cv_results(tried, scores), "relative_gap": gaps.max(axis=1)}

    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        sample: Chunk | None = None,
    ) -> Certificate:
        if summary.n_rows < 2:
            raise ValueError(
                f"n_samples={summary.n_rows}: a split needs rows to judge on and others to train on"
            )
        tried = self._candidates()
        if self.one_standard_error and self.cv == "gcv":
            raise ValueError(
                "one_standard_error needs the spread over splits, and cv='gcv' has none; use an "
                "integer cv"
            )
        scoring = self._scoring()
        way, size = self._layout(dataset, summary)
        adjustment = self._adjustment(dataset, summary)
        problems = self._problems(dataset, summary, tried, adjustment)
        rows = _Rows(dataset, adjusted(dataset, adjustment), summary)
        if way == GRAM:
            outcome, problem = self._choose_by_gram(run, rows, problems, tried, scoring)
        else:
            assert sample is not None  # `_sample_rows` is at least 1
            share = sizes.sample_share(sample, summary.total_weight)
            if share >= 1.0:
                problems = [problem._replace(single=False) for problem in problems]
            drawn = _Sample(adjust(adjustment, sample), share)
            groups = self._groups(size, len(tried) * self._n_splits)
            outcome, problem = self._choose_by_newton(
                run, rows, drawn, problems, tried, scoring, groups
            )
        means = mean_splines(summary, problem.bases) if dataset.sparse else problem.reference.c
        density = None
        if has_pairs(self):
            density = run.fold(density_fold(problem), dataset, name="pairs")
        self._keep_fit(problem, outcome.theta, means, summary, density)
        choice = Choice(way, f"C={self.C_:.6g}, n_bases={self.n_bases_} chosen")
        run.record(read=run.n_passes, objective=plain(outcome.primal), dual=plain(outcome.dual))
        return self._certificate(outcome, choice)

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

    def _problems(
        self,
        dataset: Source,
        summary: Summary,
        candidates: list[Candidate],
        adjustment: Adjustment,
    ) -> list[Problem]:
        """The candidates' problems; those of one `n_bases` share their bases."""
        problems: list[Problem] = []
        made: dict[int, Problem] = {}
        for candidate in candidates:
            n_bases = candidate["n_bases"]
            if n_bases not in made:
                member = self._member(candidate)
                made[n_bases] = member._problem(dataset, summary, adjustment, "newton")
            problems.append(made[n_bases]._replace(C=candidate["C"]))
        return problems

    def _choose_by_gram(
        self,
        run: Run,
        rows: _Rows,
        problems: list[Problem],
        candidates: list[Candidate],
        scoring: str,
    ) -> tuple[Outcome, Problem]:
        """Squared error: one read for each group of `n_bases`."""
        splits = Splits(self._n_splits, self.random_state)
        of_count = {c["n_bases"]: p for c, p in zip(candidates, problems, strict=True)}
        scores, gaps = np.empty((2, len(candidates), splits.cv))
        for number, counts in enumerate(self._counts_in_groups(rows.given)):
            fold = gram.moments_fold([of_count[n] for n in counts], splits)
            found = run.fold(fold, rows.adjusted, name=f"gram-{number + 1}")
            moments = dict(zip(counts, found, strict=True))
            for k, (candidate, problem) in enumerate(zip(candidates, problems, strict=True)):
                if candidate["n_bases"] in moments:
                    of_splits = moments[candidate["n_bases"]]
                    scores[k], gaps[k] = self._judge_gram(problem, of_splits, scoring)
        self._judge(candidates, scores, gaps)
        problem = problems[self.best_index_]
        if self.n_bases_ not in moments:  # a later group took its place: one more read
            again = run.fold(gram.moments_fold([problem], splits), rows.adjusted, name="gram-refit")
            moments = {self.n_bases_: again[0]}
        whole = gram.without(moments[self.n_bases_], NO_SPLIT, problem.dim)
        at = gram.optimum(problem, whole).at
        gap = float(relative_gap(at.value, at.bound).max())
        goal = max(self.tol, 1e-8)
        return Outcome(at.theta, at.value, at.bound, "squared error: exact", gap <= goal), problem

    def _judge_gram(
        self, problem: Problem, moments: list[gram.Moments], scoring: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """The scores and gaps of one candidate on every split."""
        scores, gaps = np.full(len(moments), np.nan), np.zeros(len(moments))
        for split in range(len(moments)):
            train = gram.without(moments, NO_SPLIT if self.cv == "gcv" else split, problem.dim)
            held_out = moments[split]
            h, hy, hyy = held_out.sums
            if not h > 0 or not train.sums[0] > 0:
                continue
            found = gram.optimum(problem, train)
            gaps[split] = float(relative_gap(found.at.value, found.at.bound).max())
            if self.cv == "gcv":
                scores[split] = -gram.gcv(problem, found, train)
                continue
            error = gram.squared_error(problem, found, held_out)
            scatter = 0.5 * (hyy - hy**2 / h)
            if scoring == "neg_mean_squared_error":
                scores[split] = -2 * error / h
            elif scatter > 0:
                scores[split] = 1 - error / scatter
        return scores, gaps

    def _choose_by_newton(
        self,
        run: Run,
        rows: _Rows,
        sample: _Sample,
        problems: list[Problem],
        candidates: list[Candidate],
        scoring: str,
        groups: list[range],
    ) -> tuple[Outcome, Problem]:
        """A few reads for each group of models, one that scores all, a few that refit the best."""
        splits = Splits(self._n_splits, self.random_state)
        # Neighbours in C one after the other: each starts where the one before ended.
        places = [(k, f) for f in range(splits.cv) for k in range(len(candidates))]
        models = [SplitModel(problems[k], f) for k, f in places]
        thetas: list[np.ndarray] = []
        gaps = np.empty((len(candidates), splits.cv))
        for number, group in enumerate(groups):
            name = f"newton-{number + 1}"
            members = [models[m] for m in group]
            found, gap = self._solve(run, rows.adjusted, members, sample, splits, name, None)
            thetas += found.thetas
            for m, value in zip(group, gap, strict=True):
                k, f = places[m]
                gaps[k, f] = value
        judges: list[list[Model]] = [[] for _ in range(splits.cv)]
        for (k, f), theta in zip(places, thetas, strict=True):
            judges[f].append(self._judge_of(candidates[k], problems[k], theta, rows.summary))
        scores = run.fold(scores_fold(judges, splits, scoring), rows.given, name="score")
        self._judge(candidates, scores, gaps)
        problem = problems[self.best_index_]
        best = [
            theta for (k, _), theta in zip(places, thetas, strict=True) if k == self.best_index_
        ]
        start = np.mean(best, axis=0)
        whole = SplitModel(problem, NO_SPLIT)
        found, gap = self._solve(run, rows.adjusted, [whole], sample, splits, "refit", start)
        at = found.at
        reason = found.reason or f"relative gap {gap[0]:.2g} <= tol {self.tol:.2g}"
        return Outcome(at.theta, at.value, at.bound, reason, gap[0] <= self.tol), problem

    def _judge_of(
        self, candidate: Candidate, problem: Problem, theta: np.ndarray, summary: Summary
    ) -> Member:
        """The model of one candidate at a point, which decides rows as they are read."""
        judge = self._member(candidate)
        if hasattr(self, "classes_"):  # the rows of a fit carry codes
            judge.classes_ = np.arange(len(self.classes_), dtype=np.float64)
        judge._decides_with(self)
        # where the means of pairs move changes no decision: near them is enough here
        near = problem.reference.c if has_pairs(self) else mean_splines(summary, problem.bases)
        judge._keep(problem, theta, near)
        return judge

    def _solve(
        self,
        run: Run,
        dataset: Source,
        models: list[SplitModel],
        sample: _Sample,
        splits: Splits,
        name: str,
        start: np.ndarray | None,
    ) -> tuple[_Solved, np.ndarray]:
        """Optima of some models in the same reads, from `start` or the sample's own optima."""
        rows, share = sample
        samples = samples_of(models, rows, splits, share, run.n_threads)
        objective = SplitObjective(run, dataset, models, samples, splits, name)
        thetas: list[np.ndarray] = []
        for k, (model, own) in enumerate(zip(models, samples, strict=True)):
            shape = (model.problem.n_outputs, model.problem.dim + 1)
            at = np.zeros(shape) if start is None else start
            if k and models[k - 1].split == model.split and thetas[-1].shape == shape:
                at = thetas[-1]
            if start is None or share >= 1.0:
                at = own.minimise(at, tol=EXACT if share >= 1.0 else None)
            thetas.append(at)
        left = self.max_passes - run.n_passes - (1 if name == "refit" else 3) - has_pairs(self)
        left = max(left, 1)
        solution = newton(objective, objective.stack(thetas), tol=self.tol, max_reads=left)
        K = objective.n_outputs
        found = _Solved(objective.unstack(solution.at.theta), solution.at, solution.reason)
        run.record(read=run.n_passes, relative_gap=float(solution.gap.max()), models=len(models))
        return found, solution.gap.reshape(-1, K).max(axis=1)

    def _judge(self, candidates: list[Candidate], scores: np.ndarray, gaps: np.ndarray) -> None:
        """Set what was found of every candidate, and which is best."""
        self.cv_results_ = {**cv_results(candidates, scores), "relative_gap": gaps.max(axis=1)}
        self._set_choice(best_index(self.cv_results_, one_standard_error=self.one_standard_error))

    def _set_choice(self, best: int) -> None:
        super()._set_choice(best)
        self.C_ = float(self.cv_results_["param_C"][best])
        self.n_bases_ = int(self.cv_results_["param_n_bases"][best])


class _Rows(NamedTuple):
    """The rows of a choice and what is known of them."""

    given: Source
    """Rows as they are read, for the scores."""
    adjusted: Source
    """Rows with targets and weights as the loss takes them, for the fits."""
    summary: Summary


class _Sample(NamedTuple):
    """Rows in memory, adjusted, that give directions."""

    rows: Chunk
    share: float
    """Their share of all rows, by weight."""


class _Solved(NamedTuple):
    thetas: list[np.ndarray]
    at: Evaluation
    reason: str


def candidates(Cs: Any, n_bases: npt.ArrayLike) -> list[Candidate]:
    """All of them, the simplest first: few splines, then small C."""
    if np.ndim(Cs) == 0:
        values = np.logspace(*GRID, int(Cs))
    else:
        values = np.unique(np.asarray(Cs, dtype=np.float64))
        if not len(values) or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"Cs must be positive finite numbers, got {Cs!r}")
    counts = np.unique(np.atleast_1d(n_bases))
    if counts.dtype.kind != "i" or not len(counts) or not ((counts > 1) & (counts < 257)).all():
        raise ValueError(f"n_bases must be an integer from 2 to 256 or several, got {n_bases!r}")
    return [{"C": float(C), "n_bases": int(n)} for n in counts for C in values]
