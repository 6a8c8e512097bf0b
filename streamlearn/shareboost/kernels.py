"""Compiled sums of products of the selected features, of rows that are mostly 0."""

from __future__ import annotations

from ..numeric.jit import kernel


@kernel
def add_sparse_products(A, W, first, second, at, value, out):
    """Add sum_i W[i, p] a_i a_i' to out[first[p], :, second[p], :] for each p, in place.

    A (m, n) in any order, W (m, P), out (K, n, J, n).  Only what is not 0 in a row is multiplied,
    so a row costs n loads and P times the square of their number; `at` (n,) intp and `value` (n,)
    are room for them.
    """
    for i in range(A.shape[0]):
        some = 0
        for j in range(A.shape[1]):
            x = A[i, j]
            if x != 0:
                at[some] = j
                value[some] = x
                some += 1
        for p in range(len(first)):
            w = W[i, p]
            if w != 0:
                k, q = first[p], second[p]
                for a in range(some):
                    c, x = at[a], w * value[a]
                    for b in range(some):
                        out[k, c, q, at[b]] += x * value[b]
