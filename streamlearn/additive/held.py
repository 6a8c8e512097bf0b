"""Dual coordinate descent over rows that lie in memory: one read, then epochs over a copy.

The copy holds coordinates, 4 bytes a dense value and 8 a stored one.  Rounds of epochs, each
measured exactly: all rows are there.  The dual variables are an array, and the last certificate
rebuilds the dual value from them alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..data.source import Chunk, Csr
from ..solvers.newton import Evaluation, relative_gap
from .dual_cd import (
    ALPHA,
    _add_certificate,
    _by_rows,
    _finish_certificate,
    _start_certificate,
    alpha_width,
    shuffled,
)
from .dual_epochs import DualEpochs, DualState
from .kernels import DualProblem, dual_sum_rows, loss_sum_rows
from .objective import Problem, losses, weights
from .training import Outcome, Watch, better

ROUNDS = (4, 2, 2, 2, 2, 3, 3, 4)
"""Epochs of the first rounds; later ones have `MOST`."""
MOST = 5


def fit_held(
    run: Any,
    source: Any,
    problem: Problem,
    watch: Watch,
    *,
    tol: float,
    max_reads: int,
    seed: int,
) -> Outcome:
    """Rounds of epochs until the gap is small enough; a round counts as a read of `max_reads`."""
    rows = joined(run.hold(source, partial(held_chunk, problem), name="hold"))
    problem = problem._replace(bases=problem.bases._replace(prepared=True))
    K, y, s = problem.n_outputs, problem.targets(rows), weights(rows)
    alpha = np.zeros((rows.n_rows, alpha_width(problem)), np.float32)
    model = DualState(alpha, np.zeros((K, problem.dim)), np.zeros(K))
    dual = DualProblem(problem.roughness, problem.reference, problem.C, problem.intercept_scaling)
    epochs = DualEpochs(rows.X, problem.bases, problem.loss, dual, y, s, model)
    rows.state = {ALPHA: alpha}
    at: Evaluation | None = None
    n, n_rounds = 0, 0
    while True:
        more = ROUNDS[n_rounds] if n_rounds < len(ROUNDS) else MOST
        epochs.visit(shuffled(rows.n_rows, (seed, n + e)) for e in range(more))
        n, n_rounds = n + more, n_rounds + 1
        at = better(at, _measure(problem, rows, epochs, model))
        gap = relative_gap(at.value, at.bound)
        reason = watch(at, gap)
        last = n_rounds + 2 > max_reads
        if not (gap.max() <= tol or last or reason):
            continue
        theta = watch.state["best"].theta if reason else at.theta
        state = _start_certificate(K, problem.dim)
        proved = _finish_certificate(problem, theta, _add_certificate(problem, theta, state, rows))
        if reason:
            watch.state["best"] = proved
        gap = relative_gap(proved.value, proved.bound)
        watch.certified(proved, gap)
        if gap.max() <= tol or last or reason:
            reason = reason or f"max_passes: rounds of epochs for {max_reads} reads were made"
            return watch.outcome(proved, tol, reason)
        at = proved


def _measure(problem: Problem, rows: Chunk, epochs: DualEpochs, model: DualState) -> Evaluation:
    theta = np.column_stack([model.W, model.b])
    y, s = problem.targets(rows), weights(rows)
    F, bound = epochs.decisions(), np.zeros(len(theta))
    if F is None:
        loss = losses(problem, theta, rows)
    else:
        loss = np.zeros(len(theta))
        loss_sum_rows(problem.loss, F, y, s, loss)
    dual_sum_rows(problem.loss, problem.C, y, s, model.alpha, bound)
    norm = problem.penalty(theta)
    return Evaluation(theta, norm + problem.C * loss, np.empty((len(theta), 0)), bound - norm)


def held_chunk(problem: Problem, chunk: Chunk) -> Chunk:
    """The chunk's coordinates, targets and weights in arrays of their own."""
    part = _by_rows(problem, chunk)[0]
    X = part.X
    if isinstance(X, Csr):
        X = X._replace(indices=X.indices.astype(np.int32), indptr=X.indptr.astype(np.int64))
    y, weight = np.array(part.y), None if part.weight is None else np.array(part.weight)
    return Chunk(X, y, weight, part.rows)


def joined(chunks: list[Chunk]) -> Chunk:
    """The chunks as one; they are given up."""
    if not isinstance(chunks[0].X, Csr):
        X: Any = np.concatenate([chunk.X for chunk in chunks])
    else:
        parts = [chunk.X for chunk in chunks]
        ends = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        indptr = [part.indptr[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
        X = Csr(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *indptr]),
            parts[0].n_columns,
        )
    y = np.concatenate([chunk.y for chunk in chunks])
    weight = None
    if chunks[0].weight is not None:
        weight = np.concatenate([chunk.weight for chunk in chunks])
    chunks.clear()
    return Chunk(X, y, weight, range(len(y)))
