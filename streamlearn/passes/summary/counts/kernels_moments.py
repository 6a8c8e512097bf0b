"""Means and sums of squared deviations that can be added up (Chan, Golub & LeVeque 1983).

The state of a column is (weight, mean, scatter) with scatter = sum_i w_i (x_i - mean)^2; the
variance is scatter / weight, divided once, at the end.  All in float64 whatever the data are.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

from ....numeric.jit import kernel

TINY = 5e-324

# Not `kernel`, which takes no options; they are compiled into the cached kernels that call them.
# "reassoc" lets the compiler keep several partial sums, which is what makes these loops vectorise.
# The order is still fixed by the machine code, and NaN and infinity are respected.
summing = numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})


def merge_moments(
    weight: np.ndarray,
    mean: np.ndarray,
    scatter: np.ndarray,
    weight2: np.ndarray,
    mean2: np.ndarray,
    scatter2: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(weight, mean, scatter) of two parts together; in kernels numbers; a part may be empty."""
    total = weight + weight2
    share = weight2 / np.maximum(total, TINY)
    shift = mean2 - mean
    return total, mean + shift * share, scatter + scatter2 + shift * shift * (weight * share)


merge_tile = kernel(merge_moments)


@summing
def sum_values(values):
    """Sum of a tile in float64."""
    total = 0.0
    for i in range(len(values)):
        total += np.float64(values[i])
    return total


@summing
def sum_squares(values, centre):
    """Sum of (x_i - centre)^2 over a tile."""
    total = 0.0
    for i in range(len(values)):
        d = np.float64(values[i]) - centre
        total += d * d
    return total


@summing
def sum_weighted(values, weight):
    """Sum of w_i x_i over a tile."""
    total = 0.0
    for i in range(len(values)):
        total += weight[i] * np.float64(values[i])
    return total


@summing
def sum_weighted_squares(values, weight, centre):
    """Sum of w_i (x_i - centre)^2 over a tile."""
    total = 0.0
    for i in range(len(values)):
        d = np.float64(values[i]) - centre
        total += weight[i] * d * d
    return total


@summing
def weight_of_zeros(values, weight):
    """Sum of the weights of a tile's zeros, without a branch."""
    total = 0.0
    for i in range(len(values)):
        total += weight[i] * np.float64(values[i] == 0.0)
    return total


@kernel
def tile_moments(values, weight):
    """(weight, mean, scatter) of one tile of finite values, two sweeps; empty `weight` = all 1."""
    if len(weight):
        total = sum_values(weight)
        mean = sum_weighted(values, weight) / max(total, TINY)
        return total, mean, sum_weighted_squares(values, weight, mean)
    total = np.float64(len(values))
    mean = sum_values(values) / max(total, 1.0)
    return total, mean, sum_squares(values, mean)
