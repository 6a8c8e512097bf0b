"""Terms of two columns: products of broken lines of one column with broken lines of the other.

The nodes of a column are some of its own breakpoints, and its lines h_a are 1 at one node and 0 at
the others: h = T Phi with the column's splines Phi of degree 1, T the lines at the breakpoints.
The pair (d, e) has the functions h_a(x_d) h_b(x_e), which are tensor-product B-splines of degree 1
(Eilers & Marx 2003), with the penalty P_d (x) M_e + M_d (x) P_e, P being the penalty and M the mass
matrix of the lines.  Two things follow.  All products of a row come from the splines that it has
anyway, so whatever holds coordinates instead of values serves pairs.  And a function of one column
alone, sum_a r_a h_a, is a curve of that column's own splines: coefficients T'r.

A missing value is a node of its own, as a category is; M has a 1 there.
"""

from __future__ import annotations

import numpy as np

from .bsplines import Bases, nodes_of
from .registry import LEVELS, PAIR
from .roughness import Roughness, column_factor

N_NODES = 8
"""Most nodes of a column of numbers: what Lou et al. 2013 and G5's prototype take, 64 a pair."""
MOST_NODES = 32
"""Most nodes of a column of numbers in a pair whose penalty has a weight of its own."""
MOST_FUNCTIONS = 1024
"""Most functions of a pair: its penalty, inverse and factor are 24 MiB then."""


def lines_of(bases: Bases, d: int, most: int) -> np.ndarray:
    """T (k, n_d): column d's lines at its breakpoints."""
    nodes = nodes_of(bases, d, most)
    n = int(bases.first[d + 1] - bases.first[d])
    lines = [np.interp(np.arange(n), nodes, line) for line in np.eye(len(nodes))]
    return np.array(lines).reshape(len(nodes), n)


def add_pairs(
    bases: Bases,
    roughness: Roughness,
    c: np.ndarray,
    pairs: np.ndarray,
    order: int,
    scale: str,
    nodes: np.ndarray | None = None,
) -> tuple[Bases, Roughness, np.ndarray]:
    """Bases, penalties and reference with the terms of `pairs` (m, 2) behind those of the columns.

    `nodes` (m,): the most of a column of numbers in each pair; None: `N_NODES`.  The reference of a
    pair is the product of those of its columns, as if they were independent: it is near the mean,
    and known without a read.
    """
    m = len(pairs)
    nodes = np.full(m, N_NODES) if nodes is None else nodes
    terms = np.column_stack([pairs, nodes]).astype(np.intp)
    sides = {(d, n) for *both, n in terms.tolist() for d in both}
    means = {(d, n): lines_of(bases, d, n) @ c[slice(*bases.first[d : d + 2])] for d, n in sides}
    kinds = {
        side: (len(mean), int(bases.kind[side[0]]), bool(bases.has_missing[side[0]]))
        for side, mean in means.items()
    }
    stacks = [[roughness.P], [roughness.L], [roughness.R]]
    sizes, begins, at, references = [], [], len(roughness.P), [c]
    made: dict[object, int] = {}
    for d, e, most in terms.tolist():
        one, other = (d, most), (e, most)
        references.append(np.outer(means[one], means[other]).ravel())
        n = len(references[-1])
        sizes.append(n)
        begins.append(made.setdefault((kinds[one], kinds[other]), at))
        if begins[-1] < at or not n:  # pairs of the same kinds of columns share their matrices
            continue
        (P_d, M_d), (P_e, M_e) = (
            _penalty_and_mass(bases, *side, order, scale) for side in (one, other)
        )
        P = np.kron(P_d, M_e) + np.kron(M_d, P_e)
        R = np.linalg.cholesky(P).T
        inverse = np.linalg.inv(R)
        for stack, matrix in zip(stacks, (P, inverse @ inverse.T, R), strict=True):
            stack.append(np.ascontiguousarray(matrix).ravel())
        at += n * n
    first = np.concatenate([bases.first, bases.dim + np.cumsum(sizes, dtype=np.intp)])
    joined = bases._replace(
        first_knot=np.append(bases.first_knot, np.full(m, len(bases.knots), np.intp)),
        degree=np.append(bases.degree, np.ones(m, np.intp)),
        first=first.astype(np.intp),
        kind=np.append(bases.kind, np.full(m, PAIR, np.intp)),
        pairs=terms,
    )
    P, L, R = map(np.concatenate, stacks)
    table = np.append(roughness.table, np.array(begins, np.intp))
    return joined, Roughness(P, L, R, table, joined.first.copy()), np.concatenate(references)


