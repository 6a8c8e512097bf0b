"""Kernels that sort rows into bins and add them up for every pair of columns."""

from __future__ import annotations

import numpy as np

from ...numeric.jit import kernel

TILE = 1024
"""Rows whose codes, slopes and curvatures stay in the nearest cache."""


@kernel
def code_rows(U, columns, bins, out):
    """Write the bins of coordinates U (m, p) to `out` (q, m) uint8 in place.

    `columns` (q,) are numbers of columns, `bins` (q, most) uint8 the bin of each breakpoint; a
    value belongs to the nearest one.
    """
    for i in range(len(columns)):
        d = columns[i]
        for r in range(U.shape[0]):
            out[i, r] = bins[i, int(U[r, d] + np.float32(0.5))]


@kernel
def add_tables(codes, n_bins, one, other, at, g, h, tables):
    """Add slopes g and curvatures h (m,) to the `tables` (cells, 2) of all pairs in place.

    Pair i of the columns one[i] and other[i] has the cells from at[i] on, those of a bin of the
    first column in a row.
    """
    for start in range(0, len(g), TILE):
        stop = min(start + TILE, len(g))
        for i in range(len(one)):
            a, b, n, begin = codes[one[i]], codes[other[i]], n_bins[other[i]], at[i]
            for r in range(start, stop):
                cell = begin + a[r] * n + b[r]
                tables[cell, 0] += g[r]
                tables[cell, 1] += h[r]
