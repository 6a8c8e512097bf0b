"""Losses of a target y and a decision f.  A loss is one class, and all else is derived from it.

A subclass of `Loss` says what target it takes and which link leads from the target's mean to f,
and has the methods ``value`` and ``slope``.  What else it has decides which solvers may serve it:

    curvature(y, f)     a smooth loss: "newton", "lbfgs"
    slope_bound()       slopes that are nowhere larger: "pegasos" and `partial_fit`
    dual_rule()         a dual that is minimised one variable at a time (`DualRule`): "dual-cd"

Annotated names in the class body are its parameters, as in a NamedTuple.  The same methods serve
Python and compiled kernels, which are specialised by the loss's type: so they are plain arithmetic
on floats (functions of `elementary`, max, min, abs, conditional expressions), free of loops.
A class target y is +1 or -1, and its losses are functions of the margin y f.

Losses with a log link are half-deviances, so that a row of exposure e is the row of target y / e
with its weight times e^a, a = `Loss.homogeneity`, and the loss `Loss.rescaled` by e: the same loss
for Poisson, Tweedie and gamma losses, which therefore take an exposure in each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from numba.extending import overload, register_jitable

from .dual_rule import DualRule
from .elementary import decay, exponential, log1p_unit, log_of, twice_artanh
from .links import IDENTITY, LOG, LOGIT, Link
from .parametric import Parametric
from .targets import AMOUNT, CLASS, COUNT, NUMBER, TOTAL, Target


class Loss(Parametric):
    """A loss: subclass it, annotate its parameters (each a number), write ``value`` and ``slope``.

    Examples
    --------
    >>> class Expectile(Loss):
    ...     tau: float = 0.5
    ...     def value(self, y, f):
    ...         return (self.tau if y > f else 1.0 - self.tau) * (y - f) * (y - f)
    ...     def slope(self, y, f):
    ...         return 2.0 * (self.tau if y > f else 1.0 - self.tau) * (f - y)
    ...     def curvature(self, y, f):
    ...         return 2.0 * (self.tau if y > f else 1.0 - self.tau)
    >>> Expectile(0.9).value(1.0, 0.0), Expectile(0.9).has("curvature", "dual_rule")
    (0.9, False)
    """

    target: ClassVar[Target] = NUMBER
    link: ClassVar[Link | None] = IDENTITY
    """From the target's mean (a class: the probability of +1) to f; None: f does not tell it."""
    quadratic: ClassVar[bool] = False
    """Whether the slope is curvature times (f - y) with one curvature everywhere: one Newton step
    over all rows is then exact."""
    deviances: ClassVar[float] = 0.5
    """The loss in units of the deviance at dispersion 1: 1 for squares, 1/2 for half-deviances."""
    multinomial: ClassVar[bool] = False
    """Whether K classes may be one problem, the multinomial loss of their softmax."""

    @property
    def homogeneity(self) -> float:
        """The a of l(c y, f + log c) = c^a l'(y, f), l' `rescaled`, under the log link."""
        return 1.0 if self.target is COUNT else 0.0

    def rescaled(self, c: float) -> Loss:
        """The loss l' of targets that were divided by c, as `homogeneity` has it."""
        return self

    @property
    def scale_known(self) -> bool:
        """Whether the loss is minus the log-likelihood of classes or counts: the dispersion is 1.

        Of others it is estimated, if it is needed.
        """
        return self.link is not None and self.target in (CLASS, COUNT)

    if TYPE_CHECKING:  # the methods that a loss may have; `has` tells which it has

        def value(self, y: float, f: float) -> float: ...
        def slope(self, y: float, f: float) -> float: ...
        def curvature(self, y: float, f: float) -> float: ...
        def slope_bound(self) -> float: ...
        def dual_rule(self) -> DualRule: ...


class LogLoss(Loss):
    """log(1 + exp(-y f))."""

    name, target, link, multinomial = "log_loss", CLASS, LOGIT, True

    def value(self, y: float, f: float) -> float:
        z = y * f
        return log1p_unit(decay(abs(z))) + max(-z, 0.0)

    def slope(self, y: float, f: float) -> float:
        z = y * f
        e = decay(abs(z))
        return -y * (e if z >= 0.0 else 1.0) / (1.0 + e)

    def curvature(self, y: float, f: float) -> float:
        e = decay(abs(y * f))
        return e / ((1.0 + e) * (1.0 + e))

    def slope_bound(self) -> float:
        return 1.0

    def dual_rule(self) -> DualRule:
        return DualRule(logistic=True, bound=self.slope_bound())


class SquaredHinge(Loss):
    """max(0, 1 - y f)^2."""

    name, target, link, deviances = "squared_hinge", CLASS, None, 1.0

    def value(self, y: float, f: float) -> float:
        r = max(0.0, 1.0 - y * f)
        return r * r

    def slope(self, y: float, f: float) -> float:
        return -2.0 * y * max(0.0, 1.0 - y * f)

    def curvature(self, y: float, f: float) -> float:
        return 2.0 if y * f < 1.0 else 0.0

    def dual_rule(self) -> DualRule:
        return DualRule(quadratic=0.5)


