"""The read that screens all pairs of columns, of a share of the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.order import row_share
from ...data.source import Chunk, Csr
from ...numeric.bases.bsplines import Bases, nodes_of
from ...numeric.bases.pairs import MOST_NODES, N_NODES
from ...numeric.bases.registry import LEVELS
from ...numeric.losses import Loss, SquaredError, SquaredHinge
from ...numeric.targets import CLASS
from ...passes.fold import Fold
from ...passes.sums import add_sums
from ..basis.kernels import NONE, coordinates_rows, present
from ..basis.kernels_csr import dense_coordinates
from ..basis.kernels_loss import curvatures, row_losses
from ..newton.sampled import SampleObjective
from ..objective import Problem, decisions
from ..pairs import SCREENED_FUNCTIONS
from .kernels_bins import add_tables, code_rows
from .scores import LEVEL, Scores, best_pairs, p_values, score_pairs

N_BINS, MOST_LEVELS = 8, 16
"""Bins of a column of numbers, beside that of missing values, and of categories."""
BEYOND_BINS = 0.1
"""Share of what a table of bins has that lines may have beside it: of a product 1/32 with 8 bins a
column."""
TABLES_NBYTES = 16 << 20
"""Largest tables of a lane; of more columns, those of the largest main effects are screened."""
LEAST_ROWS, MOST_ROWS = 50_000, 1_000_000
"""Fewest and most rows that are added up; chosen so that a planted product is found."""
TABLES_PER_VALUE = 2.0
"""Cells that are added to for each value of the table: about as much work as two gradients."""


class Layout(NamedTuple):
    """Columns in bins, and where the tables of their pairs lie."""

    columns: np.ndarray
    """(q,) intp numbers of the columns."""
    bins: np.ndarray
    """(q, most) uint8 the bin of each breakpoint."""
    n_bins: np.ndarray
    """(q,) intp."""
    one: np.ndarray
    """(n_pairs,) intp the first column of each pair, by its place in `columns`, and"""
    other: np.ndarray
    """the second."""
    at: np.ndarray
    """(n_pairs + 1,) intp first cell of each pair."""

    @property
    def shape(self) -> np.ndarray:
        """(n_pairs, 2) rows and columns of each table."""
        return np.column_stack([self.n_bins[self.one], self.n_bins[self.other]])


Factor = Callable[[Chunk], np.ndarray | float | None]
"""The factor of the rows' weights that is of the loss alone, if there is one: no copies."""
State = tuple[np.ndarray, np.ndarray]
"""(K, cells, 2) slopes and curvatures of every cell; (K, 2) squared slopes and curvatures of all
rows."""


def smooth_loss(loss: Loss) -> Loss:
    """The loss whose slopes and curvatures tell of pairs: itself if it is smooth, or near it."""
    if loss.has("curvature"):
        return loss
    return SquaredHinge() if loss.target is CLASS else SquaredError()


def screening_problem(problem: Problem) -> Problem:
    """The problem of the main effects: smooth, and of one output at a time."""
    n_outputs = 1 if problem.levels else problem.n_outputs  # one smooth loss for all of them
    return problem._replace(
        loss=smooth_loss(problem.loss), single=False, joint=False, n_outputs=n_outputs, levels=()
    )


def main_effects(
    problem: Problem, sample: Chunk, share: float, n_threads: int, *, matrix_free: bool
) -> np.ndarray:
    """(K, dim + 1) the sample's optimum of main effects alone; no read."""
    rows = SampleObjective(problem, sample, share, matrix_free=matrix_free, n_threads=n_threads)
    zero = problem.by_problem(np.zeros((problem.n_outputs, problem.dim + 1)))
    return problem.by_output(rows.minimise(zero))


