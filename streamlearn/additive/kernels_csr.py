"""Sparse rows: an absent value is 0, its splines are c = Phi(0), cost O(values stored).

Sums over all columns are restored from those over stored values: with A = Phi - c the margins are
c'W + A W, and since the splines of a column sum to 1, the part of sum r Phi that absent values owe
is (sum r - sum of the stored part) c.
"""

from __future__ import annotations

import numpy as np

from ..numeric.bsplines import as_columns, basis_values, coordinate
from ..numeric.jit import kernel
from .kernels_dense import row_slopes


@kernel
def coordinates(data, indices, indptr, columns, out):
    """Write every stored value's coordinate into `out` float32 in place."""
    for at in range(len(data)):
        d = indices[at]
        known = columns.first[d + 1] > columns.first[d]
        out[at] = coordinate(data[at], columns, d) if known else np.float32(0)


@kernel
def stored_splines(data, indices, a, b, columns, where, phi):
    """Write the stored values' active coefficients and splines in place (-1: constant column)."""
    for at in range(a, b):
        d = indices[at]
        where[at - a] = -1
        if columns.first[d + 1] > columns.first[d]:
            m = columns.first_knot[d + 1] - columns.first_knot[d] - 1
            u = coordinate(data[at], columns, d)
            where[at - a] = columns.first[d] + basis_values(u, m, columns.degree[d], phi[at - a])


@kernel
def row_product(indices, a, b, columns, where, phi, w, at_zero):
    """Return the stored part of (Phi_i - c)'w; at_zero is c'w of every column."""
    total = w[:1].sum() * 0
    for at in range(b - a):
        if where[at] >= 0:
            d = indices[a + at]
            for q in range(columns.degree[d] + 1):
                total += phi[at, q] * w[where[at] + q]
            total -= at_zero[d]
    return total


@kernel
def add_row(indices, a, b, columns, where, phi, r, g):
    """Add the stored part of r Phi_i to `g` in place."""
    for at in range(b - a):
        if where[at] >= 0:
            for q in range(columns.degree[indices[a + at]] + 1):
                g[where[at] + q] += r * phi[at, q]


@kernel
def zero_parts(columns, c, W):
    """Return (K, p) c_d'w_d."""
    p = len(columns.degree)
    out = np.zeros((len(W), p), W.dtype)
    for k in range(len(W)):
        for d in range(p):
            for j in range(columns.first[d], columns.first[d + 1]):
                out[k, d] += c[j] * W[k, j]
    return out


@kernel
def longest_row(indptr):
    """Return the number of values of the fullest row."""
    most = 1
    for i in range(len(indptr) - 1):
        most = max(most, indptr[i + 1] - indptr[i])
    return most


@kernel
def margins(data, indices, indptr, columns, c, W, F):
    """Write Phi W into `F` (m, K) in place."""
    longest = longest_row(indptr)
    where, phi = np.empty(longest, np.intp), np.empty((longest, 4))
    at_zero = zero_parts(columns, c, W)
    for i in range(len(indptr) - 1):
        a, b = indptr[i], indptr[i + 1]
        stored_splines(data, indices, a, b, columns, where, phi)
        for k in range(len(W)):
            F[i, k] = at_zero[k].sum() + row_product(
                indices, a, b, columns, where, phi, W[k], at_zero[k]
            )