class Hinge(Loss):
    """max(0, 1 - y f); its slope at the kink is 0."""

    name, target, link = "hinge", CLASS, None

    def value(self, y: float, f: float) -> float:
        return max(0.0, 1.0 - y * f)

    def slope(self, y: float, f: float) -> float:
        return -y if y * f < 1.0 else 0.0 * y

    def slope_bound(self) -> float:
        return 1.0

    def dual_rule(self) -> DualRule:
        return DualRule(bound=self.slope_bound())


class SquaredError(Loss):
    """(y - f)^2."""

    name, quadratic, deviances = "squared_error", True, 1.0

    def value(self, y: float, f: float) -> float:
        return (y - f) * (y - f)

    def slope(self, y: float, f: float) -> float:
        return 2.0 * (f - y)

    def curvature(self, y: float, f: float) -> float:
        return 2.0 + 0.0 * f

    def dual_rule(self) -> DualRule:
        return DualRule(both_signs=True, quadratic=0.5)


class EpsilonInsensitive(Loss):
    """max(0, |y - f| - epsilon); its slope at the kinks is 0."""

    name = "epsilon_insensitive"
    epsilon: float = 0.1

    def value(self, y: float, f: float) -> float:
        return max(0.0, abs(y - f) - self.epsilon)

    def slope(self, y: float, f: float) -> float:
        r = f - y
        return (1.0 if r > self.epsilon else 0.0) - (1.0 if -r > self.epsilon else 0.0)

    def slope_bound(self) -> float:
        return 1.0

    def dual_rule(self) -> DualRule:
        return DualRule(both_signs=True, epsilon=self.epsilon, bound=self.slope_bound())


class SquaredEpsilonInsensitive(Loss):
    """max(0, |y - f| - epsilon)^2."""

    name, deviances = "squared_epsilon_insensitive", 1.0
    epsilon: float = 0.1

    def value(self, y: float, f: float) -> float:
        r = max(0.0, abs(y - f) - self.epsilon)
        return r * r

    def slope(self, y: float, f: float) -> float:
        r = f - y
        return 2.0 * (max(0.0, r - self.epsilon) - max(0.0, -r - self.epsilon))

    def curvature(self, y: float, f: float) -> float:
        return 2.0 if abs(y - f) > self.epsilon else 0.0

    def dual_rule(self) -> DualRule:
        return DualRule(both_signs=True, epsilon=self.epsilon, quadratic=0.5)


class Huber(Loss):
    """1/2 r^2 for |r| <= epsilon, epsilon (|r| - epsilon / 2) beyond, r = y - f."""

    name = "huber"
    epsilon: float = 0.1

    def value(self, y: float, f: float) -> float:
        r = abs(y - f)
        inside = min(r, self.epsilon)
        return inside * (r - 0.5 * inside)

    def slope(self, y: float, f: float) -> float:
        return min(max(f - y, -self.epsilon), self.epsilon)

    def curvature(self, y: float, f: float) -> float:
        return 1.0 if abs(y - f) <= self.epsilon else 0.0

    def slope_bound(self) -> float:
        return self.epsilon

    def dual_rule(self) -> DualRule:
        return DualRule(both_signs=True, quadratic=1.0, bound=self.slope_bound())


class Poisson(Loss):
    """Half the deviance of a count y >= 0 whose mean is e^f: y log(y / e^f) - y + e^f."""

    name, target, link = "poisson", COUNT, LOG

    def value(self, y: float, f: float) -> float:
        return y * (log_of(y) - f) - y + exponential(f)

    def slope(self, y: float, f: float) -> float:
        return exponential(f) - y

    def curvature(self, y: float, f: float) -> float:
        return exponential(f)


class Gamma(Loss):
    """Half the deviance of an amount y > 0 whose mean is e^f: y / e^f - 1 - log(y / e^f)."""

    name, target, link = "gamma", AMOUNT, LOG

    def value(self, y: float, f: float) -> float:
        return y * exponential(-f) - 1.0 - log_of(y) + f

    def slope(self, y: float, f: float) -> float:
        return 1.0 - y * exponential(-f)

    def curvature(self, y: float, f: float) -> float:
        return y * exponential(-f)


class Tweedie(Loss):
    """Half the deviance of a total y >= 0 whose mean is e^f and whose variance goes as mean^power.

    A total of a random number of amounts: 0 with a probability of its own, 1 < power < 2.
    """

    name, target, link = "tweedie", TOTAL, LOG
    power: float = 1.5

    @property
    def homogeneity(self) -> float:
        return 2.0 - self.power

    def value(self, y: float, f: float) -> float:
        a, b = 2.0 - self.power, 1.0 - self.power
        own = exponential(a * log_of(y)) / (a * b) if y > 0.0 else 0.0
        return own - y * exponential(b * f) / b + exponential(a * f) / a

    def slope(self, y: float, f: float) -> float:
        a, b = 2.0 - self.power, 1.0 - self.power
        return exponential(a * f) - y * exponential(b * f)

    def curvature(self, y: float, f: float) -> float:
        a, b = 2.0 - self.power, 1.0 - self.power
        return a * exponential(a * f) - b * y * exponential(b * f)


