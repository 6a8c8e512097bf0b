"""The sums of a read for Jensen-Shannon boosting, and the answers made of them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk
from ...numeric.rows.dense import flat_rows, some_rows
from ...passes.fold import Fold, RowState
from ...passes.sums import add_sums
from ..columns import BLOCK, TURNED, blocks, span_rows
from ..kernels import Cells, ScaledColumns, bins_of_cells
from ..regression.reads import ranges
from ..search import Strength, Trial, make_strength, score_moves
from ..tables import Filling, cells_of, empty_tables, runs_for_tables, runs_within
from .histograms import charge_of_bins, divergence, noise_of, slopes, smoothed
from .rows import N_MARGINS, BlockRows, BoostRequest, BoostSums, add_learner, half_of

MARGIN = "margin"
"""Name of the row state that holds the margins F."""


class Divided(NamedTuple):
    """Sums of one trial."""

    sums: np.ndarray
    """(2, B, 2) weights by half (searched, tested), bin, and class (minus, plus)."""
    squares: np.ndarray
    """(2, 2) sums of squared weights by half and class."""


class BoostAnswer(NamedTuple):
    """The answer of a read to one model."""

    costs: np.ndarray
    """(trials,) charges for bins minus the divergences on the searched half."""
    scale: float
    """Divergence of the first trial, of which `tol` is a share."""
    strength: Strength
    measured: list[Divided]
    moves: tuple[Trial, ...]
    """Steps that the tables promise, the best first."""
    slopes: np.ndarray
    """(M,) slopes of the cost along each column; empty if they were not requested."""
    largest: np.ndarray
    """(2,) largest -y F of each class."""
    margins: np.ndarray
    """(N_MARGINS, 2) weights of the rows by margin, in [-reach, reach]."""


def boost_fold(
    columns: ScaledColumns, requests: tuple[BoostRequest, ...], models: tuple[int, ...], width: int
) -> Fold[list[BoostSums], list[BoostAnswer]]:
    """Fold of the exact divergence of each model's trials, and of the steps its tables promise.

    The row state is a float64 margin for each of the `width` models trained together; the requests
    are those of the models with the numbers `models`.
    """
    writes = any(request.add is not None for request in requests)
    return Fold(
        partial(_start, requests),
        partial(_step, columns, requests, models),
        merge_boost,
        partial(_finish, columns, requests),
        (RowState(MARGIN, "float64", width, writes),),
    )


def _start(requests: tuple[BoostRequest, ...]) -> list[BoostSums]:
    return [
        {
            "sums": np.zeros((len(request.trials), 2, request.n_bins, 2)),
            "squares": np.zeros((2, 2)),
            "largest": np.full(2, -np.inf),
            "margins": np.zeros((N_MARGINS, 2)),
            "tables": empty_tables(len(request.chosen)),
            "slopes": np.zeros(len(request.trials[0].alpha) if request.screens else 0),
        }
        for request in requests
    ]


def merge_boost(a: list[BoostSums], b: list[BoostSums]) -> list[BoostSums]:
    """The sum of two states, in `a`."""
    for x, y in zip(a, b, strict=True):
        largest = np.maximum(x["largest"], y["largest"])
        add_sums(x, y)
        x["largest"] = largest
    return a


def _step(
    columns: ScaledColumns,
    requests: tuple[BoostRequest, ...],
    models: tuple[int, ...],
    state: list[BoostSums],
    chunk: Chunk,
) -> list[BoostSums]:
    n = min(BLOCK, chunk.n_rows)
    ones = np.ones(n)
    margins = chunk.state[MARGIN]
    most = span_rows(requests[0].share)
    filling, found_rows = Filling(), BlockRows(n)
    turned = any(request.screens for request in requests) or requests[0].share > TURNED
    for span, X in blocks(chunk.X, most, turned):
        y, numbers, F, rows = chunk.target[span], chunk.rows[span], margins[span], flat_rows(X)
        runs = runs_for_tables(numbers, requests[0].share)
        filling.make_room(runs)
        found: dict[tuple[int, int], np.ndarray] = {}
        for request, k, sums in zip(requests, models, state, strict=True):
            key = request.halves.seed, len(request.halves.columns)
            if key not in found:
                found[key] = half_of(request.halves, rows, numbers)
            for start in range(0, len(X), BLOCK):
                stop = min(start + BLOCK, len(X))
                part, block = slice(start, stop), some_rows(rows, start, stop)
                f = add_learner(columns, request.add, block, np.ascontiguousarray(F[part, k]))
                if request.add is not None:
                    F[part, k] = f
                w = ones[: stop - start] if chunk.weight is None else chunk.weight[span][part]
                found_rows.weigh(request, sums, y[part], w, f, found[key][part])
                if request.trials:
                    found_rows.measure(columns, request, sums, block)
                inside = runs_within(runs, part)
                if request.trials and len(inside):
                    found_rows.fill(request, sums["tables"], inside, filling, start)
                if request.screens:
                    found_rows.screen(columns, request, sums["slopes"], X[part])
            filling.pour(sums["tables"], X, columns, request.chosen)
    return state


def _finish(
    columns: ScaledColumns, requests: tuple[BoostRequest, ...], state: list[BoostSums]
) -> list[BoostAnswer]:
    return [_answer(columns, request, sums) for request, sums in zip(requests, state, strict=True)]


def _answer(columns: ScaledColumns, request: BoostRequest, sums: BoostSums) -> BoostAnswer:
    searched = sums["sums"][:, 0]
    gain = costs = np.zeros(0)
    strength, moves = request.strength, tuple[Trial, ...]()
    if request.trials:
        noise = noise_of(searched[0], sums["squares"][0])
        charged = float(noise.sum()) if request.charged else 0.0
        gain = gain_of_bins(searched)
        costs = charge_of_bins(searched, charged) - gain
        if strength is None:
            rows = float((1.0 / np.where(noise > 0, noise, 1.0)).sum())
            weight = float(gain[0]) / request.tau
            strength = make_strength(weight, rows, len(columns.live), float(noise.sum()) / 4)
        first = request.trials[0]
        cells, coarse = cells_of(sums["tables"], columns, request.chosen, first, 1.0)
        cost_of = partial(score_bins, request.n_bins, charged / request.share)
        moves = score_moves(first.alpha, cells, coarse, cost_of, strength, request.penalty)
    measured = [Divided(part, sums["squares"]) for part in sums["sums"]]
    return BoostAnswer(
        costs,
        float(gain[0]) if request.trials else 0.0,
        strength or Strength(0.0, 0.0),
        measured,
        moves,
        sums["slopes"],
        sums["largest"],
        sums["margins"],
    )


def gain_of_bins(sums: np.ndarray) -> np.ndarray:
    """(k,) divergences of smoothed histograms; sums (k, B, 2)."""
    return divergence(smoothed(sums[..., 1]), smoothed(sums[..., 0]))


def score_bins(
    n_bins: int, noise: float, cells: Cells, at: np.ndarray, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Costs, ranges, and slopes by bin, of steps along the columns `at`, from their tables.

    `noise` is that of the rows in the table, which are fewer and so have more of it.
    """
    low, high = ranges(cells, at, shifts)
    sums = np.zeros((len(shifts), n_bins, 2))
    bins_of_cells(cells, at, shifts, low, high, sums)
    table = slopes(smoothed(sums[..., 0]), smoothed(sums[..., 1]))
    costs = charge_of_bins(sums, noise) - gain_of_bins(sums)
    return costs, low, high, table.reshape(len(shifts), -1)
