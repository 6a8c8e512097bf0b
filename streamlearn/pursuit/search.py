"""Greedy, "informative feature first", search of a direction: a read a move (Tables 1, 2).

The paper's tables print ">" where they minimise; here a move is taken if the cost, measured by a
read of all rows, falls.  Every read that measures trial directions also fills, for each column, a
two-dimensional table of (alpha'z, z_m) at the first of them.  From these tables all coarse and fine
steps of all columns are scored, so the next trials are known when the read ends, and a move costs
one read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from .kernels import Cells

COARSE = np.arange(-10, 11) / 10
FINE = np.arange(-10, 11) / 100
N_TRIALS = 3
"""Number of directions measured in one read."""
N_FINE = 8
"""Number of columns whose fine steps are scored."""
ROUNDING = 1e-12
"""Share of the scale of costs below which a gain depends on how the rows were cut into chunks."""

GROUP = 8
"""Number of columns whose steps are scored together, which bounds the temporaries."""

CostOf = Callable[
    ["Cells", np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
]
"""Costs (k,), both ends of the ranges (k,), and fits (k, n), of k steps: of each the place of its
column among those of the cells, and its size."""


class Trial(NamedTuple):
    """A direction, and the range of its projection that the smoother covers."""

    alpha: np.ndarray
    """(M,) direction."""
    low: float
    high: float
    theta: np.ndarray
    """Its fit in a table or a sample, by which columns are screened."""
    predicted: float = float("nan")
    """Change of the cost by the table."""


class Strength(NamedTuple):
    """The strength of the penalty weight ||alpha||_1 / ||alpha||_2, of which columns have parts.

    The penalty is at least `weight`.  All columns except the largest share the rest by their size,
    and each of them has at least the charge.
    """

    weight: float
    """Value of lambda_j."""
    charge: float
    """Least gain that one more column must bring.  A penalty of size alone would let columns that
    only fit noise in with a small coefficient, and turn directions between columns towards one."""

    def of(self, alphas: np.ndarray, penalty: str) -> np.ndarray:
        """(k,) penalties on directions (k, c), in which zeros may be left out."""
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
    """The strength for n rows, where one more parameter lowers the cost by `noise` on average.

    One more column is charged by the extended BIC of Chen & Chen (2008), which takes into account
    that it is the best of many, and at most the weight, which tau makes as small as is wanted.
    """
    charge = (np.log(max(n, 2.0)) + 2.0 * np.log(max(n_columns, 1))) * noise
    return Strength(weight, min(weight, float(charge)))


class Answer(Protocol):
    """The answer of a read to a request."""

    @property
    def costs(self) -> np.ndarray:
        """(trials,) costs without penalty."""

    @property
    def scale(self) -> float:
        """The number of which `tol` is a share."""

    @property
    def strength(self) -> Strength: ...

    @property
    def measured(self) -> Sequence[object]:
        """The sums of each trial."""

    @property
    def moves(self) -> tuple[Trial, ...]:
        """Trials scored by the table at the first trial, the best first."""

    @property
    def slopes(self) -> np.ndarray: ...


Request = TypeVar("Request")
OfModel = TypeVar("OfModel", bound=Answer)


class Found(NamedTuple, Generic[OfModel]):
    """The best trial of a search, and what was measured there."""

    trial: Trial
    answer: OfModel
    """Answer of the read that measured the trial."""
    place: int
    """Number of the trial in that answer."""
    cost: float
    costs: list[float]
    """Costs after each move, falling."""
    n_reads: int
    converged: bool
    strength: Strength
    first: OfModel
    """Answer of the first read."""


def seek(
    request: Callable[[tuple[Trial, ...], Strength | None, np.ndarray | None], Request],
    starts: tuple[Trial, ...],
    slopes: np.ndarray | None,
    penalty: str,
    tol: float,
) -> Generator[Request, OfModel, Found[OfModel]]:
    """Search a direction: yield requests for the next read, be sent answers, return `Found`.

    ``request(trials, strength, slopes)`` makes a request.  The search takes at most 2 + moves
    reads: one for the start, one for each move, and one whose trials all fail.  If the table's
    favourite fails and another trial does not, the table is no longer sharper than the gains that
    are left; then that trial is taken, measured as a first trial is, and the search ends.
    """
    answer = yield request(starts, None, slopes)
    strength, n_reads, first = answer.strength, 1, answer
    trial, measured, place = starts[0], answer, 0
    cost = float(answer.costs[0]) + strength.at(trial.alpha, penalty)
    costs, converged = [cost], False
    for _ in range(4 * len(trial.alpha) + 16):
        least = tol * answer.scale
        trials = [t for t in answer.moves if t.predicted < -least][:N_TRIALS]
        if not trials:
            converged = True
            break
        answer = yield request(tuple(trials), strength, answer.slopes)
        n_reads += 1
        exact = [
            float(c) + strength.at(t.alpha, penalty)
            for c, t in zip(answer.costs, trials, strict=True)
        ]
        favoured = exact[0] < cost - least
        best = 0 if favoured else int(np.argmin(exact))
        if exact[best] < cost - ROUNDING * answer.scale:
            trial, measured, place, cost = trials[best], answer, best, exact[best]
            costs.append(cost)
        if not favoured:
            converged = True
            if best and cost == exact[best]:  # some sums are taken of a first trial only
                answer = yield request((trial,), strength, answer.slopes)
                n_reads, measured, place = n_reads + 1, answer, 0
            break
    return Found(trial, measured, place, cost, costs, n_reads, converged, strength, first)


class Steps(NamedTuple):
    """The best step of each of several columns."""

    shift: np.ndarray
    """(c,) steps."""
    values: np.ndarray
    """(c,) entries of the direction after them."""
    change: np.ndarray
    """(c,) changes of the penalised cost from that of no step."""
    low: np.ndarray
    high: np.ndarray
    theta: np.ndarray
    """(c, n) fits."""


def score_moves(
    alpha: np.ndarray,
    cells: Cells,
    coarse: Cells,
    cost_of: CostOf,
    strength: Strength,
    penalty: str,
) -> tuple[Trial, ...]:
    """The best step of each column that has a table, the most promising column first.

    `cells` are those of the tables, `coarse` the fewer ones for coarse steps.  `predicted` is the
    change of the penalised cost from that of no step, by the same table.
    """
    every = np.arange(len(coarse.columns))
    found = [
        best_steps(alpha, coarse, at, np.tile(COARSE, (len(at), 1)), cost_of, strength, penalty)
        for at in np.split(every, every[GROUP::GROUP])
    ]
    change, shift = (np.concatenate([getattr(f, of) for f in found]) for of in ("change", "shift"))
    first = np.lexsort((coarse.columns, change))[:N_FINE]
    at = np.searchsorted(cells.columns, coarse.columns[first])
    fine = best_steps(
        alpha, cells, at, shift[first, None] + FINE, cost_of, strength, penalty
    )  # fmt: skip
    best = np.argsort(fine.change, kind="stable")[: 2 * N_TRIALS]
    return tuple(
        _trial(alpha, int(cells.columns[at[k]]), fine, k, penalty)
        for k in best.tolist()
        if fine.change[k] < 0
    )


def best_steps(
    alpha: np.ndarray,
    cells: Cells,
    at: np.ndarray,
    steps: np.ndarray,
    cost_of: CostOf,
    strength: Strength,
    penalty: str,
) -> Steps:
    """The best of a_m + steps, of a_m = 0 and of no step, of each column cells.columns[at].

    `steps` (c, g) are those of each column.
    """
    columns = cells.columns[at]
    own = alpha[columns]
    shifts = np.column_stack([steps, -own, np.zeros(len(at))])
    values = own[:, None] + shifts
    values[np.abs(values) < 1e-9] = 0.0
    none = (np.count_nonzero(alpha) == (own != 0))[:, None] & (values == 0)
    shifts[none] = 0.0  # they would leave no direction
    costs = cost_of(cells, np.repeat(at, shifts.shape[1]), shifts.ravel())
    cost, low, high = (of.reshape(shifts.shape) for of in costs[:3])
    total = cost + _penalties(alpha, columns, np.where(none, 1.0, values), strength, penalty)
    total[none] = np.inf
    best, each = total.argmin(1), np.arange(len(at))
    return Steps(
        shifts[each, best],
        values[each, best],
        total[each, best] - total[:, -1],
        low[each, best],
        high[each, best],
        costs[3].reshape(*shifts.shape, -1)[each, best],
    )


def _penalties(
    alpha: np.ndarray, columns: np.ndarray, values: np.ndarray, strength: Strength, penalty: str
) -> np.ndarray:
    """(c, g) penalties on `alpha` whose entry of one of `columns` is replaced by `values`."""
    used = np.flatnonzero(alpha)
    others = np.where(columns[:, None] == used, 0.0, alpha[used])
    alphas = np.column_stack([np.repeat(others, values.shape[1], axis=0), values.ravel()])
    return strength.of(alphas, penalty).reshape(values.shape)


def _trial(alpha: np.ndarray, m: int, steps: Steps, k: int, penalty: str) -> Trial:
    """The direction after the k-th of `steps`, along column m."""
    new = alpha.copy()
    new[m] = round(float(steps.values[k]), 10)
    largest = 1.0 if penalty == "paper" else float(np.abs(new).max())
    low, high = float(steps.low[k]) / largest, float(steps.high[k]) / largest
    return Trial(new / largest, low, high, steps.theta[k].copy(), float(steps.change[k]))
