"""What a fit costs, by data, parameters and the budget set."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..config import get_config
from ..engine.plan import Needs
from ..numeric.rows.blocks import block_rows
from ..passes.fold import nbytes_of
from ..solvers.kmeans import empty_clusters
from . import em, experts
from .curvature import FORMS
from .objective import empty_sums

SAMPLE_ROWS, SAMPLE_NBYTES = 100_000, 32 << 20
"""Most rows, and bytes of rows, of the sample that a fit begins on."""
SEED_NBYTES = 16 << 20
"""Most bytes of the part of the sample that k-means sees, in float64."""
CURVATURE_NBYTES = 64 << 20
"""Most bytes of the curvature's (p + 1)^2 matrices."""
WIDE = 200
"""Columns from which on a matrix for each gate and expert would cost more than the reads do."""
UNSET_BUDGET = 1 << 30
"""What a choice counts on when no budget is set; never the memory that happens to be free."""
GROUP = 4
"""Refs in a group of a sweep over hinge experts."""
ARRAYS = 10
"""Arrays of (rows of a block, R) that an E-step holds at once."""


class Size(NamedTuple):
    """What the cost depends on."""

    k: int
    n_gates: int
    n_rows: int
    """R: gate rows and expert rows."""
    p: int
    sample: int
    """Rows of the sample."""
    row_nbytes: float
    n_duals: int
    """Dual variables of a row; 0 for smooth losses."""
    gate: str


def size_of(model: Any, dataset: Any) -> Size:
    """The size of a fit; before the classes are known as if there were two."""
    k, n_gates = counts(model.n_components)
    outputs = experts.n_outputs(len(getattr(model, "classes_", (0, 1))))
    row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1)
    sample = min(sample_rows(dataset), dataset.n_physical_rows)
    duals = k * outputs if model.expert_loss == "hinge" else 0
    return Size(
        k, n_gates, n_gates + k * outputs, dataset.n_features, sample, row, duals, model.gate
    )


def counts(n_components: int | tuple[int, int]) -> tuple[int, int]:
    """Components and gate rows of a flat mixture or a tree."""
    if isinstance(n_components, tuple):
        a, b = n_components
        return a * b, a + a * b
    return n_components, n_components


def sample_rows(dataset: Any) -> int:
    """Rows of the sample: as many as 32 MiB hold, 100,000 at most."""
    row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1)
    return max(int(min(SAMPLE_ROWS, SAMPLE_NBYTES / (row + 16))), 1)


def seed_rows(p: int) -> int:
    """Rows of the sample that k-means sees."""
    return max(SEED_NBYTES // (8 * p), 256)


def curvature_nbytes(size: Size, form: str) -> int:
    """Bytes of the matrices of a form of the curvature."""
    matrices = {"newton": size.n_rows, "shared": 4, "first-order": 0}[form]
    return 8 * matrices * (size.p + 1) ** 2


def curvature_form(size: Size) -> str:
    """The best form of the curvature that can be held: by problem and budget set alone."""
    room = min((get_config().memory_budget or UNSET_BUDGET) // 4, CURVATURE_NBYTES)
    forms = FORMS if size.p <= WIDE and size.gate != "linear" else FORMS[1:]
    return next(form for form in forms if curvature_nbytes(size, form) <= room)


def needs_of(size: Size, max_passes: int, *, in_sequence: bool) -> list[Needs]:
    """The phases of a fit after the summary; `in_sequence` reads groups of refs in one lane."""
    p, R = size.p, size.n_rows
    rows = nbytes_of(empty_sums(R, p + 1, size.n_gates))
    block = 8 * block_rows(p + R) * (2 * p + ARRAYS * R)
    sample = int(size.sample * (size.row_nbytes + 16 + 4 * size.n_duals))
    seeds = 8 * min(seed_rows(p), size.sample) * (2 * p + 4 * size.k)
    form = curvature_form(size)
    matrices = rows if form == "first-order" else curvature_nbytes(size, form) + 16 * (p + 1) ** 2
    driver = sample + max(seeds, (2 * em.PAIRS + 12) * rows + matrices + 2 * block)
    return [
        Needs(
            "lloyd",
            nbytes_of(empty_clusters(size.k, p)),
            0,
            sample + seeds,
            rows,
            passes=(0, 2),
            step_bytes=block,
        ),
        Needs(
            "em",
            (6 if in_sequence else 1) * rows,
            0,
            driver,
            2 * rows,
            row_state_bytes=4 * size.n_duals,
            group=GROUP if in_sequence else 0,
            passes=(1, max_passes - 1),
            step_bytes=block,
        ),
    ]


def sample_share(sample: Any, total_weight: float) -> float:
    """The share of the rows, by weight, that a sample holds."""
    weight = len(sample.y) if sample.weight is None else float(np.sum(sample.weight))
    return 1.0 if weight >= total_weight * (1 - 1e-12) else weight / total_weight
