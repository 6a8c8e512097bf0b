"""The loop of Algorithm 1: score, select and correct, then perhaps prune."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, NotRequired, Protocol, TypedDict, TypeVar

import numpy as np

from ..engine.run import Run
from ..passes.fold import RowState
from .correction import Solved, correct
from .curvature import choose_metric, values_ahead
from .design import BASE, Layout
from .objective import Penalty
from .path import PathPoint
from .reads import Reader, base_fold, copy_fold, fetch_fold, residual_fold, unlike, without_fold
from .selection.candidates import (
    Choice,
    Kind,
    Pieces,
    likeness,
    most_at_once,
    n_offered,
    stored_width,
    takes_first,
)
from .selection.scoring import Shortlist
from .side import Side

PRECISION = 0.01
"""Share of the round's gain that a step must promise for a correction to go on."""
FINAL = 0.1
"""Share of `tol` that a step must promise for the last correction to go on."""

Progress = TypeVar("Progress")


class Search(Protocol[Progress]):
    """Finds candidates: a `scoring.ListSearch`, `stumps.StumpSearch` or `pieces.PieceSearch`."""

    @property
    def n_open(self) -> int: ...
    def search(self, n: int) -> Shortlist: ...
    def moved(self, delta: float) -> None: ...
    def close(self, choice: Choice) -> None: ...
    def reopen(self, choice: Choice) -> None: ...
    def state(self) -> Progress: ...
    def restore(self, state: Progress) -> None: ...


class Settings(NamedTuple):
    """The estimator's parameters that the loop needs, and the size of the data."""

    n_selected: int
    rule: str
    columns_per_pass: int | str
    prune: bool
    tol: float
    """Decrease of the objective that one more candidate must promise."""
    n_rows: int
    """Number of physical rows."""
    total_weight: float


class Checkpoint(TypedDict, Generic[Progress]):
    """The state that `Training` commits after a round."""

    points: list[PathPoint]
    choices: list[Choice]
    theta: np.ndarray
    variance: NotRequired[np.ndarray]
    """(width,) variances of the features; absent before there was a penalty that needs them."""
    layout: Layout
    search: Progress
    n_rounds: int
    full_reads: float
    n_reads: tuple[int, int]
    """Reads of the wide data and of the side store."""
    gains: list[tuple[int, float]]
    base: RowState | None
    converged: bool


