"""k-means: seeds from a sample in memory, Lloyd's iterations over reads of all rows.

    minimise  sum_i s_i min_j |x_i - v_j|^2

(Arthur & Vassilvitskii 2007 for the seeds, several candidates for each; Lloyd 1982.)  Distances
come from matrix products of blocks; all sums are float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ..data.source import Chunk, Csr, Source
from ..numeric.rows.blocks import Block, blocks, square_norms
from ..passes.fold import Fold, Reads

SAME = 1e-13
"""Squared distance divided by the squared norms, below which two rows are the same but for
rounding."""


class Clusters(NamedTuple):
    """The measurements of one read about the centres."""

    sums: np.ndarray
    """(k, p) weighted sums of the rows nearest to each centre."""
    counts: np.ndarray
    """(k,) weights of those rows."""
    inertia: np.ndarray
    """(k,) sums of their weighted squared distances."""
    farthest: np.ndarray
    """(k, p) the row farthest from each centre; of several equally far ones the first."""
    distance: np.ndarray
    """(k,) squared distance of that row; -1 for a centre without rows."""


def plus_plus(
    X: np.ndarray | Csr, weight: np.ndarray | None, k: int, generator: np.random.Generator
) -> np.ndarray:
    """(k, p) float64: rows of a sample in memory, drawn far from one another (k-means++).

    The first is drawn by weight, each further one by weight times squared distance to the nearest
    so far, the best of 2 + log k candidates.  A sample with fewer distinct rows of positive weight
    than k gives fewer centres, one for each.
    """
    m = X.shape[0]
    s = np.ones(m) if weight is None else np.asarray(weight, np.float64)
    if not s.sum() > 0:
        raise ValueError("k-means++ needs a row of positive weight")
    n_trials = 2 + int(np.log(k))
    centres = [row(X, _draw(s, 1, generator)[0])]
    nearest = distances(X, np.array(centres))[:, 0]
    while len(centres) < k:
        mass = s * nearest
        if not mass.max() > 0:
            break
        drawn = _draw(mass, n_trials, generator)
        candidates = np.array([row(X, i) for i in drawn])
        after = np.minimum(distances(X, candidates), nearest[:, None])
        best = int(np.argmin(s @ after))
        centres.append(candidates[best])
        nearest = after[:, best]
    return np.array(centres)


def lloyd(
    run: Reads,
    source: Source,
    centres: np.ndarray,
    *,
    scale: np.ndarray | None = None,
    max_passes: int,
    tol: float,
    name: str,
) -> tuple[np.ndarray, float, np.ndarray]:
    """Lloyd's iterations by reads of `source` through ``run.fold``, one read each.

    Parameters
    ----------
    run : Run
    source : Source
    centres : (k, p) float64
        Centres to begin with, in the units of the data.
    scale : (p,) float64, optional
        Columns are multiplied by it before distances are taken.
    max_passes : int
        Largest number of reads.
    tol : float
        The iterations end when a read lowers the inertia by at most this share.
    name : str
        Begin of the names of the reads, ``name-1``, ``name-2``, ...

    Returns
    -------
    centres : (k', p) float64
        Means of the clusters of the last read.  An empty cluster takes the row farthest from its
        centre in the cluster of largest inertia; where no row is away from its centre, it goes.
    inertia : float
        Inertia at the centres that the last read began with, so no less than at those returned.
    counts : (k',) float64
        Weights of the clusters in the last read; 0 for a cluster begun anew.
    """
    centres = np.array(centres, np.float64)
    if max_passes < 1:
        raise ValueError(f"max_passes={max_passes}; Lloyd's iterations need a read")
    before = np.inf
    for n in range(max_passes):
        found = run.fold(lloyd_fold(centres, scale), source, name=f"{name}-{n + 1}")
        centres, inertia, counts = update(found)
        if inertia >= before * (1 - tol):
            break
        before = inertia
    return centres, inertia, counts


def lloyd_rows(
    X: np.ndarray | Csr, weight: np.ndarray | None, centres: np.ndarray, n_iter: int
) -> tuple[np.ndarray, float, np.ndarray]:
    """`lloyd` on a sample in memory: at most `n_iter` iterations, fewer if nothing moves."""
    chunk = Chunk(X, None, weight, range(X.shape[0]))
    inertia, counts = np.inf, np.zeros(len(centres))
    for _ in range(n_iter):
        fold = lloyd_fold(centres)
        found = fold.finish(fold.step(fold.start(), chunk))
        before, (centres, inertia, counts) = centres, update(found)
        if np.array_equal(before, centres):
            break
    return centres, inertia, counts


def lloyd_fold(centres: np.ndarray, scale: np.ndarray | None = None) -> Fold[Clusters, Clusters]:
    """Fold of the `Clusters` around `centres`.  A state takes 16 k p bytes."""
    return Fold(partial(empty_clusters, *centres.shape), partial(_step, centres, scale), _merge)


def update(found: Clusters) -> tuple[np.ndarray, float, np.ndarray]:
    """Means of the clusters; empty ones are begun anew or go."""
    full = found.counts > 0
    centres = found.sums / np.where(full, found.counts, 1.0)[:, None]
    keep = full.copy()
    wide = np.argsort(-found.inertia, kind="stable")
    wide = wide[full[wide] & (found.distance[wide] > 0)]
    for empty, donor in zip(np.flatnonzero(~full), wide, strict=False):
        centres[empty] = found.farthest[donor]
        keep[empty] = True
    return centres[keep], float(found.inertia.sum()), found.counts[keep]


def distances(
    X: np.ndarray | Csr, centres: np.ndarray, scale: np.ndarray | None = None
) -> np.ndarray:
    """(m, k) float64 squared distances of rows to centres; exactly 0 where they are the same."""
    out = np.empty((X.shape[0], len(centres)))
    for rows, _, squares in _distance_blocks(X, centres, scale):
        out[rows] = squares
    return out


def _distance_blocks(
    X: np.ndarray | Csr, centres: np.ndarray, scale: np.ndarray | None
) -> Iterator[tuple[slice, Block, np.ndarray]]:
    """Yield (rows, block, (m, k) squared distances); dense blocks minus the mean centre."""
    middle = None if isinstance(X, Csr) else centres.mean(axis=0)
    V = centres if middle is None else centres - middle
    if scale is not None:
        V = V * scale
    norms, A = np.einsum("ij,ij->i", V, V), -2.0 * V.T
    for rows, B in blocks(X, middle, scale):
        m = rows.stop - rows.start
        size = square_norms(B)[:m, None] + norms
        squares = (B @ A)[:m]
        squares += size
        squares[squares <= SAME * size] = 0.0
        yield rows, B, squares


def row(X: np.ndarray | Csr, i: int) -> np.ndarray:
    """Row i as (p,) float64."""
    if not isinstance(X, Csr):
        return np.asarray(X[i], np.float64)
    out = np.zeros(X.n_columns)
    span = slice(X.indptr[i], X.indptr[i + 1])
    out[X.indices[span]] = X.data[span]
    return out


def _draw(mass: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """n indices with probabilities in proportion to `mass`; never one of mass 0."""
    total = np.cumsum(mass)
    drawn = np.searchsorted(total, generator.random(n) * total[-1], side="right")
    return np.minimum(drawn, np.flatnonzero(mass)[-1])


def empty_clusters(k: int, p: int) -> Clusters:
    """The sums of no rows around k centres."""
    return Clusters(np.zeros((k, p)), np.zeros(k), np.zeros(k), np.zeros((k, p)), np.full(k, -1.0))


def _step(centres: np.ndarray, scale: np.ndarray | None, state: Clusters, chunk: Chunk) -> Clusters:
    k, weight = len(centres), chunk.weight
    middle = 0.0 if isinstance(chunk.X, Csr) else centres.mean(axis=0)
    unit = 1.0 if scale is None else np.where(scale == 0, 1.0, scale)
    for rows, B, squares in _distance_blocks(chunk.X, centres, scale):
        m = rows.stop - rows.start
        s = np.ones(m) if weight is None else weight[rows]
        nearest = squares.argmin(axis=1)
        d = squares[np.arange(m), nearest]
        one_hot = np.zeros((B.shape[0], k))
        one_hot[np.arange(m), nearest] = s
        counts = one_hot.sum(axis=0)
        state.sums[:] += np.asarray(B.T @ one_hot).T / unit + counts[:, None] * middle
        state.counts[:] += counts
        state.inertia[:] += np.bincount(nearest, s * d, k)
        d[s == 0] = -1.0
        order = np.lexsort((-d, nearest))
        first = order[np.unique(nearest[order], return_index=True)[1]]
        for i in first[d[first] > state.distance[nearest[first]]]:
            state.distance[nearest[i]] = d[i]
            state.farthest[nearest[i]] = row(chunk.X, rows.start + int(i))
    return state


def _merge(a: Clusters, b: Clusters) -> Clusters:
    farther = b.distance > a.distance
    a.farthest[farther] = b.farthest[farther]
    a.distance[farther] = b.distance[farther]
    for x, y in zip(a[:3], b[:3], strict=True):
        x += y
    return a
