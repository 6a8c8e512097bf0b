"""Sparse rows held in memory as codes, for dual coordinate descent (see `kernels_codes`).

Six or eight bytes a stored value, made once.  A round's gap is estimated from the decisions its
visits saw; the certificate measures both sides from the codes in float64.

Losses with a kink leave w swinging about its optimum, visit after visit: a mean of it is the better
primal point.  Weights that grow linearly (Shamir & Zhang 2013) beat those of one epoch's mean at
nearly every number of epochs; beyond `MEMORY` they fade.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt

from ...data.source import Chunk, Csr, Source
from ...engine.run import Run
from ...engine.scratch.blocks import RowForm
from ...engine.scratch.in_memory import InMemoryRows
from ...numeric.bases.bsplines import Columns, as_columns
from ...numeric.bases.roughness import times
from ...numeric.simd.gather import zeros_in_lines
from ...passes.summary.counts.kernels_bytes import BYTES
from ...solvers.newton import Evaluation, relative_gap
from ..basis.kernels import dual_sum_rows, loss_sum_rows
from ..objective import Problem, forces_of, weights
from ..training import better
from .cached_rows import nothing_moved
from .descent import Sweep, alpha_width, finish_certificate
from .epochs import DualState
from .kernels_codes import (
    ClassRows,
    CodeRows,
    Codes,
    Known,
    Spans,
    encode,
    force_sums,
    move_mean,
)
from .kernels_epoch import Descent, decisions, visit_rows
from .places import Room, class_groups, find_known, make_places

LOOKS = 16
"""Points of an epoch whose mean is taken; fewer where w is long beside the rows."""
MEMORY = 3
"""Epochs that the mean remembers."""
TRUST = 1.6
"""The gap that visits see is higher than that of the mean by about this factor."""
PARTS = 4
"""Parts of the rows that the certificate sums apart, whatever the number of threads."""
SINGLE = 1e-3
"""Tolerances from here on are far above what float32 coefficients lose between certificates."""


class HeldCodes:
    """The rows of `source` as codes, and the state of their dual variables."""

    def __init__(
        self, run: Run, source: Source, problem: Problem, scales: tuple[int, np.ndarray], tol: float
    ) -> None:
        self._problem, self._n_threads = problem, run.n_threads
        K, dtype = problem.n_outputs, np.float32 if tol >= SINGLE else np.float64
        self._spans, self._places = make_places(problem, *scales, np.dtype(dtype))
        columns = as_columns(problem.bases, source.dtype)
        n_values = int(source.decoded_nbytes / (source.dtype.itemsize + 4))
        # of few values they are more work than they save
        known = find_known(columns, self._spans, n_values >= 4 * BYTES * len(columns.degree))
        room = Room(n_values, np.uint16 if self._n_places <= 1 << 16 else np.uint32)
        form = RowForm(partial(_encoded, room, columns, known, self._spans), 2, "int64", "rows")
        cached, _ = run.cache(source.as_bytes(), form, in_memory=True, name="cache")
        assert isinstance(cached, InMemoryRows)  # as asked
        chunks = cached.give_up()
        place = np.concatenate([chunk.X for chunk in chunks])
        self._codes = Codes(*room.all(), place)
        self._y = problem.targets(Chunk(place, np.concatenate([c.y for c in chunks])))
        weighted = chunks[0].weight is not None
        weight = np.concatenate([c.weight for c in chunks]) if weighted else None
        self._s = weights(Chunk(place, weight=weight))
        m = self.n_rows = len(place)
        self._groups = class_groups(K)
        size = len(self._groups), self._n_places * self._places.width
        self._w = zeros_in_lines(size, dtype)
        self._state = DualState(
            np.zeros((m, alpha_width(problem)), np.float32), np.empty((K, 0)), np.zeros(K)
        )
        self._norms = np.concatenate([chunk.state["norms"] for chunk in chunks])
        self._seen = np.zeros((m, K))
        self._rule, self._n_looks = problem.loss.dual_rule(), 1
        if not self._rule.logistic and self._rule.quadratic == 0:
            self._n_looks = min(max(len(self._codes.slot) // self._w.size, 1), LOOKS)
        self._n_looked = 0
        ones = np.ones((1, problem.dim))
        self._ones = times(problem.roughness.P, problem.roughness, ones)[0]
        self._mean = np.zeros(size), np.zeros(K)

    @property
    def _n_places(self) -> int:
        return len(self._places.scale)

    @property
    def trust(self) -> float:
        """Factor by which an estimated gap may exceed the gap of `points`."""
        return TRUST if self._n_looks > 1 else 1.0

    def visit(self, orders: Iterable[np.ndarray], goal: float) -> int:
        """Visit the rows in these orders, until an estimated gap is at most `goal`; how many."""
        n = 0
        for order in orders:
            n += 1
            self._epoch(order)
            self._look()
            if relative_gap(self.sweep.primal, self.sweep.dual).max() <= goal:
                break
        return n

    def _epoch(self, order: np.ndarray) -> None:
        """One visit of every row; groups of classes, which share only what they read, at once."""
        parts = np.array_split(order, self._n_looks)
        if len(self._groups) == 1 or self._n_threads == 1:
            for g in range(len(self._groups)):
                self._visit_group(parts, g)
        else:
            with ThreadPoolExecutor(self._n_threads) as pool:
                for _ in pool.map(partial(self._visit_group, parts), range(len(self._groups))):
                    pass
        self._n_looked += len(parts)

    def _visit_group(self, parts: list[np.ndarray], g: int) -> None:
        problem, state, w, (first, last) = self._problem, self._state, self._w[g], self._groups[g]
        bias = problem.intercept_scaling**2
        descent = Descent(self._rule, problem.C, bias, first, last)
        rows = self._rows(w)
        for n, part in enumerate(parts, self._n_looked + 1):
            targets = self._y, self._s, part
            visit_rows(rows, descent, *targets, state.alpha, state.b, self._seen)
            if self._n_looks > 1:  # move the mean towards w and b as they are
                rate = 2.0 / (1 + min(n, MEMORY * self._n_looks))
                move_mean(self._mean[0][g], w, rate)
                move_mean(self._mean[1][first:last], state.b[first:last], rate)

    def _rows(self, w: np.ndarray) -> CodeRows | ClassRows:
        """The rows with the coefficients w, of one class or of some side by side."""
        if self._places.width == 1:
            return CodeRows(self._codes, self._places, self._norms, w)
        sums, step = np.zeros((2, self._places.width), w.dtype)
        return ClassRows(self._codes, self._places, self._norms, w, sums, step)

    def _look(self) -> None:
        """Set `sweep`: the dual value as it is, the primal one from what the visits saw."""
        problem, K = self._problem, self._problem.n_outputs
        loss, dual = np.zeros(K), np.zeros(K)
        loss_sum_rows(problem.loss, self._seen, self._y, self._s, loss)
        dual_sum_rows(problem.loss, problem.C, self._y, self._s, self._state.alpha, dual)
        W, b = self._coefficients(self._w), self._state.b.copy()
        norm = problem.penalty(np.column_stack([W, b]))
        moved = nothing_moved(alpha_width(problem))
        self.sweep = Sweep(W, b, dual - norm, problem.C * loss + norm, moved)

    def points(self, tol: float) -> list[np.ndarray]:
        """(K, dim + 1) the points that may have the least primal value, the likeliest first."""
        if self._n_looks == 1:
            return [self.sweep.theta]
        w, b = self._mean
        mean = np.column_stack([self._coefficients(w), b])
        return [mean] if tol >= SINGLE else [mean, self.sweep.theta]

    def certify(self, points: list[np.ndarray]) -> Evaluation:
        """Each output's least primal value at one of `points` and the dual one of alpha.

        From the codes and alpha alone.
        """
        problem, K, y, s = self._problem, self._problem.n_outputs, self._y, self._s
        W = self._padded(np.concatenate([theta[:, :-1] for theta in points]))
        F, V = np.empty((self.n_rows, len(W))), np.zeros((PARTS, K, self._n_places))
        forces = forces_of(problem, y, self._state.alpha)
        ends = self.n_rows * np.arange(PARTS + 1) // PARTS
        groups = [(k, k + 1) for k in range(len(W))] if K == 1 else class_groups(len(W))
        with ThreadPoolExecutor(self._n_threads) as pool:
            rows = list(zip(ends[:-1], ends[1:], strict=True))
            done = [
                pool.submit(
                    decisions, self._rows(w), np.arange(a, b), first, np.zeros(last - first), F
                )
                for w, (first, last) in zip(self._lanes(W, groups, np.float64), groups, strict=True)
                for a, b in rows
            ] + [
                pool.submit(force_sums, self._codes, a, b, forces, v)
                for (a, b), v in zip(rows, V, strict=True)
            ]
        for future in done:
            future.result()
        dual = np.zeros(K)
        dual_sum_rows(problem.loss, problem.C, y, s, self._state.alpha, dual)
        force, total = self._splines(V.sum(axis=0)), forces.sum(axis=0)
        # the splines of a column sum to 1: what the stored values do not owe is 0's
        first, _ = self._first_of_columns()
        force[:, first] = 0.0
        force[:, first] = total[:, None] - np.add.reduceat(force, first, axis=1)
        at: Evaluation | None = None
        for theta, f in zip(points, np.split(F, len(points), axis=1), strict=True):
            loss = np.zeros(K)
            loss_sum_rows(problem.loss, f + theta[:, -1], y, s, loss)
            sums = loss, dual, force, total
            at = better(at, finish_certificate(problem, theta, sums))
        assert at is not None
        step = force - total[:, None] * problem.reference.c
        exact = times(problem.roughness.L, problem.roughness, step)
        exact = self._padded(exact)  # without what rounding has added up to
        self._w[:] = self._lanes(exact, self._groups, self._w.dtype)
        self._state.b[:] = problem.intercept_scaling**2 * total
        return at

    # Between coefficients of all columns and places.

    def _first_of_columns(self) -> tuple[np.ndarray, np.ndarray]:
        first = self._problem.bases.first
        used = np.flatnonzero(np.diff(first))
        return first[used], used

    def _where(self) -> np.ndarray:
        """(dim,) the place of every coefficient."""
        first, used = self._first_of_columns()
        n = np.diff(self._problem.bases.first)[used]
        return np.arange(self._problem.dim) + np.repeat(self._spans.at[used] - first, n)

    def _padded(self, W: np.ndarray) -> np.ndarray:
        """(K, places) coefficients less that of 0."""
        first, used = self._first_of_columns()
        out = np.zeros((len(W), self._n_places))
        n = np.diff(self._problem.bases.first)[used]
        out[:, self._where()] = W - np.repeat(W[:, first], n, axis=1)
        return out

    def _splines(self, V: np.ndarray) -> np.ndarray:
        """(K, dim) of (K, places)."""
        return V[:, self._where()]

    def _lanes(
        self, W: np.ndarray, groups: list[tuple[int, int]], dtype: npt.DTypeLike
    ) -> np.ndarray:
        """(groups, places of them) coefficients as the epochs take them."""
        out = zeros_in_lines((len(groups), self._n_places, self._places.width), dtype)
        for lanes, (first, last) in zip(out, groups, strict=True):
            lanes[:, : last - first] = W[first:last].T
        return out.reshape(len(groups), self._n_places * self._places.width)

    def _coefficients(self, w: np.ndarray) -> np.ndarray:
        """(K, dim) the coefficients w = L v of lanes, of which 1'Pw = 0 in every column."""
        problem = self._problem
        lanes = w.reshape(len(w), self._n_places, -1)[:, self._where()]
        parts = zip(lanes, self._groups, strict=True)
        w = np.concatenate([part[:, : last - first].T for part, (first, last) in parts])
        w = w.astype(np.float64, order="C", copy=False)
        first, used = self._first_of_columns()
        shift = np.add.reduceat(w * self._ones, first, axis=1) / np.add.reduceat(self._ones, first)
        return w - np.repeat(shift, np.diff(problem.bases.first)[used], axis=1)


def _encoded(room: Room, columns: Columns, known: Known, spans: Spans, chunk: Chunk) -> Chunk:
    """The chunk's codes go to `room`; where they lie there is its X."""
    X = chunk.X
    assert isinstance(X, Csr)  # as the source gives its coordinates
    place, norms = np.empty((chunk.n_rows, 2), np.int64), np.empty(chunk.n_rows)
    if chunk.n_rows:
        slot, f, start, offset = room.take(len(X.data))
        encode(*X[:3], columns, known, spans, start, slot, f, place, norms)
        place += offset
    return Chunk(place, chunk.y, chunk.weight, chunk.rows, {"norms": norms})
