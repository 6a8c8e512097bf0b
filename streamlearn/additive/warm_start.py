"""Where a fit begins that goes on from another: its bases and its coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numeric.bases.bsplines import Bases
from ..numeric.bases.registry import LEVELS
from ..numeric.bases.roughness import times
from .objective import Problem


def warm_bases(before: dict[str, Any], summary: Any) -> Bases:
    """The bases of the last fit, which its coefficients belong to."""
    bases, columns = Bases(*before["bases"]), summary.columns
    if len(bases.degree) != len(columns):
        raise ValueError(
            f"warm_start=True goes on from a fit of {len(bases.degree)} columns, X has "
            f"{len(columns)}; fit a new estimator"
        )
    has_level = bases.has_missing | (bases.kind == LEVELS)
    new = [c.name for c, level in zip(columns, has_level, strict=True) if c.missing and not level]
    if new:
        raise ValueError(
            f"warm_start=True goes on from a fit without missing values in {new[:5]}, where some "
            "are now; fit a new estimator"
        )
    return bases


def warm_point(problem: Problem, before: dict[str, object] | None) -> np.ndarray | None:
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
    first, local = problem.bases.first, problem.bases.local
    for a, z, has_constant in zip(first[:-1], first[1:], local, strict=True):
        if z > a and has_constant:
            W[:, a:z] -= (W[:, a:z] @ flat[a:z] / flat[a:z].sum())[:, None]
    b = np.asarray(before["intercept"]) - np.asarray(before["shifts"]).sum(axis=1)
    b += coef @ problem.reference.c - problem.target_mean
    return np.column_stack([W, b])
