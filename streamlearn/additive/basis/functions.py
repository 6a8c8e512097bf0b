"""Passes over explicit functions, a tile of rows at a time: for bases that no kernel looks up.

`kernels` hands these what it hands the spline kernels; both mean the same.  A tile holds its
functions, at most about `TILE_NBYTES`, and products of matrices do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from ...data.source import Csr
from ...numeric.bases.bsplines import Bases, Columns, as_columns
from ...numeric.bases.pairs import fill_pairs
from ...numeric.bases.roughness import Reference, Roughness, reference_at_zero
from ...numeric.losses import Loss
from ...numeric.rows.dense import flat_rows
from ..dual.kernels_epoch import UNSEEN, Descent, visit_rows
from . import kernels_functions as ker
from .kernels_csr import dense_coordinates
from .kernels_loss import loss_code
from .written import (
    SQUARES_NBYTES,
    VALUE_NBYTES,
    Tile,
    WrittenRows,
    compressed_matrix,
    find_zeros,
    written_nbytes,
)

TILE_NBYTES = 1 << 21
"""Bytes that the functions of a tile take, unless 32 rows take more."""
MOST_ROWS, LEAST_ROWS = 1024, 32


def written(X: Csr, bases: Bases) -> Csr:
    """Rows of splines as `WrittenRows`; as they are where their functions take too much."""
    room = written_nbytes(X.nbytes, bases.dim, int(bases.degree.max(initial=1)))
    base = reference_at_zero(bases)
    zeros = find_zeros(bases, base)
    n_values = np.bincount(X.indices, minlength=X.n_columns)
    active = np.full(len(n_values), 2 * (bases.degree.max(initial=1) + 1))
    column = np.searchsorted(bases.first, zeros.places, "right") - 1
    active[column] //= 2  # where 0 has one function alone, those of the value are left
    most = int(n_values @ np.minimum(active, np.diff(bases.first)))
    if most * VALUE_NBYTES + SQUARES_NBYTES * bases.dim**2 > room:
        return X
    values, indices = np.empty(most), np.empty(most, np.int32)
    ends, n = np.zeros(len(X.indptr), np.int32), 0
    left_out = zeros.own == np.arange(bases.dim)
    for tile in _sparse_tiles(X, bases):
        keep = ~left_out[tile.A.indices]
        counts = np.append(0, np.cumsum(keep))
        m = int(counts[-1])
        values[n : n + m], indices[n : n + m] = tile.A.data[keep], tile.A.indices[keep]
        ends[tile.start + 1 : tile.stop + 1] = n + counts[tile.A.indptr[1:]]
        n += m
    A = compressed_matrix(values[:n], indices[:n], ends, bases.dim)
    rows = WrittenRows(*X)
    rows.tile = Tile(0, len(ends) - 1, A, base, zeros)
    return rows


def tile_nbytes(dim: int, *, compressed: bool) -> int:
    """Bytes that a pass holds beside its sums; `compressed`: of the stored values alone."""
    if compressed:  # as many values as fill a tile, Phi(0) and the products of the rest with it
        return 3 * TILE_NBYTES + 3 * 8 * dim
    return 3 * max(TILE_NBYTES, 8 * dim * LEAST_ROWS)


def tiles(X: np.ndarray | Csr, bases: Bases) -> Iterator[Tile]:
    """The rows' functions; each tile's are overwritten by the next one's."""
    if isinstance(X, WrittenRows):
        yield from X.blocks(4 * MOST_ROWS)
        return
    if isinstance(X, Csr):
        yield from _sparse_tiles(X, bases) if bases.pairs is None else _filled_tiles(X, bases)
        return
    columns, kinds, rows = as_columns(bases, X.dtype), kinds_of(bases), flat_rows(X)
    step = max(LEAST_ROWS, min(MOST_ROWS, TILE_NBYTES // (8 * max(bases.dim, 1))))
    step = min(step, max(len(X), 1))
    Phi, T = np.empty((bases.dim, step)), np.empty((rows.n_columns, step))
    others, last = np.flatnonzero(~bases.local & (bases.n_intervals > 0)), bases.first[1:]
    functions = bases.basis(others[0]) if len(others) else None
    for start in range(0, len(X), step):
        n = min(step, len(X) - start)
        if n < step:
            Phi, T = np.empty((bases.dim, n)), np.empty((rows.n_columns, n))
        ker.fill_tile(rows, columns, kinds, start, n, Phi, T)
        for d in others:
            assert functions is not None  # there are others
            a, z = bases.first[d], last[d] - kinds.missing[d]
            functions.fill(T[d], Phi[a:z])
            if z < last[d]:
                Phi[a:z, Phi[z] > 0.0] = 0.0
        fill_pairs(bases, Phi)
        yield Tile(start, start + n, Phi.T, None)


def kinds_of(bases: Bases) -> ker.Kinds:
    """The kernels' view of what is not in `Columns`."""
    return ker.Kinds(bases.local, bases.has_missing.astype(np.intp))


def _filled_tiles(X: Csr, bases: Bases) -> Iterator[Tile]:
    """Tiles of sparse rows with all their values: a pair of absent values has functions too."""
    prepared = bases._replace(prepared=True)
    step = max(LEAST_ROWS, min(MOST_ROWS, TILE_NBYTES // (4 * max(X.n_columns, 1))))
    for start in range(0, len(X.indptr) - 1, step):
        ends = X.indptr[start : start + step + 1]
        part = slice(ends[0], ends[-1])
        some = X._replace(data=X.data[part], indices=X.indices[part], indptr=ends - ends[0])
        for tile in tiles(dense_coordinates(some, bases), prepared):
            yield tile._replace(start=start + tile.start, stop=start + tile.stop)


def _sparse_tiles(X: Csr, bases: Bases) -> Iterator[Tile]:
    base = reference_at_zero(bases)
    for start, stop, stored in _stored_tiles(X, bases):
        A = _compressed(stored, bases.dim, base, ker.stored_functions)
        yield Tile(start, stop, A, base)


class Stored(NamedTuple):
    """The stored values of a tile of sparse rows, as the kernels take them."""

    indices: np.ndarray
    indptr: np.ndarray
    columns: Columns
    kinds: ker.Kinds
    u: np.ndarray
    t: np.ndarray
    T: np.ndarray
    """(n, stored) the functions that are not splines."""


def _stored_tiles(
    X: Csr, bases: Bases, order: np.ndarray | None = None
) -> Iterator[tuple[int, int, Stored]]:
    """Runs of rows, of `order` if given, whose functions fill a tile."""
    columns, kinds = as_columns(bases, X.data.dtype), kinds_of(bases)
    width = np.diff(bases.first)
    others = np.flatnonzero(~bases.local & (width > 0))
    n = int((width - bases.has_missing)[others].max(initial=0))
    n_rows = len(X.indptr) - 1 if order is None else len(order)
    lengths = np.diff(X.indptr) if order is None else np.diff(X.indptr)[order]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    room = max(1, TILE_NBYTES // (12 * max(int(width.max(initial=1)), 1)))
    start = 0
    while start < n_rows:
        stop = int(np.searchsorted(ends, ends[start] + room, "right")) - 1
        stop = min(max(stop, start + 1), start + 4 * MOST_ROWS, n_rows)
        if order is None:
            a, z = int(X.indptr[start]), int(X.indptr[stop])
            data, indices = X.data[a:z], X.indices[a:z]
            indptr = X.indptr[start : stop + 1] - a
        else:
            indptr = ends[start : stop + 1] - ends[start]
            first = np.repeat(X.indptr[order[start:stop]] - indptr[:-1], np.diff(indptr))
            at = first + np.arange(indptr[-1])
            data, indices = X.data[at], X.indices[at]
        u, t = np.empty(len(data), np.float32), np.empty(len(data))
        ker.stored_positions(data, indices, columns, kinds, u, t)
        T = np.empty((n, len(data)))
        if n and len(data):
            bases.basis(others[0]).fill(np.minimum(t, 1.0), T)
            T[:, t > 1.0] = 0.0
        yield start, stop, Stored(indices, np.asarray(indptr, np.int64), columns, kinds, u, t, T)
        start = stop


def _compressed(
    stored: Stored, dim: int, base: np.ndarray, fill: Callable[..., None], *tables: np.ndarray
) -> csr_matrix:
    width = np.diff(stored.columns.first)
    most = int(width[stored.indices].sum())
    values, places = np.empty(most), np.empty(most, np.int32)
    ends = np.empty(len(stored.indptr), np.int32)
    fill(*stored, base, *tables, values, places, ends)
    return compressed_matrix(values[: ends[-1]], places[: ends[-1]], ends, dim)


def margins(X: np.ndarray | Csr, bases: Bases, W: np.ndarray, F: np.ndarray) -> None:
    """`kernels.margins_rows`."""
    W = W.astype(np.float64, copy=False)
    for tile in tiles(X, bases):
        F[tile.start : tile.stop] = tile.margins(W).T


def gradient(
    X: np.ndarray | Csr,
    bases: Bases,
    loss: Loss,
    point: Any,
    y: np.ndarray,
    weight: np.ndarray,
    sums: Any,
) -> None:
    """`kernels.gradient_rows`, in float64."""
    code, W = loss_code(loss), point.W.astype(np.float64, copy=False)
    for tile in tiles(X, bases):
        F = np.ascontiguousarray(tile.margins(W))
        F += point.b[:, None]
        R, slope = np.empty_like(F), np.zeros(len(W))
        n = tile.stop - tile.start
        ker.tile_sums(code, F, y, weight, tile.start, n, R, sums.value, slope)
        sums.slope[:] += slope
        if len(sums.gradient):
            sums.gradient[:] += tile.sums(R, slope)


def gram(X: np.ndarray | Csr, bases: Bases, h: np.ndarray, r: np.ndarray, sums: Any) -> None:
    """`kernels.gram_rows`; sparse rows cost the squares of what they store."""
    for tile in [X.tile] if isinstance(X, WrittenRows) else tiles(X, bases):
        weight, target = h[tile.start : tile.stop], r[tile.start : tile.stop]
        sums.g[:] += tile.add_gram(weight, sums.H)
        if len(r):
            sums.b[:] += tile.sums(target[None], target.sum(keepdims=True))[0]


# Dual coordinate descent: in the features Psi the penalty is 1/2 |v|^2, v = R w.


def dual_epochs(
    X: np.ndarray | Csr,
    bases: Bases,
    descent: Descent,
    problem: Any,
    y: np.ndarray,
    weight: np.ndarray,
    orders: Iterable[np.ndarray],
    state: Any,
) -> None:
    """`DualEpochs.visit`: linear steps on the features of a tile of visits at a time."""
    roughness, reference = problem.roughness, problem.reference
    inverse = inverse_factors(bases, roughness)
    diagonal = diagonal_factors(bases, roughness)
    V = factor_times(bases, roughness, state.W)

    def visit(rows: ker.CompressedRows | ker.FeatureRows, visits: np.ndarray) -> None:
        visit_rows(rows, descent, y, weight, visits, state.alpha, state.b, UNSEEN)

    step = max(LEAST_ROWS, min(256, TILE_NBYTES // (8 * max(bases.dim, 1))))
    for order in orders:
        if isinstance(X, Csr):
            for start, stop, stored in _stored_tiles(X, bases, order):
                tables = inverse, roughness.table, diagonal
                A = _compressed(stored, bases.dim, reference.c, ker.stored_features, *tables)
                visit(ker.CompressedRows(A.data, A.indices, A.indptr, V), order[start:stop])
            continue
        for start in range(0, len(order), step):
            visits = order[start : start + step]
            for tile in tiles(np.ascontiguousarray(X[visits]), bases):
                Psi = features(tile.A, bases, roughness, inverse, diagonal, reference.c)
                visit(ker.FeatureRows(Psi, V), visits[tile.start : tile.stop])
    state.W[:] = _blocks_times(bases, roughness, inverse, V, transposed=False)


def inverse_factors(bases: Bases, roughness: Roughness) -> np.ndarray:
    """R^-1 of every column, where `roughness` holds R."""
    out, done = np.zeros_like(roughness.R), set()
    for d, n in enumerate(np.diff(bases.first)):
        begin = int(roughness.table[d])
        if n and begin not in done:
            block = slice(begin, begin + n * n)
            out[block] = np.linalg.inv(roughness.R[block].reshape(n, n)).ravel()
            done.add(begin)
    return out


def diagonal_factors(bases: Bases, roughness: Roughness) -> np.ndarray:
    """(p,) bool: the columns whose R is diagonal."""
    counts, parts = np.cumsum(np.append(0, roughness.R != 0.0)), np.diff(bases.first)
    filled: np.ndarray = counts[roughness.table + parts**2] - counts[roughness.table]
    return filled == parts


def factor_times(bases: Bases, roughness: Roughness, W: np.ndarray) -> np.ndarray:
    """(K, dim) R w of every column."""
    return _blocks_times(bases, roughness, roughness.R, W, transposed=False)


def _blocks_times(
    bases: Bases, roughness: Roughness, stack: np.ndarray, V: np.ndarray, *, transposed: bool
) -> np.ndarray:
    """Each column's matrix of `stack`, or its transpose, times its part of each row of V."""
    out = np.zeros_like(V)
    first = bases.first.tolist()
    for a, z, begin in zip(first[:-1], first[1:], roughness.table.tolist(), strict=True):
        n = z - a
        M = stack[begin : begin + n * n].reshape(n, n)
        out[:, a:z] = V[:, a:z] @ (M if transposed else M.T)
    return out


def features(
    Phi: np.ndarray,
    bases: Bases,
    roughness: Roughness,
    inverse: np.ndarray,
    diagonal: np.ndarray,
    c: np.ndarray,
) -> np.ndarray:
    """(n, dim) Psi = R^-T (Phi - c) in rows."""
    A = Phi - c
    out = np.empty((len(A), bases.dim))
    first = bases.first.tolist()
    for d, (a, z) in enumerate(zip(first[:-1], first[1:], strict=True)):
        n, begin = z - a, int(roughness.table[d])
        M = inverse[begin : begin + n * n].reshape(n, n)
        out[:, a:z] = A[:, a:z] * M.diagonal() if diagonal[d] else A[:, a:z] @ M
    return out


def embed(
    X: np.ndarray | Csr, bases: Bases, psi: tuple[Roughness, Reference] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """`kernels.embed_rows`: Phi or Psi of the rows; of sparse ones Psi alone, with c = Phi(0)."""
    dim, inverse, diagonal = bases.dim, np.empty(0), np.empty(0, bool)
    if psi is not None:
        inverse, diagonal = inverse_factors(bases, psi[0]), diagonal_factors(bases, psi[0])
    if isinstance(X, Csr):
        assert psi is not None  # of sparse rows Psi alone is asked for
        roughness, reference = psi
        tables = inverse, roughness.table, diagonal
        parts = [
            _compressed(stored, dim, reference.c, ker.stored_features, *tables)
            for _, _, stored in _stored_tiles(X, bases)
        ]
        A = vstack(parts, format="csr") if parts else csr_matrix((0, dim))
        return A.data, A.indices, A.indptr, dim
    m = len(X)
    data, block = np.empty((m, dim)), np.zeros((LEAST_ROWS, dim))
    for tile in tiles(X, bases):
        if psi is None:
            data[tile.start : tile.stop] = tile.A
            continue
        # blocks of one size: BLAS takes one path, and a row's bits do not depend on its batch
        for start in range(tile.start, tile.stop, LEAST_ROWS):
            stop = min(start + LEAST_ROWS, tile.stop)
            block[: stop - start] = tile.A[start - tile.start : stop - tile.start]
            Psi = features(block, bases, psi[0], inverse, diagonal, psi[1].c)
            data[start:stop] = Psi[: stop - start]
    indices = np.broadcast_to(np.arange(dim, dtype=np.int32), (m, dim)).ravel()
    return data.ravel(), indices, np.arange(m + 1, dtype=np.int64) * dim, dim
