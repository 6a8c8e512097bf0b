"""Where prototypes begin: at the centres of clusters, or at rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..solvers.kmeans import lloyd_rows, plus_plus
from .sample import SampleObjective

LLOYD_ITERATIONS = 10


def first_prototypes(
    sample: SampleObjective, m: int, init: Any, generator: np.random.Generator
) -> np.ndarray:
    """(m, p) prototypes to begin with; fewer if the sample has fewer distinct rows.

    ``"k-means"`` and ``"rows"`` (drawn by weight) give each class its equal share.
    """
    X, u = sample.X, sample.u
    if not isinstance(init, str):
        return np.array(init, np.float64)
    groups = _groups(sample)
    shares = np.full(len(groups), m // len(groups))
    shares[: m % len(groups)] += 1
    parts = [
        _DRAW[init](X[group], u[group], share, generator)
        for group, share in zip(groups, shares, strict=True)
        if share
    ]
    Z = np.unique(np.vstack(parts), axis=0)
    if len(Z) < m:  # a class of few rows leaves its share to the others
        keys = _draw_rows(X, u, m, generator)
        Z = np.unique(np.vstack([Z, keys]), axis=0)[:m]
    return Z


def _groups(sample: SampleObjective) -> list[np.ndarray]:
    """The rows of each class; all rows where the targets are numbers."""
    K, Y = sample.problem.n_classes, sample.Y
    if K == 0:
        return [np.arange(len(Y))]
    code = (Y[:, 0] > 0).astype(int) if K == 2 else Y.argmax(axis=1)
    groups = [np.flatnonzero(code == k) for k in range(K)]
    return [group for group in groups if len(group)]


def _draw_rows(X: np.ndarray, u: np.ndarray, m: int, generator: np.random.Generator) -> np.ndarray:
    """At most m rows without replacement, by weight (Efraimidis & Spirakis 2006)."""
    keys = generator.exponential(size=len(X)) / u
    return X[np.sort(np.argsort(keys, kind="stable")[:m])]


def _centres(X: np.ndarray, u: np.ndarray, m: int, generator: np.random.Generator) -> np.ndarray:
    return lloyd_rows(X, u, plus_plus(X, u, m, generator), LLOYD_ITERATIONS)[0]


_DRAW = {"rows": _draw_rows, "k-means": _centres}
