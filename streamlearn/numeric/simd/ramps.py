"""Adding a multiple of min(i, u) to coefficients, as explicit vectors (see `add`)."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from .add import DOUBLES, ROW, _vector_at


def add_ramp(w, at, n, a, u):
    """Add a min(i, u), i = 0..n-1, to w[at:at + n] in place; n is a multiple of ROW."""
    for i in range(n):
        w[at + i] += a * min(float(i), u)


@overload(add_ramp)
def _add_ramp(w, at, n, a, u):
    return lambda w, at, n, a, u: add_ramp_rows(w, at, n, a, u)


@intrinsic
def add_ramp_rows(typing_context, w, at, n, a, u):
    """`add_ramp` compiled."""

    def generate(context, builder, signature, args):
        w, at, n, a, u = args
        size, level = _spread(builder, a), _spread(builder, u)
        steps = ir.Constant(DOUBLES, [float(i) for i in range(ROW)])
        with cgutils.for_range_slice(builder, at.type(0), n, at.type(ROW), at.type) as (i, _):
            to = _vector_at(context, builder, signature.args[0], w, builder.add(at, i), DOUBLES)
            here = builder.fadd(steps, _spread(builder, builder.sitofp(i, ir.DoubleType())))
            low = builder.select(builder.fcmp_ordered("<", here, level), here, level)
            step = builder.fmul(size, low)
            builder.store(builder.fadd(builder.load(to, align=8), step), to, align=8)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, i, i, types.float64, types.float64), generate


def _spread(builder, x):
    """x in every lane."""
    undefined = ir.Constant(DOUBLES, ir.Undefined)
    one = builder.insert_element(undefined, x, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), ROW), [0] * ROW)
    )
