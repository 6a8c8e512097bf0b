"""Compiled loops: scores of rows, residuals by bin, and rows by their distance to anchors."""

from __future__ import annotations

import numpy as np

from ...numeric.jit import kernel, sum_kernel


@sum_kernel
def score_rows(V, W, b, out):
    """Set out (m, K) to b + V W', each row by itself: no answer depends on its neighbours."""
    for i in range(V.shape[0]):
        for k in range(W.shape[0]):
            total = 0.0
            for j in range(V.shape[1]):
                total += V[i, j] * W[k, j]
            out[i, k] = b[k] + total


@kernel
def count_rows(X, edges, first, R, share, sums, low, high):
    """Add rows to bins, in place: bin k of column j holds edges[k-1] < x <= edges[k].

    A row of sums (n_bins, K + 2) is the residuals, the share, and the residuals' absolute sum; low
    and high (n_bins,) are the extreme values.  The bins of column j begin at first[j]; it has one
    edge fewer than bins.
    """
    m, p = X.shape
    K = R.shape[1]
    for j in range(p):
        start = first[j] - j
        stop = first[j + 1] - j - 1
        for i in range(m):
            if share[i] > 0:
                x = X[i, j]
                a, z = start, stop
                while a < z:
                    mid = (a + z) >> 1
                    if x <= edges[mid]:
                        z = mid
                    else:
                        a = mid + 1
                bin = a + j
                for k in range(K):
                    sums[bin, k] += R[i, k]
                    sums[bin, K + 1] += abs(R[i, k])
                sums[bin, K] += share[i]
                low[bin] = min(low[bin], x)
                high[bin] = max(high[bin], x)


@kernel
def running_sums(sums, ends):
    """Replace the rows of each column, between `ends`, by their running sums, in place."""
    for j in range(len(ends) - 1):
        for i in range(ends[j] + 1, ends[j + 1]):
            for k in range(sums.shape[1]):
                sums[i, k] += sums[i - 1, k]


@sum_kernel
def distances_to(x, anchor):
    """|x - anchor|^2, in the dtype of x."""
    total = x[0] * 0
    for j in range(len(x)):
        total += (x[j] - anchor[j]) * (x[j] - anchor[j])
    return total


@sum_kernel
def least_above(limits, d):
    """The place of the first of ascending limits that is above d; their number if none is.

    It has no branch, because a few dozen comparisons cost less than one wrong prediction of one.
    """
    n = 0
    for k in range(len(limits)):
        n += d >= limits[k]
    return n


@kernel
def weigh_rows(X, anchors, limits, soft, out):
    """Set out (m, q) to 1[d < limits[k]], soft: 1 - d / limits[k] there; d = |x - anchors[k]|^2."""
    for i in range(X.shape[0]):
        for k in range(len(anchors)):
            d = distances_to(X[i], anchors[k])
            out[i, k] = 0
            if d < limits[k]:
                out[i, k] = 1 - d / limits[k] if soft else 1


@kernel
def sum_by_radius(X, V, R, anchors, limits, inner, sums):
    """Add R_ik V_i to sums (n_anchors, n_radii, K, w) at the least limit above the row.

    V are the rows X with a 1 and zeros, w or more of them; limits (n_anchors, n_radii) ascend, rows
    beyond the last are in no piece of that anchor.  If sums have 2K in place of K, the other K are
    |x_i - anchor|^2 R_ik V_i.  To stay in the cache, anchors come one after another, each first in
    the dtype of V in `inner` (n_radii, K, as wide as V), and rows of one radius come together.
    """
    m, w = V.shape
    n, K = limits.shape[1], R.shape[1]
    soft = inner.shape[1] > K
    squares, radius, order = np.empty(m, X.dtype), np.empty(m, np.intp), np.empty(m, np.intp)
    ends = np.empty(n + 2, np.intp)
    for a in range(len(anchors)):
        inner[:] = 0
        anchor, mine = anchors[a], limits[a]
        ends[:] = 0
        for i in range(m):
            squares[i] = distances_to(X[i], anchor)
            radius[i] = least_above(mine, squares[i])
            ends[radius[i] + 1] += 1
        for lo in range(n):
            ends[lo + 1] += ends[lo]
        for i in range(m):
            order[ends[radius[i]]] = i
            ends[radius[i]] += 1
        for at in range(ends[n - 1]):
            i = order[at]
            lo, d = radius[i], squares[i]
            for k in range(K):
                r = R[i, k]
                for j in range(w):
                    inner[lo, k, j] += r * V[i, j]
            if soft:
                for k in range(K):
                    r = d * R[i, k]
                    for j in range(w):
                        inner[lo, K + k, j] += r * V[i, j]
        sums[a] += inner[:, :, : sums.shape[3]]


