"""The warning about sample weights whose sum is far from the number of rows."""

from __future__ import annotations

import warnings

from ...passes.summary.summary import Summary

FAR = 10.0
"""Factor between the sum of weights and the number of rows from which a fit warns."""
SAID = "the weights of .* rows add up to"
"""Pattern of the warning."""


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
