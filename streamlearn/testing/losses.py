"""The laws of a loss: its derivatives, its dual, its link, and its compiled form.

Call `check_loss` on an instance of your own `Loss`; each law is a function of its own beside it.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numba
import numpy as np

from ..numeric import losses
from ..numeric.dual_rule import DualRule, dual_value
from ..numeric.links import LOG
from ..numeric.losses import Loss
from ..numeric.targets import AMOUNT, CLASS, COUNT, TOTAL

TARGETS = {
    CLASS: (-1.0, 1.0),
    COUNT: (0.0, 1.0, 3.5),
    TOTAL: (0.0, 0.3, 3.5),
    AMOUNT: (0.2, 1.0, 3.5),
}
NUMBERS = (-1.7, 0.0, 2.4)
DECISIONS = (-5.83, -3.1, -1.0001, -0.4, 0.3, 0.9, 1.2, 2.71, 5.5)
"""Decisions at which losses are looked at; a kink at one of them is stepped aside."""
STEP = 1e-3
"""Step of the differences: their error is its fourth power, and rounding over the step."""
ASIDE = 7 * STEP
TOLERANCE = 1e-9


def targets_of(loss: Loss) -> tuple[float, ...]:
    """Some targets of the loss's kind."""
    return TARGETS.get(loss.target, NUMBERS)


def check_loss(loss: Loss) -> None:
    """All laws of a loss."""
    for law in LAWS:
        law(loss)


def check_slope(loss: Loss) -> None:
    """``slope`` is the derivative of ``value``, except at a kink."""
    _check_derivative(loss, "value", "slope")


def check_curvature(loss: Loss) -> None:
    """``curvature``, if there is one, is the derivative of ``slope`` and never below 0."""
    if loss.has("curvature"):
        _check_derivative(loss, "slope", "curvature")
        for y, f in _points(loss):
            assert loss.curvature(y, f) >= 0, f"{loss!r}.curvature({y}, {f}) is below 0"


def _check_derivative(loss: Loss, of: str, derivative: str) -> None:
    value, slope = getattr(loss, of), getattr(loss, derivative)  # by name: a failure gives both
    for y, f in _points(loss):
        errors = []
        for at in (f, f + ASIDE, f - ASIDE):
            v = [value(y, at + i * STEP) for i in (-2, -1, 1, 2)]
            found = (v[0] - 8 * v[1] + 8 * v[2] - v[3]) / (12 * STEP)
            errors.append(abs(found - slope(y, at)) / max(1.0, abs(found), at * at))
        assert sorted(errors)[1] <= TOLERANCE, (
            f"{loss!r}.{derivative}({y}, {f}) is {slope(y, f)!r}, which is not the derivative of "
            f"{of} by differences: relative errors {errors} there and {ASIDE} beside"
        )


def check_convex(loss: Loss) -> None:
    """The slope never falls as the decision rises, and values lie above their tangents."""
    f = np.linspace(-8, 8, 161)
    for y in targets_of(loss):
        slope = np.array([loss.slope(y, at) for at in f])
        value = np.array([loss.value(y, at) for at in f])
        assert (np.diff(slope) >= -TOLERANCE).all(), f"the slope of {loss!r} falls at y={y}"
        tangent = value[:, None] + slope[:, None] * (f - f[:, None])
        excess = (tangent - value).max()
        assert excess <= TOLERANCE * max(1.0, np.abs(tangent).max()), (
            f"{loss!r} at y={y} lies {excess} below a tangent"
        )


def check_slope_bound(loss: Loss) -> None:
    """No slope is larger than ``slope_bound``, which far decisions reach; the dual agrees."""
    if not loss.has("slope_bound"):
        return
    bound, reached = loss.slope_bound(), 0.0
    for y in targets_of(loss):
        for f in (-1e3, *DECISIONS, 1e3):
            reached = max(reached, abs(loss.slope(y, f)))
    assert reached <= bound * (1 + TOLERANCE), f"{loss!r} has a slope of {reached}, over {bound}"
    assert reached >= bound * (1 - 1e-2), f"{loss!r} has slopes of {reached} at most, not {bound}"
    if loss.has("dual_rule"):
        rule = loss.dual_rule()
        found = rule.bound + abs(rule.centre)
        assert math.isclose(found, bound), f"the dual of {loss!r} has another bound"


def check_dual_value(loss: Loss) -> None:
    """The dual value is min_f [l(y, f) + v f]; the force v = -slope attains it."""
    if not loss.has("dual_rule"):
        return
    rule = loss.dual_rule()
    for y in targets_of(loss):
        for v in _forces(rule, y):
            found = dual_value(rule, y, v)
            least = _least(lambda f, y=y, v=v: loss.value(y, f) + v * f)  # type: ignore[misc]
            assert abs(found - least) <= 1e-7 * max(1.0, abs(least)), (
                f"the dual value of {loss!r} at y={y}, v={v} is {found}, the conjugate is {least}"
            )
        for f in DECISIONS:
            v = -loss.slope(y, f)
            left, right = loss.value(y, f) + v * f, dual_value(rule, y, v)
            assert math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12), (
                f"the force {v} of {loss!r} at y={y}, f={f} is not the dual point of that slope"
            )


