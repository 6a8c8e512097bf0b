"""Bytes taken apart: numbers of variable length, words at any byte, blocks packed by snappy.

Bytes come from files: every read is checked against their length, and what breaks a rule is a
negative or false answer, never an error.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from ....numeric.jit import kernel

WORD = 8
"""Bytes of a word."""


@kernel
def read_varint(data, at):
    """Return (value, where it ends) of a number in Thrift's variable form; the end is -1 if bad."""
    value, shift = np.int64(0), 0
    while at < len(data) and shift < 42:
        byte = np.int64(data[at])
        value |= (byte & 127) << np.int64(shift)
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    return np.int64(0), -1


@kernel
def inflate(data, out):
    """Decompress a snappy block into `out`; return whether it was whole and fits exactly.

    A tag's low bits say whether bytes follow, or which of those written before come again.
    """
    n, at = read_varint(data, 0)
    if at < 0 or n != len(out):
        return False
    done = 0
    while at < len(data):
        tag = np.int64(data[at])
        at += 1
        more = tag & 3
        length, back = (tag >> 2) + 1, 0
        extra = more if more < 3 else 4
        if more == 0 and length > 60:
            extra = length - 60
        if extra > len(data) - at:
            return False
        number = 0
        for i in range(extra):
            number |= np.int64(data[at + i]) << np.int64(8 * i)
        at += extra
        if more == 0:
            if extra:
                length = number + 1
            if length > len(data) - at or length > len(out) - done:
                return False
            copy_bytes(data, at, out, done, length)
            at += length
        else:
            back = number
            if more == 1:
                length, back = 4 + ((tag >> 2) & 7), number | (tag >> 5) << 8
            if back == 0 or back > done or length > len(out) - done:
                return False
            first, left, to = done - back, length, done
            while left > 0:  # each time as much as lies there already: a pattern doubles
                n = min(left, to - first)
                copy_bytes(out, first, out, to, n)
                left, to = left - n, to + n
        done += length
    return done == len(out)


def load_word(data, at):
    """The uint64 whose bytes begin at ``data[at]``."""
    return data[at : at + WORD].view(np.uint64)[0]


def copy_bytes(data, start, out, to, n):
    """Copy n bytes of `data` from `start` on to byte `to` of `out`; they must not overlap."""
    out.view(np.uint8)[to : to + n] = data[start : start + n]


@overload(load_word)
def _load_word(data, at):
    return lambda data, at: _load(data, np.intp(at))


@overload(copy_bytes)
def _copy_bytes(data, start, out, to, n):
    return lambda data, start, out, to, n: _copy(data, np.intp(start), out, np.intp(to), np.intp(n))


@intrinsic
def _load(typing_context, data, at):
    """`load_word` compiled: at any byte."""

    def generate(context, builder, signature, args):
        start = _byte(context, builder, signature.args[0], *args)
        pointer = ir.PointerType(ir.IntType(8 * WORD))
        return builder.load(builder.bitcast(start, pointer), align=1)

    return types.uint64(data, types.intp), generate


@intrinsic
def _copy(typing_context, data, start, out, to, n):
    """`copy_bytes` compiled: the loop of bytes would not vectorise, as arrays may overlap."""

    def generate(context, builder, signature, args):
        source = _byte(context, builder, signature.args[0], *args[:2])
        target = _byte(context, builder, signature.args[2], *args[2:4])
        cgutils.raw_memcpy(builder, target, source, args[4], 1)
        return context.get_dummy_value()

    i = types.intp
    return types.void(data, i, out, i, i), generate


def _byte(context, builder, kind, array, at):
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(data, ir.PointerType(ir.IntType(8))), [at])
