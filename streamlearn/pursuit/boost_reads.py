"""What a read sums up for Jensen-Shannon boosting, and what is made of the sums."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data.order import derive_seed
from ..data.source import Chunk
from ..numeric.rows import Rows, flat_rows, some_rows
from ..passes.fold import Fold, RowState
from .columns import BLOCK, TURNED, Columns, blocks, span_rows
from .histograms import charge_of_bins, divergence, noise_of, slopes, smoothed
from .kernels import bins_of_cells, project_rows, step_values
from .kernels_boost import (
    add_margins,
    add_trials,
    halve_numbers,
    halve_rows,
    split_rows,
    weigh_rows,
)
from .ridge_reads import ranges
from .search import Cells, Strength, Trial, make_strength, score_moves
from .tables import Filling, add_slopes, cells_of, empty_tables, runs_for_tables, runs_within

MARGIN = "margin"
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


class Divided(NamedTuple):
    """Sums of one trial."""

    sums: np.ndarray
    """(2, B, 2): by half (searched, tested), bin and class (minus, plus): weights."""
    squares: np.ndarray
    """(2, 2) by half and class: sum of squared weights."""


class BoostAnswer(NamedTuple):
    """What a read told one model."""

    costs: np.ndarray
    """-SJS of each trial on the searched half, and its charge for bins."""
    scale: float
    strength: Strength
    measured: list[Divided]
    moves: tuple[Trial, ...]
    slopes: np.ndarray
    largest: np.ndarray
    """(2,) largest -y F of each class."""
    margins: np.ndarray
    """(N_MARGINS, 2) weights of the rows by margin, in [-reach, reach]."""


def boost_fold(
    columns: Columns, asks: tuple[BoostAsk, ...], models: tuple[int, ...], width: int
) -> Fold[Any, list[BoostAnswer]]:
    """Fold: the exact divergence of each model's trials, and the steps its tables promise.

    Row state: one float64 margin for each of the `width` models trained together; `models` says
    which of them ask.
    """
    writes = any(ask.add is not None for ask in asks)
    return Fold(
        partial(_start, asks),
        partial(_step, columns, asks, models),
        merge_boost,
        partial(_finish, columns, asks),
        (RowState(MARGIN, "float64", width, writes),),
    )


def _start(asks: tuple[BoostAsk, ...]) -> list[dict[str, Any]]:
    return [
        {
            "sums": np.zeros((len(ask.trials), 2, ask.n_bins, 2)),
            "squares": np.zeros((2, 2)),
            "largest": np.full(2, -np.inf),
            "margins": np.zeros((N_MARGINS, 2)),
            "tables": empty_tables(len(ask.chosen)),
            "slopes": np.zeros(len(ask.trials[0].alpha) if ask.screens else 0),
        }
        for ask in asks
    ]


def merge_boost(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sum of two states, in `a`."""
    for x, y in zip(a, b, strict=True):
        np.maximum(x["largest"], y["largest"], out=x["largest"])
        for name in ("sums", "squares", "margins", "slopes"):
            x[name] += y[name]
        for name in x["tables"]:
            x["tables"][name] += y["tables"][name]
    return a


def _step(
    columns: Columns,
    asks: tuple[BoostAsk, ...],
    models: tuple[int, ...],
    state: list[dict[str, Any]],
    chunk: Chunk,
) -> list[dict[str, Any]]:
    n = min(BLOCK, chunk.n_rows)
    ones = np.ones(n) if chunk.weight is None else None
    margins = chunk.state[MARGIN]
    most = span_rows(asks[0].share)
    filling, scratch = Filling(), Scratch(n)
    turned = any(ask.screens for ask in asks) or asks[0].share > TURNED
    for span, X in blocks(chunk.X, most, turned):
        y, numbers, F, rows = chunk.y[span], chunk.rows[span], margins[span], flat_rows(X)
        runs = runs_for_tables(numbers, asks[0].share)
        filling.make_room(runs)
        found: dict[tuple, np.ndarray] = {}
        for ask, k, sums in zip(asks, models, state, strict=True):
            key = ask.halves.seed, len(ask.halves.columns)
            if key not in found:
                found[key] = half_of(ask.halves, rows, numbers)
            for start in range(0, len(X), BLOCK):
                stop = min(start + BLOCK, len(X))
                part, block = slice(start, stop), some_rows(rows, start, stop)
                f = add_learner(columns, ask.add, block, np.ascontiguousarray(F[part, k]))
                if ask.add is not None:
                    F[part, k] = f
                w = ones[: stop - start] if chunk.weight is None else chunk.weight[span][part]
                scratch.weigh(ask, sums, y[part], w, f, found[key][part])
                if ask.trials:
                    scratch.measure(columns, ask, sums, block)
                    scratch.fill(ask, sums["tables"], runs_within(runs, part), filling, start)
                if ask.screens:
                    scratch.screen(columns, ask, sums["slopes"], X[part])
            filling.pour(sums["tables"], X, columns, ask.chosen)
    return state


