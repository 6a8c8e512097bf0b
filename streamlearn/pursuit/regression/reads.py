"""The sums of a read for projection pursuit regression, and the answers made of them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from ...data.source import Chunk
from ...passes.fold import Fold
from ...passes.sums import add_sums
from ..columns import BLOCK, TURNED, blocks, project, span_rows
from ..kernels import Cells, ScaledColumns, spread
from ..search import Strength, Trial, make_strength, score_moves
from ..tables import Filling, add_slopes, cells_of, empty_tables, runs_for_tables, runs_within
from .smoothers import PSpline, search_gamma
from .supsmu import SuperSmoother


class Term(NamedTuple):
    """One ridge function f(alpha'z)."""

    alpha: np.ndarray
    """(M,) direction."""
    low: float
    high: float
    theta: np.ndarray
    """(n,) coefficients of its smoother's functions on [low, high]."""
    smoother: PSpline | SuperSmoother

    def add_values(self, t: np.ndarray, out: np.ndarray) -> None:
        """Add f(t) to `out`, in place."""
        self.smoother.add_values(t, self.low, self.high, self.theta, out)


class RidgeRequest(NamedTuple):
    """The request of one model to a read."""

    terms: tuple[Term, ...]
    intercept: float
    trials: tuple[Trial, ...]
    chosen: np.ndarray
    """Numbers of the columns with a table at the first trial."""
    strength: Strength | None
    """Strength of the penalty; None: this read gives it, with lambda_j = sum w r^2 / tau."""
    tau: float
    penalty: str
    smoother: PSpline | SuperSmoother
    screens: bool
    """Whether the slopes along all columns are requested."""
    share: float
    """Share of the rows that go into tables."""


class Measured(NamedTuple):
    """Sums of one trial."""

    band: np.ndarray
    """(n, c) diagonal of sum w Phi Phi' and those above it."""
    moment: np.ndarray
    """(n,) sum of w r Phi."""
    cross: list[np.ndarray]
    """(n_k, n) sums of w Phi_k Phi' with each term; only those of a read's first trial."""
    rr: float
    """Sum of w r^2."""
    n: float
    """Sum of w."""


class RidgeAnswer(NamedTuple):
    """The answer of a read to one model."""

    costs: np.ndarray
    """(trials,) costs without penalty."""
    scale: float
    """Sum of w r^2, of which `tol` is a share."""
    strength: Strength
    measured: list[Measured]
    moves: tuple[Trial, ...]
    """Steps that the tables promise, the best first."""
    slopes: np.ndarray
    """(M,) slopes of the cost along each column, up to a factor; empty if not requested."""


class RidgeSums(TypedDict):
    """The sums of one request."""

    rr: float
    n: float
    table: np.ndarray
    """(2,) sums of w r^2 and of w over the rows in tables."""
    band: np.ndarray
    moment: np.ndarray
    cross: list[np.ndarray]
    tables: dict[str, np.ndarray]
    slopes: np.ndarray


def ridge_fold(
    columns: ScaledColumns, requests: tuple[RidgeRequest, ...]
) -> Fold[list[RidgeSums], list[RidgeAnswer]]:
    """Fold of the exact cost of each model's trials, and of the steps its tables promise.

    A state takes 64 KiB for each chosen column, and 8 (n + 8) n bytes for each trial and term.
    """
    return Fold(
        partial(_start, requests),
        partial(_step, columns, requests),
        add_sums,
        partial(_finish, columns, requests),
    )


def _start(requests: tuple[RidgeRequest, ...]) -> list[RidgeSums]:
    return [
        {
            "rr": 0.0,
            "n": 0.0,
            "table": np.zeros(2),
            "band": np.zeros((len(request.trials), n, request.smoother.band)),
            "moment": np.zeros((len(request.trials), n)),
            "cross": [np.zeros((len(term.theta), n)) for term in request.terms],
            "tables": empty_tables(len(request.chosen)),
            "slopes": np.zeros(len(request.trials[0].alpha) if request.screens else 0),
        }
        for request in requests
        for n in (request.smoother.n_bases,)
    ]


def _step(
    columns: ScaledColumns, requests: tuple[RidgeRequest, ...], state: list[RidgeSums], chunk: Chunk
) -> list[RidgeSums]:
    ones = np.ones(min(BLOCK, chunk.n_rows))
    most = span_rows(requests[0].share)
    filling = Filling()
    turned = any(request.screens for request in requests) or requests[0].share > TURNED
    for span, X in blocks(chunk.X, most, turned):
        y, runs = chunk.target[span], runs_for_tables(chunk.rows[span], requests[0].share)
        filling.make_room(runs)
        for request, sums in zip(requests, state, strict=True):
            for part, block in blocks(X, turned=turned):
                w = ones[: len(block)] if chunk.weight is None else chunk.weight[span][part]
                inside = runs_within(runs, part)
                rows = Rows(block, y[part], w, inside, part.start)
                _add_block(columns, request, sums, rows, filling)
            filling.pour(sums["tables"], X, columns, request.chosen)
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
    columns: ScaledColumns, request: RidgeRequest, sums: RidgeSums, rows: Rows, filling: Filling
) -> None:
    X, y, w, runs, start = rows
    r = y - request.intercept
    places = [project(X, columns, term.alpha) for term in request.terms]
    if request.terms:
        fitted = np.zeros(len(r))
        for term, t in zip(request.terms, places, strict=True):
            term.add_values(t, fitted)
        r -= fitted
    wr = w * r
    sums["rr"] += float(wr @ r)
    sums["n"] += float(w.sum())
    for k, trial in enumerate(request.trials):
        t = project(X, columns, trial.alpha)
        place = (t, trial.low, trial.high)
        request.smoother.add_rows(*place, w, wr, sums["band"][k], sums["moment"][k])
        if k == 0:
            for term, old, cross in zip(request.terms, places, sums["cross"], strict=True):
                request.smoother.add_cross(old, term.low, term.high, *place, w, cross)
            for a, b in runs.tolist():
                sums["table"] += wr[a:b] @ r[a:b], w[a:b].sum()
            if len(runs):
                filling.add(sums["tables"], trial, t, (w, wr), w, runs, start)
            if request.screens:
                add_slopes(
                    sums["slopes"], X, columns, row_slopes(t, r, trial, request.smoother) * w
                )


