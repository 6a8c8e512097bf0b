"""The warning about sample weights whose sum is far from the number of rows."""

from __future__ import annotations

import warnings

import numpy as np

from ...passes.summary.summary import Summary

FAR = 10.0
"""Factor between the sum of weights and the number of rows from which a fit warns."""
LEAST, MOST = 1e-100, 1e100
"""Sums of weights that are taken: their squares, times the rows', are numbers of float64."""
SAID = "the weights of .* rows add up to"
"""Pattern of the warning."""


def check_weights(summary: Summary) -> None:
    """Refuse weights whose squares, or whose products with rows, would leave float64."""
    n, total = summary.n_rows - summary.n_absent, float(summary.total_weight)
    if not LEAST <= total <= MOST:
        by = f"mean, {total / n:.6g}" if np.isfinite(total) and n else "largest"
        raise ValueError(
            f"the sample weights of {n:,} rows add up to {total:.6g}, and sums from {LEAST:g} to "
            f"{MOST:g} can be computed with: a weight counts copies of its row; divide the weights "
            f"by their {by}"
        )


def warn_of_weights(name: str, summary: Summary) -> None:
    """Say that weights, which count copies of rows, add up to far more or less than the rows."""
    n = summary.n_rows - summary.n_absent
    total = float(summary.total_weight)
    if n and not n / FAR <= total <= n * FAR:
        warnings.warn(
            f"the weights of {n:,} rows add up to {total:,.6g}: a weight counts copies of its row, "
            f"so {name} weighs its penalty and its tests against {total:,.6g} rows; divide the "
            f"weights by their mean, {total / n:.6g}, unless copies are meant",
            UserWarning,
            stacklevel=6,
        )
