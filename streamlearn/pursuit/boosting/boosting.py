"""Learners added one after the other to one class against the rest (Table 6)."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, cast

import numpy as np

from ...data.order import derive_seed
from ...data.source import Chunk
from ...numeric.rows.dense import flat_rows
from ...passes.summary.facts import ColumnFacts
from ..columns import bounds, dense_block, project, unit
from ..kernels import ScaledColumns
from ..search import Found, Strength, Trial, seek
from ..tables import add_slopes, steepest, table_room
from .histograms import (
    FLOOR,
    LATER,
    LEVEL,
    blurred,
    charge_of_bins,
    fit_logistic,
    learner,
    noise_of,
    significance,
    slopes,
    smoothed,
)
from .kernels import bins_of_columns
from .reads import BoostAnswer, gain_of_bins
from .rows import N_MARGINS, BoostRequest, Halves, Learner, add_learner, half_of, row_slopes

MISSES = 4
"""Number of searches without a significant learner, one after the other, that end boosting."""
HASHED = 8
"""Largest number of columns whose bits say which half a row belongs to."""


class BoostSettings(NamedTuple):
    """The settings of all models that are trained together."""

    columns: ScaledColumns
    hashed: np.ndarray
    """Numbers of the columns by which a row is halved; empty: the row's number halves it."""
    siblings: int
    """Neighbouring row numbers of one subject, whose rows are of one half."""
    n_learners: int
    n_bins: int
    shrinkage: float
    smooth: bool
    significance: bool
    penalty: str
    tol: float
    seed: int
    n_models: int
    share: float
    """Share of the rows that go into tables."""


class Boosted(NamedTuple):
    """A fitted model of one class against the rest."""

    label: int
    tau: float
    learners: tuple[Learner, ...]
    slope: float
    """Factor a of the margin F in P(class) = 1/(1 + exp(-(a F + b)))."""
    intercept: float
    """Summand b in it."""
    history: list[dict[str, object]]
    """One record for each round."""
    converged: bool

    def first(self, n: int) -> Boosted:
        """The model with the first n learners: that of a fit with n_learners=n."""
        if n >= len(self.learners):
            return self
        before = 0  # learners when the round of the record began
        for k, record in enumerate(self.history):
            if before == n and "slope" in record:
                return self._replace(
                    learners=self.learners[:n],
                    slope=cast("float", record["slope"]),
                    intercept=cast("float", record["intercept"]),
                    history=self.history[:k],
                )
            before = cast("int", record["learners"])
        raise ValueError(
            "this model was saved by a version that did not keep the curves of fewer learners; "
            "fit it again"
        )

    @property
    def last_cost(self) -> float:
        """Cost at the end of the last round."""
        costs = cast("list[float]", self.history[-1]["costs"])
        return costs[-1]


def hashed_columns(
    columns: ColumnFacts, live: np.ndarray, total: float, siblings: int
) -> np.ndarray:
    """Numbers of the columns that tell rows apart, at most 8, so that copies share a half.

    There are none where the columns have so few values that whole values would go to one half, nor
    where a subject has several rows, which must share one and differ in some columns.  Values are
    hashed as float32, which may hold few of a column's, as of times in seconds since 1970.
    """
    if siblings > 1:
        return np.empty(0, np.intp)
    distinct = np.where(columns.few, np.diff(columns.value_ends), np.inf)
    held = _float32_values(columns)
    distinct = np.where(held < total, np.minimum(distinct, held), distinct)[live]
    order = np.argsort(-distinct, kind="stable")[:HASHED]
    enough = len(order) and np.prod(distinct[order]) >= total
    return live[np.sort(order)] if enough else np.empty(0, np.intp)


def _float32_values(columns: ColumnFacts) -> np.ndarray:
    """(p,) at least 1: about how many float32 numbers lie in the range of each column."""
    largest = np.fmax(np.abs(columns.min), np.abs(columns.max))
    with np.errstate(over="ignore", invalid="ignore"):
        step = np.spacing(largest.astype(np.float32)).astype(np.float64)
        steps = (columns.max - columns.min) / step
    return np.fmax(steps, 1.0)  # of what overflows or is missing, 1


