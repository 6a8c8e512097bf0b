"""The search over all rows: one read an iteration, and several searches in the same reads.

The sample's objective is tilted by a linear term, so that its gradient at the current prototypes is
that of all rows (DANE, Shamir, Srebro & Zhang 2014), and minimised in memory within boxes of
several sizes around them.  The next read scores each of these steps by its own normal equations.  A
step is taken only if it lowers Omega over all rows, so Omega never rises.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..passes.fold import Reads
from .descent import Tilt, descend, length_of, lowest, neighbours_of, score_moves
from .equations import Equations, Solution, removal_costs, solve, without
from .prototypes import Candidate, Found
from .sample import SampleObjective

RADIUS = 0.5
"""Distance that an entry may move at first, in lengths over which the similarity changes."""
RADII = (1.0, 0.25, 0.0625)
"""Shares of the radius, for each of which a read scores a step."""
LONGER = (2.0, 0.7, 0.25)
"""Factor of the radius after each of these steps, if it was the best."""
MOVES = 8
"""Number of moves of each structured prototype that a read scores."""
TILTED_ITERATIONS = 60
"""Largest number of L-BFGS iterations on the tilted objective."""
FAILURES = 2
"""Number of reads without progress, each with shorter steps, after which a search ends."""
_TINY = float(np.finfo(np.float64).tiny)


class Recording(Reads, Protocol):
    """Maker of reads and records: a `Run`, or rows in memory."""

    @property
    def record(self) -> Callable[..., None]: ...


class Incumbent(NamedTuple):
    """The best prototypes after a read."""

    Z: np.ndarray
    theta: np.ndarray
    objective: float


class Outcome(NamedTuple):
    """The prototypes and coefficients at the end of a search, and how it ended."""

    Z: np.ndarray
    theta: np.ndarray
    objective: float
    """Value of Omega over all rows."""
    increase: np.ndarray
    """(m,) rise of Omega without each prototype."""
    held_out: Equations
    """Equations of the rows of the split held out."""
    converged: bool
    reason: str
    """Reason for which the search ended, in words."""


Search = Generator[list[Candidate], list[Found], Outcome]


def refine(
    sample: SampleObjective,
    Z: np.ndarray,
    *,
    whole: bool,
    tol: float,
    max_reads: int,
    trail: list[Incumbent],
    held_out: int = -1,
) -> Search:
    """The reads of a search: it yields candidates to be read, and is sent what was found.

    Parameters
    ----------
    sample : SampleObjective
    Z : (m, p)
        Prototypes that are good for the sample, as `warm_start` makes them.
    whole : bool
        Whether the sample is all rows; one read then proves what was found in memory.
    tol, max_reads : as in `SuperSparseRegressor`
    trail : list
        The best point after each read is appended to it.
    held_out : int
        Number of the split whose rows take no part in this search; -1 for none.
    """
    ridge = sample.problem.ridge
    own = sample.solution(Z)
    (found,) = yield [Candidate(Z, None if whole else own.theta, held_out)]
    solution = solve(found.equations, ridge)
    trail.append(Incumbent(Z, solution.theta, solution.objective))

    def outcome(converged: bool, reason: str) -> Outcome:
        # the sample's own coefficients do not depend on the order of the rows, to the last bit
        theta = own.theta if whole else solution.theta
        increase = removal_costs(found.equations, ridge, theta)
        objective = solution.objective
        return Outcome(Z, theta, objective, increase, found.held_out, converged, reason)

    if whole:
        return outcome(True, "the rows are all in memory, where L-BFGS came to rest")
    problem = sample.problem
    theta, radius, failures, idle = own.theta, RADIUS, 0, 0
    while True:
        radii = [radius * share for share in RADII]
        if problem.neighbours is not None:
            Z, solution, last, done = yield from refine_moves(
                sample, Z, solution, trail, tol, max_reads, held_out
            )
            found = last or found
            return outcome(
                done,
                f"the moves of a read lower the objective by <= tol {tol:g} of itself"
                if done
                else f"n_passes: {max_reads} reads were made after the summary",
            )
        if problem.one_at_a_time or not problem.similarity.has_gradient:
            slope = found.pull
            if problem.similarity.has_gradient:
                slope = _tilt(sample, Z, theta, solution, found)
                slope += sample.gradient(Z, sample.solution(Z).theta)
            unit = slope / np.maximum(np.abs(slope).max(axis=1, keepdims=True), _TINY)
            if problem.one_at_a_time:
                unit[np.arange(len(Z)) != (len(trail) - 1) % len(Z)] = 0.0
            length = length_of(problem.similarity)
            if problem.similarity.function is not None:
                length = sample.X.std(axis=0).mean()
            tries = [Z - share * length * unit for share in radii]
            low = lowest(problem.similarity)
            tries = tries if low is None else [np.maximum(trial, low) for trial in tries]
        else:
            tilt = Tilt(Z, _tilt(sample, Z, theta, solution, found))
            here = sample.solution(Z).objective
            goals = [
                descend(
                    sample,
                    Z,
                    tol=1e-2 * tol,
                    tilt=tilt,
                    radius=length,
                    max_iter=TILTED_ITERATIONS,
                    restarts=1,
                )
                for length in radii
            ]
            tries = [goal for goal, _ in goals]
            promised = (here - goals[0][1]) / max(solution.objective, _TINY)
            if promised <= tol:
                return outcome(True, f"a step promises a decrease of {promised:.2g} <= tol {tol:g}")
        if len(trail) >= max_reads:
            return outcome(False, f"n_passes: {max_reads} reads were made after the summary")
        correction = solution.theta - sample.solution(Z).theta
        guesses = [sample.solution(trial).theta + correction for trial in tries]
        results = yield [
            Candidate(trial, guess, held_out) for trial, guess in zip(tries, guesses, strict=True)
        ]
        solved = [solve(result.equations, ridge) for result in results]
        best = int(np.argmin([one.objective for one in solved]))
        fall = 1.0 - solved[best].objective / max(solution.objective, _TINY)
        if fall > 0:
            Z, theta = tries[best], guesses[best]
            solution, found = solved[best], results[best]
            radius, failures = radius * LONGER[best], 0
        else:
            radius, failures = radius * RADII[-1], failures + 1
        trail.append(Incumbent(Z, solution.theta, solution.objective))
        patience = len(Z) if problem.one_at_a_time else 1
        idle = idle + 1 if fall <= tol else 0
        if idle >= patience and fall > 0:
            return outcome(True, f"the objective fell by {fall:.2g} <= tol {tol:g} of itself")
        if failures == FAILURES * patience:
            return outcome(True, "no step lowers the objective")


def refine_moves(
    sample: SampleObjective,
    Z: np.ndarray,
    solution: Solution,
    trail: list[Incumbent],
    tol: float,
    max_reads: int,
    held_out: int,
) -> Generator[list[Candidate], list[Found], tuple[np.ndarray, Solution, Found | None, bool]]:
    """Reads that score all combinations of moves of structured prototypes exactly.

    Each read scores the most promising moves of every prototype, as the sample ranks them.
    """
    m, ridge = len(Z), sample.problem.ridge
    last: Found | None = None
    while len(trail) < max_reads:
        pool, owner = [Z], [np.full(m, -1)]
        for j in range(m):
            moves = neighbours_of(sample.problem.neighbours, Z[j])
            scores = score_moves(sample.equations(np.vstack([Z, moves])), m, j, ridge)
            best = np.argsort(scores, kind="stable")[:MOVES]
            pool.append(moves[best])
            owner.append(np.full(len(best), j))
        everything, owners = np.vstack(pool), np.concatenate(owner)
        if len(everything) == m:
            break
        (found,) = yield [Candidate(everything, None, held_out)]
        taken, lower = np.arange(m), solution
        for k in range(m, len(owners)):
            trial = taken.copy()
            trial[owners[k]] = k
            scored = solve(without(found.equations, trial), ridge)
            if scored.objective < lower.objective * (1 - 1e-9):
                taken, lower = trial, scored
        still = lower.objective >= solution.objective * (1 - tol)
        last = Found(
            without(found.equations, taken), np.zeros(Z.shape), without(found.held_out, taken)
        )
        Z, solution = everything[taken], lower
        trail.append(Incumbent(Z, solution.theta, solution.objective))
        if still:
            return Z, solution, last, True
    return Z, solution, last, len(trail) < max_reads


def _tilt(
    sample: SampleObjective, Z: np.ndarray, guess: np.ndarray, solution: Solution, found: Found
) -> np.ndarray:
    """(m, p) gradient of all rows minus that of the sample.

    The read's gradient is at guessed coefficients; the sample tells what the exact ones change.
    """
    own = sample.solution(Z)
    gradient = found.pull * (2.0 / found.equations.weight)
    gradient += sample.gradient(Z, solution.theta) - sample.gradient(Z, guess)
    return gradient - sample.gradient(Z, own.theta)


def drive(
    read: Callable[[list[Candidate], int], list[Found]],
    searches: Sequence[Search],
    after: Callable[[int], None] | None = None,
) -> list[Outcome]:
    """Run searches side by side: one `read` scores the candidates of all.

    `read(candidates, n)` is the n-th read; `after(n)` is called when its searches have moved on.
    """
    outcomes: dict[int, Outcome] = {}
    requests = {k: next(one) for k, one in enumerate(searches)}
    n = 0
    while requests:
        n += 1
        found = read([candidate for some in requests.values() for candidate in some], n)
        at, following = 0, {}
        for k, some in requests.items():
            answers = found[at : at + len(some)]
            at += len(some)
            try:
                following[k] = searches[k].send(answers)
            except StopIteration as stop:
                outcomes[k] = stop.value
        requests = following
        if after is not None:
            after(n)
    return [outcomes[k] for k in range(len(searches))]
