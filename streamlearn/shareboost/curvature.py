"""The loss and its derivatives over all coefficients of the selected features.

All of them are sums over the side store.  The curvature is the exact Hessian while that is small,
otherwise its blocks on the diagonal, one for each class (and piece).  `values_ahead` takes steps
along each candidate of a shortlist alone.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold, RowState
from ..passes.sums import add_sums
from .design import Dense, Layout, Pieces, rows_of
from .objective import Penalty, margin_softmax
from .selection.scoring import Shortlist
from .side import Side

NEWTON_SIZE = 640
"""Largest number of coefficients whose full Hessian is summed."""
NEWTON_WORK = 4e10
"""Largest number of multiply-adds, rows x size^2, of a read that sums the full Hessian."""
BLOCK_WORK = 1e11
"""Number of multiply-adds beyond which the blocks are summed over every second, third, ... row."""
LIGHT = 1e-4
"""Least rho (1 - rho) of a row that adds to a whole block; others add to its diagonal alone."""
LOOK_STEPS = 3
"""Newton steps that rule="lookahead" takes along each candidate it compares, one read each."""

Sums = dict[str, np.ndarray]


class EvaluationSums(TypedDict):
    """State of `evaluation_fold`."""

    loss: float
    gradient: np.ndarray


class Metric(NamedTuple):
    """The metric in which steps are taken, which stands for the curvature."""

    kind: str
    """Name of the metric, ``newton`` or ``blocks``."""
    blocks: tuple[tuple[int, int], ...]
    """First coefficient of each block, and the one behind its last."""
    stride: int
    """Distance of the rows that are summed; 1: every row."""


def choose_metric(n_rows: int, n_classes: int, layout: Layout) -> Metric:
    """The full Hessian where it is quick, else blocks: a function of the data's size alone."""
    n = 1 + layout.width
    size = n_classes * n
    if size <= NEWTON_SIZE and n_rows * size**2 <= NEWTON_WORK and not layout.n_base:
        return Metric("newton", ((0, n),), 1)
    blocks: tuple[tuple[int, int], ...] = ((0, n),)
    if layout.n_base:
        q = layout.n_base + 1
        blocks = ((0, 1), *((1 + k * q, 1 + (k + 1) * q) for k in range(len(layout.picks))))
    work = n_rows * n_classes * sum((b - a) ** 2 for a, b in blocks)
    return Metric("blocks", blocks, max(1, int(work / BLOCK_WORK)))


def evaluation_fold(
    layout: Layout, theta: np.ndarray, single: bool
) -> Fold[EvaluationSums, tuple[float, np.ndarray]]:
    """Fold of the loss at theta and its gradient (K, 1 + width)."""
    return Fold(
        partial(_start_evaluation, theta.shape),
        partial(_add_evaluation, layout, theta, single),
        add_sums,
        _evaluated,
    )


def curvature_fold(
    layout: Layout, theta: np.ndarray, metric: Metric
) -> Fold[Sums, list[np.ndarray]]:
    """Fold of the loss's Hessian, [(size, size)], or of its blocks, (K, w, w) for each block."""
    if metric.kind == "newton":
        start = partial(_start_hessian, theta.size)
        return Fold(start, partial(_add_hessian, layout, theta), add_sums, _hessian)
    return Fold(
        partial(_start_blocks, len(theta), metric),
        partial(_add_blocks, layout, theta, metric),
        add_sums,
        partial(_scaled, metric.stride),
    )


def _start_evaluation(shape: tuple[int, int]) -> EvaluationSums:
    return {"loss": 0.0, "gradient": np.zeros(shape)}


def _add_evaluation(
    layout: Layout, theta: np.ndarray, single: bool, state: EvaluationSums, chunk: Chunk
) -> EvaluationSums:
    rows = rows_of(layout, chunk)
    if not len(rows.codes):
        return state
    design = rows.design if single else _doubled(rows.design)
    loss, rho = margin_softmax(design.forward(theta), rows.codes)
    rho[np.arange(len(rho)), rows.codes] -= 1.0
    rho *= rows.share[:, None]
    state["loss"] += float(rows.share @ loss)
    state["gradient"] += design.backward(rho)
    return state


def _evaluated(state: EvaluationSums) -> tuple[float, np.ndarray]:
    return state["loss"], state["gradient"]


def _doubled(design: Dense | Pieces) -> Dense | Pieces:
    """The design in float64, in which few coefficients are solved for to its rounding."""
    if isinstance(design, Dense) and design.A.dtype != np.float64:
        return Dense(design.A.astype(np.float64))
    return design


def _start_hessian(size: int) -> Sums:
    return {"H": np.zeros((size, size))}


