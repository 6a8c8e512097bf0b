"""Compiled loops: scores of rows, counts of residuals by bin, rows by their distance to anchors."""

from __future__ import annotations

from ..numeric.jit import kernel, sum_kernel


@sum_kernel
def score_rows(V, W, b, out):
    """out (m, K) = b + V W', each row by itself, so that no answer depends on its neighbours."""
    for i in range(V.shape[0]):
        for k in range(W.shape[0]):
            total = 0.0
            for j in range(V.shape[1]):
                total += V[i, j] * W[k, j]
            out[i, k] = b[k] + total


@kernel
def count_rows(X, edges, first, R, share, sums, low, high):
    """Add rows to bins, in place: bin k of column j holds edges[k-1] < x <= edges[k].

    sums (n_bins, K + 2): residuals, shares, residuals' absolute sum; low, high (n_bins,): values.
    `first` (p + 1,) says which bins are whose; a column's edges are one fewer than its bins.
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


@sum_kernel
def distances_to(x, anchor):
    """|x - anchor|^2, in x's own arithmetic."""
    total = x[0] * 0
    for j in range(len(x)):
        total += (x[j] - anchor[j]) * (x[j] - anchor[j])
    return total


@kernel
def least_above(limits, d):
    """The first of ascending limits that is above d, which is below the last."""
    lo, hi = 0, len(limits) - 1
    while lo < hi:
        mid = (lo + hi) >> 1
        if d < limits[mid]:
            hi = mid
        else:
            lo = mid + 1
    return lo


@kernel
def flag_rows(X, anchors, limits, out):
    """out (m, q) uint8: whether |x - anchors[k]|^2 < limits[k]."""
    for i in range(X.shape[0]):
        for k in range(len(anchors)):
            out[i, k] = distances_to(X[i], anchors[k]) < limits[k]


@kernel
def sum_by_radius(X, R, anchors, limits, sums):
    """Add R_ik (x_i, 1) to sums (n_anchors, n_limits, K, p + 1) at the least limit above the row.

    Limits ascend; rows beyond the last are in no piece of that anchor.  Anchors one after another,
    so that the sums of one stay in the cache.
    """
    m, p = X.shape
    n = len(limits)
    K = R.shape[1]
    for a in range(len(anchors)):
        for i in range(m):
            d = distances_to(X[i], anchors[a])
            if d < limits[n - 1]:
                lo = least_above(limits, d)
                for k in range(K):
                    r = R[i, k]
                    for j in range(p):
                        sums[a, lo, k, j] += r * X[i, j]
                    sums[a, lo, k, p] += r


@kernel
def add_squares(X, R, anchors, limits, sums):
    """Add R_i (x_i, 1) and R_i (x_i^2, 1) to sums (n_anchors, n_limits, 2, p + 1); R is (m, 1)."""
    m, p = X.shape
    n = len(limits)
    for a in range(len(anchors)):
        for i in range(m):
            r = R[i, 0]
            d = distances_to(X[i], anchors[a])
            if d < limits[n - 1]:
                lo = least_above(limits, d)
                for j in range(p):
                    x = float(X[i, j])
                    sums[a, lo, 0, j] += r * x
                    sums[a, lo, 1, j] += r * x * x
                sums[a, lo, 0, p] += r
                sums[a, lo, 1, p] += r


@kernel
def score_pieces(V, flags, U, work, Z):
    """Add to Z (m, K) the scores of pieces: of row i, V_i (p,) times the sum of its pieces' U.

    flags (m, q); U (q, p K), the classes' coefficients of a column beside one another; work (p K,).
    """
    K = Z.shape[1]
    for i in range(V.shape[0]):
        work[:] = 0.0
        for k in range(flags.shape[1]):
            if flags[i, k]:
                for j in range(len(work)):
                    work[j] += U[k, j]
        for j in range(V.shape[1]):
            v = V[i, j]
            for c in range(K):
                Z[i, c] += v * work[j * K + c]