@kernel
def gradient(data, indices, indptr, columns, c, loss, point, y, weight, sums):
    """Add the rows' losses, slopes and gradients at `point` to `sums` in place."""
    longest = longest_row(indptr)
    where, phi = np.empty(longest, np.intp), np.empty((longest, 4))
    zero_w = zero_parts(columns, c, point.W)
    zero_s = zero_parts(columns, c, point.S)
    n_classes, second = len(point.W), len(point.S) > 0
    stored = np.zeros_like(sums.gradient)
    stored_force = np.zeros_like(sums.force_gradient)
    slope_before, force_before = sums.slope.copy(), sums.force.copy()
    for i in range(len(indptr) - 1):
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        a, b = indptr[i], indptr[i + 1]
        stored_splines(data, indices, a, b, columns, where, phi)
        for k in range(n_classes):
            target = y[i]
            if n_classes > 1:
                target = 1.0 if y[i] == k else -1.0
            f = point.b[k] + zero_w[k].sum() + row_product(
                indices, a, b, columns, where, phi, point.W[k], zero_w[k]
            )
            d = 0.0
            if second:
                d = point.s[k] + zero_s[k].sum() + row_product(
                    indices, a, b, columns, where, phi, point.S[k], zero_s[k]
                )
            r, v = row_slopes(loss, point, k, target, s, f, d, sums)
            if len(stored) > 0:
                add_row(indices, a, b, columns, where, phi, r, stored[k])
            if second:
                add_row(indices, a, b, columns, where, phi, v, stored_force[k])
    add_absent(columns, c, sums.slope - slope_before, stored, sums.gradient)
    add_absent(columns, c, sums.force - force_before, stored_force, sums.force_gradient)


@kernel
def add_absent(columns, c, total, stored, out):
    """Add the stored sums and what the absent values owe to `out` (K, dim) in place."""
    for k in range(len(stored)):
        for d in range(len(columns.degree)):
            a, b = columns.first[d], columns.first[d + 1]
            rest = total[k] - stored[k, a:b].sum()
            for j in range(a, b):
                out[k, j] += stored[k, j] + rest * c[j]


def dense_coordinates(X, bases):
    """The coordinates of all columns, (m, p) float32 column-major, absent values included."""
    U = np.empty(X.shape[::-1], np.float32)
    zero = as_columns(bases._replace(prepared=False), np.dtype(np.float64))
    fill_zero(zero, U)
    scatter_coordinates(*X[:3], as_columns(bases, X.data.dtype), U)
    return U.T


@kernel
def fill_zero(columns, U):
    """Write the coordinate of 0 into each row of `U` (p, m) in place."""
    for d in range(len(U)):
        if columns.first[d + 1] > columns.first[d]:
            U[d] = coordinate(0.0, columns, d)


@kernel
def scatter_coordinates(data, indices, indptr, columns, U):
    """Write the stored values' coordinates into `U` (p, m) in place."""
    for i in range(len(indptr) - 1):
        for at in range(indptr[i], indptr[i + 1]):
            d = indices[at]
            if columns.first[d + 1] > columns.first[d]:
                U[d, i] = coordinate(data[at], columns, d)


@kernel
def splines_of_values(data, indices, columns, where, phi):
    """Write every stored value's active coefficients and splines in place."""
    stored_splines(data, indices, 0, len(data), columns, where, phi)


def embed(X, bases, psi):
    """Phi of all columns or Psi of the stored values as (data, indices, indptr, n_columns)."""
    from .kernels_dense import embed as embed_dense

    if psi is None:
        return embed_dense(dense_coordinates(X, bases), bases._replace(prepared=True), None)
    roughness, reference = psi
    nnz, dim = len(X.data), int(bases.first[-1])
    where, phi = np.empty(nnz, np.intp), np.zeros((nnz, 4))
    columns = as_columns(bases, X.data.dtype)
    splines_of_values(X.data, X.indices, columns, where, phi)
    n_bases = np.diff(bases.first)
    width = n_bases[X.indices]
    ends = np.concatenate([[0], np.cumsum(width)])
    data, indices = np.empty(ends[-1]), np.empty(ends[-1], np.int32)
    for d in np.unique(X.indices):
        n, degree = int(n_bases[d]), int(bases.degree[d])
        if n == 0:
            continue
        rows = np.flatnonzero(X.indices == d)
        first = bases.first[d]
        A = np.zeros((len(rows), n))
        at = (where[rows] - first)[:, None] + np.arange(degree + 1)
        np.put_along_axis(A, at, phi[rows, : degree + 1], axis=1)
        R = roughness.R[roughness.table[d] : roughness.table[d] + n * n].reshape(n, n)
        A = np.linalg.solve(R.T, (A - reference.c[first : first + n]).T).T
        to = ends[rows][:, None] + np.arange(n)
        data[to] = A
        indices[to] = first + np.arange(n)
    return data, indices, ends[X.indptr].astype(np.int64), dim
