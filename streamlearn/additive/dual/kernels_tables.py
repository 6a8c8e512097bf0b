"""The coefficients and tables of dual epochs, padded, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.jit import kernel
from ...numeric.simd.add import ROW

POINTS, RAMPS, TABLES = 0, 1, 2
"""Kinds of L, the inverse of a penalty; see `kernels_splines`."""


class Inverse(NamedTuple):
    """L of all columns, up to what no row sees."""

    kind: int
    scale: np.ndarray
    """(p,) s of every column."""
    t: np.ndarray
    """(dim,) L c of the centred columns; empty for sparse rows, whose c is the value at 0."""
    s: np.ndarray
    """(p,) c'L c of the centred columns; zeros for sparse rows."""
    first: np.ndarray
    """(p + 1,) where each column begins in t."""


class Padded(NamedTuple):
    """Coefficients and tables with rows padded for `add_two_rows`."""

    w: np.ndarray
    """(K room + ROW,) float64; a value at its column's end looks one place too far."""
    room: int
    """Coefficients of a class."""
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
def pad_rows(columns, roughness, c, centred, kind, W):
    """Return `Padded`: of L if `centred`, else of (I - 1c')L(I - c1') and w less c'w.

    Only TABLES have tables.  Columns of POINTS are not padded: so they stay in the first cache.
    """
    p, row = len(columns.degree), 1 if kind == POINTS else ROW
    at, begin, size = np.zeros(p + 1, np.intp), np.zeros(p, np.intp), 0
    for d in range(p):
        n = columns.first[d + 1] - columns.first[d]
        at[d + 1] = at[d] + (n + row - 1) // row * row
        begin[d] = -1
        for e in range(d if kind == TABLES else 0):
            if begin[d] < 0 and same_table(columns, roughness.table, c, centred, d, e):
                begin[d] = begin[e]
        if begin[d] < 0:
            begin[d] = size
            size += (n + 1) * (at[d + 1] - at[d]) if kind == TABLES else 0
    w, table, t = np.zeros(len(W) * at[p] + ROW), np.zeros(size), np.zeros(at[p])
    shifts = np.zeros(len(W))
    for d in range(p):
        first, stride, L = columns.first[d], at[d + 1] - at[d], roughness.table[d]
        n, s = columns.first[d + 1] - first, 0.0
        if kind == TABLES:
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
            for j in range(n):
                shift += c[first + j] * W[k, first + j]
            if centred:
                shifts[k] += shift
            for j in range(n):
                w[k * at[p] + at[d] + j] = W[k, first + j] - (0.0 if centred else shift)
    return Padded(w, at[p], at, table, begin, shifts, np.zeros(len(W)))


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
def restore_rows(roughness, inverse, padded, W):
    """Write the padded coefficients plus each column's constant into `W` in place.

    They are w = L v with 1'v = 0, so that 1'Pw = 0.
    """
    at, w, first = padded.at, padded.w, roughness.first
    for d in range(len(roughness.table)):
        n, whole = first[d + 1] - first[d], 0.0
        sums = np.zeros(n)
        for i in range(n):
            for j in range(n):
                sums[j] += roughness.P[roughness.table[d] + i * n + j]
        for j in range(n):
            whole += sums[j]
        for k in range(len(W)):
            total, begin = 0.0, k * padded.room + at[d]
            for j in range(n):
                if len(inverse.t) > 0:
                    w[begin + j] -= padded.steps[k] * inverse.t[first[d] + j]
                total += sums[j] * w[begin + j]
            padded.shift[k] -= padded.steps[k] * inverse.s[d]
            for j in range(n):
                W[k, first[d] + j] = w[begin + j] - total / whole
    padded.steps[:] = 0.0
