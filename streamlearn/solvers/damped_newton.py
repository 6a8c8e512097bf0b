"""Newton's method for small convex problems whose rows are in memory, with damped steps.

    minimise f(x),  x (n,)

1. The direction is p = -H^-1 g, with 1e-12 of H's mean diagonal added to it: H may be singular.
2. The step t p begins with t = 1 and is shortened until f falls by 1e-4 of what the slope promises
   (Armijo; Nocedal & Wright 2006, eq. 3.6), each time to the minimum of the parabola through both
   values (their eq. 3.58).
3. The end is where a full step would lower f by less than `tol` of its value; that step is taken.

Near the minimum the error is squared in every step, so the last one leaves rounding alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SUFFICIENT = 1e-4
"""Share of the decrease promised by the slope that a step must bring (Armijo)."""
SHORTEST = 1e-12
"""Step length below which only rounding is in the way: the iteration ends."""
MOST_STEPS = 100
"""Steps at most: convex problems of a few unknowns take about ten."""
PROMISE = 1e-18
"""Largest decrease that a step may still promise at the end, relative to the value."""
RIDGE = 1e-12
"""Share of the mean diagonal of H that is added to its diagonal."""

Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]
"""x -> value of f, its gradient (n,) and its Hessian (n, n)."""


def damped_newton(evaluate: Evaluate, x: np.ndarray) -> tuple[np.ndarray, float]:
    """The minimiser of a convex function and its value there.

    Parameters
    ----------
    evaluate : callable
        Value, gradient and Hessian at a point; the value may be infinite away from `x`.
    x : (n,) float64
        The point to begin from.
    """
    value, gradient, hessian = evaluate(x)
    for _ in range(MOST_STEPS):
        ridge = RIDGE * float(hessian.trace()) / len(x)
        step = -np.linalg.solve(hessian + ridge * np.eye(len(x)), gradient)
        slope = float(gradient @ step)
        if -0.5 * slope <= PROMISE * abs(value):
            return x + step, value
        t, slack = 1.0, 1e-15 * abs(value)
        while True:
            new_value, gradient, hessian = evaluate(x + t * step)
            if new_value <= value + SUFFICIENT * t * slope + slack:
                break
            t *= float(shorter(value, new_value, t * slope))
            if t < SHORTEST:
                return x, value
        x, value = x + t * step, new_value
    return x, value


def shorter(
    before: float | np.ndarray, after: float | np.ndarray, slope: float | np.ndarray
) -> np.ndarray:
    """The factor in [0.1, 0.5] by which to shorten a step that did not lower the value enough.

    It leads to the minimum of the parabola through the values before and after the step whose
    slope, times the whole step, is `slope` at its beginning.  All are numbers, or arrays of a
    shape.
    """
    curvature = np.maximum(after - before - slope, np.finfo(np.float64).tiny)
    return np.clip(np.nan_to_num(-0.5 * slope / curvature, nan=0.1), 0.1, 0.5)
