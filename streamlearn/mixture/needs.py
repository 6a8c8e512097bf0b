"""The cost of a fit, from its data, its parameters and the configured budget."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ..config import get_config
from ..data.source import Chunk, Source
from ..engine.plan import Needs
from ..engine.planning import make_plan
from ..errors import MemoryBudgetError
from ..numeric.rows.blocks import block_rows
from ..passes.fold import nbytes_of
from ..passes.sample import sample_nbytes
from ..solvers.kmeans import empty_clusters
from . import experts
from .em import iteration
from .em.curvature import FORMS
from .gate import GATES, LINEAR
from .objective import empty_sums

SAMPLE_ROWS, SAMPLE_NBYTES = 100_000, 32 << 20
"""Largest number of rows, and of their bytes, in the sample that a fit begins on."""
LEAST_SAMPLE_ROWS = 512
"""Number of rows in the sample below which it is not halved for the sake of the budget."""
HELD_ROWS, HELD_NBYTES = 16_384, 8 << 20
"""Largest number of first rows that a stream holds, and of their bytes."""
SEED_NBYTES = 16 << 20
"""Largest number of bytes, in float64, of the part of the sample that k-means sees."""
CURVATURE_NBYTES = 64 << 20
"""Largest number of bytes of the curvature's (p + 1)^2 matrices."""
WIDE = 200
"""Largest number of columns for which a matrix for each gate and expert costs less than the
reads."""
UNSET_BUDGET = 1 << 30
"""Budget in bytes that choices assume when none is set; never the memory that happens to be
free."""
GROUP = 4
"""Number of refs in a group of a sweep over hinge experts."""
ARRAYS = 10
"""Number of arrays of (rows of a block, R) that an E-step holds at once."""


class Options(Protocol):
    """The estimator's parameters, and its classes."""

    classes_: np.ndarray
    n_components: int | tuple[int, int]
    gate: str
    expert_loss: str
    C: float
    tau: float | str
    nu: float | str
    scaling: str
    algorithm: str
    n_init: int
    tol: float
    max_passes: int
    random_state: int


class Size(NamedTuple):
    """The numbers that the cost depends on."""

    k: int
    """Number of components."""
    n_gates: int
    """Number of gate rows."""
    n_rows: int
    """Number R of gate rows and expert rows."""
    p: int
    """Number of columns."""
    sample: int
    """Number of rows in the sample."""
    row_nbytes: float
    """Bytes of a row of the data."""
    n_duals: int
    """Number of dual variables of a row; 0 for smooth losses."""
    gate: str
    """Value of the parameter `gate`."""


def size_of(model: Options, dataset: Source) -> Size:
    """The size of a fit; while the classes are not known, two are assumed.

    The sample is halved until the plan of a fit to two classes keeps the budget that is set: it is
    drawn in the read that finds the classes.
    """
    sample, budget = _largest(model, dataset, 2), get_config().memory_budget
    while budget and sample.sample >= 2 * LEAST_SAMPLE_ROWS:
        drawn = Needs("sample", 0, driver_bytes=sample_nbytes(dataset, sample.sample))
        phases = needs_of(sample, model.max_passes, in_sequence=in_sequence(model))
        try:
            make_plan(dataset, [drawn, *phases], budget=budget, threads=1)
        except MemoryBudgetError:
            sample = sample._replace(sample=sample.sample // 2)
        else:
            break
    return size_of_stream(model, dataset)._replace(sample=sample.sample)


def size_of_stream(model: Options, dataset: Source) -> Size:
    """The size of a call of `partial_fit`, whose sample is the first slice, whatever its rows."""
    return _largest(model, dataset, len(getattr(model, "classes_", (0, 1))))


def in_sequence(model: Options) -> bool:
    """Whether EM reads groups of rows one after the other."""
    return model.expert_loss == "hinge" or model.algorithm == "online-em"


def _largest(model: Options, dataset: Source, n_classes: int) -> Size:
    """The size of a fit with so many classes, and as many rows in the sample as any has."""
    k, n_gates = counts(model.n_components)
    outputs = experts.n_outputs(n_classes)
    row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1)
    most = max(int(min(SAMPLE_ROWS, SAMPLE_NBYTES / (row + 16))), 1)
    sample = min(most, dataset.n_physical_rows)
    duals = k * outputs if model.expert_loss == "hinge" else 0
    return Size(
        k, n_gates, n_gates + k * outputs, dataset.n_features, sample, row, duals, model.gate
    )


def counts(n_components: int | tuple[int, int]) -> tuple[int, int]:
    """Numbers of components and of gate rows, of a flat mixture or a tree."""
    if isinstance(n_components, tuple):
        a, b = n_components
        return a * b, a + a * b
    return n_components, n_components


