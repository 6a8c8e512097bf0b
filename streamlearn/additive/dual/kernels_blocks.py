"""Dual epochs over dense rows whose coefficients outgrow the caches: a block of visits at a time.

A visit looks all coefficients up and then changes them: with a million of them that is two trips to
memory a row.  A block of visits makes them once.  With z the decisions of its rows as the block
begins and G their products in the metric of L,

    step t takes  z_t + sum_(q < t) delta_q G_qt,

and all steps are added when the next block looks its rows up, a piece of the columns at a time:
the visits, their order and their steps are those of `kernels_epoch.visit_rows`, to rounding.  The
products of degree 1, at u and v with fractions f and g, need no table (see `kernels_splines`):

    RAMPS   s min(u, v), of one interval less s min(f, g) (1 - max(f, g))
    POINTS  s times what (1 - f, f) and (1 - g, g) have on common places
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.jit import inlined, kernel, sum_kernel
from ...numeric.simd.ramps import add_ramps
from .kernels_codes import code_margin
from .kernels_step import class_target, dual_step, stays_at_zero
from .kernels_tables import POINTS

ROWS = 16
"""Visits of a block: their products cost as much a value as a look-up, more would cost more."""
PIECE = 128
"""Columns whose coefficients and coordinates of a block's rows fill the first cache."""
ONE = np.uintp(1)


class WideRows(NamedTuple):
    """Dense rows of degree 1, and coefficients of every class."""

    u: np.ndarray
    """(m, p) float32 coordinates."""
    used: np.ndarray
    """(n,) uintp: the columns that are not constant."""
    first: np.ndarray
    """(n,) uint32: where each of them begins in w."""
    length: np.ndarray
    """(n,) intp: its coefficients, ramps' in whole vectors."""
    last: np.ndarray
    """(n,) float32: its last interval."""
    scale: np.ndarray
    """(n,) float64 s."""
    kind: int
    w: np.ndarray
    """(K room + 1,) float64."""
    room: int
    """Coefficients of a class."""


class Block(NamedTuple):
    """Rows that are visited one after the other, and their steps."""

    order: np.ndarray
    """(n,) intp row numbers, at most `ROWS`."""
    step: np.ndarray
    """(K, n) float64."""


class Looked(NamedTuple):
    """Sums over a part of the columns that a look at a block's rows finds, written in place."""

    z: np.ndarray
    """(K, ROWS) Phi'w."""
    products: np.ndarray
    """(ROWS, ROWS) Phi'L Phi of each pair, on and above the diagonal; (0, 0): not wanted."""


class Centring(NamedTuple):
    """Numbers that Psi = Phi - c takes off Phi'w and the products: see `Padded`, `SplineRows`."""

    norms: np.ndarray
    """(m, 2) |Psi|^2 and t'Phi of every row."""
    total: float
    shift: np.ndarray
    steps: np.ndarray


@kernel
def pass_block(rows, begin, end, done, block, looked):
    """Add the steps of the block `done` to columns begin..end, then look `block` up there.

    The coefficients and `looked` in place.
    """
    u, whole = np.empty((ROWS, PIECE), np.float32), np.empty((ROWS, PIECE), np.float32)
    f, slot = np.empty((ROWS, PIECE), np.float32), np.empty(PIECE, np.uint32)
    scale, wide = np.empty(PIECE, np.float32), np.empty((ROWS, PIECE))
    looked.z[:] = 0.0
    looked.products[:] = 0.0
    for piece in range(begin, end, PIECE):
        start, n = np.uintp(piece), np.uintp(min(PIECE, end - piece))
        if len(done.order) > 0:
            load_piece(rows, start, n, done.order, u, whole, f)
            wide[:] = u
            for k in range(len(done.step)):
                add_piece(rows, start, n, k, done.step[k], wide, whole, f)
        if len(block.order) == 0:
            continue
        load_piece(rows, start, n, block.order, u, whole, f)
        for v in range(n):
            scale[v] = np.float32(rows.scale[start + v])
        for r in range(len(block.order)):
            for k in range(len(looked.z)):
                room = np.uint32(k * rows.room)
                for v in range(n):
                    slot[v] = room + rows.first[start + v] + np.uint32(np.int32(whole[r, v]))
                looked.z[k, r] += code_margin(slot, f[r], rows.w, np.uintp(0), n)
            for q in range(r, len(block.order) if len(looked.products) > 0 else r):
                if rows.kind == POINTS:
                    product = point_products(whole[r], f[r], whole[q], f[q], scale, n)
                else:
                    product = ramp_products(whole[r], f[r], whole[q], f[q], scale, n)
                looked.products[r, q] += product


