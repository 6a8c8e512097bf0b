"""What a read sums up for Jensen-Shannon boosting, and what is made of the sums."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...data.source import Chunk
from ...numeric.rows.dense import flat_rows, some_rows
from ...passes.fold import Fold, RowState
from ...passes.sums import add_sums
from ..columns import BLOCK, TURNED, blocks, span_rows
from ..kernels import ScaledColumns, bins_of_cells
from ..regression.reads import ranges
from ..search import Cells, Strength, Trial, make_strength, score_moves
from ..tables import Filling, cells_of, empty_tables, runs_for_tables, runs_within
from .histograms import charge_of_bins, divergence, noise_of, slopes, smoothed
from .rows import N_MARGINS, BlockRows, BoostAsk, add_learner, half_of

MARGIN = "margin"


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
    columns: ScaledColumns, asks: tuple[BoostAsk, ...], models: tuple[int, ...], width: int
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
        largest = np.maximum(x["largest"], y["largest"])
        add_sums(x, y)
        x["largest"] = largest
    return a


def _step(
    columns: ScaledColumns,
    asks: tuple[BoostAsk, ...],
    models: tuple[int, ...],
    state: list[dict[str, Any]],
    chunk: Chunk,
) -> list[dict[str, Any]]:
    n = min(BLOCK, chunk.n_rows)
    ones = np.ones(n) if chunk.weight is None else None
    margins = chunk.state[MARGIN]
    most = span_rows(asks[0].share)
    filling, found_rows = Filling(), BlockRows(n)
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
                found_rows.weigh(ask, sums, y[part], w, f, found[key][part])
                if ask.trials:
                    found_rows.measure(columns, ask, sums, block)
                inside = runs_within(runs, part)
                if ask.trials and len(inside):
                    found_rows.fill(ask, sums["tables"], inside, filling, start)
                if ask.screens:
                    found_rows.screen(columns, ask, sums["slopes"], X[part])
            filling.pour(sums["tables"], X, columns, ask.chosen)
    return state


def _finish(
    columns: ScaledColumns, asks: tuple[BoostAsk, ...], state: list[dict[str, Any]]
) -> list[BoostAnswer]:
    return [_answer(columns, ask, sums) for ask, sums in zip(asks, state, strict=True)]


def _answer(columns: ScaledColumns, ask: BoostAsk, sums: dict[str, Any]) -> BoostAnswer:
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
