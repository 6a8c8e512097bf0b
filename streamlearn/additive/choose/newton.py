"""Many fits of one table in the same reads: a model for every candidate and every split.

A model is a problem (its bases, its C) and the split that it leaves out.  Each has its own Newton
iteration (`solvers.newton` runs them in lock step, each with its own step and its own end); a read
measures all that have moved.  Rows of the split that is left out weigh nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...data.source import Chunk, Source, subjects_of
from ...engine.run import Run
from ...passes.fold import Fold
from ...passes.sums import add_sums
from ...solvers.newton import Evaluation
from ...solvers.split_errors import NO_ROWS, TRAINS, Split
from ...solvers.splits import split_of_rows
from ..basis.kernels import Sums, coordinates_rows, empty_sums
from ..newton.sampled import SampleObjective
from ..objective import Problem, add_evaluation, finish_evaluation

NO_SPLIT = -1


class SplitModel(NamedTuple):
    """One of the fits."""

    problem: Problem
    split: int
    """Left out; `NO_SPLIT` = none."""


class Splits(NamedTuple):
    """Splits of the rows by a hash of their numbers."""

    cv: int
    seed: int
    siblings: int = 1
    """Neighbouring row numbers that are of one split (`Source.siblings`)."""

    def of(self, chunk: Chunk) -> np.ndarray:
        """(m,) the split of each row; all in split 0 if there is one."""
        return split_of_rows(subjects_of(chunk, self.siblings), self.cv, self.seed)

    def weights(self, chunk: Chunk) -> dict[int, np.ndarray | None]:
        """For each split the weights of the rows outside it; the chunk's own under `NO_SPLIT`."""
        split = self.of(chunk)
        weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
        weights: dict[int, np.ndarray | None] = {
            f: np.where(split == f, 0.0, weight) for f in range(self.cv)
        }
        return weights | {NO_SPLIT: chunk.weight}


def evaluations_fold(
    models: list[SplitModel], thetas: list[np.ndarray], splits: Splits
) -> Fold[list[Sums], list[Evaluation]]:
    """Fold: value, gradient and bound of every model at its point.  State 8 K dim bytes a model."""
    return Fold(
        partial(_start, models),
        partial(_add, models, thetas, splits),
        add_sums,
        partial(_finish, models, thetas),
    )


def _start(models: list[SplitModel]) -> list[Sums]:
    return [empty_sums(model.problem.n_outputs, model.problem.dim) for model in models]


def _add(
    models: list[SplitModel],
    thetas: list[np.ndarray],
    splits: Splits,
    state: list[Sums],
    chunk: Chunk,
) -> list[Sums]:
    if not chunk.n_rows:
        return state
    weights = splits.weights(chunk)
    made: tuple[object, Any] = (None, None)  # coordinates of the bases at hand, for all its models
    for k, model in enumerate(models):
        bases = model.problem.bases
        if made[0] is not bases.knots:
            made = bases.knots, coordinates_rows(chunk.X, bases)
        problem = model.problem._replace(bases=bases._replace(prepared=True))
        rows = Chunk(made[1], chunk.y, weights[model.split], chunk.rows)
        state[k] = add_evaluation(problem, thetas[k], state[k], rows)
    return state


def _finish(
    models: list[SplitModel], thetas: list[np.ndarray], state: list[Sums]
) -> list[Evaluation]:
    return [
        finish_evaluation(model.problem, theta, sums)
        for model, theta, sums in zip(models, thetas, state, strict=True)
    ]


class SplitObjective:
    """The objectives of several models with K outputs each, as one with one problem per output.

    Points of smaller models are padded with zeros behind their intercept.
    """

    def __init__(
        self,
        run: Run,
        source: Source,
        models: list[SplitModel],
        samples: list[SampleObjective],
        splits: Splits,
        name: str,
    ) -> None:
        self.rounding = max(sample.rounding for sample in samples)
        self.n_reads = 0
        self._run, self._source, self._split, self._name = run, source, splits, name
        self._models, self._samples = models, samples
        self.n_outputs = models[0].problem.n_outputs
        self._width = max(model.problem.dim for model in models) + 1
        self._last: dict[int, Evaluation] = {}

    def stack(self, thetas: list[np.ndarray]) -> np.ndarray:
        """Points (K, dim + 1) of the models as one (M K, width) array."""
        return np.vstack([self._padded(theta) for theta in thetas])

    def unstack(self, theta: np.ndarray) -> list[np.ndarray]:
        """The inverse of `stack`."""
        K = self.n_outputs
        return [
            theta[k * K : (k + 1) * K, : model.problem.dim + 1]
            for k, model in enumerate(self._models)
        ]

    def _padded(self, x: np.ndarray) -> np.ndarray:
        out = np.zeros((*x.shape[:-1], self._width))
        out[..., : x.shape[-1]] = x
        return out

    def evaluate(self, theta: np.ndarray) -> Evaluation:
        thetas = [
            model.problem.rounded(part)
            for model, part in zip(self._models, self.unstack(theta), strict=True)
        ]
        moved = [
            k
            for k, at in enumerate(thetas)
            if k not in self._last or not np.array_equal(at, self._last[k].theta)
        ]
        self.n_reads += 1
        fold = evaluations_fold(
            [self._models[k] for k in moved], [thetas[k] for k in moved], self._split
        )
        found = self._run.fold(fold, self._source, name=f"{self._name}-{self.n_reads}")
        self._last |= dict(zip(moved, found, strict=True))
        parts = [self._last[k] for k in range(len(self._models))]
        return Evaluation(
            self.stack([at.theta for at in parts]),
            np.concatenate([at.value for at in parts]),
            self.stack([at.gradient for at in parts]),
            np.concatenate([at.bound for at in parts]),
        )

    def solve(self, at: Evaluation, k: int, g: np.ndarray) -> np.ndarray:
        model, output = divmod(k, self.n_outputs)
        theta = self.unstack(at.theta)[model]
        return self._padded(self._samples[model].solve_at(theta, output, g[: theta.shape[1]]))

    def refine(self, at: Evaluation) -> None:
        """Nothing: curvature pairs correct the directions of each model."""


def samples_of(
    models: list[SplitModel], rows: Chunk, splits: Splits, share: float, n_threads: int
) -> list[SampleObjective]:
    """The models' objectives on the sample of rows that holds this share of all of them.

    The rows are shared, and so are the weights of the models of one split.
    """
    weights = splits.weights(rows)
    samples = []
    for model in models:
        chunk = Chunk(rows.X, rows.y, weights[model.split], rows.rows)
        weight = chunk.n_rows if chunk.weight is None else float(chunk.weight.sum())
        if not weight > 0:
            raise Split(model.split, splits.cv).lacks(TRAINS, NO_ROWS)
        samples.append(SampleObjective(model.problem, chunk, share, n_threads=n_threads))
    return samples
