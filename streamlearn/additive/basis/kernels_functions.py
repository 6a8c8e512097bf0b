"""Explicit functions of a tile of rows, for bases that every row meets with every function.

Nothing is saved by looking up what is not 0, so a tile's functions are written out, a row of
memory a function, and the sums over rows are products of matrices.  Columns of few values in the
same table have splines, which are written out beside them.  Sparse rows: the functions of stored
values less those of 0, as compressed rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.bases.bsplines import basis_values, coordinate
from ...numeric.jit import inlined, kernel
from ...numeric.rows.tiles import fill, load_column
from .kernels_loss import load_targets, make_loss_buffers, tile_losses


class Kinds(NamedTuple):
    """Facts of each column beside those in `Columns`: its kind of functions, its missing values."""

    local: np.ndarray
    """(p,) bool: splines, of which a value meets few."""
    missing: np.ndarray
    """(p,) intp: 1 if it has a level for missing values."""


@inlined
def position(u, columns, kinds, d):
    """Return u / M; beyond 1 for a missing value."""
    return np.float64(u) / (columns.n_intervals[d] - kinds.missing[d])


@kernel
def fill_tile(rows, columns, kinds, start, n, Phi, T):
    """Write the splines of rows start.. into `Phi` (dim, n) and other columns' t into `T` (p, n).

    Functions of missing values are written too.
    """
    x, u, phi = np.empty(n, rows.flat.dtype), np.empty(n, np.float32), np.empty(4)
    for d in range(rows.n_columns):
        m, degree, first = columns.n_intervals[d], columns.degree[d], columns.first[d]
        width = columns.first[d + 1] - first
        if m == 0:
            continue
        load_column(rows, columns, d, start, n, x, u)
        if kinds.local[d]:
            for k in range(width):
                fill(Phi[first + k], n, 0.0)
            for i in range(n):
                j = first + basis_values(u[i], m, degree, phi)
                for q in range(degree + 1):
                    Phi[j + q, i] = phi[q]
            continue
        for i in range(n):
            t = position(u[i], columns, kinds, d)
            T[d, i] = min(t, 1.0)
            if kinds.missing[d] > 0:
                Phi[first + width - 1, i] = 1.0 if t > 1.0 else 0.0


@kernel
def tile_sums(code, F, y, weight, start, n, R, value, slope):
    """Write weighted slopes at F (K, n) into `R` (K, n); add their sums and the losses'."""
    buffers = make_loss_buffers(n)
    for k in range(len(F)):
        load_targets(y, weight, start, n, k, len(F), buffers)
        total = tile_losses(code, n, F[k], R[k], buffers)
        value[k] += total[0]
        slope[k] += total[1]


@kernel
def stored_positions(data, indices, columns, kinds, u, t):
    """Write the coordinates and positions of stored values into `u`, `t` in place."""
    for v in range(len(data)):
        d = indices[v]
        u[v], t[v] = np.float32(0), 0.0
        if columns.n_intervals[d] > 0:
            u[v] = coordinate(data[v], columns, d)
            t[v] = position(u[v], columns, kinds, d)


@inlined
def set_value(v, d, u, t, T, columns, kinds, phi, line):
    """Write all functions of stored value v into `line` in place; return how many."""
    width = columns.first[d + 1] - columns.first[d]
    if kinds.local[d]:
        fill(line, width, 0.0)
        j = basis_values(u[v], columns.n_intervals[d], columns.degree[d], phi)
        for q in range(columns.degree[d] + 1):
            line[j + q] = phi[q]
    else:
        for k in range(width - kinds.missing[d]):
            line[k] = T[k, v]
        if kinds.missing[d] > 0:
            line[width - 1] = 1.0 if t[v] > 1.0 else 0.0
    return width


@kernel
def stored_functions(indices, indptr, columns, kinds, u, t, T, c, values, places, ends):
    """Write Phi - c of stored values, less what is exactly 0, as compressed rows, in place."""
    phi, line, at = np.empty(4), np.empty(longest_column(columns)), 0
    ends[0] = 0
    for i in range(len(indptr) - 1):
        for v in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
            d = indices[v]
            if columns.n_intervals[d] > 0:
                width, first = set_value(v, d, u, t, T, columns, kinds, phi, line), columns.first[d]
                for k in range(width):
                    a = line[k] - c[first + k]
                    if a != 0.0:
                        values[at], places[at] = a, first + k
                        at += 1
        ends[i + 1] = at


