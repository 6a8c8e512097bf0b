"""Number of splines of a column, and of nodes of a pair: given, or what the table carries."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import isqrt

import numpy as np

from ...config import get_config
from ...numeric.bases.basis import Basis
from ...numeric.bases.bsplines import Bases, nodes_of
from ...numeric.bases.pairs import MOST_FUNCTIONS, MOST_NODES, N_NODES
from ...passes.summary.facts import ColumnFacts

AUTO = "auto"
FEWEST, MOST = 20, 128
"""Splines of a column that "auto" takes at least, and at most."""
ROWS_A_SPLINE = 200
"""Rows for each spline of a column beyond `FEWEST`: tables below 4,200 rows have no more."""
CURVATURE_NBYTES = 4 << 20
"""Largest matrix of all coefficients that splines beyond `FEWEST` may make: 724 coefficients.  A
Newton read can sum up as much in each lane, and a factorisation takes a tenth of a second."""
LEAST_SHARE = 64
"""Times that this matrix must fit in the budget, where one is set: about 16 are there at once."""
ROWS_A_FUNCTION = 8
"""Rows for each function of pairs beyond those of `N_NODES` nodes: penalties take what is not
needed, and held-out rows lost nothing by that many."""
CountOfSplines = int | Sequence[int] | str
"""`n_bases` as it is given: a number, several to choose from, or `AUTO`."""


def distinct_values(facts: ColumnFacts) -> np.ndarray:
    """(p,) distinct values of each column of numbers; inf where they are many, 0 of categories."""
    known = np.diff(facts.present()[1]).astype(np.float64)
    return np.select([facts.n_levels >= 0, facts.few], [0.0, known], np.inf)


def count_of_splines(
    n_bases: CountOfSplines, basis: Basis, n_rows: int, values: np.ndarray, others: int
) -> int:
    """Splines of each column with many values; one of fewer values gets one a value.

    "auto": one for every 200 rows, from 20 to 128, and as many above 20 as keep the matrix of all
    coefficients in 4 MiB, and in a sixty-fourth of the budget if one is set.  Bases whose functions
    all meet every row stay at 20.  `values` (p,): distinct values of the columns of numbers, inf
    where they are not known; `others`: coefficients of columns of categories.
    """
    if n_bases != AUTO:
        assert isinstance(n_bases, int)  # those who choose from several ask for one at a time
        return n_bases
    if not basis.local:
        return FEWEST
    room = isqrt(largest_curvature() // 8) - others
    counts = range(FEWEST + 1, min(MOST, n_rows // ROWS_A_SPLINE) + 1)
    n_fit = bisect_right(counts, room, key=lambda n: int(np.minimum(values, n).sum()))
    return FEWEST + n_fit


def largest_curvature() -> int:
    """Bytes of the largest matrix of all coefficients that a default may make."""
    budget = get_config().memory_budget
    return CURVATURE_NBYTES if budget is None else min(CURVATURE_NBYTES, budget // LEAST_SHARE)


def least_count(n_bases: CountOfSplines) -> int:
    """The least that `count_of_splines` may be."""
    if isinstance(n_bases, str):
        return FEWEST
    return n_bases if isinstance(n_bases, int) else min(n_bases)


def counts_of_nodes(bases: Bases, pairs: np.ndarray, gains: np.ndarray, room: int) -> np.ndarray:
    """(m,) the most nodes of a column in each of the `pairs` (m, 2): `N_NODES` to `MOST_NODES`.

    `room` functions are shared in proportion to `gains` (m,), what more nodes promise each pair.
    """
    counts = range(N_NODES, MOST_NODES + 1)
    columns = set(pairs.ravel().tolist())
    k = {d: np.array([len(nodes_of(bases, d, n)) for n in counts]) for d in columns}
    sizes = np.array([k[d] * k[e] for d, e in pairs.tolist()]).reshape(len(pairs), len(counts))
    least = sizes[:, 0]
    most = np.where(sizes <= MOST_FUNCTIONS, sizes, least[:, None]).max(axis=1)
    shares = np.maximum(gains, 0.0) ** 2
    shares /= max(float(shares.max(initial=0.0)), 1e-300)

    def quotas(scale: float) -> np.ndarray:
        return np.clip(scale * shares, least, most)

    # the sum of the quotas grows with their scale: the last one at which it fits is at its root
    low, high = 0.0, 2.0 * room + 2.0 * MOST_FUNCTIONS
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if quotas(middle).sum() <= room else (low, middle)
    fits = sizes <= np.maximum(quotas(low), least)[:, None]
    # the first of as many functions: more nodes than breakpoints change nothing
    chosen: np.ndarray = N_NODES + np.where(fits, sizes, -1).argmax(axis=1)
    return chosen