@kernel
def step_block(centring, descent, y, weight, block, looked, alpha, b):
    """Minimise the block's dual variables one after the other, in place.

    Written to are `centring`'s sums, `block.step`, `looked.z`, `alpha` and `b`.
    """
    norms, shift, steps = centring.norms, centring.shift, centring.steps
    for t in range(len(block.order)):
        row = np.uintp(block.order[t])
        s = weight[row] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        away, norm = norms[row, 1] - centring.total, norms[row, 0] + descent.bias
        for k in range(len(b)):
            z = b[k] + (looked.z[k, t] - shift[k] - steps[k] * away)
            target = class_target(y[row], k, len(b))
            if stays_at_zero(descent.rule, alpha[row, k], target, z):
                continue
            C = descent.C * s
            step = dual_step(descent.rule, C, alpha, row, k, len(b), target, z, norm)
            block.step[k, t] = step
            b[k] += step * descent.bias
            shift[k] += step * norms[row, 1]
            steps[k] += step
            for q in range(t + 1, len(block.order)):
                looked.z[k, q] += step * looked.products[t, q]


@inlined
def load_piece(rows, start, n, order, u, whole, f):
    """Write coordinates, intervals and fractions of the rows of `order` in place."""
    for r in range(len(order)):
        row = np.uintp(order[r])
        if len(rows.used) == rows.u.shape[1]:  # sixteen values at a time
            for v in range(n):
                u[r, v] = rows.u[row, start + v]
        else:
            for v in range(n):
                u[r, v] = rows.u[row, rows.used[start + v]]
        for v in range(n):
            whole[r, v] = min(np.float32(np.int32(u[r, v])), rows.last[start + v])
            f[r, v] = u[r, v] - whole[r, v]


@inlined
def add_piece(rows, start, n, k, step, u, whole, f):
    """Add the steps of class k to the coefficients of a piece's columns in place."""
    w, room = rows.w, np.uintp(k * rows.room)
    for v in range(n):
        at, scale = room + np.uintp(rows.first[start + v]), rows.scale[start + v]
        if rows.kind != POINTS:
            add_ramps(w, np.intp(at), rows.length[start + v], scale, step, u, np.intp(v))
            continue
        for r in range(len(step)):
            delta = step[r] * scale
            to, part = at + np.uintp(whole[r, v]), delta * np.float64(f[r, v])
            w[to] += delta - part
            w[to + ONE] += part


@sum_kernel
def ramp_products(j, f, i, g, scale, n):
    """Return the sum of phi'L phi of two rows of a piece, L = s min(i, j)."""
    total = np.float32(0)
    for v in range(n):
        low = min(j[v] + f[v], i[v] + g[v])
        cut = min(f[v], g[v]) - f[v] * g[v]
        total += scale[v] * (low - (cut if j[v] == i[v] else np.float32(0)))
    return np.float64(total)


@sum_kernel
def point_products(j, f, i, g, scale, n):
    """Return the sum of phi'L phi of two rows of a piece, L = s I."""
    total = np.float32(0)
    for v in range(n):
        same = (np.float32(1) - f[v]) * (np.float32(1) - g[v]) + f[v] * g[v]
        after, before = f[v] * (np.float32(1) - g[v]), g[v] * (np.float32(1) - f[v])
        away = i[v] - j[v]
        near = same if away == 0 else np.float32(0)
        near = after if away == 1 else near
        near = before if away == -1 else near
        total += scale[v] * near
    return np.float64(total)