def make_layout(problem: Problem, theta: np.ndarray) -> Layout:
    """Bins of the columns that have a curve, those of the largest main effects if need be."""
    bases, c = problem.bases, problem.reference.c
    used = np.flatnonzero(np.diff(bases.first))
    sizes = np.zeros(len(used))
    for i, d in enumerate(used):
        own = slice(*bases.first[d : d + 2])
        w = theta[:, own]
        sizes[i] = (np.abs(w - (w @ c[own])[:, None]) * np.abs(c[own])).sum()
    used = used[np.argsort(-sizes, kind="stable")]
    binned = [_bins(bases, int(d), theta, c) for d in used]
    n_bins = np.array([int(bins.max(initial=0)) + 1 for bins in binned], np.intp)
    kept = _columns_that_fit(n_bins, problem.n_outputs)
    order = np.argsort(used[:kept], kind="stable")
    columns = used[:kept][order]
    one, other = np.triu_indices(len(columns), 1)
    functions = np.array([len(nodes_of(bases, int(d), N_NODES)) for d in columns], np.intp)
    small = functions[one] * functions[other] <= SCREENED_FUNCTIONS if len(one) else one > 0
    return _laid_out(columns, [binned[i] for i in order], one[small], other[small])


def layout_of(problem: Problem, theta: np.ndarray, pairs: np.ndarray, most: int) -> Layout:
    """The layout of `pairs` (m, 2) alone, with at most so many bins a column of numbers."""
    bases, c = problem.bases, problem.reference.c
    columns, places = np.unique(pairs, return_inverse=True)
    binned = [_bins(bases, int(d), theta, c, most) for d in columns]
    return _laid_out(columns, binned, *places.reshape(-1, 2).T)


def _laid_out(
    columns: np.ndarray, binned: list[np.ndarray], one: np.ndarray, other: np.ndarray
) -> Layout:
    """The layout of columns whose breakpoints have these bins."""
    most = max(map(len, binned), default=1)
    bins = np.zeros((len(columns), most), np.uint8)
    for own, given in zip(bins, binned, strict=True):
        own[: len(given)] = given
    n_bins = np.array([int(own.max(initial=0)) + 1 for own in binned], np.intp)
    one, other = one.astype(np.intp), other.astype(np.intp)
    at = np.concatenate([[0], np.cumsum(n_bins[one] * n_bins[other])]).astype(np.intp)
    return Layout(columns.astype(np.intp), bins, n_bins, one, other, at)


def _bins(bases: Bases, d: int, theta: np.ndarray, c: np.ndarray, most: int = N_BINS) -> np.ndarray:
    """(n_d,) the bin of each breakpoint: of equally many breakpoints, or of levels alike.

    Of numbers at most so many.
    """
    own = slice(*bases.first[d : d + 2])
    n, missing = own.stop - own.start, int(bases.has_missing[d])
    if bases.kind[d] != LEVELS:
        k = n - missing
        bins = np.arange(k) * min(most, k) // k
        return np.append(bins, bins.max() + 1) if missing else bins
    if n <= MOST_LEVELS:
        return np.arange(n)
    # levels of a like main effect share a bin, about as many rows in each
    order = np.argsort(theta[:, own].mean(axis=0), kind="stable")
    share = np.cumsum(c[own][order]) - 0.5 * c[own][order]
    bins = np.empty(n, np.intp)
    bins[order] = np.clip((share * MOST_LEVELS).astype(np.intp), 0, MOST_LEVELS - 1)
    return np.unique(bins, return_inverse=True)[1]


def _columns_that_fit(n_bins: np.ndarray, n_outputs: int) -> int:
    """Number of columns, in this order, whose tables take at most `TABLES_NBYTES` bytes."""
    cells = (np.cumsum(n_bins) ** 2 - np.cumsum(n_bins**2)) // 2
    return int((16 * n_outputs * cells <= TABLES_NBYTES).sum())


def tables_nbytes(n_columns: int, n_bins: int, n_outputs: int) -> int:
    """Largest number of bytes of the tables of so many columns with so many bins."""
    return min(8 * n_outputs * n_bins**2 * n_columns * (n_columns - 1), TABLES_NBYTES)


def screening_share(n_rows: int, n_columns: int) -> float:
    """The share of the rows that is added up: the work of a few gradients, whatever the pairs."""
    by_work = 2.0 * TABLES_PER_VALUE / max(n_columns - 1, 1)
    return min(1.0, max(by_work, LEAST_ROWS / max(n_rows, 1)), MOST_ROWS / max(n_rows, 1))


