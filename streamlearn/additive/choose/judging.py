"""Judging candidates by their splits: scores in one read, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...data.source import Chunk
from ...estimator.metrics import find_metric
from ...estimator.predicting import decide
from ...passes.fold import Fold
from .newton import Splits


def cv_results(
    parameters: Sequence[dict[str, Any]], scores: np.ndarray, gaps: np.ndarray
) -> dict[str, Any]:
    """What `GridSearchCV` keeps of candidates, and the largest relative gap of their fits.

    `scores` and `gaps` (candidates, splits); a score is NaN where a split holds no rows, and such a
    split has no part in means.
    """
    mean, spread = _over_splits(scores)
    rank = np.empty(len(mean), np.int64)
    rank[np.argsort(-mean, kind="stable")] = np.arange(1, len(mean) + 1)
    names = list(parameters[0])
    return {
        "params": [dict(p) for p in parameters],
        **{f"param_{name}": np.array([p[name] for p in parameters]) for name in names},
        **{f"split{f}_test_score": column.copy() for f, column in enumerate(scores.T)},
        "mean_test_score": mean,
        "std_test_score": spread,
        "rank_test_score": rank,
        "relative_gap": gaps.max(axis=1),
    }


def best_index(results: dict[str, Any], *, one_standard_error: bool) -> int:
    """The best candidate; or the first, and so simplest, within its standard error."""
    mean = results["mean_test_score"]
    if np.isnan(mean).all():
        raise ValueError("none of the splits holds a row to judge on; fit more rows")
    best = int(np.nanargmax(mean))
    scores = [results[key][best] for key in results if key.startswith("split")]
    n = int(np.sum(~np.isnan(scores)))
    if not one_standard_error or n < 2:
        return best
    error = results["std_test_score"][best] / np.sqrt(n - 1)
    return int(np.flatnonzero(mean >= mean[best] - error)[0])


def _over_splits(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each row, of the splits that have a score."""
    there = ~np.isnan(scores)
    n = np.where(there.any(axis=1), there.sum(axis=1), np.nan)
    mean = np.where(there, scores, 0.0).sum(axis=1) / n
    square = np.where(there, scores - mean[:, None], 0.0) ** 2
    return mean, np.sqrt(square.sum(axis=1) / n)


def scores_fold(judges: list[list[object]], splits: Splits, scoring: str) -> Fold[Any, np.ndarray]:
    """Fold: the score of every judge on the rows of its split, (candidates, splits).

    `judges`: for each split, the models that left it out.
    """
    metric = find_metric(scoring)
    return Fold(
        partial(_start_scores, judges),
        partial(_add_scores, judges, splits, metric.sums, metric.merge),
        partial(_merge_scores, metric.merge),
        partial(_finish_scores, metric.finish),
    )


def _start_scores(judges: list[list[object]]) -> list[list[object]]:
    return [[None] * len(of_split) for of_split in judges]


def _add_scores(
    judges: list[list[object]],
    splits: Splits,
    sums: Callable,
    merge: Callable,
    state: Any,
    chunk: Chunk,
) -> Any:
    split = splits.of(chunk)
    for f, of_split in enumerate(judges):
        part = chunk.where(split == f)
        if part.n_rows:
            weight = np.ones(part.n_rows) if part.weight is None else part.weight
            for k, judge in enumerate(of_split):
                new = sums(judge, part, decide(judge, part), weight)
                state[f][k] = new if state[f][k] is None else merge(state[f][k], new)
    return state


def _merge_scores(merge: Callable, a: Any, b: Any) -> Any:
    return [
        [y if x is None else x if y is None else merge(x, y) for x, y in zip(p, q, strict=True)]
        for p, q in zip(a, b, strict=True)
    ]


def _finish_scores(finish: Callable, state: Any) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # a split of rows that all weigh nothing
        rows = [[np.nan if x is None else finish(x) for x in of_split] for of_split in state]
    return np.array(rows, dtype=np.float64).T
