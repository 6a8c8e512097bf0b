"""The objective as reads measure it, with directions from a sample of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...data.source import Chunk, Csr, Source
from ...engine.run import Run
from ...numeric.malloc import trim_heaps
from ...passes.fold import Fold, both
from ...solvers.newton import Evaluation, newton
from ..basis.functions import written
from ..basis.kernels import GramSums, Sums, empty_sums, present
from ..objective import Problem, add_evaluation, evaluation_fold, finish_evaluation, spline_sums
from .curvature import (
    add_gram,
    calibrate,
    empty_gram,
    gram_fold,
    inverse,
    mass_fold,
    row_curvatures,
)
from .kept import newton_with_kept
from .parts import Parts
from .products import MOST_PRODUCTS, Forcing, SampledCurvature, products_a_read
from .reads import CachedReads

DECREMENT = 1e-3
"""A sample's own fit stops when a step promises less than this share: its rows err by as much."""
EXACT, BEYOND = 1e-15, 1e-4
"""Relative gap of an optimum to rounding, and share of the tolerance up to which rows in hand are
fitted: Newton's last steps with a matrix cost little, but to rounding a third of a fit."""
SAMPLE_ITERATIONS = 50
ROUNDING = {True: 1e-8, False: 1e-13}
"""Relative error of a value summed in float32 and in float64 arithmetic."""
ROWS_PER_COEFFICIENT = 20
"""Rows per coefficient from which the first directions of a sample's fit take their curvature."""
GROWTH = 4
STALE = 0.02
"""Share by which the sample's curvature may have changed since its matrix was factored.  The sample
itself errs by more: about the root of the coefficients over its rows."""
FEW = 5
"""Rows of a sample that a spline should be met in."""


Mass = tuple[np.ndarray, float]
"""(dim,) sum h Phi and sum h over rows that a sample stands for."""


