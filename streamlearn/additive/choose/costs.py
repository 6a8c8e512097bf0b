"""The cost of choosing, and the fits that run together: the budget set decides that, but no bit."""

from __future__ import annotations

import numpy as np

from ...config import get_config
from ...engine.plan import Needs
from ...passes.fold import nbytes_of
from ...solvers.lbfgs import PAIRS
from ..basis.kernels import empty_sums
from ..costs import sizes
from .gram import empty_moments

COPIES = 8
"""States of a group of models that a plan makes room for, beside its curvature pairs."""


def room() -> int:
    """Bytes that choices of layout count on: the budget set, never the memory free by chance."""
    return get_config().memory_budget or sizes.UNSET_BUDGET


def groups_of_models(size: sizes.Size, n_models: int) -> list[range]:
    """Models whose states, points and pairs are in memory together."""
    each = (COPIES + 2 * PAIRS) * 8 * size.n_outputs * (size.dim + 1)
    most = max(1, int(room() // 4 // each))
    n_groups = -(-n_models // most)
    edges = np.linspace(0, n_models, n_groups + 1).astype(int)
    return [range(a, z) for a, z in zip(edges[:-1], edges[1:], strict=True)]


def groups_of_counts(dims: dict[int, int], n_splits: int) -> list[list[int]]:
    """The values of n_bases whose Grams, one a split, are made in one read; `dims`: their sizes."""
    groups: list[list[int]] = []
    used = room()
    for n, dim in dims.items():
        nbytes = n_splits * 8 * dim**2
        if used + nbytes > room() // 8:
            groups.append([])
            used = 0
        groups[-1].append(n)
        used += nbytes
    return groups


def gram_needs(size: sizes.Size, n_splits: int, groups: list[list[int]]) -> list[Needs]:
    """The phases for squared error: a read for each group of Grams; solutions are exact."""
    matrix = 8 * size.dim**2
    together = max(map(len, groups)) * n_splits * nbytes_of(empty_moments(size.dim))
    row, model = 32.0 + 8 + size.row_nbytes, 8 * (size.dim + 1)
    passes = (len(groups), len(groups) + 1)
    return [Needs("gram", together, row, together + 5 * matrix, model, passes=passes)]


def newton_needs(
    size: sizes.Size,
    n_splits: int,
    n_models: int,
    n_groups: int,
    max_passes: int,
    score_bytes: int,
) -> list[Needs]:
    """Newton's reads of a group of models at a time, and the one that scores them all.

    `score_bytes`: of the sums of the metric that judges, for each model.
    """
    K, theta = size.n_outputs, 8 * size.n_outputs * (size.dim + 1)
    members = -(-n_models // n_groups)
    rows = min(sizes.sample_rows(size), size.n_rows)
    sample = int(rows * (size.row_nbytes + 16 + 48 + 8 * K + 8 * (n_splits + 1)))
    pairs = members * (2 * PAIRS + 4) * theta
    kept = 3 * n_models * theta  # every model's point, and its curves for the scoring
    row = 32.0 + 8 * K + size.coordinates_nbytes + 8.0 * (n_splits + 1)
    driver = sample + 8 * size.dim**2 + pairs + kept
    state = members * nbytes_of(empty_sums(K, size.dim))
    passes = (n_groups + 1, max_passes - 1)
    return [
        Needs("newton", state, row, driver, 2 * members * theta, passes=passes),
        Needs("score", score_bytes * n_models, row + size.row_nbytes, sample + kept, kept),
    ]
