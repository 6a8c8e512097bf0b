"""The losses of a tile of rows: values and slopes, summed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numeric.jit import kernel, uncached_kernel
from ...numeric.losses import (
    LOSSES,
    EpsilonInsensitive,
    Force,
    Gamma,
    Hinge,
    Huber,
    LogLoss,
    Loss,
    NegativeBinomial,
    Poisson,
    Quantile,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
    Tweedie,
    curvature,
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
    """Its place in `CODED`."""
    parameter: float
    """Its only parameter; 0 if it has none."""


CODED: tuple[type[object], ...] = (*LOSSES.values(), Force)


def is_coded(loss: Loss) -> bool:
    """Whether the compiled passes know the loss; others go by `own_losses`."""
    return type(loss) in CODED


def loss_code(loss: Loss) -> LossCode:
    """The loss's number and parameter."""
    return LossCode(CODED.index(type(loss)), float(loss[0]) if loss else 0.0)


def _fill_losses(loss, n, buffers):
    """Write the tile's weighted losses and slopes into `buffers`: compiled into each pass."""
    y, s, f = buffers.y, buffers.s, buffers.f
    for i in range(n):
        buffers.value[i] = s[i] * value(loss, y[i], f[i])
        buffers.slope[i] = s[i] * slope(loss, y[i], f[i])


def _fill_curvatures(loss, y, f, out):
    """Write d2l/df2 of every row into `out` in place."""
    for i in range(len(out)):
        out[i] = curvature(loss, y[i], f[i])


fill_losses, fill_curvatures = kernel(_fill_losses), kernel(_fill_curvatures)
fill_own_losses = uncached_kernel(_fill_losses)
fill_own_curvatures = uncached_kernel(_fill_curvatures)


# Written out: closures made in a loop share one name, by which compiled code from the cache on disk
# and code compiled in this process would be linked, and one loss would run the code of another.


@kernel
def coded_losses(code, n, buffers):
    """`fill_losses` for a `LossCode`: a loop of its own per class."""
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
    elif number == 9:
        fill_losses(Tweedie(parameter), n, buffers)
    elif number == 10:
        fill_losses(Quantile(parameter), n, buffers)
    elif number == 11:
        fill_losses(NegativeBinomial(parameter), n, buffers)
    else:
        fill_losses(Force(), n, buffers)


@kernel
def coded_curvatures(code, y, f, out):
    """`fill_curvatures` for the `LossCode` of a loss that has a curvature."""
    number, parameter = code.number, code.parameter
    if number == 0:
        fill_curvatures(LogLoss(), y, f, out)
    elif number == 1:
        fill_curvatures(SquaredHinge(), y, f, out)
    elif number == 3:
        fill_curvatures(SquaredError(), y, f, out)
    elif number == 5:
        fill_curvatures(SquaredEpsilonInsensitive(parameter), y, f, out)
    elif number == 6:
        fill_curvatures(Huber(parameter), y, f, out)
    elif number == 7:
        fill_curvatures(Poisson(), y, f, out)
    elif number == 8:
        fill_curvatures(Gamma(), y, f, out)
    elif number == 9:
        fill_curvatures(Tweedie(parameter), y, f, out)
    elif number == 11:
        fill_curvatures(NegativeBinomial(parameter), y, f, out)


def curvatures(loss: Loss, y: np.ndarray, f: np.ndarray) -> np.ndarray:
    """(m,) d2l/df2 of targets and decisions (m,), in a new array."""
    out = np.empty(len(y))
    if is_coded(loss):
        coded_curvatures(loss_code(loss), y, f, out)
    else:
        fill_own_curvatures(loss, y, f, out)
    return out


def row_losses(
    loss: Loss, y: np.ndarray, f: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(m,) weighted losses and (m,) weighted slopes of targets and decisions (m,), in new arrays.

    `weight` (m,), or empty: all are 1.
    """
    m = len(y)
    s = weight.copy() if len(weight) else np.ones(m)
    rows = LossBuffers(y.copy(), s, f.copy(), np.empty(m), np.empty(m))
    if is_coded(loss):
        coded_losses(loss_code(loss), m, rows)
    else:
        fill_own_losses(loss, m, rows)
    return rows.value, rows.slope


def own_losses(
    loss: Loss, F: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(K,) weighted sums and (m, K) weighted slopes of a loss that no pass was compiled for.

    `F` (m, K) are decisions, `y` as `load_targets` takes them.
    """
    n_classes = F.shape[1]
    total, slopes = np.empty(n_classes), np.empty(F.shape)
    for k in range(n_classes):
        own = y[:, k] if y.shape[1] == n_classes else np.where(y[:, 0] == k, 1.0, -1.0)
        values, slopes[:, k] = row_losses(loss, own, F[:, k], weight)
        total[k] = values.sum()
    return total, slopes


@kernel
def tile_losses(code, n, f, r, buffers):
    """Write weighted slopes into `r` in place; return the sums of value and slope."""
    for i in range(n):
        buffers.f[i] = f[i]
    coded_losses(code, n, buffers)
    for i in range(n):
        r[i] = buffers.slope[i]
    return sum_plain(buffers.value, n), sum_plain(buffers.slope, n)


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
