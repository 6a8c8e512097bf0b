"""The losses of a tile of rows: values and slopes, summed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..numeric.jit import kernel
from ..numeric.losses import (
    EpsilonInsensitive,
    Force,
    Gamma,
    Hinge,
    Huber,
    LogLoss,
    Poisson,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
    slope,
    value,
)
from ..numeric.tiles import fill, sum_plain


class LossBuffers(NamedTuple):
    """(n,) float64 each: the tile's targets and weights, and two to be summed."""

    y: np.ndarray
    s: np.ndarray
    a: np.ndarray
    b: np.ndarray


@kernel
def make_loss_buffers(n):
    """Return buffers for tiles of n rows."""
    return LossBuffers(np.empty(n), np.empty(n), np.empty(n), np.empty(n))


@kernel
def load_targets(y, weight, start, n, k, n_classes, buffers):
    """Write class k's targets and the weights of rows start.. into `buffers` in place.

    y (m,) holds targets, or codes of K > 1 classes; y (m, K) each class's own targets.
    """
    if y.ndim == 2:
        for i in range(n):
            buffers.y[i] = y[start + i, k]
    else:
        for i in range(n):
            buffers.y[i] = y[start + i]
        if n_classes > 1:
            for i in range(n):
                buffers.y[i] = 1.0 if buffers.y[i] == k else -1.0
    if len(weight) > 0:
        for i in range(n):
            buffers.s[i] = weight[start + i]
    else:
        fill(buffers.s, n, 1.0)


class LossCode(NamedTuple):
    """A loss as passes take it: they are compiled once, not once for every loss, 3 s each."""

    number: int
    """In `LOSSES`."""
    parameter: float
    """Its epsilon or delta; 0 if it has none."""


LOSSES = (
    LogLoss,
    SquaredHinge,
    Hinge,
    SquaredError,
    EpsilonInsensitive,
    SquaredEpsilonInsensitive,
    Huber,
    Poisson,
    Gamma,
    Force,
)


def loss_code(loss):
    """The loss's number and parameter."""
    return LossCode(LOSSES.index(type(loss)), float(loss[0]) if loss else 0.0)


@kernel
def tile_losses(code, n, f, r, buffers):
    """Write weighted slopes into `r` in place; return the sums of value and slope."""
    number, parameter = code.number, code.parameter
    if number == 0:
        return losses_of(LogLoss(), n, f, r, buffers)
    if number == 1:
        return losses_of(SquaredHinge(), n, f, r, buffers)
    if number == 2:
        return losses_of(Hinge(), n, f, r, buffers)
    if number == 3:
        return losses_of(SquaredError(), n, f, r, buffers)
    if number == 4:
        return losses_of(EpsilonInsensitive(parameter), n, f, r, buffers)
    if number == 5:
        return losses_of(SquaredEpsilonInsensitive(parameter), n, f, r, buffers)
    if number == 6:
        return losses_of(Huber(parameter), n, f, r, buffers)
    if number == 7:
        return losses_of(Poisson(), n, f, r, buffers)
    if number == 8:
        return losses_of(Gamma(), n, f, r, buffers)
    return losses_of(Force(), n, f, r, buffers)


@kernel
def losses_of(loss, n, f, r, buffers):
    """`tile_losses` of one loss."""
    y, s, a, b = buffers
    for i in range(n):
        z = np.float64(f[i])
        a[i] = s[i] * value(loss, y[i], z)
        b[i] = s[i] * slope(loss, y[i], z)
        r[i] = b[i]
    return sum_plain(a, n), sum_plain(b, n)


@kernel
def loss_sum(code, F, y, weight, out):
    """Add each class's weighted losses at the decisions `F` (m, K) to `out` (K,) in place."""
    tile, n_classes = 512, F.shape[1]
    f, r, buffers = np.empty(tile), np.empty(tile), make_loss_buffers(tile)
    for start in range(0, len(F), tile):
        n = min(tile, len(F) - start)
        for k in range(n_classes):
            for i in range(n):
                f[i] = F[start + i, k]
            load_targets(y, weight, start, n, k, n_classes, buffers)
            out[k] += tile_losses(code, n, f, r, buffers)[0]
