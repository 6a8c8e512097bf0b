"""Terms of two columns in an additive model: which ones, and where rows lie on them.

    f(x) = b + sum_d f_d(x_d) + sum_(d,e) f_de(x_d, x_e)

All are fitted jointly.  A pair could also hold what belongs to its columns alone, so after the fit
the means of f_de along each column, weighted by the training rows, move into f_d and f_e, and the
grand mean into the intercept (Lengerich et al. 2020; `purification`): no decision changes, and a
pair's table then says what the two columns do together and neither does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from ..data.source import Chunk, Source, level_counts
from ..estimator.rows.encoding import hint_of, place_of
from ..numeric.bases.basis import Basis
from ..numeric.bases.bsplines import Bases, nodes_of, select_columns
from ..numeric.bases.pairs import MOST_FUNCTIONS, N_NODES, add_pairs
from ..numeric.bases.roughness import make_reference
from ..passes.fold import Fold
from ..passes.summary.facts import ColumnFacts
from ..passes.sums import add_sums
from .basis.kernels import margins_rows
from .objective import Problem, spline_sums
from .smooth.shape import Signs

SCREENED_FUNCTIONS = 256
"""Largest number of functions of a pair that a screening may choose."""
AUTO = "auto"
"""Value of `interactions` that leaves open whether there are pairs."""
AUTO_PAIRS = 10
"""Most pairs of ``interactions="auto"``."""


class HasInteractions(Protocol):
    """An additive model, by the parameter that names its pairs."""

    interactions: int | str | Sequence[Sequence[int | str]]


class Parameters(HasInteractions, Protocol):
    """An additive model, by the parameters that pairs go with or not."""

    basis: str | Basis
    degree: int
    max_levels: int
    max_passes: int
    warm_start: bool
    smoothness: str | None
    select: bool
    monotone: Signs | None
    convex: Signs | None


class PairTable(NamedTuple):
    """A term of two columns at its nodes, between which it is bilinear."""

    columns: tuple[int, int]
    """Numbers d and e of its columns."""
    nodes: tuple[np.ndarray, np.ndarray]
    """(k,) and (l,) values of the columns at the nodes; codes of categories; NaN: missing (of
    categories: and all other words)."""
    table: np.ndarray
    """(k, l), or (k, l, K) with more than two classes: what the term adds to the decision."""
    density: np.ndarray
    """(k, l) share of the training rows at each node, a row counting for its four."""

    @property
    def by_output(self) -> np.ndarray:
        """(k, l, K) the table, whatever the number of outputs."""
        return self.table if self.table.ndim == 3 else self.table[..., None]


def given_pairs(model: HasInteractions) -> list[Sequence[int | str]]:
    """The pairs of columns that `model` was given, unchecked."""
    given = model.interactions
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []


def most_screened(model: HasInteractions) -> int:
    """Largest number of pairs that a screening may choose; 0: there is none.

    There is none with "auto", which whoever may have pairs makes a number first
    (`planned.Planned`).
    """
    given = model.interactions
    return 0 if isinstance(given, Sequence) else int(given)


def has_pairs(model: HasInteractions) -> bool:
    """Whether `model` may have terms of two columns."""
    return len(given_pairs(model)) + most_screened(model) > 0


def check_interactions(model: Parameters, dataset: Source) -> np.ndarray:
    """(m, 2) columns of the pairs that `model` was given; refuses what it does not serve."""
    if not has_pairs(model):
        return np.empty((0, 2), np.intp)
    given = model.interactions
    names = [str(name) for name in dataset.feature_names]
    found: list[tuple[int, int]] = []
    for pair in given_pairs(model):
        if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise ValueError(
                f"interactions={given!r}: {pair!r} is no pair of columns; give names or numbers, "
                "interactions=[(0, 1)]"
            )
        d, e = sorted(_find(model, column, names) for column in pair)
        if d == e or (d, e) in found:
            why = "twice one column" if d == e else "there twice"
            raise ValueError(f"interactions={given!r}: the pair {pair!r} is {why}; leave it out")
        found.append((d, e))
    _check_model(model, dataset)
    return np.array(found, np.intp).reshape(-1, 2)


def _find(model: Parameters, column: object, names: list[str]) -> int:
    """The number of the feature that a pair gives by its name, or by a column's number."""
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and column >= 0:
        place = place_of(model, int(column))
        if place < len(names):
            return place
    raise ValueError(
        f"interactions={model.interactions!r}: there is no column {column!r} among "
        f"{len(names)}; the first are {names[:10]}{hint_of(column, names)}"
    )


