"""Prototypes that lower the objective of rows in memory, together or one at a time.

Together they move by L-BFGS, or by steps without a gradient; one at a time they move along a
gradient (Algorithm 1), or to a neighbour.  A structured prototype, such as a string or a graph
coded as p numbers, has no gradient: ``neighbours(z)`` lists what it may become, and the best of all
moves is made (Biggio 2015, section III, structured inputs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from .equations import Equations, Solution, removal_costs, solve, without
from .sample import SampleObjective
from .similarity import Similarity

ITERATIONS = 300
"""Largest number of L-BFGS iterations between restarts."""
RESTARTS = 6
"""Largest number of L-BFGS runs, each scaled by the value it begins with."""
ROUNDS = 30
"""Largest number of rounds of Algorithm 1, which "typically converges within 20 to 30
iterations"."""
REPULSION_DECAY = 0.9
"""Factor of the repulsion after each iteration."""
REPULSION_STEPS = 5
"""Number of iterations between two changes of the repulsion."""
REPULSION_END = 1e-3
"""Share of the first repulsion below which it ends."""
SWAPS, SWAP_FAILURES = 20, 3
"""Largest number of swaps, and of swaps without gain one after the other."""
SEEDS = 100
"""Number of rows, drawn and of largest residual each, that a swapped prototype may go to."""
WORTH = 1e-3
"""Share of the objective by which a swap must lower it."""
TRIAL_TOL = 1e-6
"""Tolerance of descents that only tell whether a swap gains."""
RESOLVED = 1e-10
"""Share of the targets' variance below which the objective needs no improvement."""
STEPS = (4.0, 1.0, 0.25, 0.0625)
"""Multiples of a prototype's last step that are scored."""


class Tilt(NamedTuple):
    """A linear term that gives the sample's objective the gradient of all rows at Z."""

    Z: np.ndarray
    """(m, p) prototypes."""
    slope: np.ndarray
    """(m, p) gradient of all rows minus that of the sample."""


def length_of(similarity: Similarity) -> float:
    """The distance over which a similarity changes, in which moves of prototypes are measured."""
    if similarity.name == "rbf":
        return float(1.0 / np.sqrt(2.0 * similarity.gamma))
    return float(1.0 / similarity.gamma) if similarity.name == "laplacian" else 1.0


def lowest(similarity: Similarity) -> float | None:
    """The least value of a prototype's entries; None if there is no such limit."""
    return 0.0 if similarity.name == "chi2" else None


def descend(
    sample: SampleObjective,
    Z: np.ndarray,
    *,
    tol: float,
    rho: float = 0.0,
    tilt: Tilt | None = None,
    radius: float | None = None,
    max_iter: int = ITERATIONS,
    restarts: int = RESTARTS,
) -> tuple[np.ndarray, float]:
    """Minimise Omega + rho sum of s(z_i, z_j) + the tilt by L-BFGS from Z.

    Returns (Z, value), never worse than at the beginning.  The coefficients are eliminated
    (variable projection), and the gradient is the envelope's.  Each entry stays within `radius`
    lengths of where it began.
    """
    problem = sample.problem
    if problem.neighbours is not None:
        return walk(sample, Z)
    if tilt is None and problem.one_at_a_time:
        return one_at_a_time(sample, Z, tol=tol, rho=rho, rounds=min(max_iter, ROUNDS))
    if not problem.similarity.has_gradient:
        return step_without_gradient(sample, Z, tol=max(tol, TRIAL_TOL), rho=rho, max_iter=max_iter)
    unit, low = length_of(problem.similarity), lowest(problem.similarity)
    shape = Z.shape

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        at = flat.reshape(shape) * unit
        solution = sample.solution(at)
        value, gradient = solution.objective, sample.gradient(at, solution.theta)
        if rho:
            energy, slope = sample.repulsion(at)
            value += rho * energy
            gradient += rho * slope
        if tilt is not None:
            value += float((tilt.slope * (at - tilt.Z)).sum())
            gradient += tilt.slope
        return value / scale, gradient.ravel() * (unit / scale)

    flat = (Z if low is None else np.maximum(Z, low)).ravel() / unit
    bounds = None
    if radius is not None:
        bounds = np.column_stack([flat - radius, flat + radius])
        if low is not None:
            bounds = np.maximum(bounds, low)
    elif low is not None:
        bounds = np.column_stack([np.full(len(flat), low), np.full(len(flat), np.inf)])
    scale = 1.0
    value = value_and_gradient(flat)[0]
    for _ in range(restarts):
        if not value > np.finfo(np.float64).tiny:
            break
        # the tolerance is relative to the value the run begins with
        scale = value
        found = minimize(
            value_and_gradient,
            flat,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={
                "maxcor": 20,
                "maxiter": max_iter,
                "maxfun": 2 * max_iter,
                "ftol": tol,
                "gtol": 0.0,
            },
        )
        scale = 1.0
        if not found.fun < 1.0:
            break
        flat, before = found.x, value
        value = float(found.fun) * before
        if value > 0.5 * before or found.nit >= max_iter:
            break
    return flat.reshape(shape) * unit, value