def screening_fold(
    problem: Problem,
    theta: np.ndarray,
    layout: Layout,
    most: int,
    share: float,
    seed: int,
    factor: Factor | None = None,
) -> Fold[State, np.ndarray]:
    """Fold: (m, 2) the pairs of columns, at most `most`, that promise most at `theta`.

    State 16 K bytes for each cell of `layout`.
    """
    return Fold(
        partial(empty_state, problem.n_outputs, int(layout.at[-1])),
        partial(_add_rows, problem, theta, layout, share, seed, factor),
        add_sums,
        partial(_choose, layout, most),
    )


def empty_state(n_outputs: int, n_cells: int) -> State:
    return np.zeros((n_outputs, n_cells, 2)), np.zeros((n_outputs, 2))


def _add_rows(
    problem: Problem,
    theta: np.ndarray,
    layout: Layout,
    share: float,
    seed: int,
    factor: Factor | None,
    state: State,
    chunk: Chunk,
) -> State:
    X, bases = present(chunk.X, problem.bases), problem.bases
    times = None if factor is None else factor(chunk)
    if isinstance(X, Csr):
        X, bases = dense_coordinates(X, bases), bases._replace(prepared=True)
    if share < 1.0:
        chosen = np.flatnonzero(row_share(chunk.rows, seed) < share)
        weight = None if chunk.weight is None else chunk.weight[chosen]
        times = times[chosen] if isinstance(times, np.ndarray) else times
        chunk = Chunk(X[chosen], chunk.target[chosen], weight, chunk.numbers[chosen])
    else:
        chunk = replace(chunk, X=X)
    if not chunk.n_rows:
        return state
    problem = problem._replace(bases=bases)
    tables, totals = state
    U = chunk.dense if bases.prepared else coordinates_rows(chunk.dense, bases)
    codes = np.empty((len(layout.columns), chunk.n_rows), np.uint8)
    code_rows(U, layout.columns, layout.bins, codes)
    F, y = decisions(problem, theta, chunk), problem.targets(chunk)
    for k in range(problem.n_outputs):
        own = np.where(y == k, 1.0, -1.0) if problem.n_outputs > 1 else np.asarray(y, np.float64)
        f = np.ascontiguousarray(F[:, k])
        g, h = row_losses(problem.loss, own, f, NONE)[1], curvatures(problem.loss, own, f)
        squares = g * g
        if chunk.weight is not None:  # a weight is so many copies of the row
            for values in (g, h, squares):
                values *= chunk.weight
        if times is not None:  # of one row, whose slope it multiplies
            squares *= times
        where = layout.one, layout.other, layout.at
        add_tables(codes, layout.n_bins, *where, g, h, tables[k])
        totals[k] += squares.sum(), h.sum()
    return state


def finer_gains(
    problem: Problem,
    theta: np.ndarray,
    pairs: np.ndarray,
    sample: Chunk,
    factor: Factor | None = None,
) -> np.ndarray:
    """(m,) how much more the sample promises each of the `pairs` (m, 2) if its tables are finer.

    At `theta` (K, dim + 1), the main effects: the excess of tables of `MOST_NODES` bins a column
    over that of `N_BINS` and of what lines between as many nodes follow beyond it; 0 where noise
    could give as much.
    """
    found = []
    for most in (MOST_NODES, N_BINS):
        layout = layout_of(problem, theta, pairs, most)
        state = empty_state(problem.n_outputs, int(layout.at[-1]))
        state = _add_rows(problem, theta, layout, 1.0, 0, factor, state, sample)
        found.append(_scores(layout, state))
    fine, coarse = found
    followed = 1.0 + BEYOND_BINS
    p = p_values(fine.statistic - followed * coarse.statistic, fine.freedom - coarse.freedom)
    gain = fine.excess - followed * coarse.excess
    gains: np.ndarray = np.where(p * len(pairs) < LEVEL, gain, 0.0)
    return gains


def _scores(layout: Layout, state: State) -> Scores:
    tables, totals = state
    curvature = totals[:, 1]
    dispersion = totals[:, 0] / np.where(curvature > 0, curvature, 1.0)
    return score_pairs(tables, layout.shape, layout.at, dispersion)


def _choose(layout: Layout, most: int, state: State) -> np.ndarray:
    chosen = best_pairs(_scores(layout, state), most)
    return np.column_stack(
        [layout.columns[layout.one[chosen]], layout.columns[layout.other[chosen]]]
    )
