"""Cubic splines on equal intervals: sums over rows by interval, values, and the cost by GCV.

A row has four active splines; its sums go to its interval's own place, four numbers at a time, and
what intervals have in common is added at the end: rows of neighbouring intervals do not wait for
each other's sums.
"""

from __future__ import annotations

import numpy as np

from ...numeric.bases.splines import POLYNOMIALS
from ...numeric.jit import inlined, kernel
from ...numeric.simd.quads import add_multiple
from ..kernels import place_column

TILE = 128
"""Rows whose places are found before they are added."""
CUBIC = POLYNOMIALS[3].copy()
"""[a, q]: the coefficient of f^q in the a-th active spline."""
LANES = 40
"""Penalties that are tried at once: a whole number of vectors that is at least `GRID`."""
SURE = 1e-12
"""Share of its diagonal that a pivot must keep, so that rounding is 1e-4 of it."""


@inlined
def active(f):
    """Return the values of the four active splines at place f of an interval."""
    g = 1.0 - f
    f2, g2 = f * f, g * g
    p1 = 0.5 * f * f2 - f2 + 2.0 / 3.0
    p2 = 0.5 * g * g2 - g2 + 2.0 / 3.0
    return g * g2 / 6.0, p1, p2, f * f2 / 6.0


@inlined
def places(t, start, n, low, scale, m, width, at, f):
    """Write `width` times the interval of t[start:start + n], and the place in it, in place."""
    top, last = float(m), np.int32(m - 1)
    for i in range(n):
        u = min(max((t[start + i] - low) * scale, 0.0), top)
        j = min(np.int32(u), last)
        f[i] = u - j
        at[i] = width * j


@kernel
def add_by_interval(t, low, high, w, wr, sums):
    """Add a row's w p q of all active splines p, q, and wr p, to sums[20 interval:] in place."""
    m = len(sums) // 20
    scale = m / (high - low)
    at, f = np.empty(TILE, np.int32), np.empty(TILE)
    for start in range(0, len(t), TILE):
        n = min(TILE, len(t) - start)
        places(t, start, n, low, scale, m, np.int32(20), at, f)
        for i in range(n):
            k, a = np.intp(at[i]), w[start + i]
            p0, p1, p2, p3 = active(f[i])
            add_multiple(sums, k, a * p0, p0, p1, p2, p3)
            add_multiple(sums, k + 4, a * p1, p0, p1, p2, p3)
            add_multiple(sums, k + 8, a * p2, p0, p1, p2, p3)
            add_multiple(sums, k + 12, a * p3, p0, p1, p2, p3)
            add_multiple(sums, k + 16, wr[start + i], p0, p1, p2, p3)


@kernel
def add_splines(t, low, high, w, wr, gram, moment):
    """Add sum w Phi Phi' (banded, (n, 4)) and sum wr Phi (n,) of cubic splines at t, in place.

    gram[j, d] is the product of splines j and j + d.
    """
    m = len(moment) - 3
    sums = np.zeros(20 * m)
    add_by_interval(t, low, high, w, wr, sums)
    for j in range(m):
        for a in range(4):
            for b in range(a, 4):
                gram[j + a, b - a] += sums[20 * j + 4 * a + b]
            moment[j + a] += sums[20 * j + 16 + a]


@kernel
def add_cross(t, low, high, t2, low2, high2, w, out):
    """Add sum w Phi(t) Phi(t2)' to `out` (n, n2), in place."""
    m, m2 = out.shape[0] - 3, out.shape[1] - 3
    scale, scale2 = m / (high - low), m2 / (high2 - low2)
    sums = np.zeros(16 * m * m2)
    at, f = np.empty(TILE, np.int32), np.empty(TILE)
    at2, g = np.empty(TILE, np.int32), np.empty(TILE)
    for start in range(0, len(t), TILE):
        n = min(TILE, len(t) - start)
        places(t, start, n, low, scale, m, np.int32(16 * m2), at, f)
        places(t2, start, n, low2, scale2, m2, np.int32(16), at2, g)
        for i in range(n):
            k, a = np.intp(at[i]) + np.intp(at2[i]), w[start + i]
            p0, p1, p2, p3 = active(f[i])
            q0, q1, q2, q3 = active(g[i])
            add_multiple(sums, k, a * p0, q0, q1, q2, q3)
            add_multiple(sums, k + 4, a * p1, q0, q1, q2, q3)
            add_multiple(sums, k + 8, a * p2, q0, q1, q2, q3)
            add_multiple(sums, k + 12, a * p3, q0, q1, q2, q3)
    for j in range(m):
        for c in range(m2):
            for a in range(4):
                for b in range(4):
                    out[j + a, c + b] += sums[16 * (j * m2 + c) + 4 * a + b]


