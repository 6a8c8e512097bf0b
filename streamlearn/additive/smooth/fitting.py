"""Newton's method that chooses the smoothness as it goes.

Every read gives value, gradient and curvature of all rows at a point, so the quadratic model of the
losses there, whatever the weights of the penalties are.  Between two reads the criterion chooses
the weights for that model and goes to its optimum (the performance-oriented iteration: Gu 1992;
Wood, Goude & Shaw 2015).  It ends at a point that is optimal for the weights at hand, by the
duality gap of all rows, and where the model of its own read no longer moves the degrees of freedom;
outputs that are there stay there, and the reads that others need leave them out.
With the squared error one read is all: its model holds everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk
from ...passes.fold import run_fold
from ...solvers.damped_newton import SUFFICIENT, shorter
from ...solvers.newton import SHORTEST, Evaluation, relative_gap
from ..newton.reads import CachedReads
from ..objective import Problem
from ..training import Outcome, Watch
from .criteria import Criterion, Quadratic, fit_at, start_weights
from .moments import RowMoments, moments_fold, quadratic
from .optimum import Fit
from .penalties import Penalties

STEADY = 2e-3
"""Largest change of a term's degrees of freedom, beside one and them, between two reads at the end:
about one part in a hundred of its weight."""
BETWEEN = 0.05
"""Share of its change at which a weight has turned so often that it stays between two choices: the
model of each then chooses the other, and none chooses itself."""
SAMPLE_ITERATIONS = 30
HELD = 0.25
"""Decrease over that of the slope alone from which on the model is said to hold; 1/2 if exact."""
FARTHEST = 8.0
"""Four times the change of a weight's logarithm that is tried where any change was too much."""
SLACK = 1e-13
"""Relative error of a value."""

Measure = Callable[[np.ndarray, np.ndarray], list[RowMoments]]
"""(K, dim + 1) points and numbers of outputs -> the moments of those outputs."""


class Point(NamedTuple):
    """The point of one output: the model of the read there, and its losses' constant."""

    model: Quadratic
    alone: float
    """Losses of the best constant decision."""


class Stand(NamedTuple):
    """The point of one output, and its target; of matrices only the point's own."""

    point: Point
    weights: np.ndarray
    """(m,) those with which it came."""
    chosen: Fit
    """The criterion's choice for the model of this point."""
    target: Fit
    """The point that the next read tries: the choice, or as near it as is in reach."""
    is_steady: bool
    """Whether the choice leaves the degrees of freedom as they are."""
    size: float
    """Share of the step to the target."""
    reach: float
    """Largest change of a weight's logarithm."""
    last: np.ndarray
    """(m,) change of the weights' logarithms with which it came."""
    share: np.ndarray
    """(m,) share of their next change that is gone, less at every turn."""


class SmoothFit(NamedTuple):
    """The end of a fit."""

    outcome: Outcome
    points: list[Point]
    fits: list[Fit]
    """Each output's fit at the weights at hand; `theta` is the outcome's point."""


class Task(NamedTuple):
    """The problem to be fitted, and the gap that is good enough."""

    problem: Problem
    penalties: Penalties
    criterion: Criterion
    null: np.ndarray
    """(K,) best constant decision of each output."""
    tol: float
    """Largest relative duality gap at the end."""
    max_reads: int
    weights: np.ndarray | None = None
    """(m,) of the penalties, where they are given."""


def fit_smooth(
    task: Task,
    reads: CachedReads,
    watch: Watch,
    *,
    sample: Chunk | None,
    start: np.ndarray | None,
    weights: list[np.ndarray] | None = None,
    n_threads: int,
) -> SmoothFit:
    """Weights and coefficients of every output, from all rows.

    `sample`: rows in memory whose own fit gives the first point, unless `start` (K, dim + 1) does,
    perhaps with `weights` of each output's penalties.
    """
    problem, iteration = task.problem, _Iteration(task)
    theta = np.zeros((problem.n_outputs, problem.dim + 1)) if start is None else start
    first_weights: list[np.ndarray | None] = [task.weights] * problem.n_outputs
    if weights is not None:
        first_weights = list(weights)
    elif sample is not None and start is None:
        theta, found_weights = fit_sample(task, sample, n_threads)
        first_weights = list(found_weights)
    problem = problem._replace(bases=reads.bases)
    n_reads = 0

    def of_all(at: np.ndarray, outputs: np.ndarray) -> list[RowMoments]:
        nonlocal n_reads
        n_reads += 1
        fold = moments_fold(problem, at, task.null, outputs=outputs.tolist())
        found: list[RowMoments] = reads.fold(fold, f"smooth-{n_reads}")
        return found

    return iteration.run(of_all, theta, first_weights, task.max_reads, watch)


