"""Losses of a target y and a decision f: value, slope and curvature in f, and the dual.

Classification: y is +1 or -1 and the losses are functions of the margin y f.  The same four
functions serve Python and compiled kernels, which are specialised by the loss's type.  All is
float64 and free of branches, so that loops over rows vectorise.

The dual of  C sum_i s_i l(y_i, f_i) + 1/2 |w|^2  in the forces v_i (at the optimum v = -slope) is

    D(v) = C sum_i s_i dual_value(y_i, v_i) - 1/2 |C sum_i s_i v_i Psi_i|^2,

dual_value(y, v) = min_f [l(y, f) + v f].  With v = y alpha / C these are the usual sums: hinge
alpha, squared hinge alpha - alpha^2/(4C), logistic -C [u log u + (1-u) log(1-u)].
"""

from __future__ import annotations

from typing import NamedTuple

from numba.extending import overload, register_jitable

from .elementary import decay, log1p_unit, log_unit


class LogLoss(NamedTuple):
    """log(1 + exp(-y f))."""

    def value(self, y, f):
        z = y * f
        return log1p_unit(decay(abs(z))) + max(-z, 0.0)

    def slope(self, y, f):
        z = y * f
        e = decay(abs(z))
        return -y * (e if z >= 0.0 else 1.0) / (1.0 + e)

    def curvature(self, y, f):
        e = decay(abs(y * f))
        return e / ((1.0 + e) * (1.0 + e))

    def dual_value(self, y, v):
        u = y * v
        return -(u * log_unit(u) + (1.0 - u) * log_unit(1.0 - u))


class SquaredHinge(NamedTuple):
    """max(0, 1 - y f)^2."""

    def value(self, y, f):
        r = max(0.0, 1.0 - y * f)
        return r * r

    def slope(self, y, f):
        return -2.0 * y * max(0.0, 1.0 - y * f)

    def curvature(self, y, f):
        return 2.0 if y * f < 1.0 else 0.0

    def dual_value(self, y, v):
        u = y * v
        return u - 0.25 * u * u


class Hinge(NamedTuple):
    """max(0, 1 - y f); its slope at the kink is 0, its curvature 0 everywhere."""

    def value(self, y, f):
        return max(0.0, 1.0 - y * f)

    def slope(self, y, f):
        return -y if y * f < 1.0 else 0.0 * y

    def curvature(self, y, f):
        return 0.0 * f

    def dual_value(self, y, v):
        return y * v


class SquaredError(NamedTuple):
    """(y - f)^2."""

    def value(self, y, f):
        return (y - f) * (y - f)

    def slope(self, y, f):
        return 2.0 * (f - y)

    def curvature(self, y, f):
        return 2.0 + 0.0 * f

    def dual_value(self, y, v):
        return y * v - 0.25 * v * v


def value(loss, y, f):
    """l(y, f)."""
    return loss.value(y, f)


def slope(loss, y, f):
    """dl/df."""
    return loss.slope(y, f)


def curvature(loss, y, f):
    """d2l/df2 (the generalised one where the slope has a kink)."""
    return loss.curvature(y, f)


def dual_value(loss, y, v):
    """min_f [l(y, f) + v f], for a force v inside the domain."""
    return loss.dual_value(y, v)


# One line per function: the compiled form is the method of the loss's type, inlined.
@overload(value)
def _value(loss, y, f):
    method = register_jitable(loss.instance_class.value)
    return lambda loss, y, f: method(loss, y, f)


@overload(slope)
def _slope(loss, y, f):
    method = register_jitable(loss.instance_class.slope)
    return lambda loss, y, f: method(loss, y, f)


@overload(curvature)
def _curvature(loss, y, f):
    method = register_jitable(loss.instance_class.curvature)
    return lambda loss, y, f: method(loss, y, f)


@overload(dual_value)
def _dual_value(loss, y, v):
    method = register_jitable(loss.instance_class.dual_value)
    return lambda loss, y, v: method(loss, y, v)
