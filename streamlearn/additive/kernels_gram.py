"""Gram matrices of the splines, weighted row by row."""

from __future__ import annotations

import numpy as np

from ..numeric.jit import kernel
from .kernels_dense import active_splines


@kernel
def gram(rows, columns, h, r, sums):
    """Add sum h Phi Phi' (upper triangle), sum h Phi and sum r Phi to `sums` in place."""
    where, phi = np.empty(rows.n_columns, np.intp), np.empty((rows.n_columns, 4))
    for i in range(rows.n_rows):
        active_splines(rows, columns, i, where, phi)
        for d in range(rows.n_columns):
            if where[d] < 0:
                continue
            for q in range(columns.degree[d] + 1):
                a, weighted = where[d] + q, h[i] * phi[d, q]
                sums.g[a] += weighted
                if len(r) > 0:
                    sums.b[a] += r[i] * phi[d, q]
                for e in range(d, rows.n_columns):
                    if where[e] >= 0:
                        for s in range(columns.degree[e] + 1):
                            sums.H[a, where[e] + s] += weighted * phi[e, s]
