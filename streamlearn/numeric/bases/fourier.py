"""Bases whose functions are nowhere 0: cosines, cosines and sines, Hermite polynomials.

A column's u in [0, M] (`bsplines`) gives t = u / M in [0, 1], and with it, k = 1, 2, ...

    cosine          cos(k pi t): half-range, no period is forced on the curve
    trigonometric   cos(k pi z), sin(k pi z) of z = 2t - 1 (Maji 2012, Table 1): curves with
                    f(-1) = f(1)
    hermite         H_k(z) / sqrt(k!) of z = 8t - 4: the probabilists' polynomials, orthonormal for
                    a standard normal z, clipped to 4 standard deviations

all without the constant, so a curve is determined but for its reference.  The functions are
orthogonal and so are their derivatives, so the penalty is diagonal (`derivative_weights`).  Each
comes from the two before it: no cosine but the first is computed.

A column with a level for missing values has one function more: 1 if the value is missing, where
the others are 0.
"""

from __future__ import annotations

import math

import numpy as np

from ..jit import kernel
from .bsplines import COSINE, HERMITE, TRIGONOMETRIC, Bases

BASES = {"cosine": COSINE, "trigonometric": TRIGONOMETRIC, "hermite": HERMITE}
CLIP = 4.0
"""Standard deviations at which the argument of a Hermite polynomial is clipped."""


def derivative_weights(kind: int, n: int, order: int, scale: str) -> np.ndarray:
    """(n,) diagonal of the penalty of n functions, order 1 or 2.

    "integral": the squared derivative, integrated over [0, 1]; for Hermite polynomials its mean
    under the normal density.  "paper": k^(2 order), for features cos(k pi z) / k^order.
    """
    if kind == HERMITE:
        k = np.arange(1.0, n + 1)
        # H'_k / sqrt(k!) = sqrt(k) H_{k-1} / sqrt((k-1)!); a straight line keeps order 1's weight
        return k if order == 1 else k * np.maximum(k - 1, 1)
    k = np.arange(1.0, n + 1) if kind == COSINE else np.arange(n) // 2 + 1.0
    if scale == "paper":
        return k ** (2 * order)
    speed = np.pi if kind == COSINE else 2 * np.pi
    return 0.5 * (speed * k) ** (2 * order)


def functions_at(bases: Bases, d: int, u: np.ndarray) -> np.ndarray:
    """(len(u), n_d) float64: all functions of column d at the coordinates u."""
    n, missing = int(bases.first[d + 1] - bases.first[d]), bool(bases.has_missing[d])
    t = np.asarray(u, np.float64) / (int(bases.n_intervals[d]) - missing)
    out = np.zeros((n, len(u)))
    fill_functions(t, len(u), int(bases.kind[d]), n - missing, out, 0, np.empty((2, len(u))))
    if missing:
        out[-1] = t > 1
    return out.T


@kernel
def fill_functions(t, n_rows, kind, n, out, first, scratch):
    """Write the n functions at t[:n_rows] into rows first.. of `out` (>= first + n, >= n_rows).

    A t beyond 1 is a missing value: all functions are 0.  `scratch` (2, >= n_rows) float64.
    """
    x, angle = scratch[0], scratch[1]
    if kind == HERMITE:
        for i in range(n_rows):
            x[i] = t[i] * (2.0 * CLIP) - CLIP
            out[first, i] = x[i]
        for k in range(1, n):
            a, b = 1.0 / math.sqrt(k + 1.0), math.sqrt(np.float64(k))
            for i in range(n_rows):
                before = out[first + k - 2, i] if k > 1 else 1.0
                out[first + k, i] = (x[i] * out[first + k - 1, i] - b * before) * a
    else:
        half = kind == COSINE
        step = 1 if half else 2
        for i in range(n_rows):
            angle[i] = math.pi * (t[i] if half else 2.0 * t[i] - 1.0)
            out[first, i] = math.cos(angle[i])
            x[i] = 2.0 * out[first, i]
        if not half and n > 1:
            for i in range(n_rows):
                out[first + 1, i] = math.sin(angle[i])
        for k in range(step, n):
            zeroth = 0.0 if step == 2 and k % 2 == 1 else 1.0
            for i in range(n_rows):
                before = out[first + k - 2 * step, i] if k >= 2 * step else zeroth
                out[first + k, i] = x[i] * out[first + k - step, i] - before
    for i in range(n_rows):
        if t[i] > 1.0:
            for k in range(n):
                out[first + k, i] = 0.0
