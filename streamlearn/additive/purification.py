"""Purification of terms of two columns, as a linear map T of all coefficients.

    w' = T w,   Phi'T w = Phi'w for every row

A pair's table loses its means along each column, weighted by the training rows, and these go to the
curves of its columns (`numeric.bases.pairs.without_margins`).  What holds for coefficients holds
for their covariance, T V T', and for degrees of freedom: a term's are the trace of its block of
T V H, the sum of which is that of V H.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..numeric.bases.bsplines import Bases
from ..numeric.bases.pairs import lines_of, without_margins
from .smooth.optimum import Fit
from .smooth.penalties import Penalties

AT_ONCE = 256
"""Columns of a matrix that are mapped at once: what is beside it is a few rows of blocks."""


class Pair(NamedTuple):
    """The place of one pair among all coefficients."""

    term: int
    own: slice
    columns: tuple[int, int]
    sides: tuple[slice, slice]
    """The coefficients of the curves of both columns."""
    lines: tuple[np.ndarray, np.ndarray]
    """(k, n_d) and (l, n_e) the lines of both columns at their breakpoints."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of nodes (k, l)."""
        return len(self.lines[0]), len(self.lines[1])


def pairs_of(bases: Bases) -> Iterator[Pair]:
    """The places of all pairs; those of a column without a curve are left out."""
    first = bases.first.tolist()
    for i, (d, e, most) in enumerate(bases.pairs.tolist() if bases.pairs is not None else []):
        term = bases.n_columns + i
        own = slice(first[term], first[term + 1])
        sides = slice(first[d], first[d + 1]), slice(first[e], first[e + 1])
        if own.stop > own.start:
            yield Pair(
                term, own, (d, e), sides, (lines_of(bases, d, most), lines_of(bases, e, most))
            )


def purify(bases: Bases, A: np.ndarray, means: np.ndarray) -> None:
    """T A, in place of A (dim or more, m), whose columns are coefficients.

    `means` (dim,) are those of the functions over the rows: of a pair its joint density.
    """
    for pair in pairs_of(bases):
        table = A[pair.own].reshape(*pair.shape, -1)
        pure, *margins = without_margins(table, means[pair.own].reshape(pair.shape))
        A[pair.own] = pure.reshape(len(A[pair.own]), -1)
        for side, lines, margin in zip(pair.sides, pair.lines, margins, strict=True):
            A[side] += lines.T @ margin


def purified(bases: Bases, W: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Coefficients (K, dim) of the same decisions, whose pairs have no part in single columns."""
    if bases.pairs is None:
        return W.copy()
    A = W.T.copy()
    purify(bases, A, means)
    return np.ascontiguousarray(A.T)


def purify_covariance(bases: Bases, V: np.ndarray, means: np.ndarray) -> None:
    """T V T', in place of a symmetric V (dim + 1, dim + 1), the intercept's last."""
    if bases.pairs is None:
        return
    for A in (V, V.T):
        for start in range(0, len(V), AT_ONCE):
            purify(bases, A[:, start : start + AT_ONCE], means)


def purified_freedom(bases: Bases, penalties: Penalties, fit: Fit, means: np.ndarray) -> np.ndarray:
    """(n_terms,) the effective degrees of freedom of each term after purification.

    V H is I - V S, of which a pair's rows are enough.
    """
    freedom = np.zeros(penalties.n_terms)
    terms = {penalty.term: (penalty.at, own) for penalty, own in penalties.by_term()}
    for term, (_, own) in terms.items():
        freedom[term] = fit.gamma[own].sum()
    for pair in pairs_of(bases):
        n, blocks = pair.own.stop - pair.own.start, []
        for term in (pair.term, *pair.columns):
            at, own = terms[term]
            S = sum(fit.weights[j] * penalties.each[j].S for j in own)
            blocks.append(-fit.V[pair.own, at] @ S)
        blocks[0][np.diag_indices(n)] += 1.0
        F = np.concatenate(blocks, axis=1).reshape(*pair.shape, -1)
        pure, *margins = without_margins(F, means[pair.own].reshape(pair.shape))
        freedom[pair.term] = float(np.trace(pure.reshape(n, -1)[:, :n]))
        begin = n
        for d, lines, margin in zip(pair.columns, pair.lines, margins, strict=True):
            width = lines.shape[1]
            freedom[d] += float((lines * margin[:, begin : begin + width]).sum())
            begin += width
    return freedom
