"""exp and log as plain float64 arithmetic, so that loops over rows vectorise; error below 1e-15.

Python and compiled code do the same operations: the bits are equal.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import overload, register_jitable

MAGIC = 6755399441055744.0
"""1.5 * 2^52: adding it rounds to an integer, which then stands in the low bits."""
INVERSE_LN2 = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
TINY = 2.2250738585072014e-308


def times_power(x, t):
    """Return x 2^k for t = k + MAGIC."""
    return math.ldexp(x, int(t - MAGIC))


@overload(times_power)
def _times_power(x, t):
    def scaled(x, t):
        bits = (np.float64(t).view(np.int64) + 1023) << 52
        return x * np.int64(bits).view(np.float64)

    return scaled


def split(x):
    """(m, k) with x = m 2^k and sqrt(1/2) <= m < sqrt(2), for normal x > 0."""
    m, k = math.frexp(x)
    return (m + m, k - 1.0) if m < math.sqrt(0.5) else (m, float(k))


SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@overload(split)
def _split(x):
    def split(x):
        bits = np.float64(x).view(np.int64)
        k = (bits - SQRT_HALF_BITS) >> 52
        # the integer k as a float64, by its place in the low bits of MAGIC
        number = np.int64(k + 0x4338000000000000).view(np.float64) - MAGIC
        return np.int64(bits - (k << 52)).view(np.float64), number

    return split


@register_jitable
def decay(a):
    """exp(-a) for a >= 0; exp(-700) beyond a = 700."""
    return exponential(-a)


@register_jitable
def exponential(x):
    """exp(x); that of -700 or 700 beyond them."""
    x = max(min(x, 700.0), -700.0)
    t = x * INVERSE_LN2 + MAGIC
    k = t - MAGIC
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return times_power(p, t)


@register_jitable
def twice_artanh(s):
    """2 artanh(s) = log((1 + s) / (1 - s)) for |s| <= 0.1716."""
    q = s * s
    p = 1.0 / 19.0
    p = p * q + 1.0 / 17.0
    p = p * q + 1.0 / 15.0
    p = p * q + 1.0 / 13.0
    p = p * q + 1.0 / 11.0
    p = p * q + 1.0 / 9.0
    p = p * q + 1.0 / 7.0
    p = p * q + 1.0 / 5.0
    p = p * q + 1.0 / 3.0
    return 2.0 * s + 2.0 * s * q * p


@register_jitable
def log1p_unit(e):
    """log(1 + e) for 0 <= e <= 1."""
    large = e > 0.41421356237309503
    s = (e - 1.0) / (e + 3.0) if large else e / (e + 2.0)
    return twice_artanh(s) + ((LN2_HIGH + LN2_LOW) if large else 0.0)


@register_jitable
def log_of(u):
    """log(u) for u >= 0; the smallest normal number stands for 0."""
    m, k = split(max(u, TINY))
    return twice_artanh((m - 1.0) / (m + 1.0)) + k * (LN2_HIGH + LN2_LOW)