def _check_model(model: Parameters, dataset: Source) -> None:
    for got, remedy in excluding(model, dataset, 4 if most_screened(model) else 3):
        raise ValueError(
            f"interactions={model.interactions!r} does not go with {got}; use {remedy}, or "
            "interactions=0"
        )


def excluding(model: Parameters, dataset: Source, least: int) -> Iterator[tuple[str, str]]:
    """Parameters and rows that pairs of `least` reads do not go with, and for each a remedy."""
    chosen = "smoothness=None, as one C is for all terms of a model with pairs"
    refused = {
        f"basis={model.basis!r}": (model.basis != "bspline", "basis='bspline'"),
        f"degree={model.degree!r}": (model.degree != 1, "degree=1"),
        "warm_start=True": (model.warm_start, "warm_start=False"),
        f"smoothness={model.smoothness!r}": (model.smoothness is not None, chosen),
        "select=True": (model.select, "select=False"),
        f"monotone={model.monotone!r}": (bool(model.monotone), "monotone=None"),
        f"convex={model.convex!r}": (bool(model.convex), "convex=None"),
        f"max_passes={model.max_passes}": (model.max_passes < least, f"max_passes={least} or more"),
        "sparse rows": (dataset.sparse, "dense rows"),
    }
    for got, (is_refused, remedy) in refused.items():
        if is_refused:
            yield got, remedy


class Nodes(NamedTuple):
    """The facts that a plan knows of the nodes of every column."""

    n: np.ndarray
    """(p,) intp nodes at most; 0 of a column without a curve."""
    kind: np.ndarray
    """(p,) intp equal for columns whose pairs share their penalties; below 0: it is not known."""


def planned_nodes(
    model: Parameters, dataset: Source, facts: ColumnFacts | None, most: int = N_NODES
) -> Nodes:
    """The nodes of the columns, `most` of a column of numbers, from metadata or the summary."""
    if facts is None:
        n_levels = level_counts(dataset, model.max_levels)
        n = np.where(n_levels >= 0, n_levels + 1, most + 1)
        return Nodes(n, -n)
    is_levels, values = facts.n_levels >= 0, np.diff(facts.present()[1])
    n = np.where(facts.few, np.minimum(values, most), most)
    n = np.where(is_levels, facts.n_levels, n)
    has_level = (n > 0) & ((facts.missing > 0) | (is_levels & (n > 1)))
    n = np.where(n + has_level > 1, n + has_level, 0).astype(np.intp)
    # quantiles of many values may coincide, so their number is not known
    is_known = is_levels | (facts.few & (values <= most))
    return Nodes(n, np.where(is_known, 4 * n + 2 * is_levels + has_level, -n))


