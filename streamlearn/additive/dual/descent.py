"""Dual coordinate descent over super-blocks of chunks (Hsieh et al. 2008; Yu et al. 2010).

    maximise D(alpha) = C sum_i s_i dual_value(alpha_i) - 1/2 |w|^2,   w = sum_i alpha_i y_i Psi_i

(regression: alpha_i is the force itself, of either sign, and y_i is left out of w: Ho & Lin 2012).

1. A group of refs, drawn so that its mix of classes is that of all rows, is read into memory.
2. Its dual variables are minimised one at a time, in random order, a few epochs; w follows.
3. After all groups the dual value is exact; the primal one is estimated as the rows were left.
4. When the estimate says so, a read measures the primal value at w and rebuilds the dual one from
   alpha alone, so that the gap is proved whatever rounding did to w.

The dual variables are row state: 4 bytes a row and output, 8 for log-loss.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...data.source import Chunk, Csr
from ...engine.scratch.blocks import RowForm
from ...passes.fold import Fold, RowState
from ...passes.sums import add_sums
from ...solvers.newton import Evaluation
from ..basis.kernels import DualProblem, coordinates_rows, dual_sum_rows
from ..objective import Problem, losses, spline_sums, weights
from .epochs import DualEpochs, DualState

ALPHA = "alpha"
GROUP = 4
"""Refs in a super-block; with fewer a class-sorted file never converges."""
EPOCHS, EPOCHS_OF_ALL = 3, 5
"""Visits of a group's rows per read of it; of the only group, when it holds all rows."""
BLOCK = 16


class Sweep(NamedTuple):
    """Where a sweep left the model, and what it saw."""

    W: np.ndarray
    """(K, dim)."""
    b: np.ndarray
    """(K,)."""
    dual: np.ndarray
    """(K,) dual values at the end."""
    primal: np.ndarray
    """(K,) primal values, each row's loss taken when its group was left: too low."""

    @property
    def theta(self) -> np.ndarray:
        return np.column_stack([self.W, self.b])


def alpha_width(problem: Problem) -> int:
    """Dual variables a row: log-loss keeps alpha and C s - alpha, for their relative precision."""
    return problem.n_outputs * int(problem.loss.dual_rule().n_variables)


def start_sweep(problem: Problem) -> Sweep:
    """alpha = 0."""
    K = problem.n_outputs
    return Sweep(np.zeros((K, problem.dim)), np.zeros(K), np.zeros(K), np.zeros(K))


def sweep_fold(
    problem: Problem, before: Sweep, n_epochs: int, key: tuple[int, int]
) -> Fold[Any, Sweep]:
    """Fold, order-sensitive: one visit of every group from where `before` ended.

    `key` (seed, pass) draws the rows' orders of the epochs after the first.
    """
    return Fold(
        partial(_start_sweep, before),
        partial(_sweep_group, problem, n_epochs, key),
        None,
        partial(_finish_sweep, problem),
        (RowState(ALPHA, "float32", alpha_width(problem)),),
    )


def _start_sweep(before: Sweep) -> dict[str, np.ndarray]:
    K = len(before.b)
    return {"W": before.W.copy(), "b": before.b.copy(), "dual": np.zeros(K), "loss": np.zeros(K)}


def _sweep_group(
    problem: Problem,
    n_epochs: int,
    key: tuple[int, int],
    state: dict[str, np.ndarray],
    chunk: Chunk,
) -> dict[str, np.ndarray]:
    if not chunk.n_rows:
        return state
    chunk, prepared = _by_rows(problem, chunk)
    y, s, alpha = problem.targets(chunk), weights(chunk), chunk.state[ALPHA]
    dual = DualProblem(problem.roughness, problem.reference, problem.C, problem.intercept_scaling)
    model = DualState(alpha, state["W"], state["b"])
    place = (*key, int(chunk.rows[0]))
    orders = [shuffled(chunk.n_rows, (*place, epoch)) for epoch in range(1, n_epochs)]
    if chunk.order is not None:
        orders = [chunk.order, *orders]
    DualEpochs(chunk.X, prepared.bases, problem.loss, dual, y, s, model).visit(orders)
    dual_sum_rows(problem.loss, problem.C, y, s, alpha, state["dual"])
    state["loss"] += losses(prepared, np.column_stack([model.W, model.b]), chunk)
    return state


