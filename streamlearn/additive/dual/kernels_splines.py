"""Rows of splines, dense or sparse, of any degree: a visit looks their coefficients up.

A step of delta adds delta L (Phi - c) to each column's w.  That depends on L only through vectors
that sum to 0, as Phi - c does, for w matters up to a constant.  So one kind of L serves for all
penalties of an order:

    POINTS  L = s I             order 0      the two active coefficients (dense rows)
    RAMPS   L = s min(i, j)     order 1      w_i += delta s min(i, u), u the coordinate
    TABLES  any                 order 2      rows of a table (sparse rows: order 0 too)

Dense rows: L c is subtracted once, at the end.  Sparse rows, c = Phi(0): the table holds
(I - 1c')L(I - c1').  |Psi|^2 and t'Phi of a row are found once for all epochs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.bases.bsplines import basis_values
from ...numeric.jit import inlined, kernel
from ...numeric.rows.protocol import borrow, visit
from ...numeric.simd.add import add_pair, add_two_rows
from ...numeric.simd.prefetch import LINE, prefetch
from ...numeric.simd.ramps import add_ramp
from .kernels_codes import AHEAD, code_margin
from .kernels_tables import POINTS, RAMPS, Inverse, Padded

# Below, arrays come whole with unsigned offsets: a slice costs two atomic reference counts, a
# signed index a test for its sign, each as much as the arithmetic of a value.
ONE, TWO, FOUR = np.uintp(1), np.uintp(2), np.uintp(4)
PIECE = np.uintp(128)
"""Columns of a dense row that are visited together, to and fro: w is larger than the first cache,
which still holds what was visited last."""


class Active(NamedTuple):
    """The values of the current row that count, one entry each."""

    n: np.ndarray
    """(1,) uintp: how many there are."""
    column: np.ndarray
    """(most,) uintp: the value's column."""
    here: np.ndarray
    """(most,) uintp: the place of its first active spline's coefficient in w."""
    f: np.ndarray
    """(most,) float64: the fraction u - j, of rows of degree 1."""
    phi: np.ndarray
    """(4 most,) float64: its active splines, of rows of other degrees."""


class SplineRows(NamedTuple):
    """Coordinates of a chunk's rows, dense and row-major or sparse, and their coefficients."""

    u: np.ndarray
    """(m p,) or (nnz,) float32."""
    indices: np.ndarray
    """(nnz,) int32; dense: empty."""
    indptr: np.ndarray
    """(m + 1,) int64; dense: empty."""
    row_step: int
    """The coordinates of a dense row."""
    used: np.ndarray
    """(n,) uintp: the columns that are not constant."""
    last: np.ndarray
    """(p,) int32: the last interval of each column, -1 if it is constant."""
    degree: np.ndarray
    """(p,) intp."""
    linear: bool
    """Whether every column has degree 1."""
    inverse: Inverse
    padded: Padded
    norms: np.ndarray
    """(m, 2) float64: |Psi|^2 and t'Phi of every row."""
    total: float
    """The sum of all columns' c'L c."""
    active: Active

    def visit(self, order, t):
        """Look up where the row's splines lie."""
        i, n, active = np.uintp(order[t]), np.uintp(0), self.active
        if len(self.indptr) > 0:
            for at in range(np.uintp(self.indptr[i]), np.uintp(self.indptr[i + ONE])):
                d = np.uintp(self.indices[at])
                if self.last[d] >= 0:
                    set_active(self, n, d, self.u[at])
                    n += ONE
        else:
            n, begin = np.uintp(len(self.used)), i * np.uintp(self.row_step)
            for v in range(n):
                set_active(self, v, self.used[v], self.u[begin + self.used[v]])
        active.n[0] = n
        return i

    def norm2(self, i):
        """Return the row's |Psi|^2, found before."""
        return self.norms[i, 0]

    def dot(self, i, f):
        """Write the margins of every class in place."""
        padded, along = self.padded, self.norms[i, 1] - self.total
        for k in range(len(f)):
            z = look_up(self, np.uintp(k * padded.room))
            f[k] = z - padded.shift[k] - padded.steps[k] * along

    def add(self, i, step):
        """Add step L (Phi - c), less what is subtracted at the end, in place."""
        padded = self.padded
        for k in range(len(step)):
            if step[k] != 0.0:
                padded.shift[k] += step[k] * self.norms[i, 1]
                padded.steps[k] += step[k]
                add_columns(self, step[k], np.uintp(k * padded.room))