class Quantile(Loss):
    """q r for r >= 0 and (q - 1) r below, r = y - f: least where f is the q-quantile of y."""

    name = "quantile"
    quantile: float = 0.5

    def value(self, y: float, f: float) -> float:
        r = y - f
        return max(self.quantile * r, (self.quantile - 1.0) * r)

    def slope(self, y: float, f: float) -> float:
        return (1.0 - self.quantile if f > y else 0.0) - (self.quantile if f < y else 0.0)

    def slope_bound(self) -> float:
        return max(self.quantile, 1.0 - self.quantile)

    def dual_rule(self) -> DualRule:
        return DualRule(both_signs=True, bound=0.5, centre=self.quantile - 0.5)


class NegativeBinomial(Loss):
    """Half the deviance of a count y >= 0 with mean m = e^f and variance m + dispersion m^2.

    With r = 1 / dispersion: y log(y / m) - (y + r) log((y + r) / (m + r)).
    """

    name, target, link = "negative_binomial", COUNT, LOG
    dispersion: float = 1.0

    def rescaled(self, c: float) -> Loss:
        return NegativeBinomial(self.dispersion * c)

    def value(self, y: float, f: float) -> float:
        r, mean = 1.0 / self.dispersion, exponential(f)
        # the logarithm of a ratio near 1 from its difference to 1, which r may multiply by much
        s = (y - mean) / (2.0 * r + y + mean)
        near = twice_artanh(max(min(s, 0.17), -0.17))
        ratio = near if abs(s) < 0.17 else log_of(y + r) - log_of(mean + r)
        return y * (log_of(y) - f) - (y + r) * ratio

    def slope(self, y: float, f: float) -> float:
        r, mean = 1.0 / self.dispersion, exponential(f)
        return r * ((mean - y) / (mean + r))

    def curvature(self, y: float, f: float) -> float:
        r, mean = 1.0 / self.dispersion, exponential(f)
        return r * (mean / (mean + r)) * ((y + r) / (mean + r))


LOSSES: dict[str, type[Loss]] = {
    kind.name: kind
    for kind in (
        LogLoss,
        SquaredHinge,
        Hinge,
        SquaredError,
        EpsilonInsensitive,
        SquaredEpsilonInsensitive,
        Huber,
        Poisson,
        Gamma,
        Tweedie,
        Quantile,
        NegativeBinomial,
    )
}
"""The losses of this package by name.  Their places are the numbers by which kernels know them."""
LOSS_PARAMETERS = tuple(dict.fromkeys(field for kind in LOSSES.values() for field in kind._fields))
"""The names of their parameters, which estimators have too."""


def make_loss(loss: str | Loss, **parameters: float) -> Loss:
    """The loss of this name with those of the parameters that it has; or the one given.

    Its parameters are floats: kernels are compiled for types.
    """
    kind = type(loss) if isinstance(loss, Loss) else LOSSES[loss]
    given = loss._asdict() if isinstance(loss, Loss) else parameters
    made: Loss = kind(**{name: float(given[name]) for name in kind._fields if name in given})
    return made


class Force(Loss):
    """y f: not a loss but a given slope, so that a pass sums y Phi."""

    def value(self, y: float, f: float) -> float:
        return y * f

    def slope(self, y: float, f: float) -> float:
        return y + 0.0 * f


def value(loss: Loss, y: float, f: float) -> float:
    """l(y, f)."""
    return loss.value(y, f)


def slope(loss: Loss, y: float, f: float) -> float:
    """dl/df."""
    return loss.slope(y, f)


def curvature(loss: Loss, y: float, f: float) -> float:
    """d2l/df2 (the generalised one where the slope has a kink)."""
    return loss.curvature(y, f)


# The compiled form is the method of the loss's type, inlined.  Without annotations: numba compares
# these signatures with those of the functions returned.
@overload(value)
def _value(loss, y, f):  # type: ignore[no-untyped-def]
    method = register_jitable(loss.instance_class.value)
    return lambda loss, y, f: method(loss, y, f)


@overload(slope)
def _slope(loss, y, f):  # type: ignore[no-untyped-def]
    method = register_jitable(loss.instance_class.slope)
    return lambda loss, y, f: method(loss, y, f)


@overload(curvature)
def _curvature(loss, y, f):  # type: ignore[no-untyped-def]
    method = register_jitable(loss.instance_class.curvature)
    return lambda loss, y, f: method(loss, y, f)
