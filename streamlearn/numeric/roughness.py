"""Penalties on spline coefficients, their inverse tables, reference vectors and explicit features.

Column d with n coefficients on M intervals, h = 1 / M, r = min(order, n - 1):

    "integral"  P = D'D / h^(2r-1) + (projector on polynomials of degree < r), D the (n-r) x n
                difference; order 0: P = h I.  w'Pw is close to the integral of the r-th derivative
                squared on [0, 1].
    "paper"     P = D'D with the square, unscaled D_1^r of Maji 2012, section 3; order 0: P = I.

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
from .means import mean_functions


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


def make_roughness(bases: Bases, order: int, scale: str = "integral") -> Roughness:
    """Penalties of this order (0 to 2) and scale ("integral" or "paper") for every column."""
    stacks: dict[str, list[np.ndarray]] = {"P": [], "L": [], "R": []}
    table = np.zeros(len(bases.degree), dtype=np.intp)
    seen: dict[tuple[int, ...], int] = {}
    size = 0
    n_bases, missing = np.diff(bases.first), bases.has_missing
    for d, n_intervals in enumerate(bases.n_intervals):
        n = int(n_bases[d])
        if n == 0:
            continue
        kind, degree = int(bases.kind[d]), int(bases.degree[d])
        key = (n, int(n_intervals), kind, degree * int(missing[d]))
        if key not in seen:
            R = column_factor(*key, order, scale)
            inverse = np.linalg.inv(R)
            for name, matrix in (("P", R.T @ R), ("L", inverse @ inverse.T), ("R", R)):
                stacks[name].append(np.ascontiguousarray(matrix).ravel())
            seen[key] = size
            size += n * n
        table[d] = seen[key]
    P, L, R = (np.concatenate([np.empty(0), *stacks[name]]) for name in "PLR")
    return Roughness(P, L, R, table, np.array(bases.first, dtype=np.intp))


def column_factor(
    n: int, n_intervals: int, kind: int, missing: int, order: int, scale: str
) -> np.ndarray:
    """The square R of a column of any kind; `missing`: the last so many are the missing level's."""
    own = n - missing
    if kind == SPLINE:
        block = psi_factor(own, n_intervals - missing, order, scale)
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
    return mean_functions(bases, [(np.zeros(1), np.zeros(1), np.ones(1))] * len(bases.degree))


def make_reference(roughness: Roughness, c: np.ndarray) -> Reference:
    """The reference c with its t = L c and s = c't."""
    c = np.array(c, dtype=np.float64)
    t = times(roughness.L, roughness, c[None])[0]
    s = np.array([c[a:b] @ t[a:b] for a, b in _blocks(roughness)])
    return Reference(c, t, s)


def times(stack: np.ndarray, roughness: Roughness, V: np.ndarray) -> np.ndarray:
    """Each column's matrix of `stack` (P or L) times its part of each row of V (K, dim)."""
    out = np.zeros_like(V)
    for (a, b), begin in zip(_blocks(roughness), roughness.table, strict=True):
        n = b - a
        out[:, a:b] = V[:, a:b] @ stack[begin : begin + n * n].reshape(n, n).T
    return out


def _blocks(roughness: Roughness) -> list[tuple[int, int]]:
    return list(zip(roughness.first[:-1].tolist(), roughness.first[1:].tolist(), strict=True))
