"""Hinge experts: the E-step, and one round of dual coordinate descent, in the same read.

The dual variables, one for each row and expert, are row-aligned state.  Their bounds C s_i q_ij
change with every E-step (Fu 2010, eq. 15 to 17, with C = 1 / 2 zeta).  The next step of the experts
goes to the weights that the dual variables stand for.  Like any step it is taken back if the
objective falls, and the descent goes on.

No rows are cached, as the additive family's dual fits do: the bounds of all rows change with every
read, so that none stays settled, and the reads are as many as E-steps and not as epochs.
"""

from __future__ import annotations

from functools import partial
from typing import TypedDict

import numpy as np

from ...data.source import Chunk
from ...passes.fold import Fold, RowState
from .. import experts, objective
from ..objective import EStep, Parameters, Problem, Sums
from .kernels import hinge_rows

SMALLEST = 1e-4
"""Posterior below which a row is nothing to an expert, and its dual variable 0."""
VISITS = 4
"""Number of visits of each row of a block in a read."""
STATE = "alpha"
"""Name of the row state that holds the dual variables."""


class DualSums(TypedDict):
    """State of `sweep_fold`."""

    sums: Sums
    dual: np.ndarray
    """(k O, p + 1) experts that the dual variables stand for."""


def sweep_fold(
    problem: Problem, at: Parameters, dual: np.ndarray, width: int, number: int
) -> Fold[DualSums, EStep]:
    """Order-sensitive fold of the `EStep` at `at`, whose `dual` every row has moved on.

    A row has `width` dual variables, one for each expert that there was in the beginning.  The
    `number` of the read seeds the order in which the rows of a block are visited.
    """
    return Fold(
        partial(_start, problem, at, dual),
        partial(_step, problem, at, number),
        None,
        partial(_finish, problem, at),
        (RowState(STATE, "float32", width),),
    )


def sweep_rows(
    problem: Problem,
    at: Parameters,
    dual: np.ndarray,
    rows: Chunk,
    alpha: np.ndarray,
    number: int,
) -> EStep:
    """`sweep_fold` on a sample in memory; `alpha` (m, width) float32 is changed in place."""
    chunk = Chunk(rows.X, rows.y, rows.weight, rows.rows, {STATE: alpha})
    return _finish(problem, at, _step(problem, at, number, _start(problem, at, dual), chunk))


def _start(problem: Problem, at: Parameters, dual: np.ndarray) -> DualSums:
    state = objective.empty_sums(at.rows.shape, problem.tree.n_gates)
    return {"sums": state, "dual": np.array(dual, np.float64)}


def _step(problem: Problem, at: Parameters, number: int, state: DualSums, chunk: Chunk) -> DualSums:
    columns = problem.dual_columns()
    alpha = chunk.state[STATE]
    first = int(chunk.rows[0]) if chunk.n_rows else 0
    random = np.random.Generator(np.random.Philox(key=(number << 64) | first))
    for rows, B, e in objective.add_blocks(problem, at, state["sums"], chunk):
        m = rows.stop - rows.start
        dense = B if isinstance(B, np.ndarray) else B.toarray()
        q = np.where(e.q > SMALLEST, e.q, 0.0) * objective.weights(chunk, rows)[:, None]
        bounds = np.repeat(problem.C * q, problem.n_outputs, axis=1)
        signs = np.tile(experts.signs(problem.n_outputs, chunk.target[rows]), problem.tree.n_leaves)
        part = np.ascontiguousarray(alpha[rows, columns])
        visits = np.concatenate([random.permutation(m) for _ in range(VISITS)])
        hinge_rows(dense, visits, bounds, signs, part, state["dual"])
        alpha[rows, columns] = part
    return state


def _finish(problem: Problem, at: Parameters, state: DualSums) -> EStep:
    point = objective.finish_sums(problem, at, state["sums"])
    gradient = point.gradient
    gradient[problem.tree.n_gates :] = (
        0.0  # the hinge has none; the experts go where the dual variables say
    )
    return point._replace(gradient=gradient, dual=state["dual"])
