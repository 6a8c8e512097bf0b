"""Penalties on spline coefficients, their inverse tables, reference vectors and explicit features.

Column d with n coefficients on M intervals, h = 1 / M, r = min(order, n - 1):

    "integral"  P = D'D / h^(2r-1) + (projector on polynomials of degree < r), D the (n-r) x n
                difference; order 0: P = h I.  w'Pw is close to the integral of the r-th derivative
                squared on [0, 1].
    "paper"     P = D'D with the square, unscaled D_1^r of Maji 2012, section 3; order 0: P = I.

Of sparse rows, whose columns are 0 at 0, order 0 charges what a curve differs from its value there:
where one spline is 1 at 0, R = I - 1c' + cc' with its unit vector c.  That spline is then left out
of the features, as in the paper's sparse inputs, and a value costs its active coefficients alone.

Few-valued columns are degree 1 with a breakpoint a value, so the same formula is the difference
penalty on ranks.  A binary column is always of order 1: with any reference that sums to 1 its
penalty is 1/2 (w_1 - w_0)^2, the half square of its one free coefficient.

Categories have no order: P = I, which shrinks the rare ones most.  Functions that are not splines
have a diagonal P (`fourier.derivative_weights`).  A level for missing values has no neighbours
either: its penalty is half its square, beside that of the others.

P is positive definite, so L = P^-1 exists and a dual step of delta changes w by delta L (Phi - c).
With P = R'R the explicit features are Psi = R^-T (Phi - c).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bsplines import COSINE, ENDS, LEVELS, SPLINE, Bases
from .fourier import derivative_weights
from .means import Pieces, mean_functions, spread_points


class Roughness(NamedTuple):
    """Penalty, table and factor of every column; columns with the same shape share theirs."""

    P: np.ndarray
    """Stacked n_d x n_d matrices, C order, flattened, float64."""
    L: np.ndarray
    """The inverses, stacked the same way."""
    R: np.ndarray
    """Square factors with P = R'R, stacked the same way."""
    table: np.ndarray
    """(p,) intp: where column d's matrix begins in P, L and R."""
    first: np.ndarray
    """(p + 1,) intp: column d's coefficients, as in `Bases`."""


class Reference(NamedTuple):
    """The reference vector c of Phi - c, with t = L c and s = c't of every column."""

    c: np.ndarray
    """(dim,) float64."""
    t: np.ndarray
    """(dim,) float64."""
    s: np.ndarray
    """(p,) float64."""


def make_roughness(
    bases: Bases, order: int, scale: str = "integral", at_zero: np.ndarray | None = None
) -> Roughness:
    """Penalties of this order (0 to 2) and scale ("integral" or "paper") for every column.

    `at_zero` (dim,): Phi(0), of sparse rows.
    """
    stacks: dict[str, list[np.ndarray]] = {"P": [], "L": [], "R": []}
    table = np.zeros(len(bases.degree), dtype=np.intp)
    seen: dict[tuple[int, ...], int] = {}
    zeros: dict[bytes, int] = {}
    size = 0
    n_bases, missing = np.diff(bases.first), bases.has_missing
    for d, n_intervals in enumerate(bases.n_intervals):
        n = int(n_bases[d])
        if n == 0:
            continue
        kind, degree = int(bases.kind[d]), int(bases.degree[d])
        key = (n, int(n_intervals), kind, degree * int(missing[d]))
        zero = -1
        if order == 0 and at_zero is not None and kind == SPLINE:
            c = at_zero[bases.first[d] : bases.first[d + 1]]
            zero = zeros.setdefault(c.tobytes(), -2)
            if zero == -2:
                zero = zeros[c.tobytes()] = _one_spline(c)
        if (*key, zero) not in seen:
            R = column_factor(*key, order, scale, zero)
            inverse = np.linalg.inv(R)
            for name, matrix in (("P", R.T @ R), ("L", inverse @ inverse.T), ("R", R)):
                stacks[name].append(np.ascontiguousarray(matrix).ravel())
            seen[*key, zero] = size
            size += n * n
        table[d] = seen[*key, zero]
    P, L, R = (np.concatenate([np.empty(0), *stacks[name]]) for name in "PLR")
    return Roughness(P, L, R, table, np.array(bases.first, dtype=np.intp))


