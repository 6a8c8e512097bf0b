"""What a read sums up for projection pursuit regression, and what is made of the sums."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...data.source import Chunk
from ...passes.fold import Fold
from ...passes.sums import add_sums
from ..columns import BLOCK, TURNED, blocks, project, span_rows
from ..kernels import ScaledColumns, spread
from ..search import Cells, Strength, Trial, make_strength, score_moves
from ..tables import Filling, add_slopes, cells_of, empty_tables, runs_for_tables, runs_within
from .smoothers import PSpline, search_gamma
from .supsmu import SuperSmoother


class Term(NamedTuple):
    """One ridge function f(alpha'z)."""

    alpha: np.ndarray
    """(M,)."""
    low: float
    high: float
    theta: np.ndarray
    """(n,) coefficients of its smoother's functions on [low, high]."""
    smoother: PSpline | SuperSmoother

    def add_values(self, t: np.ndarray, out: np.ndarray) -> None:
        """Add f(t) to `out`, in place."""
        self.smoother.add_values(t, self.low, self.high, self.theta, out)


class RidgeAsk(NamedTuple):
    """What one model wants of a read."""

    terms: tuple[Term, ...]
    intercept: float
    trials: tuple[Trial, ...]
    chosen: np.ndarray
    """Columns with a table at the first trial."""
    strength: Strength | None
    """None: made from this read, with lambda_j = sum w r^2 / tau."""
    tau: float
    penalty: str
    smoother: PSpline | SuperSmoother
    screens: bool
    """Whether slopes of all columns are wanted."""
    share: float
    """Of the rows, for tables."""


class Measured(NamedTuple):
    """Sums of one trial."""

    band: np.ndarray
    """(n, c) of sum w Phi Phi': its diagonal and those above."""
    moment: np.ndarray
    """(n,) sum w r Phi."""
    cross: list[np.ndarray]
    """(n_k, n) sum w Phi_k Phi' with each term of the model; of a read's first trial only."""
    rr: float
    n: float


class RidgeAnswer(NamedTuple):
    """What a read told one model."""

    costs: np.ndarray
    scale: float
    """sum w r^2."""
    strength: Strength
    measured: list[Measured]
    moves: tuple[Trial, ...]
    slopes: np.ndarray
    """(M,) slopes of the cost along each column, up to a factor; zeros if not screened."""


def ridge_fold(columns: ScaledColumns, asks: tuple[RidgeAsk, ...]) -> Fold[Any, list[RidgeAnswer]]:
    """Fold: the exact cost of each model's trials, and the steps its tables promise.

    State 64 KiB for each chosen column, 8 (n + 8) n bytes for each trial and term.
    """
    return Fold(
        partial(_start, asks),
        partial(_step, columns, asks),
        add_sums,
        partial(_finish, columns, asks),
    )


def _start(asks: tuple[RidgeAsk, ...]) -> list[dict[str, Any]]:
    return [
        {
            "rr": 0.0,
            "n": 0.0,
            "table": np.zeros(2),
            "band": np.zeros((len(ask.trials), n, ask.smoother.band)),
            "moment": np.zeros((len(ask.trials), n)),
            "cross": [np.zeros((len(term.theta), n)) for term in ask.terms],
            "tables": empty_tables(len(ask.chosen)),
            "slopes": np.zeros(len(ask.trials[0].alpha) if ask.screens else 0),
        }
        for ask in asks
        for n in (ask.smoother.n_bases,)
    ]


def _step(
    columns: ScaledColumns, asks: tuple[RidgeAsk, ...], state: list[dict[str, Any]], chunk: Chunk
) -> list[dict[str, Any]]:
    ones = np.ones(min(BLOCK, chunk.n_rows)) if chunk.weight is None else None
    most = span_rows(asks[0].share)
    filling = Filling()
    turned = any(ask.screens for ask in asks) or asks[0].share > TURNED
    for span, X in blocks(chunk.X, most, turned):
        y, runs = chunk.y[span], runs_for_tables(chunk.rows[span], asks[0].share)
        filling.make_room(runs)
        for ask, sums in zip(asks, state, strict=True):
            for part, block in blocks(X, turned=turned):
                w = chunk.weight[span][part] if ones is None else ones[: len(block)]
                inside = runs_within(runs, part)
                rows = Rows(block, y[part], w, inside, part.start)
                _add_block(columns, ask, sums, rows, filling)
            filling.pour(sums["tables"], X, columns, ask.chosen)
    return state


class Rows(NamedTuple):
    """A block of a chunk's rows."""

    X: np.ndarray
    """(m, p) features."""
    y: np.ndarray
    """(m,) targets."""
    weight: np.ndarray
    """(m,) weights."""
    runs: np.ndarray
    """(k, 2) first row, and row after the last, of the runs that the tables sum."""
    start: int
    """Place of the block's first row among those of which the tables take columns."""


def _add_block(
    columns: ScaledColumns, ask: RidgeAsk, sums: dict[str, Any], rows: Rows, filling: Filling
) -> None:
    X, y, w, runs, start = rows
    r = y - ask.intercept
    places = [project(X, columns, term.alpha) for term in ask.terms]
    if ask.terms:
        fitted = np.zeros(len(r))
        for term, t in zip(ask.terms, places, strict=True):
            term.add_values(t, fitted)
        r -= fitted
    wr = w * r
    sums["rr"] += float(wr @ r)
    sums["n"] += float(w.sum())
    for k, trial in enumerate(ask.trials):
        t = project(X, columns, trial.alpha)
        place = (t, trial.low, trial.high)
        ask.smoother.add_rows(*place, w, wr, sums["band"][k], sums["moment"][k])
        if k == 0:
            for term, old, cross in zip(ask.terms, places, sums["cross"], strict=True):
                ask.smoother.add_cross(old, term.low, term.high, *place, w, cross)
            for a, b in runs.tolist():
                sums["table"] += wr[a:b] @ r[a:b], w[a:b].sum()
            if len(runs):
                filling.add(sums["tables"], trial, t, (w, wr), w, runs, start)
            if ask.screens:
                add_slopes(sums["slopes"], X, columns, pull(t, r, trial, ask.smoother) * w)


def pull(t: np.ndarray, r: np.ndarray, trial: Trial, smoother: Any) -> np.ndarray:
    """(m,) (r - f) f'(t): with z_m, the envelope slope of the cost, f being the table's fit."""
    h = smoother.stride * (trial.high - trial.low)
    f, above, below = np.zeros(len(t)), np.zeros(len(t)), np.zeros(len(t))
    for at, out in ((t, f), (t + h, above), (t - h, below)):
        smoother.add_values(at, trial.low, trial.high, trial.theta, out)
    return (r - f) * (above - below)


def _finish(
    columns: ScaledColumns, asks: tuple[RidgeAsk, ...], state: list[dict[str, Any]]
) -> list[RidgeAnswer]:
    return [_answer(columns, ask, sums) for ask, sums in zip(asks, state, strict=True)]


def _answer(columns: ScaledColumns, ask: RidgeAsk, sums: dict[str, Any]) -> RidgeAnswer:
    rr, n = sums["rr"], sums["n"]
    costs = ask.smoother.fit(sums["band"], sums["moment"], rr, n, search_gamma(n)).cost
    strength = ask.strength
    if strength is None:
        noise = float(costs[0]) / max(n, 1.0)
        strength = make_strength(rr / ask.tau, n, len(columns.live), noise)
    part_rr, part_n = sums["table"]
    scale = n / part_n if part_n > 0 else 1.0  # the tables' rows stand for all
    cells = cells_of(sums["tables"], columns, ask.chosen, ask.trials[0], scale)
    cost_of = partial(score_steps, ask.smoother, scale * part_rr, n)
    return RidgeAnswer(
        costs,
        rr,
        strength,
        [
            Measured(sums["band"][k], sums["moment"][k], sums["cross"] if k == 0 else [], rr, n)
            for k in range(len(ask.trials))
        ],
        score_moves(ask.trials[0].alpha, cells, cost_of, strength, ask.penalty),
        sums["slopes"],
    )


def score_steps(
    smoother: Any, rr: float, n: float, cells: Cells, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cost, range and fit of steps along one column, from its table."""
    low, high = ranges(cells, shifts)
    band = np.zeros((len(shifts), smoother.n_bases, smoother.band))
    moment = np.zeros((len(shifts), smoother.n_bases))
    smoother.add_cells(cells, shifts, low, high, band, moment)
    cost, theta = smoother.score(band, moment, rr, n, search_gamma(n))
    return cost, low, high, theta


def ranges(cells: Cells, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the cells' projections lie for each step; never empty."""
    low, high = np.empty(len(shifts)), np.empty(len(shifts))
    spread(cells.s, cells.z, shifts, cells.reach, low, high)
    flat = ~(high - low > 1e-12 * np.maximum(np.abs(low), np.abs(high)))
    middle = np.where(flat & np.isfinite(low), low, 0.0)
    return np.where(flat, middle - 0.5, low), np.where(flat, middle + 0.5, high)
