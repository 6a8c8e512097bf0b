"""Rows with their functions written out: the arithmetic of passes over them.

Of sparse rows these are Phi - Phi(0) of the stored values.  Rows that a fit reads many times keep
them from one pass to the next, and leave one function of each column out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dger, dsyrk
from scipy.sparse import csr_matrix

from ...data.source import Csr
from ...numeric.bases.bsplines import Bases
from . import kernels_functions as ker

WRITTEN_NBYTES, WRITTEN_DIM = 16 << 20, 1000
"""Bytes up to which the functions of sparse rows are written out once, and coefficients."""
VALUE_NBYTES, SQUARES_NBYTES = 12, 12
"""Bytes of a written value, and for each product of two coefficients while a Gram is summed up."""


class Zeros(NamedTuple):
    """The functions that are left out of compressed rows: those that alone are 1 at 0.

    The functions of a column sum to 1, so those of a value less Phi(0) sum to 0, and the one that
    is left out is what the others lack.
    """

    places: np.ndarray
    """(n,) intp: where they are."""
    own: np.ndarray
    """(dim,) intp: for each function the place of the one of its column that is left out; dim where
    none is."""
    others: csr_matrix
    """(n, dim): 1 at the other functions of their columns."""

    def without(self, W: np.ndarray) -> np.ndarray:
        """(K, dim) coefficients of the functions that are kept, for those of all."""
        return W - np.column_stack([W, np.zeros(len(W))])[:, self.own]

    def restore(self, G: np.ndarray) -> None:
        """Write what sums (K, dim) of kept functions say of those left out, in place."""
        G[:, self.places] = -(self.others @ G.T).T


class Tile(NamedTuple):
    """Rows start..stop with their functions: Phi = A + base, A (n, dim) an array or CSR matrix."""

    start: int
    stop: int
    A: Any
    base: np.ndarray | None
    """(dim,) Phi(0) of sparse rows; None: 0."""
    zeros: Zeros | None = None
    """The functions that `A` leaves out."""

    def margins(self, W: np.ndarray) -> np.ndarray:
        """(K, n) Phi W."""
        if self.base is None:
            return W @ self.A.T
        kept = W if self.zeros is None else self.zeros.without(W)
        return (self.A @ kept.T + W @ self.base).T

    def sums(self, R: np.ndarray, total: np.ndarray) -> np.ndarray:
        """(K, dim) sum r Phi of `R` (K, n), `total` (K,) the sums of its rows."""
        if self.base is None:
            return R @ self.A
        G = np.ascontiguousarray((self.A.T @ R.T).T)
        if self.zeros is not None:
            self.zeros.restore(G)
        return G + total[:, None] * self.base

    def add_gram(self, h: np.ndarray, H: np.ndarray) -> np.ndarray:
        """Add sum h Phi Phi' to the upper triangle of `H`; returns sum h Phi."""
        if self.base is None:
            half = np.sqrt(h) * self.A.T
            # C order is BLAS's transpose: its lower triangle is the upper one here
            dsyrk(1.0, half.T, 1.0, H.T, trans=1, lower=1, overwrite_c=1)
            return h @ self.A
        A, c = self.A, self.base
        total = h.sum()
        with_base = self.sums(h[None], np.array([total]))[0]
        if self.zeros is None:
            ker.add_sparse_gram(A.data, A.indices, A.indptr, h, H)
        else:
            own = np.zeros(H.shape)
            ker.add_sparse_gram(A.data, A.indices, A.indptr, h, own)
            ker.mirror(own)
            self.zeros.restore(own)
            self.zeros.restore(own.T)
            H += own
        dger(1.0, c, with_base, a=H.T, overwrite_a=1)
        dger(1.0, with_base - total * c, c, a=H.T, overwrite_a=1)
        return with_base


class WrittenRows(Csr):
    """Sparse rows that also hold their functions, for a fit that looks at them many times."""

    tile: Tile
    """All rows."""

    def blocks(self, n_rows: int) -> Iterator[Tile]:
        """The rows in tiles of `n_rows` rows, the last perhaps smaller, as views."""
        A = self.tile.A
        for start in range(0, A.shape[0], n_rows):
            stop = min(start + n_rows, A.shape[0])
            a, z = int(A.indptr[start]), int(A.indptr[stop])
            values, indices = A.data[a:z], A.indices[a:z]
            some = compressed_matrix(values, indices, A.indptr[start : stop + 1] - a, A.shape[1])
            yield self.tile._replace(start=start, stop=stop, A=some)


def compressed_matrix(
    values: np.ndarray, indices: np.ndarray, ends: np.ndarray, width: int
) -> csr_matrix:
    """The matrix of these arrays, without the checks of its constructors."""
    A = csr_matrix((len(ends) - 1, width))
    A.data, A.indices, A.indptr = values, indices, ends
    return A


def find_zeros(bases: Bases, base: np.ndarray) -> Zeros:
    """The functions that compressed rows may leave out; `base` (dim,) is Phi(0)."""
    first, of_all = bases.first, np.arange(bases.dim)
    column = np.repeat(np.arange(len(first) - 1), np.diff(first))
    places = np.flatnonzero(base == 1.0)  # the others of its column are then 0
    zero_of = np.full(len(first) - 1, bases.dim)
    zero_of[column[places]] = places
    own = zero_of[column]
    others = np.flatnonzero((own < bases.dim) & (own != of_all))
    which, shape = np.searchsorted(places, own[others]), (len(places), bases.dim)
    return Zeros(places, own, csr_matrix((np.ones(len(others)), (which, others)), shape))


def written_nbytes(nbytes: float, dim: int, degree: int) -> int:
    """Most bytes that `written` and a Gram take for sparse rows of `nbytes`; 0: too many for it."""
    # A stored value takes 8 bytes at least.  At degree 1 it has two functions that are not 0; at
    # others the functions of Phi(0), which are taken from its own, add as many.
    rows = int(nbytes / 8 * (2 if degree == 1 else 2 * (degree + 1)) * VALUE_NBYTES)
    is_small = rows <= WRITTEN_NBYTES and dim <= WRITTEN_DIM
    return rows + SQUARES_NBYTES * dim**2 if is_small else 0
