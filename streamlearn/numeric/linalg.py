"""Small dense linear algebra on the driver."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotrf, dpotrs


def factor_spd(upper: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """b -> A^-1 b for a symmetric positive definite A of which the upper triangle is given.

    The factor overwrites `upper` (8 dim^2 bytes are all it needs).  Raises ValueError if A is not
    positive definite to rounding.
    """
    if not len(upper):
        return np.copy
    # LAPACK wants columns: the transposed view of a C-ordered upper triangle is a lower one.
    factor, is_not_definite = dpotrf(upper.T, lower=1, clean=0, overwrite_a=1)
    if is_not_definite:
        raise ValueError(
            f"the {len(upper)} penalised equations are not positive definite to rounding: the "
            "penalty is lost beside the losses, which C multiplies; lower C, or scale sample_weight"
        )
    return partial(_solve, factor)


def _solve(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A^-1 b of b (dim,) or (dim, K), by the lower Cholesky factor of A in columns (F order).

    One right-hand side goes by the routines for one: with OpenBLAS those for several take two to
    three times as long from 200 equations on.
    """
    x: np.ndarray
    if b.ndim > 1:
        x = dpotrs(factor, b, lower=1)[0]
    else:
        half = dtrsv(factor, b, lower=1)
        x = dtrsv(factor, half, lower=1, trans=1, overwrite_x=1)
    return x


def conjugate_gradients(
    times: Callable[[np.ndarray], np.ndarray],
    precondition: Callable[[np.ndarray], np.ndarray],
    rhs: np.ndarray,
    *,
    square: Callable[[np.ndarray], float],
    tol: float,
    most: int,
) -> np.ndarray:
    """x with A x near rhs, A positive definite and known by its products.

    `precondition` is an approximate inverse of A.  Stops after `most` products, or when the norm of
    the residual, of which `square` gives the square, is `tol` of what it was (Nocedal & Wright
    2006, algorithm 5.3).
    """
    x, r = np.zeros_like(rhs), rhs.copy()
    z = precondition(r)
    d, rho = z.copy(), float(r @ z)
    goal = tol**2 * square(r)
    for _ in range(most):
        if not square(r) > goal:
            break
        q = times(d)
        size = rho / float(d @ q)
        x += size * d
        r -= size * q
        z = precondition(r)
        before, rho = rho, float(r @ z)
        d = z + (rho / before) * d
    return x