def row_slopes(
    t: np.ndarray, r: np.ndarray, trial: Trial, smoother: PSpline | SuperSmoother
) -> np.ndarray:
    """(m,) values (r - f) f'(t), whose sum with z_m is the envelope slope of the cost.

    f is the table's fit.
    """
    h = smoother.stride * (trial.high - trial.low)
    f, above, below = np.zeros(len(t)), np.zeros(len(t)), np.zeros(len(t))
    for at, out in ((t, f), (t + h, above), (t - h, below)):
        smoother.add_values(at, trial.low, trial.high, trial.theta, out)
    slopes: np.ndarray = (r - f) * (above - below)
    return slopes


def _finish(
    columns: ScaledColumns, requests: tuple[RidgeRequest, ...], state: list[RidgeSums]
) -> list[RidgeAnswer]:
    return [_answer(columns, request, sums) for request, sums in zip(requests, state, strict=True)]


def _answer(columns: ScaledColumns, request: RidgeRequest, sums: RidgeSums) -> RidgeAnswer:
    rr, n = sums["rr"], sums["n"]
    costs = request.smoother.fit(sums["band"], sums["moment"], rr, n, search_gamma(n)).cost
    strength = request.strength
    if strength is None:
        noise = float(costs[0]) / max(n, 1.0)
        strength = make_strength(rr / request.tau, n, len(columns.live), noise)
    part_rr, part_n = sums["table"]
    scale = n / part_n if part_n > 0 else 1.0  # the rows in tables stand for all
    cells, coarse = cells_of(sums["tables"], columns, request.chosen, request.trials[0], scale)
    cost_of = partial(score_steps, request.smoother, scale * part_rr, n)
    return RidgeAnswer(
        costs,
        rr,
        strength,
        [
            Measured(sums["band"][k], sums["moment"][k], sums["cross"] if k == 0 else [], rr, n)
            for k in range(len(request.trials))
        ],
        score_moves(request.trials[0].alpha, cells, coarse, cost_of, strength, request.penalty),
        sums["slopes"],
    )


def score_steps(
    smoother: PSpline | SuperSmoother,
    rr: float,
    n: float,
    cells: Cells,
    at: np.ndarray,
    shifts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Costs, ranges and fits of steps along the columns `at`, from their tables."""
    low, high = ranges(cells, at, shifts)
    band = np.zeros((len(shifts), smoother.n_bases, smoother.band))
    moment = np.zeros((len(shifts), smoother.n_bases))
    smoother.add_cells(cells, at, shifts, low, high, band, moment)
    cost, theta = smoother.score(band, moment, rr, n, search_gamma(n))
    return cost, low, high, theta


def ranges(cells: Cells, at: np.ndarray, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The range of the cells' projections for each step, which is never empty."""
    low, high = np.empty(len(shifts)), np.empty(len(shifts))
    spread(cells, at, shifts, low, high)
    flat = ~(high - low > 1e-12 * np.maximum(np.abs(low), np.abs(high)))
    middle = np.where(flat & np.isfinite(low), low, 0.0)
    return np.where(flat, middle - 0.5, low), np.where(flat, middle + 0.5, high)