def boost(
    settings: BoostSettings, label: int, tau: float, sample: Chunk, counts: np.ndarray
) -> Generator[BoostRequest, BoostAnswer, Boosted]:
    """Boost one class against the rest; `counts` (2,) are the weights of the two.

    Each round searches on one half of the rows, drawn anew, and tests the outcome once on the other
    half, so the level is honest however long the search was.  The learner is fitted to all rows.
    """
    columns = settings.columns
    own = _SampleMargin(columns, label, sample)
    learners: list[Learner] = []
    history: list[dict[str, object]] = []
    add: Learner | None = None
    offset, reach = np.zeros(2), 0.0
    slope, intercept = fit_logistic(np.zeros(1), counts[None])
    misses, round_number, converged = 0, 0, False
    while len(learners) < settings.n_learners and len(columns.live):
        round_number += 1
        halves = Halves(
            derive_seed(settings.seed, round_number) if settings.significance else -1,
            settings.hashed,
            settings.siblings,
        )
        start, first_slopes = own.start(settings, halves, offset)
        requests_of = _Requests(settings, label, tau, add, halves, offset, reach)
        search: Generator[BoostRequest, BoostAnswer, Found[BoostAnswer]]
        search = seek(requests_of, (start,), first_slopes, settings.penalty, settings.tol)
        found = yield from search
        if add is not None:
            slope, intercept = curve_of(found.first.margins, reach)
            add = None
        offset = np.where(np.isfinite(found.first.largest), found.first.largest, 0.0)
        measured = found.answer.measured[found.place]
        sums = measured.sums
        every = sums.sum(0)
        shares = every / np.maximum(every.sum(0), np.finfo(float).tiny)
        h = blurred(smoothed(every.T)) if settings.smooth else np.maximum(shares.T, FLOOR)
        record: dict[str, object] = {
            "tau": tau,
            "label": label,
            "round": round_number,
            "learners": len(learners),
            "costs": found.costs,
            "n_reads": found.n_reads,
            "bhattacharyya": float(np.sqrt(shares[:, 0] * shares[:, 1]).sum()),
            "n_nonzero": int(np.count_nonzero(found.trial.alpha)),
            "slope": slope,
            "intercept": intercept,
        }
        history.append(record)
        if settings.significance:
            minus, plus = blurred(smoothed(sums[0].T))
            p = significance(sums[1], measured.squares[1], learner(plus, minus))
            record["p_value"] = p
            if p > (LATER if learners else LEVEL):
                misses += 1
                if misses == MISSES:
                    converged = True
                    break
                continue
            misses = 0
        heights = settings.shrinkage * learner(h[1], h[0])
        size = float(np.sqrt((0.5 * (h[0] + h[1]) * heights**2).sum()))
        trial = found.trial
        add = Learner(trial.alpha, trial.low, trial.high, heights, size)
        learners.append(add)
        record["learners"] = len(learners)
        most = float(np.abs(heights).max())
        offset, reach = offset + most, reach + most
        own.add(add)
    if add is not None:
        halves = Halves(-1, np.empty(0, np.intp))
        requests_of = _Requests(settings, label, tau, add, halves, offset, reach)
        answer = yield requests_of((), None, None)
        slope, intercept = curve_of(answer.margins, reach)
    done = converged or len(learners) == settings.n_learners or not len(columns.live)
    return Boosted(label, tau, tuple(learners), slope, intercept, history, done)


def curve_of(margins: np.ndarray | None, reach: float) -> tuple[float, float]:
    """Slope and intercept of the logistic curve of the margins, which are at most `reach`."""
    assert margins is not None  # a request that adds a learner is answered with them
    centers = reach * ((np.arange(N_MARGINS) + 0.5) * (2.0 / N_MARGINS) - 1.0)
    return fit_logistic(centers, margins)


class _Requests:
    """Makes the requests of one round; its first one brings the margins up to date."""

    def __init__(
        self,
        settings: BoostSettings,
        label: int,
        tau: float,
        add: Learner | None,
        halves: Halves,
        offset: np.ndarray,
        reach: float,
    ) -> None:
        self._settings, self._add = settings, add
        self._fixed = (label, tau, halves, offset, max(reach, 1.0))

    def __call__(
        self, trials: tuple[Trial, ...], strength: Strength | None, first_slopes: np.ndarray | None
    ) -> BoostRequest:
        settings, (label, tau, halves, offset, reach) = self._settings, self._fixed
        add, self._add = self._add, None
        live = settings.columns.live
        chosen = np.empty(0, np.intp)
        if trials:
            room = table_room(len(settings.columns.scale), settings.n_models)
            chosen = steepest(first_slopes, trials[0].alpha, live, room)
        screens = bool(trials) and len(chosen) < len(live)
        return BoostRequest(
            label,
            add,
            halves,
            trials,
            chosen,
            strength,
            tau,
            settings.penalty,
            settings.n_bins,
            settings.smooth,
            screens,
            settings.share,
            offset,
            reach,
        )


class _SampleMargin:
    """The sample's margins, from which a round's first column is guessed."""

    def __init__(self, columns: ScaledColumns, label: int, sample: Chunk) -> None:
        self.columns, self.rows = columns, sample.rows
        self.X = dense_block(sample.X, 0, sample.n_rows)
        self.plus = (sample.target == label).astype(np.int64)
        self.w = np.ones(len(self.X)) if sample.weight is None else sample.weight
        self.F = np.zeros(len(self.X))

    def add(self, new: Learner) -> None:
        add_learner(self.columns, new, flat_rows(self.X), self.F)

    def start(
        self, settings: BoostSettings, halves: Halves, offset: np.ndarray
    ) -> tuple[Trial, np.ndarray]:
        """The column whose histograms differ most on the searched half, and the slopes at it."""
        columns, live = self.columns, self.columns.live
        half = half_of(halves, flat_rows(self.X), self.rows)
        cost = np.where(self.plus == 1, -self.F, self.F) - offset[self.plus]
        v = self.w * np.exp(np.minimum(cost, 0.0)) * (half == 0)
        pair = np.zeros((len(v), 2))
        pair[np.arange(len(v)), self.plus] = v
        sums = np.zeros((len(live), settings.n_bins, 2))
        bins_of_columns(flat_rows(self.X), live, columns, pair, sums)
        noise = 0.0
        if settings.smooth:
            squares = np.bincount(self.plus, v**2 / np.where(self.w > 0, self.w, 1.0), 2)
            noise = float(noise_of(pair, squares).sum())
        best = int((charge_of_bins(sums, noise) - gain_of_bins(sums)).argmin())
        m = live[best]
        h = smoothed(sums[best].T)
        start = Trial(unit(columns, m), *bounds(columns, m), slopes(h[0], h[1]).ravel())
        along = np.zeros(len(columns.scale))
        t = project(self.X, columns, start.alpha)
        add_slopes(along, self.X, columns, row_slopes(t, pair, start))
        return start, along
