"""Asking for memory before it is read: rows in random order are read a whole row at a time."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

LINE = 64
"""Bytes of a cache line; a hint too few or too many where it is another."""


def prefetch(array, at):
    """Have the cache line of array[at] brought near; a hint that changes nothing."""


@overload(prefetch)
def _prefetch(array, at):
    return lambda array, at: _bring(array, at)


@intrinsic
def _bring(typing_context, array, at):
    """`prefetch` compiled."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        line = builder.bitcast(builder.gep(data, [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [line, i32(0), i32(3), i32(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(array, at), generate
