"""The memory, disk and reads that each phase of a fit needs, by its solver and its size."""

from __future__ import annotations

from dataclasses import replace

from ...engine.plan import Needs
from ...numeric.bases.registry import make_basis
from ...passes.fold import nbytes_of
from ...passes.summary.summary import Summary
from ...solvers.lbfgs import PAIRS
from ..basis.functions import tile_nbytes
from ..basis.kernels import empty_sums
from ..basis.pair_terms import pass_nbytes
from ..basis.resolution import CURVATURE_NBYTES
from ..basis.written import WRITTEN_DIM, written_nbytes
from ..dual.descent import GROUP, empty_certificate
from ..dual.partitions import count_partitions
from ..newton.blocks import blocks_nbytes
from ..newton.curvature import empty_grams, empty_mass
from ..newton.parts import parts_nbytes
from ..pairs import Parameters
from . import sizes
from .solver_choice import DUAL, LBFGS, NEWTON, PEGASOS

GROWN_NBYTES = CURVATURE_NBYTES
"""Largest state of a Newton read that sums up the curvature of rows outside the sample."""
COLD_NBYTES = 6 << 20
"""Kernels that `warm` leaves out, being for bases other than splines."""
PENALTY_MATRICES = 3
"""Matrices of each pair that a problem carries: its penalty, inverse and factor."""
CACHED_ROW_NBYTES = 64
"""Bytes of a cached row of dual-cd: target, weight, norms, places in the orders of visits."""


def may_grow(n_outputs: int, dim: int) -> bool:
    """Whether lanes may sum up curvature: a function of the problem alone, as it decides bits."""
    return 8 * n_outputs * dim**2 <= GROWN_NBYTES


def grown_nbytes(size: sizes.Size) -> int:
    """Bytes of the curvature that lanes may sum up; a bound of the size may prove to allow it."""
    if may_grow(size.n_outputs, size.dim):
        return nbytes_of(empty_grams(size.n_outputs, size.dim))
    return GROWN_NBYTES + 16 * size.n_outputs * size.dim if size.is_bound else 0


def needs_of(solver: str, size: sizes.Size, max_passes: int) -> list[Needs]:
    """The phases of a fit after the summary."""
    dim, K = size.dim, size.n_outputs
    model, matrix = 3 * 8 * K * dim, 8 * dim**2
    sums = nbytes_of(empty_sums(K, dim))
    step = 3 * sums  # a chunk's own sums, point and forces
    per_row = 48.0 + 24 * K  # targets, weights, decisions, probabilities, slopes
    if solver == "gram":
        state = sums + nbytes_of(empty_grams(K, dim))
        return [Needs("gram", state, per_row, matrix, model, step_bytes=step)]
    if solver in (NEWTON, LBFGS):
        rows = min(sizes.sample_rows(size), size.n_rows)
        sample = sizes.held_nbytes_of_sample(size) + sizes.work_nbytes_of_sample(size)
        pairs = 2 * PAIRS * 8 * K * (dim + 1)
        held = 0
        if solver == NEWTON:
            held = matrix
        else:  # products with the sample: vectors as long as the problem, and as its rows
            pairs += 8 * 8 * K * (dim + 1) + parts_nbytes(rows, K * (dim + 1))
            pairs += blocks_nbytes(dim)
            sample += 3 * 8 * K * rows
        grown = 0
        if solver == NEWTON:
            grown = grown_nbytes(size)
        state = sums + max(grown, nbytes_of(empty_mass(K, dim)))
        passes = (1, max_passes - 1)
        driver = sample + pairs + held + grown
        copied = sizes.copied_nbytes(size)
        disk = copied + 16 if copied else 0
        again = size.n_rows > rows and not (copied or size.in_memory or size.sparse)
        return [
            Needs(
                solver,
                state,
                per_row + copied,
                driver,
                model,
                scratch_bytes_per_row=disk,
                passes=passes,
                step_bytes=step,
                cached_bytes_per_row=size.row_nbytes + size.label_nbytes if again else 0,
            )
        ]
    if solver == PEGASOS:
        return [
            Needs(
                PEGASOS,
                (2 * 3 + 4) * 8 * K * (dim + 8),
                per_row + 24,
                0,
                model,
                group=GROUP,
                passes=(1, max_passes - 1),
            ),
            Needs("certificate", sums, per_row, 0, model, step_bytes=step),
        ]
    if solver == DUAL and sizes.holds_rows(size):
        return [
            Needs(DUAL, 0, per_row + 2 * size.row_nbytes, sizes.held_nbytes(size) + sums, model)
        ]
    width = 4 * K * size.loss.dual_rule().n_variables
    visited = 24 * K + size.copied_by_output
    u = size.coordinates_nbytes
    cached = 0 if size.in_memory else u + 16
    changed = 8.0 + width  # number and dual variables of a cached row
    partitions = count_partitions(u * size.n_rows)
    return [
        Needs("cache", 0, 2.0 * u + 16, 0, 0, scratch_bytes_per_row=cached, passes=(0, 1)),
        Needs(
            DUAL,
            2 * 8 * K * (dim + 8),
            per_row + u + size.copied_by_output,
            0,
            model,
            row_state_bytes=width,
            group=GROUP,
            scratch_bytes_per_row=cached,
            passes=(1, max_passes - 2),
            chosen_bytes_per_row=u + CACHED_ROW_NBYTES + visited,
            carried_bytes_per_row=(2 if partitions == 1 else 3) * changed,
            partitions=partitions,
        ),
        Needs(
            "certificate",
            nbytes_of(empty_certificate(K, dim)),
            per_row + 16,
            0,
            model,
            row_state_bytes=width,
            step_bytes=step,
            chosen_bytes_per_row=changed,
        ),
    ]


