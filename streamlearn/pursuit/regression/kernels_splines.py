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

TILE = 128
"""Rows whose places are found before they are added."""
CUBIC = POLYNOMIALS[3].copy()
"""[a, q]: the coefficient of f^q in the a-th active spline."""
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
def splines_of_cells(s, z, pair, shift, low, high, gram, moment):
    """Write `add_splines` of the cells for each move: gram (k, n, 4), moment (k, n), in place."""
    t = np.empty(len(s))
    w, wr = pair[:, 0].copy(), pair[:, 1].copy()
    for k in range(len(shift)):
        for i in range(len(s)):
            t[i] = s[i] + shift[k] * z[i]
        add_splines(t, low[k], high[k], w, wr, gram[k], moment[k])


@kernel
def least_gcv(band, b, P, mus, ridge, rr, n, gamma, least, cost, theta):
    """Write the least GCV cost over the penalties mus (k, g) P, and its fit, of each direction.

    band (k, B, 4) and P (B, 4) are the diagonals of G and P and those above, b (k, B), ridge (k,)
    is added to G; cost (k,) and theta (k, B) are written in place.  A cost is NaN where rounding
    decides about it: of rows with hardly another projection.
    """
    B = b.shape[1]
    G, A, y, best = np.zeros((B + 3, 4)), np.zeros((B + 3, 4)), np.zeros(B + 3), np.zeros(B)
    whole = np.empty(B)
    for k in range(len(b)):
        for i in range(B):
            for d in range(4):
                G[i, d] = band[k, i, d] if i + d < B else 0.0
            G[i, 0] += ridge[k]
        cost[k] = np.inf
        for mu in mus[k]:
            for i in range(B):
                for d in range(4):
                    A[i, d] = G[i, d] + mu * P[i, d]
                y[i], whole[i] = b[k, i], A[i, 0]
            rss, df, sure = fit_band(G, A, y, b[k], whole, ridge[k])
            left = max(1.0 - gamma * df / n, least)
            value = max(rr + rss, 0.0) / (left * left)
            if not sure:
                cost[k] = np.nan
                break
            if value < cost[k]:
                cost[k] = value
                for i in range(B):
                    best[i] = y[i]
        for i in range(B):
            theta[k, i] = best[i]


@inlined
def fit_band(G, A, y, b, whole, least):
    """Solve A x = b in place of y = b; return x'G x - 2 b'x, tr A^-1 G and whether to trust them.

    Bands (B + 3, 4), beyond B all 0; A is overwritten, `whole` (B,) is its diagonal.  A = L D L' by
    the outer products of its columns; only rounding takes a pivot below the ridge, `least`.  The
    entries of A^-1 within the band follow from the last row to the first (Takahashi, Fagan & Chin
    1973).
    """
    B, sure = len(b), True
    for i in range(B):
        sure = sure and A[i, 0] > SURE * whole[i]
        a1, a2, a3 = A[i, 1], A[i, 2], A[i, 3]
        inverse = 1.0 / max(A[i, 0], least)
        l1, l2, l3 = a1 * inverse, a2 * inverse, a3 * inverse
        A[i + 1, 0] -= l1 * a1
        A[i + 1, 1] -= l1 * a2
        A[i + 1, 2] -= l1 * a3
        A[i + 2, 0] -= l2 * a2
        A[i + 2, 1] -= l2 * a3
        A[i + 3, 0] -= l3 * a3
        r = y[i]
        y[i + 1] -= l1 * r
        y[i + 2] -= l2 * r
        y[i + 3] -= l3 * r
        y[i] = r * inverse
        A[i, 0], A[i, 1], A[i, 2], A[i, 3] = inverse, l1, l2, l3
    rss, df = 0.0, 0.0
    y1, y2, y3 = 0.0, 0.0, 0.0
    # of A^-1: row i + 1 has z11, z12, z13, row i + 2 has z22, z23, row i + 3 has z33
    z11, z12, z13, z22, z23, z33 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(B - 1, -1, -1):
        inverse, l1, l2, l3 = A[i, 0], A[i, 1], A[i, 2], A[i, 3]
        y0 = y[i] - (l1 * y1 + l2 * y2 + l3 * y3)
        y[i] = y0
        z01 = -(l1 * z11 + l2 * z12 + l3 * z13)
        z02 = -(l1 * z12 + l2 * z22 + l3 * z23)
        z03 = -(l1 * z13 + l2 * z23 + l3 * z33)
        z00 = inverse - (l1 * z01 + l2 * z02 + l3 * z03)
        g0, g1, g2, g3 = G[i, 0], G[i, 1], G[i, 2], G[i, 3]
        df += g0 * z00 + 2.0 * (g1 * z01 + g2 * z02 + g3 * z03)
        rss += y0 * (g0 * y0 + 2.0 * (g1 * y1 + g2 * y2 + g3 * y3) - 2.0 * b[i])
        y1, y2, y3 = y0, y1, y2
        z11, z12, z13, z22, z23, z33 = z00, z01, z02, z11, z12, z22
    # what was taken off the rows beyond the last
    for i in range(B, B + 3):
        y[i] = 0.0
        for d in range(4):
            A[i, d] = 0.0
    return rss, df, sure
