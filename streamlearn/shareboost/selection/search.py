"""The search that an estimator's parameters request, and the fold of products of columns.

Products of pairs of columns are never written out: sum_i R_ik x_ia x_ib is entry (a, b) of
X' diag(R_k) X, so there is one product of matrices for each class.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...data.source import Chunk, Csr, Source
from ...engine.run import Run
from ...passes.fold import Fold, RowState
from ...passes.summary.summary import Summary
from ...passes.sums import add_sums
from ..objective import Penalty
from ..reads import Reader
from ..training import Search
from .candidates import Choice, Kind, Options, Products, Stumps
from .kernels_sparse import add_sparse_products
from .pieces import PIECES, PieceSearch, make_pieces
from .scoring import (
    FLAT,
    Gradient,
    ListSearch,
    column_gradient,
    column_of,
    group_kind,
    residual_state,
)
from .stumps import StumpSearch, first_edges

State = dict[str, np.ndarray]
Pairs = tuple[np.ndarray, np.ndarray]


def products_fold(first: int, stop: int, n_columns: int, state: RowState) -> Fold[State, Pairs]:
    """Fold of G (K, pairs) and the sum of R, for columns i in [first, stop) times j > i."""
    size = (stop - first, n_columns)
    return Fold(
        partial(_start_products, size, state.width),
        partial(_add_products, first, stop),
        add_sums,
        partial(_pairs, first),
        (state,),
    )


def _start_products(size: tuple[int, int], n_classes: int) -> State:
    return {"G": np.zeros((n_classes, *size)), "total": np.zeros(n_classes)}


def _add_products(first: int, stop: int, state: State, chunk: Chunk) -> State:
    R = chunk.state["residual"]
    if isinstance(chunk.X, Csr):
        add_sparse_products(*chunk.X[:3], R, first, stop, state["G"])
    else:
        X = chunk.X.astype(np.float64, copy=False)
        for k in range(R.shape[1]):
            state["G"][k] += (X[:, first:stop] * R[:, k, None]).T @ X
    state["total"] += R.sum(axis=0, dtype=np.float64)
    return state


def _pairs(first: int, state: State) -> Pairs:
    _, n, p = state["G"].shape
    i, j = np.triu_indices(n, first + 1, p)
    return state["G"][:, i, j], state["total"]


def product_moments_fold(
    first: int, stop: int, n_columns: int, total_weight: float
) -> Fold[State, Pairs]:
    """Fold of mean and mean square (2, pairs), for products of columns i in [first, stop)."""
    return Fold(
        partial(_start_products, (stop - first, n_columns), 2),
        partial(_add_product_moments, first, stop, total_weight),
        add_sums,
        partial(_pairs, first),
    )


def _add_product_moments(
    first: int, stop: int, total_weight: float, state: State, chunk: Chunk
) -> State:
    share = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    share = share / total_weight
    if isinstance(chunk.X, Csr):
        data, *places = chunk.X[:3]
        for power, G in enumerate(state["G"], 1):
            values = data.astype(np.float64) ** power
            add_sparse_products(values, *places, share[:, None], first, stop, G[None])
        return state
    X = chunk.X.astype(np.float64, copy=False)
    state["G"][0] += (X[:, first:stop] * share[:, None]).T @ X
    X = X**2
    state["G"][1] += (X[:, first:stop] * share[:, None]).T @ X
    return state


def product_gradient(
    read: Reader, state: RowState, block: int, which: np.ndarray | None
) -> Gradient:
    """The gradient of all products, for at most `block` first factors in a read."""
    parts, total = [], np.zeros(state.width)
    p = len(read.names)
    for a in range(0, p - 1, block):
        fold = products_fold(a, min(a + block, p - 1), p, state)
        G, total = read(fold, None, "score")
        parts.append(G)
    return slice(None), np.concatenate(parts, axis=1), total


def product_moments(read: Reader, block: int, total_weight: float) -> Pairs:
    """Mean and variance of all products of pairs."""
    p = len(read.names)
    parts = []
    for a in range(0, p - 1, block):
        fold = product_moments_fold(a, min(a + block, p - 1), p, total_weight)
        parts.append(read(fold, None, "moments")[0])
    mean, square = np.concatenate(parts, axis=1)
    return mean, np.maximum(square - mean**2, 0.0)


def pair_of(p: int, number: int) -> Choice:
    """The pair (i, j), i < j, with this number in row order."""
    i = int(p - 2 - np.floor((np.sqrt(4 * p * (p - 1) - 8 * number - 7) - 1) / 2))
    return i, number - i * p + i * (i + 1) // 2 + i + 1


def make_search(
    model: Options,
    run: Run,
    read: Reader,
    dataset: Source,
    summary: Summary,
    penalty: Penalty,
    sample: Chunk | None,
    block: int,
) -> tuple[Kind, Search]:
    """The kind of candidates and their search; one read scores at most `block` columns or anchors.

    A `sample` of rows is there for pieces.
    """
    K = len(model.classes_)
    state = residual_state(dataset.dtype.name, K)
    rule, bound = model.rule, partial(penalty.curvature, K)
    if model.candidates == "stumps":
        edges = first_edges(summary, dataset.dtype)
        stumps = StumpSearch(read, edges, state, dataset.dtype, block=block, rule=rule, bound=bound)
        return Stumps(), stumps
    if model.candidates in PIECES:
        assert sample is not None
        pieces = make_pieces(
            run, dataset, sample, model.n_anchors, model.n_radii, model.random_state
        )._replace(soft=model.candidates == "soft-pieces")
        total = float(summary.total_weight)
        return pieces, PieceSearch(read, pieces, state, total, block=block, rule=rule, bound=bound)
    mean, variance = summary.columns.mean, summary.columns.variance
    if model.candidates == "products":
        p = dataset.n_features
        mean, variance = product_moments(read, block, float(summary.total_weight))
        return Products(), ListSearch(
            partial(product_gradient, read, state, block),
            partial(pair_of, p),
            mean,
            variance,
            variance > FLAT * (variance + mean**2),
            rule=rule,
            bound=bound,
            n_classes=K,
        )
    kind = group_kind(model._feature_groups(), dataset.n_features)
    return kind, ListSearch(
        partial(column_gradient, read, state, block),
        column_of,
        mean,
        variance,
        variance > FLAT * (variance + mean**2),
        group_of=kind.group_of,
        cost=read.cost,
        rule=rule,
        bound=bound,
        n_classes=K,
    )