class Training(Generic[Progress]):
    """One run of the algorithm, which commits its state after each round."""

    def __init__(
        self,
        run: Run,
        read: Reader,
        side: Side,
        search: Search[Progress],
        kind: Kind,
        penalty: Penalty,
        settings: Settings,
        start: PathPoint,
    ) -> None:
        self._run, self._read, self._side = run, read, side
        self._search, self._kind, self._penalty, self._settings = search, kind, penalty, settings
        self.points = [start]
        self.choices: list[Choice] = []
        self.theta = start.theta
        self._variance = np.empty(0)  # of the features of theta
        self.reason = ""
        self.converged = True
        self._n_rounds = 0
        self._gain_at: dict[int, float] = {}
        self._base: RowState | None = None

    def run(self) -> None:
        """Select until there are enough, or until no candidate promises more than the tolerance."""
        committed = self._run.restore("shareboost")
        if committed is not None:
            self._resume(committed)
        wanted = self._settings.n_selected
        while True:
            n = self._how_many() if len(self.choices) < wanted else 0
            offered = n_offered(likeness(self._kind)[0], self._settings.rule, n)
            best = self._search.search(min(offered, max(self._search.n_open, 1)))
            self._note(best)
            if not n:
                self.reason = f"{wanted} selected"
                break
            if not best.choices or best.gains.max() <= self._settings.tol:
                self.reason = (
                    "no candidate is left"
                    if not best.choices
                    else f"no candidate promises more than {self._settings.tol:.2g}"
                )
                break
            self._round(best, n)
            if self._settings.prune:
                self._prune(n)
            self._commit()

    def _how_many(self) -> int:
        """Number to select in the next round."""
        n = len(self.choices)
        most = most_at_once(self._settings.columns_per_pass, self._settings.n_selected, n)
        return min(most, max(self._search.n_open, 1))

    def _round(self, best: Shortlist, n: int) -> None:
        """Fetch the shortlist, select from it, correct, and renew the residuals."""
        self._n_rounds += 1
        chosen = self._select(best, n)
        before = self.points[-1]
        self._extend(best, chosen)
        solved = self._correct(before.objective)
        size = len(self.choices)
        self._gain_at[size] = (before.objective - solved.value) / len(chosen)
        self._renew(solved)

    def _select(self, best: Shortlist, n: int) -> list[int]:
        """Places in the shortlist of those selected, whose features go to the side store."""
        kind = self._kind
        widths = [stored_width(kind, choice) for choice in best.choices]
        dtype = self._side.layout.stored
        needed = kind.needed(best.choices)
        first_only = takes_first(self._settings.rule, n)
        name = f"selected-{self._n_rounds}" if first_only else f"shortlist-{sum(widths)}"
        state = RowState(name, dtype, sum(widths))
        if isinstance(kind, Pieces) and self._base is None:
            self._base = RowState(BASE, self._side.layout.dtype, len(self._read.names))
            self._read(base_fold(self._base), needed, "base")
            states = (*self._side.layout.states, self._base._replace(writes=False))
            self._side.layout = self._side.layout._replace(states=states)
        fold = fetch_fold(kind, needed, best.choices, state, self._settings.total_weight)
        correlations = self._read(fold, needed, "fetch")
        if first_only:
            self._side.add(state, range(sum(widths)))
            return [0]
        order = list(range(len(widths)))
        if self._settings.rule == "lookahead":
            values = values_ahead(self._side, self.theta, self._penalty, state, best)
            order = np.argsort(values, kind="stable").tolist()
        if max(widths) == 1:
            order = [
                order[i] for i in unlike(correlations[np.ix_(order, order)], n, likeness(kind)[1])
            ]
        chosen = order[:n]
        first = np.concatenate([[0], np.cumsum(widths)])
        columns = [j for i in chosen for j in range(first[i], first[i + 1])]
        to = RowState(f"selected-{self._n_rounds}", dtype, len(columns))
        self._side.read(
            copy_fold(name, columns, to.name), [state._replace(writes=False), to], "copy"
        )
        self._side.add(to, range(len(columns)))
        return chosen

    def _extend(self, best: Shortlist, chosen: Sequence[int]) -> None:
        """Begin with the step of the best one, which is proved to gain, and 0 in the others."""
        lead = max(chosen, key=lambda i: best.gains[i])
        K, start = self.theta.shape
        for i in chosen:
            wide = self._kind.width(best.choices[i])
            part = np.zeros((K, wide))
            if i == lead:
                at, u, mean = best.steps[i]
                part[:, at] = u - u.mean()
                self.theta = self.theta.copy()
                self.theta[:, 0] -= mean * part[:, at]
            self.theta = np.concatenate([self.theta, part], axis=1)
            self._variance = np.concatenate([self._variance, best.variances[i]])
            self.choices.append(best.choices[i])
            self._search.close(best.choices[i])

    def _correct(self, before: float) -> Solved:
        settings = self._settings
        last = len(self.choices) >= settings.n_selected
        goal = FINAL * settings.tol
        metric = choose_metric(settings.n_rows, len(self.theta), self._side.layout)
        solved = correct(
            self._side.fold,
            self._side.layout,
            self.theta,
            self._penalty.of(self._variance),
            metric,
            goal if last else lambda value: max(goal, PRECISION * (before - value)),
        )
        self.theta, self.converged = solved.theta, solved.converged
        return solved

    def _renew(self, solved: Solved) -> None:
        """Write the residuals at the new point, and add the point to the path."""
        states = [RowState("residual", self._side.layout.dtype, len(self.theta))]
        fold = residual_fold(self._side.layout, self.theta)
        moved = self._side.read(fold, states, "residual")
        self._search.moved(moved)
        self.points.append(
            PathPoint(
                tuple(self.choices),
                self.theta,
                solved.loss,
                solved.value,
                float((solved.gradient * self.theta).sum()),
                largest=float(np.abs(solved.gradient[:, 1:]).sum(axis=0).max(initial=0.0)),
            )
        )

    def _note(self, best: Shortlist) -> None:
        """Add to the last point what the search has found out about it."""
        point = self.points[-1]
        promised = float(best.gains.max(initial=0.0))
        largest = np.fmax(point.largest, best.largest)
        self.points[-1] = point._replace(promised=promised, largest=float(largest))
        self._run.record(
            n=point.n,
            loss=point.loss,
            objective=point.objective,
            promised_gain=promised,
            full_reads=self._read.full_reads,
        )

    def _prune(self, n_new: int) -> None:
        """Take out what costs at most half of what the last selected one gained (FoBa)."""
        for _ in range(n_new):
            widths = [self._kind.width(choice) for choice in self.choices]
            ends = 1 + np.cumsum(widths)
            cuts = [(int(end) - wide, int(end)) for end, wide in zip(ends, widths, strict=True)]
            old = len(cuts) - n_new
            if old < 1:
                return
            losses = self._side.read(
                without_fold(self._side.layout, self.theta, cuts[:old]), (), "without"
            )
            values = [
                float(loss) + self._penalty_without(a, b)
                for loss, (a, b) in zip(losses, cuts[:old], strict=True)
            ]
            worst = int(np.argmin(values))
            before = self.points[-1]
            gain = self._gain_at.get(len(self.choices), 0.0)
            if values[worst] - before.objective > 0.5 * gain:
                return
            a, b = cuts[worst]
            self.theta = np.delete(self.theta, np.r_[a:b], axis=1)
            self._variance = np.delete(self._variance, np.r_[a - 1 : b - 1])
            dropped = self.choices.pop(worst)
            at = sum(stored_width(self._kind, choice) for choice in self.choices[:worst])
            for _ in range(stored_width(self._kind, dropped)):
                self._side.drop(at)
            self._search.reopen(dropped)
            self._renew(self._correct(values[worst] + gain))

    def _penalty_without(self, start: int, stop: int) -> float:
        """The penalty at theta without its columns [start, stop)."""
        W = np.delete(self.theta, np.r_[start:stop], axis=1)[:, 1:]
        penalty = self._penalty.of(np.delete(self._variance, np.r_[start - 1 : stop - 1]))
        return penalty.value(W)

    # The checkpoint.

    def _commit(self) -> None:
        state: Checkpoint[Progress] = {
            "points": self.points,
            "choices": self.choices,
            "theta": self.theta,
            "variance": self._variance,
            "layout": self._side.layout,
            "search": self._search.state(),
            "n_rounds": self._n_rounds,
            "full_reads": self._read.full_reads,
            "n_reads": (self._read.n_reads, self._side.n_reads),
            "gains": list(self._gain_at.items()),
            "base": self._base,
            "converged": self.converged,
        }
        self._run.commit("shareboost", state)

    def _resume(self, state: Checkpoint[Progress]) -> None:
        self.points, self.choices = state["points"], state["choices"]
        self.theta, self._side.layout = state["theta"], state["layout"]
        self._variance = state.get("variance", np.zeros(self.theta.shape[1] - 1))
        self._search.restore(state["search"])
        self._n_rounds = state["n_rounds"]
        n_wide, self._side.n_reads = state["n_reads"]
        self._read.resume(state["full_reads"], n_wide)
        self._gain_at = dict(state["gains"])
        self._base, self.converged = state["base"], state["converged"]
