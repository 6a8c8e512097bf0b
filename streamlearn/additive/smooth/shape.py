"""Curves that rise, fall or bend one way: linear inequalities on neighbouring coefficients.

    minimise the objective subject to  G w >= 0

A spline rises if its coefficients do, at any degree (at degree 1 only then).  A broken line is
convex if its slopes rise, and at degree 2 with evenly spaced knots the spline is if the differences
of its coefficients do.  A Newton step is the quadratic programme of the model of the losses with
the curvature of all rows; its multipliers mu >= 0 are found first, by the active-set method of
Lawson & Hanson (1974, chapter 23) on

    minimise  1/2 mu'(G V G')mu + (G V r)'mu,     theta = V (r + G'mu),  V = (H + S)^-1.

With the multipliers of the last step any point w has the lower bound
F(w) - mu'G w - 1/2 (g - G'mu)'S^-1 (g - G'mu), which proves the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from ...data.source import Source
from ...numeric.bases.bsplines import Bases
from ...numeric.bases.registry import CYCLE, LEVELS
from ..targets import find_column
from .criteria import Quadratic
from .optimum import Fit
from .penalties import Penalties

Signs = Mapping[str | int, int]
"""Column -> 1 (rising, convex) or -1 (falling, concave)."""
SHAPES: dict[str, list[object]] = {"monotone": [dict, None], "convex": [dict, None]}


class Shaped(Protocol):
    """The parameters of an estimator that decide on the shapes of its curves."""

    monotone: Signs | None
    convex: Signs | None
    degree: int
    knots: str

    @property
    def basis(self) -> object:
        """Name of the basis, or the basis."""


class Cone(NamedTuple):
    """The curves that are allowed."""

    G: np.ndarray
    """(m, dim) the inequalities G w >= 0."""
    blocks: list[tuple[slice, np.ndarray, int, int]]
    """Coefficients of each column, knot gaps, and the signs of its slope and of its bend."""

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """The point (dim + 1,) with what rounding left outside put on the border."""
        out = theta.copy()
        for at, gaps, rises, bends in self.blocks:
            w = theta[at]
            if not bends:
                out[at] = rises * np.maximum.accumulate(rises * w)
                continue
            slopes = bends * np.maximum.accumulate(bends * np.diff(w) / gaps)
            if rises:
                slopes = rises * np.maximum(rises * slopes, 0.0)
            out[at] = np.append(w[0], w[0] + np.cumsum(slopes * gaps))
        return out


def check_shapes(
    model: Shaped, dataset: Source, bases: Bases, n_classes: int
) -> dict[int, tuple[int, int]]:
    """Column number -> signs of its slope and its bend; refuses what has no such shape."""
    found: dict[int, tuple[int, int]] = {}
    for place, (name, signs) in enumerate((("monotone", model.monotone), ("convex", model.convex))):
        for column, sign in (signs or {}).items():
            d = find_column(model, name, column, dataset)
            if sign not in (1, -1):
                raise ValueError(f"{name}={{{column!r}: {sign!r}}} must be 1 or -1")
            if bases.kind[d] == LEVELS:
                raise ValueError(
                    f"{name} names column {column!r}, which holds categories that have no order; "
                    "leave it out, or make numbers of them"
                )
            if bases.kind[d] == CYCLE:
                raise ValueError(
                    f"{name} names {column!r}, a clock whose curve ends where it begins, so that "
                    "it cannot rise or bend one way; leave it out"
                )
            both = list(found.get(d, (0, 0)))
            both[place] = sign
            found[d] = both[0], both[1]
    if not found:
        return found
    if n_classes > 2:
        raise ValueError(
            f"monotone and convex are of one decision, and {n_classes} classes have as many; fit "
            "one class against the rest"
        )
    if model.basis != "bspline":
        raise ValueError(
            f"monotone and convex are shapes of splines, got basis={model.basis!r}; use "
            "basis='bspline'"
        )
    if model.convex and model.degree > 1 and not (model.degree == 2 and model.knots == "uniform"):
        raise ValueError(
            f"convex with degree={model.degree} and knots={model.knots!r} is no matter of "
            "neighbouring coefficients; use degree=1, or degree=2 with knots='uniform'"
        )
    return found


def make_cone(bases: Bases, shapes: Mapping[int, tuple[int, int]]) -> Cone:
    """The inequalities of the columns that have curves."""
    rows: list[np.ndarray] = []
    blocks = []
    for d, (rises, bends) in sorted(shapes.items()):
        a, z = bases.first[d : d + 2].tolist()
        own = z - a - int(bases.has_missing[d]) * int(bases.degree[d])
        if own < 2:
            continue
        knots = bases.knots[slice(*bases.first_knot[d : d + 2])]
        gaps = np.diff(knots[np.isfinite(knots)]) if bases.degree[d] == 1 else np.ones(own - 1)
        gaps = gaps / gaps.mean()
        slopes = np.zeros((own - 1, bases.dim))
        slopes[:, a : a + own] = np.diff(np.eye(own), axis=0) / gaps[:, None]
        if bends:
            rows.append(bends * np.diff(slopes, axis=0))
            if rises:  # the slope that is nearest to the wrong sign is the first, or the last
                rows.append(rises * (slopes[:1] if rises == bends else slopes[-1:]))
        else:
            rows.append(rises * slopes)
        blocks.append((slice(a, a + own), gaps, rises, bends))
    return Cone(np.concatenate([np.zeros((0, bases.dim)), *rows]), blocks)


def in_cone(cone: Cone, model: Quadratic, penalties: Penalties, start: Fit | None) -> Fit:
    """The best point of the cone for the model, at the weights that are given."""
    assert start is not None  # nothing chooses them
    fit = start
    G = np.column_stack([cone.G, np.zeros(len(cone.G))])
    GV = G @ fit.V
    mu = np.zeros(len(G))
    outside = G @ fit.theta
    if (outside < 0).any():
        L = np.linalg.cholesky(GV @ G.T)
        mu = nnls(L.T, -solve_triangular(L, outside, lower=True), maxiter=30 * len(G))[0]
    theta = cone.inside(fit.theta + GV.T @ mu)
    return fit._replace(theta=theta, forces=G.T @ mu)
