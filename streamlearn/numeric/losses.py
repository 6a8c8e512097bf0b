"""Losses of a target y and a decision f: value, slope and curvature in f, and the dual.

Classification: y is +1 or -1 and the losses are functions of the margin y f.  The same four
functions serve Python and compiled kernels, which are specialised by the loss's type.  All is
float64 and free of branches, so that loops over rows vectorise.

The dual of  C sum_i s_i l(y_i, f_i) + 1/2 |w|^2  in the forces v_i (at the optimum v = -slope) is

    D(v) = C sum_i s_i dual_value(y_i, v_i) - 1/2 |C sum_i s_i v_i Psi_i|^2,

dual_value(y, v) = min_f [l(y, f) + v f].  With v = y alpha / C these are the usual sums: hinge
alpha, squared hinge alpha - alpha^2/(4C), logistic -C [u log u + (1-u) log(1-u)].

Regression: y is the target; Poisson and gamma losses are half-deviances under the log link, so that
a row of exposure e is the row of target y / e with its weight (Poisson: times e).
"""

from __future__ import annotations

from typing import NamedTuple

from numba.extending import overload, register_jitable

from .elementary import decay, exponential, log1p_unit, log_of


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
        return -(u * log_of(u) + (1.0 - u) * log_of(1.0 - u))


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


class EpsilonInsensitive(NamedTuple):
    """max(0, |y - f| - epsilon); its slope at the kinks is 0, its curvature 0 everywhere."""

    epsilon: float

    def value(self, y, f):
        return max(0.0, abs(y - f) - self.epsilon)

    def slope(self, y, f):
        r = f - y
        return (1.0 if r > self.epsilon else 0.0) - (1.0 if -r > self.epsilon else 0.0)

    def curvature(self, y, f):
        return 0.0 * f

    def dual_value(self, y, v):
        return y * v - self.epsilon * abs(v)


class SquaredEpsilonInsensitive(NamedTuple):
    """max(0, |y - f| - epsilon)^2."""

    epsilon: float

    def value(self, y, f):
        r = max(0.0, abs(y - f) - self.epsilon)
        return r * r

    def slope(self, y, f):
        r = f - y
        return 2.0 * (max(0.0, r - self.epsilon) - max(0.0, -r - self.epsilon))

    def curvature(self, y, f):
        return 2.0 if abs(y - f) > self.epsilon else 0.0

    def dual_value(self, y, v):
        return y * v - self.epsilon * abs(v) - 0.25 * v * v


class Huber(NamedTuple):
    """1/2 r^2 for |r| <= delta, delta (|r| - delta / 2) beyond, r = y - f."""

    delta: float

    def value(self, y, f):
        r = abs(y - f)
        inside = min(r, self.delta)
        return inside * (r - 0.5 * inside)

    def slope(self, y, f):
        return min(max(f - y, -self.delta), self.delta)

    def curvature(self, y, f):
        return 1.0 if abs(y - f) <= self.delta else 0.0

    def dual_value(self, y, v):
        return y * v - 0.5 * v * v


class Poisson(NamedTuple):
    """Half the deviance of a count y >= 0 whose mean is e^f: y log(y / e^f) - y + e^f."""

    def value(self, y, f):
        return y * (log_of(y) - f) - y + exponential(f)

    def slope(self, y, f):
        return exponential(f) - y

    def curvature(self, y, f):
        return exponential(f)

    def dual_value(self, y, v):
        return y * log_of(y) - v - (y - v) * log_of(y - v)


class Gamma(NamedTuple):
    """Half the deviance of an amount y > 0 whose mean is e^f: y / e^f - 1 - log(y / e^f)."""

    def value(self, y, f):
        return y * exponential(-f) - 1.0 - log_of(y) + f

    def slope(self, y, f):
        return 1.0 - y * exponential(-f)

    def curvature(self, y, f):
        return y * exponential(-f)

    def dual_value(self, y, v):
        return v + v * log_of(y) - (1.0 + v) * log_of(1.0 + v)


class Force(NamedTuple):
    """y f: not a loss but a given slope, so that a pass sums y Phi."""

    def value(self, y, f):
        return y * f

    def slope(self, y, f):
        return y + 0.0 * f

    def curvature(self, y, f):
        return 0.0 * f


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
