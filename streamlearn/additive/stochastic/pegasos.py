"""PEGASOS with its average, exactly (Shalev-Shwartz et al. 2011; Lacoste-Julien et al. 2012).

    minimise lambda/2 |w|^2 + (1/W) sum_i s_i l(y_i, f_i),   W = sum s,  lambda = 1 / (C W):

the objective of the other solvers, divided by C W.  A step on a mini-batch of weight a takes
w to (1 - a/tau) w + (1/(lambda tau)) sum s v Psi, v = -l'(f) the forces of its rows at w and tau
the weight seen so far, this batch included.  So with V = sum s v Phi of all batches seen

    w = C (W/tau) L (V - c sum v),

no shrinking and no scale are kept.  The average of the w_t, weighted by a_t tau_t, is a multiple of
sum_t a_t V_t = tau_T V_T - U with U = sum_t tau_{t-1} Delta_t, Delta_t what batch t adds to V: one
more accumulator.

After whole epochs w is the sum of a dual point: alpha_i = C times the mean of row i's forces.  Its
dual value is at least C (W/tau) sum s dual_value(v) - 1/2 |w|^2, as the conjugate is concave, so
each epoch proves a lower bound without a read.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.order import Order
from ...data.source import Chunk, Source
from ...engine.run import Run
from ...numeric.bases.roughness import times
from ...passes.fold import Fold
from ...solvers.newton import relative_gap
from ..basis.kernels import empty_sums
from ..dual.descent import GROUP, by_rows
from ..objective import Problem, add_slopes, evaluation_fold
from ..training import Outcome, Watch

MOST_BATCH, BATCHES = 256, 100
"""Rows of a mini-batch, fewer if an epoch would then have fewer mini-batches than this."""


class Averaged(NamedTuple):
    """The sums of the steps so far, all float64; never divided."""

    V: np.ndarray
    """(K, dim + 1) sum s v Phi, last sum s v."""
    U: np.ndarray
    """(K, dim + 1) sum tau_{t-1} Delta_t."""
    conjugate: np.ndarray
    """(K,) sum s dual_value(v)."""
    seen: np.ndarray
    """(2,) tau and sum a tau."""


def start_averaged(problem: Problem) -> Averaged:
    """Before the first step."""
    shape = problem.n_outputs, problem.dim + 1
    return Averaged(np.zeros(shape), np.zeros(shape), np.zeros(shape[0]), np.zeros(2))


def batch_rows(n_rows: int) -> int:
    """Rows of a mini-batch for a table of this many rows."""
    return max(1, min(MOST_BATCH, n_rows // BATCHES))


def last_point(problem: Problem, state: Averaged, total_weight: float) -> np.ndarray:
    """(K, dim + 1) w_T and its intercept; 0 before the first step."""
    return _point(problem, state.V, _times(total_weight, state.seen[0]))


def mean_point(problem: Problem, state: Averaged, total_weight: float) -> np.ndarray:
    """(K, dim + 1) the average of all w_t, weighted by a_t tau_t."""
    tau, whole = state.seen
    return _point(problem, tau * state.V - state.U, _times(total_weight, whole))


def _times(total_weight: float, seen: float) -> float:
    """Weight of all rows over the weight seen; 0 before the first step, where sums are 0 too.

    (Divided by a tiny number instead, C and the weight of all rows made it infinite, and 0 times
    that is no number: from C W = 1.8e8 on every model was NaN.)
    """
    return total_weight / seen if seen > 0 else 0.0


def _point(problem: Problem, V: np.ndarray, scale: float) -> np.ndarray:
    force = V[:, :-1] - V[:, -1:] * problem.reference.c
    w = times(problem.roughness.L, problem.roughness, force)
    theta = np.column_stack([w, problem.intercept_scaling**2 * V[:, -1]])
    return problem.C * scale * theta


def lower_bound(problem: Problem, state: Averaged, total_weight: float) -> np.ndarray:
    """(K,) the dual value proved; `state` holds whole epochs."""
    scale = problem.C * _times(total_weight, state.seen[0])
    force = scale * (state.V[:, :-1] - state.V[:, -1:] * problem.reference.c)
    return scale * state.conjugate - problem.half_norm(force, scale * state.V[:, -1])


def step_batches(
    problem: Problem, state: Averaged, chunk: Chunk, n_batch: int, total_weight: float
) -> Averaged:
    """The state after the chunk's rows, in the chunk's order, `n_batch` at a time; in place."""
    chunk, problem = by_rows(problem, chunk)
    order = np.arange(chunk.n_rows) if chunk.order is None else chunk.order
    for first in range(0, len(order), n_batch):
        rows = chunk.take(order[first : first + n_batch])
        weight = float(rows.n_rows if rows.weight is None else rows.weight.sum())
        if weight > 0:
            _step(problem, state, rows, weight, total_weight)
    return state


def _step(
    problem: Problem, state: Averaged, rows: Chunk, weight: float, total_weight: float
) -> None:
    theta = last_point(problem, state, total_weight)
    sums = empty_sums(problem.n_outputs, problem.dim)
    add_slopes(problem, theta, rows, sums)
    delta = -np.column_stack([sums.gradient, sums.slope])
    # dual_value(v) = l + v f for the force of the slope: no second look at the rows
    centred = delta[:, :-1] - delta[:, -1:] * problem.reference.c
    state.conjugate[:] += sums.value + (centred * theta[:, :-1]).sum(axis=1)
    state.conjugate[:] += delta[:, -1] * theta[:, -1]
    state.V[:] += delta
    state.U[:] += state.seen[0] * delta
    state.seen[0] += weight
    state.seen[1] += weight * state.seen[0]


def pegasos_fold(
    problem: Problem, before: Averaged, n_batch: int, total_weight: float
) -> Fold[list[np.ndarray], Averaged]:
    """Fold, order-sensitive: an epoch of mini-batch steps from where `before` ended.

    State 16 K dim bytes.
    """
    return Fold(
        partial(_start, before),
        partial(_step_chunk, problem, n_batch, total_weight),
        None,
        _finish,
    )


def _start(before: Averaged) -> list[np.ndarray]:
    return [part.copy() for part in before]


def _step_chunk(
    problem: Problem, n_batch: int, total_weight: float, state: list[np.ndarray], chunk: Chunk
) -> list[np.ndarray]:
    if chunk.n_rows:
        step_batches(problem, Averaged(*state), chunk, n_batch, total_weight)
    return state


def _finish(state: list[np.ndarray]) -> Averaged:
    return Averaged(*state)


def fit_pegasos(
    run: Run,
    source: Source,
    problem: Problem,
    ref_labels: np.ndarray,
    watch: Watch,
    *,
    total_weight: float,
    tol: float,
    max_reads: int,
    seed: int,
) -> Outcome:
    """Epochs over super-blocks; the average is measured after epochs 1, 2, 4, ... and the last."""
    order = Order(seed, GROUP, ref_labels)
    n_rows = source.refs()[-1].stop
    kept = run.restore("pegasos")
    if kept is None:
        kept = {"state": start_averaged(problem), "n_epochs": 0, "n_reads": 0}
        kept |= {"bound": np.full(problem.n_outputs, -np.inf), "watch": watch.state}
    watch.state = kept["watch"]
    while True:
        n = kept["n_epochs"]
        fold = pegasos_fold(problem, Averaged(*kept["state"]), batch_rows(n_rows), total_weight)
        state = run.sweep(fold, source, order, pass_index=n, name=f"pegasos-{n + 1}")
        kept |= {"state": state, "n_epochs": n + 1, "n_reads": kept["n_reads"] + 1}
        bound = np.maximum(kept["bound"], lower_bound(problem, state, total_weight))
        kept["bound"] = bound
        theta = mean_point(problem, state, total_weight)
        last = kept["n_reads"] + 3 > max_reads
        reason = watch.passed(theta, bound)
        if last or reason or (n + 1) & n == 0:
            if reason:
                theta = watch.state["best"].theta
            name = f"certificate-{n + 1}"
            at = run.fold(evaluation_fold(problem, theta), source, name=name)
            at = at._replace(bound=np.maximum(bound, at.bound))
            if reason:
                watch.state["best"] = at
            kept["bound"] = at.bound
            kept["n_reads"] += 1
            gap = relative_gap(at.value, at.bound)
            watch.certified(at, gap)
            if gap.max() <= tol or last or reason:
                return watch.outcome(at, tol, reason or f"max_passes: {max_reads} reads were made")
        run.commit("pegasos", kept)
