"""Every loss against finite differences and against its dual by minimisation over a grid."""

import numba
import numpy as np
import pytest

from streamlearn.numeric import losses
from streamlearn.numeric.losses import (
    EpsilonInsensitive,
    Force,
    Gamma,
    Hinge,
    Huber,
    LogLoss,
    Poisson,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
)

ALL = [
    LogLoss(),
    SquaredHinge(),
    Hinge(),
    SquaredError(),
    EpsilonInsensitive(0.25),
    SquaredEpsilonInsensitive(0.25),
    Huber(1.3),
    Poisson(),
    Gamma(),
]
NUMBERS = [-1.7, 0.0, 2.4]
TARGETS = {
    SquaredError: NUMBERS,
    EpsilonInsensitive: NUMBERS,
    SquaredEpsilonInsensitive: NUMBERS,
    Huber: NUMBERS,
    Poisson: [0.0, 1.0, 3.5],
    Gamma: [0.2, 1.0, 3.5],
}
KINKS = {EpsilonInsensitive: 0.25, SquaredEpsilonInsensitive: 0.25, Huber: 1.3}
POINTS = np.array([-41.3, -3.1, -1.0001, -0.4, 0.3, 0.9, 1.2, 5.5, 39.0])


def targets(loss):
    return TARGETS.get(type(loss), [-1.0, 1.0])


def name(loss):
    return type(loss).__name__


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_slope_and_curvature_by_differences(loss):
    h = 1e-3
    for y in targets(loss):
        for f in POINTS:
            if isinstance(loss, Hinge | SquaredHinge) and abs(y * f - 1) < 3 * h:
                continue  # at the kink
            if abs(abs(y - f) - KINKS.get(type(loss), -1)) < 3 * h:
                continue
            if isinstance(loss, Poisson | Gamma) and abs(f) > 6:
                continue  # 1e-10 is nothing beside e^39

            def fourth_order(function, f=f, y=y):
                v = [function(loss, y, f + i * h) for i in (-2, -1, 1, 2)]
                return (v[0] - 8 * v[1] + 8 * v[2] - v[3]) / (12 * h)

            # h^4 and rounding / h
            assert losses.slope(loss, y, f) == pytest.approx(
                fourth_order(losses.value), abs=1e-10 * max(1, abs(f) ** 2)
            )
            assert losses.curvature(loss, y, f) == pytest.approx(
                fourth_order(losses.slope), abs=1e-10 * max(1, abs(f))
            )


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_dual_value_is_the_smallest_of_loss_plus_force(loss):
    grid = np.linspace(-60, 60, 24_001)
    for y in targets(loss):
        values = np.array([losses.value(loss, y, f) for f in grid])
        for v in (0.05, 0.3, 0.8):
            force = min(v * np.sign(y + 0.5), y) if isinstance(loss, Poisson) else v
            if isinstance(loss, LogLoss | SquaredHinge | Hinge):
                force = v * y
            best = (values + force * grid).min()
            assert losses.dual_value(loss, y, force) == pytest.approx(best, abs=2e-4)


def test_a_force_sums_itself():
    assert losses.value(Force(), 2.0, 3.0) == 6.0
    assert losses.slope(Force(), 2.0, 3.0) == 2.0
    assert losses.curvature(Force(), 2.0, 3.0) == 0.0


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_force_of_the_slope_attains_equality(loss):
    for y in targets(loss):
        for f in (-3.1, -0.4, 0.3, 1.2):
            v = -losses.slope(loss, y, f)
            left = losses.value(loss, y, f) + v * f
            assert left == pytest.approx(losses.dual_value(loss, y, v), abs=1e-13)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compares with compiled code")
@pytest.mark.parametrize("loss", ALL, ids=name)
def test_compiled_is_python(loss):
    from streamlearn.numeric.losses import curvature, dual_value, slope, value

    @numba.njit(error_model="numpy")
    def all_four(loss, y, f):
        derivatives = value(loss, y, f), slope(loss, y, f), curvature(loss, y, f)
        return *derivatives, dual_value(loss, y, 0.5 * y)

    for y in targets(loss):
        for f in POINTS:
            np.testing.assert_array_equal(all_four(loss, y, f), all_four.py_func(loss, y, f))
