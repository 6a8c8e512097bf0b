"""Cost of a fit, before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sklearn.base import clone

from ..config import config_context
from ..data.encoding import choose_kinds
from ..data.source import Source
from ..engine.plan import Needs, Plan, make_plan, plan_within
from ..errors import MemoryBudgetError
from ..passes.fold import nbytes_of
from ..passes.sample import sample_nbytes
from ..passes.summary.summary import (
    Summary,
    count_reads,
    most_state_bytes,
    state_nbytes,
    step_nbytes,
    step_nbytes_per_row,
)
from ..solvers.calibration import empty_histograms
from .model import Estimator, HasCosts
from .rows import class_weights, encoding
from .rows.inputs import open_data

SUMMARY = "summary"


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
    before: tuple[Needs, ...] = ()
    if model._encodes:
        kinds = choose_kinds(
            dataset.column_types, dataset.feature_names, model.encoding, dataset.sparse
        )
        before = encoding.needs_before([kind for kind in kinds.values() if kind != "cyclic"])
    before += class_weights.needs_before(model, dataset)
    n_fits = model._n_fits(dataset)
    before = tuple(
        replace(need, passes=(need.passes[0] * n_fits, need.passes[1] * n_fits)) for need in before
    )
    return plan_fit(model, dataset, before)


def plan_fit(model: HasCosts, dataset: Source, before: Sequence[Needs] = ()) -> Plan:
    """The plan of a fit: what comes `before`, the summary, then the family's own phases.

    The summary's state is cut into blocks of columns until it does not keep lanes from running.
    Blocks read only their own columns, so they cost little; lanes would cost every later read.
    """

    def make(budget: int | None) -> Plan:
        own = all_needs(model, dataset)
        of_own = make_plan(dataset, own, budget=budget)
        lanes, budget = of_own.lanes_in_flight, of_own.budget
        moments_only, n_fits = model._moments_only(), model._n_fits(dataset)
        limit = most_state_bytes(dataset, moments_only)
        plan: Plan | None = None
        while plan is None or plan.lanes_in_flight < lanes:
            least, most = count_reads(dataset, limit, moments_only)
            summary = Needs(
                SUMMARY,
                state_bytes=state_nbytes(dataset, limit, moments_only),
                step_bytes_per_row=step_nbytes_per_row(dataset),
                step_bytes=step_nbytes(dataset, limit, moments_only),
                driver_bytes=sample_nbytes(dataset, model._sample_rows(dataset)),
                # once more for what is missing, which makes features
                passes=(least * n_fits, most * (1 + model._encodes) * n_fits),
            )
            finer = state_nbytes(dataset, summary.state_bytes // 2, moments_only)
            last = finer >= summary.state_bytes
            try:
                plan = make_plan(dataset, [*before, summary, *own], budget=budget)
            except MemoryBudgetError:
                if last:
                    raise
            if last:
                break
            limit = summary.state_bytes // 2
        assert plan is not None  # the last block raises
        return plan

    return plan_within(make)


def all_needs(model: HasCosts, dataset: Source, summary: Summary | None = None) -> list[Needs]:
    """Costs of the family's phases, and of the read that calibrates its decisions."""
    return with_calibration(model, model._needs(dataset, summary), summary)


def with_calibration(model: HasCosts, needs: list[Needs], summary: Summary | None) -> list[Needs]:
    """The phases, and the read that calibrates the decisions if there is one."""
    if getattr(model, "calibration", None) is None:
        return needs
    classes = () if summary is None else getattr(model, "classes_", ())
    outputs = 1 if len(classes) <= 2 else len(classes)
    state = nbytes_of(empty_histograms(outputs))
    # decisions, one output's place, bin and weights of each row
    step = 2 * 8.0 * outputs + 64
    return [*needs, Needs("calibration", state, step, state)]


def summary_state_bytes(plan: Plan) -> int:
    """The bytes that the plan allows for one state of the summary."""
    states = dict(plan.terms)[SUMMARY]
    return next(term.each_bytes for term in states if term.label == "state")
