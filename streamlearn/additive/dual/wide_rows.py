"""Dual epochs over wide dense rows, a block of visits at a time, columns shared out to threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeAlias

import numpy as np

from .kernels_blocks import ROWS, Block, Centring, Looked, WideRows, pass_block, step_block
from .kernels_epoch import Descent
from .kernels_splines import SplineRows
from .kernels_tables import POINTS, TABLES

WIDE_NBYTES = 1 << 20
"""Coefficients of a class from which epochs go a block of rows at a time: the second caches'."""
PART_COLUMNS, MOST_PARTS = 4096, 8
"""Least columns of a part of them, which has a thread of its own, and most parts."""
NO_PRODUCTS = np.empty((0, 0))

Each: TypeAlias = Callable[..., Iterable]
"""`map`, or that of a pool of threads."""


class WideEpochs:
    """Visits of dense rows by blocks, columns shared out to threads in parts; same bits for any."""

    def __init__(self, X: np.ndarray, splines: SplineRows, n_threads: int) -> None:
        used, padded, self._splines = splines.used, splines.padded, splines
        n, K = len(used), len(padded.shift)
        self._rows = WideRows(
            u=X,
            used=used,
            first=padded.at[used].astype(np.uint32),
            length=np.diff(padded.at)[used],
            last=splines.last[used].astype(np.float32),
            scale=splines.inverse.scale[used],
            kind=splines.inverse.kind,
            w=padded.w,
            room=padded.room,
        )
        n_parts = max(min(n // PART_COLUMNS, MOST_PARTS), 1)
        ends = [n * i // n_parts for i in range(n_parts + 1)]
        self._parts = list(zip(ends[:-1], ends[1:], strict=True))
        self._n_threads = min(n_threads, n_parts)
        self._z, self._products = np.zeros((n_parts, K, ROWS)), np.zeros((n_parts, ROWS, ROWS))

    def visit(
        self,
        orders: Iterable[np.ndarray],
        descent: Descent,
        targets: tuple[np.ndarray, np.ndarray],
        alpha: np.ndarray,
        b: np.ndarray,
    ) -> None:
        """`DualEpochs.visit`, `alpha` and `b` in place; w stays padded, and lacks its centring."""
        rows, K = self._splines, len(b)
        centring = Centring(rows.norms, rows.total, rows.padded.shift, rows.padded.steps)
        done = empty_block(K)
        with self._threads() as each:
            for order in orders:
                for start in range(0, len(order), ROWS):
                    now = order[start : start + ROWS]
                    block = Block(now, np.zeros((K, len(now))))
                    looked = self._look(each, self._rows, done, block)
                    step_block(centring, descent, *targets, block, looked, alpha, b)
                    done = block
            self._look(each, self._rows, done, empty_block(K))

    def measure(self) -> None:
        """Write every row's |Psi|^2 and t'Phi, the intercept left out."""
        rows = self._splines
        of_t = self._rows_of(np.tile(rows.inverse.t, (self._z.shape[1], 1)))
        for block, looked in self._look_at_all(of_t, products=True):
            n = len(block.order)
            along, square = looked.z[0, :n], looked.products.diagonal()[:n]
            rows.norms[block.order, 0] = rows.total + square - 2.0 * along
            rows.norms[block.order, 1] = along

    def margins(self, W: np.ndarray) -> np.ndarray:
        """(m, K) Phi W' of coefficients (K, dim)."""
        F = np.empty((len(self._splines.norms), len(W)))
        for block, looked in self._look_at_all(self._rows_of(W), products=False):
            F[block.order] = looked.z[:, : len(block.order)].T
        return F

    def sums(self, A: np.ndarray) -> np.ndarray:
        """(K, dim) sum a Phi of the rows' `A` (m, K): steps of which L is the identity."""
        total = np.zeros((A.shape[1], int(self._splines.inverse.first[-1])))
        rows = self._rows_of(total)._replace(kind=POINTS, scale=np.ones(len(self._rows.used)))
        with self._threads() as each:
            for block in self._blocks():
                done = block._replace(step=np.ascontiguousarray(A[block.order].T))
                self._look(each, rows, done, empty_block(len(total)), products=False)
        return total

    def _rows_of(self, W: np.ndarray) -> WideRows:
        """The rows with coefficients (K, dim) as bases have them: not padded."""
        W = np.ascontiguousarray(W)
        first = self._splines.inverse.first[self._splines.used].astype(np.uint32)
        return self._rows._replace(first=first, w=W.reshape(-1), room=W.shape[1])

    def _blocks(self) -> Iterator[Block]:
        """All rows in blocks of neighbours, without steps."""
        n_rows, K = len(self._rows.u), self._z.shape[1]
        for start in range(0, n_rows, ROWS):
            order = np.arange(start, min(start + ROWS, n_rows))
            yield Block(order, np.zeros((K, len(order))))

    def decisions(self, b: np.ndarray) -> np.ndarray:
        """(m, K) f of the rows as the last visit left them."""
        rows, padded = self._splines, self._splines.padded
        F = np.empty((len(rows.norms), len(b)))
        for block, looked in self._look_at_all(self._rows, products=False):
            n, away = len(block.order), rows.norms[block.order, 1] - rows.total
            F[block.order] = looked.z[:, :n].T - padded.shift - np.outer(away, padded.steps) + b
        return F

    def _threads(self) -> AbstractContextManager[Each]:
        """A context that gives what calls a function for each part."""
        if self._n_threads == 1:
            return nullcontext(map)
        return _PoolMap(self._n_threads)

    def _look_at_all(self, rows: WideRows, *, products: bool) -> Iterator[tuple[Block, Looked]]:
        """Blocks of neighbouring rows with what a look finds of them."""
        none = empty_block(self._z.shape[1])
        with self._threads() as each:
            for block in self._blocks():
                yield block, self._look(each, rows, none, block, products=products)

    def _look(
        self,
        each: Each,
        rows: WideRows,
        done: Block,
        block: Block,
        *,
        products: bool = True,
    ) -> Looked:
        """Add the steps of `done`, then look at `block`: sums over the parts, in their order."""
        parts = range(len(self._parts))
        list(each(partial(self._look_at_part, rows, done, block, products), parts))
        return Looked(self._z.sum(axis=0), self._products.sum(axis=0))

    def _look_at_part(
        self, rows: WideRows, done: Block, block: Block, products: bool, part: int
    ) -> None:
        looked = Looked(self._z[part], self._products[part] if products else NO_PRODUCTS)
        pass_block(rows, *self._parts[part], done, block, looked)


class _PoolMap:
    """A context that gives the `map` of a pool of threads."""

    def __init__(self, n_threads: int) -> None:
        self._pool = ThreadPoolExecutor(n_threads)

    def __enter__(self) -> Each:
        return self._pool.map

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown()


def has_products(rows: SplineRows) -> bool:
    """Whether blocks of rows can be visited: dense ones of degree 1, of a simple kind of L."""
    return rows.linear and rows.inverse.kind != TABLES and len(rows.indptr) == 0


def empty_block(n_classes: int) -> Block:
    """The block of no rows."""
    return Block(np.empty(0, np.intp), np.zeros((n_classes, 0)))
