"""The search that an estimator's parameters ask for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .candidates import Kind, Products, Stumps
from .objective import Penalty
from .pieces import PIECES, PieceSearch, make_pieces
from .products import pair_of, product_gradient, product_moments
from .reading import Reader
from .scoring import FLAT, ListSearch, column_gradient, column_of, group_kind, residual_state
from .stumps import StumpSearch, first_edges
from .training import Search


def make_search(
    model: Any,
    run: Any,
    read: Reader,
    dataset: Any,
    summary: Any,
    penalty: Penalty,
    sample: Any,
    block: int,
) -> tuple[Kind, Search]:
    """What is searched, and how; `block` columns (anchors) at most are scored in one read."""
    K = len(model.classes_)
    state = residual_state(dataset.dtype.name, K)
    how = {"rule": model.rule, "bound": penalty.curvature(K)}
    if model.candidates == "stumps":
        edges = first_edges(summary, dataset.dtype)
        return Stumps(), StumpSearch(read, edges, state, dataset.dtype, block=block, **how)
    if model.candidates in PIECES:
        pieces = make_pieces(
            run, dataset, sample, model.n_anchors, model.n_radii, model.random_state
        )._replace(soft=model.candidates == "soft-pieces")
        total = float(summary.total_weight)
        return pieces, PieceSearch(read, pieces, state, total, block=block, **how)
    how["n_classes"] = K
    mean = np.array([column.mean for column in summary.columns])
    variance = np.array([column.variance for column in summary.columns])
    if model.candidates == "products":
        p = dataset.n_features
        mean, variance = product_moments(read, block, float(summary.total_weight))
        return Products(), ListSearch(
            partial(product_gradient, read, state, block),
            partial(pair_of, p),
            mean,
            variance,
            variance > FLAT * (variance + mean**2),
            **how,
        )
    kind = group_kind(model.groups, dataset.n_features)
    return kind, ListSearch(
        partial(column_gradient, read, state, block),
        column_of,
        mean,
        variance,
        variance > FLAT * (variance + mean**2),
        group_of=kind.group_of,
        cost=read.cost,
        **how,
    )
