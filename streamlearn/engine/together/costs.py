"""Memory of fits that take turns, by their plans, and the plan of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2

from ...data.source import Source
from ...errors import MemoryBudgetError
from ..plan import Needs, Plan, Term
from ..planning import RESERVE_BYTES, make_plan

BETWEEN_READS = ("driver", "model", "facts", "cached rows", "chosen rows", "carried rows")
"""Terms of a plan that a fit holds while others read."""
SLICE = "slice"
"""Term of every phase that reads."""


def held_bytes(plan: Plan) -> int:
    """Bytes that a fit of this plan holds while it waits for a read, at most.

    Work between reads, during which no slice is in memory, is of one fit at a time.
    """
    return max((_held(terms) for terms in _reading(plan)), default=0)


def _reading(plan: Plan) -> list[tuple[Term, ...]]:
    """The terms of the phases that read."""
    return [terms for _, terms in plan.terms if any(term.label == SLICE for term in terms)]


def _held(terms: Sequence[Term]) -> int:
    return sum(term.total_bytes for term in terms if term.label in BETWEEN_READS)


def _each(terms: Sequence[Term], label: str) -> int:
    return max((term.each_bytes for term in terms if term.label == label), default=0)


def together_bytes(plans: Sequence[Plan], at_once: int, chunk_bytes: int) -> int:
    """Bytes that a read for fits of these plans takes beside what they hold between reads.

    `chunk_bytes`: of the largest chunk, of which each fit in turn is given a copy.
    """

    def most(plan: Plan, label: str) -> int:
        return max((_each(terms, label) for _, terms in plan.terms), default=0)

    n_states = at_once + ceil(log2(max(plans[0].n_lanes, 1))) + 1
    # a fit is in one phase, with the states of this phase and what it holds in it
    states = 0
    for plan in plans:
        with_held = [n_states * _each(terms, "state") + _held(terms) for terms in _reading(plan)]
        states += max(with_held, default=0) - held_bytes(plan)
    steps = max(most(plan, "slice") + most(plan, "step") for plan in plans)
    chunks = at_once * (steps + chunk_bytes)
    fixed = max(most(plan, "file metadata") + most(plan, "scratch in memory") for plan in plans)
    return states + chunks + fixed + RESERVE_BYTES


def needs_together(
    needs: Sequence[Needs], dataset: Source, most: int, summary_bytes: int, facts_bytes: int
) -> list[Needs]:
    """The phases of as many fits at a time as the budget has room for, `most` at most.

    More fits never make slices finer than those of one: slices decide bits.  A phase beside them
    counts the reads that serve all fits, whatever phase each is in; `summary_bytes`: of a state of
    the summary, which is none of `needs`; `facts_bytes`: of what it finds, which each fit holds.
    """
    alone = list(needs)
    row_nbytes = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1)
    largest = _largest(alone, summary_bytes, row_nbytes)
    largest = replace(largest, facts_bytes=facts_bytes)
    for n in range(most, 1, -1):
        found = [
            *(_beside(need, largest, n - 1) for need in alone),
            _beside(largest, largest, n - 1),
        ]
        found[-1] = replace(found[-1], state_bytes=n * largest.state_bytes)
        try:
            if not make_plan(dataset, found).slices_halved:
                return found
        except MemoryBudgetError:
            pass
    return alone


def _largest(needs: Sequence[Needs], summary_bytes: int, row_nbytes: float) -> Needs:
    """The most of each kind that a shared read, or a fit between reads, needs of one fit."""
    needs = [need for need in needs if not need.on_driver]
    return Needs(
        "splits",
        state_bytes=max(summary_bytes, *(need.state_bytes for need in needs)),
        # the fit's own rows of the chunk beside it
        step_bytes_per_row=row_nbytes
        + max(need.step_bytes_per_row + need.row_state_bytes for need in needs),
        driver_bytes=max(need.driver_bytes for need in needs),
        model_bytes=max(need.model_bytes for need in needs),
        passes=(0, 0),
        step_bytes=max(need.step_bytes for need in needs),
        cached_bytes_per_row=max(need.cached_bytes_per_row for need in needs),
        cached_bytes=max(need.cached_bytes for need in needs),
        chosen_bytes_per_row=max(need.chosen_bytes_per_row for need in needs),
        carried_bytes_per_row=max(need.carried_bytes_per_row for need in needs),
    )


def _beside(need: Needs, largest: Needs, n: int) -> Needs:
    """A phase of one fit while `n` others hold what they need between reads."""
    return replace(
        need,
        driver_bytes=need.driver_bytes + n * largest.driver_bytes,
        model_bytes=need.model_bytes + n * largest.model_bytes,
        facts_bytes=need.facts_bytes + n * largest.facts_bytes,
        scratch_bytes_per_row=(n + 1) * need.scratch_bytes_per_row,
        cached_bytes_per_row=need.cached_bytes_per_row + n * largest.cached_bytes_per_row,
        cached_bytes=need.cached_bytes + n * largest.cached_bytes,
        chosen_bytes_per_row=need.chosen_bytes_per_row + n * largest.chosen_bytes_per_row,
        carried_bytes_per_row=need.carried_bytes_per_row + n * largest.carried_bytes_per_row,
    )
