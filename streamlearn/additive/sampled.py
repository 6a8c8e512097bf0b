"""The objective measured by reads, with curvature from a sample of rows in memory; and the sample's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.source import Chunk, Csr
from ..passes.fold import both
from ..solvers.newton import Evaluation
from .kernels import GramSums, empty_sums
from .objective import (
    Problem,
    add_evaluation,
    add_gram,
    empty_gram,
    evaluation_fold,
    finish_evaluation,
    gram_fold,
    newton_step,
)

ROUNDING = {True: 1e-8, False: 1e-13}
"""Relative error of a value summed in float32 and in float64 arithmetic."""
ROWS_PER_COEFFICIENT = 80
"""Of the rows that the first directions of a sample's own fit take their curvature from."""
GROWTH = 4


class SampleObjective:
    """The objective as a sample of the rows estimates it; no reads.

    Directions take their curvature from every `stride`-th row until that is too slow.
    """

    def __init__(self, problem: Problem, rows: Chunk, total_weight: float) -> None:
        weight = len(rows.y) if rows.weight is None else rows.weight.sum()
        # C is that of all rows, spread over these: the sample's optimum is then near the full one.
        self.problem = problem._replace(C=problem.C * total_weight / weight)
        self.rounding = ROUNDING[problem.single]
        self.rows = rows
        few = len(rows.y) // max(ROWS_PER_COEFFICIENT * problem.dim, 1)
        self._stride = 1 if isinstance(rows.X, Csr) else min(max(few, 1), GROWTH)

    def evaluate(self, theta: np.ndarray) -> Evaluation:
        theta = self.problem.rounded(theta)
        sums = empty_sums(self.problem.n_outputs, self.problem.dim)
        return finish_evaluation(
            self.problem, theta, add_evaluation(self.problem, theta, sums, self.rows)
        )

    def direction(self, at: Evaluation, k: int) -> np.ndarray:
        return self.newton_step(at.theta, k, at.gradient[k], self._stride)

    def refine(self, at: Evaluation) -> None:
        self._stride = 1

    def newton_step(
        self, theta: np.ndarray, k: int, gradient: np.ndarray, stride: int = 1
    ) -> np.ndarray:
        """-H^-1 gradient, H estimated at `theta` from every `stride`-th row."""
        problem = self.problem._replace(C=self.problem.C * stride)
        gram = empty_gram(problem.dim)
        total = add_gram(problem, theta, k, gram, _every(self.rows, stride))
        return newton_step(problem, gram, total, gradient)


class StreamedObjective:
    """The objective over all rows: a read measures, the sample gives directions.

    Once these are too slow, reads sum up the curvature of a hash share of the rows as well, four
    times as many rows each time, if `may_grow`.
    """

    def __init__(
        self, run: Any, source: Any, sample: SampleObjective, problem: Problem, share: float,
        seed: int, may_grow: bool,
    ) -> None:
        self.problem, self.rounding = problem, sample.rounding
        self._run, self._source, self._sample = run, source, sample
        self._share, self._seed = share, seed
        self._may_grow, self._in_pass = may_grow and share < 1.0, False
        self._grams: list[Any] = []
        self._n_reads = 0

    def evaluate(self, theta: np.ndarray) -> Evaluation:
        theta = self.problem.rounded(theta)
        self._n_reads += 1
        name = f"newton-{self._n_reads}"
        fold: Any = evaluation_fold(self.problem, theta)
        if not self._in_pass:
            return self._run.fold(fold, self._source, name=name)
        scaled = self.problem._replace(C=self.problem.C / self._share)
        more = gram_fold(scaled, theta, self._share, self._seed)
        at, self._grams = self._run.fold(both(fold, more), self._source, name=name)
        return at

    def direction(self, at: Evaluation, k: int) -> np.ndarray:
        if not self._grams:
            return self._sample.newton_step(at.theta, k, at.gradient[k])
        gram, total = self._grams[k]
        return newton_step(self.problem, GramSums(*gram), total, at.gradient[k])

    def refine(self, at: Evaluation) -> None:
        if self._may_grow:
            self._share = min(1.0, GROWTH * self._share)
            self._in_pass = True


def _every(rows: Chunk, stride: int) -> Chunk:
    """Every `stride`-th row, a view."""
    if stride == 1:
        return rows
    cut = slice(None, None, stride)
    weight = None if rows.weight is None else rows.weight[cut]
    return Chunk(rows.X[cut], rows.y[cut], weight, rows.rows[cut])