@inlined
def set_active(rows, v, d, u):
    """Write entry v of the current row, the coordinate u of column d, in place."""
    active, j = rows.active, min(np.int32(u), rows.last[d])
    if rows.linear:
        active.f[v] = u - np.float32(j)
    else:
        basis_values(u, rows.last[d] + 1, rows.degree[d], active.phi[FOUR * v :])
    active.column[v], active.here[v] = d, np.uintp(rows.padded.at[d]) + np.uintp(j)


@inlined
def look_up(rows, begin):
    """Return the current row's Phi'w of the class whose coefficients begin there."""
    w, here, f, n = rows.padded.w, rows.active.here, rows.active.f, rows.active.n[0]
    # two sums: the next addition does not wait for the last
    total, other = 0.0, 0.0
    if rows.linear:
        for v in range(np.uintp(0), n - n % TWO, TWO):
            at, to = begin + here[v], begin + here[v + ONE]
            total += w[at] + f[v] * (w[at + ONE] - w[at])
            other += w[to] + f[v + ONE] * (w[to + ONE] - w[to])
        if n % TWO > 0:
            at = begin + here[n - ONE]
            total += w[at] + f[n - ONE] * (w[at + ONE] - w[at])
        return total + other
    for v in range(n):
        at, phi = begin + here[v], FOUR * v
        for q in range(np.uintp(rows.degree[rows.active.column[v]] + 1)):
            total += rows.active.phi[phi + q] * w[at + q]
    return total


@inlined
def add_columns(rows, step, begin):
    """Add step L Phi of the current row to the coefficients of one class in place."""
    inverse, padded, active = rows.inverse, rows.padded, rows.active
    w, at, table = padded.w, padded.at, padded.table
    if inverse.kind == POINTS:
        for v in range(active.n[0]):
            whole, to = step * inverse.scale[active.column[v]], begin + active.here[v]
            part = whole * active.f[v]
            w[to] += whole - part
            w[to + ONE] += part
        return
    for v in range(active.n[0]):
        d = active.column[v]
        j = np.intp(active.here[v]) - at[d]
        if rows.linear:
            add_column(rows, d, j, active.f[v], step, np.intp(begin))
            continue
        to, stride = np.intp(begin) + at[d], at[d + ONE] - at[d]
        place = padded.begin[d] + j * stride
        degree, phi = rows.degree[d], FOUR * v
        a, b = active.phi[phi], active.phi[phi + ONE]
        add_two_rows(w, to, table, place, stride, step * a, step * b)
        if degree > 1:
            a = active.phi[phi + TWO]
            b = active.phi[phi + TWO + ONE] if degree == 3 else 0.0
            add_two_rows(w, to, table, place + 2 * stride, stride, step * a, step * b)


@inlined
def add_column(rows, d, j, f, step, begin):
    """Add step L Phi of a column of degree 1, at j + f, to the coefficients of a class in place."""
    padded, inverse = rows.padded, rows.inverse
    first, stride = padded.at[d], padded.at[d + ONE] - padded.at[d]
    if inverse.kind == RAMPS:
        add_ramp(padded.w, begin + first, stride, step * inverse.scale[d], np.float64(j) + f)
        return
    table, place = padded.table, padded.begin[d] + j * stride
    add_two_rows(padded.w, begin + first, table, place, stride, step * (1.0 - f), step * f)


@kernel
def measure_rows(rows, order):
    """Write |Psi|^2 and t'Phi of the rows of `order`, the intercept left out, in place."""
    rows = borrow(rows)
    active, inverse, padded, phi = rows.active, rows.inverse, rows.padded, np.zeros(4)
    for t in range(len(order)):
        i = visit(rows, order, t)
        norm, along = rows.total, 0.0
        for v in range(active.n[0]):
            d = active.column[v]
            j = np.intp(active.here[v]) - padded.at[d]
            if rows.linear:
                phi[0], phi[1] = 1.0 - active.f[v], active.f[v]
            else:
                for q in range(rows.degree[d] + 1):
                    phi[q] = active.phi[FOUR * v + np.uintp(q)]
            norm += square(rows, d, j, phi)
            if len(inverse.t) > 0:
                for q in range(rows.degree[d] + 1):
                    along += phi[q] * inverse.t[inverse.first[d] + j + q]
        rows.norms[i, 0], rows.norms[i, 1] = norm - 2.0 * along, along


