"""The step of one dual variable against the exact minimum."""

import math

import numpy as np
import pytest

from streamlearn.additive.dual.kernels_step import logistic_step


def exact_logit(C, start, small, z, norm):
    """log(alpha / (C - alpha)) of the least point, by bisection.

    `start` is alpha or, if `small`, C - alpha: the smaller one, which alone is known to all digits.
    """

    def gradient(t):
        a, rest = C / (1 + math.exp(-t)), C / (1 + math.exp(t))
        return t + z + norm * (start - rest if small else a - start)

    low, high = -700.0, 700.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if gradient(middle) > 0 else (middle, high)
    return low


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rest_is_small", [False, True])
def test_a_step_of_the_log_loss_is_exact_from_anywhere(seed, rest_is_small):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        C, norm = 10.0 ** rng.uniform(-4, 4), 10.0 ** rng.uniform(-3, 4)
        small = np.float32(C * 10.0 ** rng.uniform(-25, -0.4))
        large, z = np.float32(C - np.float64(small)), rng.normal() * 10.0 ** rng.uniform(-1, 2)
        alpha = np.array([[large, small] if rest_is_small else [small, large]])
        old = np.float64(alpha[0, 0])
        delta = logistic_step(C, alpha, 0, 0, 1, z, norm)
        assert delta == np.float64(alpha[0, 0]) - old
        t = exact_logit(C, np.float64(small), rest_is_small, z, norm)
        expected = [max(C / (1 + math.exp(-s)), 1e-30 * C) for s in (t, -t)]
        # alpha is rounded to float32, and Newton's steps end at 1e-12 of the gradient's terms
        known = 3e-6 + 1e-11 * (1 + abs(z) + norm * C)
        np.testing.assert_allclose(alpha[0], expected, rtol=known)
