"""Sums over a sparse row with sixteen numbers side by side, as explicit vectors (see `simd`).

Coefficients lie in places of `width` lanes each, one lane a class; a row's values are places and
fractions: see `additive.kernels_dual_codes`.  Each has a plain body with equal bits.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

LANES = 16


def pair_lanes(w, slot, f, begin, end, width, at, out):
    """Add w + f (next place's w - w) of the values begin..end to out[at:at + LANES] in place."""
    for v in range(begin, end):
        x, place = w.dtype.type(f[v]), slot[v] * width
        for i in range(at, at + LANES):
            out[i] += w[place + i] + x * (w[place + width + i] - w[place + i])


def add_lanes(w, place, step, at, a):
    """Add a step[at:at + LANES] to w[place + at:][:LANES] in place."""
    for i in range(at, at + LANES):
        w[place + i] += a * step[i]


def add_steps(w, place, n, width, step, at, a, u):
    """Add a min(j, u) step to the places j = 1 .. n-1 after `place`, LANES of each, in place."""
    for j in range(1, n):
        b = a * min(w.dtype.type(j), u)
        for i in range(at, at + LANES):
            w[place + j * width + i] += b * step[i]


def add_ramp_lanes(w, at, n, a, u):
    """Add a min(i, u), i = 0..n-1, to w[at:at + n] in place; n is a multiple of LANES."""
    for i in range(n):
        w[at + i] += a * min(w.dtype.type(i), u)


@overload(pair_lanes)
def _pair_lanes(w, slot, f, begin, end, width, at, out):
    return lambda w, slot, f, begin, end, width, at, out: _pair(
        w, slot, f, np.intp(begin), np.intp(end), np.intp(width), np.intp(at), out
    )


@overload(add_lanes)
def _add_lanes(w, place, step, at, a):
    return lambda w, place, step, at, a: _add(w, np.intp(place), step, np.intp(at), a)


@overload(add_steps)
def _add_steps(w, place, n, width, step, at, a, u):
    return lambda w, place, n, width, step, at, a, u: _add_to_places(
        w, np.intp(place), np.intp(n), np.intp(width), step, np.intp(at), a, u
    )


@overload(add_ramp_lanes)
def _add_ramp_lanes(w, at, n, a, u):
    return lambda w, at, n, a, u: _add_ramp(w, np.intp(at), np.intp(n), a, u)


@intrinsic
def _pair(typing_context, w, slot, f, begin, end, width, at, out):
    """`pair_lanes` compiled."""

    def generate(context, builder, signature, args):
        w_, slot_, f_, begin, end, width, at, out_ = args
        vector, number = _vector(context, w.dtype)
        size = w.dtype.bitwidth // 8
        to = _at(context, builder, signature.args[7], out_, at, vector)
        total = cgutils.alloca_once_value(builder, builder.load(to, align=size))
        step = begin.type(1)
        with cgutils.for_range_slice(builder, begin, end, step, begin.type) as (v, _):
            place = _load(context, builder, signature.args[1], slot_, v)
            place = builder.zext(place, begin.type) if place.type != begin.type else place
            x = _load(context, builder, signature.args[2], f_, v)
            x = builder.fpext(x, number) if x.type != number else x
            here = builder.add(builder.mul(place, width), at)
            low, high = (
                builder.load(_at(context, builder, signature.args[0], w_, i, vector), align=size)
                for i in (here, builder.add(here, width))
            )
            part = builder.fmul(_spread(builder, x, vector), builder.fsub(high, low))
            part = builder.fadd(low, part)
            builder.store(builder.fadd(builder.load(total), part), total)
        builder.store(builder.load(total), to, align=size)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, slot, f, i, i, i, i, out), generate


@intrinsic
def _add(typing_context, w, place, step, at, a):
    """`add_lanes` compiled."""

    def generate(context, builder, signature, args):
        w_, place, step_, at, a_ = args
        vector, _ = _vector(context, w.dtype)
        size = w.dtype.bitwidth // 8
        steps = _at(context, builder, signature.args[2], step_, at, vector)
        steps = builder.load(steps, align=size)
        to = _at(context, builder, signature.args[0], w_, builder.add(place, at), vector)
        part = builder.fmul(_spread(builder, a_, vector), steps)
        builder.store(builder.fadd(builder.load(to, align=size), part), to, align=size)
        return context.get_dummy_value()

    return types.void(w, types.intp, step, types.intp, w.dtype), generate


@intrinsic
def _add_to_places(typing_context, w, place, n, width, step, at, a, u):
    """`add_steps` compiled."""

    def generate(context, builder, signature, args):
        w_, place, n, width, step_, at, a_, u_ = args
        vector, number = _vector(context, w.dtype)
        size = w.dtype.bitwidth // 8
        steps = _at(context, builder, signature.args[4], step_, at, vector)
        steps = builder.load(steps, align=size)
        one = n.type(1)
        with cgutils.for_range_slice(builder, one, n, one, n.type) as (j, _):
            low = builder.sitofp(j, number)
            low = builder.select(builder.fcmp_ordered("<", low, u_), low, u_)
            part = builder.fmul(_spread(builder, builder.fmul(a_, low), vector), steps)
            here = builder.add(builder.add(place, builder.mul(j, width)), at)
            to = _at(context, builder, signature.args[0], w_, here, vector)
            builder.store(builder.fadd(builder.load(to, align=size), part), to, align=size)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, i, i, i, step, i, w.dtype, w.dtype), generate


@intrinsic
def _add_ramp(typing_context, w, at, n, a, u):
    """`add_ramp_lanes` compiled."""

    def generate(context, builder, signature, args):
        w_, at, n, a_, u_ = args
        vector, number = _vector(context, w.dtype)
        size = w.dtype.bitwidth // 8
        factor, level = _spread(builder, a_, vector), _spread(builder, u_, vector)
        lanes = ir.Constant(vector, [float(i) for i in range(LANES)])
        with cgutils.for_range_slice(builder, n.type(0), n, n.type(LANES), n.type) as (i, _):
            here = builder.fadd(lanes, _spread(builder, builder.sitofp(i, number), vector))
            low = builder.select(builder.fcmp_ordered("<", here, level), here, level)
            to = _at(context, builder, signature.args[0], w_, builder.add(at, i), vector)
            part = builder.fmul(factor, low)
            builder.store(builder.fadd(builder.load(to, align=size), part), to, align=size)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, i, i, w.dtype, w.dtype), generate


def _vector(context, dtype):
    number = context.get_value_type(dtype)
    return ir.VectorType(number, LANES), number


def _load(context, builder, array_type, array, i):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.load(builder.gep(data, [i]))


def _at(context, builder, array_type, array, i, vector):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [i]), vector.as_pointer())


def _spread(builder, x, vector):
    """x in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, x, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, undefined, zeros)
