"""Dual coordinate descent over rows that lie in memory: one read, then epochs over a copy.

The copy holds coordinates, 4 bytes a dense value and 8 a stored one.  Rounds of epochs, each
measured exactly: all rows are there.  The dual variables are an array, and the last certificate
rebuilds the dual value from them alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...data.source import Chunk, Csr, Source
from ...engine.run import Run
from ...engine.scratch.in_memory import InMemoryRows
from ...solvers.newton import Evaluation, relative_gap
from ..objective import Problem, add_dual_values, add_losses, losses, weights
from ..training import Outcome, Trust, Watch, better
from .cached_rows import coordinate_form, nothing_moved
from .compact_rows import HeldCodes
from .descent import (
    ALPHA,
    add_certificate,
    alpha_width,
    empty_certificate,
    finish_certificate,
    shuffled,
)
from .epochs import DualState, make_epochs
from .places import find_codes

ROUNDS = (4, 2, 2, 2, 2, 3, 3, 4)
"""Epochs of the first rounds; later ones have `MOST`."""
MOST = 5


def fit_held(
    run: Run,
    source: Source,
    problem: Problem,
    watch: Watch,
    *,
    tol: float,
    max_reads: int,
    seed: int,
) -> Outcome:
    """Rounds of epochs until the gap is small enough; a round counts as a read of `max_reads`."""
    scales = find_codes(problem, source.sparse)
    rows: Any
    if scales is not None:
        rows = HeldCodes(run, source, problem, scales, tol)
    else:
        rows = HeldRows(run, source, problem)
    at: Evaluation | None = None
    n, n_rounds = 0, 0
    trust = Trust(rows.trust if scales is not None else 1.0)
    while True:
        more = ROUNDS[n_rounds] if n_rounds < len(ROUNDS) else MOST
        orders = (shuffled(rows.n_rows, (seed, n + e)) for e in range(more))
        n, n_rounds = n + rows.visit(orders, tol * trust.factor), n_rounds + 1
        if scales is not None:
            sweep = rows.sweep
            points, gap = rows.points(tol), relative_gap(sweep.primal, sweep.dual)
            W, b = points[0][:, :-1], points[0][:, -1]
            reason = watch.swept(sweep._replace(W=W, b=b), float(gap.max()))
        else:
            at = better(at, rows.measure())
            points, gap = [at.theta], relative_gap(at.value, at.bound)
            reason = watch(at, gap)
        last = n_rounds + 2 > max_reads
        if not (trust.promises(float(gap.max()), tol, n_rounds) or last or reason):
            continue
        proved = rows.certify([watch.state["best"].theta] if reason else points)
        if reason:
            watch.state["best"] = proved
        elif scales is not None:
            at = proved = better(at, proved)
        estimate, gap = float(gap.max()), relative_gap(proved.value, proved.bound)
        watch.certified(proved, gap)
        if gap.max() <= tol or last or reason:
            reason = reason or f"max_passes: rounds of epochs for {max_reads} reads were made"
            return watch.outcome(proved, tol, reason)
        at = proved
        if scales is not None:
            trust = trust.after(estimate, float(gap.max()), n_rounds)


class HeldRows:
    """The rows of `source` as coordinates, and the state of their dual variables."""

    def __init__(self, run: Run, source: Source, problem: Problem) -> None:
        cached, _ = run.cache(source, coordinate_form(problem), in_memory=True, name="cache")
        assert isinstance(cached, InMemoryRows)  # as asked
        self._rows = rows = joined(cached.give_up())
        self._problem = problem._replace(bases=problem.bases._replace(prepared=True))
        self.n_rows, K = rows.n_rows, problem.n_outputs
        alpha = np.zeros((rows.n_rows, alpha_width(problem)), np.float32)
        self._model = DualState(alpha, np.zeros((K, problem.dim)), np.zeros(K))
        rows.state = {ALPHA: alpha}
        targets = problem.targets(rows), weights(rows)
        self._epochs = make_epochs(
            self._problem, rows.X, targets, self._model, n_threads=run.n_threads
        )

    def visit(self, orders: Iterable[np.ndarray], goal: float) -> int:
        """Visit the rows in these orders; how many."""
        orders = list(orders)
        self._epochs.visit(orders)
        return len(orders)

    def measure(self) -> Evaluation:
        """Both values at the point where the rows were left."""
        problem, rows, model = self._problem, self._rows, self._model
        theta = np.column_stack([model.W, model.b])
        y, s = problem.targets(rows), weights(rows)
        F, bound = self._epochs.decisions(), np.zeros(len(theta))
        if F is None:
            loss = losses(problem, theta, rows)
        else:
            loss = np.zeros(len(theta))
            add_losses(problem, F, y, s, loss)
        add_dual_values(problem, y, s, model.alpha, bound)
        norm = problem.penalty(theta)
        return Evaluation(theta, norm + problem.C * loss, np.empty((len(theta), 0)), bound - norm)

    def certify(self, points: list[np.ndarray]) -> Evaluation:
        """The primal value at the one point and the dual one of alpha, which is all it rests on."""
        problem, rows = self._problem, self._rows
        [theta] = points
        state = empty_certificate(problem.n_outputs, problem.dim)
        moved = nothing_moved(alpha_width(problem))
        state = add_certificate(problem, theta, moved, state, rows, self._epochs)
        return finish_certificate(problem, theta, state)


def joined(chunks: list[Chunk]) -> Chunk:
    """The chunks as one, its rows numbered from 0; they are given up.

    Dense values go one chunk after the other, so that memory holds all rows once.
    """
    X = None
    if chunks and not isinstance(chunks[0].X, Csr):
        X = np.empty((sum(chunk.n_rows for chunk in chunks), chunks[0].X.shape[1]), np.float32)
        first = 0
        for chunk in chunks:
            X[first : first + chunk.n_rows] = chunk.X
            chunk.X, first = np.empty((chunk.n_rows, 0), X.dtype), first + chunk.n_rows
    rows = Chunk.join(chunks)
    chunks.clear()
    rows.X = rows.X if X is None else X
    rows.rows = range(rows.n_rows)
    return rows