class SampleObjective:
    """The objective as a sample of the rows estimates it; no reads.

    `share` is that of the rows, by weight, that the sample holds.  Directions take their curvature
    from every `stride`-th row; if the sample is all rows, until that is too slow.  `matrix_free`
    ones are found by conjugate gradients from products with the sample: no matrix is held.
    Matrices, and what no matrix is held of, are summed by `n_threads` threads.
    """

    def __init__(
        self,
        problem: Problem,
        rows: Chunk,
        share: float,
        *,
        matrix_free: bool = False,
        n_threads: int = 1,
    ) -> None:
        # C is that of all rows, spread over these: the sample's optimum is then near the full one.
        self.problem = problem._replace(C=problem.C / share)
        self.matrix_free, self._n_threads = matrix_free, n_threads
        self.rounding = ROUNDING[problem.single]
        self.rows, self.share = rows, share
        self._known_counts: dict[int, np.ndarray] = {}
        self._room: np.ndarray | None = None
        self._parts = Parts(self.problem, rows, n_threads) if matrix_free else None
        self._forcing = Forcing(0.0)
        # memory is planned for one matrix, which several problems cannot keep
        self._keeps_factors = problem.n_problems == 1 and not matrix_free
        few = rows.n_rows // max(ROWS_PER_COEFFICIENT * problem.dim, 1)
        self._stride = 1 if isinstance(rows.X, Csr) else min(max(few, 1), GROWTH)

    def minimise(self, theta: np.ndarray, *, tol: float | None = None) -> np.ndarray:
        """The sample's optimum, from `theta`; all its steps share one matrix, or its memory.

        Up to a relative gap `tol`, or as near as the sample tells of all rows if that is not given.
        The system gives new memory page by page, which takes as long as to sum up 300 rows.
        """
        if not self.matrix_free:
            self._room = np.empty((self.problem.dim, self.problem.dim))
        self._forcing = Forcing(tol or 0.0)
        most = SAMPLE_ITERATIONS
        if tol is None:
            found = newton(self, theta, tol=0.0, max_reads=most, decrement=DECREMENT)
        elif self._keeps_factors:
            found = newton_with_kept(self, theta, tol=tol, max_reads=most)
        else:
            found = newton(self, theta, tol=tol, max_reads=most)
        self._room = None
        if self.matrix_free:
            trim_heaps()  # what the parts' threads have freed is in the way of the reads
        return found.at.theta

    def evaluate(self, theta: np.ndarray) -> Evaluation:
        theta = self.problem.rounded(theta)
        if self._parts is not None:
            sums = self._parts.sum(partial(_sums_at, self.problem, theta))
        else:
            sums = _sums_at(self.problem, theta, self.rows)
        return finish_evaluation(self.problem, theta, sums)

    def solve(self, at: Evaluation, k: int, g: np.ndarray) -> np.ndarray:
        if self._parts is not None:
            return self.solve_nearly(at.theta, k, g, self._forcing.residual(at, k))
        return self.inverse_of(at, k)(g)

    def inverse_of(self, at: Evaluation, k: int) -> Callable[[np.ndarray], np.ndarray]:
        """g -> H^-1 g of output k, H from the rows that directions take it from."""
        if self._stride == 1:
            return self.inverse_at(at.theta, k)
        h, _ = row_curvatures(self.problem, at.theta, k, self.rows)
        mass = spline_sums(self.problem, h, self.rows), float(h.sum())
        return self.inverse_at(at.theta, k, mass, self._stride)

    def refine(self, at: Evaluation) -> None:
        if self.share == 1.0:
            self._stride = 1

    def solve_nearly(
        self, theta: np.ndarray, k: int, g: np.ndarray, residual: float, most: int = MOST_PRODUCTS
    ) -> np.ndarray:
        """H^-1 g without a matrix, H estimated at `theta`, but for a share `residual` of g.

        Or for what `most` products with the sample leave.
        """
        assert self._parts is not None
        return SampledCurvature(self.problem, theta, k, self._parts).solve(g, residual, most)

    def solve_at(
        self, theta: np.ndarray, k: int, g: np.ndarray, mass: Mass | None = None
    ) -> np.ndarray:
        """H^-1 g, H estimated at `theta` from the sample.

        `mass` (sum h Phi, sum h) of the rows it stands for corrects it.
        """
        return self.inverse_at(theta, k, mass)(g)

    def inverse_at(
        self, theta: np.ndarray, k: int, mass: Mass | None = None, stride: int = 1
    ) -> Callable[[np.ndarray], np.ndarray]:
        """g -> H^-1 g, as in `solve_at`, from every `stride`-th row of the sample."""
        problem = self.problem._replace(C=self.problem.C * stride)
        gram = empty_gram(problem.dim, self._room)
        rows = _every(self.rows, stride)
        total = add_gram(problem, theta, k, gram, rows, self._n_threads)
        if mass is not None and total > 0:
            gram, total = self._calibrated(gram, total, stride, *mass), mass[1]
        return inverse(problem, gram, total)

    def curvatures(self, theta: np.ndarray, k: int) -> np.ndarray:
        """(m,) C s l'' of the sample's rows at `theta`."""
        return row_curvatures(self.problem, theta, k, self.rows)[0]

    def _calibrated(
        self, gram: GramSums, total: float, stride: int, mass: np.ndarray, full: float
    ) -> GramSums:
        everywhere = self.problem.bases.nowhere_zero
        return calibrate(gram, total, self._counts(stride), mass, full, everywhere)

    @property
    def misses_values(self) -> bool:
        """Whether some splines are met by too few of these rows to know their curvature."""
        return bool((self._counts(1) < FEW).any())

    def _counts(self, stride: int) -> np.ndarray:
        """(dim,) rows at each spline."""
        if stride not in self._known_counts:
            rows = _every(self.rows, stride)
            counts = spline_sums(self.problem, np.ones(rows.n_rows), rows)
            counts[self.problem.bases.nowhere_zero] = rows.n_rows
            self._known_counts[stride] = counts
        return self._known_counts[stride]


class Kept(NamedTuple):
    """A factored matrix, and where it comes from."""

    kind: str
    h: np.ndarray
    """(m,) C s l'' of the sample's rows."""
    inverse: Callable[[np.ndarray], np.ndarray]

    def serves(self, kind: str, h: np.ndarray) -> bool:
        """Whether this factor, made at `self.h`, is near enough to that of the curvatures h."""
        return self.kind == kind and float(np.abs(h - self.h).sum()) <= STALE * self.h.sum()


