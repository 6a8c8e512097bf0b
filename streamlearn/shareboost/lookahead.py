"""What the best step in one candidate alone would leave of the objective, from a shortlist."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold, RowState
from .design import Layout, rows_of
from .objective import Penalty, margin_softmax
from .scoring import Shortlist
from .side import Side

LOOKED_AT = 8
"""Candidates looked at."""
LOOK_STEPS = 3

State = dict[str, Any]


def values_ahead(
    side: Side, theta: np.ndarray, penalty: Penalty, state: RowState, best: Shortlist
) -> np.ndarray:
    """(M,) the objective after the best step in each candidate alone, nearly (Newton steps).

    The candidates' features lie in the row state `state`.  Reads the side store `LOOK_STEPS` times.
    """
    means = np.array([mean for *_, mean in best.steps])
    U = np.array([step for _, step, _ in best.steps])
    K = U.shape[1]
    value = np.full(len(U), np.inf)
    best_U = U
    for _ in range(LOOK_STEPS):
        fold = lookahead_fold(side.layout, theta, state.name, means, U)
        loss, g, H = side.read(fold, [state._replace(writes=False)], "lookahead")
        new = loss + np.array([penalty.value(u[:, None]) for u in U])
        better = new < value
        value = np.where(better, new, value)
        best_U = np.where(better[:, None], U, best_U)
        for j, u in enumerate(U):
            g[j] += penalty.gradient(u[:, None])[:, 0]
            H[j] += np.diag(penalty.diagonal(u[:, None])[:, 0])
            scale = max(float(np.trace(H[j])) / K, np.finfo(float).tiny)
            H[j] += scale * (1.0 / K + 1e-9 * np.eye(K))
        U = best_U - np.linalg.solve(H, g[..., None])[..., 0] * better[:, None]
    return value


def lookahead_fold(
    layout: Layout, theta: np.ndarray, name: str, means: np.ndarray, U: np.ndarray
) -> Fold:
    """Fold: losses (M,), gradients (M, K), Hessians (M, K, K) of adding U[j] to candidate j alone.

    Candidates less their `means` lie in the row state `name`: the intercept moves along.
    """
    M, K = U.shape
    return Fold(
        partial(_start_lookahead, M, K),
        partial(_look, layout, theta, name, means, U),
        _add,
        _looked,
    )


def _start_lookahead(M: int, K: int) -> State:
    return {"loss": np.zeros(M), "g": np.zeros((M, K)), "H": np.zeros((M, K, K))}


def _look(
    layout: Layout,
    theta: np.ndarray,
    name: str,
    means: np.ndarray,
    U: np.ndarray,
    state: State,
    chunk: Chunk,
) -> State:
    rows = rows_of(layout, chunk)
    if not len(rows.codes):
        return state
    Z = rows.design.forward(theta)
    V = chunk.state[name][rows.keep]
    for j, u in enumerate(U):
        v = V[:, j].astype(np.float64) - means[j]
        loss, rho = margin_softmax(Z + v[:, None] * u, rows.codes)
        state["loss"][j] += rows.share @ loss
        h = rows.share * v * v
        state["H"][j] += np.diag(h @ rho) - (rho * h[:, None]).T @ rho
        rho[np.arange(len(rho)), rows.codes] -= 1.0
        state["g"][j] += (rows.share * v) @ rho
    return state


def _looked(state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return state["loss"], state["g"], state["H"]


def _add(a: State, b: State) -> State:
    for key in a:
        a[key] += b[key]
    return a
