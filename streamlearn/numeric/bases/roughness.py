"""Penalties on spline coefficients, their inverse tables, reference vectors and explicit features.

A column's basis says its penalty (`Basis.factor`: P = R'R); columns of equal shape share theirs.

Of sparse rows, whose columns are 0 at 0, order 0 charges what a curve differs from its value there:
where one spline is 1 at 0, R = I - 1c' + cc' with its unit vector c.  That spline is then left out
of the features, as in the paper's sparse inputs, and a value costs its active coefficients alone.

A level for missing values has no neighbours: its penalty is half its square, beside that of the
others.

P is positive definite, so L = P^-1 exists and a dual step of delta changes w by delta L (Phi - c).
With P = R'R the explicit features are Psi = R^-T (Phi - c).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..recent import kept_for_recent
from .basis import Basis
from .bsplines import Bases
from .means import Pieces, mean_functions
from .registry import SPLINE
from .splines import ENDS


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
    n_bases, missing = np.diff(bases.first), bases.has_missing
    zero = np.full(len(n_bases), -1)
    if order == 0 and at_zero is not None:
        zero = np.where(bases.kind == SPLINE, _one_spline(bases, at_zero), -1)
    shapes = np.column_stack(
        [n_bases, bases.n_intervals, bases.kind, bases.degree * missing, zero]
    )[n_bases > 0]
    stacks: dict[str, list[np.ndarray]] = {"P": [], "L": [], "R": []}
    kinds, example, kind_of = np.unique(shapes, axis=0, return_index=True, return_inverse=True)
    columns = np.flatnonzero(n_bases)[example].tolist()
    for d, (n, n_intervals, _, level, own_zero) in zip(columns, kinds.tolist(), strict=True):
        R = column_factor(bases.basis(d), n, n_intervals, level, order, scale, own_zero)
        inverse = np.linalg.inv(R)
        for name, matrix in (("P", R.T @ R), ("L", inverse @ inverse.T), ("R", R)):
            stacks[name].append(np.ascontiguousarray(matrix).ravel())
    begins = np.concatenate([[0], np.cumsum(kinds[:, 0] ** 2)])
    table = np.zeros(len(n_bases), dtype=np.intp)
    table[n_bases > 0] = begins[kind_of.ravel()]
    P, L, R = (np.concatenate([np.empty(0), *stacks[name]]) for name in "PLR")
    return Roughness(P, L, R, table, np.array(bases.first, dtype=np.intp))


def _one_spline(bases: Bases, at_zero: np.ndarray) -> np.ndarray:
    """(p,) number of the one spline of each column that is not 0 at 0.

    -1 if there are several, or two splines in all.
    """
    n_bases = np.diff(bases.first)
    ones = np.flatnonzero(at_zero == 1.0)
    column = np.searchsorted(bases.first, ones, "right") - 1
    out = np.full(len(n_bases), -1)
    out[column[::-1]] = (ones - bases.first[column])[::-1]  # the first of several
    return np.where(n_bases > 2, out, -1)


def column_factor(
    basis: Basis, n: int, n_intervals: int, missing: int, order: int, scale: str, zero: int = -1
) -> np.ndarray:
    """The square R of a column of any basis; `missing`: the last so many are the missing level's.

    `zero`: of order 0, the spline that is 1 where sparse rows are 0.
    """
    if not basis.local:
        require_order(basis, order)
    own = n - missing
    block = basis.factor(own, n_intervals - missing, order, scale)
    if zero >= 0:
        c = np.eye(own)[zero]
        block = block @ (np.eye(own) - np.outer(np.ones(own), c) + np.outer(c, c))
    R = np.zeros((n, n))
    R[:own, :own] = block
    # the level is phi'w of the splines there: this charges half its square, for any degree
    phi = ENDS[missing][1 : missing + 1] if basis.local and missing else np.ones(1)
    R[range(own, n), range(own, n)] = np.linalg.norm(phi)
    return R


def require_order(basis: Basis, order: int) -> None:
    """Refuse an order that the basis's penalty does not have."""
    if order not in basis.orders:
        offered = " or ".join(map(str, basis.orders))
        raise ValueError(
            f"penalty_order={order} is not one of basis={basis.name!r}, which has {offered}; "
            "splines (basis='bspline') have 0 to 2"
        )


def reference_at_zero(bases: Bases) -> np.ndarray:
    """Phi(0), (dim,): the reference of sparse columns."""
    p = len(bases.degree)
    return mean_functions(bases, [Pieces(np.zeros(p), np.zeros(p), np.ones(p), np.arange(p + 1))])


def make_reference(roughness: Roughness, c: np.ndarray) -> Reference:
    """The reference c with its t = L c and s = c't."""
    c = np.array(c, dtype=np.float64)
    t = times(roughness.L, roughness, c[None])[0]
    n_bases = np.diff(roughness.first)
    column = np.repeat(np.arange(len(n_bases)), n_bases)
    return Reference(c, t, np.bincount(column, c * t, len(n_bases)))


def times(stack: np.ndarray, roughness: Roughness, V: np.ndarray) -> np.ndarray:
    """Each column's matrix of `stack` (P or L) times its part of each row of V (K, dim)."""
    out = np.zeros_like(V)
    for begin, n, at in _columns_by_matrix(roughness):
        out[:, at] = V[:, at] @ stack[begin : begin + n * n].reshape(n, n).T
    return out


@kept_for_recent
def _columns_by_matrix(roughness: Roughness) -> list[tuple[int, int, np.ndarray]]:
    """Beginning of each matrix, its order n, and the (c, n) coefficients of its columns."""
    n_bases = np.diff(roughness.first)
    used = np.flatnonzero(n_bases)
    found = []
    for begin in sorted(set(roughness.table[used].tolist())):
        columns = used[roughness.table[used] == begin]
        n = int(n_bases[columns[0]])
        found.append((begin, n, roughness.first[columns][:, None] + np.arange(n)))
    return found