class StreamedObjective:
    """The objective over all rows: a read measures, the sample gives directions.

    Once these are too slow, or if the sample misses rare values, reads sum up every spline's share
    of the curvature too (`calibrate`); then, if `may_grow`, the curvature itself from a hash share
    of the rows, four times as many rows each time.
    """

    def __init__(
        self,
        run: Run,
        source: Source,
        problem: Problem,
        sample: SampleObjective,
        *,
        seed: int,
        may_grow: bool,
        to_scratch: bool = False,
        tol: float = 0.0,
    ) -> None:
        """`tol`: the relative gap wanted, which directions without a matrix are no nearer than."""
        self._forcing = Forcing(tol)
        self.rounding = sample.rounding
        self._sample = sample
        self._most_products = products_a_read(sample.share)
        self._share, self._seed, self._may_grow = sample.share, seed, may_grow
        self._extra = ""
        if sample.share < 1.0 and not sample.matrix_free and sample.misses_values:
            self._extra = "mass"
        self._curvature: tuple[str, Any] = "", None
        self._kept: Kept | None = None
        self._n_reads = self._n_slow = 0
        self._reads = CachedReads(
            run, source, problem.bases, in_memory=sample.share < 1.0, to_scratch=to_scratch
        )
        self.problem = problem._replace(bases=self._reads.bases)

    def evaluate(self, theta: np.ndarray) -> Evaluation:
        theta = self.problem.rounded(theta)
        self._n_reads += 1
        fold: Fold = evaluation_fold(self.problem, theta)
        if self._extra == "mass":
            fold = both(fold, mass_fold(self.problem, theta))
        elif self._extra == "gram":
            scaled = self.problem._replace(C=self.problem.C / self._share)
            fold = both(fold, gram_fold(scaled, theta, self._share, self._seed))
        found = self._reads.fold(fold, f"newton-{self._n_reads}")
        if not self._extra:
            return found
        at, more = found
        self._curvature = self._extra, more
        return at

    def solve(self, at: Evaluation, k: int, g: np.ndarray) -> np.ndarray:
        kind, found = self._curvature
        if kind == "gram":
            self._kept = None
            gram, total = found[k]
            return inverse(self.problem, GramSums(*gram), total)(g)
        mass = (found[0][k], float(found[1][k])) if kind == "mass" else None
        if self._sample.matrix_free:
            residual = self._forcing.residual(at, k)
            step = self._sample.solve_nearly(at.theta, k, g, residual, self._most_products)
            trim_heaps()
            return step
        if self.problem.n_problems > 1:  # one matrix is all there is
            return self._sample.solve_at(at.theta, k, g, mass)
        h = self._sample.curvatures(at.theta, k)
        if not (self._kept and self._kept.serves(kind, h)):
            self._kept = None  # the next takes its place
            self._kept = Kept(kind, h, self._sample.inverse_at(at.theta, k, mass))
        return self._kept.inverse(g)

    def refine(self, at: Evaluation) -> None:
        if self._share == 1.0 or self._sample.matrix_free:
            return
        if not self._extra:
            self._extra = "mass"
        elif self._may_grow and (self._extra == "gram" or self._n_slow):
            self._extra, self._share = "gram", min(1.0, GROWTH * self._share)
        self._n_slow += 1


def beyond(tol: float) -> float:
    """The relative gap up to which rows in hand, if these are all, are fitted with a matrix."""
    return max(BEYOND * tol, EXACT)


def with_functions(problem: Problem, rows: Chunk) -> Chunk:
    """The rows; few sparse ones with their functions, which each step with a matrix looks at."""
    X, bases = rows.X, problem.bases
    if not isinstance(X, Csr) or bases.dense:
        return rows
    present_rows = present(X, bases)
    assert isinstance(present_rows, Csr)  # as the rows are
    return replace(rows, X=written(present_rows, bases))


def _sums_at(problem: Problem, theta: np.ndarray, rows: Chunk) -> Sums:
    return add_evaluation(problem, theta, empty_sums(problem.n_outputs, problem.dim), rows)


def _every(rows: Chunk, stride: int) -> Chunk:
    """Every `stride`-th row, a view."""
    if stride == 1:
        return rows
    cut = slice(None, None, stride)
    weight = None if rows.weight is None else rows.weight[cut]
    return Chunk(rows.dense[cut], rows.target[cut], weight, rows.rows[cut])
