"""The best decision stumps over all thresholds, by counts of residuals in bins (section 3.1).

The gradient G(t) of the stump 1[x <= t] is the sum of the residuals of rows with x <= t.  A read
sums residuals by bin, and cumulative sums give G at every edge.  Inside a bin |G|_1 can exceed the
mean of its two edges by at most half the sum of |R| there.  Bins where that could be more than at
the best edge are cut finer and counted again, until those that are left hold one value each.  So
the best stump is exact.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from ...data.source import Chunk
from ...passes.fold import Fold, RowState
from ...passes.summary.counts.quantiles import quantiles_of_all
from ...passes.summary.summary import Summary
from ..design import TARGET
from ..reads import Reader
from .candidates import Choice
from .kernels import count_rows, running_sums
from .scoring import Bound, Shortlist

N_BINS = 64
"""Bins of a column at first, if its values are many."""
MOST_BINS = 256
"""Bins of a column at first, at most: one for each value, if they are few."""
CUTS = 64
"""Bins that a bin is cut into."""
ROUNDING = 1e-9
"""Relative rounding of a bound; a bin that promises no more than this above the best is not cut."""

State = dict[str, np.ndarray]


class Progress(TypedDict):
    """The part of a `StumpSearch` that a checkpoint stores."""

    closed: list[Choice]


class Bins(NamedTuple):
    """The bins of some columns."""

    columns: np.ndarray
    """(columns,) numbers of the columns, intp."""
    edges: np.ndarray
    """(edges,) edges in the dtype of the rows, column by column, ascending in each."""
    first: np.ndarray
    """(columns + 1,) number of bins before each column; a column has one edge fewer than bins."""


class Edges(NamedTuple):
    """Edges of columns, ascending by column and then by value, each one once."""

    column: np.ndarray
    """(edges,) number of the column of each, intp."""
    value: np.ndarray
    """(edges,) in the dtype of the rows."""

    def bins(self, columns: np.ndarray) -> Bins:
        """The bins of some ascending columns, each of which has edges."""
        first, stop = (np.searchsorted(self.column, columns, side) for side in ("left", "right"))
        own = np.isin(self.column, columns)
        before = np.concatenate([[0], np.cumsum(stop - first + 1)])
        return Bins(columns.astype(np.intp), self.value[own], before.astype(np.intp))

    def and_more(self, more: Edges) -> Edges:
        """Edges of both, in order."""
        return make_edges(*map(np.concatenate, zip(self, more, strict=True)))


def make_edges(column: np.ndarray, value: np.ndarray) -> Edges:
    """Edges in order, those that are equal in a column taken once."""
    order = np.lexsort((value, column))
    column, value = column[order], value[order]
    new = np.ones(len(value), bool)
    new[1:] = (value[1:] > value[:-1]) | (column[1:] > column[:-1])
    return Edges(column[new].astype(np.intp), value[new])


def counts_fold(bins: Bins, residual: RowState) -> Fold[State, State]:
    """Fold of sums (n_bins, K + 2), of residuals, shares and |residuals|, and of extremes."""
    return Fold(
        partial(_start, bins, residual.width), partial(_step, bins), _merge, rows=(residual, TARGET)
    )


def _start(bins: Bins, n_classes: int) -> State:
    n = int(bins.first[-1])
    return {
        "sums": np.zeros((n, n_classes + 2)),
        "low": np.full(n, np.inf, bins.edges.dtype),
        "high": np.full(n, -np.inf, bins.edges.dtype),
    }


def _step(bins: Bins, state: State, chunk: Chunk) -> State:
    R = chunk.state["residual"].astype(np.float64)
    share = np.ascontiguousarray(chunk.state[TARGET.name][:, 1])
    X = np.asfortranarray(chunk.dense)
    count_rows(X, bins.edges, bins.first, R, share, state["sums"], state["low"], state["high"])
    return state


def _merge(a: State, b: State) -> State:
    a["sums"] += b["sums"]
    np.minimum(a["low"], b["low"], out=a["low"])
    np.maximum(a["high"], b["high"], out=a["high"])
    return a


class Counted(NamedTuple):
    """The facts of columns' bins that hold rows, from a count, column by column.

    The stump of a bin is 1 up to the bin's greatest value; a column's last bin has none.
    """

    column: np.ndarray
    """(bins,) number of the column."""
    low: np.ndarray
    """(bins,) least value."""
    high: np.ndarray
    """(bins,) greatest value."""
    G: np.ndarray
    """(bins, K) gradients of the centred stumps."""
    q: np.ndarray
    """(bins,) share of the rows where the stump is 1."""
    l1: np.ndarray
    """(bins,) |G|_1; 0 if there is no stump."""
    score: np.ndarray
    """(bins,) what the rule compares; -inf if there is no stump."""
    best: np.ndarray
    """(bins,) upper bound of the score there; 0 if it holds one value."""
    is_peak: np.ndarray
    """(bins,) whether there is a stump that promises something, and no neighbour more."""

    def some(self, which: np.ndarray) -> Counted:
        """Facts of these bins alone."""
        return Counted(*(fact[which] for fact in self))

    def beside(self, other: Counted) -> Counted:
        """Facts of these bins and of those of other columns, in the order of the columns."""
        every = Counted(*map(np.concatenate, zip(self, other, strict=True)))
        return every.some(np.argsort(every.column, kind="stable"))

    def peaks(self, n: int) -> np.ndarray:
        """Places of the n best peaks, the best first."""
        places = np.flatnonzero(self.is_peak)
        return places[np.argsort(-self.score[places], kind="stable")[:n]]

    def open(self) -> np.ndarray:
        """(bins,) whether a bin could hold a better stump than all that are known."""
        is_open: np.ndarray = self.best > self.score.max(initial=0.0) * (1 + ROUNDING)
        return is_open


def no_bins(n_classes: int, dtype: np.dtype) -> Counted:
    """The facts of no bins at all."""
    values, numbers = np.empty(0, dtype), np.empty(0)
    G, column = np.empty((0, n_classes)), np.empty(0, np.intp)
    return Counted(column, values, values, G, *(numbers,) * 4, np.empty(0, bool))


class StumpSearch:
    """Finds the best stumps, and reads only the columns that may still hold one.

    Parameters
    ----------
    read : Reader
    edges : Edges
        The edges of the first bins; a column without any is constant.
    block : int
        Number of columns counted in one read.
    rule, bound : as in `scoring.ListSearch`
    """

    def __init__(
        self, read: Reader, edges: Edges, residual: RowState, dtype: np.dtype, *,
        block: int, rule: str, bound: Bound,
    ) -> None:  # fmt: skip
        self._read, self._edges, self._residual, self._dtype = read, edges, residual, dtype
        self._block, self._rule, self._bound = block, rule, bound
        self._closed: set[Choice] = set()
        self.usable = np.unique(edges.column)

    @property
    def n_open(self) -> int:
        return len(self._edges.value)

    def state(self) -> Progress:
        return {"closed": sorted(self._closed)}

    def restore(self, state: Progress) -> None:
        self._closed = {tuple(choice) for choice in state["closed"]}

    def moved(self, delta: float) -> None:
        """Nothing is kept from one search to the next."""

    def close(self, choice: Choice) -> None:
        self._closed.add(choice)

    def reopen(self, choice: Choice) -> None:
        self._closed.discard(choice)

    def search(self, n: int) -> Shortlist:
        """The best stump, exactly, and others that are better than their neighbours."""
        edges, pending = self._edges, self.usable
        found, largest = no_bins(self._residual.width, self._dtype), np.zeros(len(self.usable))
        while len(pending):
            # what is counted anew takes the place of what was known
            found = found.some(~np.isin(found.column, pending))
            for a in range(0, len(pending), self._block):
                bins = edges.bins(pending[a : a + self._block])
                counts = self._read(counts_fold(bins, self._residual), bins.columns, "stumps")
                counted, most = self._facts(bins, counts)
                largest[np.searchsorted(self.usable, bins.columns)] = most
                found = self._of_use(found.beside(counted), n)
            opened = found.some(found.open())
            pending = np.unique(opened.column)
            edges = edges.and_more(self._cut(opened))
        return self._shortlist(found, n, float(largest.max(initial=0.0)))

    def _of_use(self, found: Counted, n: int) -> Counted:
        """The bins that are cut, or offered: so few that memory does not grow with the columns."""
        kept = found.open()
        kept[found.peaks(n + len(self._closed))] = True
        return found.some(kept)

    def _cut(self, bins: Counted) -> Edges:
        """Edges that cut each bin into `CUTS` bins."""
        low, high = bins.low[:, None], bins.high[:, None]
        width = high.astype(np.float64) - low
        cuts = (low + width * np.arange(CUTS) / CUTS).astype(self._dtype)
        inside = (cuts >= low) & (cuts < high)
        return Edges(np.repeat(bins.column, inside.sum(axis=1)), cuts[inside])

    def _facts(self, bins: Bins, counts: State) -> tuple[Counted, np.ndarray]:
        """The facts of a count, and the greatest |G|_1 that each column may have."""
        filled = counts["sums"][:, -2] > 0
        ends = np.concatenate([[0], np.cumsum(filled)])[bins.first].astype(np.intp)
        sums, low, high = (counts[name][filled] for name in ("sums", "low", "high"))
        own = np.repeat(np.arange(len(bins.columns)), np.diff(ends))
        K, first, last = sums.shape[1] - 2, ends[:-1], ends[1:] - 1
        running = sums.copy()
        running_sums(running, ends)
        total, moves = running[last, :K], np.abs(running[last, :K]).sum(axis=1)[own]
        q = running[:, K] / running[last, K][own]
        G = running[:, :K] - q[:, None] * total[own]
        l1 = np.abs(G).sum(axis=1)
        l1[last] = 0.0
        left, q_left = np.zeros(len(l1)), np.zeros(len(q))
        left[1:], q_left[1:] = l1[:-1], q[:-1]
        left[first] = q_left[first] = 0.0
        moved = sums[:, -1] + (q - q_left) * moves
        # a residual is at most twice its row's share: few rows on one side move little
        fewest = np.where((q_left <= 0.5) & (q >= 0.5), 0.5, np.minimum(q, 1 - q_left))
        few = 2 * fewest + moves
        bound = np.minimum((left + l1 + moved) / 2, few)
        if self._rule == "l1":
            best, score = bound, l1.copy()
        else:
            score = l1 / np.sqrt(self._bound(np.maximum(q * (1 - q), 1e-300)))
            spread = self._bound(np.minimum(q_left * (1 - q_left), q * (1 - q)))
            with np.errstate(divide="ignore"):
                best = np.minimum(
                    bound / np.sqrt(np.maximum(spread, 0.0)),
                    few / np.sqrt(fewest * (1 - fewest)),
                )
        score[last] = -np.inf
        several = low < high
        bound *= several
        counted = Counted(
            bins.columns[own], low, high, G, q, l1, score, best * several, peaks_of(score)
        )
        return counted, np.maximum.reduceat(np.maximum(l1, bound), first)

    def _shortlist(self, found: Counted, n: int, largest: float) -> Shortlist:
        taken: list[tuple[int, Choice]] = []
        for e in found.peaks(n + len(self._closed)).tolist():
            choice = (int(found.column[e]), float(found.high[e]))
            if choice not in self._closed and len(taken) < n:
                taken.append((e, choice))
        steps, gains, variances = [], [], []
        for e, _ in taken:
            q = float(found.q[e])
            variance = np.array([q * (1 - q)])
            spread = float(self._bound(variance)[0])
            l1 = float(found.l1[e])
            steps.append((0, -l1 / spread * np.sign(found.G[e]), q))
            gains.append(l1**2 / (2 * spread))
            variances.append(variance)
        return Shortlist(
            [choice for _, choice in taken],
            np.array([found.score[e] for e, _ in taken]),
            np.array(gains),
            steps,
            variances,
            largest,
        )


def peaks_of(score: np.ndarray) -> np.ndarray:
    """(bins,) whether a score is positive, and no neighbour higher; a column ends with -inf."""
    padded = np.concatenate([[-np.inf], score, [-np.inf]])
    higher: np.ndarray = (score >= padded[:-2]) & (score > padded[2:])
    return higher & (score > 0)


def first_edges(summary: Summary, dtype: np.dtype) -> Edges:
    """Edges of each column's first bins: all its values if they are few, otherwise quantiles."""
    facts = summary.columns
    values, ends = facts.present()
    own = np.repeat(np.arange(len(facts)), np.diff(ends))
    listed = facts.few[own]
    listed[ends[1:][ends[1:] > ends[:-1]] - 1] = False  # the greatest value has nothing above it
    columns, edges = [own[listed]], [values[listed].astype(dtype)]
    share = np.arange(1, N_BINS) / N_BINS
    for first, stop in facts.blocks():
        low, high = facts.min[first:stop, None], facts.max[first:stop, None]
        cuts = quantiles_of_all(*facts.pieces(first, stop), share).astype(dtype)
        inside = (cuts >= low) & (cuts < high) & ~facts.few[first:stop, None]
        columns.append(first + np.repeat(np.arange(stop - first), inside.sum(axis=1)))
        edges.append(cuts[inside])
    return make_edges(np.concatenate(columns), np.concatenate(edges))
