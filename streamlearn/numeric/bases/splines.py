"""B-splines and categories: bases of which each value meets few functions.

On M intervals with h = 1 / M, n coefficients and r = min(order, n - 1) the penalty of splines is

    "integral"  P = D'D / h^(2r-1) + (projector on polynomials of degree < r), D the (n-r) x n
                difference; order 0: P = h I.  w'Pw is close to the integral of the r-th derivative
                squared on [0, 1].
    "paper"     P = D'D with the square, unscaled D_1^r of Maji 2012, section 3; order 0: P = I.

Few-valued columns are degree 1 with a breakpoint a value, so the same formula is the difference
penalty on ranks.  A binary column is always of order 1: with any reference that sums to 1 its
penalty is 1/2 (w_1 - w_0)^2, the half square of its one free coefficient.

Categories have no order: P = I, which shrinks the rare ones most.

A circle of M intervals has M free coefficients, w_{M+a} = w_a of the `degree` others: its penalty
is that of the differences around it, and a stiff one of w_{M+a} - w_a.  It knows no straight line.
"""

from __future__ import annotations

import numpy as np

from .basis import Basis

POLYNOMIALS = np.zeros((4, 4, 4))
"""[p, a, q]: the coefficient of f^q in the a-th active spline of degree p."""
POLYNOMIALS[1, :2, :2] = [[1, -1], [0, 1]]
POLYNOMIALS[2, :3, :3] = np.array([[1, -2, 1], [1, 2, -2], [0, 0, 1]]) / 2
POLYNOMIALS[3] = np.array([[1, -3, 3, -1], [4, 0, -6, 3], [1, 3, 3, -3], [0, 0, 0, 1]]) / 6

ENDS = POLYNOMIALS.sum(2)
"""[p, a]: the a-th active spline of degree p at f = 1."""


class Spline(Basis):
    """Uniform B-splines in u, M + degree of them."""

    name, suffix, local = "bspline", "_sp_", True
    degrees, orders = (1, 2, 3), (0, 1, 2)

    def functions(self, u: np.ndarray, n: int, n_intervals: int, degree: int) -> np.ndarray:
        out, j = np.zeros((len(u), n)), np.minimum(u.astype(np.intp), n_intervals - 1)
        powers = (u.astype(np.float64) - j)[:, None] ** np.arange(degree + 1)
        phi = powers @ POLYNOMIALS[degree, : degree + 1, : degree + 1].T
        np.put_along_axis(out, j[:, None] + np.arange(degree + 1), phi, axis=1)
        return out

    def factor(self, n: int, n_intervals: int, order: int, scale: str) -> np.ndarray:
        """The square R; "integral": its last r rows are polynomials."""
        if n == 1:  # one value, beside a level for missing ones
            return np.eye(1)
        r = 1 if n == 2 else min(order, n - 1)
        if scale == "paper":
            return np.linalg.matrix_power(np.eye(n) - np.eye(n, k=-1), r)
        h = 1.0 / n_intervals
        if r == 0:
            return np.sqrt(h) * np.eye(n)
        difference = np.diff(np.eye(n), r, axis=0) / h ** (r - 0.5)
        return np.vstack([difference, _polynomials(n, r).T])

    def unpenalised(self, n: int, order: int, scale: str) -> np.ndarray:
        straight = scale == "integral" and order == 2 and n > 2
        return _polynomials(n, 2 if straight else 1)[:, 1:]


def _polynomials(n: int, r: int) -> np.ndarray:
    """(n, r) orthonormal polynomials of degree below r in the numbers of the splines."""
    Q: np.ndarray = np.linalg.qr(np.vander(np.linspace(-1, 1, n), r, increasing=True))[0]
    return Q


class Levels(Spline):
    """Categories: a breakpoint at each code, penalised one by one.  Not chosen, but met in data."""

    name = ""

    def factor(self, n: int, n_intervals: int, order: int, scale: str) -> np.ndarray:
        return np.eye(n)

    def unpenalised(self, n: int, order: int, scale: str) -> np.ndarray:
        return np.zeros((n, 0))


STIFF = 1e8
"""Penalty of what a circle's two ends differ by, M times as large where differences are penalised:
beside any data of fewer rows the ends agree, and factors of the penalty stay exact to 1e-6."""


class Cycle(Spline):
    """Uniform B-splines in u that end where they begin.  Not chosen, but what clocks have."""

    name = ""

    def factor(self, n: int, n_intervals: int, order: int, scale: str) -> np.ndarray:
        m = n_intervals
        if m < 2:
            return super().factor(n, n_intervals, order, scale)
        r = min(order, m - 1)
        size, stiff = m ** (r - 0.5), STIFF * m ** min(r, 1)
        around = np.linalg.matrix_power(np.roll(np.eye(m), 1, axis=1) - np.eye(m), r)
        ends = np.zeros((n - m, n))
        ends[range(n - m), range(m, n)], ends[range(n - m), range(n - m)] = 1.0, -1.0
        rows = [size * np.hstack([around, np.zeros((m, n - m))]), np.sqrt(stiff) * ends]
        if r:
            rows.append(np.full((1, n), n**-0.5))
        R: np.ndarray = np.linalg.qr(np.vstack(rows))[1]
        return R / size if scale == "paper" else R

    def unpenalised(self, n: int, order: int, scale: str) -> np.ndarray:
        return np.zeros((n, 0))
