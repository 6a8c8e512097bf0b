"""Columns as the search sees them: clipped, centred, on one scale; and projections of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..data.source import Csr
from ..numeric.rows.dense import flat_rows
from ..passes.summary.quantiles import quantiles
from ..passes.summary.summary import Summary
from .kernels import N_CELLS, ScaledColumns, project_rows

TAILS = (0.001, 0.999)
"""Quantiles that values are clipped to: one huge value must not set a column's scale."""
BLOCK = 8192
"""Rows worked on at a time: bounds the temporaries of a step; sparse rows are made dense."""
SPAN, DRAWN = 65_536, 16_384
"""Most rows whose tables are filled together, and about how many of them go into tables: these go
through the cache once for each column, and a table once for each span.
"""
TURNED = 0.5
"""Share of rows in tables above which blocks of row-major data are turned whole."""
ROW_NBYTES = 24
"""Of what a span's tables are filled from."""


def make_columns(summary: Summary, standardize: bool) -> ScaledColumns:
    """The scaling that a summary gives."""
    return ScaledColumns(
        *map(np.array, zip(*(_column(c, standardize) for c in summary.columns), strict=True))
    )


def _column(column: Any, standardize: bool) -> tuple[Any, ...]:
    cdf = column.cdf()
    low, high = quantiles(cdf, np.array(TAILS)) if column.count else (0.0, 0.0)
    if not low < high:  # a rare value is no outlier where there is hardly another
        low, high = (column.min, column.max) if column.count else (0.0, 0.0)
    with np.errstate(over="ignore"):
        width = high - low
    if not (0 < width < np.inf):
        return low, high, low, np.inf, np.zeros(N_CELLS)
    # Points of the distribution: four to a piece, a value of its own mass once.
    share = (np.arange(4) + 0.5) / 4
    x = np.clip(cdf.lo[:, None] * (1 - share) + cdf.hi[:, None] * share, low, high).ravel()
    mass = np.repeat(cdf.mass / 4, 4)
    total = mass.sum()
    center = float(mass @ (x / total))
    scale = float(np.sqrt(mass @ (((x - center) / width) ** 2) / total)) * width
    if not scale > 0:
        return low, high, low, np.inf, np.zeros(N_CELLS)
    scale = scale if standardize else 1.0
    cell = np.minimum((x - low) * (N_CELLS / width), N_CELLS - 1).astype(np.intp)
    sums = np.bincount(cell, mass, N_CELLS), np.bincount(cell, mass * ((x - low) / width), N_CELLS)
    middle = (np.arange(N_CELLS) + 0.5) / N_CELLS
    mean = np.where(sums[0] > 0, sums[1] / np.where(sums[0] > 0, sums[0], 1.0), middle)
    return low, high, center, scale, (low + width * mean - center) / scale


def blocks(X: Any, most: int = BLOCK, turned: bool = True) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield blocks of rows: their place, and themselves as `dense_block` has them.

    Of `most` rows where columns are contiguous as they are.
    """
    copied = isinstance(X, Csr) or X.flags.c_contiguous
    n, rows = X.shape[0], BLOCK if copied else most
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        yield slice(start, stop), dense_block(X, start, stop, turned)


def span_rows(share: float) -> int:
    """Rows whose tables are filled together when this share of them goes into tables."""
    return min(SPAN, -(-int(DRAWN / share) // BLOCK) * BLOCK)


def block_nbytes(dataset: Any, numbers: int) -> int:
    """Bytes of a block's own temporaries: so many numbers a row, and a copy of its columns."""
    if dataset.sparse:
        return BLOCK * (8 * (numbers + dataset.n_features) + ROW_NBYTES)
    row = max(dataset.decoded_nbytes // max(dataset.n_physical_rows, 1), 1)
    rows = min(BLOCK, max((16 << 20) // row, 1))
    return rows * (8 * numbers + row) + ROW_NBYTES * min(SPAN, dataset.n_physical_rows)


def dense_block(X: Any, start: int, stop: int, turned: bool = True) -> np.ndarray:
    """Rows [start, stop) as a dense array whose columns are contiguous; a view if they are so.

    Not `turned`: of dense rows, a view in any case.
    """
    if not isinstance(X, Csr):
        copied = turned and X.flags.c_contiguous
        return np.asfortranarray(X[start:stop]) if copied else X[start:stop]
    a, b = X.indptr[start], X.indptr[stop]
    out = np.zeros((stop - start, X.n_columns), X.data.dtype, order="F")
    rows = np.repeat(np.arange(stop - start), np.diff(X.indptr[start : stop + 1]))
    out[rows, X.indices[a:b]] = X.data[a:b]
    return out


def project(X: np.ndarray, columns: ScaledColumns, alpha: np.ndarray) -> np.ndarray:
    """(m,) float64: alpha'z of dense rows; columns without weight are not read."""
    t = np.empty(len(X))
    project_rows(flat_rows(X), alpha, columns, t)
    return t


def unit(columns: ScaledColumns, m: int) -> np.ndarray:
    """(M,) the direction of column m alone."""
    alpha = np.zeros(len(columns.scale))
    alpha[m] = 1.0
    return alpha


def bounds(columns: ScaledColumns, m: int) -> tuple[float, float]:
    """Least and largest z of column m."""
    low, high = (np.array([columns.low[m], columns.high[m]]) - columns.center[m]) / columns.scale[m]
    return float(low), float(high)
