"""Dual epochs over sparse rows held in memory, each value as a place and a fraction.

A spline of degree 1 at u = j + f is w_j + f (w_{j+1} - w_j), so a value is the place of w_j among
the coefficients of all columns, 2 or 4 bytes, and f, 4 bytes.  Where 0 is a column's first
breakpoint f(0) = w_0 = 0, which no step changes.  Steps are those of
`kernels_splines`, of these kinds of L:

    POINTS  L = s I but for the value at 0     order 0     the one or two active coefficients
    RAMPS   L = s min(i, j)                    order 1     w_i += delta s min(i, u)

Of K > 1 classes `CLASSES` at most lie side by side and are visited together; groups of them know
nothing of each other, so that each may have a thread of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.bases.bsplines import coordinate
from ...numeric.jit import inlined, kernel
from ...numeric.simd import gather as lanes
from ...numeric.simd.gather import (
    CLASSES,
    add_lanes,
    add_pairs,
    add_ramp_lanes,
    add_steps,
    pair_lanes,
    pair_sum,
)
from ...numeric.simd.prefetch import LINE, prefetch
from ...passes.summary.counts.kernels_bytes import BYTES, as_byte
from .kernels_tables import POINTS, RAMPS

ONE, PAIRS = np.uintp(1), np.uintp(lanes.PAIRS)
AHEAD = 2
"""Rows that are asked for before their visit: 1 or 4 gain half as much."""
MOST_PLACES = 1 << 31


class Codes(NamedTuple):
    """Rows as places and fractions."""

    slot: np.ndarray
    """uint16 if they suffice, else uint32: the place of w_j."""
    f: np.ndarray
    """float32."""
    place: np.ndarray
    """(m, 2) int64: where a row's values begin and end."""


class Spans(NamedTuple):
    """Places of each column's coefficients."""

    kind: int
    at: np.ndarray
    """(p + 1,) intp: the place of column d's first coefficient."""
    scale: np.ndarray
    """(p,) float64 s."""


class Places(NamedTuple):
    """Facts of each place that a step needs."""

    kind: int
    scale: np.ndarray
    """(places,) s of its column, in the coefficients' dtype; POINTS: 0 of each first place."""
    first: np.ndarray
    """(places,) int32: the place of its column's first coefficient."""
    room: np.ndarray
    """(places,) int32: places of its column that a ramp is added to."""
    width: int
    """Lanes of a place: 1, or `CLASSES` if there are several classes."""


class Known(NamedTuple):
    """Codes of the values 0 to 255, of which bytes are; or empty.

    Columns of equal breakpoints and scales share a row, so that those of pixels stay in the caches.
    """

    row: np.ndarray
    """(p,) intp: the column's row of the others, -1 if it is constant."""
    j: np.ndarray
    """(r, 256) uint8 if they suffice, else uint32."""
    f: np.ndarray
    """(r, 256) float32."""
    square: np.ndarray
    """(r, 256) float64: what it adds to |Psi|^2."""


@inlined
def code_of(x, columns, spans, d):
    """Return (j, f) of a value of column d, and what it adds to |Psi|^2."""
    u = coordinate(x, columns, d)
    j = min(np.int32(u), np.int32(columns.n_intervals[d] - 1))
    part = u - np.float32(j)
    if spans.kind == RAMPS:
        low = np.float64(j)
    else:
        rest = 1.0 - part if j > 0 else 0.0  # no branch: it would be guessed wrong half the time
        low = rest * rest
    return j, part, spans.scale[d] * (np.float64(part) * part + low)


@kernel
def byte_codes(columns, spans, row, first, j):
    """Return the `Known` whose row r is that of column first[r], with `j` to hold its places."""
    n = len(first)
    f, square = np.zeros((n, BYTES), np.float32), np.zeros((n, BYTES))
    for r in range(n):
        for x in range(BYTES):
            code = code_of(columns.knots.dtype.type(x), columns, spans, first[r])
            j[r, x], f[r, x], square[r, x] = code
    return Known(row, j, f, square)


@kernel
def encode(data, indices, indptr, columns, known, spans, start, slot, f, place, norms):
    """Write the rows as `Codes`, from `start` of `slot` and `f` on, and |Psi|^2; all in place."""
    for i in range(len(indptr) - 1):
        to = np.uintp(start + indptr[i])
        place[i, 0] = to
        a, b, c, e = 0.0, 0.0, 0.0, 0.0  # in turn: one addition does not wait for the last
        for v in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            d, x = np.uintp(indices[v]), data[v]
            if known.row[d] < 0:
                continue
            byte = as_byte(x) if len(known.f) > 0 else np.int32(-1)
            if byte >= 0:
                r, at = np.uintp(known.row[d]), np.uintp(byte)
                j, part, square = np.int32(known.j[r, at]), known.f[r, at], known.square[r, at]
            else:
                j, part, square = code_of(x, columns, spans, d)
            slot[to], f[to] = slot.dtype.type(spans.at[d] + j), part
            a, b, c, e = b, c, e, a + square
            to += ONE
        place[i, 1], norms[i] = to, (a + b) + (c + e)