def fit_sample(task: Task, sample: Chunk, n_threads: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Coefficients and each output's weights from rows in memory, as they are; no read.

    What they came from, two matrices an output, is not kept.
    """
    problem = task.problem

    def of_sample(at: np.ndarray, outputs: np.ndarray) -> list[RowMoments]:
        fold = moments_fold(problem, at, task.null, n_threads, outputs=outputs.tolist())
        return run_fold(fold, [sample])

    weights: list[np.ndarray | None] = [task.weights] * problem.n_outputs
    theta = np.zeros((problem.n_outputs, problem.dim + 1))
    iteration = _Iteration(task, early=not problem.loss.quadratic)
    found = iteration.run(of_sample, theta, weights, SAMPLE_ITERATIONS, None)
    return found.outcome.theta, [fit.weights for fit in found.fits]


class _Iteration:
    """The iteration over all rows, or over a sample of them."""

    def __init__(self, task: Task, *, early: bool = False) -> None:
        self._problem, self._penalties, self._tol = task.problem, task.penalties, task.tol
        self._choose = task.criterion.early if early else task.criterion.choose
        self._takes_matrix = task.criterion.takes_matrix

    def run(
        self,
        measure: Measure,
        theta: np.ndarray,
        weights: list[np.ndarray | None],
        max_reads: int,
        watch: Watch | None,
    ) -> SmoothFit:
        """Iterate from a point, and from weights where they are known."""
        tol = self._tol
        every = np.arange(len(theta))
        points = self._points(theta, measure(theta, every))
        if self._problem.loss.quadratic:
            return self._exact(points, weights, watch)
        n_penalties = len(self._penalties.each)
        stands = [
            self._stand(
                point, start_weights(point.model, self._penalties) if weight is None else weight,
                np.inf, np.zeros(n_penalties), np.ones(n_penalties),
            )
            for point, weight in zip(points, weights, strict=True)
        ]  # fmt: skip
        n_reads = 1
        while True:
            evaluation = self._evaluation(
                [stand.point for stand in stands],
                [stand.weights for stand in stands],
                [stand.chosen.forces for stand in stands],
            )
            gap = relative_gap(evaluation.value, evaluation.bound)
            reason = watch(evaluation, gap) if watch is not None else ""
            done = (gap <= tol) & np.array([stand.is_steady for stand in stands])
            stuck = ~done & np.array([stand.size < SHORTEST for stand in stands])
            if reason or (done | stuck).all() or n_reads >= max_reads:
                break
            # outputs that are done stay where they are
            going = every[~(done | stuck)]
            trial = evaluation.theta + np.array(
                [stand.size * (stand.target.theta - stand.point.model.theta) for stand in stands]
            )
            tried = self._points(trial[going], measure(trial, going))
            self._move(stands, going.tolist(), tried)
            n_reads += 1
        if done.all():
            reason = f"relative gap {gap.max():.2g} <= tol {tol:.2g}"
        elif not reason:
            reason = "no step lowers the objective any more"
            if n_reads >= max_reads:
                reason = f"max_passes: {max_reads} reads were made"
        outcome = Outcome(
            evaluation.theta, evaluation.value, evaluation.bound, reason, bool(done.all())
        )
        ends = [stand.point for stand in stands]
        return SmoothFit(outcome, ends, [self._own(stand) for stand in stands])

    def _stand(
        self,
        point: Point,
        weights: np.ndarray,
        reach: float,
        last: np.ndarray,
        share: np.ndarray,
    ) -> Stand:
        """The state of an output that has moved to a point, with the next target in reach."""
        here = fit_at(point.model, self._penalties, weights)
        if not self._takes_matrix:
            here = here.lean()
        chosen = self._choose(point.model, self._penalties, here).lean()
        change = np.abs(chosen.gamma - here.gamma)
        moves = change > STEADY * (1.0 + np.abs(here.gamma))
        turns = np.log(chosen.weights / weights) * last < 0.0
        share = np.where(turns, 0.5 * share, np.minimum(1.25 * share, 1.0))
        is_steady = not (moves & (share > BETWEEN)).any()
        return self._aimed(
            Stand(point, weights, chosen, chosen, is_steady, 1.0, reach, last, share)
        )

    def _aimed(self, stand: Stand) -> Stand:
        """The stand with its target within reach of the weights at hand.

        A weight that turns round goes half as far, each time again, and then slowly farther: else a
        few choices may lead to each other forever.
        """
        change = np.log(stand.chosen.weights / stand.weights)
        if np.abs(change).max(initial=0.0) <= stand.reach and (stand.share == 1.0).all():
            return stand
        change = np.clip(stand.share * change, -stand.reach, stand.reach)
        weights = stand.weights * np.exp(change)
        target = fit_at(stand.point.model, self._penalties, weights).lean()
        return stand._replace(target=target)

    def _move(self, stands: list[Stand], outputs: list[int], tried: list[Point]) -> None:
        """The `_after` of these outputs, in place; of each one of the two models is left behind."""
        for k in outputs:
            stands[k] = self._after(stands[k], tried.pop(0))

    def _after(self, stand: Stand, tried: Point) -> Stand:
        """The output at the point tried, if its value there is low enough; else another target."""
        model, target = stand.point.model, stand.target
        step = target.theta - model.theta
        before = self._value(model, target.weights)
        after = self._value(tried.model, target.weights)
        slope = float(self._gradient(model, target.weights) @ step)
        # where weights grow much, any point seems better: the losses must be near what was foretold
        foretold = model.at(tried.model.theta)
        doubt = abs(foretold - model.value) + target.psi
        sound = tried.model.value <= foretold + doubt
        if sound and after <= before + SUFFICIENT * stand.size * slope + SLACK * abs(before):
            # as far again only where the model held
            held = after <= before + HELD * stand.size * slope
            reach = (4.0 if held else 1.0) * stand.reach
            last = np.log(target.weights / stand.weights)
            return self._stand(tried, target.weights, reach, last, stand.share)
        # the model does not hold as far as that: other weights, not too far, and shorter steps
        size = stand.size
        if np.isfinite(stand.reach):
            size *= float(shorter(before, after, size * slope))
        return self._aimed(stand._replace(reach=0.25 * min(stand.reach, FARTHEST), size=size))

    def _exact(
        self, points: list[Point], weights: list[np.ndarray | None], watch: Watch | None
    ) -> SmoothFit:
        """The optimum of losses that are quadratic, from one read."""
        fits = [
            self._choose(
                point.model,
                self._penalties,
                None if weight is None else fit_at(point.model, self._penalties, weight),
            )
            for point, weight in zip(points, weights, strict=True)
        ]
        moved = [
            Point(point.model.moved(fit.theta), point.alone)
            for point, fit in zip(points, fits, strict=True)
        ]
        evaluation = self._evaluation(
            moved, [fit.weights for fit in fits], [fit.forces for fit in fits]
        )
        gap = relative_gap(evaluation.value, evaluation.bound)
        if watch is not None:
            watch(evaluation, gap)
        tol = max(self._tol, 1e-8)
        reason = f"relative gap {gap.max():.2g} <= tol {tol:.2g}" if gap.max() <= tol else ""
        outcome = Outcome(
            evaluation.theta, evaluation.value, evaluation.bound, reason, bool(gap.max() <= tol)
        )
        return SmoothFit(outcome, moved, fits)

    def _points(self, theta: np.ndarray, moments: list[RowMoments]) -> list[Point]:
        """The points of all outputs; takes the moments away, so that no matrix is there twice."""
        return [point_of(self._problem, at, moments.pop(0)) for at in theta]

    def _own(self, stand: Stand) -> Fit:
        """The fit at the weights at hand, with the curvature of this very point, and at it."""
        model = stand.point.model
        fit = fit_at(model, self._penalties, stand.weights)
        return fit._replace(theta=model.theta, psi=model.dispersion(model.theta, fit.edf))

    def _value(self, model: Quadratic, weights: np.ndarray) -> float:
        theta = model.theta
        penalty = float(weights @ self._penalties.sums(theta))
        return model.value + 0.5 * (penalty + self._penalties.intercept * float(theta[-1]) ** 2)

    def _gradient(self, model: Quadratic, weights: np.ndarray) -> np.ndarray:
        return model.g + self._penalties.times(weights, model.theta)

    def _evaluation(
        self, points: list[Point], weights: list[np.ndarray], forces: list[np.ndarray]
    ) -> Evaluation:
        """The values and bounds of all outputs, with the forces of what holds their curves."""
        theta = np.array([point.model.theta for point in points])
        value = np.array(
            [self._value(point.model, w) for point, w in zip(points, weights, strict=True)]
        )
        gradient = np.array(
            [self._gradient(point.model, w) for point, w in zip(points, weights, strict=True)]
        )
        short = np.array(
            [
                self._penalties.half_norm(w, g - force) + force @ point
                for w, g, force, point in zip(weights, gradient, forces, theta, strict=True)
            ]
        )
        return Evaluation(theta, value, gradient, value - short)


def point_of(problem: Problem, theta: np.ndarray, moments: RowMoments) -> Point:
    """The point of one output, from the moments of a read."""
    return Point(quadratic(problem, theta, moments), float(moments.sums[5]))
