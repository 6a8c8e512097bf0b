"""The best decision stumps over all thresholds, by counts of residuals in bins (section 3.1).

The gradient G(t) of the stump 1[x <= t] is the sum of the residuals of rows with x <= t.  A read
sums residuals by bin, and cumulative sums give G at every edge.  Inside a bin |G|_1 can exceed the
mean of its two edges by at most half the sum of |R| there.  Bins where that could be more than at
the best edge are cut finer and counted again, until those that are left hold one value each.  So
the best stump is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from ...data.source import Chunk
from ...passes.fold import Fold, RowState
from ...passes.summary.counts.quantiles import quantiles
from ...passes.summary.summary import Summary
from ..design import TARGET
from ..reads import Reader
from .candidates import Choice
from .kernels import count_rows
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


def make_bins(columns: Sequence[int], edges: list[np.ndarray], dtype: np.dtype) -> Bins:
    sizes = [len(part) + 1 for part in edges]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    joined = np.concatenate([np.empty(0), *edges]).astype(dtype)
    return Bins(np.asarray(columns, np.intp), joined, first)


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


class _Column(NamedTuple):
    """The facts of one column's stumps from a count, an entry for each edge between values."""

    thresholds: np.ndarray
    """(edges,) threshold of each stump."""
    G: np.ndarray
    """(edges, K) gradients of the centred stumps."""
    q: np.ndarray
    """(edges,) share of the rows where the stump is 1."""
    low: np.ndarray
    """(bins,) least value in each bin that holds rows."""
    high: np.ndarray
    """(bins,) greatest value there."""
    bound: np.ndarray
    """(bins,) upper bound of |G|_1 inside the bin; 0 if it holds one value."""
    best: np.ndarray
    """(bins,) upper bound of the score there."""


