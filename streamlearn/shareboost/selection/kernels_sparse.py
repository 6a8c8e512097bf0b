"""Compiled loops over sparse rows: gradients of columns, and of products of pairs of them."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from ...numeric.jit import kernel
from ...numeric.simd.add import _vector_at
from ...numeric.simd.prefetch import LINE, prefetch

AHEAD = 16
"""Stored values between the one added and the one whose sums are brought near."""
NUMBERS = LINE // 8
"""float64 sums of a cache line."""
I32 = ir.IntType(32)


@kernel
def add_sparse_gradient(data, indices, indptr, R, G):
    """Add X' R to the first K of each row of G (n, stride) in place, X the sparse rows.

    An absent value adds nothing.  The sums of many columns are far away in memory, in no order, but
    known long before.  With those of 30 classes, of rows of 100 values just decoded, a value takes
    12 to 15 ns for 100,000 columns and 9 for 20,000.  If the sums are not padded to whole cache
    lines it takes one more; if the rows are gone over for one block of columns, whose sums stay
    near, after another, it takes 14 to 18 and 9.
    """
    K, stride, last = R.shape[1], G.shape[1], len(indices) - 1
    sums, residuals = G.reshape(-1), R.reshape(-1)
    for i in range(len(R)):
        for a in range(indptr[i], indptr[i + 1]):
            coming = np.intp(indices[min(a + AHEAD, last)]) * stride
            for k in range(0, K, NUMBERS):
                prefetch(sums, coming + k)
            to, x = np.intp(indices[a]) * stride, R.dtype.type(data[a])
            add_multiple_of_row(sums, to, residuals, np.intp(i) * K, np.intp(K), x)


def add_multiple_of_row(sums, at, row, start, n, x):
    """Add x row[start:start + n], in the dtype of the row, to sums[at:at + n] in place."""
    for k in range(n):
        sums[at + k] += row[start + k] * x


# a call would hand over two arrays word by word, which costs as much as three classes
@overload(add_multiple_of_row, jit_options={"forceinline": True})
def _add_multiple_of_row(sums, at, row, start, n, x):
    return lambda sums, at, row, start, n, x: add_vectors(sums, at, row, start, n, x)


@intrinsic
def add_vectors(typing_context, sums, at, row, start, n, x):
    """`add_multiple_of_row` compiled, without a test whether the arrays overlap.

    Vectors of eight numbers, and the rest as one of each of four, two and one: the sums of a
    column are a few dozen, so that numbers by themselves would be half of the work.
    """

    def generate(context, builder, signature, args):
        sums, at, row, start, n, x = args
        to_array, row_array = signature.args[0], signature.args[2]
        double, given = ir.DoubleType(), context.get_value_type(row_array.dtype)

        def add(lanes, k):
            vector, source = ir.VectorType(double, lanes), ir.VectorType(given, lanes)
            to = _vector_at(context, builder, to_array, sums, builder.add(at, k), vector)
            part = _vector_at(context, builder, row_array, row, builder.add(start, k), source)
            factor = builder.insert_element(ir.Constant(source, ir.Undefined), x, I32(0))
            alike = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
            factor = builder.shuffle_vector(factor, factor, alike)
            align = row_array.dtype.bitwidth // 8
            step = builder.fmul(builder.load(part, align=align), factor)
            step = step if given == double else builder.fpext(step, vector)
            builder.store(builder.fadd(builder.load(to, align=8), step), to, align=8)

        whole = builder.and_(n, n.type(-NUMBERS))
        with cgutils.for_range_slice(builder, n.type(0), whole, n.type(NUMBERS), n.type) as (k, _):
            add(NUMBERS, k)
        k = whole
        for lanes in (4, 2, 1):
            more = builder.and_(n, n.type(lanes))
            with builder.if_then(builder.icmp_signed("!=", more, n.type(0))):
                add(lanes, k)
            k = builder.add(k, more)
        return context.get_dummy_value()

    i = types.intp
    return types.void(sums, i, row, i, i, row.dtype), generate


@kernel
def add_sparse_products(data, indices, indptr, R, first, stop, G):
    """Add X[:, first:stop]' diag(R_k) X to G (K, stop - first, p) in place, X the sparse rows."""
    for i in range(len(indptr) - 1):
        for a in range(indptr[i], indptr[i + 1]):
            j = indices[a] - first
            if 0 <= j < stop - first:
                for b in range(indptr[i], indptr[i + 1]):
                    x = float(data[a]) * data[b]
                    for k in range(R.shape[1]):
                        G[k, j, indices[b]] += R[i, k] * x
