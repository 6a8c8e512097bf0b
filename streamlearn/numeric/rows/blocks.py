"""Rows of a chunk as float64 blocks that fit in a cache: matrix products go block by block.

Blocks of a given number of columns have one fixed number of rows, the last one filled up with
zeros, so that the BLAS takes the same path for each and a row's products do not depend on which
rows are with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias

import numpy as np
import scipy.sparse

BLOCK_NBYTES = 1 << 20
"""Bytes of a block, about: it must stay in a cache of the processor."""
MOST_ROWS, LEAST_ROWS = 4096, 64
"""Rows of a block."""

Block: TypeAlias = np.ndarray | scipy.sparse.csr_matrix
"""Some rows in float64: what `blocks` yields."""


class SparseRows(Protocol):
    """Rows of a chunk in compressed form: `data.source.Csr`."""

    @property
    def data(self) -> np.ndarray: ...
    @property
    def indices(self) -> np.ndarray: ...
    @property
    def indptr(self) -> np.ndarray: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int]: ...


def block_rows(n_columns: int) -> int:
    """Rows of a block: the largest power of two whose bytes are at most 1 MiB, 64 to 4,096."""
    rows = max(BLOCK_NBYTES // (8 * max(n_columns, 1)), 1)
    return min(max(1 << (rows.bit_length() - 1), LEAST_ROWS), MOST_ROWS)


def blocks(
    X: np.ndarray | SparseRows,
    shift: np.ndarray | None = None,
    factor: np.ndarray | None = None,
    size: int | None = None,
) -> Iterator[tuple[slice, Block]]:
    """Yield (rows, B): rows [a, b) of the chunk as ``B = (X[a:b] - shift) * factor`` in float64.

    Dense: B is (size, p), `size` by default ``block_rows(p)``, rows from b - a on are zero, and the
    array is used again for the next block.  Csr (`data.source`) without a shift: B is a scipy CSR
    matrix of b - a rows.  Both take ``B @ A`` and ``B.T @ Q``.
    """
    if not isinstance(X, np.ndarray) and shift is None:
        yield from _sparse_blocks(X, factor, size or MOST_ROWS)
        return
    m, p = X.shape
    size = size or block_rows(p)
    buffer = np.zeros((size, p))
    for a in range(0, m, size):
        b = min(a + size, m)
        part = buffer[: b - a]
        if isinstance(X, np.ndarray):
            part[...] = X[a:b]
        else:
            part[...] = _csr_rows(X, a, b).toarray()
        if shift is not None:
            part -= shift
        if factor is not None:
            part *= factor
        if b - a < size:
            buffer[b - a :] = 0.0
        yield slice(a, b), buffer


def _sparse_blocks(
    X: SparseRows, factor: np.ndarray | None, size: int
) -> Iterator[tuple[slice, Block]]:
    for a in range(0, X.shape[0], size):
        b = min(a + size, X.shape[0])
        part = _csr_rows(X, a, b)
        if factor is not None:
            part.data *= factor[part.indices]
        yield slice(a, b), part


def _csr_rows(X: SparseRows, a: int, b: int) -> scipy.sparse.csr_matrix:
    """Rows [a, b) in float64."""
    lo, hi = int(X.indptr[a]), int(X.indptr[b])
    parts = X.data[lo:hi].astype(np.float64), X.indices[lo:hi], X.indptr[a : b + 1] - lo
    return scipy.sparse.csr_matrix(parts, shape=(b - a, X.n_columns))


def square_norms(B: Block) -> np.ndarray:
    """(rows,) |x|^2 of a block's rows."""
    if isinstance(B, np.ndarray):
        return np.einsum("ij,ij->i", B, B)
    return np.asarray(B.multiply(B).sum(axis=1), np.float64).ravel()


def products(
    X: np.ndarray | SparseRows,
    A: np.ndarray,
    shift: np.ndarray | None = None,
    factor: np.ndarray | None = None,
) -> np.ndarray:
    """(m, k) float64: ``((X - shift) * factor) @ A`` for A (p, k)."""
    out = np.empty((X.shape[0], A.shape[1]))
    for rows, B in blocks(X, shift, factor):
        out[rows] = (B @ A)[: rows.stop - rows.start]
    return out
