"""Prototypes that move one at a time: along a gradient (Algorithm 1), or to a neighbour.

A structured prototype, a string or a graph coded as p numbers, has no gradient: what may become of
it is listed by ``neighbours(z)``, and of all moves the best is made (Biggio 2015, section III,
structured inputs).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .equations import Equations, Solution, solve, without
from .sample import SampleObjective

STEPS = (4.0, 1.0, 0.25, 0.0625)
"""Multiples of a prototype's last step that are scored."""


def one_at_a_time(
    sample: SampleObjective, Z: np.ndarray, *, tol: float, rho: float, rounds: int
) -> tuple[np.ndarray, float]:
    """The paper's Algorithm 1 on rows in memory, with the step sizes scored exactly; (Z, value).

    Each prototype in turn goes along its negative gradient, and all coefficients follow.  Ends when
    a round lowers the objective by less than `tol` of itself, or after that many rounds.
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
    """Moves to neighbours until none lowers the objective of rows in memory; (Z, value)."""
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
    """(k,) the objective with each of the k further prototypes of the equations in place of j."""
    rest = np.delete(np.arange(m), j)
    n = len(equations.A) - 1
    return np.array(
        [solve(without(equations, np.append(rest, k)), ridge).objective for k in range(m, n)]
    )


def neighbours_of(
    neighbours: Callable[[np.ndarray], np.ndarray] | None, z: np.ndarray
) -> np.ndarray:
    """(k, p) what a prototype may become, checked."""
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
