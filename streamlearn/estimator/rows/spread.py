"""Columns and targets whose mean and variance say little of their rows: refused or warned of."""

from __future__ import annotations

import warnings

import numpy as np

from ...errors import SourceError, leave_out
from ...passes.summary.labels import Labels
from ...passes.summary.summary import Summary

SHARE = 0.5
"""Share of a column's variance that one row may hold before it is warned of.

Of n rows of a normal column the farthest holds about 2 log(n) / n; more than a half in one row
means that the scale of the column is that row's.
"""
SHARE_OF_TARGET = 0.2
"""Share of a target's variance that one row may hold.

Wrong targets rarely come alone, and five equal ones hold a fifth each; of 1,000 values of
exp(normal) one holds a seventh.
"""
FEWEST = 100
"""Rows from which `SHARE` is looked at: of a few rows one always holds much of the variance."""
FEWEST_TARGETS = 1000
"""Rows from which `SHARE_OF_TARGET` is looked at."""
DENSE = 0.1
"""Share of rows that are not zero from which `SHARE` is looked at.

The one row of an indicator that is set once holds all of its variance, and nothing is lost by that.
"""
PRECISION = 1e-6
"""Standard deviation over mean below which a column is lost to rounding: sums of squares of float64
keep 1e-12 of the squared mean.
"""
SHOWN = 5
"""Columns that a message names, at most."""
TARGET_SAID = "the target .* of the variance in one row"
"""Pattern of the warning of a target."""


def check_target(target: Labels) -> None:
    """Refuse a numeric target whose squares are no numbers of float64, or all 0.

    Raises
    ------
    SourceError
        The variance of a target that is not constant is 0, or not finite, in float64.
    """
    square = target.variance
    if target.min < target.max and not np.finfo(np.float64).tiny <= square < np.inf:
        raise SourceError(
            f"the target {target.name!r} goes from {target.min:.3g} to {target.max:.3g}, so that "
            f"its variance is {square:.3g} in float64; divide it by "
            f"{max(abs(target.min), abs(target.max)):.0e} before it is given, or correct values "
            "that are wrong"
        )


def check_targets_of(y: np.ndarray, name: str) -> None:
    """Refuse targets of a stream whose squares are no numbers of float64."""
    with np.errstate(over="ignore"):
        if np.isfinite(y @ y):
            return
    far = np.abs(y).max()
    raise SourceError(
        f"the target {name!r} has values up to {far:.3g}, whose squares are infinite in float64; "
        f"divide it by {far:.0e}, in all calls of partial_fit, or correct values that are wrong"
    )


def warn_of_target(target: Labels, n_rows: int, kind: str, stacklevel: int = 6) -> None:
    """Say that one row holds much of the variance of a numeric target, of a `kind` of source.

    The loss that a regression minimises is then mostly that of few rows, or the score is.
    """
    far = target.max if target.max - target.mean >= target.mean - target.min else target.min
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        share = np.float64(far - target.mean) ** 2 / (n_rows * np.float64(target.variance))
    if n_rows >= FEWEST_TARGETS and share > SHARE_OF_TARGET:
        warnings.warn(
            f"the target {target.name!r} has {share:.0%} of the variance in one row of {n_rows:,}, "
            f"where it is {far:.6g} and its mean {target.mean:.6g}: squared errors, and R^2, are "
            f"those of a few rows; where targets are wrong, {leave_out(kind)}; if they are right, "
            "fit their logarithm or a robust loss, and score by mean_absolute_error",
            UserWarning,
            stacklevel=stacklevel,
        )


def check_spread(summary: Summary) -> None:
    """Refuse columns without a usable variance, and warn of those that one row or a shift rules.

    For families that scale columns, or compare them, by mean and variance alone; a family that goes
    by quantiles needs no such check.

    Raises
    ------
    SourceError
        The variance of a column that is not constant is 0, or not finite, in float64.
    """
    facts = summary.columns
    names = np.array(facts.names, dtype=object)
    low, high, mean, variance, count, zeros = (
        np.asarray(values, np.float64)
        for values in (facts.min, facts.max, facts.mean, facts.variance, facts.count, facts.zeros)
    )
    varies = low < high
    unusable = varies & ~(np.isfinite(variance) & (variance >= np.finfo(np.float64).tiny))
    if unusable.any():
        first = int(unusable.argmax())
        raise SourceError(
            f"{_named(names[unusable])} from {low[first]:.3g} to {high[first]:.3g}, so that the "
            f"variance is {variance[first]:.3g} in float64; scale it, or clip cells that are "
            "wrong, with Dataset.map"
        )
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        farthest = np.maximum(high - mean, mean - low)
        share = np.where(varies, farthest**2 / (summary.n_rows * variance), 0.0)
        ruled = (share > SHARE) & (count - zeros > DENSE * count) & (summary.n_rows >= FEWEST)
        lost = varies & (np.sqrt(variance) < PRECISION * np.abs(mean))
    if ruled.any():
        _warn(
            f"{_named(names[ruled])} up to {_farthest(summary, ruled)} although half of the "
            "variance is in one row: scaled by it, the other rows are all but equal; clip or drop "
            "such cells with Dataset.map"
        )
    if lost.any():
        first = int(lost.argmax())
        _warn(
            f"{_named(names[lost])} only {np.sqrt(variance[first]):.3g} around {mean[first]:.3g}, "
            "which rounding loses: it may be taken for constant; subtract the mean with Dataset.map"
        )


def _farthest(summary: Summary, which: np.ndarray) -> str:
    column = summary.columns[int(which.argmax())]
    value = column.max if column.max - column.mean >= column.mean - column.min else column.min
    return f"{value:.3g}"


def _named(names: np.ndarray) -> str:
    """The subject of a sentence, and its verb."""
    if len(names) == 1:
        return f"column {names[0]!r} varies"
    more = ", ..." if len(names) > SHOWN else ""
    return f"{len(names)} columns ({', '.join(map(repr, names[:SHOWN]))}{more}) vary, the first"


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=6)
