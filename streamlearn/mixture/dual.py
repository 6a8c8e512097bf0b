"""Hinge experts: the E-step, and one round of dual coordinate descent, in the same read.

The dual variables, one for each row and expert, are row-aligned state; their bounds C s_i q_ij
change with every E-step (Fu 2010, eq. 15 to 17, with C = 1 / 2 zeta).  The weights they stand for
are where the next step of the experts goes; like any step it is taken back if the objective falls,
and the descent goes on.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold, RowState
from . import experts, objective
from .kernels import hinge_rows
from .objective import EStep, Parameters, Problem

SMALLEST = 1e-4
"""Posteriors below this bound no dual variable: those rows are nothing to the expert."""
VISITS = 4
"""Of each row of a block in a read."""
STATE = "alpha"


def sweep_fold(
    problem: Problem, at: Parameters, dual: np.ndarray, width: int, number: int
) -> Fold[Any, EStep]:
    """Order-sensitive fold: the `EStep` at `at`, its `dual` moved on by one visit of each row.

    `width` dual variables a row: one for each expert there was in the beginning.  `number` of the
    read seeds the order in which the rows of a block are visited.
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
    """The same for a sample in memory; `alpha` (m, width) float32 is changed in place."""
    chunk = Chunk(rows.X, rows.y, rows.weight, rows.rows, {STATE: alpha})
    return _finish(problem, at, _step(problem, at, number, _start(problem, at, dual), chunk))


def _start(problem: Problem, at: Parameters, dual: np.ndarray) -> dict[str, Any]:
    state = objective.empty_sums(*at.rows.shape, problem.tree.n_gates)
    return {"sums": state, "dual": np.array(dual, np.float64)}


def _step(
    problem: Problem, at: Parameters, number: int, state: dict[str, Any], chunk: Chunk
) -> dict[str, Any]:
    columns = problem.dual_columns()
    alpha = chunk.state[STATE]
    first = int(chunk.rows[0]) if chunk.n_rows else 0
    random = np.random.Generator(np.random.Philox(key=(number << 64) | first))
    for rows, B, e in objective.add_blocks(problem, at, state["sums"], chunk):
        m = rows.stop - rows.start
        dense = B if isinstance(B, np.ndarray) else B.toarray()
        q = np.where(e.q > SMALLEST, e.q, 0.0) * objective.weights(chunk, rows)[:, None]
        bounds = np.repeat(problem.C * q, problem.n_outputs, axis=1)
        signs = np.tile(experts.signs(problem.n_outputs, chunk.y[rows]), problem.tree.n_leaves)
        part = np.ascontiguousarray(alpha[rows, columns])
        visits = np.concatenate([random.permutation(m) for _ in range(VISITS)])
        hinge_rows(dense, visits, bounds, signs, part, state["dual"])
        alpha[rows, columns] = part
    return state


def _finish(problem: Problem, at: Parameters, state: dict[str, Any]) -> EStep:
    point = objective._finish(problem, at, state["sums"])
    gradient = point.gradient
    gradient[problem.tree.n_gates :] = 0.0  # the hinge has none; the dual says where to go
    return point._replace(gradient=gradient, dual=state["dual"])
