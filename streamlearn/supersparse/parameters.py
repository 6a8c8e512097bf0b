"""The parameters that all super-sparse models share, and their limits for given columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Protocol

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions

from ..data.encoding import Encoding
from ..errors import LackError, SourceError
from ..passes.summary.facts import ColumnFacts
from .similarity import BOUNDED, NAMES, Similarity, SimilarityParameter, make_similarity

CONSTRAINTS: dict[str, list[object]] = {
    "similarity": [StrOptions(set(NAMES)), callable, tuple],
    "neighbours": [callable, None],
    "scaling": [StrOptions({"auto", "standard", "none"})],
    "schedule": [StrOptions({"all", "paper"})],
    "gamma": [StrOptions({"scale"}), Interval(Real, 1e-100, 1e100, closed="both")],
    "degree": [Interval(Integral, 1, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "ridge": [StrOptions({"auto"}), Interval(Real, 0, 1e100, closed="both")],
    "repulsion": [Interval(Real, 0, None, closed="left")],
    "n_passes": [Interval(Integral, 2, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "random_state": [Interval(Integral, 0, None, closed="left")],
    "encoding": [dict, None],
}


SCALED = ("rbf", "laplacian", "linear", "poly")
"""Similarities whose columns are scaled by default: not histograms, nor what a callable takes."""
OF_DIFFERENCES = ("rbf", "laplacian")
"""Similarities that see x - z alone, so that their gamma must not depend on the columns' means."""
ONE_SCALE = 0.25
"""Share of the columns, beside one, that must count in distances for all to be taken as they are.

It is 0.48 for MNIST's pixels, 0.77 for isolet, 0.85 for pendigits, 0.88 for satimage, 0.42 for
a9a's levels; machines of MNIST, pendigits and satimage were fitted both ways, and scaling made
them worse, or no better.  It is 0.02 for covtype and 0.09 for
california_housing, which they cannot learn without.
"""
PAPERS_RIDGE, LEAST_RIDGE = 0.04, 1e-6
"""The default of lambda = ridge W, and the least ridge that it gives.

Of 400 rows 1e-4 has less loss on new rows than 1e-6 (california_housing, covtype, and the planted
classes of bench/defaults.py), of 10,000 rows 1e-6 has (california_housing).
"""
LARGEST = 1e20
"""Largest value whose fourth power, in the descent's equations, does not overflow in float64."""


class Options(Protocol):
    """Parameters of the estimators that say what a similarity is and how prototypes move."""

    similarity: SimilarityParameter
    scaling: str
    gamma: float | str
    ridge: float | str
    degree: int
    coef0: float
    repulsion: float
    init: npt.ArrayLike
    neighbours: Callable[[np.ndarray], np.ndarray] | None
    schedule: str


def scale_for(
    model: Options, columns: ColumnFacts, encoding: Encoding | None = None
) -> np.ndarray | None:
    """(p,) one over each column's standard deviation; None if rows are taken as they are.

    The indicators of a category share one (`Encoding.widths`).  A constant column, or one whose
    numbers differ in their last digits only, keeps its unit.
    """
    scaling = model.scaling
    if scaling == "auto":
        numbers = model.neighbours is None and model.similarity in SCALED
        scaling = "standard" if numbers and not share_one_scale(columns) else "none"
    if scaling == "none":
        return None
    if model.neighbours is not None:
        raise ValueError(
            f"scaling={scaling!r}: neighbours= makes prototypes structures, whose codes have "
            "no unit; use scaling='none'"
        )
    squares = np.maximum(columns.variance, 0.0)
    width = np.sqrt(squares) if encoding is None else encoding.widths(squares)
    flat = (width <= 1e-12 * np.maximum(-columns.min, columns.max)) | (width < 1e-30)
    scale: np.ndarray = 1.0 / np.where(flat, 1.0, width)
    return rounded(scale)


def share_one_scale(columns: ColumnFacts) -> bool:
    """Whether distances are made by many of the columns: pixels, grades, levels, scaled columns.

    n = (sum v)^2 / sum v^2 of their variances v is as many columns as count: 1 if one of them makes
    every distance, all of them if their variances are equal.
    """
    share = columns.variance[columns.variance > 0]
    if len(share) < 2:
        return True
    share = share / share.max()
    n = share.sum() ** 2 / (share**2).sum()
    return bool(n - 1 >= ONE_SCALE * (len(share) - 1))


