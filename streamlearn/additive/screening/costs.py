"""The cost of screening pairs, beside the fit that follows."""

from __future__ import annotations

from ...engine.plan import Needs
from .. import costs as needs
from .reading import MOST_LEVELS, N_BINS, screening_share, tables_nbytes
from .scores import BLOCK

SYSTEM_NBYTES = 3 * 8 * (2 * MOST_LEVELS) ** 2
"""Bytes that the score of one pair takes while it is made."""


def without_pairs(size: needs.Size) -> needs.Size:
    """The size of the main effects alone."""
    return size._replace(dim=size.dim - size.pair_dim, pair_dim=0, pair_squares=0)


def is_wide(size: needs.Size) -> bool:
    """Whether the main effects of the sample are fitted without a matrix."""
    return size.dim > needs.NEWTON_DIM or 8 * size.dim**2 > needs.room_of_matrices()


def screening_needs(size: needs.Size, has_levels: bool) -> Needs:
    """The phase of the screening: the sample's main effects, and the tables of all pairs."""
    main = without_pairs(size)
    (fit,) = needs.needs_of(needs.LBFGS if is_wide(main) else needs.NEWTON, main, 2)
    n_bins = MOST_LEVELS if has_levels else N_BINS + 1
    tables = tables_nbytes(main.n_columns, n_bins, main.n_outputs)
    some = min(1.0, 2.0 * screening_share(main.n_rows, main.n_columns))
    row = main.row_nbytes + 5.0 * main.n_columns + 96.0 + 40.0 * main.n_outputs
    return Needs(
        "screening",
        tables + 16 * main.n_outputs,
        16.0 + some * row,
        fit.driver_bytes + BLOCK * SYSTEM_NBYTES + tables // 2,
        fit.model_bytes,
        step_bytes=fit.step_bytes,
    )