def _by_rows(problem: Problem, chunk: Chunk) -> tuple[Chunk, Problem]:
    """The chunk's rows as row-major coordinates: every epoch takes them like that."""
    bases = problem.bases
    if not bases.prepared:
        X = coordinates_rows(chunk.X, bases, "C")
        chunk = Chunk(X, chunk.y, chunk.weight, chunk.rows, chunk.state, chunk.order)
        bases = bases._replace(prepared=True)
    return chunk, problem._replace(bases=bases)


def coordinate_form(problem: Problem) -> RowForm:
    """Rows as every epoch takes them, cached."""
    return RowForm(partial(_coordinates, problem), len(problem.bases.degree), "float32", "rows")


def _coordinates(problem: Problem, chunk: Chunk) -> Chunk:
    X = coordinates_rows(chunk.X, problem.bases, "C")
    if isinstance(X, Csr):
        X = X._replace(indices=X.indices.astype(np.int32), indptr=X.indptr.astype(np.int64))
    return Chunk(X, chunk.y, chunk.weight, chunk.rows)


def _finish_sweep(problem: Problem, state: dict[str, np.ndarray]) -> Sweep:
    norm = problem.penalty(np.column_stack([state["W"], state["b"]]))
    return Sweep(state["W"], state["b"], state["dual"] - norm, problem.C * state["loss"] + norm)


def shuffled(n_rows: int, key: tuple[int, ...]) -> np.ndarray:
    """(n_rows,) intp: blocks of neighbouring rows in random order, a function of the key."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
    first = random.permutation(-(-n_rows // BLOCK)) * BLOCK
    order = (first[:, None] + np.arange(BLOCK)).ravel()
    return order[order < n_rows].astype(np.intp, copy=False)


# The certificate.


def certificate_fold(problem: Problem, theta: np.ndarray) -> Fold[Any, Evaluation]:
    """Fold: the primal value at `theta` and the dual value of alpha, both by this read alone.

    The evaluation's theta is the given one; its gradient is empty.
    """
    return Fold(
        partial(empty_certificate, problem.n_outputs, problem.dim),
        partial(_add_certificate, problem, theta),
        add_sums,
        partial(_finish_certificate, problem, theta),
        (RowState(ALPHA, "float32", alpha_width(problem), writes=False),),
    )


def empty_certificate(n_outputs: int, dim: int) -> tuple[np.ndarray, ...]:
    """Losses, dual values, sum alpha y Phi, sum alpha y."""
    return np.zeros(n_outputs), np.zeros(n_outputs), np.zeros((n_outputs, dim)), np.zeros(n_outputs)


def _add_certificate(
    problem: Problem, theta: np.ndarray, state: tuple[np.ndarray, ...], chunk: Chunk
) -> tuple[np.ndarray, ...]:
    if not chunk.n_rows:
        return state
    loss, dual, force, total = state
    y, s, alpha = problem.targets(chunk), weights(chunk), chunk.state[ALPHA]
    loss += losses(problem, theta, chunk)
    dual_sum_rows(problem.loss, problem.C, y, s, alpha, dual)
    forces = forces_of(problem, y, alpha)
    force += spline_sums(problem, forces, chunk)
    total += forces.sum(axis=0)
    return state


def forces_of(problem: Problem, y: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """(m, K) float64 alpha y: the sums of which, times Psi, are w."""
    forces = alpha[:, : problem.n_outputs].astype(np.float64)
    if problem.n_outputs > 1:
        forces *= np.where(y[:, None] == np.arange(problem.n_outputs), 1.0, -1.0)
    elif not problem.loss.dual_rule().both_signs:
        forces *= y[:, None]
    return forces


def _finish_certificate(
    problem: Problem, theta: np.ndarray, state: tuple[np.ndarray, ...]
) -> Evaluation:
    loss, dual, force, total = state
    V = force - total[:, None] * problem.reference.c
    value = problem.penalty(theta) + problem.C * loss
    return Evaluation(theta, value, np.empty((len(value), 0)), dual - problem.half_norm(V, total))
