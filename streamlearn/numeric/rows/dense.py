"""Dense rows of a chunk for kernels: one flat array and two strides, whatever the order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided


class Rows(NamedTuple):
    """X[i, d] is ``flat[i * row_step + d * column_step]``."""

    flat: np.ndarray
    """1-D float32 or float64, a view of X."""
    row_step: int
    column_step: int
    n_rows: int
    n_columns: int


def flat_rows(X: np.ndarray) -> Rows:
    """X (m, p) as `Rows`: no copy for any array with non-negative whole strides.

    One compiled kernel then serves C order, F order and slices of both.
    """
    if X.size == 0:
        return Rows(np.empty(0, X.dtype), 1, 1, *X.shape)
    if type(X) is np.ndarray and (X.flags.c_contiguous or X.flags.f_contiguous):
        flat = X.reshape(-1) if X.flags.c_contiguous else X.T.reshape(-1)
        flat.flags.writeable = False
        steps = [X.shape[1], 1] if X.flags.c_contiguous else [1, len(X)]
        return Rows(flat, *steps, *X.shape)  # a tenth of the time of what follows
    steps = [stride // X.itemsize for stride in X.strides]
    if min(X.strides) < 0 or any(stride % X.itemsize for stride in X.strides):
        X = np.ascontiguousarray(X)
        steps = [X.shape[1], 1]
    span = sum((n - 1) * step for n, step in zip(X.shape, steps, strict=True)) + 1
    flat = as_strided(X, (span,), (X.itemsize,), writeable=False)
    return Rows(flat, *steps, *X.shape)


def some_rows(rows: Rows, start: int, stop: int) -> Rows:
    """The rows [start, stop) of `rows`, a view."""
    return rows._replace(flat=rows.flat[start * rows.row_step :], n_rows=stop - start)
