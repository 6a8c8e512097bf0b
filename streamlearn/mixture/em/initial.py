"""Starting point of EM: clusters of a sample, gates around them, experts that say nothing yet."""

from __future__ import annotations

import numpy as np

from ...data.source import Chunk, Csr
from ...numeric.rows.blocks import blocks
from ...solvers.kmeans import distances, lloyd_rows, plus_plus
from .. import experts
from ..gate import Tree, make_tree
from ..objective import Parameters, Problem

LLOYD = 20
"""Largest number of k-means iterations on the sample."""
SPREAD = 1.0
"""Root mean square of a linear gate's first logits, at most: a gate that begins with hard cuts
could not move them."""


def scaled(
    X: np.ndarray | Csr, shift: np.ndarray | None, factor: np.ndarray | None
) -> np.ndarray | Csr:
    """The rows of a sample in scaled columns, in float64."""
    if not isinstance(X, np.ndarray):
        return X._replace(data=X.data * (1.0 if factor is None else factor[X.indices]))
    out = np.empty(X.shape)
    for rows, B in blocks(X, shift, factor):
        out[rows] = B[: rows.stop - rows.start]
    return out


def clusters(
    sample: Chunk, n_components: int | tuple[int, int], generator: np.random.Generator
) -> tuple[np.ndarray, Tree]:
    """(n_gates, p) centres of a sample in scaled columns, and their tree.

    There are no more components than distinct rows.  For a tree the rows are clustered, then the
    rows of each cluster.
    """
    if not isinstance(n_components, tuple):
        centres = _cluster(sample.X, sample.weight, n_components, generator)
        return centres, make_tree(len(centres))
    a, b = n_components
    top = _cluster(sample.X, sample.weight, a, generator)
    nearest = distances(sample.X, top).argmin(axis=1)
    leaves: list[np.ndarray] = []
    branches: list[np.ndarray] = []
    parent: list[int] = []
    for i in range(len(top)):
        some = np.flatnonzero(nearest == i)
        s = None if sample.weight is None else sample.weight[some]
        if not len(some) or (s is not None and not s.sum() > 0):
            continue
        own = _cluster(_take(sample.X, some), s, b, generator)
        parent += [len(branches)] * len(own)
        leaves.append(own)
        branches.append(top[i])
    return np.vstack([branches, *leaves]), Tree(np.array(parent, np.intp), len(branches))


def _cluster(
    X: np.ndarray | Csr, s: np.ndarray | None, k: int, generator: np.random.Generator
) -> np.ndarray:
    return lloyd_rows(X, s, plus_plus(X, s, k, generator), LLOYD)[0]


def _take(X: np.ndarray | Csr, index: np.ndarray) -> np.ndarray | Csr:
    return X.take(index) if isinstance(X, Csr) else X[index]


def temperature(sample: Chunk, centres: np.ndarray) -> float:
    """The gate's tau, 1 / (2 x mean variance of a column within clusters)."""
    s = np.ones(sample.n_rows) if sample.weight is None else sample.weight
    within = float(s @ distances(sample.X, centres).min(axis=1)) / s.sum() / centres.shape[1]
    across = _variance(sample.X, s)
    return 1.0 / (2.0 * max(within, 1e-3 * across, 1e-12))


def _variance(X: np.ndarray | Csr, s: np.ndarray) -> float:
    """Mean variance of a column over all rows."""
    if not isinstance(X, np.ndarray):
        p = X.n_columns
        per_entry = np.repeat(s, np.diff(X.indptr)) / s.sum()
        mean = np.bincount(X.indices, per_entry * X.data, p)
        return float((np.bincount(X.indices, per_entry * X.data**2, p) - mean**2).mean())
    mean = s @ X / s.sum()
    return float((s @ (X - mean) ** 2).mean() / s.sum())


def begin(problem: Problem, centres: np.ndarray, sample: Chunk) -> Parameters:
    """Gates around the centres, and experts that are 0 except where a cluster has one class.

    There the expert always answers with that class: w = +-e_{d+1} (Fu 2010, section III-C).
    """
    tree, n = problem.tree, problem.tree.n_gates
    s = np.ones(sample.n_rows) if sample.weight is None else sample.weight
    p = centres.shape[1]
    rows = np.zeros((n + problem.n_experts, p + 1))
    rows[:n, :p] = centres
    D = distances(sample.X, centres)
    counts, pure = np.zeros(n), np.zeros((tree.n_leaves, problem.n_outputs))
    for part in tree.contests():
        nearest = part.start + D[:, part].argmin(axis=1)
        counts[part] = np.bincount(nearest, s, n)[part]
    leaf = D[:, tree.n_branches :].argmin(axis=1)
    for j in range(tree.n_leaves):
        seen = np.unique(sample.target[(leaf == j) & (s > 0)])
        if len(seen) == 1:
            code = int(seen[0])
            pure[j] = experts.signs(problem.n_outputs, np.array([code]))[0]
    rows[n:, p] = pure.ravel()
    log_mix = np.zeros(n)
    for part in tree.contests():
        mass = np.maximum(counts[part], 0.5)
        log_mix[part] = np.log(mass / mass.sum())
    if not problem.has_centres:
        _as_logits(problem, rows, centres, log_mix)
        if problem.kind == "linear":
            _soften(problem, rows, log_mix - problem.tau * D)
        log_mix = np.zeros(n)
    return Parameters(rows, log_mix)


def _as_logits(
    problem: Problem, rows: np.ndarray, centres: np.ndarray, log_mix: np.ndarray
) -> None:
    """Write the linear logits of the clusters into `rows`."""
    n, tau = problem.tree.n_gates, problem.tau
    rows[:n, :-1] = 2.0 * tau * centres
    rows[:n, -1] = log_mix - tau * np.einsum("ij,ij->i", centres, centres)


def _soften(problem: Problem, rows: np.ndarray, S: np.ndarray) -> None:
    """Shrink the linear logits in `rows` to a spread of 1; `S` (m, n_gates) are those of rows."""
    for part in problem.tree.contests():
        S[:, part] -= S[:, part].mean(axis=1, keepdims=True)
        spread = float(np.sqrt(np.mean(S[:, part] ** 2)))
        rows[part] *= SPREAD / spread if spread > SPREAD else 1.0
