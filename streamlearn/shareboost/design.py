"""The selected features of rows in hand, as the correction multiplies by them.

Coefficients are theta (K, 1 + width): the intercept, then the features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.source import Chunk
from ..passes.fold import RowState
from .kernels import add_sparse_products
from .selection.kernels import score_pieces, sum_pieces

TARGET = RowState("target", "float64", 2, False)
"""Class code and share of the total weight of each row; a share of 0 means that the row is
absent."""
BASE = "base"
"""Name of the row state that holds all columns, where pieces are selected."""
CACHED = "cached"
"""Name of what a chunk has instead of row states, when the side store is in memory."""
SPARSE = 0.125
"""Largest share of features that are not 0 at which products go over those alone."""


class Layout(NamedTuple):
    """The places of a row's selected features in its row state."""

    states: tuple[RowState, ...]
    """Row states that a read has to load; the first is `TARGET`."""
    picks: tuple[tuple[str, int], ...]
    """Name of the row state, and the column in it, of each feature or of each piece's weight."""
    n_base: int
    """Number of columns of the row state `BASE`: each piece stands for them and a constant, times
    its weight.  0: the picks are the features themselves."""
    dtype: str
    """Dtype of the features."""
    stored: str
    """Dtype in which they lie in the side store: the same, or ``uint8`` for weights 0 and 1."""

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.picks) * (self.n_base + 1 if self.n_base else 1)


class Rows(NamedTuple):
    """The rows of a chunk whose weight is above 0."""

    design: Dense | Pieces
    codes: np.ndarray
    """(m,) class codes, intp."""
    share: np.ndarray
    """(m,) shares of the total weight."""
    keep: np.ndarray
    """(rows of the chunk,) bool: which rows these are."""


def rows_of(layout: Layout, chunk: Chunk) -> Rows:
    """The rows of a chunk whose states hold the layout's picks, all in one or state by state."""
    target = chunk.state[TARGET.name]
    keep = target[:, 1] > 0
    whole = bool(keep.all())
    kept = target if whole else target[keep]
    stored = stored_columns(layout, chunk)
    if not whole:
        stored = np.asfortranarray(stored[keep])
    design: Dense | Pieces
    if layout.n_base:
        base = chunk.state[BASE]
        design = Pieces(base if whole else base[keep], stored, np.dtype(layout.dtype))
    else:
        design = Dense(stored)
    return Rows(design, kept[:, 0].astype(np.intp), kept[:, 1], keep)


def stored_columns(layout: Layout, chunk: Chunk) -> np.ndarray:
    """(m, picks) array, column-major; before features there is a column of ones."""
    ones = 0 if layout.n_base else 1
    if CACHED in chunk.state:  # as this function made it, with room for more columns
        return chunk.state[CACHED][:, : ones + len(layout.picks)]
    stored = np.empty((chunk.n_rows, ones + len(layout.picks)), layout.stored, order="F")
    stored[:, :ones] = 1
    for k, (name, j) in enumerate(layout.picks):
        stored[:, ones + k] = chunk.state[name][:, j]
    return stored


class Dense:
    """Features as they are, after a column of ones."""

    def __init__(self, A: np.ndarray) -> None:
        self.A = A

    def forward(self, theta: np.ndarray) -> np.ndarray:
        """(m, K) float64 scores."""
        return (self.A @ theta.T.astype(self.A.dtype)).astype(np.float64, copy=False)

    def part(self, theta: np.ndarray, start: int, stop: int) -> np.ndarray:
        """(m, K) scores that the coefficients [start, stop) add."""
        cut = slice(start, stop)
        return self.A[:, cut] @ theta[:, cut].T.astype(self.A.dtype)

    def backward(self, R: np.ndarray) -> np.ndarray:
        """(K, 1 + width) product R' A."""
        return R.astype(self.A.dtype, copy=False).T @ self.A

    def squares(self, share: np.ndarray) -> np.ndarray:
        """(1 + width,) float64 sums of the squares, each times its row's share."""
        return _squares(self.A, share)

    def add_gram(
        self, H: np.ndarray, heavy: np.ndarray, start: int, stop: int, out: np.ndarray
    ) -> None:
        """Add A' diag(h) A of the coefficients [start, stop) to out (K, w, w), for each h in H'.

        Rows that are not `heavy` (m, K) add to the diagonal alone: in a well fitted model most
        weights are next to nothing.
        """
        A = self.A[:, start:stop]
        if _is_sparse(A):
            classes = np.arange(len(out))
            _add_sparse(A, H, classes, np.zeros_like(classes), out[:, :, None])
            return
        for k in range(len(out)):
            h, many = H[:, k].astype(A.dtype, copy=False), heavy[:, k]
            if many.all():
                out[k] += _gram(A, h)
                continue
            out[k] += _gram(A[many], h[many])
            light = A[~many]
            _diagonal(out[k])[:] += h[~many] @ (light * light)

    def add_products(
        self, W: np.ndarray, first: np.ndarray, second: np.ndarray, out: np.ndarray
    ) -> None:
        """Add A' diag(w) A to out[first[p], :, second[p], :] for each column w, number p, of W.

        `out` (K, n, K, n) is float64, and so are all products: those of float32 features are exact.
        """
        if _is_sparse(self.A):
            _add_sparse(self.A, W, first, second, out)
            return
        A = self.A.astype(np.float64, copy=False)
        for w, k, j in zip(W.T, first.tolist(), second.tolist(), strict=True):
            out[k, :, j] += _gram(A, w)


