"""Penalised fits from banded sums: the GCV cost of many directions, by the band alone."""

from __future__ import annotations

import numpy as np

from ...numeric.jit import inlined, kernel

SURE = 1e-12
"""Of its diagonal that a pivot must keep: rounding then is 1e-4 of it."""


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