def _penalty_and_mass(
    bases: Bases, d: int, most: int, order: int, scale: str
) -> tuple[np.ndarray, np.ndarray]:
    """P and M (k, k) of a column's lines; the "paper" scale has no widths, and M = I."""
    k = len(nodes_of(bases, d, most))
    if k == 0:
        return np.empty((0, 0)), np.empty((0, 0))
    missing = int(bases.has_missing[d])
    R = column_factor(bases.basis(d), k, k - 1, missing, order, scale)
    M, own = np.eye(k), k - missing
    if scale == "integral" and bases.kind[d] != LEVELS and own > 1:
        h = 1.0 / (own - 1)
        mass = np.diag(np.full(own, 2 * h / 3)) + np.diag(np.full(own - 1, h / 6), 1)
        mass += np.diag(np.full(own - 1, h / 6), -1)
        mass[0, 0] = mass[-1, -1] = h / 3
        M[:own, :own] = mass
    return R.T @ R, M


def scale_pairs(bases: Bases, roughness: Roughness, weights: np.ndarray) -> Roughness:
    """Penalties with those of the pairs times `weights` (m,), in matrices of each one's own."""
    p = bases.n_columns
    used = np.diff(bases.first[: p + 1]) > 0
    ends = roughness.table[:p] + np.diff(bases.first[: p + 1]) ** 2
    at = int(ends[used].max(initial=0))
    stacks = [[stack[:at]] for stack in (roughness.P, roughness.L, roughness.R)]
    table = roughness.table.copy()
    for i, (weight, n) in enumerate(
        zip(weights.tolist(), np.diff(bases.first[p:]).tolist(), strict=True), p
    ):
        own = slice(int(roughness.table[i]), int(roughness.table[i]) + n * n)
        for stack, matrix, factor in zip(
            stacks,
            (roughness.P, roughness.L, roughness.R),
            (weight, 1.0 / weight, np.sqrt(weight)),
            strict=True,
        ):
            stack.append(factor * matrix[own])
        table[i] = at
        at += n * n
    P, L, R = map(np.concatenate, stacks)
    return Roughness(P, L, R, table, roughness.first)


def fill_pairs(bases: Bases, Phi: np.ndarray) -> None:
    """Write the products of all pairs into `Phi` (dim, n) in place, from the splines above them."""
    if bases.pairs is None:
        return
    p, lines = bases.n_columns, {}
    # pairs of a column may differ in their nodes
    for d, most in {(d, n) for *both, n in bases.pairs.tolist() for d in both}:
        lines[d, most] = lines_of(bases, d, most) @ Phi[slice(*bases.first[d : d + 2])]
    for i, (d, e, most) in enumerate(bases.pairs.tolist()):
        a, z = bases.first[p + i : p + i + 2]
        rows, columns = lines[d, most], lines[e, most]
        shape = len(rows), len(columns), Phi.shape[1]
        np.multiply(rows[:, None], columns[None], out=Phi[a:z].reshape(shape))


def without_margins(table: np.ndarray, density: np.ndarray) -> tuple[np.ndarray, ...]:
    """Tables (k, l, m), their rows' and their columns' part (k, m) and (l, m).

    table = pure + rows[:, None] + columns.  `density` (k, l) >= 0; the density-weighted sums of a
    pure table along both axes are 0 (Lengerich et al. 2020).
    """
    k, pure = len(table), table.copy()
    of_rows, of_columns = density.sum(axis=1), density.sum(axis=0)
    system = np.block([[np.diag(of_rows), density], [density.T, np.diag(of_columns)]])
    moved = np.zeros((len(system), table.shape[2]))
    for _ in range(2):  # the second takes what rounding left of the first
        sums = [np.einsum(f"kl,klm->{axis}m", density, pure) for axis in "kl"]
        part = np.linalg.lstsq(system, np.concatenate(sums), rcond=1e-13)[0]
        moved += part
        pure -= part[:k, None] + part[k:]
    return pure, moved[:k], moved[k:]
