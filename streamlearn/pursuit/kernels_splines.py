"""Cubic splines on equal intervals: sums over rows as powers of the place in an interval, values.

On an interval the four active splines are polynomials in f, the place in it, and their products are
of degree 6: so sums of w f^q and of w r f^q by interval hold all sums of splines and of their
products.  A row is three packed adds to one interval, whatever splines lie beside it.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from ..numeric.bsplines import POLYNOMIALS
from ..numeric.jit import inlined, kernel

TILE = 128
"""Rows whose places are found before they are added."""
CUBIC = POLYNOMIALS[3].copy()
"""[a, q]: the coefficient of f^q in the a-th active spline."""
SQUARES = np.array([[np.convolve(p, q) for q in CUBIC] for p in CUBIC])
"""[a, b, q]: the coefficient of f^q in the product of two."""


def add_cubic(out, at, a, x):
    """Add a (1, x, x^2, x^3) to out[at:at + 4] in place, as one load, add and store."""
    x2 = x * x
    for q, power in enumerate((1.0, x, x2, x * x2)):
        out[at + q] += a * power


@overload(add_cubic)
def _add_cubic(out, at, a, x):
    return lambda out, at, a, x: _add_packed(out, np.intp(at), a, x)


@intrinsic
def _add_packed(typing_context, out, at, a, x):
    """`add_cubic` compiled, of float64."""
    vector, i32 = ir.VectorType(ir.DoubleType(), 4), ir.IntType(32)

    def generate(context, builder, signature, args):
        out, at, a, x = args
        x2 = builder.fmul(x, x)
        powers = factor = ir.Constant(vector, ir.Undefined)
        for q, power in enumerate((x.type(1.0), x, x2, builder.fmul(x, x2))):
            powers = builder.insert_element(powers, power, i32(q))
            factor = builder.insert_element(factor, a, i32(q))
        data = context.make_array(signature.args[0])(context, builder, out).data
        to = builder.bitcast(builder.gep(data, [at]), vector.as_pointer())
        total = builder.fadd(builder.load(to, align=8), builder.fmul(factor, powers))
        builder.store(total, to, align=8)
        return context.get_dummy_value()

    return types.void(out, types.intp, types.float64, types.float64), generate


@inlined
def places(t, start, n, low, scale, m, width, at, f):
    """Write `width` times the interval of t[start:start + n], and the place in it, in place."""
    top, last = float(m), np.int32(m - 1)
    for i in range(n):
        u = min(max((t[start + i] - low) * scale, 0.0), top)
        j = min(np.int32(u), last)
        f[i] = u - j
        at[i] = width * j


@kernel
def add_powers(t, low, high, w, wr, sums):
    """Add w f^q, q = 0..6, and wr f^q, q = 0..3, to sums[12 interval:] in place.

    `sums` holds w f^0..3, then w f^4..6 and a number without meaning, then wr f^0..3.
    """
    m = len(sums) // 12
    scale = m / (high - low)
    at, f = np.empty(TILE, np.int32), np.empty(TILE)
    for start in range(0, len(t), TILE):
        n = min(TILE, len(t) - start)
        places(t, start, n, low, scale, m, np.int32(12), at, f)
        for i in range(n):
            k, a, x = np.intp(at[i]), w[start + i], f[i]
            x2 = x * x
            add_cubic(sums, k, a, x)
            add_cubic(sums, k + 4, a * (x2 * x2), x)
            add_cubic(sums, k + 8, wr[start + i], x)


@kernel
def add_splines(t, low, high, w, wr, gram, moment):
    """Add sum w Phi Phi' (banded, (n, 4)) and sum wr Phi (n,) of cubic splines at t, in place.

    gram[j, d] is the product of splines j and j + d.
    """
    m = len(moment) - 3
    sums = np.zeros(12 * m)
    add_powers(t, low, high, w, wr, sums)
    for j in range(m):
        for a in range(4):
            for b in range(a, 4):
                total = 0.0
                for q in range(7):
                    total += SQUARES[a, b, q] * sums[12 * j + q]
                gram[j + a, b - a] += total
            total = 0.0
            for q in range(4):
                total += CUBIC[a, q] * sums[12 * j + 8 + q]
            moment[j + a] += total


@kernel
def add_cross(t, low, high, t2, low2, high2, w, out):
    """Add sum w Phi(t) Phi(t2)' to `out` (n, n2), in place."""
    m, m2 = out.shape[0] - 3, out.shape[1] - 3
    scale, scale2 = m / (high - low), m2 / (high2 - low2)
    sums = np.zeros(16 * m * m2)  # by pair of intervals: w f^p g^q at 4 p + q
    at, f = np.empty(TILE, np.int32), np.empty(TILE)
    at2, g = np.empty(TILE, np.int32), np.empty(TILE)
    for start in range(0, len(t), TILE):
        n = min(TILE, len(t) - start)
        places(t, start, n, low, scale, m, np.int32(16 * m2), at, f)
        places(t2, start, n, low2, scale2, m2, np.int32(16), at2, g)
        for i in range(n):
            k, a, x = np.intp(at[i]) + np.intp(at2[i]), w[start + i], f[i]
            for p in range(4):
                add_cubic(sums, k + 4 * p, a, g[i])
                a *= x
    half = np.empty((4, 4))
    for j in range(m):
        for c in range(m2):
            k = 16 * (j * m2 + c)
            for a in range(4):
                for q in range(4):
                    half[a, q] = 0.0
                    for p in range(4):
                        half[a, q] += CUBIC[a, p] * sums[k + 4 * p + q]
            for a in range(4):
                for b in range(4):
                    total = 0.0
                    for q in range(4):
                        total += half[a, q] * CUBIC[b, q]
                    out[j + a, c + b] += total


@kernel
def spline_values(t, low, high, theta, out):
    """Add the cubic spline with coefficients `theta` at t to `out`, in place."""
    m = len(theta) - 3
    scale = m / (high - low)
    table = np.empty(4 * m)
    for j in range(m):
        for q in range(4):
            total = 0.0
            for a in range(4):
                total += CUBIC[a, q] * theta[j + a]
            table[4 * j + q] = total
    at, f = np.empty(TILE, np.int32), np.empty(TILE)
    for start in range(0, len(t), TILE):
        n = min(TILE, len(t) - start)
        places(t, start, n, low, scale, m, np.int32(4), at, f)
        for i in range(n):
            k, x = np.uintp(at[i]), f[i]
            high_part = table[k + np.uintp(2)] + x * table[k + np.uintp(3)]
            out[start + i] += table[k] + x * (table[k + np.uintp(1)] + x * high_part)


@kernel
def splines_of_cells(s, z, pair, shift, low, high, gram, moment):
    """Write `add_splines` of the cells for each move: gram (k, n, 4), moment (k, n), in place."""
    t = np.empty(len(s))
    w, wr = pair[:, 0].copy(), pair[:, 1].copy()
    for k in range(len(shift)):
        for i in range(len(s)):
            t[i] = s[i] + shift[k] * z[i]
        add_splines(t, low[k], high[k], w, wr, gram[k], moment[k])
