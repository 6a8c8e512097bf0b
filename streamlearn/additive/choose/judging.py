"""Judging candidates by their splits: scores in one read, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...data.source import Chunk
from ...estimator.model import Model
from ...estimator.predicting import decide
from ...estimator.scores.metrics import find_metric
from ...passes.fold import Fold
from .newton import Splits

Scores = list[list[object]]
"""For each split the sums of its judges' metric; None before their first row."""


def scores_fold(
    judges: list[list[Model]], splits: Splits, scoring: str
) -> Fold[Scores, np.ndarray]:
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


def _start_scores(judges: list[list[Model]]) -> Scores:
    return [[None] * len(of_split) for of_split in judges]


def _add_scores(
    judges: list[list[Model]],
    splits: Splits,
    sums: Callable,
    merge: Callable,
    state: Scores,
    chunk: Chunk,
) -> Scores:
    split = splits.of(chunk)
    for f, of_split in enumerate(judges):
        part = chunk.where(split == f)
        if part.n_rows:
            weight = np.ones(part.n_rows) if part.weight is None else part.weight
            for k, judge in enumerate(of_split):
                new = sums(judge, part, decide(judge, part), weight)
                state[f][k] = new if state[f][k] is None else merge(state[f][k], new)
    return state


def _merge_scores(merge: Callable, a: Scores, b: Scores) -> Scores:
    return [
        [y if x is None else x if y is None else merge(x, y) for x, y in zip(p, q, strict=True)]
        for p, q in zip(a, b, strict=True)
    ]


def _finish_scores(finish: Callable, state: Scores) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # a split of rows that all weigh nothing
        rows = [[np.nan if x is None else finish(x) for x in of_split] for of_split in state]
    return np.array(rows, dtype=np.float64).T
