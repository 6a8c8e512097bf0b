"""Bases whose functions are nowhere 0: cosines, cosines and sines, Hermite polynomials.

All are without the constant, so a curve is determined but for its reference.  The functions of one
basis are orthogonal and so are their derivatives, so the penalty is diagonal.  Of scale "integral"
it is the squared derivative, integrated over [0, 1]; for Hermite polynomials its mean under the
normal density.  "paper": k^(2 order), for features cos(k pi z) / k^order.

Each function comes from the two before it: no cosine but the first is computed.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erf

from ..jit import kernel
from .basis import Basis

CLIP = 4.0
"""Standard deviations at which the argument of a Hermite polynomial is clipped."""


class Cosine(Basis):
    """cos(k pi t), k = 1, 2, ...: half-range, no period is forced on the curve."""

    name = "cosine"

    def fill(self, t: np.ndarray, out: np.ndarray) -> None:
        fill_cosines(t, out)

    def penalty(self, n: int, order: int, scale: str) -> np.ndarray:
        return _harmonics(np.arange(1.0, n + 1), np.pi, order, scale)


class Trigonometric(Basis):
    """cos(k pi z), sin(k pi z) of z = 2t - 1 (Maji 2012, Table 1): curves with f(-1) = f(1)."""

    name = "trigonometric"

    def fill(self, t: np.ndarray, out: np.ndarray) -> None:
        fill_trigonometric(t, out)

    def penalty(self, n: int, order: int, scale: str) -> np.ndarray:
        return _harmonics(np.arange(n) // 2 + 1.0, 2 * np.pi, order, scale)


class Hermite(Basis):
    """H_k(z) / sqrt(k!) of z = 8t - 4: the probabilists' polynomials.

    They are orthonormal for a standard normal z, clipped to 4 standard deviations: z is the
    standardised column or, with quantile knots, its normal scores.
    """

    name = "hermite"

    def fill(self, t: np.ndarray, out: np.ndarray) -> None:
        fill_hermite(t, out)

    def penalty(self, n: int, order: int, scale: str) -> np.ndarray:
        k = np.arange(1.0, n + 1)
        # H'_k / sqrt(k!) = sqrt(k) H_{k-1} / sqrt((k-1)!); a straight line keeps order 1's weight
        return k if order == 1 else k * np.maximum(k - 1, 1)

    def ends(
        self, low: np.ndarray, high: np.ndarray, mean: np.ndarray, deviation: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return mean - CLIP * deviation, mean + CLIP * deviation

    def levels(self, n_intervals: int) -> np.ndarray:
        z = np.linspace(-CLIP, CLIP, n_intervals + 1)
        shares: np.ndarray = 0.5 * (1 + erf(z / np.sqrt(2)))
        return shares


def _harmonics(k: np.ndarray, speed: float, order: int, scale: str) -> np.ndarray:
    weights: np.ndarray = k ** (2 * order) if scale == "paper" else 0.5 * (speed * k) ** (2 * order)
    return weights


@kernel
def fill_cosines(t, out):
    """Write cos(k pi t) of t (m,) into `out` (n, m) in place."""
    for i in range(len(t)):
        out[0, i] = math.cos(math.pi * t[i])
    for k in range(1, len(out)):
        for i in range(len(t)):
            before = out[k - 2, i] if k > 1 else 1.0
            out[k, i] = 2.0 * out[0, i] * out[k - 1, i] - before


@kernel
def fill_trigonometric(t, out):
    """Write cosines and sines of t (m,), in turn, into `out` (n, m) in place."""
    for i in range(len(t)):
        out[0, i] = math.cos(math.pi * (2.0 * t[i] - 1.0))
    if len(out) > 1:
        for i in range(len(t)):
            out[1, i] = math.sin(math.pi * (2.0 * t[i] - 1.0))
    for k in range(2, len(out)):
        zeroth = 0.0 if k % 2 == 1 else 1.0
        for i in range(len(t)):
            before = out[k - 4, i] if k > 3 else zeroth
            out[k, i] = 2.0 * out[0, i] * out[k - 2, i] - before


@kernel
def fill_hermite(t, out):
    """Write H_k(8t - 4) / sqrt(k!) of t (m,) into `out` (n, m) in place."""
    for i in range(len(t)):
        out[0, i] = t[i] * (2.0 * CLIP) - CLIP
    for k in range(1, len(out)):
        a, b = 1.0 / math.sqrt(k + 1.0), math.sqrt(np.float64(k))
        for i in range(len(t)):
            before = out[k - 2, i] if k > 1 else 1.0
            out[k, i] = (out[0, i] * out[k - 1, i] - b * before) * a