@kernel
def gather_radii(sums, total, limits, mean, l1):
    """Turn sums by least radius (n_anchors, n_radii, K or 2K, w) into gradients, in place.

    Those of pieces, or of soft ones, are then sums[:, :, :K]; l1 (n_anchors, n_radii, w) is
    sum_k |gradient - total_k mean|.
    """
    n_anchors, n, n_sums, w = sums.shape
    K = len(total)
    l1[:] = 0.0
    for a in range(n_anchors):
        for lo in range(1, n):
            for k in range(n_sums):
                for j in range(w):
                    sums[a, lo, k, j] += sums[a, lo - 1, k, j]
        for lo in range(n):
            for k in range(K):
                for j in range(w):
                    if n_sums > K and limits[a, lo] > 0:
                        sums[a, lo, k, j] -= sums[a, lo, K + k, j] / limits[a, lo]
                    l1[a, lo, j] += abs(sums[a, lo, k, j] - total[k] * mean[a, lo, j])


@kernel
def add_squares(X, V, share, anchors, limits, sums):
    """Add share_i v d^s, s < S, and share_i v^2 d^s, s < 2S - 1, of V to sums (.., 3S - 1, w).

    d = |x_i - anchor|^2; S is 1, or 2 for soft pieces; the rest is as in `sum_by_radius`.
    """
    n, w = limits.shape[1], sums.shape[3]
    S = (sums.shape[2] + 1) // 3
    for a in range(len(anchors)):
        anchor, mine = anchors[a], limits[a]
        for i in range(V.shape[0]):
            d = distances_to(X[i], anchor)
            lo = least_above(mine, d)
            if lo < n:
                r = share[i]
                for s in range(2 * S - 1):
                    for j in range(w):
                        v = float(V[i, j])
                        if s < S:
                            sums[a, lo, s, j] += r * v
                        sums[a, lo, S + s, j] += r * v * v
                    r *= d


@kernel
def score_pieces(V, weights, U, work, which, Z):
    """Add to Z (m, K) the scores of pieces: of row i, V_i (p,) times the weighted sum of U.

    Most weights (m, q) of the pieces are 0; U (q, p K) has the classes' coefficients of a column
    beside one another; work (p K,) and which (q + 1,) are overwritten.
    """
    K = Z.shape[1]
    for i in range(V.shape[0]):
        n = list_pieces(weights, i, which)
        work[:] = 0.0
        for k in range(n):
            piece, weight = U[which[k]], weights[i, which[k]]
            for j in range(len(work)):
                work[j] += weight * piece[j]
        for j in range(V.shape[1]):
            v = V[i, j]
            for c in range(K):
                Z[i, c] += v * work[j * K + c]


@kernel
def sum_pieces(V, R, weights, work, which, out):
    """Add each row's V_i times R_i (K,), weighted, to out (q, p K); see `score_pieces`."""
    K = R.shape[1]
    for i in range(V.shape[0]):
        n = list_pieces(weights, i, which)
        for j in range(V.shape[1]):
            v = V[i, j]
            for c in range(K):
                work[j * K + c] = v * R[i, c]
        for k in range(n):
            piece, weight = out[which[k]], weights[i, which[k]]
            for j in range(len(work)):
                piece[j] += weight * work[j]


@kernel
def list_pieces(weights, i, which):
    """Write the pieces that row i is in to `which`, without a branch; return their number."""
    n = 0
    for k in range(weights.shape[1]):
        which[n] = k
        n += weights[i, k] > 0
    return n
