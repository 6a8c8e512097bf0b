"""Choosing C and the number of splines: every candidate on every split in the same reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval

from ...config import format_bytes
from ...data.source import Chunk, Source
from ...engine.plan import Needs
from ...engine.run import Run
from ...estimator.certificate import Certificate
from ...estimator.choosing import best_index, cv_results
from ...estimator.metrics import check_gain, find_metric
from ...estimator.streams import WithoutStream
from ...numeric.checks import check_integer
from ...numeric.losses import LOSSES, Loss, make_loss
from ...passes.summary.summary import Summary
from ...solvers.newton import Evaluation, newton, relative_gap
from .. import costs as needs
from ..basis.column_bases import mean_splines
from ..model import AdditiveModel
from ..objective import Problem
from ..pairs import density_fold, has_pairs, most_screened
from ..targets import Adjustment, names_of
from ..training import DECREMENT, EXACT, SAMPLE_ITERATIONS, Outcome, plain
from . import costs as cost
from . import gram
from .judging import scores_fold
from .newton import NO_SPLIT, SplitModel, SplitObjective, Splits, samples_of

GRID = (-3, 4)
"""An integer `Cs` is so many powers of 10, evenly spaced between these."""

OF_MOMENTS = ("r2", "neg_mean_squared_error")
"""Metrics that follow from the moments of a split, without a read that scores."""


class Choosing(WithoutStream, AdditiveModel):
    """A mixin before an additive estimator; `_fit` chooses, then fits all rows."""

    Cs: int | Sequence[float]
    cv: int | str
    scoring: str | None
    one_standard_error: bool
    _may_choose: Callable[[Loss], bool]
    """Whether candidates with this loss can be compared."""
    _plain: Callable[[], Any]
    """The estimator that fits one candidate, with its defaults."""
    _default_scoring: Callable[[], str]
    get_params: Callable[[], dict[str, Any]]
    _choosing_constraints: dict[str, list[object]] = {
        "Cs": ["array-like", Interval(Integral, 1, None, closed="left")],
        "n_bases": ["array-like", Interval(Integral, 2, 256, closed="both")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "scoring": [None, str],
        "one_standard_error": ["boolean"],
    }
    # the plain estimators have these as parameters
    solver, early_stopping, warm_start = "newton", False, False
    smoothness, select, covariance, monotone, convex = None, False, False, None, None

    _no_stream: ClassVar[str] = (
        "all candidates are compared on the same rows, which are read several times; choose with "
        "fit, then go on with the estimator that does not choose"
    )

    # What it costs.

    def _candidates(self) -> list[Candidate]:
        return candidates(self.Cs, self.n_bases)

    def _member(self, candidate: Candidate) -> Any:
        """The plain estimator with a candidate's parameters."""
        names = self._plain().get_params()
        shared = {name: value for name, value in self.get_params().items() if name in names}
        model = type(self._plain())(**{**shared, "C": candidate.C, "n_bases": candidate.n_bases})
        if hasattr(self, "classes_"):
            model.classes_ = self.classes_
        model.n_features_in_ = getattr(self, "n_features_in_", None)
        return model

    def _layout(self, dataset: Source, summary: Summary | None = None) -> tuple[str, needs.Size]:
        """The way ("gram", "newton"), from metadata alone, and the largest candidate's size."""
        name = type(self).__name__
        if not self._may_choose(self._loss):
            known = names_of(self._targets)
            names = [n for n in LOSSES if n in known and self._may_choose(make_loss(n))]
            raise ValueError(
                f"{name} takes loss={' or '.join(map(repr, names))}, got {self.loss!r}; "
                f"for others use sl.cross_validate with {type(self._plain()).__name__}"
            )
        if most_screened(self):
            raise ValueError(
                f"interactions={self.interactions!r} chooses pairs by the targets of all rows, "
                f"which a split may not see; name the pairs, or use sl.cross_validate with "
                f"{type(self._plain()).__name__}"
            )
        largest = self._member(self._candidates()[-1])
        size = needs.size_of(largest, dataset)
        matrix, room = 8 * size.dim**2, cost.room()
        fits = self._loss.quadratic and self._n_splits * matrix <= room // 8
        if fits and (self.cv == "gcv" or self._scoring() in OF_MOMENTS):
            way = "gram"
        elif self.cv == "gcv":
            raise ValueError(
                f"cv='gcv' needs a Gram of {format_bytes(matrix)} in every lane, and an eighth of "
                f"{format_bytes(room)} is the most; raise memory_budget, take fewer n_bases or an "
                "integer cv"
            )
        elif size.dim > needs.NEWTON_DIM:
            raise ValueError(
                f"{name} solves with matrices of at most {needs.NEWTON_DIM} coefficients, got up "
                f"to {size.dim}; take fewer n_bases, or use sl.cross_validate"
            )
        elif matrix > room // 2:
            raise ValueError(
                f"{name} solves with matrices, and up to {size.dim} coefficients make one of "
                f"{format_bytes(matrix)}: over half of {format_bytes(room)}; take fewer n_bases, "
                "raise memory_budget, or use sl.cross_validate"
            )
        else:
            way = "newton"
        return way, needs.size_of(largest, dataset, summary)

    @property
    def _n_splits(self) -> int:
        return 1 if self.cv == "gcv" else int(self.cv)

    def _sample_rows(self, dataset: Source) -> int:
        way, size = self._layout(dataset)
        return needs.sample_rows(size) if way == "newton" else 0

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        way, size = self._layout(dataset, summary)
        n_models = len(self._candidates()) * self._n_splits
        if way == "gram":
            phases = cost.gram_needs(size, self._n_splits, self._counts_in_groups(dataset))
        else:
            n_groups = len(self._groups(size, n_models))
            each = find_metric(self._scoring()).state_bytes(len(getattr(self, "classes_", (0, 0))))
            phases = cost.newton_needs(
                size, self._n_splits, n_models, n_groups, self.max_passes, each
            )
        return needs.with_temporaries(phases, self, size, summary)

    def _groups(self, size: needs.Size, n_models: int) -> list[range]:
        return cost.groups_of_models(size, n_models)

    def _counts_in_groups(self, dataset: Source) -> list[list[int]]:
        dims = {
            candidate.n_bases: needs.size_of(self._member(candidate), dataset).dim
            for candidate in self._candidates()
        }
        return cost.groups_of_counts(dims, self._n_splits)

    # Fitting.

    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        sample: Chunk | None = None,
    ) -> Certificate:
        if validation is not None:
            raise ValueError(
                f"{type(self).__name__} judges on its splits; leave validation out, or fit the "
                "chosen parameters with the plain estimator"
            )
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
        fit = self._choose_by_gram if way == "gram" else self._choose_by_newton
        outcome, problem = fit(run, dataset, summary, sample, tried, scoring, size)
        means = mean_splines(summary, problem.bases) if dataset.sparse else problem.reference.c
        density = None
        if has_pairs(self):
            density = run.fold(density_fold(problem), dataset, name="pairs")
        self._keep_fit(problem, outcome.theta, means, summary, density)
        choice = needs.Choice(way, f"C={self.C_:.6g}, n_bases={self.n_bases_} chosen")
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

    def _problems(
        self, dataset: Any, summary: Summary, candidates: list[Candidate]
    ) -> list[Problem]:
        """The candidates' problems; those of one `n_bases` share their bases."""
        problems: list[Problem] = []
        made: dict[int, Problem] = {}
        for candidate in candidates:
            if candidate.n_bases not in made:
                member = self._member(candidate)
                made[candidate.n_bases] = member._problem(
                    dataset, summary, Adjustment(self._loss), "newton"
                )
            problems.append(made[candidate.n_bases]._replace(C=candidate.C))
        return problems

    def _choose_by_gram(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        sample: Chunk | None,
        candidates: list[Candidate],
        scoring: str,
        size: needs.Size,
    ) -> tuple[Outcome, Problem]:
        """Squared error: one read for each group of `n_bases`."""
        problems = self._problems(dataset, summary, candidates)
        splits = Splits(self._n_splits, self.random_state)
        of_count = {c.n_bases: p for c, p in zip(candidates, problems, strict=True)}
        scores, gaps = np.empty((2, len(candidates), splits.cv))
        for number, counts in enumerate(self._counts_in_groups(dataset)):
            fold = gram.moments_fold([of_count[n] for n in counts], splits)
            found = run.fold(fold, dataset, name=f"gram-{number + 1}")
            moments = dict(zip(counts, found, strict=True))
            for k, (candidate, problem) in enumerate(zip(candidates, problems, strict=True)):
                if candidate.n_bases in moments:
                    of_splits = moments[candidate.n_bases]
                    scores[k], gaps[k] = self._judge_gram(problem, of_splits, scoring)
        self._judge(candidates, scores, gaps)
        problem = problems[self.best_index_]
        if self.n_bases_ not in moments:  # a later group took its place: one more read
            again = run.fold(gram.moments_fold([problem], splits), dataset, name="gram-refit")
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
        dataset: Source,
        summary: Summary,
        sample: Chunk | None,
        candidates: list[Candidate],
        scoring: str,
        size: needs.Size,
    ) -> tuple[Outcome, Problem]:
        """A few reads for each group of models, one that scores all, a few that refit the best."""
        problems = self._problems(dataset, summary, candidates)
        assert sample is not None  # `_sample_rows` is at least 1
        splits = Splits(self._n_splits, self.random_state)
        share = needs.sample_share(sample, summary.total_weight)
        if share >= 1.0:
            problems = [problem._replace(single=False) for problem in problems]
        # Neighbours in C one after the other: each starts where the one before ended.
        places = [(k, f) for f in range(splits.cv) for k in range(len(candidates))]
        models = [SplitModel(problems[k], f) for k, f in places]
        thetas: list[np.ndarray] = []
        gaps = np.empty((len(candidates), splits.cv))
        for number, group in enumerate(self._groups(size, len(models))):
            name = f"newton-{number + 1}"
            members = [models[m] for m in group]
            found, gap = self._solve(run, dataset, members, sample, splits, share, name, None)
            thetas += found.thetas
            for m, value in zip(group, gap, strict=True):
                k, f = places[m]
                gaps[k, f] = value
        of_count = {c.n_bases: problem for c, problem in zip(candidates, problems, strict=True)}
        means = {
            # where the means of pairs move changes no decision: near them is enough here
            n: problem.reference.c if has_pairs(self) else mean_splines(summary, problem.bases)
            for n, problem in of_count.items()
        }
        judges: list[list[object]] = [[] for _ in range(splits.cv)]
        for (k, f), theta in zip(places, thetas, strict=True):
            judge = self._member(candidates[k])
            if hasattr(self, "classes_"):  # the rows of a fit carry codes
                judge.classes_ = np.arange(len(self.classes_), dtype=np.float64)
            judge._keep(problems[k], theta, means[candidates[k].n_bases])
            judges[f].append(judge)
        fold = scores_fold(judges, splits, scoring)
        scores = run.fold(fold, dataset, name="score")
        self._judge(candidates, scores, gaps)
        problem = problems[self.best_index_]
        best = [
            theta for (k, _), theta in zip(places, thetas, strict=True) if k == self.best_index_
        ]
        start = np.mean(best, axis=0)
        whole = SplitModel(problem, NO_SPLIT)
        found, gap = self._solve(run, dataset, [whole], sample, splits, share, "refit", start)
        at = found.at
        reason = found.reason or f"relative gap {gap[0]:.2g} <= tol {self.tol:.2g}"
        return Outcome(at.theta, at.value, at.bound, reason, gap[0] <= self.tol), problem

    def _solve(
        self,
        run: Run,
        dataset: Source,
        models: list[SplitModel],
        sample: Chunk,
        splits: Splits,
        share: float,
        name: str,
        start: np.ndarray | None,
    ) -> tuple[_Solved, np.ndarray]:
        """Optima of some models in the same reads, from `start` or the sample's own optima."""
        samples = samples_of(models, sample, splits, share, run.n_threads)
        objective = SplitObjective(run, dataset, models, samples, splits, name)
        tol, decrement = (EXACT, 0.0) if share >= 1.0 else (0.0, DECREMENT)
        thetas: list[np.ndarray] = []
        for k, (model, own) in enumerate(zip(models, samples, strict=True)):
            shape = (model.problem.n_outputs, model.problem.dim + 1)
            at = np.zeros(shape) if start is None else start
            if k and models[k - 1].split == model.split and thetas[-1].shape == shape:
                at = thetas[-1]
            if start is None or share >= 1.0:
                found_own = newton(
                    own, at, tol=tol, max_reads=SAMPLE_ITERATIONS, decrement=decrement
                )
                at = found_own.at.theta
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
        parameters = [{"C": c.C, "n_bases": c.n_bases} for c in candidates]
        self.cv_results_ = {**cv_results(parameters, scores), "relative_gap": gaps.max(axis=1)}
        self._choose(best_index(self.cv_results_, one_standard_error=self.one_standard_error))

    def _choose(self, best: int) -> None:
        self.best_index_ = best
        self.best_score_ = float(self.cv_results_["mean_test_score"][best])
        self.C_ = float(self.cv_results_["param_C"][best])
        self.n_bases_ = int(self.cv_results_["param_n_bases"][best])

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "cv_results": self.cv_results_,
            "best_index": self.best_index_,
        }

    def _restore(self, tree: dict[str, Any]) -> None:
        super()._restore(tree)
        results = tree["cv_results"]
        n = len(results["params"])
        if any(len(values) != n for values in results.values()):
            raise ValueError("cv_results has columns of several lengths")
        check_integer("best_index", int(tree["best_index"]), 0, n - 1)
        self.cv_results_ = results
        self._choose(tree["best_index"])


class _Solved(NamedTuple):
    thetas: list[np.ndarray]
    at: Evaluation
    reason: str


class Candidate(NamedTuple):
    """What is to be judged."""

    n_bases: int
    C: float


def candidates(Cs: Any, n_bases: Any) -> list[Candidate]:
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
    return [Candidate(int(n), float(C)) for n in counts for C in values]
