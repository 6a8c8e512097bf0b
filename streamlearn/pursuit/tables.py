"""Two-dimensional tables over (alpha'z, z_m): filled by a read, turned into cells to score."""

from __future__ import annotations

from typing import Any

import numpy as np

from .columns import Columns
from .kernels import N_CELLS, add_table, dot_column
from .search import Cells, Trial

MOST_TABLES = 128
"""In one state; 64 KiB each."""
ALL_COLUMNS = 64
"""Up to so many columns each has a table in every read; of more, those of steepest slope."""
SCREENED = 32
TABLE_ROWS = 1 << 20
"""Of more rows, about so many go into tables: what these promise is measured on all rows anyway."""
RUN = 1024
"""Rows that follow each other go into tables together, or not."""


def table_room(n_columns: int, n_models: int) -> int:
    """Columns that have a table in one read, for each of the models trained together."""
    wanted = n_columns if n_columns <= ALL_COLUMNS else SCREENED
    return min(wanted, max(MOST_TABLES // n_models, 2))


def table_share(n_rows: int) -> float:
    """Share of the rows that go into tables."""
    return min(1.0, TABLE_ROWS / max(n_rows, 1))


def rows_for_tables(rows: Any, share: float) -> Any:
    """Places of the rows that go into tables: runs drawn by a hash of the row number."""
    if share >= 1:
        return slice(None)
    h = np.asarray(rows, dtype=np.uint64) // np.uint64(RUN)
    for shift, factor in ((30, 0x9E3779B97F4A7C15), (27, 0xBF58476D1CE4E5B9)):
        h = (h + np.uint64(0x7461626C)) * np.uint64(factor)
        h ^= h >> np.uint64(shift)
    return np.flatnonzero((h >> np.uint64(11)) < np.uint64(share * 2**53))


def empty_tables(n_columns: int) -> dict[str, np.ndarray]:
    """Sums of a pair of numbers by cell, and of the projection by its bin."""
    return {
        "cells": np.zeros((n_columns, N_CELLS, N_CELLS, 2)),
        "mass": np.zeros(N_CELLS),
        "place": np.zeros(N_CELLS),
    }


def add_tables(
    state: dict[str, np.ndarray],
    X: np.ndarray,
    columns: Columns,
    chosen: np.ndarray,
    trial: Trial,
    t: np.ndarray,
    pair: np.ndarray,
    mass: np.ndarray,
    use: Any,
) -> None:
    """Add the rows at `use` to the tables of the chosen columns, in place.

    `t` (m,) is the projection, `mass` (m,) what it is averaged with in a bin.
    """
    if not isinstance(use, slice):
        X, t, pair, mass = np.asfortranarray(X[use]), t[use], pair[use], mass[use]
    row = (t - trial.low) * (N_CELLS / (trial.high - trial.low))
    row = np.clip(row, 0, N_CELLS - 1).astype(np.int32)
    state["mass"] += np.bincount(row, mass, N_CELLS)
    state["place"] += np.bincount(row, mass * t, N_CELLS)
    row *= 2 * N_CELLS
    values, at = pair.ravel(), np.empty(len(row), np.int32)
    for table, m in zip(state["cells"], chosen.tolist(), strict=True):
        scale = N_CELLS / (columns.high[m] - columns.low[m])
        add_table(X[:, m], columns.low[m], scale, row, values, at, table.reshape(-1))


def cells_of(
    state: dict[str, np.ndarray], columns: Columns, chosen: np.ndarray, trial: Trial
) -> list[tuple[int, Cells]]:
    """The occupied cells of each table, at the mean of their bins."""
    width = (trial.high - trial.low) / N_CELLS
    middle = trial.low + width * (np.arange(N_CELLS) + 0.5)
    s = np.where(state["mass"] > 0, state["place"] / np.maximum(state["mass"], 1e-300), middle)
    found = []
    for table, m in zip(state["cells"], chosen.tolist(), strict=True):
        i, j = np.nonzero(table.any(2))
        reach = (columns.high[m] - columns.low[m]) / columns.scale[m] / N_CELLS
        found.append(
            (m, Cells(s[i], columns.means[m, j], table[i, j], np.array([width, reach]) / 2))
        )
    return found


def add_slopes(slopes: np.ndarray, X: np.ndarray, columns: Columns, q: np.ndarray) -> None:
    """Add sum q z_m of every column to `slopes` (M,), in place."""
    for m in columns.live.tolist():
        factor = 1.0 / columns.scale[m]
        slopes[m] += dot_column(
            X[:, m], columns.low[m], columns.high[m], columns.center[m], factor, q
        )


def steepest(slopes: Any, alpha: np.ndarray, live: np.ndarray, room: int) -> np.ndarray:
    """Columns for the next tables: those in use, then by the slope of the cost along them."""
    if len(live) <= room:
        return live
    size = np.abs(slopes) if slopes is not None else np.zeros(len(alpha))
    used = np.flatnonzero(alpha)
    if len(used) and slopes is not None:
        # along alpha itself the cost does not change: that part says nothing
        size = np.abs(slopes - alpha * (slopes @ alpha) / (alpha @ alpha))
    order = sorted(live.tolist(), key=lambda m: (alpha[m] == 0, -size[m], m))
    return np.array(sorted(order[:room]), np.intp)
