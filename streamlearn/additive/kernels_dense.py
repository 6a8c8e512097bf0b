"""Dense rows: margins, gradients, explicit features."""

from __future__ import annotations

import numpy as np

from ..numeric.bsplines import as_columns, basis_values, coordinate
from ..numeric.jit import kernel
from ..numeric.losses import clip_dual, curvature, dual_value, slope, value
from ..numeric.rows import flat_rows


@kernel
def coordinates(rows, columns, U):
    """Write every value's coordinate into `U` (p, m) float32 in place."""
    for d in range(rows.n_columns):
        known = columns.first[d + 1] > columns.first[d]
        for i in range(rows.n_rows):
            x = rows.flat[i * rows.row_step + d * rows.column_step]
            U[d, i] = coordinate(x, columns, d) if known else np.float32(0)


@kernel
def active_splines(rows, columns, i, where, phi):
    """Write row i's active coefficients' first numbers and values in place (-1: constant column)."""
    for d in range(rows.n_columns):
        where[d] = -1
        if columns.first[d + 1] > columns.first[d]:
            u = coordinate(rows.flat[i * rows.row_step + d * rows.column_step], columns, d)
            m = columns.first_knot[d + 1] - columns.first_knot[d] - 1
            where[d] = columns.first[d] + basis_values(u, m, columns.degree[d], phi[d])


@kernel
def row_product(columns, where, phi, w):
    """Return Phi_i'w."""
    total = w[:1].sum() * 0
    for d in range(len(where)):
        if where[d] >= 0:
            for q in range(columns.degree[d] + 1):
                total += phi[d, q] * w[where[d] + q]
    return total


@kernel
def add_row(columns, where, phi, a, g):
    """Add a Phi_i to `g` in place."""
    for d in range(len(where)):
        if where[d] >= 0:
            for q in range(columns.degree[d] + 1):
                g[where[d] + q] += a * phi[d, q]


@kernel
def margins(rows, columns, W, F):
    """Write Phi W into `F` (m, K) in place."""
    where, phi = np.empty(rows.n_columns, np.intp), np.empty((rows.n_columns, 4))
    for i in range(rows.n_rows):
        active_splines(rows, columns, i, where, phi)
        for k in range(len(W)):
            F[i, k] = row_product(columns, where, phi, W[k])


@kernel
def row_slopes(loss, point, k, y, s, f, d, sums):
    """Add one row's losses at f and along d to `sums`; return the slope and the linearised force."""
    sums.value[k] += s * value(loss, y, f)
    sums.curvature[k] += s * curvature(loss, y, f)
    r = s * slope(loss, y, f)
    sums.slope[k] += r
    v = 0.0
    if len(point.S) > 0:
        for q in range(len(point.steps)):
            sums.line[k, q] += s * value(loss, y, f + point.steps[q] * d)
        v = clip_dual(loss, y, -slope(loss, y, f - d) - curvature(loss, y, f - d) * d)
        sums.dual[k] += s * dual_value(loss, y, v)
        v *= s
        sums.force[k] += v
    return r, v


@kernel
def gradient(rows, columns, loss, point, y, weight, sums):
    """Add the rows' losses, slopes and gradients at `point` to `sums` in place."""
    where, phi = np.empty(rows.n_columns, np.intp), np.empty((rows.n_columns, 4))
    n_classes = len(point.W)
    for i in range(rows.n_rows):
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0:
            continue
        active_splines(rows, columns, i, where, phi)
        for k in range(n_classes):
            target = y[i]
            if n_classes > 1:
                target = 1.0 if y[i] == k else -1.0
            f = point.b[k] + row_product(columns, where, phi, point.W[k])
            d = 0.0
            if len(point.S) > 0:
                d = point.s[k] + row_product(columns, where, phi, point.S[k])
            r, v = row_slopes(loss, point, k, target, s, f, d, sums)
            if len(sums.gradient) > 0:
                add_row(columns, where, phi, r, sums.gradient[k])
            if len(point.S) > 0:
                add_row(columns, where, phi, v, sums.force_gradient[k])


@kernel
def embed_tile(rows, columns, data, indices):
    """Write the active splines of every row into `data`, `indices` (m, sum of degree + 1) in place."""
    where, phi = np.empty(rows.n_columns, np.intp), np.empty((rows.n_columns, 4))
    for i in range(rows.n_rows):
        active_splines(rows, columns, i, where, phi)
        at = 0
        for d in range(rows.n_columns):
            if where[d] >= 0:
                for q in range(columns.degree[d] + 1):
                    data[i, at] = phi[d, q]
                    indices[i, at] = where[d] + q
                    at += 1


def embed(X, bases, psi):
    """Phi or Psi of dense rows as (data, indices, indptr, n_columns)."""
    n_bases = np.diff(bases.first)
    width = int(((bases.degree + 1) * (n_bases > 0)).sum())
    m, dim = len(X), int(bases.first[-1])
    data, indices = np.empty((m, width)), np.empty((m, width), np.int32)
    embed_tile(flat_rows(X), as_columns(bases, X.dtype), data, indices)
    if psi is None:
        return data.ravel(), indices.ravel(), np.arange(m + 1, dtype=np.int64) * width, dim
    roughness, reference = psi
    out = np.zeros((m, dim))
    np.put_along_axis(out, indices.astype(np.intp), data, axis=1)
    out -= reference.c
    for d, n in enumerate(n_bases):
        block = slice(*bases.first[d : d + 2])
        R = roughness.R[roughness.table[d] : roughness.table[d] + n * n].reshape(n, n)
        out[:, block] = np.linalg.solve(R.T, out[:, block].T).T if n else 0
    indices = np.broadcast_to(np.arange(dim, dtype=np.int32), (m, dim)).ravel()
    return out.ravel(), indices, np.arange(m + 1, dtype=np.int64) * dim, dim
