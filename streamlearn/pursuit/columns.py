"""Columns as the search sees them: clipped, centred, on one scale; and projections of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..data.source import Csr, Source
from ..numeric.rows.dense import flat_rows
from ..passes.summary.summary import Summary
from .kernels import N_CELLS, ScaledColumns, project_rows, scale_columns

TAILS = (0.001, 0.999)
"""Quantiles to which values are clipped, so that one huge value does not set a column's scale."""
BLOCK = 8192
"""Rows of a block, which bounds the temporaries of a step; sparse rows are made dense."""
SPAN, DRAWN = 65_536, 16_384
"""Largest number of rows of a span, whose tables are filled together, and about how many of them go
into tables.  These rows go through the cache once for each column, a table once for each span."""
TURNED = 0.5
"""Share of rows in tables above which whole blocks of row-major data are made column-major."""
ROW_NBYTES = 24
"""Bytes of a row that go into a span's tables."""


def make_columns(summary: Summary, standardize: bool) -> ScaledColumns:
    """The scaling that a summary gives.

    Four points stand for each piece of a distribution, and for a value with a mass of its own.
    """
    facts = summary.columns
    least, most = (np.asarray(of, np.float64) for of in (facts.min, facts.max))
    columns = ScaledColumns(*(np.empty(of) for of in (*[len(least)] * 4, (len(least), N_CELLS))))
    for first, stop in facts.blocks():
        own = slice(first, stop)
        part = ScaledColumns(*(of[own] for of in columns))
        scale_columns(facts.pieces(first, stop), least[own], most[own], TAILS, standardize, part)
    return columns


def blocks(
    X: np.ndarray | Csr, most: int = BLOCK, turned: bool = True
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the place of each block of rows, and the block as `dense_block` makes it.

    Blocks have `most` rows where columns are contiguous already.
    """
    copied = isinstance(X, Csr) or X.flags.c_contiguous
    n, rows = X.shape[0], BLOCK if copied else most
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        yield slice(start, stop), dense_block(X, start, stop, turned)


def span_rows(share: float) -> int:
    """Number of rows whose tables are filled together when this share of them goes into tables."""
    return min(SPAN, -(-int(DRAWN / share) // BLOCK) * BLOCK)


def block_nbytes(dataset: Source, numbers: int) -> int:
    """Bytes of a block's temporaries: so many numbers for each row, and a copy of its columns."""
    if dataset.sparse:
        return BLOCK * (8 * (numbers + dataset.n_features) + ROW_NBYTES)
    row = max(dataset.decoded_nbytes // max(dataset.n_physical_rows, 1), 1)
    rows = min(BLOCK, max((16 << 20) // row, 1))
    return rows * (8 * numbers + row) + ROW_NBYTES * min(SPAN, dataset.n_physical_rows)


def dense_block(X: np.ndarray | Csr, start: int, stop: int, turned: bool = True) -> np.ndarray:
    """Rows [start, stop) as a dense array whose columns are contiguous; a view if they are already.

    Without `turned` dense rows always give a view.
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
    """(m,) float64 projections alpha'z of dense rows; columns without weight are not read."""
    t = np.empty(len(X))
    project_rows(flat_rows(X), alpha, columns, t)
    return t


def unit(columns: ScaledColumns, m: int) -> np.ndarray:
    """(M,) direction of column m alone."""
    alpha = np.zeros(len(columns.scale))
    alpha[m] = 1.0
    return alpha


def bounds(columns: ScaledColumns, m: int) -> tuple[float, float]:
    """The least and the largest z of column m."""
    low, high = (np.array([columns.low[m], columns.high[m]]) - columns.center[m]) / columns.scale[m]
    return float(low), float(high)