@kernel
def spline_values(t, low, high, theta, out):
    """Add the cubic spline with coefficients `theta` at t to `out`, in place."""
    m = len(theta) - 3
    scale = m / (high - low)
    table = np.empty(4 * m)
    for j in range(m):
        for q in range(4):
            total = 0.0
            for a in range(4):
                total += CUBIC[a, q] * theta[j + a]
            table[4 * j + q] = total
    at, f = np.empty(TILE, np.int32), np.empty(TILE)
    for start in range(0, len(t), TILE):
        n = min(TILE, len(t) - start)
        places(t, start, n, low, scale, m, np.int32(4), at, f)
        for i in range(n):
            k, x = np.uintp(at[i]), f[i]
            high_part = table[k + np.uintp(2)] + x * table[k + np.uintp(3)]
            out[start + i] += table[k] + x * (table[k + np.uintp(1)] + x * high_part)


@kernel
def splines_of_columns(rows, live, columns, w, wr, gram, moment):
    """Add `add_splines` of the rows placed by each column of `live`, (c, n, 4) and (c, n)."""
    t = np.empty(rows.n_rows)
    for k in range(len(live)):
        low, high = place_column(rows, live[k], columns, t)
        add_splines(t, low, high, w, wr, gram[k], moment[k])


@kernel
def splines_of_cells(cells, at, shift, low, high, gram, moment):
    """Write `add_splines` of the cells of table `at` for each move: gram (k, n, 4), moment (k, n).

    Both in place.
    """
    t = w = wr = np.empty(0)
    for k in range(len(shift)):
        first, stop = cells.ends[at[k]], cells.ends[at[k] + 1]
        if k == 0 or at[k] != at[k - 1]:
            t = np.empty(stop - first)
            w, wr = cells.pair[first:stop, 0].copy(), cells.pair[first:stop, 1].copy()
        for i in range(len(t)):
            t[i] = cells.s[first + i] + shift[k] * cells.z[first + i]
        add_splines(t, low[k], high[k], w, wr, gram[k], moment[k])


@kernel
def least_gcv(band, b, P, mus, ridge, rr, n, gamma, least, cost, theta):
    """Write the least GCV cost over the penalties mus (k, g) P, and its fit, of each direction.

    band (k, B, 4) and P (B, 4) are the diagonals of G and P and those above, b (k, B), ridge (k,)
    is added to G; cost (k,) and theta (k, B) are written in place; g is at most LANES.  A cost is
    NaN where rounding decides about it: of rows with hardly another projection.
    """
    B, n_mus = b.shape[1], mus.shape[1]
    G, A, of_rows = np.zeros((B, 4)), np.zeros(5 * LANES * (B + 3)), np.zeros((9, LANES))
    mu, rss, df, sure = np.zeros((4, LANES))
    for k in range(len(b)):
        for i in range(B):
            for d in range(4):
                G[i, d] = band[k, i, d] if i + d < B else 0.0
            G[i, 0] += ridge[k]
        for q in range(LANES):
            mu[q] = mus[k, min(q, n_mus - 1)]
        fill_lanes(G, P, b[k], mu, A)
        eliminate(A, G, P, mu, ridge[k], sure)
        substitute(A, G, b[k], of_rows, rss, df)
        cost[k], best, all_sure = np.inf, 0, True
        for q in range(n_mus):
            left = max(1.0 - gamma * df[q] / n, least)
            value = max(rr + rss[q], 0.0) / (left * left)
            all_sure = all_sure and sure[q] > 0.0
            if value < cost[k]:
                cost[k], best = value, q
        if not all_sure:
            cost[k] = np.nan
        for i in range(B):
            theta[k, i] = lane(A, i, 4)[best]


@inlined
def lane(A, i, d):
    """Return the numbers of all penalties: entry (i, i + d) of the matrix, or b's if d = 4."""
    at = np.uintp(LANES * (5 * i + d))
    return A[at : at + np.uintp(LANES)]