def scaled_columns(columns: ColumnFacts, scale: np.ndarray | None) -> ColumnFacts:
    """The moments of the columns times their factors (p,)."""
    if scale is None:
        return columns
    return replace(
        columns,
        min=columns.min * scale,
        max=columns.max * scale,
        mean=columns.mean * scale,
        variance=columns.variance * scale**2,
    )


def similarity_for(model: Options, columns: ColumnFacts, scale: np.ndarray | None) -> Similarity:
    """The similarity of a model's parameters for columns of this summary times their factors."""
    name, columns = model.similarity, scaled_columns(columns, scale)
    if isinstance(name, tuple) and (len(name) != 2 or not all(map(callable, name))):
        raise ValueError(f"similarity={name!r}: a tuple must be (similarity, vjp), two callables")
    if model.neighbours is not None:
        init = model.init
        for word, value, is_possible, wanted in (
            ("similarity", name, callable(name), "a callable"),
            ("init", init, not isinstance(init, str) or init == "rows", "'rows' or an array"),
            ("schedule", model.schedule, model.schedule == "all", "'all'"),
            ("repulsion", model.repulsion, model.repulsion == 0, "0"),
        ):
            if not is_possible:
                raise ValueError(
                    f"neighbours= makes prototypes structures; {word} must then be {wanted}, got "
                    f"{value!r}"
                )
    if model.repulsion > 0 and isinstance(name, str) and name not in BOUNDED:
        raise ValueError(
            f"repulsion={model.repulsion} with similarity={name!r}: prototypes would be driven "
            f"apart without end; use repulsion=0 or one of {', '.join(BOUNDED)}"
        )
    negative = np.flatnonzero(columns.min < 0)
    if name == "chi2" and len(negative):
        d = negative[0]
        raise ValueError(
            f"column {columns.names[d]!r} holds {columns.min[d]:g}; similarity='chi2' needs values "
            ">= 0: shift the column with Dataset.map, or use another similarity"
        )
    large = np.flatnonzero(np.maximum(-columns.min, columns.max) > LARGEST)
    if len(large):
        d = large[0]
        raise SourceError(
            f"column {columns.names[d]!r} goes from {columns.min[d]:.3g} to {columns.max[d]:.3g}; "
            f"similarities of values beyond {LARGEST:g} overflow: scale the column, or clip "
            "cells that are wrong, with Dataset.map"
        )
    means, gamma = columns.mean, 1.0
    if not isinstance(model.gamma, str):
        gamma = float(model.gamma)
    else:
        variance = columns.variance.mean()
        if scale is None or name not in OF_DIFFERENCES:  # X.var(), of all cells of the table
            variance += (means**2).mean() - means.mean() ** 2
        gamma = rounded_number(1.0 / (len(columns) * variance)) if variance > 0 else gamma
    return make_similarity(
        name, gamma=gamma, degree=model.degree, coef0=model.coef0, centre=rounded(means)
    )


def ridge_for(model: Options, weight: float) -> float:
    """The ridge of a model for rows of this total weight."""
    if not isinstance(model.ridge, str):
        return float(model.ridge)
    return max(rounded_number(PAPERS_RIDGE / weight), LEAST_RIDGE)


def rounded(x: np.ndarray) -> np.ndarray:
    """x to the 24 bits of float32, which, unlike the last ones of float64, no chunks decide.

    The range stays that of float64: targets and columns may be in units of 1e60.
    """
    fraction, exponent = np.frexp(x)
    return np.ldexp(fraction.astype(np.float32).astype(np.float64), exponent)


def rounded_number(x: float) -> float:
    """`rounded` of one number."""
    return float(rounded(np.asarray(x)))


def check_rows(m: int, n_rows: int, whole: bool) -> None:
    """Refuse more prototypes than rows, where a weight of k counts as k rows."""
    if m > n_rows:
        raise LackError(
            f"n_prototypes={m} is more than n_samples={n_rows}",
            f"use n_prototypes <= {n_rows}" + ("" if whole else ", or raise memory_budget"),
        )