def _add_hessian(layout: Layout, theta: np.ndarray, state: Sums, chunk: Chunk) -> Sums:
    rows = rows_of(layout, chunk)
    if not len(rows.codes):
        return state
    design = _doubled(rows.design)
    assert isinstance(design, Dense)  # `choose_metric` takes blocks for pieces
    _, rho = margin_softmax(design.forward(theta), rows.codes)
    K, n = theta.shape
    H = state["H"].reshape(K, n, K, n)
    # rho_k (1 - rho_k) as a sum over the other classes: 1 - rho_k would leave nothing but rounding
    # of rows that are told apart without doubt
    others = np.zeros_like(rho)
    others[:, 1:] = np.cumsum(rho[:, :-1], axis=1)
    others[:, :-1] += np.cumsum(rho[:, :0:-1], axis=1)[:, ::-1]
    first, second = np.tril_indices(K)
    for start in range(0, len(first), n):  # as many pairs of classes as there are features
        k, j = first[start : start + n], second[start : start + n]
        W = -rho[:, j]
        W[:, k == j] = others[:, k[k == j]]
        W *= rho[:, k]
        W *= rows.share[:, None]
        design.add_products(W, k, j, H)
    return state


def _hessian(state: Sums) -> list[np.ndarray]:
    H = state["H"]  # no blocks above the diagonal were summed
    lower = np.tril(H)
    return [lower + np.tril(H, -1).T]


def _start_blocks(n_classes: int, metric: Metric) -> Sums:
    return {str(a): np.zeros((n_classes, b - a, b - a)) for a, b in metric.blocks}


def _add_blocks(
    layout: Layout, theta: np.ndarray, metric: Metric, state: Sums, chunk: Chunk
) -> Sums:
    cut = slice(None, None, metric.stride)
    if metric.stride > 1:
        states = {name: values[cut] for name, values in chunk.state.items()}
        chunk = Chunk(np.empty(0), rows=chunk.rows[cut], state=states)
    rows = rows_of(layout, chunk)
    if not len(rows.codes):
        return state
    _, rho = margin_softmax(rows.design.forward(theta), rows.codes)
    H = rho * np.maximum(1.0 - rho, 0.0)  # rounding may leave a rho above 1
    heavy = H > LIGHT
    H *= rows.share[:, None]
    for a, b in metric.blocks:
        rows.design.add_gram(H, heavy, a, b, state[str(a)])
    return state


def _scaled(stride: int, state: Sums) -> list[np.ndarray]:
    return [stride * block for block in state.values()]


def squares_fold(layout: Layout) -> Fold[Sums, np.ndarray]:
    """Fold of the mean squares (1 + width,) of the constant and of the features."""
    return Fold(
        partial(_start_squares, layout.width), partial(_add_squares, layout), add_sums, _squares
    )


def _start_squares(width: int) -> Sums:
    return {"squares": np.zeros(1 + width)}


def _add_squares(layout: Layout, state: Sums, chunk: Chunk) -> Sums:
    rows = rows_of(layout, chunk)
    if len(rows.codes):
        state["squares"] += rows.design.squares(rows.share)
    return state


def _squares(state: Sums) -> np.ndarray:
    return state["squares"]


def values_ahead(
    side: Side, theta: np.ndarray, penalty: Penalty, state: RowState, best: Shortlist
) -> np.ndarray:
    """(M,) objective after the best step along each candidate alone, nearly, by Newton steps.

    The candidates' features lie in the row state `state`.  The side store is read `LOOK_STEPS`
    times.
    """
    means = np.array([mean for *_, mean in best.steps])
    U = np.array([step for _, step, _ in best.steps])
    K = U.shape[1]
    value = np.full(len(U), np.inf)
    best_U = U
    penalties = [penalty.of(variance) for variance in best.variances]
    for _ in range(LOOK_STEPS):
        fold = lookahead_fold(side.layout, theta, state.name, means, U)
        loss, g, H = side.read(fold, [state._replace(writes=False)], "lookahead")
        new = loss + np.array([p.value(u[:, None]) for p, u in zip(penalties, U, strict=True)])
        better = new < value
        value = np.where(better, new, value)
        best_U = np.where(better[:, None], U, best_U)
        for j, (own, u) in enumerate(zip(penalties, U, strict=True)):
            g[j] += own.gradient(u[:, None])[:, 0]
            H[j] += np.diag(own.diagonal(u[:, None])[:, 0])
            scale = max(float(np.trace(H[j])) / K, np.finfo(float).tiny)
            H[j] += scale * (1.0 / K + 1e-9 * np.eye(K))
        U = best_U - np.linalg.solve(H, g[..., None])[..., 0] * better[:, None]
    return value


def lookahead_fold(
    layout: Layout, theta: np.ndarray, name: str, means: np.ndarray, U: np.ndarray
) -> Fold[Sums, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Fold of losses (M,), gradients (M, K) and Hessians (M, K, K), for candidate j alone at U[j].

    The candidates lie in the row state `name`.  Their `means` are subtracted, because the intercept
    moves along.
    """
    M, K = U.shape
    return Fold(
        partial(_start_lookahead, M, K),
        partial(_look, layout, theta, name, means, U),
        add_sums,
        _looked,
    )


def _start_lookahead(M: int, K: int) -> Sums:
    return {"loss": np.zeros(M), "g": np.zeros((M, K)), "H": np.zeros((M, K, K))}


def _look(
    layout: Layout,
    theta: np.ndarray,
    name: str,
    means: np.ndarray,
    U: np.ndarray,
    state: Sums,
    chunk: Chunk,
) -> Sums:
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


def _looked(state: Sums) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return state["loss"], state["g"], state["H"]
