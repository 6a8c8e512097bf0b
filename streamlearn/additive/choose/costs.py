"""The cost of choosing, and the fits that run together: the budget set decides that, but no bit."""

from __future__ import annotations

import numpy as np

from ...config import get_config
from ...engine.plan import Needs
from ...passes.fold import nbytes_of
from ...solvers.lbfgs import PAIRS
from ..basis.kernels import empty_sums
from ..costs import needs, sizes
from ..costs.solver_choice import DUAL
from ..dual.descent import GROUP, empty_certificate
from .gram import empty_moments

CACHE, CHOICE = "cache", "choice"
"""Phases of a copy of the rows in scratch, and of many fits by dual-cd in the same reads."""
COPIES = 8
"""States of a group of models that a plan makes room for, beside its curvature pairs."""


def room() -> int:
    """Bytes that choices of layout count on: the budget set, never the memory free by chance."""
    return get_config().memory_budget or sizes.UNSET_BUDGET


def groups_of_models(size: sizes.Size, n_models: int) -> list[range]:
    """Models whose states, points and pairs are in memory together."""
    return _groups(n_models, (COPIES + 2 * PAIRS) * 8 * size.n_outputs * (size.dim + 1))


def _groups(n_models: int, each: int) -> list[range]:
    most = max(1, int(room() // 4 // each))
    n_groups = -(-n_models // most)
    edges = np.linspace(0, n_models, n_groups + 1).astype(int)
    return [range(a, z) for a, z in zip(edges[:-1], edges[1:], strict=True)]


def groups_of_fits(size: sizes.Size, n_models: int) -> list[range]:
    """Models that dual-cd visits in the same reads: as many as a quarter of the budget has room."""
    each = nbytes_of(_empty_fit(size)) + 2 * 8 * size.n_outputs * (size.dim + 1)
    return _groups(n_models, 2 * each)


def _empty_fit(size: sizes.Size) -> list[object]:
    """The part of one model in the state of a read."""
    K, dim = size.n_outputs, size.dim
    return [np.zeros((K, dim)), np.zeros(K), empty_certificate(K, dim)]


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


def dual_needs(
    size: sizes.Size,
    n_splits: int,
    n_models: int,
    n_counts: int,
    max_passes: int,
    score_bytes: int,
) -> list[Needs]:
    """The reads of models by dual-cd, those of each `n_bases` for themselves, and of the refit."""
    K, theta = size.n_outputs, 8 * size.n_outputs * (size.dim + 1)
    groups = groups_of_fits(size, n_models // n_counts)
    members = max(map(len, groups))
    n_groups = len(groups) * n_counts
    variables = 4.0 * K * size.loss.dual_rule().n_variables
    width, split_weights = variables * members, 8.0 * (n_splits + 1)
    u = size.coordinates_nbytes
    copied = 0 if size.in_memory else n_counts * (u + 16)
    # targets and weights; decisions of all models, distances and a copy of the variables of one
    row = 48.0 + 8 * K * members + 88 * K + variables + split_weights + u
    kept = 3 * n_models * theta  # every model's point, the proved one, and its curves
    one = 4 * 8 * K * (size.dim + 8) + 3 * nbytes_of(empty_sums(K, size.dim))
    refit = [phase for phase in needs.needs_of(DUAL, size, max_passes) if phase.name != CACHE]
    return [
        Needs(CACHE, 0, 2.0 * u + 16, scratch_bytes_per_row=copied, passes=(0, n_counts)),
        Needs(
            CHOICE,
            members * nbytes_of(_empty_fit(size)) + 8 * n_splits,
            row,
            kept,
            members * theta,
            row_state_bytes=width,
            group=GROUP,
            scratch_bytes_per_row=copied,
            passes=(n_groups, n_groups * max(max_passes - 1, 1)),
            step_bytes=one,
            chosen_bytes_per_row=u + needs.CACHED_ROW_NBYTES + width + 40 * K + split_weights,
            carried_bytes_per_row=2 * (8.0 + width),
        ),
        Needs("score", score_bytes * n_models, row + size.row_nbytes, kept, kept),
        *refit,
    ]
