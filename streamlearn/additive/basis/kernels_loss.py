"""The losses of a tile of rows: values and slopes, summed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.jit import kernel
from ...numeric.losses import (
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
from ...numeric.rows.tiles import fill, sum_plain


class LossBuffers(NamedTuple):
    """(n,) float64 each: a tile's targets, weights, decisions, weighted losses and slopes."""

    y: np.ndarray
    s: np.ndarray
    f: np.ndarray
    value: np.ndarray
    slope: np.ndarray


@kernel
def make_loss_buffers(n):
    """Return buffers for tiles of n rows."""
    return LossBuffers(np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n))


def targets_by_class(y):
    """Targets (m,) or codes (m,) as a column, targets (m, K) as they are: passes compile once."""
    return y if y.ndim == 2 else y[:, None]


@kernel
def load_targets(y, weight, start, n, k, n_classes, buffers):
    """Write class k's targets and the weights of rows start.. into `buffers` in place.

    y (m, K) holds each class's own targets; (m, 1) the codes of K > 1 classes.
    """
    if y.shape[1] == n_classes:
        for i in range(n):
            buffers.y[i] = y[start + i, k]
    else:
        for i in range(n):
            buffers.y[i] = 1.0 if y[start + i, 0] == k else -1.0
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
    for i in range(n):
        buffers.f[i] = f[i]
    number, parameter = code.number, code.parameter
    if number == 0:
        fill_losses(LogLoss(), n, buffers)
    elif number == 1:
        fill_losses(SquaredHinge(), n, buffers)
    elif number == 2:
        fill_losses(Hinge(), n, buffers)
    elif number == 3:
        fill_losses(SquaredError(), n, buffers)
    elif number == 4:
        fill_losses(EpsilonInsensitive(parameter), n, buffers)
    elif number == 5:
        fill_losses(SquaredEpsilonInsensitive(parameter), n, buffers)
    elif number == 6:
        fill_losses(Huber(parameter), n, buffers)
    elif number == 7:
        fill_losses(Poisson(), n, buffers)
    elif number == 8:
        fill_losses(Gamma(), n, buffers)
    else:
        fill_losses(Force(), n, buffers)
    for i in range(n):
        r[i] = buffers.slope[i]
    return sum_plain(buffers.value, n), sum_plain(buffers.slope, n)


@kernel
def fill_losses(loss, n, buffers):
    """Write the tile's weighted losses and slopes into `buffers`: compiled into each pass."""
    y, s, f = buffers.y, buffers.s, buffers.f
    for i in range(n):
        buffers.value[i] = s[i] * value(loss, y[i], f[i])
        buffers.slope[i] = s[i] * slope(loss, y[i], f[i])


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
