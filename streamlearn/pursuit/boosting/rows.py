"""What a model asks of a read for Jensen-Shannon boosting, and the sums over a block of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...data.order import derive_seed
from ...numeric.rows.dense import Rows
from ..kernels import ScaledColumns, project_rows, step_values
from ..search import Strength, Trial
from ..tables import Filling, add_slopes
from .kernels import add_margins, add_trials, halve_numbers, halve_rows, split_rows, weigh_rows

N_MARGINS = 512
"""Bins of the margins that probabilities are fitted to."""


class Learner(NamedTuple):
    """One histogram function of a projection."""

    alpha: np.ndarray
    """(M,)."""
    low: float
    high: float
    heights: np.ndarray
    """(B,) 1/2 log(h+ / h-), shrunk."""
    weight: float
    """Root mean square of the heights over the rows: w_j of eq. 14."""


class Halves(NamedTuple):
    """Which rows a round searches on: a hash of the row's content, or of its number."""

    seed: int
    """-1: all rows are searched on and tested on."""
    columns: np.ndarray
    """Columns whose float32 bits are hashed; empty: the row number."""


class BoostAsk(NamedTuple):
    """What one model wants of a read."""

    label: int
    """Code of the class against the rest."""
    add: Learner | None
    """Added to the margin by this read."""
    halves: Halves
    trials: tuple[Trial, ...]
    """None in a read that only brings the margins up to date."""
    chosen: np.ndarray
    strength: Strength | None
    tau: float
    penalty: str
    n_bins: int
    charged: bool
    """For the bins that a projection fills."""
    screens: bool
    share: float
    """Of the rows, for tables."""
    offset: np.ndarray
    """(2,) of minus and plus: weights are exp(-y F - offset), so that none overflows."""
    reach: float
    """Bound of |F|, after this read."""


def add_learner(
    columns: ScaledColumns, new: Learner | None, rows: Rows, F: np.ndarray
) -> np.ndarray:
    """F with one more learner, in place."""
    if new is not None:
        t = np.empty(rows.n_rows)
        project_rows(rows, new.alpha, columns, t)
        step_values(t, *new[1:4], F)
    return F


def half_of(halves: Halves, rows: Rows, numbers: Any) -> np.ndarray:
    """(m,) 0 for the rows searched on, 1 for those tested on; the rows' numbers besides."""
    half = np.zeros(rows.n_rows, np.int8)
    if halves.seed < 0:
        return half
    seed = np.uint64(derive_seed(halves.seed, 0x68616C66))
    with np.errstate(over="ignore"):  # meant, and not compiled numpy would warn of it
        if len(halves.columns):
            halve_rows(rows, halves.columns, seed, half)
        else:
            whole = isinstance(numbers, range)
            h = np.arange(numbers.start, numbers.stop) if whole else np.asarray(numbers)
            halve_numbers(h.astype(np.uint64), seed, half)
    return half


class BlockRows:
    """What a read finds of a block's rows, in arrays that all blocks of a chunk use.

    Where threads work at once, pages mapped anew for each block cost more than the sums.
    """

    def __init__(self, n: int) -> None:
        self._v, self._kind, self._t = np.empty(n), np.empty(n, np.uint8), np.empty(n)
        self._parts = np.empty((3, n))

    def weigh(
        self,
        ask: BoostAsk,
        sums: dict[str, Any],
        y: np.ndarray,
        w: np.ndarray,
        F: np.ndarray,
        half: np.ndarray,
    ) -> None:
        """Find the weights of a block's rows, and add what does not depend on trials."""
        self._n = n = len(w)
        v, kind = self._v[:n], self._kind[:n]
        weigh_rows(F, y, ask.label, w, half, ask.offset, v, kind, sums["squares"], sums["largest"])
        if ask.add is not None or not ask.trials:
            add_margins(F, w, kind, ask.reach, sums["margins"])

    def measure(
        self, columns: ScaledColumns, ask: BoostAsk, sums: dict[str, Any], rows: Rows
    ) -> None:
        """Add the weighed rows to the histograms of all trials."""
        n = self._n
        alphas = np.array([trial.alpha for trial in ask.trials])
        ranges = np.array([trial[1:3] for trial in ask.trials])
        v, kind, t = self._v[:n], self._kind[:n], self._t[:n]
        add_trials(rows, alphas, columns, ranges, v, kind, sums["sums"], t)

    def fill(self, ask: BoostAsk, tables: Any, runs: Any, filling: Filling, start: int) -> None:
        """Collect the rows of `runs` for the tables of the first trial."""
        minus, plus, searched = self._parts[:, : self._n]
        split_rows(self._v, self._kind, runs, minus, plus, searched)
        t = self._t[: self._n]
        filling.add(tables, ask.trials[0], t, (minus, plus), searched, runs, start)

    def screen(self, columns: ScaledColumns, ask: BoostAsk, slopes: Any, X: np.ndarray) -> None:
        """Add the slopes along all columns at the first trial."""
        n = self._n
        v, kind, pair = self._v[:n], self._kind[:n], np.zeros((n, 2))
        pair[np.arange(n), kind & 1] = np.where(kind < 2, v, 0.0)
        add_slopes(slopes, X, columns, pull(self._t[:n], pair, ask.trials[0]))


def pull(t: np.ndarray, pair: np.ndarray, trial: Trial) -> np.ndarray:
    """(m,) slope of the divergence in each row's projection, from the table's histograms."""
    B = len(trial.theta) // 2
    table = trial.theta.reshape(B, 2)
    width = (trial.high - trial.low) / B
    centers = trial.low + width * (np.arange(B) + 0.5)
    q = np.zeros(len(t))
    for c in (0, 1):
        above = np.interp(t + 0.5 * width, centers, table[:, c])
        q += pair[:, c] * (above - np.interp(t - 0.5 * width, centers, table[:, c]))
    return q
