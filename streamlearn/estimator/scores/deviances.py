"""Deviances of targets from means, and the share of them that a model explains.

    D2 = 1 - sum s d(y, m) / sum s d(y, mean of y)

d is a Bregman divergence, so sum s d(y, m') = sum s d(y, mean) + W d(mean, m') for rows of weight
W: what the parts of a table miss from their own means is merged as variances are, without a second
read and without cancellation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...data.source import Chunk

Deviance = Callable[[float, np.ndarray, np.ndarray], np.ndarray]
"""(parameter, targets, means above 0) -> the deviance of each."""


def tweedie(power: float, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Deviances of this power of the variance function (1: Poisson, 2: gamma)."""
    if power == 1.0:
        each = y * np.log(np.where(y > 0, y, mean) / mean) - y + mean
    elif power == 2.0:
        each = np.log(mean / y) + y / mean - 1.0
    else:
        a, b = 1.0 - power, 2.0 - power
        each = y**b / (a * b) - y * mean**a / a + mean**b / b
    both: np.ndarray = 2.0 * each
    return both


def negative_binomial(dispersion: float, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Deviances of counts whose variance is m + dispersion m^2."""
    r = 1.0 / dispersion
    ratio = np.log1p((y - mean) / (mean + r))
    both: np.ndarray = 2.0 * (y * np.log(np.where(y > 0, y, mean) / mean) - (y + r) * ratio)
    return both


def positive(
    what: str, zeros: bool, chunk: Chunk, mean: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets, means and weights of the rows of which deviances are defined; refuses others.

    Rows of weight 0 are left out; `zeros`: targets may be 0.
    """
    y = chunk.target.astype(np.float64)
    bad = (mean <= 0) | ((y < 0) if zeros else (y <= 0))
    if (bad & (weight > 0)).any():
        at = int((bad & (weight > 0)).argmax())
        least = "at least 0" if zeros else "above 0"
        raise ValueError(
            f"{what} needs targets of {least} and predictions above 0; row "
            f"{chunk.rows[at]} has target {y[at]:g} and prediction {mean[at]:g}; use a loss with "
            "a log link, or score neg_mean_squared_error"
        )
    return y[~bad], mean[~bad], weight[~bad]


def explained_sums(
    deviance: Deviance, parameter: float, y: np.ndarray, mean: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Weight and mean of y, deviances from that mean and from the means given, the parameter."""
    total = weight.sum()
    own = weight @ y / total if total else 0.0
    from_own = weight @ deviance(parameter, y, np.full(len(y), own)) if own > 0 else 0.0
    return np.array([total, own, from_own, weight @ deviance(parameter, y, mean), parameter])


def merge_explained(deviance: Deviance, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The `explained_sums` of both parts' rows."""
    total = a[0] + b[0]
    own = (a[0] * a[1] + b[0] * b[1]) / total if total else 0.0
    from_own = a[2] + b[2]
    if own > 0:
        moved = deviance(a[4], np.array([a[1], b[1]]), np.full(2, own))
        from_own += np.where([a[0] > 0, b[0] > 0], moved, 0.0) @ np.array([a[0], b[0]])
    return np.array([total, own, from_own, a[3] + b[3], a[4]])


def share_explained(sums: np.ndarray) -> float:
    """D2; of targets that are all alike 1 if they are predicted exactly, else 0, as R^2."""
    _, _, from_own, error, _ = sums
    if not from_own > 0:
        return 1.0 if error == 0 else 0.0
    return float(1.0 - error / from_own)
