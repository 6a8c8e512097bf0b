"""The making of a plan: slices and lanes within the budget, its refusal, the plan of a resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import ceil, log2
from typing import Any, NamedTuple

from ..config import config_context, format_bytes, get_config
from ..data.files.record_types import check_types
from ..data.row_ranges import Refs
from ..data.source import Source
from ..errors import CheckpointError, MemoryBudgetError
from .checkpoint.store import Checkpoint
from .executor import count_threads
from .lanes import count_lanes
from .memory import available_bytes
from .plan import Needs, Plan, Term, total_nbytes
from .scratch.folder import lies_in_memory, scratch_allowed, scratch_root

RESERVE_BYTES = 10 << 20
"""Pages of libraries that a fit touches first (5 MiB), thread stacks, the allocator's slack."""
MIN_SLICE_ROWS = 256
MIB = 1 << 20
NOT_COUNTED = "how many steps rows enter: it is counted as all of them"
MOST_TRIED, GROWTH = 40, 1.1
"""Budgets that a refused plan is tried with until one is enough, and the least factor between."""
CHOSEN_BYTES = 256 << 20
"""Memory for rows of a fold's choice when no budget is set; never what happens to be free."""


class Counted(NamedTuple):
    """Counts of the rows that a source gave, some being left out: a plan before it counts them all.

    It changes bytes, and through them what runs at once and stays in memory, but no slice that is
    read already.
    """

    n_rows: int
    most_rows: int | None
    """Rows of the largest chunk, and so of one of half a slice; None: nothing is known of them."""


def make_plan(
    source: Source,
    needs: Sequence[Needs],
    *,
    budget: int | None = None,
    threads: int | None = None,
    counted: Counted | None = None,
) -> Plan:
    """The plan that runs most lanes at once within the budget.

    If not even one lane fits, slices are halved until one does, which is recorded.

    Parameters
    ----------
    source : Source
        What the reads go over.
    needs : sequence of Needs
        One per phase; the peak is that of the largest.
    budget : int, optional
        Bytes; default the configured budget, else a quarter of the memory that is available.
    threads : int, optional
        Most lanes a process could run at once; default dask's.
    counted : Counted, optional
        What a read of the source has counted; default: no row is left out.

    Raises
    ------
    MemoryBudgetError
        With the sum, and what budget would fit.
    """
    config = get_config()
    budget = budget or config.memory_budget or available_bytes() // 4
    threads = threads or count_threads(config.scheduler)
    halved = 0
    smallest: Plan | None = None
    while True:
        refs = Refs.of(source.refs())
        most = max(1, min(threads, count_lanes(refs)))
        alone = _plan(source, refs, needs, 1, budget, halved, counted=counted)
        if smallest is None or alone.peak_bytes < smallest.peak_bytes:
            smallest = alone
        chosen = _chosen_rows(alone, needs, config.memory_budget)
        for lanes_in_flight in range(most, 0, -1):
            plan = alone
            if lanes_in_flight > 1 or chosen:
                plan = _plan(source, refs, needs, lanes_in_flight, budget, halved, chosen, counted)
            if plan.peak_bytes <= budget:
                known = plan.n_rows if source.n_rows is None else source.n_rows
                return _keeping(plan, needs, known if counted is None else counted.n_rows)
        finer = _finer(source)
        if finer is None:
            break
        source, halved = finer, halved + 1
    raise refusal(smallest, in_mebibytes(smallest.peak_bytes))


def refusal(smallest: Plan, enough: int) -> MemoryBudgetError:
    """No plan fits the budget: says what the smallest one needs, and what budget is enough."""
    phase, terms = max(smallest.terms, key=lambda part: total_nbytes(part[1]))
    listed = " + ".join(str(term) for term in terms if term.total_bytes)
    halved = smallest.slices_halved
    slices = f" and slices of {smallest.slice_rows:,} rows" if halved else ""
    return MemoryBudgetError(
        f"Plan needs at least {format_bytes(smallest.peak_bytes)} for {phase!r} with one lane "
        f"at a time{slices} ({listed}) but the budget is {format_bytes(smallest.budget)}; "
        f"raise memory_budget to {enough} MiB",
        smallest,
        enough,
    )


