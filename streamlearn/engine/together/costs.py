"""Memory of fits that take turns, by their plans, and the plan of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2

from ...data.source import Source
from ...errors import MemoryBudgetError
from ..plan import Needs, Plan
from ..planning import RESERVE_BYTES, make_plan

BETWEEN_READS = ("driver", "model", "cached rows", "chosen rows", "carried rows")
"""Terms of a plan that a fit holds while others read."""


def held_bytes(plan: Plan) -> int:
    """Bytes that a fit of this plan holds between its reads, at most."""
    return max(
        sum(term.total_bytes for term in terms if term.label in BETWEEN_READS)
        for _, terms in plan.terms
    )


def together_bytes(plans: Sequence[Plan], at_once: int) -> int:
    """Bytes that a read for fits of these plans takes beside what they hold between reads."""

    def most(plan: Plan, label: str) -> int:
        every = [term for _, terms in plan.terms for term in terms if term.label == label]
        return max((term.each_bytes for term in every), default=0)

    depth = ceil(log2(max(plans[0].n_lanes, 1))) + 1
    states = sum(most(plan, "state") for plan in plans) * (at_once + depth)
    # the table's chunk, and one fit's at a time, which its step is given
    chunks = at_once * max(2 * most(plan, "slice") + most(plan, "step") for plan in plans)
    fixed = max(most(plan, "file metadata") + most(plan, "scratch in memory") for plan in plans)
    return states + chunks + fixed + RESERVE_BYTES


def needs_together(needs: Sequence[Needs], dataset: Source, most: int) -> list[Needs]:
    """The phases of as many fits at a time as the budget has room for, `most` at most.

    More fits never make slices finer than those of one: slices decide bits.
    """
    alone = list(needs)
    row_nbytes = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1)
    for n in range(most, 1, -1):
        found = [_times(need, n, row_nbytes) for need in alone]
        try:
            if not make_plan(dataset, found).slices_halved:
                return found
        except MemoryBudgetError:
            pass
    return alone


def _times(need: Needs, n: int, row_nbytes: float) -> Needs:
    """The phase of `n` fits, whose steps come one after the other and so do their own reads."""
    return replace(
        need,
        state_bytes=need.state_bytes if need.group else n * need.state_bytes,
        # one fit's rows of the chunk, beside it
        step_bytes_per_row=need.step_bytes_per_row + (0 if need.group else row_nbytes),
        driver_bytes=n * need.driver_bytes,
        model_bytes=n * need.model_bytes,
        scratch_bytes_per_row=n * need.scratch_bytes_per_row,
        cached_bytes_per_row=n * need.cached_bytes_per_row,
        chosen_bytes_per_row=n * need.chosen_bytes_per_row,
        carried_bytes_per_row=n * need.carried_bytes_per_row,
    )
