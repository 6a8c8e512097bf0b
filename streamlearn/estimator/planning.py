"""What a fit would cost, before anything is read."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from ..config import parse_bytes
from ..engine.plan import Needs, Plan, make_plan
from ..passes.summary import column_blocks, state_nbytes, step_nbytes_per_row
from .inputs import open_data


def plan(model: Any, data: Any, *, memory_budget: int | float | str | None = None) -> Plan:
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
    """
    model = clone(model)
    model._validate_params()
    dataset = open_data(model, data)
    budget = None if memory_budget is None else parse_bytes(memory_budget)
    return make_plan(dataset, needs_of(model, dataset), budget=budget)


def needs_of(model: Any, dataset: Any, summary: Any = None) -> list[Needs]:
    """What the summary and the family's own phases ask of memory and disk."""
    reads = len(column_blocks(dataset))
    first = Needs(
        "summary",
        state_bytes=state_nbytes(dataset),
        step_bytes_per_row=step_nbytes_per_row(dataset),
        passes=(reads, reads),
    )
    return [first, *model._needs(dataset, summary)]