def _one_spline(c: np.ndarray) -> int:
    """The number of the one spline that is not 0 at 0, -1 if there are several, or two in all."""
    return int(c.argmax()) if len(c) > 2 and c.max() == 1.0 else -1


def column_factor(
    n: int, n_intervals: int, kind: int, missing: int, order: int, scale: str, zero: int = -1
) -> np.ndarray:
    """The square R of a column of any kind; `missing`: the last so many are the missing level's.

    `zero`: of order 0, the spline that is 1 where sparse rows are 0.
    """
    own = n - missing
    if kind == SPLINE:
        block = psi_factor(own, n_intervals - missing, order, scale)
        if zero >= 0:
            c = np.eye(own)[zero]
            block = block @ (np.eye(own) - np.outer(np.ones(own), c) + np.outer(c, c))
    elif kind == LEVELS:
        block = np.eye(own)
    else:
        if order == 0:
            raise ValueError(
                "penalty_order=0 is for splines; a basis of cosines or Hermite polynomials needs "
                "1 or 2, without which its curves are not smooth"
            )
        block = np.diag(np.sqrt(derivative_weights(kind, own, order, scale)))
    R = np.zeros((n, n))
    R[:own, :own] = block
    # the level is phi'w of the splines there: this charges half its square, for any degree
    phi = ENDS[missing][1 : missing + 1] if kind < COSINE and missing else np.ones(1)
    R[range(own, n), range(own, n)] = np.linalg.norm(phi)
    return R


def psi_factor(n: int, n_intervals: int, order: int, scale: str = "integral") -> np.ndarray:
    """The square R with P = R'R of one column; "integral": its last r rows are polynomials."""
    if n == 1:  # one value, beside a level for missing ones
        return np.eye(1)
    binary = n == 2
    r = 1 if binary else min(order, n - 1)
    if scale == "paper":
        lower = np.eye(n) - np.eye(n, k=-1)
        return np.linalg.matrix_power(lower, r)
    h = 1.0 / n_intervals
    if r == 0:
        return np.sqrt(h) * np.eye(n)
    difference = np.diff(np.eye(n), r, axis=0) / h ** (r - 0.5)
    polynomials = np.linalg.qr(np.vander(np.linspace(-1, 1, n), r, increasing=True))[0]
    return np.vstack([difference, polynomials.T])


def reference_at_zero(bases: Bases) -> np.ndarray:
    """Phi(0), (dim,): the reference of sparse columns."""
    one = np.zeros(1), np.zeros(1), np.ones(1)
    return mean_functions(bases, spread_points(bases, Pieces.of([one] * len(bases.degree))))


def make_reference(roughness: Roughness, c: np.ndarray) -> Reference:
    """The reference c with its t = L c and s = c't."""
    c = np.array(c, dtype=np.float64)
    t = times(roughness.L, roughness, c[None])[0]
    n_bases = np.diff(roughness.first)
    column = np.repeat(np.arange(len(n_bases)), n_bases)
    return Reference(c, t, np.bincount(column, c * t, len(n_bases)))


def times(stack: np.ndarray, roughness: Roughness, V: np.ndarray) -> np.ndarray:
    """Each column's matrix of `stack` (P or L) times its part of each row of V (K, dim)."""
    out, first = np.zeros_like(V), roughness.first
    n_bases = np.diff(first)
    used = np.flatnonzero(n_bases)
    for begin in np.unique(roughness.table[used]):  # columns of one matrix at a time
        columns = used[roughness.table[used] == begin]
        n = n_bases[columns[0]]
        at = first[columns][:, None] + np.arange(n)
        out[:, at] = V[:, at] @ stack[begin : begin + n * n].reshape(n, n).T
    return out
