"""Two-dimensional tables over (alpha'z, z_m): filled by a read, turned into cells to score."""

from __future__ import annotations

import numpy as np

from ..numeric.huge_pages import zeros
from ..numeric.rows.dense import flat_rows
from .kernels import (
    N_CELLS,
    RUN,
    Cells,
    ScaledColumns,
    add_tables,
    count_cells,
    dot_columns,
    occupied_cells,
    place_rows,
)
from .search import Trial

MOST_TABLES = 128
"""Largest number of tables in one state, of 64 KiB each, in huge pages."""
ALL_COLUMNS = 64
"""Largest number of columns that all have a table in every read."""
SCREENED = 32
"""Number of columns, those of steepest slope, that have a table in a read if there are more."""
NONE = np.empty(0)
TABLE_ROWS = 1 << 19
"""Number of rows, about, that go into tables, whose promises are measured on all rows anyway."""


def table_room(n_columns: int, n_models: int) -> int:
    """Number of columns with a table in one read, for each of the models trained together."""
    wanted = n_columns if n_columns <= ALL_COLUMNS else SCREENED
    return min(wanted, max(MOST_TABLES // n_models, 2))


def table_share(n_rows: int) -> float:
    """Share of the rows that go into tables."""
    return min(1.0, TABLE_ROWS / max(n_rows, 1))


def runs_for_tables(rows: range | np.ndarray, share: float) -> np.ndarray:
    """(k, 2) first row and row behind the last of runs that a hash draws for the tables."""
    n = len(rows)
    if share >= 1 or n == 0:
        starts = np.arange(0, n, RUN)
        return np.column_stack([starts, np.minimum(starts + RUN, n)])
    if isinstance(rows, range):
        number = np.arange(rows[0] // RUN, rows[-1] // RUN + 1)
        edges = np.clip(np.append(number, number[-1] + 1) * RUN - rows[0], 0, n)
    else:
        every = np.asarray(rows) // RUN
        edges = np.concatenate([[0], np.flatnonzero(np.diff(every)) + 1, [n]])
        number = every[edges[:-1]]
    h = number.astype(np.uint64)
    for shift, factor in ((30, 0x9E3779B97F4A7C15), (27, 0xBF58476D1CE4E5B9)):
        h = (h + np.uint64(0x7461626C)) * np.uint64(factor)
        h ^= h >> np.uint64(shift)
    return np.column_stack([edges[:-1], edges[1:]])[(h >> np.uint64(11)) < share * 2**53]


def runs_within(runs: np.ndarray, part: slice) -> np.ndarray:
    """The parts of runs that lie in a block, counted from its first row."""
    if not len(runs):
        return runs
    inside = np.minimum(np.maximum(runs, part.start), part.stop)
    return inside[inside[:, 0] < inside[:, 1]] - part.start


def empty_tables(n_columns: int) -> dict[str, np.ndarray]:
    """Sums of a pair of numbers by cell, and of mass and projection by bin of the projection."""
    return {
        "cells": zeros((n_columns, N_CELLS, N_CELLS, 2), rounded=True),
        "places": np.zeros((N_CELLS, 2)),
    }


class Filling:
    """The rows of a span that go into the tables of one model, collected block by block.

    Then each column goes through them in one stretch, because a table takes 64 KiB and all tables
    together are larger than the cache.
    """

    def __init__(self) -> None:
        self._place, self._row, self._values = np.empty(0, np.int32), np.empty(0, np.int32), NONE
        self.clear()

    def make_room(self, runs: np.ndarray) -> None:
        """Have room for the rows of all `runs` of a span; room for all its rows would be larger."""
        n = int((runs[:, 1] - runs[:, 0]).sum())
        if len(self._place) < n:
            self._place, self._row = np.empty(n, np.int32), np.empty(n, np.int32)
            self._values = np.empty(2 * n)

    def clear(self) -> None:
        """Forget all rows."""
        self._n = 0
        self._runs: list[np.ndarray] = []
        self._first: list[np.ndarray] = []

    def add(
        self,
        state: dict[str, np.ndarray],
        trial: Trial,
        t: np.ndarray,
        sums: tuple[np.ndarray, np.ndarray],
        mass: np.ndarray,
        runs: np.ndarray,
        start: int,
    ) -> None:
        """Add the rows of `runs` of a block that begins at `start`.

        `t` (m,) is the projection, `sums` are two numbers of each row, and `mass` (m,) weighs the
        mean of `t` in a bin; rows without mass have no place in a table.
        """
        n, first = self._n, np.empty(len(runs) + 1, np.int64)
        scale = N_CELLS / (trial.high - trial.low)
        self._n += place_rows(
            t,
            *sums,
            mass,
            runs,
            trial.low,
            scale,
            self._place[n:],
            self._row[n:],
            self._values[2 * n :],
            first,
            state["places"],
        )
        self._runs.append(runs + start)
        self._first.append(first[:-1] + n)

    def pour(
        self,
        state: dict[str, np.ndarray],
        X: np.ndarray,
        columns: ScaledColumns,
        chosen: np.ndarray,
    ) -> None:
        """Add the collected rows of a span to the chosen columns' tables, and forget them."""
        if self._n:
            runs = np.concatenate(self._runs)
            if X.flags.c_contiguous:  # row-major: the drawn rows are made column-major
                X = np.asfortranarray(np.concatenate([X[a:b] for a, b in runs.tolist()]))
                ends = np.cumsum(runs[:, 1] - runs[:, 0])
                runs = np.column_stack([ends - (runs[:, 1] - runs[:, 0]), ends])
            first = np.concatenate([*self._first, [self._n]])
            placed = first, self._place, self._row, self._values
            add_tables(flat_rows(X), chosen, columns, runs, *placed, state["cells"])
        self.clear()


def cells_of(
    state: dict[str, np.ndarray],
    columns: ScaledColumns,
    chosen: np.ndarray,
    trial: Trial,
    scale: float,
) -> tuple[Cells, Cells]:
    """The occupied cells of the columns' tables times `scale`, and cells for coarse steps.

    A cell lies at the means of its bins.  Where most are occupied, four make a coarse one; columns
    of such tables come last.
    """
    reach = (columns.high[chosen] - columns.low[chosen]) / columns.scale[chosen]
    reach = np.column_stack([np.full(len(chosen), trial.high - trial.low), reach]) / (2 * N_CELLS)
    tables, z = state["cells"], columns.means[chosen]
    cells = _occupied(chosen, _places(state["places"], trial), z, tables, scale, reach)
    many = np.diff(cells.ends) > N_CELLS**2 // 4
    if not many.any():
        return cells, cells
    s = _places(state["places"].reshape(N_CELLS // 2, 2, 2).sum(1), trial)
    twos = tables[many, ::2] + tables[many, 1::2]
    fours = twos[:, :, ::2] + twos[:, :, 1::2]
    z = z[many].reshape(len(fours), -1, 2).mean(2)
    return cells, _joined(
        _some(cells, ~many), _occupied(chosen[many], s, z, fours, scale, 2 * reach[many])
    )


def _places(places: np.ndarray, trial: Trial) -> np.ndarray:
    """The mean projection of each bin along a table's first side; the middle of an empty bin."""
    n = len(places)
    middle = trial.low + (trial.high - trial.low) / n * (np.arange(n) + 0.5)
    mass, place = places.T
    return np.where(mass > 0, place / np.maximum(mass, 1e-300), middle)


def _occupied(
    chosen: np.ndarray,
    s: np.ndarray,
    z: np.ndarray,
    tables: np.ndarray,
    scale: float,
    reach: np.ndarray,
) -> Cells:
    ends = np.empty(len(tables) + 1, np.intp)
    count_cells(tables, ends)
    n = ends[-1]
    cells = Cells(chosen, ends, np.empty(n), np.empty(n), np.empty((n, 2)), reach)
    occupied_cells(tables, s, z, scale, cells.s, cells.z, cells.pair)
    return cells


def _some(cells: Cells, kept: np.ndarray) -> Cells:
    """The cells of the columns that are kept (c,)."""
    sizes = np.diff(cells.ends)
    own = np.repeat(kept, sizes)
    ends = np.append(0, np.cumsum(sizes[kept]))
    return Cells(
        cells.columns[kept], ends, cells.s[own], cells.z[own], cells.pair[own], cells.reach[kept]
    )


def _joined(a: Cells, b: Cells) -> Cells:
    """The cells of all columns of both."""
    both = [np.concatenate(pair) for pair in zip(a, b, strict=True)]
    both[1] = np.append(a.ends, a.ends[-1] + b.ends[1:])
    return Cells(*both)


def add_slopes(slopes: np.ndarray, X: np.ndarray, columns: ScaledColumns, q: np.ndarray) -> None:
    """Add the sum of q z_m to `slopes` (M,), for every column m, in place."""
    dot_columns(flat_rows(X), columns.live, columns, q, slopes)


def steepest(
    slopes: np.ndarray | None, alpha: np.ndarray, live: np.ndarray, room: int
) -> np.ndarray:
    """Numbers of the columns with the next tables: those in use, then those of steepest cost."""
    if len(live) <= room:
        return live
    size = np.abs(slopes) if slopes is not None else np.zeros(len(alpha))
    used = np.flatnonzero(alpha)
    if len(used) and slopes is not None:
        # the cost does not change along alpha itself, so that part of the slope says nothing
        size = np.abs(slopes - alpha * (slopes @ alpha) / (alpha @ alpha))
    order = np.lexsort((live, -size[live], alpha[live] == 0))
    return np.sort(live[order[:room]])
