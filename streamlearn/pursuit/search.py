"""Greedy, "informative feature first", search of a direction: a read a move (Tables 1, 2).

The tables print ">" where they minimise; here a move is taken if the cost, measured by a read of
all rows, falls.  Every read that measures trial directions also fills a two-dimensional table of
(alpha'z, z_m) for each column at the first of them, from which all coarse and fine steps of all
columns are scored: so the next trials are known when it ends, and a move costs one read.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

COARSE = np.arange(-10, 11) / 10
FINE = np.arange(-10, 11) / 100
N_TRIALS = 3
"""Directions measured in one read."""
N_FINE = 8
"""Columns whose fine steps are scored."""
ROUNDING = 1e-12
"""Of the scale of costs: a gain below it depends on how the rows were cut into chunks."""


class Trial(NamedTuple):
    """A direction, and the range of its projection that the smoother covers."""

    alpha: np.ndarray
    """(M,)."""
    low: float
    high: float
    theta: np.ndarray
    """The fit that a table, or a sample, gives it; only to screen columns by."""
    predicted: float = float("nan")
    """Change of the cost that the table says."""


class Strength(NamedTuple):
    """Of the penalty weight ||alpha||_1 / ||alpha||_2, of which each column has its part.

    What is above `weight`, the least, is shared by all columns but the largest, by their size; a
    column's part is the charge at least.
    """

    weight: float
    """lambda_j."""
    charge: float
    """What a column more must gain at least.  A penalty of size alone lets columns that fit noise
    only in with a small coefficient, and pulls directions between columns towards one of them."""

    def of(self, alphas: np.ndarray, penalty: str) -> np.ndarray:
        """(k,) penalties on directions (k, c), of which zeros may be left out."""
        size = np.abs(alphas)
        total = size.sum(1)
        if penalty == "paper":
            return self.weight * total
        more = self.weight * (total / np.sqrt((size**2).sum(1)) - 1.0)
        others = total - size.max(1)
        share = more / np.where(others > 0, others, 1.0)
        parts = np.where(size > 0, np.maximum(share[:, None] * size, self.charge), 0.0)
        parts[np.arange(len(size)), size.argmax(1)] = 0.0
        return self.weight + parts.sum(1)

    def at(self, alpha: np.ndarray, penalty: str) -> float:
        """The penalty on a direction."""
        return float(self.of(alpha[None, alpha != 0], penalty)[0])


def make_strength(weight: float, n: float, n_columns: int, noise: float) -> Strength:
    """The strength for n rows, of which one parameter more lowers the cost by `noise` on average.

    A column more is charged as the extended BIC of Chen & Chen (2008) has it, which knows that it
    is the best of many; at most the weight, which tau has made as small as is wanted.
    """
    charge = (np.log(max(n, 2.0)) + 2.0 * np.log(max(n_columns, 1))) * noise
    return Strength(weight, min(weight, float(charge)))


class Found(NamedTuple):
    """Where a search ended."""

    trial: Trial
    measured: Any
    """What the read that measured it summed up."""
    cost: float
    costs: list[float]
    """After each move, falling."""
    n_reads: int
    converged: bool
    strength: Strength
    first: Any
    """The answer to its first read."""


def seek(
    ask: Any, starts: tuple[Trial, ...], slopes: Any, penalty: str, tol: float
) -> Generator[Any, Any, Found]:
    """Generator: yields what it wants of the next read, receives its answer, returns `Found`.

    ``ask(trials, strength, slopes)`` makes the request; an answer has ``costs`` (one per trial,
    without penalty), ``scale`` (what `tol` is a share of), ``measured`` (one per trial), and
    ``moves``: trials scored by the table at the first trial, best first.

    At most 2 + moves reads: one for the start, one a move, and one whose trials all fail.  If the
    table's favourite fails and another trial does not, the table is no longer sharper than the
    gains that are left: that trial is taken, measured as a first trial is, and the search ends.
    """
    answer = yield ask(starts, None, slopes)
    strength, n_reads, first = answer.strength, 1, answer
    trial, measured = starts[0], answer.measured[0]
    cost = float(answer.costs[0]) + strength.at(trial.alpha, penalty)
    costs, converged = [cost], False
    for _ in range(4 * len(trial.alpha) + 16):
        least = tol * answer.scale
        trials = [t for t in answer.moves if t.predicted < -least][:N_TRIALS]
        if not trials:
            converged = True
            break
        answer = yield ask(tuple(trials), strength, answer.slopes)
        n_reads += 1
        exact = [
            float(c) + strength.at(t.alpha, penalty)
            for c, t in zip(answer.costs, trials, strict=True)
        ]
        favoured = exact[0] < cost - least
        best = 0 if favoured else int(np.argmin(exact))
        if exact[best] < cost - ROUNDING * answer.scale:
            trial, measured, cost = trials[best], answer.measured[best], exact[best]
            costs.append(cost)
        if not favoured:
            converged = True
            if best and cost == exact[best]:  # what is asked of a first trial only
                answer = yield ask((trial,), strength, answer.slopes)
                n_reads, measured = n_reads + 1, answer.measured[0]
            break
    return Found(trial, measured, cost, costs, n_reads, converged, strength, first)


class Cells(NamedTuple):
    """The occupied cells of one column's table."""

    s: np.ndarray
    """(c,) mean projection."""
    z: np.ndarray
    """(c,) mean of the column."""
    pair: np.ndarray
    """(c, 2) the two sums of each cell."""
    reach: np.ndarray
    """(2,) half a cell's extent."""


