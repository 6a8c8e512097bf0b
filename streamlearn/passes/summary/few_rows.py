"""Columns of few rows: the rows themselves are the state, while they take less than the counts.

What counts a column takes 136 KiB, however few its rows are.  So of a wide table of few rows the
state is the values, many columns a read; they are counted when all are there, `BLOCK` at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

import numpy as np
import scipy.sparse

from ...data.source import Chunk, Csr, Source
from .columns import State, add_columns, empty_columns

BLOCK = 32
"""Columns that are counted at once: their counts take 4 MiB and stay in the cache."""


class Part(TypedDict):
    """Rows of a chunk, in arrays of their own."""

    X: np.ndarray | Csr
    weight: np.ndarray | None
    rows: np.ndarray


def kept_nbytes(dataset: Source) -> int:
    """Bytes of a column in the state and where the parts are joined: an upper bound."""
    size = np.dtype(dataset.dtype).itemsize
    # sparse ones, with a column number each, are joined as rows and then as columns
    return (3 * (size + 8) if dataset.sparse else 2 * size) * dataset.n_physical_rows


def keep_rows(parts: list[Part], chunk: Chunk) -> None:
    """Append a copy of the chunk's columns to `parts`, in place."""
    weight = None if chunk.weight is None else chunk.weight.copy()
    rows = np.array(chunk.rows, np.int64)
    parts.append({"X": chunk.X.copy(), "weight": weight, "rows": rows})


def count_rows(parts: list[Part], p: int, weighted: bool) -> Iterator[tuple[int, int, State]]:
    """First, stop and the state of each block of the p columns of these rows."""
    joined = _joined(parts)
    for first in range(0, p, BLOCK):
        stop = min(first + BLOCK, p)
        state = empty_columns(stop - first, weighted)
        if joined is not None:
            X, weight, rows = joined
            add_columns(state, Chunk(_columns(X, first, stop), weight=weight, rows=rows))
        yield first, stop, state


def _joined(
    parts: list[Part],
) -> tuple[np.ndarray | scipy.sparse.csc_array, np.ndarray | None, np.ndarray] | None:
    if not parts:
        return None
    X = [part["X"] for part in parts]
    weight = [part["weight"] for part in parts if part["weight"] is not None]
    rows = np.concatenate([part["rows"] for part in parts])
    joined: np.ndarray | scipy.sparse.csc_array
    if isinstance(X[0], Csr):
        csr = Csr.join([part for part in X if isinstance(part, Csr)])
        joined = scipy.sparse.csr_array(csr[:3], shape=csr.shape).tocsc()
    else:
        joined = np.concatenate([part for part in X if not isinstance(part, Csr)])
    return joined, np.concatenate(weight) if weight else None, rows


def _columns(X: np.ndarray | scipy.sparse.csc_array, first: int, stop: int) -> np.ndarray | Csr:
    if isinstance(X, np.ndarray):
        return X[:, first:stop]
    own = X[:, first:stop].tocsr()
    own.sort_indices()
    return Csr(own.data, own.indices, own.indptr.astype(np.int64), stop - first)
