"""The sizes of a fit, on which its costs depend: coefficients, rows, its sample, rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...config import get_config
from ...data.source import Chunk, Source, level_counts
from ...numeric.bases.basis import Basis
from ...numeric.bases.pairs import MOST_NODES
from ...numeric.bases.registry import make_basis
from ...numeric.losses import Loss
from ...numeric.simd.gather import CLASSES, LANES
from ...numeric.targets import NUMBER
from ...passes.summary.summary import Summary
from ..basis.column_bases import HasShape, Shape
from ..basis.resolution import count_of_splines
from ..pairs import (
    Parameters,
    Room,
    check_interactions,
    has_pairs,
    most_screened,
    planned_nodes,
    planned_sizes,
    weighed_sizes,
)

UNSET_BUDGET = 1 << 30
"""Bytes that a choice counts on when no budget is set; never the memory that is free just now."""
SAMPLE_ROWS, SAMPLE_NBYTES, MOST_SAMPLE_NBYTES = 50_000, 8 << 20, 32 << 20
"""Fewest rows of a sample, bytes up to which it has 160 rows a coefficient, and its most bytes."""


class Size(NamedTuple):
    """The numbers of rows, columns and coefficients on which the cost of a fit depends."""

    dim: int
    """Coefficients per output; before the summary as if no column had few values."""
    n_outputs: int
    """1 before the classes are known; of several quantiles their number."""
    n_columns: int
    row_nbytes: float
    n_rows: int
    loss: Loss
    in_memory: bool
    sparse: bool
    pair_dim: int = 0
    """Coefficients of the pairs among them."""
    pair_squares: int = 0
    """Sum of the squares of the numbers of functions of the penalties that pairs have."""
    drawn_rows: int = 0
    """Rows of the sample that was asked for, where fewer coefficients are known since."""
    label_nbytes: int = 24
    """Bytes of a row's target, and of its weight and number where rows have such."""
    is_bound: bool = False
    """Whether the coefficients are the most that a fit with pairs may have, and could be fewer."""

    @property
    def coordinates_nbytes(self) -> float:
        """Bytes of a row's coordinates, float32; a sparse row's take at most what it decodes to."""
        return self.row_nbytes if self.sparse else 4.0 * self.n_columns

    @property
    def copied_by_output(self) -> int:
        """Bytes of a row's dual variables and decisions that quantiles, which take turns, copy."""
        return 16 * self.n_outputs if self.n_outputs > 1 and self.loss.target is NUMBER else 0


class HasSize(HasShape, Parameters, Protocol):
    """An estimator, by what the size of its fit follows from."""

    basis: str | Basis
    degree: int

    @property
    def _loss(self) -> Loss: ...
    @property
    def _levels(self) -> Sequence[float]: ...


def size_of(
    model: HasSize, dataset: Source, summary: Summary | None = None, room: Room | None = None
) -> Size:
    """The size of a fit, from metadata alone or with the summary.

    `room`: that of pairs, where they are weighed.
    """
    classes = getattr(model, "classes_", None) if summary is not None else None
    if summary is None:
        n_levels = level_counts(dataset, model.max_levels)
        n_numbers, others = int((n_levels < 0).sum()), int((n_levels[n_levels >= 0] + 1).sum())
        n_bases = count_of_splines(
            model.n_bases,
            make_basis(model.basis),
            dataset.n_physical_rows,
            np.full(n_numbers, np.inf),
            others,
        )
        dim = n_numbers * n_bases + others
    else:
        dim = int(_n_bases(summary, model).sum())
    facts = None if summary is None else summary.columns
    pairs = check_interactions(model, dataset)
    weighted = dataset.is_weighted or getattr(model, "class_weight", None) is not None
    pair_dim, pair_squares = 0, 0
    if has_pairs(model):
        nodes = planned_nodes(model, dataset, facts)
        pair_dim, pair_squares = planned_sizes(model, pairs, nodes)
        if room is not None:
            both = nodes.n, planned_nodes(model, dataset, facts, MOST_NODES).n
            alike = pair_dim, pair_squares
            pair_dim, pair_squares = weighed_sizes(model, pairs, both, alike, room)
    return Size(
        dim + pair_dim,
        len(classes) if classes is not None and len(classes) > 2 else max(len(model._levels), 1),
        dataset.n_features,
        dataset.decoded_nbytes / max(dataset.n_physical_rows, 1),
        dataset.n_physical_rows,
        model._loss,
        dataset.in_memory,
        dataset.sparse,
        pair_dim,
        pair_squares,
        label_nbytes=8 * (1 + weighted + (dataset.n_rows is None)),
        is_bound=most_screened(model) > 0 or (summary is None and len(pairs) > 0),
    )