class Pieces:
    """Pieces (v, 1) of base columns v, times weights; a row costs nothing where its weight is 0."""

    def __init__(self, base: np.ndarray, weights: np.ndarray, dtype: np.dtype) -> None:
        self.V = np.empty((len(base), base.shape[1] + 1), dtype)
        self.V[:, :-1] = base
        self.V[:, -1] = 1
        self.weights = np.ascontiguousarray(weights, dtype)

    def forward(self, theta: np.ndarray) -> np.ndarray:
        K, q = len(theta), self.V.shape[1]
        Z = np.tile(theta[:, 0].astype(np.float64, copy=False), (len(self.V), 1))
        U = theta[:, 1:].reshape(K, -1, q).transpose(1, 2, 0).reshape(-1, q * K)
        U = np.ascontiguousarray(U, self.V.dtype)
        score_pieces(self.V, self.weights, U, *self._room(q * K), Z)
        return Z

    def part(self, theta: np.ndarray, start: int, stop: int) -> np.ndarray:
        only = np.zeros_like(theta)
        only[:, start:stop] = theta[:, start:stop]
        return self.forward(only)

    def backward(self, R: np.ndarray) -> np.ndarray:
        K, q = R.shape[1], self.V.shape[1]
        sums = np.zeros((self.weights.shape[1], q * K), self.V.dtype)
        in_dtype = np.ascontiguousarray(R, self.V.dtype)
        sum_pieces(self.V, in_dtype, self.weights, *self._room(q * K), sums)
        U = sums.reshape(-1, q, K).transpose(2, 0, 1).reshape(K, -1)
        return np.concatenate([R.sum(axis=0, dtype=np.float64)[:, None], U], axis=1)

    def squares(self, share: np.ndarray) -> np.ndarray:
        weights = self.weights.astype(np.float64).T
        parts = [_squares(self.V, share * weight * weight) for weight in weights]
        return np.concatenate([[share.sum()], *parts])

    def add_gram(
        self, H: np.ndarray, heavy: np.ndarray, start: int, stop: int, out: np.ndarray
    ) -> None:
        if start == 0:  # the intercept is a block of its own
            out += H.sum(axis=0)[:, None, None]
            return
        weights = self.weights[:, (start - 1) // self.V.shape[1]]
        rows = np.flatnonzero(weights)
        A, H, heavy = self.V[rows], H[rows].astype(self.V.dtype), heavy[rows]
        A *= weights[rows, None]
        light = np.where(heavy, 0, H).T @ (A * A)
        for k in range(len(out)):
            many = np.flatnonzero(heavy[:, k])
            out[k] += _gram(A[many], H[many, k])
            _diagonal(out[k])[:] += light[k]

    def _room(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Arrays for intermediate results of the kernels."""
        return np.empty(n, self.V.dtype), np.empty(self.weights.shape[1] + 1, np.intp)


def _is_sparse(A: np.ndarray) -> bool:
    return bool(np.count_nonzero(A) <= SPARSE * A.size)


def _add_sparse(
    A: np.ndarray, W: np.ndarray, first: np.ndarray, second: np.ndarray, out: np.ndarray
) -> None:
    n = A.shape[1]
    add_sparse_products(A, W, first, second, np.empty(n, np.intp), np.empty(n), out)


def _squares(A: np.ndarray, h: np.ndarray) -> np.ndarray:
    """(w,) float64 sums h' A^2, a column at a time: no array of the size of A is made."""
    return np.array([h @ np.square(column, dtype=np.float64) for column in A.T])


def _gram(A: np.ndarray, h: np.ndarray) -> np.ndarray:
    gram: np.ndarray = A.T @ (A * h[:, None])
    return gram


def _diagonal(A: np.ndarray) -> np.ndarray:
    """A view of the diagonal of a square array."""
    return A.reshape(-1)[:: len(A) + 1]
