"""The cost of screening pairs, beside the fit that follows."""

from __future__ import annotations

from ...engine.plan import Needs
from ..costs import needs, sizes
from ..costs.solver_choice import LBFGS, NEWTON, NEWTON_DIM, room_of_matrices
from .reading import MOST_LEVELS, N_BINS, screening_share, tables_nbytes
from .scores import BLOCK

SCREENING = "screening"
"""Name of the read that screens."""
SYSTEM_NBYTES = 3 * 8 * (2 * MOST_LEVELS) ** 2
"""Bytes that the score of one pair takes while it is made."""


def without_pairs(size: sizes.Size) -> sizes.Size:
    """The size of the main effects alone, beside the sample of all."""
    return size._replace(
        dim=size.dim - size.pair_dim,
        pair_dim=0,
        pair_squares=0,
        drawn_rows=sizes.sample_rows(size),
    )


def is_wide(size: sizes.Size) -> bool:
    """Whether the main effects of the sample are fitted without a matrix."""
    return size.dim > NEWTON_DIM or 8 * size.dim**2 > room_of_matrices()


def screening_needs(size: sizes.Size, has_levels: bool) -> list[Needs]:
    """The phases of the screening: the sample's main effects, and the tables of all pairs."""
    main = without_pairs(size)
    (fit,) = needs.needs_of(LBFGS if is_wide(main) else NEWTON, main, 2)
    held = sizes.held_nbytes_of_sample(main)
    n_bins = MOST_LEVELS if has_levels else N_BINS + 1
    tables = tables_nbytes(main.n_columns, n_bins, main.n_outputs)
    scoring = held + tables + tables // 2 + BLOCK * SYSTEM_NBYTES
    share = screening_share(main.n_rows, main.n_columns)
    some = min(1.0, 1.25 * share)  # of a slice a few more may be chosen
    # a copy of the rows, unless all are chosen; coordinates, bins; decisions and what is made of
    # them for one output at a time
    copied = main.row_nbytes if share < 1.0 else 0.0
    row = copied + 5.0 * main.n_columns + 72.0 + 16.0 * main.n_outputs
    return [
        Needs(
            "main effects",
            0,
            driver_bytes=max(fit.driver_bytes, scoring),
            passes=(0, 0),
            on_driver=True,
        ),
        Needs(
            SCREENING,
            tables + 16 * main.n_outputs,
            16.0 + some * row,
            held,
            fit.model_bytes,
            step_bytes=fit.step_bytes,
        ),
    ]
