"""The losses of a tile of rows: values, slopes, curvatures and linearised forces, summed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..numeric.jit import kernel
from ..numeric.losses import clip_dual, curvature, dual_value, slope, value
from ..numeric.tiles import fill, sum_plain


class LossBuffers(NamedTuple):
    """(n,) float64 each: the tile's targets and weights, and three to be summed."""

    y: np.ndarray
    s: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


@kernel
def make_loss_buffers(n):
    """Return buffers for tiles of n rows."""
    return LossBuffers(np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n))


@kernel
def load_targets(y, weight, start, n, k, n_classes, buffers):
    """Write class k's targets and the weights of rows start.. into `buffers` in place."""
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


@kernel
def tile_losses(loss, n, f, r, buffers):
    """Write weighted slopes into `r` in place; return the sums of value, slope and curvature."""
    y, s, a, b, c = buffers
    for i in range(n):
        z = np.float64(f[i])
        a[i] = s[i] * value(loss, y[i], z)
        b[i] = s[i] * slope(loss, y[i], z)
        c[i] = s[i] * curvature(loss, y[i], z)
        r[i] = b[i]
    return sum_plain(a, n), sum_plain(b, n), sum_plain(c, n)


@kernel
def tile_line(loss, n, f, step, size, buffers):
    """Return the sum of the losses at f + size step."""
    y, s, a, _, _ = buffers
    for i in range(n):
        a[i] = s[i] * value(loss, y[i], f[i] + size * step[i])
    return sum_plain(a, n)


@kernel
def tile_forces(loss, n, f, step, v, buffers):
    """Write the weighted linearised forces into `v` in place; return the dual's sum and theirs."""
    y, s, a, b, _ = buffers
    for i in range(n):
        d = np.float64(step[i])
        z = f[i] - d
        force = clip_dual(loss, y[i], -slope(loss, y[i], z) - curvature(loss, y[i], z) * d)
        a[i] = s[i] * dual_value(loss, y[i], force)
        b[i] = s[i] * force
        v[i] = b[i]
    return sum_plain(a, n), sum_plain(b, n)
