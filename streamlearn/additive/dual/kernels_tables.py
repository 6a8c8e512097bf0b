"""The coefficients and tables of a dual epoch, padded, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.jit import kernel
from ...numeric.simd.add import ROW


class Padded(NamedTuple):
    """Coefficients and tables with rows padded for `add_two_rows`."""

    w: np.ndarray
    """(K room + ROW,) float64; a value at its column's end looks one place too far."""
    room: int
    at: np.ndarray
    """(p + 1,) where each column begins in w."""
    table: np.ndarray
    """Stacked matrices, row length ``at[d + 1] - at[d]``, one row of zeros after each."""
    begin: np.ndarray
    """(p,) where column d's matrix begins; columns with equal ones share it."""
    shift: np.ndarray
    """(K,) c'w of centred columns, all together."""
    steps: np.ndarray
    """(K,) sum of the steps, which w still lacks t times."""


@kernel
def pad_coefficients(columns, c, centred, W, row):
    """Return `Padded` without tables; sparse rows: w of each column less that of its first.

    `row`: columns are padded to multiples of it; unpadded ones stay in the first cache.
    """
    p, K = len(columns.degree), len(W)
    at = np.zeros(p + 1, np.intp)
    for d in range(p):
        n = columns.first[d + 1] - columns.first[d]
        at[d + 1] = at[d] + (n + row - 1) // row * row
    w, shift = np.zeros(K * at[p] + ROW), np.zeros(K)
    for k in range(K):
        for d in range(p):
            first, n = columns.first[d], columns.first[d + 1] - columns.first[d]
            low = W[k, first] if n > 0 and not centred else 0.0
            for j in range(n):
                w[k * at[p] + at[d] + j] = W[k, first + j] - low
                shift[k] += c[first + j] * W[k, first + j] if centred else 0.0
    return Padded(w, at[p], at, np.zeros(0), np.zeros(p, np.intp), shift, np.zeros(K))


@kernel
def pad_rows(columns, roughness, c, centred, W):
    """Return `Padded`: of L if `centred`, else of (I - 1c')L(I - c1') and w less c'w."""
    p = len(columns.degree)
    at, begin, size = np.zeros(p + 1, np.intp), np.zeros(p, np.intp), 0
    for d in range(p):
        n = columns.first[d + 1] - columns.first[d]
        at[d + 1] = at[d] + (n + ROW - 1) // ROW * ROW
        begin[d] = -1
        for e in range(d):
            if begin[d] < 0 and same_table(columns, roughness.table, c, centred, d, e):
                begin[d] = begin[e]
        if begin[d] < 0:
            begin[d] = size
            size += (n + 1) * (at[d + 1] - at[d])
    w, table, t = np.zeros(len(W) * at[p] + ROW), np.zeros(size), np.zeros(at[p])
    all_shifts = np.zeros(len(W))
    for d in range(p):
        first, stride, L = columns.first[d], at[d + 1] - at[d], roughness.table[d]
        n, s = columns.first[d + 1] - first, 0.0
        for i in range(0 if centred else n):
            t[i] = 0.0
            for j in range(n):
                t[i] += roughness.L[L + i * n + j] * c[first + j]
            s += c[first + i] * t[i]
        for i in range(n):
            for j in range(n):
                shift = 0.0 if centred else s - t[i] - t[j]
                table[begin[d] + i * stride + j] = roughness.L[L + i * n + j] + shift
        for k in range(len(W)):
            shift = 0.0
            for j in range(0 if centred else n):
                shift += c[first + j] * W[k, first + j]
            for j in range(n if centred else 0):
                all_shifts[k] += c[first + j] * W[k, first + j]
            for j in range(n):
                w[k * at[p] + at[d] + j] = W[k, first + j] - shift
    return Padded(w, at[p], at, table, begin, all_shifts, np.zeros(len(W)))


@kernel
def same_table(columns, table, c, centred, d, e):
    """Return whether columns d and e have the same matrix."""
    a, b = columns.first[d], columns.first[e]
    n = columns.first[d + 1] - a
    if table[d] != table[e] or n != columns.first[e + 1] - b:
        return False
    if not centred:
        for j in range(n):
            if c[a + j] != c[b + j]:
                return False
    return True


@kernel
def restore_constants(columns, roughness, w, room, at, W):
    """Write w plus each column's constant into `W` in place: w = L v with 1'v = 0, so 1'Pw = 0."""
    for d in range(len(columns.degree)):
        first = columns.first[d]
        n = columns.first[d + 1] - first
        sums, whole = np.zeros(n), 0.0
        for i in range(n):
            for j in range(n):
                sums[j] += roughness.P[roughness.table[d] + i * n + j]
        for j in range(n):
            whole += sums[j]
        for k in range(len(W)):
            total = 0.0
            for j in range(n):
                total += sums[j] * w[k * room + at[d] + j]
            for j in range(n):
                W[k, first + j] = w[k * room + at[d] + j] - total / whole
