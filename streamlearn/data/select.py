"""Rows of a chunk left out, without a second chunk in memory."""

from __future__ import annotations

import numpy as np

from .source import Chunk, Csr

_BLOCK = 4096


def keep_rows(chunk: Chunk, keep: np.ndarray, *, in_place: bool) -> Chunk:
    """The chunk's rows where `keep` is true; `in_place` moves them up in the chunk's own buffer.

    The row numbers stay the physical ones.
    """
    if keep.all():
        return chunk
    return _chunk_of(chunk, np.flatnonzero(keep), in_place)


def take_rows(chunk: Chunk, index: np.ndarray) -> Chunk:
    """Copies of the chunk's rows at these places, in this order."""
    return _chunk_of(chunk, index, False)


def _chunk_of(chunk: Chunk, index: np.ndarray, in_place: bool) -> Chunk:
    return Chunk(
        X=_take(chunk.X, index, in_place),
        y=None if chunk.y is None else chunk.y[index],
        weight=None if chunk.weight is None else chunk.weight[index],
        rows=np.asarray(chunk.rows, np.int64)[index],
    )


def _take(X: np.ndarray | Csr, index: np.ndarray, in_place: bool) -> np.ndarray | Csr:
    if isinstance(X, Csr):
        lengths = np.diff(X.indptr)[index]
        indptr = np.zeros(len(index) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        at = np.repeat(X.indptr[:-1][index] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Csr(X.data[at], X.indices[at], indptr, X.n_columns)
    if not in_place:
        return X[index]
    if X.flags.f_contiguous:
        for column in X.T:
            column[: len(index)] = column[index]
    else:
        # Ascending blocks: a row only ever moves up, to where nothing is needed any more.
        for a in range(0, len(index), _BLOCK):
            part = index[a : a + _BLOCK]
            X[a : a + len(part)] = X[part]
    return X[: len(index)]
