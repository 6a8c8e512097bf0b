"""Generalised EM, one read an iteration; a step that lowers the objective is taken back.

Every read is an iteration and is recorded as one, also that of a rejected step and that after a
component was pruned.

1. A read at the trial point gives its E-step, its objective, and all sums that the M-step needs.
2. If the objective fell, the trial is taken back and a shorter step is tried.
3. Otherwise, if a component holds no more than nu rows, it is pruned.  Components are pruned one at
   a time, and the next read is a fresh E-step for the others (Figueiredo & Jain 2002).
4. Otherwise comes the M-step.  Gates and experts take a step by the bound's curvature (exact for
   the generative gate's centres), corrected by the change of the likelihood's gradient over the
   last steps (Jamshidian & Jennrich 1997, as in L-BFGS).  Mixing coefficients have a closed form
   (eq. 20).

The objective never falls, except where a component was pruned.

An M-step after every chunk (incremental EM, Neal & Hinton 1998) was measured and is not offered.
From the clusters it was ahead on one of two data sets.  From the optimum of a sample, where reads
of all rows begin, it was behind and not monotone, because no sums say everything of the
experts.  The objective of a row after 1, 3 and 12 reads was -24.935, -24.920, -24.912 here and
-24.934, -25.022, -24.999 there on pixels, and -71.32, -71.26, -71.25 here and -72.01, -71.84,
-71.67 there on covtype (``bench mixture-tables --only incremental``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...solvers.damped_newton import SUFFICIENT, shorter
from ...solvers.lbfgs import CurvaturePair, direction, with_pair
from ..objective import EStep, Parameters, Problem
from . import selection
from .curvature import Curvature

PAIRS = 20
"""Largest number of steps whose change of the gradient corrects a direction."""
LEAST_CURVATURE = 1e-10
"""Curvature of a pair divided by the lengths of its vectors, below which the pair is left out: F is
not concave, and near 0 the curvature is noise."""
REFRESH = 10
"""Number of steps after which the curvature is summed anew."""
SHORTEST = 2.0**-20
"""Step length below which no step raises the objective any more."""
SHORTEST_OF_DUAL = 2.0**-4
"""Step length of hinge experts below which a whole step is tried again.  Their dual variables move
on in every read, also in one that is taken back, so a whole step soon leads elsewhere."""
ROUNDS = 10
"""Largest number of such whole steps, one after the other."""
PATIENCE = 3
"""Number of rises below the tolerance, one after the other, that end a fit."""


class State(NamedTuple):
    """State of the iterations, with all that a resumed fit needs to go on."""

    problem: Problem
    point: EStep
    n_small: int
    """Number of small rises, one after the other."""
    n_reads: int
    reason: str
    """Reason for which the iterations stopped, in words; empty while they go on."""
    converged: bool


Measure = Callable[[Problem, Parameters, int, "np.ndarray | None"], EStep]
"""One read: of a problem, at parameters, its number, and the `dual` of the read before."""
MakeCurvature = Callable[[Problem, Parameters], Curvature]
"""The curvature of a problem at parameters."""


def maximise(
    measure: Measure,
    make_curvature: MakeCurvature,
    problem: Problem,
    start: Parameters,
    *,
    tol: float,
    max_reads: int,
    record: Callable[..., str],
) -> State:
    """Iterate from `start` until rises of the objective are small or `max_reads` reads were made.

    `record(state, **fields)` is called after each read and may give a reason to stop.
    """
    point = measure(problem, start, 1, None)
    state = State(problem, point, 0, 1, "", False)
    pairs: list[CurvaturePair] = []
    curvature: Curvature | None = None
    n_steps, n_rounds, size = 0, 0, 0.0
    step, target, slope = start.rows, start.log_mix, 0.0
    trial, event = point, ""
    while True:
        stop = record(state, trial=trial, event=event)
        state = _stopped(state, stop, max_reads)
        if state.reason:
            return state
        problem, point = state.problem, state.point
        leaf = selection.leaf_to_prune(problem, point.mass)
        if leaf is not None:
            problem, kept = selection.without(problem, point.at, leaf)
            dual = None if trial.dual is None else _without(trial.dual, leaf, problem.n_outputs)
            trial = measure(problem, kept, state.n_reads + 1, dual)
            state = State(problem, trial, 0, state.n_reads + 1, "", False)
            pairs, curvature, event = [], None, "pruned"
            size = 0.0
            continue
        if not size:  # the last step was taken, so this one needs a new direction
            if curvature is None or (n_steps % REFRESH == 0 and not curvature.lasting):
                curvature = make_curvature(problem, point.at)
            step, slope = _direction(curvature, point, pairs)
            target, n_steps, size = selection.mixing(problem, point), n_steps + 1, 1.0
        if trial.dual is not None:
            step[problem.tree.n_gates :] = trial.dual - point.at.rows[problem.tree.n_gates :]
        moved = _moved(problem, point.at, step, target, size)
        trial = measure(problem, moved, state.n_reads + 1, trial.dual)
        promise = SUFFICIENT * size * slope
        rose = trial.objective >= point.objective + min(promise, abs(point.objective) * 1e-13)
        state = state._replace(n_reads=state.n_reads + 1)
        if rose:
            pairs = _with_pair(problem, pairs, point, trial)
            state = _advance(state, trial, tol)
            event, size, n_rounds = "", 0.0, 0
        elif trial.dual is None:
            event, n_rounds = "taken back", n_rounds + 1
            known = len(pairs)
            # the curvature along the step is known now
            pairs = _with_pair(problem, pairs, point, trial)
            if curvature is not None and n_rounds == 1 and (len(pairs) > known or known == PAIRS):
                step, slope = _direction(curvature, point, pairs)
            else:
                size *= float(shorter(-point.objective, -trial.objective, -size * slope))
            if size < SHORTEST:
                reason = "no step raises the objective"
                state = state._replace(reason=reason, converged=True)
        else:
            event = "taken back"
            size *= float(shorter(-point.objective, -trial.objective, -size * slope))
            if size < SHORTEST_OF_DUAL:
                n_rounds += 1
                if n_rounds > ROUNDS:
                    reason = "no step raises the objective"
                    state = state._replace(reason=reason, converged=True)
                pairs, size = [], 0.0


def _stopped(state: State, stop: str, max_reads: int) -> State:
    if state.reason:
        return state
    if stop:
        return state._replace(reason=stop, converged=True)
    if state.n_reads >= max_reads:
        return state._replace(reason=f"{state.n_reads} reads were made")
    return state


def _advance(state: State, trial: EStep, tol: float) -> State:
    rise = (trial.objective - state.point.objective) / max(abs(trial.objective), 1e-300)
    n_small = state.n_small + 1 if rise <= tol else 0
    state = state._replace(point=trial, n_small=n_small)
    if n_small < PATIENCE or selection.leaf_to_prune(state.problem, trial.mass) is not None:
        return state
    reason = f"the objective rose by {rise:.2g} <= tol {tol:.2g} of itself, {PATIENCE} times"
    return state._replace(reason=reason, converged=True)


def _direction(
    curvature: Curvature, point: EStep, pairs: list[CurvaturePair]
) -> tuple[np.ndarray, float]:
    """A direction of ascent (R, p + 1) and its slope."""
    shape = point.at.rows.shape
    scale = _scale(curvature, shape, pairs)

    def solve(g: np.ndarray) -> np.ndarray:
        return scale * curvature.solve(g.reshape(shape)).ravel()

    step = direction(solve, -point.gradient.ravel(), pairs).reshape(shape)
    slope = float((point.gradient * step).sum())
    if slope > 0:
        return step, slope
    step = curvature.solve(point.gradient)
    pairs.clear()
    return step, float((point.gradient * step).sum())


def _scale(curvature: Curvature, shape: tuple[int, ...], pairs: list[CurvaturePair]) -> float:
    """The factor that makes the curvature agree in size with that along the last step."""
    if not pairs:
        return 1.0
    last = pairs[-1]
    own = float(last.change @ curvature.solve(last.change.reshape(shape)).ravel())
    return last.curvature / own if own > 0 else 1.0


def _without(dual: np.ndarray, leaf: int, n_outputs: int) -> np.ndarray:
    return np.delete(dual, np.arange(leaf * n_outputs, (leaf + 1) * n_outputs), axis=0)


def _with_pair(
    problem: Problem, pairs: list[CurvaturePair], before: EStep, after: EStep
) -> list[CurvaturePair]:
    step = after.at.rows - before.at.rows
    if after.dual is not None:
        step[problem.tree.n_gates :] = 0.0
    change = (before.gradient - after.gradient).ravel()
    return with_pair(pairs, step.ravel(), change, most=PAIRS, least=LEAST_CURVATURE)


def _moved(
    problem: Problem, at: Parameters, step: np.ndarray, target: np.ndarray, size: float
) -> Parameters:
    """The point after a step of this size; mixing coefficients go the same part of their way."""
    if not problem.has_centres:
        return Parameters(at.rows + size * step, at.log_mix)
    mix = np.exp(at.log_mix)
    return Parameters(at.rows + size * step, np.log(mix + size * (np.exp(target) - mix)))