class StumpSearch:
    """Finds the best stumps, and reads only the columns that may still hold one.

    Parameters
    ----------
    read : Reader
    edges : list of arrays
        The edges of each column's first bins.
    block : int
        Number of columns counted in one read.
    rule, bound : as in `scoring.ListSearch`
    """

    def __init__(
        self, read: Reader, edges: list[np.ndarray], residual: RowState, dtype: np.dtype, *,
        block: int, rule: str, bound: Bound,
    ) -> None:  # fmt: skip
        self._read, self._edges, self._residual, self._dtype = read, edges, residual, dtype
        self._block, self._rule, self._bound = block, rule, bound
        self._closed: set[Choice] = set()
        self.usable = [j for j, part in enumerate(edges) if len(part)]

    @property
    def n_open(self) -> int:
        return sum(len(part) for part in self._edges)

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
        edges = {j: self._edges[j] for j in self.usable}
        found: dict[int, _Column] = {}
        pending = edges
        while pending:
            found |= self._count(pending)
            best = max((self._scores(c).max(initial=0.0) for c in found.values()), default=0.0)
            pending = {}
            for j, column in found.items():
                open_bins = np.flatnonzero(column.best > best * (1 + ROUNDING))
                if len(open_bins):
                    cuts = [self._cut(column.low[b], column.high[b]) for b in open_bins]
                    edges[j] = pending[j] = np.unique(np.concatenate([edges[j], *cuts]))
        return self._shortlist(found, n)

    def _cut(self, low: np.floating, high: np.floating) -> np.ndarray:
        """Edges that cut a bin from `low` to `high` into `CUTS` bins."""
        cuts = low + (float(high) - float(low)) * np.arange(CUTS) / CUTS
        cuts = np.unique(cuts.astype(self._dtype))
        return cuts[(cuts >= low) & (cuts < high)]

    def _count(self, edges: dict[int, np.ndarray]) -> dict[int, _Column]:
        found = {}
        columns = sorted(edges)
        for a in range(0, len(columns), self._block):
            part = columns[a : a + self._block]
            bins = make_bins(part, [edges[j] for j in part], self._dtype)
            counts = self._read(counts_fold(bins, self._residual), part, "stumps")
            for k, j in enumerate(part):
                cut = slice(bins.first[k], bins.first[k + 1])
                found[j] = self._column({key: value[cut] for key, value in counts.items()})
        return found

    def _column(self, counts: State) -> _Column:
        filled = counts["sums"][:, -2] > 0
        sums = counts["sums"][filled]
        low, high = counts["low"][filled], counts["high"][filled]
        K = sums.shape[1] - 2
        running = np.cumsum(sums, axis=0)
        total = running[-1, :K]
        q = running[:, K] / running[-1, K]
        G = running[:, :K] - np.outer(q, total)
        l1 = np.abs(G).sum(axis=1)
        l1[-1] = 0.0
        left = np.concatenate([[0.0], l1[:-1]])
        q_left = np.concatenate([[0.0], q[:-1]])
        moved = sums[:, -1] + (q - q_left) * np.abs(total).sum()
        # a residual is at most twice its row's share: few rows on one side move little
        fewest = np.where((q_left <= 0.5) & (q >= 0.5), 0.5, np.minimum(q, 1 - q_left))
        few = 2 * fewest + np.abs(total).sum()
        bound = np.minimum((left + l1 + moved) / 2, few)
        if self._rule == "l1":
            best = bound
        else:
            spread = self._bound(np.minimum(q_left * (1 - q_left), q * (1 - q)))
            with np.errstate(divide="ignore"):
                best = np.minimum(
                    bound / np.sqrt(np.maximum(spread, 0.0)),
                    few / np.sqrt(fewest * (1 - fewest)),
                )
        several = low < high
        return _Column(high[:-1], G[:-1], q[:-1], low, high, bound * several, best * several)

    def _scores(self, column: _Column) -> np.ndarray:
        l1 = np.abs(column.G).sum(axis=1)
        if self._rule == "l1":
            return l1
        return l1 / np.sqrt(self._bound(np.maximum(column.q * (1 - column.q), 1e-300)))

    def _shortlist(self, found: dict[int, _Column], n: int) -> Shortlist:
        rows = []
        for j, column in found.items():
            score = self._scores(column)
            for e in _peaks(score):
                choice = (j, float(column.thresholds[e]))
                if choice not in self._closed and score[e] > 0:
                    rows.append((-score[e], j, int(e), choice))
        rows.sort()
        rows = rows[:n]
        largest = 0.0
        for column in found.values():
            l1 = np.abs(column.G).sum(axis=1)
            largest = max(largest, l1.max(initial=0.0), column.bound.max(initial=0.0))
        steps, gains, variances = [], [], []
        for _, j, e, _ in rows:
            G, q = found[j].G[e], float(found[j].q[e])
            variance = np.array([q * (1 - q)])
            spread = float(self._bound(variance)[0])
            l1 = float(np.abs(G).sum())
            steps.append((0, -l1 / spread * np.sign(G), q))
            gains.append(l1**2 / (2 * spread))
            variances.append(variance)
        return Shortlist(
            [choice for *_, choice in rows],
            np.array([-row[0] for row in rows]),
            np.array(gains),
            steps,
            variances,
            float(largest),
        )


def _peaks(score: np.ndarray) -> np.ndarray:
    """Places where no neighbour is higher."""
    if not len(score):
        return np.empty(0, np.intp)
    padded = np.concatenate([[-np.inf], score, [-np.inf]])
    return np.flatnonzero((score >= padded[:-2]) & (score > padded[2:]))


def first_edges(summary: Summary, dtype: np.dtype) -> list[np.ndarray]:
    """Edges of each column's first bins: all its values if they are few, otherwise quantiles."""
    edges, facts = [], summary.columns
    values, ends = facts.present()
    for d, cdf in enumerate(facts.cdfs()):
        if facts.few[d]:
            edges.append(values[ends[d] : ends[d + 1]][:-1].astype(dtype))
        else:
            cuts = np.unique(quantiles(cdf, np.arange(1, N_BINS) / N_BINS).astype(dtype))
            edges.append(cuts[(cuts >= facts.min[d]) & (cuts < facts.max[d])])
    return edges
