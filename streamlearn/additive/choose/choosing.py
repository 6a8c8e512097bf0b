"""Choosing C and the number of splines by splits: in shared reads where the fits allow it.

    "gram"      squared error: one read sums up a Gram for each split, and every fit is exact
    "newton"    smooth losses: the fits of all candidates on all splits read the rows together
    "dual-cd"   losses with kinks, and more coefficients than Newton's method solves for: so do they
    "splits"    the others: each candidate is fitted without each split, by its own reads

The last way is that of pairs that are found by the targets, which a split may not see; and, where
Newton's method does not serve, of all pairs, of rows that "dual-cd" would hold in memory, whose
reads cost nothing, and of losses whose dual variables cannot be minimised one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.order import Order
from ...data.source import Chunk, Source
from ...engine.run import Run
from ...estimator.certificate import Certificate
from ...estimator.fitting import replan
from ...estimator.model import Model
from ...estimator.planning import after_summary
from ...estimator.scores.choosing import Member
from ...estimator.scores.paths import Candidate
from ...estimator.scores.results import Results, best_index, cv_results
from ...passes.summary.summary import Summary
from ...solvers.newton import Evaluation, newton, relative_gap
from ..basis.column_bases import mean_splines
from ..costs import sizes
from ..costs.pair_choice import SPLIT_PAIRS, no_pairs
from ..costs.solver_choice import DUAL, Choice
from ..dual.descent import GROUP, alpha_width
from ..newton.sampled import beyond
from ..objective import Problem
from ..pairs import AUTO, density_fold, has_pairs, with_density
from ..targets import Adjustment, adjust, adjusted
from ..training import Outcome, Watch, as_coordinates, cached_x_nbytes, labels_of_refs, plain
from . import costs as cost
from . import gram
from .dual import VISITED, Turns, fit_together
from .judging import scores_fold
from .newton import NO_SPLIT, SplitModel, SplitObjective, Splits, samples_of
from .planned import GRAM, PlannedChoice


class Choosing(PlannedChoice):
    """A mixin before an additive estimator that chooses, then fits all rows."""

    def _results_of(
        self, tried: Sequence[Candidate], scores: np.ndarray, fits: Sequence[Member]
    ) -> Results:
        gaps = np.array([fitted.certificate_.relative_gap for fitted in fits])
        gaps = gaps.reshape(len(scores[0]), len(tried)).T
        return {**cv_results(tried, scores), "relative_gap": gaps.max(axis=1)}

    def _adopt(self, final: Member, fits: Sequence[Member], n_scored: int, peak_bytes: int) -> None:
        super()._adopt(final, fits, n_scored, peak_bytes)
        if self.interactions == AUTO:
            reason = f"{self.certificate_.reason}; {no_pairs(SPLIT_PAIRS)}"
            self.certificate_ = replace(self.certificate_, reason=reason)

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
                f"cv={self.cv} splits have rows to judge on and others to train on, but the data "
                f"have n_samples={summary.n_rows}; fit more rows, or the estimator that does not "
                "choose"
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
        problems = self._problems(dataset, summary, tried, adjustment, way)
        rows = _Rows(dataset, adjusted(dataset, adjustment), summary)
        if way == GRAM:
            outcome, problem = self._choose_by_gram(run, rows, problems, tried, scoring)
        elif way == DUAL:
            outcome, problem = self._choose_by_dual(run, rows, problems, tried, scoring, size)
        else:
            assert sample is not None  # `_sample_rows` is at least 1
            share = sizes.sample_share(sample, summary.total_weight)
            if share >= 1.0:
                problems = [problem._replace(single=False) for problem in problems]
            drawn = _Sample(adjust(adjustment, sample), share)
            groups = cost.groups_of_models(size, len(tried) * self._n_splits)
            outcome, problem = self._choose_by_newton(
                run, rows, drawn, problems, tried, scoring, groups
            )
        means = mean_splines(summary, problem.bases) if dataset.sparse else problem.reference.c
        if has_pairs(self):
            density = run.fold(density_fold(problem), dataset, name="pairs")
            means = with_density(problem.bases, means, density)
        self._keep_fit(problem, outcome.theta, means, summary)
        choice = Choice(way, f"C={self.C_:.6g}, n_bases={self.n_bases_} chosen")
        if why := self._decided(dataset, summary)[1]:
            choice = choice.because(no_pairs(why))
        run.record(read=run.n_passes, objective=plain(outcome.primal), dual=plain(outcome.dual))
        return self._certificate(outcome, choice)

    def _problems(
        self,
        dataset: Source,
        summary: Summary,
        candidates: list[Candidate],
        adjustment: Adjustment,
        solver: str,
    ) -> list[Problem]:
        """The candidates' problems; those of one `n_bases` share their bases."""
        problems: list[Problem] = []
        made: dict[int, Problem] = {}
        for candidate in candidates:
            n_bases = candidate["n_bases"]
            if n_bases not in made:
                member = self._member(candidate)
                made[n_bases] = member._problem(dataset, summary, adjustment, solver)
            problems.append(made[n_bases]._replace(C=candidate["C"]))
        return problems

    def _splits_of(self, rows: Source) -> Splits:
        """The splits of these rows, in all of which subjects stay whole."""
        return Splits(self._n_splits, self.random_state, rows.siblings)

    def _choose_by_gram(
        self,
        run: Run,
        rows: _Rows,
        problems: list[Problem],
        candidates: list[Candidate],
        scoring: str,
    ) -> tuple[Outcome, Problem]:
        """Squared error: one read for each group of `n_bases`."""
        splits = self._splits_of(rows.given)
        of_count = {c["n_bases"]: p for c, p in zip(candidates, problems, strict=True)}
        scores, gaps = np.empty((2, len(candidates), splits.cv))
        for number, counts in enumerate(self._counts_in_groups(rows.given)):
            fold = gram.moments_fold([of_count[n] for n in counts], splits)
            found = run.fold(fold, rows.adjusted, name=f"gram-{number + 1}")
            moments = dict(zip(counts, found, strict=True))
            for k, (candidate, problem) in enumerate(zip(candidates, problems, strict=True)):
                if candidate["n_bases"] in moments:
                    of_splits = moments[candidate["n_bases"]]
                    by_gcv = self.cv == "gcv"
                    scores[k], gaps[k] = gram.judged(problem, of_splits, scoring, by_gcv=by_gcv)
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
        splits = self._splits_of(rows.given)
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
        of_places = dict(zip(places, thetas, strict=True))
        self._judge_all(run, rows, problems, candidates, scoring, of_places, gaps)
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

    def _choose_by_dual(
        self,
        run: Run,
        rows: _Rows,
        problems: list[Problem],
        candidates: list[Candidate],
        scoring: str,
        size: sizes.Size,
    ) -> tuple[Outcome, Problem]:
        """The reads of the slowest fit of each group, one that scores all, and those of a refit.

        Groups are of one `n_bases`, whose coordinates they read, and ascend in C.
        """
        splits = self._splits_of(rows.given)
        labels = labels_of_refs(rows.given, run.source, rows.summary)
        order = Order(self.random_state, GROUP, labels)
        found: dict[tuple[int, int], Evaluation] = {}
        stored: dict[int, tuple[Source, Problem]] = {}
        of_count: dict[int, list[int]] = {}
        for k, candidate in enumerate(candidates):
            of_count.setdefault(candidate["n_bases"], []).append(k)
        for n_bases, members in of_count.items():
            stored[n_bases] = as_coordinates(run, rows.adjusted, problems[members[0]])
            source, ready = stored[n_bases]
            places = [(k, f) for k in members for f in range(splits.cv)]
            groups = cost.groups_of_fits(size, len(places))
            for number, group in enumerate(groups):
                models = [
                    SplitModel(ready._replace(C=candidates[k]["C"]), f)
                    for k, f in (places[m] for m in group)
                ]
                width = alpha_width(ready) * max(map(len, groups))
                proved = fit_together(
                    run,
                    run.planned(source),
                    Turns(models, splits, [VISITED] * len(models), width),
                    order,
                    row_nbytes=cached_x_nbytes(rows.adjusted),
                    tol=self.tol,
                    max_reads=max(self._most_passes - 1, 1),
                    name=f"choice-{n_bases}-{number + 1}",
                )
                found |= {places[m]: at for m, at in zip(group, proved, strict=True)}
        gaps = np.empty((len(candidates), splits.cv))
        for place, at in found.items():
            gaps[place] = relative_gap(at.value, at.bound).max()
        thetas = {place: at.theta for place, at in found.items()}
        self._judge_all(run, rows, problems, candidates, scoring, thetas, gaps)
        problem = problems[self.best_index_]
        member = self._member({**candidates[self.best_index_], "solver": DUAL})
        own = partial(member._needs, rows.given, rows.summary)
        replan(run, lambda: after_summary(self, own(), rows.summary), always=True, done="score")
        source, ready = stored[self.n_bases_]
        ready = ready._replace(C=problem.C)
        watch = Watch(run, ready, None, early_stopping=False)
        outcome = member._fit_dual(run, rows.adjusted, source, ready, rows.summary, watch)
        return outcome, problem

    def _judge_all(
        self,
        run: Run,
        rows: _Rows,
        problems: list[Problem],
        candidates: list[Candidate],
        scoring: str,
        thetas: dict[tuple[int, int], np.ndarray],
        gaps: np.ndarray,
    ) -> None:
        """Score the model of every candidate and split in one read, and choose."""
        splits = self._splits_of(rows.given)
        judges: list[list[Model]] = [
            [
                self._judge_of(candidate, problem, thetas[k, f], rows.summary)
                for k, (candidate, problem) in enumerate(zip(candidates, problems, strict=True))
            ]
            for f in range(splits.cv)
        ]
        scores = run.fold(scores_fold(judges, splits, scoring), rows.given, name="score")
        self._judge(candidates, scores, gaps)

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
                # the last steps cost little while a matrix is kept, as that of one output is
                whole = beyond(self.tol) if model.problem.n_outputs == 1 else self.tol
                at = own.minimise(at, tol=whole if share >= 1.0 else None)
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
