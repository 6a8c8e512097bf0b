"""Products of four numbers added to memory at once; each has a plain body with equal bits."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from .add import _vector_at

QUAD = ir.VectorType(ir.DoubleType(), 4)
I32 = ir.IntType(32)


def add_outer(acc, at, left, start, f):
    """Add left[start:start + 2] times (1, f), four numbers, to acc[at:at + 4] in place."""
    for q in range(2):
        acc[at + 2 * q] += left[start + q]
        acc[at + 2 * q + 1] += left[start + q] * f


def add_multiple(out, at, a, p0, p1, p2, p3):
    """Add a (p0, p1, p2, p3) to out[at:at + 4] in place, as one load, add and store."""
    for q, p in enumerate((p0, p1, p2, p3)):
        out[at + q] += a * p


@overload(add_outer)
def _add_outer(acc, at, left, start, f):
    return lambda acc, at, left, start, f: add_products(acc, at, left, start, f)


@intrinsic
def add_products(typing_context, acc, at, left, start, f):
    """`add_outer` compiled, in float64."""

    def generate(context, builder, signature, args):
        acc, at, left, start, f = args
        ones = ir.Constant(QUAD, [1.0] * 4)
        factor = ones
        for lane in (1, 3):
            factor = builder.insert_element(factor, f, I32(lane))
        to = _vector_at(context, builder, signature.args[0], acc, at, QUAD)
        half = ir.VectorType(ir.DoubleType(), 2)
        source = _vector_at(context, builder, signature.args[2], left, start, half)
        two = builder.load(source, align=8)
        each_twice = ir.Constant(ir.VectorType(I32, 4), [0, 0, 1, 1])
        part = builder.fmul(builder.shuffle_vector(two, two, each_twice), factor)
        _add_to(builder, to, part)
        return context.get_dummy_value()

    return types.void(acc, types.intp, left, types.intp, types.float64), generate


@overload(add_multiple)
def _add_multiple(out, at, a, p0, p1, p2, p3):
    return lambda out, at, a, p0, p1, p2, p3: add_scaled(out, np.intp(at), a, p0, p1, p2, p3)


@intrinsic
def add_scaled(typing_context, out, at, a, p0, p1, p2, p3):
    """`add_multiple` compiled, in float64."""

    def generate(context, builder, signature, args):
        out, at, a, *numbers = args
        values = factor = ir.Constant(QUAD, ir.Undefined)
        for lane, number in enumerate(numbers):
            values = builder.insert_element(values, number, I32(lane))
            factor = builder.insert_element(factor, a, I32(lane))
        to = _vector_at(context, builder, signature.args[0], out, at, QUAD)
        _add_to(builder, to, builder.fmul(factor, values))
        return context.get_dummy_value()

    number = types.float64
    return types.void(out, types.intp, number, number, number, number, number), generate


def _add_to(builder, to, part):
    """Add a vector to what lies at `to`."""
    builder.store(builder.fadd(builder.load(to, align=8), part), to, align=8)
