"""What a fit costs, and which solver that allows, by data, parameters and the budget set."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..config import format_bytes, get_config
from ..engine.plan import Needs
from ..solvers.newton import PAIRS
from .dual_cd import GROUP

NEWTON_DIM = 8000
"""Most coefficients for which "auto" solves with matrices."""
UNSET_BUDGET = 1 << 30
"""What a choice counts on when no budget is set; never the memory that happens to be free."""
GRAM_NBYTES = 16 << 20
"""Largest state of a read that sums up a Gram for squared error; else Newton reads more often."""
GROWN_NBYTES = 4 << 20
"""Largest state of a Newton read that sums up the curvature of rows outside the sample."""
SAMPLE_ROWS, SAMPLE_NBYTES, MOST_SAMPLE_NBYTES = 50_000, 8 << 20, 32 << 20


class Choice(NamedTuple):
    """A solver and why it was taken."""

    solver: str
    """"newton", "dual-cd" or "gram"."""
    reason: str


class Size(NamedTuple):
    """What the cost depends on."""

    dim: int
    """Coefficients per output; before the summary as if no column had few values."""
    n_outputs: int
    """1 before the classes are known."""
    n_columns: int
    row_nbytes: float
    n_rows: int
    loss: str
    in_memory: bool


def size_of(model: Any, dataset: Any, summary: Any = None) -> Size:
    """The size of a fit, from metadata alone or with the summary."""
    classes = getattr(model, "classes_", None) if summary is not None else None
    if summary is None:
        dim = dataset.n_features * model.n_bases
    else:
        dim = sum(_n_bases(column, model.n_bases) for column in summary.columns)
    return Size(
        dim,
        len(classes) if classes is not None and len(classes) > 2 else 1,
        dataset.n_features,
        dataset.decoded_nbytes / max(dataset.n_physical_rows, 1),
        dataset.n_physical_rows,
        model.loss,
        dataset.store.in_memory,
    )


def _n_bases(column: Any, n_bases: int) -> int:
    if column.values is None:
        return n_bases
    n = int((column.value_counts > 0).sum())
    return min(n, n_bases) if n > 1 else 0


def choose(loss: str, solver: str, size: Size) -> Choice:
    """The solver to use."""
    matrix = 8 * size.dim**2
    if loss == "squared_error":
        if matrix <= GRAM_NBYTES:
            return Choice("gram", "squared error: one Gram of all rows is exact")
        return Choice("newton", f"a Gram of {format_bytes(matrix)} is too large for every lane")
    if loss == "hinge":
        if solver == "newton":
            raise ValueError(
                "solver='newton' needs a smooth loss, got loss='hinge'; use solver='dual-cd' or "
                "loss='squared_hinge'"
            )
        return Choice("dual-cd", "" if solver != "auto" else "dual-cd as the hinge is not smooth")
    if solver != "auto":
        return Choice(solver, "")
    room = (get_config().memory_budget or UNSET_BUDGET) // 2
    if size.dim > NEWTON_DIM:
        return Choice("dual-cd", f"dual-cd as up to {size.dim} coefficients are over {NEWTON_DIM}")
    if matrix > room:
        return Choice(
            "dual-cd", f"dual-cd as a matrix of {format_bytes(matrix)} is over half of the budget"
        )
    return Choice("newton", f"newton as {loss} is smooth, with at most {size.dim} coefficients")


def sample_rows(size: Size) -> int:
    """Rows of the sample: 40 a coefficient and 50,000 at least, as far as 32 MiB go."""
    row = size.row_nbytes + 16
    most = int(MOST_SAMPLE_NBYTES / row)
    wanted = max(SAMPLE_ROWS, 40 * size.dim, min(160 * size.dim, int(SAMPLE_NBYTES / row)))
    return max(min(wanted, most), 1)


def sample_share(sample: Any, total_weight: float) -> float:
    """The share of the rows, by weight, that a sample holds."""
    weight = len(sample.y) if sample.weight is None else float(sample.weight.sum())
    return 1.0 if weight >= total_weight * (1 - 1e-12) else weight / total_weight


def may_grow(n_outputs: int, dim: int) -> bool:
    """Whether lanes may sum up curvature: a function of the problem alone, as it decides bits."""
    return 8 * n_outputs * dim**2 <= GROWN_NBYTES


def needs_of(solver: str, size: Size, max_passes: int) -> list[Needs]:
    """The phases of a fit after the summary."""
    dim, K = size.dim, size.n_outputs
    model, matrix = 3 * 8 * K * dim, 8 * dim**2
    sums = 3 * 8 * K * (dim + 8)
    per_row = 32.0 + 8 * K
    if solver == "gram":
        return [Needs("gram", matrix + sums, per_row, matrix, model)]
    if solver == "newton":
        rows = min(sample_rows(size), size.n_rows)
        sample = int(rows * (size.row_nbytes + 16 + 48 + 8 * K))
        lessons = 2 * PAIRS * 8 * K * (dim + 1)
        grown = K * matrix if may_grow(K, dim) else 0
        state = sums + grown
        passes = (1, max_passes - 1)
        driver = sample + lessons + matrix + grown
        copied = 4 * size.n_columns if get_config().scratch and not size.in_memory else 0
        disk = copied + 16 if copied else 0
        return [
            Needs(
                "newton",
                state,
                per_row + copied,
                driver,
                model,
                scratch_bytes_per_row=disk,
                passes=passes,
            )
        ]
    width = 4 * K * (2 if size.loss == "log_loss" else 1)
    u = 4 * size.n_columns
    spooled = 0 if size.in_memory else u + 16
    return [
        Needs("spool", 0, 2.0 * u + 16, 0, 0, scratch_bytes_per_row=spooled, passes=(0, 1)),
        Needs(
            "dual-cd",
            2 * 8 * K * (dim + 8),
            per_row + u,
            0,
            model,
            row_state_bytes=width,
            group=GROUP,
            scratch_bytes_per_row=spooled,
            passes=(1, max_passes - 2),
        ),
        Needs("certificate", sums, per_row + 16, 0, model, row_state_bytes=width),
    ]


def labels_of_refs(dataset: Any, planned: Any, summary: Any) -> np.ndarray:
    """(n_refs, K) class weights of the refs a sweep draws; finer refs have those of their whole."""
    labels = summary.ref_labels
    whole = np.array([ref.start for ref in dataset.refs()])
    parts = np.array([ref.start for ref in planned.refs()])
    return labels[np.searchsorted(whole, parts, "right") - 1]
