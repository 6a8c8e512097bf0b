"""Commands that look at a table, a plan or a fit in progress, and write nothing."""

from __future__ import annotations

from click import argument

import streamlearn as sl

from .group import command
from .options import make_model, open_rows, settings_of
from .output import fields_of, report


@command("describe all.parquet --target y", "describe all.parquet --json")
def describe(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: list[str] | None,
    at_risk: tuple[str, list[float]] | None,
    ordinal_steps: list[str] | None,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Read DATA once and say what is in it.

    Types, ranges, missing values, quantiles, levels and classes, and whether the file is sorted by
    class: what to know before a fit.
    """
    dataset = open_rows(data, target, weight, features, at_risk, ordinal_steps)
    with settings_of(memory_budget):
        summary = dataset.summary()
    facts = fields_of(summary)
    facts["columns"] = list(summary.columns)  # a record a column: they are kept as arrays of all
    report(facts, f"{dataset!r}\n\n{summary}", json_output=json_output)


@command("plan all.parquet --target y --memory-budget 256MiB")
def plan(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: list[str] | None,
    at_risk: tuple[str, list[float]] | None,
    ordinal_steps: list[str] | None,
    model_name: str,
    settings: dict[str, object],
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Say what a fit on DATA would cost, before it reads.

    The rows, the reads, and the memory of each phase, term by term.  A plan that does not fit the
    budget is refused with exit code 3 and says what would fit.
    """
    dataset = open_rows(data, target, weight, features, at_risk, ordinal_steps)
    result = sl.plan(make_model(model_name, settings), dataset, memory_budget=memory_budget)
    report(result, str(result), json_output=json_output)


@command("status run1/", run=argument("run"))
def status(run: str, json_output: bool) -> None:
    """Say how far a fit is, from any shell.

    RUN is the folder or URL that was given to fit as --checkpoint.
    """
    from ..engine.watch.status import read_status

    result = read_status(run)
    report(result, str(result), json_output=json_output)