def in_mebibytes(n_bytes: int) -> int:
    """The whole MiB that hold so many bytes: a budget as messages name it."""
    return -(-n_bytes // MIB)


def plan_within(make: Callable[[int | None], Plan], budget: int | None = None) -> Plan:
    """The plan that `make(budget)` gives; a refusal names a budget for which it gave one.

    What phases need may follow the budget set (samples, matrices, the solver), so the sum that one
    refused plan had is not always enough.

    Parameters
    ----------
    make : callable
        ``make(budget)``, a plan that may ask for the budget set; None as in `make_plan`.
    budget : int, optional
        Bytes.

    Raises
    ------
    MemoryBudgetError
        With the sum, and what budget would fit.
    """
    try:
        return make(budget)
    except MemoryBudgetError as refused:
        smallest, enough = refused.plan, refused.enough
        if not isinstance(smallest, Plan) or enough is None:  # none that would do is known
            raise
        for _ in range(MOST_TRIED):
            try:
                with config_context(memory_budget=enough * MIB):
                    make(enough * MIB)
            except MemoryBudgetError as larger:
                grown = in_mebibytes(int(GROWTH * enough * MIB))
                enough = max(larger.enough or 0, grown)
            else:
                break
        raise refusal(smallest, enough) from None


def _chosen_rows(plan: Plan, needs: Sequence[Needs], budget_set: int | None) -> int:
    """Rows for which every phase that holds them has room beside one lane.

    They decide bits.  So without a budget their memory is fixed, unless not even that is there.
    """
    rooms = [
        int(
            min(plan.budget - total_nbytes(terms), plan.budget if budget_set else CHOSEN_BYTES)
            / each
        )
        for need, (_, terms) in zip(needs, plan.terms, strict=True)
        if (each := need.chosen_bytes_per_row + need.carried_bytes_per_row)
    ]
    return max(min([plan.n_rows, *rooms]), 0) if rooms else 0


def _finer(source: Source) -> Source | None:
    """The source read in slices of half as many rows; None if that cannot be or would not help."""
    rows = source.slice_rows
    if rows is None or rows // 2 < MIN_SLICE_ROWS:
        return None
    return source.with_slice_rows(rows // 2)


def with_counts(plan: Plan, source: Source, need: Needs, counted: Counted) -> Plan:
    """The plan, the phase of `need`, which lies behind, by what its read has counted."""
    refs = Refs.of(source.refs())
    found = _plan(source, refs, [need], plan.lanes_in_flight, plan.budget, 0, counted=counted)
    terms = tuple((name, dict(found.terms).get(name, part)) for name, part in plan.terms)
    return replace(
        plan, terms=terms, peak_bytes=max((total_nbytes(part) for _, part in terms), default=0)
    )


def plan_of_resume(checkpoint: Checkpoint, now: Plan) -> Plan:
    """The plan a run goes by: the one its checkpoint keeps, as slices and lanes decide bits.

    If it does not fit the budget of today, today's plan serves, provided it cuts the same slices.
    """
    if checkpoint.is_new:
        checkpoint.manifest["plan"] = asdict(now)
        checkpoint.commit()
        return now
    try:
        kept = _plan_of(checkpoint.manifest["plan"])
    except (ValueError, TypeError, LookupError) as error:
        raise CheckpointError(
            f"the plan of checkpoint {checkpoint.place} is none that a fit writes ({error}); "
            "remove it to start anew"
        ) from error
    if kept.peak_bytes <= now.budget:
        return kept
    if (kept.slice_rows, kept.n_lanes) == (now.slice_rows, now.n_lanes):
        return now
    raise MemoryBudgetError(
        f"checkpoint {checkpoint.place} was begun with slices of {kept.slice_rows} rows in "
        f"{kept.n_lanes} lanes, which need {format_bytes(kept.peak_bytes)} to go on, but the "
        f"budget is now {format_bytes(now.budget)}, which would cut slices of {now.slice_rows} "
        f"rows and change the result; raise memory_budget to "
        f"{in_mebibytes(kept.peak_bytes)} MiB, or remove the checkpoint"
    )


def _plan_of(facts: Mapping[str, Any] | None) -> Plan:
    """The plan that a manifest describes; ValueError, TypeError or KeyError if it is none."""
    if facts is None:
        raise ValueError("there is none")
    terms = tuple((name, tuple(Term(*term) for term in terms)) for name, terms in facts["terms"])
    kept = Plan(**{**facts, "terms": terms, "passes": tuple(facts["passes"])})
    check_types(kept)
    for _, summands in terms:
        for term in summands:
            check_types(term)
    smallest = 1 if kept.slice_rows is None else kept.slice_rows
    if min(kept.n_rows, kept.n_lanes, kept.peak_bytes, kept.budget) < 0 or smallest < 1:
        raise ValueError("a number of rows or bytes below zero")
    if kept.lanes_in_flight < 1:
        raise ValueError(f"{kept.lanes_in_flight} lanes at once")
    return kept


def _plan(
    source: Source,
    refs: Refs,
    needs: Sequence[Needs],
    lanes_in_flight: int,
    budget: int,
    halved: int,
    chosen: int = 0,
    counted: Counted | None = None,
) -> Plan:
    n_lanes = count_lanes(refs)
    n_rows = int(refs.stops[-1]) if refs else 0
    counted = counted or Counted(n_rows, None)
    disk = _disk_bytes(needs, n_rows)
    on_tmpfs = disk if disk and scratch_allowed() and lies_in_memory(scratch_root()) else 0
    shared = source.shared_nbytes
    largest = _largest_chunk(source, refs, counted)

    def terms_of(need: Needs, at_once: int) -> tuple[Term, ...]:
        return (
            *_terms(need, refs, largest, n_lanes, at_once, on_tmpfs, shared),
            *_chosen_terms(need, chosen, _count_partitions(need, refs), at_once),
        )

    def at_once(need: Needs) -> int:
        """Tasks of the phase that run at once; it changes no bits, so partitions may be fewer."""
        n = min(lanes_in_flight, _count_partitions(need, refs)) if need.group else lanes_in_flight
        while n > 1 and need.group and total_nbytes(terms_of(need, n)) > budget:
            n -= 1
        return n

    notes = [need.note for need in needs]
    if source.left_out_nbytes and counted.most_rows is None:
        notes.append(NOT_COUNTED)
    terms = tuple((need.name, terms_of(need, at_once(need))) for need in needs)
    parts = max(((_count_partitions(need, refs), at_once(need)) for need in needs), default=(1, 1))
    return Plan(
        n_rows=n_rows,
        n_lanes=n_lanes,
        lanes_in_flight=lanes_in_flight,
        slice_rows=source.slice_rows,
        peak_bytes=max((total_nbytes(part) for _, part in terms), default=0),
        budget=budget,
        terms=terms,
        bytes_per_pass=source.stored_nbytes,
        disk_bytes=disk,
        passes=(sum(need.passes[0] for need in needs), sum(need.passes[1] for need in needs)),
        slices_halved=halved,
        chosen_rows=chosen,
        partitions=parts[0],
        partitions_at_once=parts[1] if parts[0] > 1 else 1,
        note="; ".join(dict.fromkeys(note for note in notes if note)),
        decided="; ".join(dict.fromkeys(need.decided for need in needs if need.decided)),
    )


def _count_partitions(need: Needs, refs: Refs) -> int:
    """Partitions of a phase's reads; each has a group at least."""
    return max(min(need.partitions, -(-len(refs) // need.group)), 1) if need.group else 1


def _chosen_terms(need: Needs, n_rows: int, partitions: int, at_once: int) -> tuple[Term, ...]:
    at_once = min(at_once, partitions)
    terms = (
        Term("chosen rows", at_once, int(-(-n_rows // partitions) * need.chosen_bytes_per_row)),
        Term("carried rows", 1, int(n_rows * need.carried_bytes_per_row)),
    )
    return tuple(term for term in terms if term.each_bytes)


def _largest_chunk(source: Source, refs: Refs, counted: Counted) -> tuple[int, int]:
    """Rows of the largest chunk, and the bytes of a reader with it."""
    n_rows, nbytes = int(refs.sizes.max(initial=0)), int(refs.nbytes.max(initial=0))
    nbytes += source.overhead_nbytes
    left_out = 0 if counted.most_rows is None else max(n_rows - counted.most_rows, 0)
    return n_rows - left_out, max(nbytes - left_out * source.left_out_nbytes, 0)


def _keeping(plan: Plan, needs: Sequence[Needs], n_rows: int) -> Plan:
    """The plan with the rows that may be kept, if the budget has ample room for them too.

    Without them a plan seldom fills its budget, and what allocators keep of reads of words finds
    room (measured: twice the reserve, beside fits that take turns); kept rows must leave it some.
    """
    kept = [int(n_rows * need.cached_bytes_per_row) + need.cached_bytes for need in needs]
    terms = tuple(
        (name, (*part, Term("cached rows", 1, nbytes)))
        for (name, part), nbytes in zip(plan.terms, kept, strict=True)
    )
    peak = max((total_nbytes(part) for _, part in terms), default=0)
    if not any(kept) or peak + RESERVE_BYTES > plan.budget:
        return plan
    return replace(plan, terms=terms, peak_bytes=peak, keeps_rows=True)


def _terms(
    need: Needs,
    refs: Refs,
    largest: tuple[int, int],
    n_lanes: int,
    at_once: int,
    on_tmpfs: int,
    shared: int,
) -> tuple[Term, ...]:
    """The sum of architecture's law: states, slices with their temporaries, driver, model."""
    n_rows, slice_bytes = largest
    row_state = int(refs.sizes.max(initial=0) * need.row_state_bytes)
    fixed = (
        Term("driver", 1, need.driver_bytes),
        Term("model", 1, need.model_bytes),
        Term("facts", 1, need.facts_bytes),
        Term("scratch in memory", 1, on_tmpfs),
        Term("file metadata", 1, shared),
        Term("reserve", 1, RESERVE_BYTES),
    )
    if need.on_driver:
        return fixed
    if need.group:  # a task has two group buffers: one being computed, one being read
        group = min(need.group, len(refs))
        group_bytes = group * (int(refs.nbytes.max(initial=0)) + row_state)
        step_bytes = int(group * n_rows * need.step_bytes_per_row) + need.step_bytes
        waiting = ceil(log2(need.partitions)) if need.partitions > 1 else 0
        return (
            Term("state", 2 * at_once + waiting, need.state_bytes),
            Term("group", 2 * at_once, group_bytes),
            Term("slice", at_once, slice_bytes),
            Term("step", at_once, step_bytes),
            *fixed,
        )
    states = at_once + ceil(log2(max(n_lanes, 1))) + 1
    if need.in_order:  # what the last chunk left, while that of the next is made
        at_once, states = 1, 2
    return (
        Term("state", states, need.state_bytes),
        Term("slice", at_once, slice_bytes),
        Term("step", at_once, int(n_rows * need.step_bytes_per_row) + row_state + need.step_bytes),
        *fixed,
    )


def _disk_bytes(needs: Sequence[Needs], n_rows: int) -> int:
    """The scratch cache, which lasts to the end of the fit, and two generations of row state."""
    cache = max((need.scratch_bytes_per_row for need in needs), default=0)
    row_state = max((need.row_state_bytes for need in needs), default=0)
    return int(n_rows * (cache + 2 * row_state))
