"""The start of a fit that goes on from another: its bases and its coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numeric.bases.bsplines import Bases
from ..numeric.bases.registry import LEVELS
from ..numeric.bases.roughness import times
from ..passes.summary.summary import Summary
from .objective import Problem

Before = dict[str, Any]
"""The last fit: the parts of its state that a warm start begins at, by name, and its levels."""


def warm_bases(before: Before, summary: Summary) -> Bases:
    """The bases of the last fit, which its coefficients belong to."""
    bases, columns = Bases(*before["bases"]), summary.columns
    if bases.pairs is not None:
        raise ValueError(
            "warm_start=True goes on from a fit without interactions, and the last one had "
            f"{len(bases.pairs)}; fit a new estimator"
        )
    if len(bases.degree) != len(columns):
        raise ValueError(
            f"warm_start=True goes on from a fit of {len(bases.degree)} columns, X has "
            f"{len(columns)}; fit a new estimator"
        )
    has_level = bases.has_missing | (bases.kind == LEVELS)
    new = [columns.names[d] for d in np.flatnonzero((columns.missing > 0) & ~has_level)]
    if new:
        raise ValueError(
            f"warm_start=True goes on from a fit without missing values in {new[:5]}, where some "
            "are now; fit a new estimator"
        )
    return bases


def warm_point(problem: Problem, before: Before | None) -> np.ndarray | None:
    """The point (K, dim + 1) of the last fit's decisions; None: begin at 0."""
    if before is None:
        return None
    coef = np.asarray(before["coef"])
    if coef.shape != (problem.n_outputs, problem.dim):
        raise ValueError(
            f"warm_start=True goes on from a fit of {len(coef)} outputs, the target has "
            f"{problem.n_outputs}; fit a new estimator"
        )
    W = coef.copy()
    # the constant of each column that costs least; Phi - c does not see it
    flat = times(problem.roughness.P, problem.roughness, np.ones((1, problem.dim)))[0]
    first, n_bases = problem.bases.first, np.diff(problem.bases.first)
    constant = np.zeros((len(W), len(n_bases)))
    used = np.flatnonzero((n_bases > 0) & problem.bases.local)  # others have no constant
    if len(used):
        ends = np.append(first[used], problem.dim)
        sums = np.add.reduceat(W * flat, ends[:-1], axis=1)
        constant[:, used] = sums / np.add.reduceat(flat, ends[:-1])
    W -= np.repeat(constant, n_bases, axis=1)
    b = np.asarray(before["intercept"]) - np.asarray(before["shifts"]).sum(axis=1)
    b += coef @ problem.reference.c - problem.target_mean
    return np.column_stack([W, b])
