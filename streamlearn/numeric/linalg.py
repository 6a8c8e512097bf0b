"""Small dense linear algebra on the driver."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve


def solve_spd(upper: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solve A x = rhs for a symmetric positive definite A of which the upper triangle is given.

    Overwrites `upper` (8 dim^2 bytes are all it needs).  Raises LinAlgError if A is not positive
    definite to rounding.
    """
    # LAPACK wants columns: the transposed view of a C-ordered upper triangle is a lower one.
    factor = cho_factor(upper.T, lower=True, overwrite_a=True, check_finite=False)
    return cho_solve(factor, rhs, check_finite=False)