@inlined
def fill_lanes(G, P, b, mu, A):
    """Write G + mu P and b of all penalties into A, and zeros beyond the last row."""
    A[5 * LANES * len(b) :] = 0.0
    for i in range(len(b)):
        for d in range(4):
            g, p, out = G[i, d], P[i, d], lane(A, i, d)
            for q in range(LANES):
                out[q] = g + mu[q] * p
        out = lane(A, i, 4)
        for q in range(LANES):
            out[q] = b[i]


@inlined
def eliminate(A, G, P, mu, least, sure):
    """Factorise A = L D L' of all penalties in place, and solve L D x = b; `sure`: 0 or 1 of each.

    By the outer products of its columns, and for all penalties at once, so that it vectorises.
    Only rounding takes a pivot below the ridge, `least`.
    """
    sure[:] = 1.0
    for i in range(len(G)):
        a0, a1, a2, a3, x = (
            lane(A, i, 0),
            lane(A, i, 1),
            lane(A, i, 2),
            lane(A, i, 3),
            lane(A, i, 4),
        )
        b0, b1, b2, y = lane(A, i + 1, 0), lane(A, i + 1, 1), lane(A, i + 1, 2), lane(A, i + 1, 4)
        c0, c1, z, d0, u = (
            lane(A, i + 2, 0), lane(A, i + 2, 1), lane(A, i + 2, 4),
            lane(A, i + 3, 0), lane(A, i + 3, 4),
        )  # fmt: skip
        g, p = G[i, 0], P[i, 0]
        for q in range(LANES):
            pivot, r1, r2, r3, r = a0[q], a1[q], a2[q], a3[q], x[q]
            sure[q] = sure[q] if pivot > SURE * (g + mu[q] * p) else 0.0
            inverse = 1.0 / max(pivot, least)
            l1, l2, l3 = r1 * inverse, r2 * inverse, r3 * inverse
            b0[q] -= l1 * r1
            b1[q] -= l1 * r2
            b2[q] -= l1 * r3
            c0[q] -= l2 * r2
            c1[q] -= l2 * r3
            d0[q] -= l3 * r3
            y[q] -= l1 * r
            z[q] -= l2 * r
            u[q] -= l3 * r
            a0[q], a1[q], a2[q], a3[q], x[q] = inverse, l1, l2, l3, r * inverse


@inlined
def substitute(A, G, b, of_rows, rss, df):
    """Write the solutions into A, x'G x - 2 b'x and tr A^-1 G of all penalties, in place.

    The entries of A^-1 within the band follow from the last row to the first (Takahashi, Fagan &
    Chin 1973); `of_rows` (9, LANES) is room for those of three rows.
    """
    of_rows[:], rss[:], df[:] = 0.0, 0.0, 0.0
    y1, y2, y3 = of_rows[0], of_rows[1], of_rows[2]
    # of A^-1: row i + 1 has z11, z12, z13, row i + 2 has z22, z23, row i + 3 has z33
    z11, z12, z13 = of_rows[3], of_rows[4], of_rows[5]
    z22, z23, z33 = of_rows[6], of_rows[7], of_rows[8]
    for i in range(len(b) - 1, -1, -1):
        a0, a1, a2, a3, x = (
            lane(A, i, 0),
            lane(A, i, 1),
            lane(A, i, 2),
            lane(A, i, 3),
            lane(A, i, 4),
        )
        g0, g1, g2, g3, twice = G[i, 0], G[i, 1], G[i, 2], G[i, 3], 2.0 * b[i]
        for q in range(LANES):
            inverse, l1, l2, l3 = a0[q], a1[q], a2[q], a3[q]
            x1, x2, x3 = y1[q], y2[q], y3[q]
            w11, w12, w13, w22, w23, w33 = z11[q], z12[q], z13[q], z22[q], z23[q], z33[q]
            x0 = x[q] - (l1 * x1 + l2 * x2 + l3 * x3)
            w01 = -(l1 * w11 + l2 * w12 + l3 * w13)
            w02 = -(l1 * w12 + l2 * w22 + l3 * w23)
            w03 = -(l1 * w13 + l2 * w23 + l3 * w33)
            w00 = inverse - (l1 * w01 + l2 * w02 + l3 * w03)
            df[q] += g0 * w00 + 2.0 * (g1 * w01 + g2 * w02 + g3 * w03)
            rss[q] += x0 * (g0 * x0 + 2.0 * (g1 * x1 + g2 * x2 + g3 * x3) - twice)
            x[q], y1[q], y2[q], y3[q] = x0, x0, x1, x2
            z11[q], z12[q], z13[q], z22[q], z23[q], z33[q] = w00, w01, w02, w11, w12, w22