def with_temporaries(
    phases: list[Needs],
    model: Parameters,
    size: sizes.Size,
    summary: Summary | None,
    *,
    pairs: bool,
    alone: bool = True,
) -> list[Needs]:
    """The phases with what bases other than splines, `pairs`, and missing values take beside.

    `alone`: not with other fits in the same reads, which leave the functions of sparse rows
    unwritten.
    """
    local = make_basis(model.basis).local and not pairs
    compressed = size.sparse and not pairs
    tile = 0 if local and not size.sparse else tile_nbytes(size.dim, compressed=compressed)
    cold = 0 if local else COLD_NBYTES
    copied = 0.0
    if summary is not None and (summary.columns.missing > 0).any():
        copied = size.row_nbytes  # a chunk with its missing values marked; the sample alike
    sample = int(copied * min(sizes.sample_rows(size), size.n_rows))
    written = 0
    if alone and compressed and local:
        rows_nbytes = size.row_nbytes * min(sizes.sample_rows(size), size.n_rows)
        # the summary may find fewer coefficients, which leave the room of a larger matrix
        dim = size.dim if summary is not None else min(size.dim, WRITTEN_DIM)
        taken = written_nbytes(rows_nbytes, dim, model.degree)
        written = max(taken - 8 * (size.dim**2 - dim**2), 0)
    penalties = 8 * size.pair_squares
    # epochs visit explicit functions; all other passes look up pairs, and `warm` loads what does so
    looked_up = pass_nbytes(size.n_columns, size.pair_dim, size.n_outputs), 0
    beside = {
        phase.name: (tile, cold) if not pairs or phase.name in (DUAL, PEGASOS) else looked_up
        for phase in phases
    }
    return [
        replace(
            phase,
            step_bytes=phase.step_bytes
            + beside[phase.name][0]
            + (penalties if phase.name == DUAL else 0),
            model_bytes=phase.model_bytes
            + PENALTY_MATRICES * penalties * (2 if phase.partitions > 1 else 1),
            step_bytes_per_row=phase.step_bytes_per_row + copied,
            driver_bytes=phase.driver_bytes
            + beside[phase.name][1]
            # products without a matrix take rows as they are
            + (written if phase.name == NEWTON else 0)
            + (sample + tile if phase.driver_bytes else 0),
        )
        for phase in phases
    ]
