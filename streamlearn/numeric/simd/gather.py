"""Sums over a sparse row with eight or sixteen numbers at once, as explicit vectors (see `add`).

Coefficients lie in places, of one class or of `CLASSES` side by side; a row's values are places and
fractions: see `additive.dual.kernels_codes`.  Each has a plain body with equal bits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from .prefetch import LINE

LANES = 16
CLASSES = 8
"""Numbers of a place that holds several: float32 in the vectors of nearly all processors."""
PAIRS = 8
"""Values whose two coefficients are taken at once, each pair as one load."""


def zeros_in_lines(shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    """Zeros that begin where a cache line does: vectors across two take twice the time."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size].view(dtype).reshape(shape)


def pair_lanes(w, slot, f, begin, end, out):
    """Write the sum of w + f (next place's w - w) over begin:end to out[:CLASSES] in place.

    Every other value is summed apart, so that one addition does not wait for the last.
    """
    sums = np.zeros((2, CLASSES), w.dtype)
    for v in range(begin, end):
        x, place = w.dtype.type(f[v]), slot[v] * CLASSES
        low, high = w[place : place + CLASSES], w[place + CLASSES : place + 2 * CLASSES]
        sums[(v - begin) % 2] += low + x * (high - low)
    out[:CLASSES] = sums[0] + sums[1]


def add_lanes(w, place, step, a):
    """Add a step[:CLASSES] to w[place:][:CLASSES] in place."""
    for i in range(CLASSES):
        w[place + i] += a * step[i]


def add_steps(w, place, n, step, a, u):
    """Add a min(j, u) step to the n places from `place` on, an even number, in place."""
    for j in range(n):
        b = a * min(w.dtype.type(j), u)
        for i in range(CLASSES):
            w[place + j * CLASSES + i] += b * step[i]


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
def _pair_lanes(w, slot, f, begin, end, out):
    return lambda w, slot, f, begin, end, out: _pair(w, slot, f, np.intp(begin), np.intp(end), out)


@overload(add_lanes)
def _add_lanes(w, place, step, a):
    return lambda w, place, step, a: _add(w, np.intp(place), step, a)


@overload(add_steps)
def _add_steps(w, place, n, step, a, u):
    return lambda w, place, n, step, a, u: _add_to_places(w, np.intp(place), np.intp(n), step, a, u)


@overload(add_ramp_lanes)
def _add_ramp_lanes(w, at, n, a, u):
    return lambda w, at, n, a, u: _add_ramp(w, np.intp(at), np.intp(n), a, u)


@intrinsic
def _pair(typing_context, w, slot, f, begin, end, out):
    """`pair_lanes` compiled."""

    def generate(context, builder, signature, args):
        w_, slot_, f_, begin, end, out_ = args
        number, size = context.get_value_type(w.dtype), w.dtype.bitwidth // 8
        vector = ir.VectorType(number, CLASSES)

        def part(v):
            place = _load(context, builder, signature.args[1], slot_, v)
            place = builder.zext(place, v.type) if place.type != v.type else place
            x = _load(context, builder, signature.args[2], f_, v)
            x = builder.fpext(x, number) if x.type != number else x
            at = builder.mul(place, v.type(CLASSES))
            low, high = (
                builder.load(_at(context, builder, signature.args[0], w_, i, vector), align=size)
                for i in (at, builder.add(at, v.type(CLASSES)))
            )
            more = builder.fmul(_spread(builder, x, vector), builder.fsub(high, low))
            return builder.fadd(low, more)

        none = ir.Constant(vector, [0.0] * CLASSES)
        sums = [cgutils.alloca_once_value(builder, none) for _ in range(2)]
        one, two = begin.type(1), begin.type(2)
        n = builder.sub(end, begin)
        even = builder.add(begin, builder.sub(n, builder.and_(n, one)))
        with cgutils.for_range_slice(builder, begin, even, two, begin.type) as (v, _):
            for k, total in enumerate(sums):
                more = part(builder.add(v, v.type(k)))
                builder.store(builder.fadd(builder.load(total), more), total)
        with builder.if_then(builder.icmp_signed("<", even, end)):
            builder.store(builder.fadd(builder.load(sums[0]), part(even)), sums[0])
        total = builder.fadd(*map(builder.load, sums))
        to = _at(context, builder, signature.args[5], out_, begin.type(0), vector)
        builder.store(total, to, align=size)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, slot, f, i, i, out), generate


@intrinsic
def _add(typing_context, w, place, step, a):
    """`add_lanes` compiled."""

    def generate(context, builder, signature, args):
        w_, place, step_, a_ = args
        vector, size = ir.VectorType(a_.type, CLASSES), w.dtype.bitwidth // 8
        steps = _at(context, builder, signature.args[2], step_, place.type(0), vector)
        steps = builder.load(steps, align=size)
        to = _at(context, builder, signature.args[0], w_, place, vector)
        part = builder.fmul(_spread(builder, a_, vector), steps)
        builder.store(builder.fadd(builder.load(to, align=size), part), to, align=size)
        return context.get_dummy_value()

    return types.void(w, types.intp, step, w.dtype), generate


@intrinsic
def _add_to_places(typing_context, w, place, n, step, a, u):
    """`add_steps` compiled."""

    def generate(context, builder, signature, args):
        w_, place, n, step_, a_, u_ = args
        number, size = a_.type, w.dtype.bitwidth // 8
        vector = ir.VectorType(number, 2 * CLASSES)  # two places: in one cache line if aligned
        half = ir.VectorType(number, CLASSES)
        steps = _at(context, builder, signature.args[3], step_, n.type(0), half)
        steps = builder.load(steps, align=size)
        steps = _pick(builder, steps, steps, range(2 * CLASSES))
        factor, level = _spread(builder, a_, vector), _spread(builder, u_, vector)
        first = ir.Constant(vector, [float(i // CLASSES) for i in range(2 * CLASSES)])
        with cgutils.for_range_slice(builder, n.type(0), n, n.type(2), n.type) as (j, _):
            low = builder.fadd(first, _spread(builder, builder.sitofp(j, number), vector))
            low = builder.select(builder.fcmp_ordered("<", low, level), low, level)
            part = builder.fmul(builder.fmul(factor, low), steps)
            here = builder.add(place, builder.mul(j, n.type(CLASSES)))
            to = _at(context, builder, signature.args[0], w_, here, vector)
            builder.store(builder.fadd(builder.load(to, align=size), part), to, align=size)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, i, i, step, w.dtype, w.dtype), generate


@intrinsic
def _add_ramp(typing_context, w, at, n, a, u):
    """`add_ramp_lanes` compiled."""

    def generate(context, builder, signature, args):
        w_, at, n, a_, u_ = args
        number, size = a_.type, w.dtype.bitwidth // 8
        vector = ir.VectorType(number, LANES)
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
    """Pick lanes out of those of a and b, where b's lanes are numbered after a's."""
    index = ir.Constant(ir.VectorType(ir.IntType(32), len(which)), list(which))
    return builder.shuffle_vector(a, b, index)


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
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, undefined, zeros)
