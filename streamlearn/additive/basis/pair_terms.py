"""Terms of two columns as kernels take them: nodes, cells, and where coefficients lie."""

from __future__ import annotations

import numpy as np

from ...data.source import Csr
from ...numeric.bases.bsplines import Bases, nodes_of
from ...numeric.bases.registry import LEVELS
from ...numeric.recent import kept_for_recent
from .kernels_pairs import BLOCK_NBYTES, PairTerms

LEAST_BLOCK = 1024
"""Rows of a Gram's block, however wide they are."""


def pass_nbytes(n_columns: int, n_functions: int, n_outputs: int) -> int:
    """Bytes that a pass holds beside its sums: a block of a Gram, or tables and moments of cells.

    `n_functions` are those of all pairs.
    """
    block = max(BLOCK_NBYTES, LEAST_BLOCK * (16 * n_columns + 68))
    return block + 2 * 4 * 8 * n_outputs * n_functions


def looks_up_pairs(X: np.ndarray | Csr, bases: Bases) -> bool:
    """Whether `kernels_pairs` takes these rows: dense, of splines, categories and pairs alone."""
    if bases.pairs is None or isinstance(X, Csr):
        return False
    return bool((bases.kind[: bases.n_columns] <= LEVELS).all())


@kept_for_recent
def pair_terms(bases: Bases) -> PairTerms:
    """The pairs, without those of a constant column, which have no functions."""
    assert bases.pairs is not None  # none is asked for where there are none
    used = np.diff(bases.first[bases.n_columns :]) > 0
    pairs, first = bases.pairs[used].tolist(), bases.first[bases.n_columns : -1][used]
    columns = sorted({(d, most) for *both, most in pairs for d in both})
    nodes = [nodes_of(bases, d, most) for d, most in columns]
    n_intervals = [int(bases.n_intervals[d]) for d, _ in columns]
    below = [
        np.searchsorted(own, np.arange(n), "right") - 1
        for own, n in zip(nodes, n_intervals, strict=True)
    ]
    low = [own[k] for own, k in zip(nodes, below, strict=True)]
    width = [np.diff(own)[k] for own, k in zip(nodes, below, strict=True)]
    one = [columns.index((d, most)) for d, _, most in pairs]
    other = [columns.index((e, most)) for _, e, most in pairs]
    cells = [(len(nodes[i]) - 1) * (len(nodes[j]) - 1) for i, j in zip(one, other, strict=True)]
    none = [np.empty(0)]
    return PairTerms(
        column=np.array([d for d, _ in columns], np.intp),
        n_intervals=np.array(n_intervals, np.intp),
        begin=np.cumsum([0, *n_intervals])[:-1].astype(np.intp),
        node=np.concatenate(none + below).astype(np.int32),
        low=np.concatenate(none + low),
        scale=1.0 / np.concatenate(none + width),
        one=np.array(one, np.intp),
        other=np.array(other, np.intp),
        first=np.array(first, np.intp),
        step=np.array([len(nodes[j]) for j in other], np.intp),
        cell=np.cumsum([0, *cells]).astype(np.intp),
    )
