"""Sums over a sparse row with eight or sixteen numbers at once, as explicit vectors (see `simd`).

Coefficients lie in places of `width` lanes each, one lane a class; a row's values are places and
fractions: see `additive.kernels_dual_codes`.  Each has a plain body with equal bits.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

LANES = 16
PAIRS = 8
"""Values whose two coefficients are taken at once, each pair as one load."""


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


def pair_sum(w, slot, f, begin, end):
    """Sum w + f (next place's w - w) over begin:end, a multiple of `PAIRS`, of one lane a place."""
    sums = np.zeros(PAIRS, w.dtype)
    for v in range(begin, end):
        k, x = slot[v], w.dtype.type(f[v])
        sums[(v - begin) % PAIRS] += w[k] + x * (w[k + 1] - w[k])
    four = sums[:4] + sums[4:]
    two = four[:2] + four[2:]
    return two[0] + two[1]


def add_pairs(w, scale, slot, f, begin, end, step):
    """Add step (scale (1 - f), next place's scale f) to the two places of begin:end in place."""
    for v in range(begin, end):
        k, x = slot[v], w.dtype.type(f[v])
        w[k] += step * scale[k] * (w.dtype.type(1) - x)
        w[k + 1] += step * scale[k + 1] * x


@overload(pair_sum)
def _pair_sum(w, slot, f, begin, end):
    return lambda w, slot, f, begin, end: _sum_pairs(w, slot, f, np.intp(begin), np.intp(end))


@overload(add_pairs)
def _add_pairs(w, scale, slot, f, begin, end, step):
    return lambda w, scale, slot, f, begin, end, step: _add_to_pairs(
        w, scale, slot, f, np.intp(begin), np.intp(end), step
    )


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


@intrinsic
def _sum_pairs(typing_context, w, slot, f, begin, end):
    """`pair_sum` compiled."""

    def generate(context, builder, signature, args):
        w_, slot_, f_, begin, end = args
        number, size = context.get_value_type(w.dtype), w.dtype.bitwidth // 8
        two, eight = ir.VectorType(number, 2), ir.VectorType(number, PAIRS)
        fractions = ir.VectorType(context.get_value_type(f.dtype), PAIRS)
        total = cgutils.alloca_once_value(builder, ir.Constant(eight, [0.0] * PAIRS))
        step = begin.type(PAIRS)
        with cgutils.for_range_slice(builder, begin, end, step, begin.type) as (v, _):
            pairs = []
            for q in range(PAIRS):
                at = builder.add(v, v.type(q))
                place = _load(context, builder, signature.args[1], slot_, at)
                place = builder.zext(place, v.type)
                at = _at(context, builder, signature.args[0], w_, place, two)
                pairs.append(builder.load(at, align=size))
            while len(pairs) > 2:
                pairs = [_join(builder, a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
            low, high = (_pick(builder, *pairs, range(k, 2 * PAIRS, 2)) for k in (0, 1))
            at = _at(context, builder, signature.args[2], f_, v, fractions)
            x = builder.load(at, align=f.dtype.bitwidth // 8)
            x = builder.fpext(x, eight) if fractions != eight else x
            part = builder.fadd(low, builder.fmul(x, builder.fsub(high, low)))
            builder.store(builder.fadd(builder.load(total), part), total)
        sums = builder.load(total)
        for n in (PAIRS, PAIRS // 2):
            halves = (_pick(builder, sums, sums, range(a, a + n // 2)) for a in (0, n // 2))
            sums = builder.fadd(*halves)
        i32 = ir.IntType(32)
        return builder.fadd(*(builder.extract_element(sums, i32(k)) for k in (0, 1)))

    i = types.intp
    return w.dtype(w, slot, f, i, i), generate


@intrinsic
def _add_to_pairs(typing_context, w, scale, slot, f, begin, end, step):
    """`add_pairs` compiled."""

    def generate(context, builder, signature, args):
        w_, scale_, slot_, f_, begin, end, step = args
        number, size = context.get_value_type(w.dtype), w.dtype.bitwidth // 8
        two, i32 = ir.VectorType(number, 2), ir.IntType(32)
        none, one = ir.Constant(two, ir.Undefined), ir.Constant(number, 1.0)

        def pair(a, b):
            return builder.insert_element(builder.insert_element(none, a, i32(0)), b, i32(1))

        steps = pair(step, step)
        with cgutils.for_range_slice(builder, begin, end, begin.type(1), begin.type) as (v, _):
            place = builder.zext(_load(context, builder, signature.args[2], slot_, v), v.type)
            x = _load(context, builder, signature.args[3], f_, v)
            x = builder.fpext(x, number) if x.type != number else x
            scales = _at(context, builder, signature.args[1], scale_, place, two)
            part = builder.fmul(steps, builder.load(scales, align=size))
            part = builder.fmul(part, pair(builder.fsub(one, x), x))
            to = _at(context, builder, signature.args[0], w_, place, two)
            builder.store(builder.fadd(builder.load(to, align=size), part), to, align=size)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, scale, slot, f, i, i, w.dtype), generate


def _join(builder, a, b):
    """The numbers of a, then those of b."""
    return _pick(builder, a, b, range(2 * a.type.count))


def _pick(builder, a, b, which):
    """Those of the numbers of a and b, numbered on."""
    index = ir.Constant(ir.VectorType(ir.IntType(32), len(which)), list(which))
    return builder.shuffle_vector(a, b, index)


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
