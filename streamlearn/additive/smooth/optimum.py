"""The optimum of a quadratic model of the losses with penalties of given weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Fit(NamedTuple):
    """The optimum for one choice of weights."""

    weights: np.ndarray
    """(m,) lambda."""
    theta: np.ndarray
    V: np.ndarray
    gamma: np.ndarray
    """(m,) degrees of freedom that each penalty leaves."""
    edf: float
    """Degrees of freedom of the whole fit, the intercept's too."""
    psi: float
    log_det: float
    """Logarithm of the determinant of H + S."""
    forces: np.ndarray
    """(dim + 1,) G'mu of the inequalities that hold the point; 0 without any."""

    def lean(self) -> Fit:
        """The fit without its matrix, for those who keep many."""
        return self._replace(V=np.empty((0, 0)))