def _n_bases(summary: Summary, model: HasShape) -> np.ndarray:
    """(p,) coefficients of each column."""
    facts, shape = summary.columns, Shape.of(model, summary)
    n_bases = shape.n_bases
    n_levels, n = facts.n_levels, np.diff(facts.present()[1])
    few, missing = facts.few & (n <= n_bases), facts.missing > 0
    circles = shape.circles(facts)
    n[list(circles)] = [len(points) for points in circles.values()]
    n = n + missing
    of_few = np.where(n > 1, n, 0)
    of_many = n_bases + model.degree * missing
    return np.select([n_levels >= 0, few], [n_levels + 1, of_few], of_many)


def sample_rows(size: Size) -> int:
    """Rows of the sample: 40 a coefficient and 50,000 at least, as far as 32 MiB go."""
    if size.drawn_rows:
        return size.drawn_rows
    row = size.row_nbytes + 16
    most = int(MOST_SAMPLE_NBYTES / row)
    wanted = max(SAMPLE_ROWS, 40 * size.dim, min(160 * size.dim, int(SAMPLE_NBYTES / row)))
    return max(min(wanted, most), 1)


def held_nbytes_of_sample(size: Size) -> int:
    """Bytes of the sample's rows, targets and numbers, which stay to the end of the fit."""
    return int(min(sample_rows(size), size.n_rows) * (size.row_nbytes + 16))


def work_nbytes_of_sample(size: Size) -> int:
    """Bytes of what Newton takes of each row of the sample, between its reads."""
    return int(min(sample_rows(size), size.n_rows) * (48 + 8 * size.n_outputs))


def copied_nbytes(size: Size) -> float:
    """Bytes of a row's values in the scratch copy that Newton's reads go to; 0: there is none."""
    return size.coordinates_nbytes if get_config().scratch and not size.in_memory else 0.0


def sample_share(sample: Chunk, total_weight: float) -> float:
    """The share of the rows, by weight, that a sample holds."""
    weight = sample.n_rows if sample.weight is None else float(sample.weight.sum())
    return 1.0 if weight >= total_weight * (1 - 1e-12) else weight / total_weight


def holds_rows(size: Size) -> bool:
    """Whether dual CD keeps a copy of the rows: they are in memory, and it fits with ease.

    Dense rows leave a chunk at a time, so half of the budget may be theirs; parts of sparse ones
    are joined.
    """
    room = (get_config().memory_budget or UNSET_BUDGET) // (4 if size.sparse else 2)
    return size.in_memory and held_nbytes(size) <= room


def held_nbytes(size: Size) -> int:
    """Bytes of the rows that dual CD holds, while parts are joined, with norms and duals."""
    row = 2 * size.row_nbytes if size.sparse else 4 * size.n_columns
    rows = size.n_rows * (row + 64 + 24 * size.n_outputs + size.copied_by_output)
    places = 0
    if size.sparse:  # facts of a place, coefficients, their mean, two points, sums of parts
        whole = LANES if size.n_outputs == 1 else 2
        lanes = 1 if size.n_outputs == 1 else -(-size.n_outputs // CLASSES) * CLASSES
        places = (size.dim + LANES + whole * size.n_columns) * (
            16 + 32 * lanes + 32 * size.n_outputs
        )
    return int(rows + places)