@inlined
def square(rows, d, j, phi):
    """Return phi'L phi of the splines from number j of column d on."""
    inverse, padded = rows.inverse, rows.padded
    if inverse.kind == POINTS:
        return inverse.scale[d] * (phi[0] * phi[0] + phi[1] * phi[1])
    if inverse.kind == RAMPS:
        return inverse.scale[d] * (j + phi[1] * phi[1])
    stride, total = padded.at[d + 1] - padded.at[d], 0.0
    for q in range(rows.degree[d] + 1):
        for s in range(rows.degree[d] + 1):
            total += phi[q] * phi[s] * padded.table[padded.begin[d] + (j + q) * stride + j + s]
    return total


class DenseRows(NamedTuple):
    """`SplineRows` that are dense, of degree 1 and of one class: half the time of the general form.

    A row's places and fractions take a quarter of the bytes, and only a row that is moved and has
    ramps or tables looks up the rest.
    """

    splines: SplineRows
    first: np.ndarray
    """(p,) int32: where each column begins in w."""
    scale: np.ndarray
    """(n,) s of each column that is not constant."""
    slot: np.ndarray
    """(n,) uint32: the places of the current row's coefficients."""
    f: np.ndarray
    """(n,) float32: its fractions."""
    sums: np.ndarray
    """The sum of each piece."""
    pairs: np.ndarray
    """(2 PIECE,) float64: what a piece's columns are moved by."""
    up: np.ndarray
    """(1,) bool: whether the next pieces are visited from the first to the last."""

    def visit(self, order, t):
        """Write the row's places and fractions in place, and ask for a later row."""
        rows = self.splines
        if t + AHEAD < len(order):
            begin = order[t + AHEAD] * rows.row_step
            for v in range(begin, begin + rows.row_step, LINE // rows.u.itemsize):
                prefetch(rows.u, v)
        u, used, first, slot, f = rows.u, rows.used, self.first, self.slot, self.f
        i, n = np.uintp(order[t]), np.uintp(len(used))
        begin = i * np.uintp(rows.row_step)
        if n == np.uintp(rows.row_step):  # every column counts: eight values at a time
            for d in range(n):
                j = np.int32(u[begin + d])
                slot[d], f[d] = np.uint32(first[d] + j), u[begin + d] - np.float32(j)
            return i
        for v in range(n):
            d = used[v]
            j = np.int32(u[begin + d])
            slot[v], f[v] = np.uint32(first[d] + j), u[begin + d] - np.float32(j)
        return i

    def norm2(self, i):
        """Return the row's |Psi|^2, found before."""
        return self.splines.norms[i, 0]

    def dot(self, i, f):
        """Write the row's margin in place."""
        rows, n, sums = self.splines, np.uintp(len(self.splines.used)), self.sums
        padded, slot, part, up = rows.padded, self.slot, self.f, self.up[0]
        for b in range((n + PIECE - ONE) // PIECE):
            begin, end = piece_of(b, n, up)
            sums[begin // PIECE] = code_margin(slot, part, padded.w, begin, end)
        z = 0.0
        for b in range((n + PIECE - ONE) // PIECE):
            z += sums[b]
        self.up[0] = not up
        f[0] = z - padded.shift[0] - padded.steps[0] * (rows.norms[i, 1] - rows.total)

    def add(self, i, step):
        """Add step L (Phi - c), less what is subtracted at the end, in place."""
        rows, n, delta = self.splines, np.uintp(len(self.splines.used)), step[0]
        w, slot, f, pairs, up = rows.padded.w, self.slot, self.f, self.pairs, self.up[0]
        rows.padded.shift[0] += delta * rows.norms[i, 1]
        rows.padded.steps[0] += delta
        if rows.inverse.kind != POINTS:
            begin = i * np.uintp(rows.row_step)
            for v in range(n):
                d = rows.used[v]
                j = np.int32(rows.u[begin + d])
                x = np.float64(rows.u[begin + d] - np.float32(j))
                add_column(rows, d, np.intp(j), x, delta, np.intp(0))
            return
        for b in range((n + PIECE - ONE) // PIECE):
            begin, end = piece_of(b, n, up)
            for v in range(begin, end):
                whole, at = delta * self.scale[v], TWO * (v - begin)
                part = whole * np.float64(f[v])
                pairs[at], pairs[at + ONE] = whole - part, part
            for v in range(begin, end):
                add_pair(w, np.intp(slot[v]), pairs, np.intp(TWO * (v - begin)))
        self.up[0] = not up


@inlined
def piece_of(b, n, up):
    """Return where piece b of n columns begins and ends, counted from the last if not `up`."""
    last = (n - ONE) // PIECE
    begin = PIECE * (np.uintp(b) if up else last - np.uintp(b))
    return begin, min(begin + PIECE, n)