def seed_stride(p: int, n_rows: int) -> int:
    """The n for which k-means sees every n-th of so many rows."""
    return max(n_rows // _seed_rows(p), 1)


def _seed_rows(p: int) -> int:
    """Number of rows below the double of which k-means sees them all."""
    return max(SEED_NBYTES // (8 * p), 256)


def curvature_nbytes(size: Size, form: str) -> int:
    """Bytes of the matrices of a form of the curvature."""
    matrices = {"newton": size.n_rows, "shared": 4, "first-order": 0}[form]
    return 8 * matrices * (size.p + 1) ** 2


def curvature_form(size: Size) -> str:
    """The best form of the curvature that fits, by problem and configured budget alone."""
    room = min((get_config().memory_budget or UNSET_BUDGET) // 4, CURVATURE_NBYTES)
    forms = FORMS if size.p <= WIDE and GATES[size.gate] not in LINEAR else FORMS[1:]
    return next(form for form in forms if curvature_nbytes(size, form) <= room)


def rows_nbytes(size: Size) -> int:
    """Bytes of the sums of an E-step."""
    return nbytes_of(empty_sums((size.n_rows, size.p + 1), size.n_gates))


def block_nbytes(size: Size) -> int:
    """Bytes of the arrays of a block of rows."""
    p, R = size.p, size.n_rows
    return 8 * block_rows(p + R) * (2 * p + ARRAYS * R)


def kept_nbytes(size: Size) -> int:
    """Bytes that EM keeps between reads: the last steps, and the curvature."""
    rows, form = rows_nbytes(size), curvature_form(size)
    squares = 16 * (size.p + 1) ** 2
    matrices = rows if form == "first-order" else curvature_nbytes(size, form) + squares
    return (2 * iteration.PAIRS + 12) * rows + matrices


def em_nbytes(size: Size) -> int:
    """Bytes that EM over rows in memory takes beside them."""
    return kept_nbytes(size) + 2 * block_nbytes(size)


def clusters_nbytes_per_row(size: Size) -> float:
    """Bytes that k-means in memory takes for a row, with a copy to find the spread of all."""
    return 8.0 * (2 * size.p + 4 * size.k)


def first_slice(size: Size, n_rows: int) -> Needs:
    """The phase in which a stream finds clusters of its first slice, of so many rows at most."""
    each, most = clusters_nbytes_per_row(size), 2 * _seed_rows(size.p)
    few = n_rows < most
    return Needs(
        "clusters",
        0,
        step_bytes_per_row=each if few else 0.0,
        step_bytes=0 if few else int(most * each),
        passes=(0, 0),
        in_order=True,
    )


def held_most(size: Size) -> int:
    """Number of first rows that a stream holds; 0 where they are too few for EM."""
    most = int(min(HELD_ROWS, HELD_NBYTES / (size.row_nbytes + 16)))
    return most if most >= LEAST_SAMPLE_ROWS else 0


def held_nbytes(size: Size, n_rows: int) -> int:
    """Bytes of rows that a stream holds, with the dual variables that EM gives them."""
    return int(n_rows * (size.row_nbytes + 16 + 4 * size.n_duals))


def needs_of(size: Size, max_passes: int, *, in_sequence: bool) -> list[Needs]:
    """The phases of a fit after the summary; EM reads groups in one lane if `in_sequence`."""
    rows, block = rows_nbytes(size), block_nbytes(size)
    drawn = int(size.sample * (size.row_nbytes + 16))
    sample = drawn + 4 * size.n_duals * size.sample
    seeds = -(-size.sample // seed_stride(size.p, size.sample))
    clusters = drawn + int(seeds * clusters_nbytes_per_row(size))
    return [
        Needs("clusters", 0, driver_bytes=clusters, passes=(0, 0), on_driver=True),
        Needs(
            "lloyd",
            nbytes_of(empty_clusters(size.k, size.p)),
            0,
            drawn + 8 * seeds * size.p,
            rows,
            passes=(0, 2),
            step_bytes=block,
        ),
        Needs("sample", 0, driver_bytes=sample + em_nbytes(size), passes=(0, 0), on_driver=True),
        Needs(
            "em",
            (6 if in_sequence else 1) * rows,
            0,
            sample + kept_nbytes(size),
            2 * rows,
            row_state_bytes=4 * size.n_duals,
            group=GROUP if in_sequence else 0,
            passes=(1, max_passes - 1),
            step_bytes=block,
        ),
    ]


def sample_share(sample: Chunk, total_weight: float) -> float:
    """The share of the rows, by weight, that a sample holds."""
    weight = sample.n_rows if sample.weight is None else float(np.sum(sample.weight))
    return 1.0 if weight >= total_weight * (1 - 1e-12) else weight / total_weight
