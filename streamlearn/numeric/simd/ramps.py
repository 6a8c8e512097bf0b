"""Adding multiples of min(i, u) to coefficients, as explicit vectors (see `add`)."""

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


def add_ramps(w, at, n, scale, a, u, v):
    """Add scale times the sum over r of a[r] min(i, u[r, v]), i = 0..n-1, to w[at:at + n] in place.

    n is a multiple of ROW; `a` and `u` are contiguous float64.  Each coefficient is read and
    written once, however many ramps there are.
    """
    for i in range(n):
        total = 0.0
        for r in range(len(a)):
            total += a[r] * min(float(i), u[r, v])
        w[at + i] += scale * total


@overload(add_ramps)
def _add_ramps(w, at, n, scale, a, u, v):
    def compiled(w, at, n, scale, a, u, v):
        add_ramps_rows(w, at, n, scale, a, u, v)

    return compiled


@intrinsic
def add_ramps_rows(typing_context, w, at, n, scale, a, u, v):
    """`add_ramps` compiled."""

    def generate(context, builder, signature, args):
        w, at, n, scale, a, u, v = args
        of_a, of_u = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[4:6], (a, u), strict=True)
        )
        count = builder.extract_value(of_a.shape, 0)
        row = builder.extract_value(of_u.shape, 1)
        steps = ir.Constant(DOUBLES, [float(i) for i in range(ROW)])
        factor, zero = _spread(builder, scale), ir.Constant(DOUBLES, [0.0] * ROW)
        one = count.type(1)
        total = cgutils.alloca_once(builder, DOUBLES)
        with cgutils.for_range_slice(builder, at.type(0), n, at.type(ROW), at.type) as (i, _):
            here = builder.fadd(steps, _spread(builder, builder.sitofp(i, ir.DoubleType())))
            builder.store(zero, total)
            with cgutils.for_range_slice(builder, count.type(0), count, one, count.type) as (r, _):
                place = builder.add(builder.mul(r, row), v)
                level = _spread(builder, builder.load(builder.gep(of_u.data, [place])))
                size = _spread(builder, builder.load(builder.gep(of_a.data, [r])))
                low = builder.select(builder.fcmp_ordered("<", here, level), here, level)
                builder.store(builder.fadd(builder.load(total), builder.fmul(size, low)), total)
            to = _vector_at(context, builder, signature.args[0], w, builder.add(at, i), DOUBLES)
            step = builder.fmul(factor, builder.load(total))
            builder.store(builder.fadd(builder.load(to, align=8), step), to, align=8)
        return context.get_dummy_value()

    i, x = types.intp, types.float64
    return types.void(w, i, i, x, a, u, i), generate


def _spread(builder, x):
    """x in every lane."""
    undefined = ir.Constant(DOUBLES, ir.Undefined)
    one = builder.insert_element(undefined, x, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), ROW), [0] * ROW)
    )