@kernel
def stored_features(indices, indptr, columns, kinds, u, t, T, c, inverse, table, diagonal, values,
                    places, ends):  # fmt: skip
    """Write Psi = R^-T (Phi - c) of stored values as compressed rows in place.

    `inverse` holds R^-1 of every column from ``table[d]`` on; `diagonal` (p,) says of which it is.
    """
    most, at = longest_column(columns), 0
    phi, line, out = np.empty(4), np.empty(most), np.empty(most)
    ends[0] = 0
    for i in range(len(indptr) - 1):
        for v in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
            d = indices[v]
            if columns.n_intervals[d] > 0:
                width, first = set_value(v, d, u, t, T, columns, kinds, phi, line), columns.first[d]
                if diagonal[d]:
                    for k in range(width):
                        a = line[k] - c[first + k]
                        out[k] = a * inverse[table[d] + k * (width + 1)]
                else:
                    fill(out, width, 0.0)
                    for j in range(width):
                        a = line[j] - c[first + j]
                        if a != 0.0:
                            for k in range(width):
                                out[k] += a * inverse[table[d] + j * width + k]
                for k in range(width):
                    values[at], places[at] = out[k], first + k
                    at += 1
        ends[i + 1] = at


@kernel
def longest_column(columns):
    """Return the most functions that a column has, 1 at least."""
    most = 1
    for d in range(len(columns.degree)):
        most = max(most, columns.first[d + 1] - columns.first[d])
    return most


@kernel
def add_sparse_gram(values, places, ends, h, H):
    """Add sum h a a' of compressed rows a, places ascending, to the upper triangle of `H`."""
    for i in range(len(ends) - 1):
        for v in range(ends[i], ends[i + 1]):
            a, j = h[i] * values[v], places[v]
            for w in range(v, ends[i + 1]):
                H[j, places[w]] += a * values[w]


@kernel
def mirror(H):
    """Write the upper triangle of `H` below its diagonal, in place."""
    for i in range(len(H)):
        for j in range(i):
            H[i, j] = H[j, i]


class FeatureRows(NamedTuple):
    """Explicit features of the visits of an order, row t those of visit t, and coefficients."""

    Psi: np.ndarray
    """(n, dim) float64."""
    V: np.ndarray
    """(K, dim) sum alpha y Psi."""

    def visit(self, order, t):
        """Features lie in the order of the visits."""
        return t

    def norm2(self, i):
        """Return the row's square."""
        total = 0.0
        for j in range(self.Psi.shape[1]):
            total += self.Psi[i, j] * self.Psi[i, j]
        return total

    def dot(self, i, f):
        """Write the margins of every class in place."""
        for k in range(len(f)):
            total = 0.0
            for j in range(self.Psi.shape[1]):
                total += self.Psi[i, j] * self.V[k, j]
            f[k] = total

    def add(self, i, step):
        """Add step Psi in place."""
        for k in range(len(step)):
            if step[k] != 0.0:
                for j in range(self.Psi.shape[1]):
                    self.V[k, j] += step[k] * self.Psi[i, j]


class CompressedRows(NamedTuple):
    """`FeatureRows` without what is 0."""

    values: np.ndarray
    """(nnz,) float64."""
    places: np.ndarray
    """(nnz,) int32: where they lie in V."""
    ends: np.ndarray
    """(n + 1,) int32: where a row begins and ends."""
    V: np.ndarray
    """(K, dim) sum alpha y Psi."""

    def visit(self, order, t):
        """Features lie in the order of the visits."""
        return t

    def norm2(self, i):
        """Return the row's square."""
        total = 0.0
        for v in range(self.ends[i], self.ends[i + 1]):
            total += self.values[v] * self.values[v]
        return total

    def dot(self, i, f):
        """Write the margins of every class in place."""
        for k in range(len(f)):
            total = 0.0
            for v in range(self.ends[i], self.ends[i + 1]):
                total += self.values[v] * self.V[k, self.places[v]]
            f[k] = total

    def add(self, i, step):
        """Add step Psi in place."""
        for k in range(len(step)):
            if step[k] != 0.0:
                for v in range(self.ends[i], self.ends[i + 1]):
                    self.V[k, self.places[v]] += step[k] * self.values[v]
