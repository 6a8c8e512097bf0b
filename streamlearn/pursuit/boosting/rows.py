"""A model's request to a read of Jensen-Shannon boosting, and the sums over a block of rows."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np

from ...data.order import derive_seed
from ...numeric.rows.dense import Rows
from ..kernels import ScaledColumns, project_rows, step_values
from ..search import Strength, Trial
from ..tables import Filling, add_slopes
from .kernels import add_margins, add_trials, halve_numbers, halve_rows, split_rows, weigh_rows

N_MARGINS = 512
"""Number of bins of the margins to which probabilities are fitted."""


class Learner(NamedTuple):
    """One histogram function of a projection."""

    alpha: np.ndarray
    """(M,) direction."""
    low: float
    high: float
    heights: np.ndarray
    """(B,) values of 1/2 log(h+ / h-), times the shrinkage."""
    weight: float
    """Root mean square of the heights over the rows, which is w_j of eq. 14."""


class Halves(NamedTuple):
    """The rule that divides the rows of a round into those searched on and those tested on."""

    seed: int
    """Seed of the hash; -1: all rows are searched on and tested on."""
    columns: np.ndarray
    """Numbers of the columns whose float32 bits are hashed; empty: the row's number is hashed."""
    siblings: int = 1
    """Neighbouring row numbers of one subject, whose number then is hashed (`Source.siblings`)."""


class BoostRequest(NamedTuple):
    """The request of one model to a read."""

    label: int
    """Code of the class against the rest."""
    add: Learner | None
    """Learner that this read adds to the margins."""
    halves: Halves
    trials: tuple[Trial, ...]
    """Directions to be measured; none in a read that only brings the margins up to date."""
    chosen: np.ndarray
    """Numbers of the columns with a table at the first trial."""
    strength: Strength | None
    tau: float
    penalty: str
    n_bins: int
    charged: bool
    """Whether bins that a projection fills are charged."""
    screens: bool
    """Whether the slopes along all columns are requested."""
    share: float
    """Share of the rows that go into tables."""
    offset: np.ndarray
    """(2,) offsets of minus and plus in the weights exp(-y F - offset), so that none overflows."""
    reach: float
    """Bound of |F| after this read."""


class BoostSums(TypedDict):
    """The sums of one request."""

    sums: np.ndarray
    """(trials, 2, B, 2) weights by half, bin and class."""
    squares: np.ndarray
    """(2, 2) sums of squared weights by half and class."""
    largest: np.ndarray
    """(2,) largest -y F of each class."""
    margins: np.ndarray
    """(N_MARGINS, 2) weights by margin and class."""
    tables: dict[str, np.ndarray]
    slopes: np.ndarray
    """(M,) slopes along each column."""


def add_learner(
    columns: ScaledColumns, new: Learner | None, rows: Rows, F: np.ndarray
) -> np.ndarray:
    """Add a learner, if there is one, to the margins F in place, and return them."""
    if new is not None:
        t = np.empty(rows.n_rows)
        project_rows(rows, new.alpha, columns, t)
        step_values(t, *new[1:4], F)
    return F


def half_of(halves: Halves, rows: Rows, numbers: range | np.ndarray) -> np.ndarray:
    """(m,) 0 for rows that are searched on, 1 for rows that are tested on."""
    half = np.zeros(rows.n_rows, np.int8)
    if halves.seed < 0:
        return half
    seed = np.uint64(derive_seed(halves.seed, 0x68616C66))
    with np.errstate(over="ignore"):  # intended; numpy warns of it where kernels are not compiled
        if len(halves.columns):
            halve_rows(rows, halves.columns, seed, half)
        else:
            h = numbers
            if isinstance(h, range):
                h = np.arange(h.start, h.stop)
            halve_numbers(h.astype(np.uint64) // np.uint64(halves.siblings), seed, half)
    return half


class BlockRows:
    """The weights and projections of a block's rows, in arrays that all blocks of a chunk use.

    Where several threads work, mapping new memory for each block costs more than the sums.
    """

    def __init__(self, n: int) -> None:
        self._v, self._kind, self._t = np.empty(n), np.empty(n, np.uint8), np.empty(n)
        self._parts = np.empty((3, n))

    def weigh(
        self,
        request: BoostRequest,
        sums: BoostSums,
        y: np.ndarray,
        w: np.ndarray,
        F: np.ndarray,
        half: np.ndarray,
    ) -> None:
        """Find the weights of a block's rows, and add the sums that do not depend on trials."""
        self._n = n = len(w)
        v, kind = self._v[:n], self._kind[:n]
        weigh_rows(
            F, y, request.label, w, half, request.offset, v, kind, sums["squares"], sums["largest"]
        )
        if request.add is not None or not request.trials:
            add_margins(F, w, kind, request.reach, sums["margins"])

    def measure(
        self, columns: ScaledColumns, request: BoostRequest, sums: BoostSums, rows: Rows
    ) -> None:
        """Add the weighed rows to the histograms of all trials."""
        n = self._n
        alphas = np.array([trial.alpha for trial in request.trials])
        ranges = np.array([trial[1:3] for trial in request.trials])
        v, kind, t = self._v[:n], self._kind[:n], self._t[:n]
        add_trials(rows, alphas, columns, ranges, v, kind, sums["sums"], t)

    def fill(
        self,
        request: BoostRequest,
        tables: dict[str, np.ndarray],
        runs: np.ndarray,
        filling: Filling,
        start: int,
    ) -> None:
        """Collect the rows of `runs` for the tables of the first trial."""
        minus, plus, searched = self._parts[:, : self._n]
        split_rows(self._v, self._kind, runs, minus, plus, searched)
        t = self._t[: self._n]
        filling.add(tables, request.trials[0], t, (minus, plus), searched, runs, start)

    def screen(
        self, columns: ScaledColumns, request: BoostRequest, slopes: np.ndarray, X: np.ndarray
    ) -> None:
        """Add the slopes along all columns at the first trial."""
        n = self._n
        v, kind, pair = self._v[:n], self._kind[:n], np.zeros((n, 2))
        pair[np.arange(n), kind & 1] = np.where(kind < 2, v, 0.0)
        add_slopes(slopes, X, columns, row_slopes(self._t[:n], pair, request.trials[0]))


def row_slopes(t: np.ndarray, pair: np.ndarray, trial: Trial) -> np.ndarray:
    """(m,) slopes of the divergence by each row's projection, from the table's histograms."""
    B = len(trial.theta) // 2
    table = trial.theta.reshape(B, 2)
    width = (trial.high - trial.low) / B
    centers = trial.low + width * (np.arange(B) + 0.5)
    q = np.zeros(len(t))
    for c in (0, 1):
        above = np.interp(t + 0.5 * width, centers, table[:, c])
        q += pair[:, c] * (above - np.interp(t - 0.5 * width, centers, table[:, c]))
    return q