def check_dual_step(loss: Loss) -> None:
    """The exact step of a dual variable is where the dual of that variable alone is largest."""
    if not loss.has("dual_rule"):
        return
    from ..additive.dual.kernels_step import dual_step

    rule, C, norm = loss.dual_rule(), 0.7, 1.3
    for y in targets_of(loss):
        for f in (-1.7, 0.2, 2.9):
            for share in (0.0, 0.3):
                force = share * _forces(rule, y)[-1]
                u = force if rule.both_signs else y * force
                pair = [C * u, C * (1 - u) if u else 0.0]  # both 0: not yet visited
                alpha = np.array([pair[: rule.n_variables]], np.float32)
                old = float(alpha[0, 0])
                # the decision f belongs to the old variable: a step of d makes it f + norm d
                gain = dual_step(rule, C, alpha, 0, 0, 1, y, f, norm)

                def dual(d: float, y: float = y, f: float = f, old: float = old) -> float:
                    v = ((old if rule.both_signs else y * old) + d) / C
                    u = v if rule.both_signs else y * v
                    if abs(u - rule.centre) > rule.bound or (u < 0 and not rule.both_signs):
                        return -math.inf
                    return C * dual_value(rule, y, v) - f * d - 0.5 * norm * d * d

                best = -_least(lambda d: -dual(d), centre=gain, reach=2.0)
                assert dual(gain) >= best - 1e-6 * max(1.0, abs(best)), (
                    f"the dual step of {loss!r} at y={y}, f={f} from {old} gains {dual(gain)}, "
                    f"another {best}"
                )


def check_homogeneity(loss: Loss) -> None:
    """Under the log link, c y at f + log c has c^`homogeneity` the `rescaled` loss of y at f."""
    if loss.link is not LOG:
        return
    for y, f in _points(loss):
        for c in (0.25, 3.0):
            found = loss.value(c * y, f + math.log(c))
            expected = c**loss.homogeneity * loss.rescaled(c).value(y, f)
            size = max(1.0, c) * math.exp(abs(f))  # of the terms that cancel
            assert abs(found - expected) <= TOLERANCE * size, (
                f"{loss!r} at y={y}, f={f}: {found} for {c} times the target, not {expected}"
            )


def check_link(loss: Loss) -> None:
    """The link and its inverse undo one another, and the mean rises with the decision."""
    if loss.link is None:
        return
    f = np.linspace(-3, 3, 31)
    mean = loss.link.mean(f)
    np.testing.assert_allclose(loss.link.decision(mean), f, rtol=1e-10, atol=1e-10)
    assert (np.diff(mean) > 0).all(), f"the inverse link of {loss!r} does not rise"
    if loss.target is CLASS:
        assert ((mean > 0) & (mean < 1)).all(), f"the link of {loss!r} gives no probabilities"


def check_compiled(loss: Loss) -> None:
    """Compiled methods give the bits of Python's."""

    @numba.njit(error_model="numpy")
    def both(loss, y, f):  # type: ignore[no-untyped-def]
        return losses.value(loss, y, f), losses.slope(loss, y, f)

    @numba.njit(error_model="numpy")
    def second(loss, y, f):  # type: ignore[no-untyped-def]
        return losses.curvature(loss, y, f)

    for y, f in _points(loss):
        expected = loss.value(y, f), loss.slope(y, f)
        np.testing.assert_array_equal(both(loss, y, f), expected, f"{loss!r} at y={y}, f={f}")
        if loss.has("curvature"):
            np.testing.assert_array_equal(second(loss, y, f), loss.curvature(y, f))


def check_value_object(loss: Loss) -> None:
    """A loss equals its copy and no other class's, and shows its parameters."""
    assert loss == type(loss)(*loss)
    assert hash(loss) == hash(type(loss)(*loss))
    assert loss != tuple(loss)
    assert repr(loss).startswith(type(loss).__name__)
    if "<" not in type(loss).__qualname__:  # a class inside a function cannot be found by name
        assert pickle.loads(pickle.dumps(loss)) == loss


LAWS: tuple[Callable[[Loss], None], ...] = (
    check_slope,
    check_curvature,
    check_convex,
    check_slope_bound,
    check_dual_value,
    check_dual_step,
    check_homogeneity,
    check_link,
    check_compiled,
    check_value_object,
)


def _points(loss: Loss) -> list[tuple[float, float]]:
    return [(y, f) for y in targets_of(loss) for f in DECISIONS]


def _forces(rule: DualRule, y: float) -> list[float]:
    """Forces inside the rule's interval, of both signs if it has both."""
    most, least = min(rule.centre + rule.bound, 1.0), max(rule.centre - rule.bound, -1.0)
    up = [share * most for share in (0.05, 0.3, 0.8)]
    return [0.3 * least, *up] if rule.both_signs else [y * u for u in up]


def _least(function: Callable[[float], float], centre: float = 0.0, reach: float = 60.0) -> float:
    """The least value of a convex function near `centre`, by golden section."""
    low, high, ratio = centre - reach, centre + reach, (math.sqrt(5) - 1) / 2
    for _ in range(120):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if function(a) <= function(b):
            high = b
        else:
            low = a
    return min(function(low), function(high), function(0.5 * (low + high)))
