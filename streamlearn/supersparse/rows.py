"""Blocks of dense float64 rows, as the similarities take them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..data.source import Csr

BLOCK_NBYTES = 1 << 19
"""Rows and similarities of a block stay in a core's cache."""
LEAST_ROWS, MOST_ROWS = 16, 1024


def block_rows(n_columns: int, n_prototypes: int) -> int:
    """Rows of a block: a power of two, a function of the model alone."""
    rows = BLOCK_NBYTES // (8 * (n_columns + n_prototypes + 1))
    return min(max(1 << (max(rows, 1).bit_length() - 1), LEAST_ROWS), MOST_ROWS)


def dense_blocks(X: np.ndarray | Csr, n_rows: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (rows, B): B (n_rows, p) float64 holds the rows, then zeros; it is used again."""
    m, p = X.shape
    buffer = np.zeros((n_rows, p))
    for a in range(0, m, n_rows):
        b = min(a + n_rows, m)
        if isinstance(X, Csr):
            buffer[:] = 0.0
            lo, hi = X.indptr[a], X.indptr[b]
            at = np.repeat(np.arange(b - a), np.diff(X.indptr[a : b + 1]))
            buffer[at, X.indices[lo:hi]] = X.data[lo:hi]
        else:
            buffer[: b - a] = X[a:b]
            buffer[b - a :] = 0.0
        yield slice(a, b), buffer


def dense(X: np.ndarray | Csr) -> np.ndarray:
    """All rows as one C-ordered float64 array."""
    out = np.empty(X.shape)
    for rows, block in dense_blocks(X, MOST_ROWS):
        out[rows] = block[: rows.stop - rows.start]
    return out