def score_moves(
    alpha: np.ndarray,
    tables: list[tuple[int, Cells, Cells]],
    cost_of: Any,
    strength: Strength,
    penalty: str,
) -> tuple[Trial, ...]:
    """The best step of each column that has a table, the most promising column first.

    A table is its cells, and fewer ones for coarse steps.

    ``cost_of(cells, shifts) -> (cost, low, high, fits)``, (k,) and fits (k, n), scores steps of one
    column.
    `predicted` is the change of the penalised cost from that of no step, by the same table.
    """
    found = [
        (*_best_step(alpha, m, coarse, COARSE, cost_of, strength, penalty), m, cells)
        for m, cells, coarse in tables
    ]
    found.sort(key=lambda f: (f[0].predicted, f[2]))
    fine = [
        _best_step(alpha, m, cells, shift + FINE, cost_of, strength, penalty)[0]
        for _, shift, m, cells in found[:N_FINE]
    ]
    fine.sort(key=lambda t: t.predicted)
    return tuple(t for t in fine[: 2 * N_TRIALS] if t.predicted < 0)


def _best_step(
    alpha: np.ndarray,
    m: int,
    cells: Cells,
    steps: np.ndarray,
    cost_of: Any,
    strength: Strength,
    penalty: str,
) -> tuple[Trial, float]:
    """The best of a_m + steps, of a_m = 0 and of no step; and the step."""
    others = np.delete(alpha, m)
    shifts = np.append(steps, [-alpha[m], 0.0])
    values = alpha[m] + shifts
    values[np.abs(values) < 1e-9] = 0.0
    if not others.any():
        shifts, values = shifts[values != 0], values[values != 0]
    cost, low, high, fits = cost_of(cells, shifts)
    rest = np.broadcast_to(others[others != 0], (len(values), np.count_nonzero(others)))
    total = cost + strength.of(np.column_stack([rest, values]), penalty)
    k = int(total.argmin())
    new = alpha.copy()
    new[m] = round(float(values[k]), 10)
    largest = 1.0 if penalty == "paper" else float(np.abs(new).max())
    change = float(total[k] - total[-1])
    lo, hi = float(low[k]) / largest, float(high[k]) / largest
    return Trial(new / largest, lo, hi, fits[k], change), float(shifts[k])