def step_without_gradient(
    sample: SampleObjective,
    Z: np.ndarray,
    *,
    tol: float,
    rho: float = 0.0,
    max_iter: int = ITERATIONS,
) -> tuple[np.ndarray, float]:
    """Take steps by the heuristic of eq. 7 that the exact objective accepts; returns (Z, value).

    All prototypes move together until that no longer lowers the objective by `tol` of itself, then
    one at a time.
    """

    def value_of(at: np.ndarray, solution: Solution) -> float:
        return solution.objective + (rho * sample.repulsion(at)[0] if rho else 0.0)

    solution = sample.solution(Z)
    value = value_of(Z, solution)
    step, masks, waiting = 1.0, [np.ones(len(Z), bool)], 0
    singles = [np.arange(len(Z)) == j for j in range(len(Z))]
    for _ in range(max_iter):
        mask = masks[waiting]
        sample.equations(Z)
        moved = Z + step * heuristic(sample, Z, solution.theta) * mask[:, None]
        trial = sample.solution(moved)
        if value_of(moved, trial) < value * (1 - tol):
            Z, solution, value = moved, trial, value_of(moved, trial)
            step, waiting = min(2.0 * step, 1.0), 0
            masks = [np.ones(len(Z), bool)]
            continue
        step *= 0.25
        if step < 1e-3:
            step = 1.0
            if waiting == 0:
                masks = [np.ones(len(Z), bool), *singles]
            waiting += 1
            if waiting == len(masks):
                break
    return Z, value


