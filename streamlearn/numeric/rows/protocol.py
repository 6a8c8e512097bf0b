"""Row protocol: the methods that a solver asks of rows, however they lie in memory.

A row form is a `NamedTuple` with the four methods below, as LIBLINEAR's solvers know a row by its
`dot`, `axpy` and `nrm2_sq` alone.  A form holds the coefficients that belong to its rows, so that
it may keep them in the order and the precision that suit it.  Compiled code takes the method of the
form's type, inlined; Python calls it.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload


def visit(rows, order, t):
    """Make row ``order[t]`` the current one; return the number by which the others know it."""
    return rows.visit(order, t)


def norm2(rows, i):
    """Return |Psi|^2 of the current row i, the intercept left out."""
    return rows.norm2(i)


def dot(rows, i, f):
    """Write Psi'w of the current row i and each of len(f) classes into `f` in place."""
    rows.dot(i, f)


def add(rows, i, step):
    """Add step[k] Psi of the current row i to the coefficients of each class k in place."""
    rows.add(i, step)


def _use_methods(verb: Callable[..., object]) -> None:
    def method_of(rows, *_):
        return getattr(rows.instance_class, verb.__name__)

    # the method's first parameter is called self
    overload(verb, strict=False, jit_options={"forceinline": True})(method_of)


for _verb in (visit, norm2, dot, add):
    _use_methods(_verb)


def borrow(rows):
    """Return the rows without their arrays' reference counts: the caller keeps the arrays alive.

    Each call of a method would otherwise count every array of the form, twice the time of a visit.
    """
    return rows


@overload(borrow)
def _borrow(rows):
    return lambda rows: uncounted(rows)


@intrinsic
def uncounted(typing_context, rows):
    """`borrow` compiled."""

    def generate(context, builder, signature, args):
        return _uncounted(context, builder, signature.args[0], args[0])

    return rows(rows), generate


def _uncounted(context, builder, kind, value):
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        return array._getvalue()
    for i, part in enumerate(kind.types if isinstance(kind, types.BaseTuple) else ()):
        plain = _uncounted(context, builder, part, builder.extract_value(value, i))
        value = builder.insert_value(value, plain, i)
    return value
