"""Cached rows move together, in place, when some of them leave."""

from __future__ import annotations

from ...numeric.jit import kernel


@kernel
def keep_dense(keep, X):
    """Move the rows of `X` that are to `keep` to its first rows, in their order and in place."""
    to = 0
    for i in range(len(keep)):
        if keep[i]:
            if to < i:
                X[to] = X[i]
            to += 1


@kernel
def keep_sparse(keep, data, indices, indptr):
    """Move the rows that are to `keep` to the front of the three arrays, in place."""
    to, at, begin = 0, indptr[0], indptr[0]
    for i in range(len(keep)):
        end = indptr[i + 1]
        if keep[i]:
            for v in range(begin, end):
                data[at], indices[at] = data[v], indices[v]
                at += 1
            to += 1
            indptr[to] = at
        begin = end
