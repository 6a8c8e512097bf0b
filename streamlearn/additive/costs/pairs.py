"""The costs of pairs: what a plan knows before their screening, and what the fit knows after it."""

from __future__ import annotations

from dataclasses import replace

from ...engine.plan import Needs
from ...numeric.bases.pairs import MOST_FUNCTIONS
from ...passes.fold import nbytes_of
from ...passes.summary.summary import Summary
from ..basis.functions import tile_nbytes
from ..objective import Problem
from ..pairs import SCREENED_FUNCTIONS, Parameters, empty_density, most_screened
from . import needs, sizes
from .solver_choice import LBFGS, NEWTON

MADE, COUNTED = "penalties", "pairs"
"""Names of the phases that pairs add: their penalties are made, the rows at their nodes counted."""


def size_with(size: sizes.Size, main: Problem, problem: Problem, drawn_rows: int) -> sizes.Size:
    """The size once the pairs are known: the curves and penalties of `main`, and those of all."""
    return size._replace(
        dim=problem.dim,
        n_outputs=problem.n_outputs,
        pair_dim=problem.dim - main.dim,
        pair_squares=len(problem.roughness.P) - len(main.roughness.P),
        drawn_rows=drawn_rows,
        is_bound=False,
    )


def bound_note(model: Parameters) -> str:
    """Sentence of a plan on pairs that a screening is still to choose; empty if there are none."""
    most = most_screened(model)
    if not most:
        return ""
    return (
        f"a screening takes at most {most} pairs of at most {SCREENED_FUNCTIONS} functions, "
        "counted in full until it has chosen them"
    )


def with_pairs(
    phases: list[Needs],
    model: Parameters,
    size: sizes.Size,
    summary: Summary | None,
    *,
    held: int,
    n_after: int = 0,
    note: str = "",
) -> list[Needs]:
    """The solver's phases with the functions of pairs, between the two that pairs add.

    Penalties are made on the driver before, rows are counted at the nodes after; the last `n_after`
    phases come after that.  `held`: bytes of the sample that stays meanwhile.  `note`: see
    `bound_note`.
    """
    density = nbytes_of(empty_density(size.dim))
    # of the last pair five more matrices, or all once more
    most = 8 * max(needs.PENALTY_MATRICES * size.pair_squares,
                   5 * min(size.pair_squares, MOST_FUNCTIONS**2))  # fmt: skip
    before = Needs(MADE, 0, driver_bytes=held + most, passes=(0, 0), on_driver=True, note=note)
    fewest = int(not most_screened(model))  # a screening may find none
    after = Needs(COUNTED, density, 32.0, 0, density, step_bytes=3 * density, passes=(fewest, 1))
    made = needs.with_temporaries([before], model, size, summary, pairs=False)
    *own, after = needs.with_temporaries([*phases, after], model, size, summary, pairs=True)
    own.insert(len(own) - n_after, replace(after, driver_bytes=after.driver_bytes + held))
    return [*made, *own]


def beside_sample(phases: list[Needs], size: sizes.Size, held: int) -> list[Needs]:
    """The phases of `with_pairs`, with a sample of `held` bytes beside those of any solver.

    The solvers that take directions from it count it themselves, and work on it between their
    reads.
    """
    found = []
    work = sizes.work_nbytes_of_sample(size) + tile_nbytes(size.dim, compressed=False)
    # during a read there is a factor, or the curvature that the read before it summed up
    either = min(8 * size.dim**2, needs.grown_nbytes(size))
    for phase in phases:
        if phase.name in (NEWTON, LBFGS):
            between = replace(
                phase,
                name=f"between {phase.name}",
                scratch_bytes_per_row=0,
                passes=(0, 0),
                on_driver=True,
            )
            gone = work + (either if phase.name == NEWTON else 0)
            found += [between, replace(phase, driver_bytes=phase.driver_bytes - gone)]
        elif phase.name in (MADE, COUNTED):
            found.append(phase)
        else:
            found.append(replace(phase, driver_bytes=phase.driver_bytes + held))
    return found
