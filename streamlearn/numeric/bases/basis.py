"""A basis is one class: what the functions of a column are, and all else is derived from it.

A column's coordinate u in [0, M] (`bsplines`) gives t = u / M in [0, 1].  A subclass of `Basis` has

    fill(t, out)                the functions at t (m,), written into `out` (n, m) float64
    penalty(n, order, scale)    (n,) the diagonal of P, or P (n, n), positive definite

and says, where it differs from the defaults, which degrees and orders of the penalty it has, and
how a column's values become t.  The options that estimators accept, their checks, sparse rows,
missing values, all solvers and saved models follow from that.

A column with a level for missing values has one function more: 1 if the value is missing, where
the others are 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..parametric import Parametric


class Basis(Parametric):
    """Functions of t in [0, 1]: subclass it, annotate its parameters, write `fill` and `penalty`.

    Examples
    --------
    >>> import numpy as np
    >>> class Powers(Basis):
    ...     def fill(self, t, out):
    ...         for k in range(len(out)):
    ...             out[k] = t ** (k + 1)
    ...     def penalty(self, n, order, scale):
    ...         return np.arange(1.0, n + 1) ** order
    >>> Powers().functions(np.array([0.0, 1.0, 2.0]), 2, 2, 1)
    array([[0.  , 0.  ],
           [0.5 , 0.25],
           [1.  , 1.  ]])
    """

    suffix: ClassVar[str] = "_fn_"
    """Text between a column's name and a function's number in the names of features."""
    local: ClassVar[bool] = False
    """Whether at each value few functions are not 0, and all sum to 1: kernels look them up."""
    degrees: ClassVar[tuple[int, ...]] = (1,)
    """Values of `degree`; 1 alone: the basis has none."""
    orders: ClassVar[tuple[int, ...]] = (1, 2)
    """Values of `penalty_order`."""

    if TYPE_CHECKING:  # what a subclass writes

        def fill(self, t: np.ndarray, out: np.ndarray) -> None: ...
        def penalty(self, n: int, order: int, scale: str) -> np.ndarray: ...

    def n_intervals(self, n_bases: int, degree: int) -> int:
        """Intervals of u that a column of this many functions is mapped to if knots are uniform."""
        return n_bases - degree if self.local else 1

    def ends(
        self, low: np.ndarray, high: np.ndarray, mean: np.ndarray, deviation: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The values (p,) of columns at t = 0 and 1 if knots are uniform: their range."""
        return low, high

    def levels(self, n_intervals: int) -> np.ndarray | None:
        """(n_intervals + 1,) quantiles at the breakpoints; None: equally spaced."""
        return None

    def functions(self, u: np.ndarray, n: int, n_intervals: int, degree: int) -> np.ndarray:
        """(len(u), n) float64: the functions at coordinates u in [0, n_intervals]."""
        out = np.zeros((n, len(u)))
        self.fill(np.asarray(u, np.float64) / n_intervals, out)
        return out.T

    def factor(self, n: int, n_intervals: int, order: int, scale: str) -> np.ndarray:
        """The square R (n, n) with P = R'R."""
        P = np.asarray(self.penalty(n, order, scale), np.float64)
        if P.ndim == 1:
            return np.diag(np.sqrt(P))
        R: np.ndarray = np.linalg.cholesky(P).T
        return R

    def unpenalised(self, n: int, order: int, scale: str) -> np.ndarray:
        """(n, r) orthonormal: what the penalty takes in only to be definite, less the constant.

        A spline's straight line, where the penalty is of second derivatives.
        """
        return np.zeros((n, 0))