@inlined
def ask_for(codes, i):
    """Have the codes of row i brought near."""
    begin, end = codes.place[i, 0], codes.place[i, 1]
    for v in range(begin, end, LINE // codes.slot.itemsize):
        prefetch(codes.slot, v)
    for v in range(begin, end, LINE // codes.f.itemsize):
        prefetch(codes.f, v)


@inlined
def code_margin(slot, f, w, begin, end):
    """Return one class's sum over a row's values."""
    last = begin + (end - begin) // PAIRS * PAIRS
    total = pair_sum(w, slot, f, begin, last)
    for v in range(last, end):
        k = np.uintp(slot[v])
        total += w[k] + w.dtype.type(f[v]) * (w[k + ONE] - w[k])
    return np.float64(total)


@inlined
def code_step(places, slot, f, w, begin, end, delta):
    """Add delta L (Phi - c) of one class to its coefficients in place."""
    step, scale = w.dtype.type(delta), places.scale
    if places.kind == POINTS:
        add_pairs(w, scale, slot, f, begin, end, step)
    else:
        first, room = places.first, places.room
        for v in range(begin, end):
            k = np.uintp(slot[v])
            u = w.dtype.type(np.intp(k) - first[k]) + w.dtype.type(f[v])
            add_ramp_lanes(w, first[k], room[k], step * scale[k], u)


@inlined
def step_lanes(places, slot, f, w, begin, end, step):
    """`code_step` of classes side by side."""
    scale, width, one = places.scale, np.intp(CLASSES), w.dtype.type(1)
    if places.kind == POINTS:
        for v in range(begin, end):
            k, part = np.intp(slot[v]), w.dtype.type(f[v])
            add_lanes(w, k * width, step, scale[k] * (one - part))
            add_lanes(w, (k + 1) * width, step, scale[k + 1] * part)
    else:
        first, room = places.first, places.room
        for v in range(begin, end):
            k = np.intp(slot[v])
            u = w.dtype.type(k - first[k]) + w.dtype.type(f[v])
            add_steps(w, first[k] * width, room[k], step, scale[k], u)


class CodeRows(NamedTuple):
    """Rows of codes and the coefficients of one class."""

    codes: Codes
    places: Places
    norms: np.ndarray
    """(m,) |Psi|^2 of every row."""
    w: np.ndarray
    """(places,) float32 or float64."""

    def visit(self, order, t):
        """Ask for a later row."""
        if t + AHEAD < len(order):
            ask_for(self.codes, np.uintp(order[t + AHEAD]))
        return np.uintp(order[t])

    def norm2(self, i):
        """Return the row's |Psi|^2, found before."""
        return self.norms[i]

    def dot(self, i, f):
        """Write the row's margin in place."""
        codes = self.codes
        begin, end = np.uintp(codes.place[i, 0]), np.uintp(codes.place[i, 1])
        f[0] = code_margin(codes.slot, codes.f, self.w, begin, end)

    def add(self, i, step):
        """Add step L (Phi - c) in place."""
        codes = self.codes
        begin, end = np.uintp(codes.place[i, 0]), np.uintp(codes.place[i, 1])
        code_step(self.places, codes.slot, codes.f, self.w, begin, end, step[0])


class ClassRows(NamedTuple):
    """Rows of codes and the coefficients of at most `CLASSES` classes, side by side."""

    codes: Codes
    places: Places
    norms: np.ndarray
    """(m,) |Psi|^2 of every row."""
    w: np.ndarray
    """(places CLASSES,) float32 or float64."""
    sums: np.ndarray
    """(CLASSES,) room for the margins, in the dtype of w."""
    step: np.ndarray
    """(CLASSES,) room for the steps, in the dtype of w; 0 where there is no class."""

    def visit(self, order, t):
        """Ask for a later row."""
        if t + AHEAD < len(order):
            ask_for(self.codes, np.uintp(order[t + AHEAD]))
        return np.uintp(order[t])

    def norm2(self, i):
        """Return the row's |Psi|^2, found before."""
        return self.norms[i]

    def dot(self, i, f):
        """Write the margins of every class in place."""
        codes = self.codes
        begin, end = codes.place[i, 0], codes.place[i, 1]
        pair_lanes(self.w, codes.slot, codes.f, begin, end, self.sums)
        for k in range(len(f)):
            f[k] = self.sums[k]

    def add(self, i, step):
        """Add step L (Phi - c) in place."""
        codes = self.codes
        for k in range(len(step)):
            self.step[k] = step[k]
        begin, end = codes.place[i, 0], codes.place[i, 1]
        step_lanes(self.places, codes.slot, codes.f, self.w, begin, end, self.step)


@kernel
def move_mean(mean, now, rate):
    """Move `mean` towards `now` by `rate` in place."""
    for i in range(len(mean)):
        mean[i] += rate * (np.float64(now[i]) - mean[i])


@kernel
def force_sums(codes, first, last, force, V):
    """Add force Phi of rows first:last to `V` (K, places) in place; `force` (m, K)."""
    slot, f = codes.slot, codes.f
    for i in range(first, last):
        begin, end = np.uintp(codes.place[i, 0]), np.uintp(codes.place[i, 1])
        for k in range(len(V)):
            r = force[i, k]
            if r != 0.0:
                for v in range(begin, end):
                    at = np.uintp(slot[v])
                    part = r * f[v]
                    V[k, at] += r - part
                    V[k, at + ONE] += part