def heuristic(sample: SampleObjective, Z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """(m, p) moves by eq. 7, towards a mean of the rows weighted by their residuals.

    A step of 1 never goes farther than the farthest row.
    """
    weights = sample.residual(theta) @ theta[:-1].T * sample.u[:, None]
    weights *= sample.similarities
    moves = weights.sum(axis=0)[:, None] * Z - weights.T @ sample.X
    size: np.ndarray = np.abs(weights).sum(axis=0)
    return moves / np.maximum(size, np.finfo(np.float64).tiny)[:, None]


def warm_start(
    sample: SampleObjective,
    Z: np.ndarray,
    *,
    repulsion: float,
    tol: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """Prototypes that are good for the sample, by decaying repulsion, descent and swaps."""
    m = len(Z)
    if repulsion and m > 1:
        rho = repulsion * sample.solution(Z).objective / (0.5 * m * (m - 1))
        end = rho * REPULSION_END
        while rho > end:
            Z, _ = descend(sample, Z, tol=tol, rho=rho, max_iter=REPULSION_STEPS, restarts=1)
            rho *= REPULSION_DECAY**REPULSION_STEPS
    if sample.problem.one_at_a_time:
        return descend(sample, Z, tol=tol)[0]
    loose = max(tol, TRIAL_TOL)
    Z, value = descend(sample, Z, tol=loose)
    failures = 0
    for _ in range(SWAPS):
        if failures >= min(SWAP_FAILURES, m) or value < RESOLVED * sample.spread:
            break
        trial = swapped(sample, Z, failures, generator)
        trial, lower = descend(sample, trial, tol=loose, restarts=1)
        if lower < value * (1 - WORTH):
            Z, value, failures = trial, lower, 0
        else:
            failures += 1
    return descend(sample, Z, tol=tol)[0]


def swapped(
    sample: SampleObjective, Z: np.ndarray, rank: int, generator: np.random.Generator
) -> np.ndarray:
    """Z with one prototype put elsewhere.

    It is the one whose removal costs least, or number `rank` in that order: one of two that have
    met, or one far from every row, costs nothing.  It goes to the row that lowers the objective
    most while the others stay, among rows drawn by weight and rows of largest residual.
    """
    equations = sample.equations(Z)
    ridge = sample.problem.ridge
    costs = removal_costs(equations, ridge, solve(equations, ridge).theta)
    cheap = np.argsort(costs, kind="stable")[rank]
    rest = np.delete(Z, cheap, axis=0)
    solution = sample.solution(rest)
    size = (sample.residual(solution.theta) ** 2).sum(axis=1)
    worst = np.argsort(-size, kind="stable")[:SEEDS]
    drawn = np.cumsum(sample.u)
    drawn = np.searchsorted(drawn, generator.random(SEEDS) * drawn[-1], side="right")
    rows = sample.X[np.unique(np.append(worst, np.minimum(drawn, len(sample.X) - 1)))]
    return np.vstack([rest, rows[int(np.argmax(sample.gains(rows, solution.theta)))]])


def one_at_a_time(
    sample: SampleObjective, Z: np.ndarray, *, tol: float, rho: float, rounds: int
) -> tuple[np.ndarray, float]:
    """The paper's Algorithm 1 on rows in memory, with step sizes scored exactly; (Z, value).

    Each prototype in turn goes along its negative gradient, and all coefficients follow.  It ends
    when a round lowers the objective by less than `tol` of itself, or after `rounds` rounds.
    """
    Z, m = Z.copy(), len(Z)
    similarity = sample.problem.similarity
    floor = 0.0 if similarity.name == "chi2" else -np.inf
    lengths = np.full(m, 0.25 * sample.X.std(axis=0).mean())

    def measure(at: np.ndarray) -> tuple[float, Solution]:
        solution = sample.solution(at)
        return solution.objective + (rho * sample.repulsion(at)[0] if rho else 0.0), solution

    value, solution = measure(Z)
    for _ in range(rounds):
        before = value
        for j in range(m):
            sample.equations(Z)
            slope = sample.gradient(Z, solution.theta)[j]
            if rho:
                slope = slope + rho * sample.repulsion(Z)[1][j]
            size = np.linalg.norm(slope)
            if not size > 0:
                continue
            best = None
            for step in STEPS:
                trial = Z.copy()
                trial[j] = np.maximum(Z[j] - step * lengths[j] * slope / size, floor)
                measured = measure(trial)
                if measured[0] < value and (best is None or measured[0] < best[0][0]):
                    best = measured, trial, step
            if best is None:
                lengths[j] *= STEPS[-1]
                continue
            (value, solution), Z, step = best
            lengths[j] *= step
        if before - value <= tol * before:
            break
    return Z, value


def walk(sample: SampleObjective, Z: np.ndarray) -> tuple[np.ndarray, float]:
    """Move to neighbours until none lowers the objective of rows in memory; returns (Z, value)."""
    ridge = sample.problem.ridge
    Z, value, still, j = Z.copy(), sample.solution(Z).objective, 0, 0
    while still < len(Z):
        moves = neighbours_of(sample.problem.neighbours, Z[j])
        scores = score_moves(sample.equations(np.vstack([Z, moves])), len(Z), j, ridge)
        best = int(np.argmin(scores)) if len(scores) else -1
        if best >= 0 and scores[best] < value * (1 - 1e-9):
            Z[j], value, still = moves[best], scores[best], 0
        else:
            still += 1
            j = (j + 1) % len(Z)
    return Z, value


def score_moves(equations: Equations, m: int, j: int, ridge: float) -> np.ndarray:
    """(k,) objective with each of the equations' k further prototypes in the place of j."""
    rest = np.delete(np.arange(m), j)
    n = len(equations.A) - 1
    return np.array(
        [solve(without(equations, np.append(rest, k)), ridge).objective for k in range(m, n)]
    )


def neighbours_of(
    neighbours: Callable[[np.ndarray], np.ndarray] | None, z: np.ndarray
) -> np.ndarray:
    """(k, p) prototypes that z may become, checked."""
    if neighbours is None:
        return np.empty((0, len(z)))
    given = z.copy()
    given.flags.writeable = False
    moves = np.asarray(neighbours(given), np.float64)
    if moves.size == 0:
        return np.empty((0, len(z)))
    name = getattr(neighbours, "__qualname__", type(neighbours).__qualname__)
    if moves.ndim != 2 or moves.shape[1] != len(z):
        raise ValueError(
            f"neighbours {name} returned an array of shape {moves.shape}; expected (k, {len(z)}): "
            "one row for each move"
        )
    if not np.isfinite(moves).all():
        raise ValueError(f"neighbours {name} returned values that are not finite")
    return moves
