"""Scores of candidates on splits, as a table, and the candidate that is taken by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import LackError
from .paths import Candidate

Results = dict[str, Any]
"""Table of candidates, with the keys of `GridSearchCV.cv_results_`."""


def cv_results(parameters: Sequence[Candidate], scores: np.ndarray) -> Results:
    """Table of candidates, with the keys of `GridSearchCV.cv_results_`.

    `scores` (candidates, splits); a score is NaN where a split holds no rows, and such a split has
    no part in means.
    """
    mean, spread = _over_splits(scores)
    rank = np.empty(len(mean), np.int64)
    rank[np.argsort(-mean, kind="stable")] = np.arange(1, len(mean) + 1)
    columns = {f"param_{name}": _column([p[name] for p in parameters]) for name in parameters[0]}
    return {
        "params": [dict(p) for p in parameters],
        **columns,
        **{f"split{f}_test_score": column.copy() for f, column in enumerate(scores.T)},
        "mean_test_score": mean,
        "std_test_score": spread,
        "rank_test_score": rank,
    }


def _column(values: list[object]) -> object:
    """Values of one parameter: an array where they are all numbers, else a list."""
    plain = all(isinstance(v, int | float | np.number) for v in values)
    return np.array(values) if plain else values


def best_index(results: Results, *, one_standard_error: bool, default: int | None = None) -> int:
    """The best candidate; or the first, and so simplest, within its standard error.

    Without `one_standard_error` the `default`, if there is one, is left only for a candidate that
    is better by more than a standard error of the difference over the splits.
    """
    mean = results["mean_test_score"]
    if np.isnan(mean).all():
        cv = sum(key.startswith("split") for key in results)
        raise LackError(
            f"none of the splits 1 to {cv} of cv={cv} has both rows (of a weight above 0) to judge "
            "on, its own, and rows to train on, those outside it",
            "fit more rows, or give another random_state, which deals the rows to the splits",
        )
    best = int(np.nanargmax(mean))
    scores = np.array([results[key] for key in results if key.startswith("split")])
    n = int(np.sum(~np.isnan(scores[:, best])))
    if n < 2:
        return best
    if one_standard_error:
        error = results["std_test_score"][best] / np.sqrt(n - 1)
        return int(np.flatnonzero(mean >= mean[best] - error)[0])
    if default is None or np.isnan(mean[default]):
        return best
    gains = scores[:, best] - scores[:, default]
    return best if np.nanmean(gains) > error_of_difference(gains) else default


def error_of_difference(gains: np.ndarray) -> float:
    """The standard error of the mean difference of two candidates' scores over k splits.

    Its variance is (1 / k + 1 / (k - 1)) that of the splits, which learn from rows they share
    (Nadeau & Bengio 2003).
    """
    gains = gains[~np.isnan(gains)]
    k = len(gains)
    return float(np.std(gains, ddof=1) * np.sqrt(1 / k + 1 / (k - 1))) if k > 1 else np.inf


def _over_splits(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each row, of the splits that have a score."""
    there = ~np.isnan(scores)
    n = np.where(there.any(axis=1), there.sum(axis=1), np.nan)
    mean = np.where(there, scores, 0.0).sum(axis=1) / n
    square = np.where(there, scores - mean[:, None], 0.0) ** 2
    return mean, np.sqrt(square.sum(axis=1) / n)
