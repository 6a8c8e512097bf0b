"""The few vector instructions LLVM does not find by itself; each has a plain body with equal bits.

`add_pair`, `add_quad` and `add_two_rows` are portable vector code.  `search_column` and
`lookup_column` hold a column's whole table in registers and read it by permutes where the processor
has AVX-512; elsewhere the plain bodies are compiled.  Both do the same arithmetic.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic, overload, register_jitable

TABLE = 32
"""Entries of a table that fits the registers."""
LANES = 16
FLOATS = ir.VectorType(ir.FloatType(), LANES)
INTS = ir.VectorType(ir.IntType(32), LANES)


def has_avx512() -> bool:
    """Whether numba compiles for a processor with AVX-512."""
    if config.CPU_FEATURES is not None:
        return "+avx512f" in config.CPU_FEATURES
    if config.CPU_NAME not in (None, "host") or not config.ENABLE_AVX:
        return False
    return bool(llvm.get_host_cpu_features().get("avx512f", False))


def add_pair(acc, at, values, start):
    """Add values[start:start + 2] to acc[at:at + 2] in place, as one load, add and store."""
    acc[at] += values[start]
    acc[at + 1] += values[start + 1]


def add_quad(acc, at, values, start):
    """`add_pair` of four numbers."""
    for q in range(4):
        acc[at + q] += values[start + q]


def search_column(x, n_rows, knots, inverse, n_intervals, u):
    """Write the coordinates of x[:n_rows] into `u` in place; one column's knots and inverses.

    The vector form is for float32 and at most TABLE entries, the knots' rest +inf.
    """
    search_plain(x, n_rows, knots, inverse, n_intervals, u)


@register_jitable
def search_plain(x, n_rows, knots, inverse, n_intervals, u):
    for i in range(n_rows):
        u[i] = 0
    for j in range(1, n_intervals + 1):
        edge = knots[j]
        for i in range(n_rows):
            u[i] += np.float32(x[i] >= edge)
    for i in range(n_rows):
        j = np.uintp(u[i])
        # NaN compares False: inf - inf and 0 inf, possible at the ends of the range, become 0.
        t = (x[i] - knots[j]) * inverse[j]
        t = t if t > 0 else x.dtype.type(0)
        t = t if t < 1 else x.dtype.type(1)
        u[i] = np.float32(t + x.dtype.type(j))


def lookup_column(u, n_rows, constants, slopes, F):
    """Add constants[j] + f slopes[j] to `F` in place for every u[:n_rows] = j + f.

    The vector form is for float32 and at least TABLE entries.
    """
    lookup_plain(u, n_rows, constants, slopes, F)


@register_jitable
def lookup_plain(u, n_rows, constants, slopes, F):
    for i in range(n_rows):
        j = np.uintp(u[i])
        f = constants.dtype.type(u[i] - np.float32(j))
        F[i] += constants[j] + f * slopes[j]


@overload(search_column)
def _search_column(x, n_rows, knots, inverse, n_intervals, u):
    if not has_avx512() or x.dtype != types.float32:
        return lambda x, n_rows, knots, inverse, n_intervals, u: search_plain(
            x, n_rows, knots, inverse, n_intervals, u
        )

    def search(x, n_rows, knots, inverse, n_intervals, u):
        whole = n_rows // LANES * LANES if len(knots) == TABLE else 0
        if whole > 0:
            search_lanes(x, whole, knots, inverse, u)
        if whole < n_rows:
            search_plain(x[whole:], n_rows - whole, knots, inverse, n_intervals, u[whole:])

    return search


@overload(lookup_column)
def _lookup_column(u, n_rows, constants, slopes, F):
    if not has_avx512() or F.dtype != types.float32:
        return lambda u, n_rows, constants, slopes, F: lookup_plain(u, n_rows, constants, slopes, F)

    def lookup(u, n_rows, constants, slopes, F):
        whole = n_rows // LANES * LANES if len(constants) == TABLE else 0
        if whole > 0:
            lookup_lanes(u, whole, constants, slopes, F)
        if whole < n_rows:
            lookup_plain(u[whole:], n_rows - whole, constants, slopes, F[whole:])

    return lookup


@overload(add_pair)
def _add_pair(acc, at, values, start):
    return lambda acc, at, values, start: add_two(acc, at, values, start)


@overload(add_quad)
def _add_quad(acc, at, values, start):
    return lambda acc, at, values, start: add_four(acc, at, values, start)


@intrinsic
def add_two(typing_context, acc, at, values, start):
    """`add_pair` compiled."""
    return _packed_sum(2, acc, values)


@intrinsic
def add_four(typing_context, acc, at, values, start):
    """`add_quad` compiled."""
    return _packed_sum(4, acc, values)


def _packed_sum(lanes, acc, values):
    def generate(context, builder, signature, args):
        kind = ir.VectorType(context.get_value_type(acc.dtype), lanes)
        to = _vector_at(context, builder, signature.args[0], args[0], args[1], kind)
        source = _vector_at(context, builder, signature.args[2], args[2], args[3], kind)
        size = acc.dtype.bitwidth // 8
        total = builder.fadd(builder.load(to, align=size), builder.load(source, align=size))
        builder.store(total, to, align=size)
        return context.get_dummy_value()

    return types.void(acc, types.intp, values, types.intp), generate


@intrinsic
def search_lanes(typing_context, x, n_rows, knots, inverse, u):
    """`search_column` for a multiple of LANES rows."""

    def generate(context, builder, signature, args):
        x, n_rows, knots, inverse, u = args
        low, high = _table(context, builder, signature.args[2], knots)
        inverses = _table(context, builder, signature.args[3], inverse)
        zero, one = _constant(FLOATS, 0.0), _constant(FLOATS, 1.0)
        middle = builder.shuffle_vector(high, high, _constant(INTS, 0))
        # ahead[step][j] = knots[j + step]: the sum leaves the chain of dependent operations
        ahead = {
            step: [
                builder.shuffle_vector(low, high, _sequence(step)),
                builder.shuffle_vector(high, high, _sequence(step)),
            ]
            for step in (8, 4, 2, 1)
        }
        with cgutils.for_range_slice(
            builder, n_rows.type(0), n_rows, n_rows.type(LANES), n_rows.type
        ) as (i, _):
            v = builder.load(_vector_at(context, builder, signature.args[0], x, i, FLOATS), align=4)
            found = builder.fcmp_ordered(">=", v, middle)
            j = builder.select(found, _constant(INTS, 16), _constant(INTS, 0))
            for step in (8, 4, 2, 1):
                found = builder.fcmp_ordered(">=", v, _permute(builder, ahead[step], j))
                j = builder.select(found, builder.add(j, _constant(INTS, step)), j)
            t = builder.fsub(v, _permute(builder, (low, high), j))
            t = builder.fmul(t, _permute(builder, inverses, j))
            t = builder.select(builder.fcmp_ordered(">", t, zero), t, zero)
            t = builder.select(builder.fcmp_ordered("<", t, one), t, one)
            t = builder.fadd(t, builder.sitofp(j, FLOATS))
            to = _vector_at(context, builder, signature.args[4], u, i, FLOATS)
            builder.store(t, to, align=4)
        return context.get_dummy_value()

    return types.void(x, types.intp, knots, inverse, u), generate


@intrinsic
def lookup_lanes(typing_context, u, n_rows, constants, slopes, F):
    """`lookup_column` for a multiple of LANES rows."""

    def generate(context, builder, signature, args):
        u, n_rows, constants, slopes, F = args
        constants = _table(context, builder, signature.args[2], constants)
        slopes = _table(context, builder, signature.args[3], slopes)
        with cgutils.for_range_slice(
            builder, n_rows.type(0), n_rows, n_rows.type(LANES), n_rows.type
        ) as (i, _):
            v = builder.load(_vector_at(context, builder, signature.args[0], u, i, FLOATS), align=4)
            j = builder.fptosi(v, INTS)
            f = builder.fsub(v, builder.sitofp(j, FLOATS))
            part = builder.fmul(f, _permute(builder, slopes, j))
            part = builder.fadd(_permute(builder, constants, j), part)
            to = _vector_at(context, builder, signature.args[4], F, i, FLOATS)
            builder.store(builder.fadd(builder.load(to, align=4), part), to, align=4)
        return context.get_dummy_value()

    return types.void(u, types.intp, constants, slopes, F), generate


def _vector_at(context, builder, kind, array, at, vector):
    """Pointer to the vector that starts at element `at` of a contiguous 1-D array."""
    if not kind.is_c_contig:
        raise TypeError(f"{kind}: vector loads need a contiguous array")
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def _table(context, builder, kind, array):
    """The TABLE entries of an array in two registers."""
    at = [ir.Constant(ir.IntType(64), half) for half in (0, LANES)]
    return [builder.load(_vector_at(context, builder, kind, array, a, FLOATS), align=4) for a in at]


def _permute(builder, table, index):
    """table[index] lane by lane."""
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(FLOATS, [FLOATS, INTS, FLOATS]),
        "llvm.x86.avx512.vpermi2var.ps.512",
    )
    return builder.call(function, [table[0], index, table[1]])


def _sequence(start):
    """Lanes start, start + 1, ... of two registers."""
    return ir.Constant(INTS, list(range(start, start + LANES)))


def _constant(kind, value):
    return ir.Constant(kind, [value] * LANES)


ROW = 8
"""Rows of tables are padded to a multiple of this."""
DOUBLES = ir.VectorType(ir.DoubleType(), ROW)


def add_two_rows(w, at, table, place, stride, a, b):
    """Add a table[place:] + b table[place + stride:] to w[at:] in place, `stride` float64 numbers.

    `stride` is a multiple of ROW; w and table must not overlap.
    """
    for i in range(stride):
        w[at + i] += a * table[place + i] + b * table[place + stride + i]


@overload(add_two_rows)
def _add_two_rows(w, at, table, place, stride, a, b):
    return lambda w, at, table, place, stride, a, b: add_rows(w, at, table, place, stride, a, b)


@intrinsic
def add_rows(typing_context, w, at, table, place, stride, a, b):
    """`add_two_rows` without a test whether the arrays overlap, which costs as much as the sum."""

    def generate(context, builder, signature, args):
        w, at, table, place, stride, a, b = args
        first, second = (
            builder.shuffle_vector(
                builder.insert_element(ir.Constant(DOUBLES, ir.Undefined), x, at.type(0)),
                ir.Constant(DOUBLES, ir.Undefined),
                ir.Constant(ir.VectorType(ir.IntType(32), ROW), [0] * ROW),
            )
            for x in (a, b)
        )
        with cgutils.for_range_slice(builder, at.type(0), stride, at.type(ROW), at.type) as (i, _):
            to = _vector_at(context, builder, signature.args[0], w, builder.add(at, i), DOUBLES)
            row = builder.add(place, i)
            x = _vector_at(context, builder, signature.args[2], table, row, DOUBLES)
            row = builder.add(row, stride)
            y = _vector_at(context, builder, signature.args[2], table, row, DOUBLES)
            step = builder.fadd(
                builder.fmul(first, builder.load(x, align=8)),
                builder.fmul(second, builder.load(y, align=8)),
            )
            builder.store(builder.fadd(builder.load(to, align=8), step), to, align=8)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, i, table, i, i, types.float64, types.float64), generate