def add_learner(columns: Columns, new: Learner | None, rows: Rows, F: np.ndarray) -> np.ndarray:
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


class Scratch:
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

    def measure(self, columns: Columns, ask: BoostAsk, sums: dict[str, Any], rows: Rows) -> None:
        """Add the weighed rows to the histograms of all trials."""
        n = self._n
        alphas = np.array([trial.alpha for trial in ask.trials])
        ranges = np.array([trial[1:3] for trial in ask.trials])
        v, kind, t = self._v[:n], self._kind[:n], self._t[:n]
        add_trials(rows, alphas, columns, ranges, v, kind, sums["sums"], t)

    def fill(self, ask: BoostAsk, tables: Any, runs: Any, filling: Filling, start: int) -> None:
        """Collect the rows of `runs` for the tables of the first trial."""
        if len(runs):
            minus, plus, searched = self._parts[:, : self._n]
            split_rows(self._v, self._kind, runs, minus, plus, searched)
            t = self._t[: self._n]
            filling.add(tables, ask.trials[0], t, (minus, plus), searched, runs, start)

    def screen(self, columns: Columns, ask: BoostAsk, slopes: Any, X: np.ndarray) -> None:
        """Add the slopes along all columns at the first trial."""
        n = self._n
        v, kind, pair = self._v[:n], self._kind[:n], np.zeros((n, 2))
        pair[np.arange(n), kind & 1] = np.where(kind < 2, v, 0.0)
        add_slopes(slopes, X, columns, _pull(self._t[:n], pair, ask.trials[0]))


def _pull(t: np.ndarray, pair: np.ndarray, trial: Trial) -> np.ndarray:
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


def _finish(
    columns: Columns, asks: tuple[BoostAsk, ...], state: list[dict[str, Any]]
) -> list[BoostAnswer]:
    return [_answer(columns, ask, sums) for ask, sums in zip(asks, state, strict=True)]


def _answer(columns: Columns, ask: BoostAsk, sums: dict[str, Any]) -> BoostAnswer:
    searched = sums["sums"][:, 0]
    gain = costs = np.zeros(0)
    strength, moves = ask.strength, ()
    if ask.trials:
        noise = noise_of(searched[0], sums["squares"][0])
        charged = float(noise.sum()) if ask.charged else 0.0
        gain = gain_of_bins(searched)
        costs = charge_of_bins(searched, charged) - gain
        if strength is None:
            rows = float((1.0 / np.where(noise > 0, noise, 1.0)).sum())
            weight = float(gain[0]) / ask.tau
            strength = make_strength(weight, rows, len(columns.live), float(noise.sum()) / 4)
        cells = cells_of(sums["tables"], columns, ask.chosen, ask.trials[0], 1.0)
        cost_of = partial(score_bins, ask.n_bins, charged / ask.share)
        moves = score_moves(ask.trials[0].alpha, cells, cost_of, strength, ask.penalty)
    measured = [Divided(part, sums["squares"]) for part in sums["sums"]]
    return BoostAnswer(
        costs,
        float(gain[0]) if ask.trials else 0.0,
        strength or Strength(0.0, 0.0),
        measured,
        moves,
        sums["slopes"],
        sums["largest"],
        sums["margins"],
    )


def gain_of_bins(sums: np.ndarray) -> np.ndarray:
    """(k,) divergence of smoothed histograms; sums (k, B, 2)."""
    return divergence(smoothed(sums[..., 1]), smoothed(sums[..., 0]))


def score_bins(
    n_bins: int, noise: float, cells: Cells, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cost, range and slopes by bin of steps along one column, from its table.

    `noise` is that of the table's rows: fewer rows make more of it.
    """
    low, high = ranges(cells, shifts)
    sums = np.zeros((len(shifts), n_bins, 2))
    bins_of_cells(cells.s, cells.z, cells.pair, shifts, low, high, sums)
    table = slopes(smoothed(sums[..., 0]), smoothed(sums[..., 1]))
    costs = charge_of_bins(sums, noise) - gain_of_bins(sums)
    return costs, low, high, table.reshape(len(shifts), -1)