def planned_sizes(model: HasInteractions, pairs: np.ndarray, nodes: Nodes) -> tuple[int, int]:
    """Most functions of all pairs, and the sum of the squares of those of each penalty.

    Of the `pairs` (m, 2) that were given, and of the largest that a screening may choose.
    """
    n, kind = nodes
    sizes = np.minimum(n[pairs[:, 0]] * n[pairs[:, 1]], MOST_FUNCTIONS)
    is_known = (kind[pairs] >= 0).all(axis=1)
    firsts = np.unique(kind[pairs[is_known]], axis=0, return_index=True)[1]
    own = np.append(sizes[~is_known], sizes[is_known][firsts])
    functions, squares = int(sizes.sum()), int((own**2).sum())
    kinds, at, count = np.unique(kind[n > 0], return_index=True, return_counts=True)
    size = n[n > 0][at]
    i, j = np.triu_indices(len(kinds))
    n_pairs = np.where(i == j, count[i] * (count[i] - 1) // 2, count[i] * count[j])
    # columns of two kinds share one matrix for each order in which they stand
    is_known, size = (kinds[i] >= 0) & (kinds[j] >= 0), size[i] * size[j]
    n_matrices = np.minimum(np.where(is_known, 1 + (i != j), n_pairs), n_pairs)
    # too large a pair is no candidate, but one that is not known may turn out to be smaller
    size = np.where(is_known & (size > SCREENED_FUNCTIONS), 0, np.minimum(size, SCREENED_FUNCTIONS))
    order = np.argsort(-size, kind="stable")
    most = most_screened(model)
    functions += _sum_of_largest(size[order], n_pairs[order], most)
    return functions, squares + _sum_of_largest(size[order] ** 2, n_matrices[order], most)


class Room(NamedTuple):
    """The functions that pairs may have in all where each has a weight of its own."""

    finer: int
    """Functions up to which pairs get more nodes."""
    weighed: int
    """Functions up to which pairs are weighed."""


def weighed_sizes(
    model: HasInteractions,
    pairs: np.ndarray,
    nodes: tuple[np.ndarray, np.ndarray],
    alike: tuple[int, int],
    room: Room,
) -> tuple[int, int]:
    """`planned_sizes` of pairs that may be weighed: with more nodes, and a penalty each.

    `nodes` (p,), (p,): the fewest and the most of each column; `alike`: the sizes of pairs of the
    fewest, which share their penalties where they are not weighed.
    """
    functions, squares = alike
    most = SCREENED_FUNCTIONS, MOST_FUNCTIONS
    coarse, fine = (_sizes(model, pairs, *both) for both in zip(nodes, most, strict=True))
    in_all = min(sum(fine), room.finer)
    squares = max(squares, _most_squares(coarse, room.weighed), _most_squares(fine, in_all))
    return max(functions, in_all), squares


def _sizes(model: HasInteractions, pairs: np.ndarray, nodes: np.ndarray, most: int) -> list[int]:
    """Most functions of each pair that was given, and of the largest that may be chosen."""
    given = nodes[pairs[:, 0]] * nodes[pairs[:, 1]]
    n = most_screened(model)
    largest = np.sort(nodes)[::-1][: n + 1]  # n pairs of the largest products are among these
    i, j = np.triu_indices(len(largest), 1)
    chosen = np.sort(largest[i] * largest[j])[::-1][:n]
    sizes = np.minimum(given, MOST_FUNCTIONS).tolist() + np.minimum(chosen, most).tolist()
    return [int(size) for size in sizes]


def _most_squares(sizes: list[int], functions: int) -> int:
    """The largest sum of squares of so many functions in all: few pairs have them."""
    squares, left = 0, functions
    for size in sorted(sizes, reverse=True):
        n = min(size, left)
        squares, left = squares + n * n, left - n
    return squares


def _sum_of_largest(values: np.ndarray, counts: np.ndarray, most: int) -> int:
    """The sum of the first `most` values, of which there are so many each, largest first."""
    before = np.cumsum(counts) - counts
    return int(values @ np.clip(most - before, 0, counts))


def check_sizes(bases: Bases, pairs: np.ndarray, names: Sequence[str], column: int) -> None:
    """Refuse pairs of too many functions, and of the `column` of offsets, which has no curve."""
    for d, e in pairs.tolist():
        both = f"the pair of {names[d]!r} and {names[e]!r}"
        if column in (d, e):
            raise ValueError(
                f"{both} holds the offset or exposure, which has no curve; leave it out"
            )
        n = len(nodes_of(bases, d, N_NODES)) * len(nodes_of(bases, e, N_NODES))
        if n > MOST_FUNCTIONS:
            raise ValueError(
                f"{both} has {n} functions, a pair may have {MOST_FUNCTIONS}; lower max_levels"
            )


def with_terms(
    problem: Problem, pairs: np.ndarray, order: int, scale: str, nodes: np.ndarray | None = None
) -> Problem:
    """The problem with terms of these pairs of columns (m, 2) too, of so many nodes (m,)."""
    if not len(pairs):
        return problem
    bases, roughness, c = problem.bases, problem.roughness, problem.reference.c
    bases, roughness, c = add_pairs(bases, roughness, c, pairs, order, scale, nodes)
    reference = make_reference(roughness, c)
    return problem._replace(bases=bases, roughness=roughness, reference=reference, single=False)


# Where the rows lie.


Density = tuple[np.ndarray, np.ndarray]
"""(dim,) sum of every function over the rows, (1,) their weight."""


def density_fold(problem: Problem) -> Fold[Density, np.ndarray]:
    """Fold: the mean of every function over the rows.  State 8 dim bytes."""
    return Fold(
        partial(empty_density, problem.dim), partial(_add_density, problem), add_sums, _mean
    )


def empty_density(dim: int) -> Density:
    return np.zeros(dim), np.zeros(1)


def _add_density(problem: Problem, state: Density, chunk: Chunk) -> Density:
    if chunk.n_rows:
        s = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
        state[0][:] += spline_sums(problem, s, chunk)
        state[1][0] += s.sum()
    return state


def _mean(state: Density) -> np.ndarray:
    means: np.ndarray = state[0] / max(state[1][0], 1e-300)
    return means


def with_density(bases: Bases, means: np.ndarray, density: np.ndarray) -> np.ndarray:
    """(dim,) the `means` of the functions of columns and, of those of pairs, the `density`."""
    return np.append(means[: bases.main.dim], density[bases.main.dim :])


# What a fitted model says of its pairs.


def pair_tables(bases: Bases, coef: np.ndarray, density: np.ndarray) -> list[PairTable]:
    """The terms of two columns; `density` (sum of their functions,)."""
    tables, p = [], bases.n_columns
    for i, (d, e, most) in enumerate(bases.pairs.tolist() if bases.pairs is not None else []):
        a, z = bases.first[p + i : p + i + 2]
        nodes = _values(bases, d, most), _values(bases, e, most)
        shape = len(nodes[0]), len(nodes[1])
        table = np.ascontiguousarray(coef[:, a:z].T).reshape(*shape, len(coef))
        own = density[a - bases.first[p] : z - bases.first[p]].reshape(shape)
        tables.append(PairTable((d, e), nodes, table[..., 0] if len(coef) == 1 else table, own))
    return tables


def _values(bases: Bases, d: int, most: int) -> np.ndarray:
    knots = bases.knots[slice(*bases.first_knot[d : d + 2])][nodes_of(bases, d, most)]
    return np.where(np.isfinite(knots), knots, np.nan)


def pair_margins(X: np.ndarray, bases: Bases, i: int, coef: np.ndarray) -> np.ndarray:
    """(m, K) what pair i adds to the decisions of rows (m, 2) of its two columns."""
    assert bases.pairs is not None  # there is a pair i
    d, e, most = bases.pairs[i].tolist()
    at = bases.n_columns + i
    alone, own = select_columns(bases.main, [d, e]), slice(*bases.first[at : at + 2])
    one = bases._replace(
        knots=alone.knots,
        first_knot=np.append(alone.first_knot, len(alone.knots)),
        degree=np.append(alone.degree, bases.degree[at]),
        first=np.append(alone.first, alone.dim + own.stop - own.start),
        kind=np.append(alone.kind, bases.kind[at]),
        pairs=np.array([[0, 1, most]], np.intp),
    )
    W, F = np.zeros((len(coef), one.dim)), np.empty((len(X), len(coef)))
    W[:, alone.dim :] = coef[:, own]
    margins_rows(X, one, W, F)
    return F


def pair_functions(X: np.ndarray, bases: Bases, i: int) -> np.ndarray:
    """(m, n) the functions of pair i at rows (m, 2) of its two columns."""
    a, z = bases.first[bases.n_columns + i : bases.n_columns + i + 2]
    units = np.zeros((z - a, bases.dim))
    units[:, a:z] = np.eye(z - a)
    return pair_margins(X, bases, i, units)
