"""Cost of a fit, before anything is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from sklearn.base import clone

from ..config import config_context
from ..data.source import Source
from ..engine.plan import Needs, Plan
from ..engine.planning import make_plan, plan_within
from ..errors import MemoryBudgetError
from ..passes.fold import nbytes_of
from ..passes.sample import sample_nbytes
from ..passes.summary.reading import (
    column_blocks,
    count_reads,
    earlier_facts_nbytes,
    facts_nbytes,
    is_stored,
    most_state_bytes,
    state_nbytes,
    step_nbytes,
    step_nbytes_per_row,
)
from ..passes.summary.summary import Summary
from ..solvers.calibration import empty_histograms
from .model import Estimator, HasCosts
from .rows import class_weights, encoding
from .rows.inputs import open_data
from .rows.targets import check_kind

SUMMARY = "summary"
NOT_COUNTED = "how many values the columns of sparse rows have: their facts are not counted yet"
USUAL_READS = 10.0
"""Reads of a fit after its summary, by which more lanes at once are valued: an estimate, as plans
are made before the first of them."""
LEAST_READ = 1 / 32
"""Least cost of a read of few columns, in reads of all, as it opens every file: an estimate."""


def plan(model: Estimator, data: object, *, memory_budget: int | float | str | None = None) -> Plan:
    """Projected memory, reads and bytes of ``model.fit(data)``, from metadata alone.

    Parameters
    ----------
    model : estimator
        Not fitted, not changed.
    data : Dataset, path, array, ...
        Anything `open_dataset` takes.
    memory_budget : int or str, optional
        Bytes such as ``"1GiB"``; default that of `config_context`.

    Returns
    -------
    Plan
        Prints as a table.

    Raises
    ------
    MemoryBudgetError
        If the budget cannot be kept; says what would fit.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveClassifier, plan
    >>> needed = plan(AdditiveClassifier(), np.zeros((1000, 3)), memory_budget="64MiB")
    >>> needed.budget, needed.peak_bytes < needed.budget
    (67108864, True)
    """
    if memory_budget is not None:
        with config_context(memory_budget=memory_budget):
            return plan(model, data)
    model = clone(model)
    model._validate_params()
    dataset = open_data(data)
    check_kind(model, dataset)
    before: tuple[Needs, ...] = ()
    if model._encodes or model._accepts_levels:
        kinds = encoding.kinds_of(model, dataset)
        before = encoding.needs_before([kind for kind in kinds.values() if kind != "cyclic"])
        dataset = encoding.known_features(model, dataset, kinds)
    before += class_weights.needs_before(model, dataset)
    fewest, most = model._n_fits(dataset)
    before = tuple(
        replace(need, passes=(need.passes[0] * fewest, need.passes[1] * most)) for need in before
    )
    return plan_fit(model, dataset, before)


def plan_fit(model: HasCosts, dataset: Source, before: Sequence[Needs] = ()) -> Plan:
    """The plan of a fit: what comes `before`, the summary, then the family's own phases.

    The summary's state is cut into blocks of columns where more lanes at once, for all reads after
    it, repay the reads that the blocks take.  Slices are those of the fewest blocks that fit at
    all: they decide bits, and so must not follow the number of threads.
    """

    def make(budget: int | None) -> Plan:
        own = all_needs(model, dataset)
        of_own = make_plan(dataset, own, budget=budget)
        source, best, cost, halved = dataset, of_own, inf, 0
        for summary, reads, is_last in _summaries(model, dataset):
            try:
                plan = make_plan(source, [*before, summary, *own], budget=of_own.budget)
            except MemoryBudgetError:
                if is_last and cost == inf:
                    raise
                continue
            if cost == inf and plan.slices_halved and plan.slice_rows is not None:
                source, halved = dataset.with_slice_rows(plan.slice_rows), plan.slices_halved
            if (own_cost := (reads + USUAL_READS) / plan.lanes_in_flight) < cost:
                best, cost = replace(plan, slices_halved=halved), own_cost
            if plan.lanes_in_flight >= of_own.lanes_in_flight:
                break
        return best

    return plan_within(make)


def _summaries(model: HasCosts, dataset: Source) -> Iterator[tuple[Needs, float, bool]]:
    """Needs of the summary, with states from the largest to the least, of ever fewer columns each.

    Beside each its reads, in reads of all columns, and whether it is the last one.
    """
    moments_only, (n_fewest, n_most) = model._moments_only(), model._n_fits(dataset)
    limit, is_last = most_state_bytes(dataset, moments_only), False
    while not is_last:
        least, most = count_reads(dataset, limit, moments_only)
        # once more for what is missing, which makes features
        passes = least * n_fewest, most * (1 + model._encodes) * n_most
        summary = replace(summary_needs(model, dataset, limit), passes=passes)
        share = 1.0
        if least > 1 and dataset.stored_nbytes:
            block = column_blocks(dataset, limit, moments_only)[0]
            share = dataset.with_columns(block).stored_nbytes / dataset.stored_nbytes
        limit = summary.state_bytes // 2
        is_last = state_nbytes(dataset, limit, moments_only) >= summary.state_bytes
        yield summary, least * max(share, LEAST_READ), is_last


def summary_needs(model: HasCosts, dataset: Source, limit: int) -> Needs:
    """Costs of the summary with states of so many bytes."""
    moments_only = model._moments_only()
    return Needs(
        SUMMARY,
        state_bytes=state_nbytes(dataset, limit, moments_only),
        step_bytes_per_row=step_nbytes_per_row(dataset),
        step_bytes=step_nbytes(dataset, limit, moments_only),
        driver_bytes=sample_nbytes(dataset, model._sample_rows(dataset)),
        facts_bytes=earlier_facts_nbytes(dataset, limit, moments_only),
    )


def all_needs(model: HasCosts, dataset: Source, summary: Summary | None = None) -> list[Needs]:
    """Costs of the phases after the summary: the family's own, and the read that calibrates."""
    needs = model._needs(dataset, summary)
    if summary is None:
        needs = beside_facts(needs, facts_nbytes(dataset, model._moments_only()))
        if is_stored(dataset, model._moments_only()):
            needs = [replace(need, note=need.note or NOT_COUNTED) for need in needs]
    return after_summary(model, needs, summary)


def after_summary(model: HasCosts, needs: list[Needs], summary: Summary | None) -> list[Needs]:
    """The phases beside the facts of the columns, with the read that calibrates the decisions."""
    if summary is not None:
        needs = beside_facts(needs, summary.columns.nbytes)
    if getattr(model, "calibration", None) is None:
        return needs
    classes = () if summary is None else getattr(model, "classes_", ())
    outputs = 1 if len(classes) <= 2 else len(classes)
    state = nbytes_of(empty_histograms(outputs))
    # decisions, one output's place, bin and weights of each row
    step = 2 * 8.0 * outputs + 64
    facts = max(need.facts_bytes for need in needs)
    return [*needs, Needs("calibration", state, step, state, facts_bytes=facts)]


def beside_facts(needs: Sequence[Needs], nbytes: int) -> list[Needs]:
    """The phases while the driver holds facts of so many bytes, those of the columns."""
    return [replace(need, facts_bytes=need.facts_bytes + nbytes) for need in needs]


def summary_state_bytes(plan: Plan) -> int:
    """The bytes that the plan allows for one state of the summary."""
    states = dict(plan.terms)[SUMMARY]
    return next(term.each_bytes for term in states if term.label == "state")
