"""A dataset summarised outside a fit: its string columns' levels, then every column, as planned."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..data.choice import Choice
from ..data.source import Source
from ..errors import MemoryBudgetError
from ..passes.summary.levels import STATE_NBYTES, STEP_NBYTES_PER_ROW, learn_levels
from ..passes.summary.reading import (
    collect_summary,
    earlier_facts_nbytes,
    most_state_bytes,
    state_nbytes,
    step_nbytes,
    step_nbytes_per_row,
)
from ..passes.summary.summary import Summary
from .plan import Needs
from .planning import make_plan
from .reads import planned_reads


def summarise(dataset: Choice) -> Summary:
    """The summary of a dataset: a read of each string column, and one or more of all columns."""
    with planned_reads(dataset, _needs, "summary") as (dataset, reads):
        coded = learn_levels(dataset, read=reads.fold)
        return collect_summary(reads.fold, coded, state_limit(dataset))


def _needs(dataset: Source) -> Sequence[Needs]:
    return [*_levels(dataset), column_needs(dataset, state_limit(dataset))]


def _levels(dataset: Source) -> list[Needs]:
    return [Needs("levels", STATE_NBYTES, STEP_NBYTES_PER_ROW)] if dataset.categorical else []


def column_needs(dataset: Source, limit: int) -> Needs:
    """Cost of the read of all columns."""
    state, row = state_nbytes(dataset, limit), step_nbytes_per_row(dataset)
    earlier = earlier_facts_nbytes(dataset, limit)
    return Needs("summary", state, row, step_bytes=step_nbytes(dataset, limit), facts_bytes=earlier)


def state_limit(dataset: Source) -> int:
    """Bytes of a state: halved, for more reads of fewer columns each, until a lane fits."""
    limit, finest = most_state_bytes(dataset), partial(state_nbytes, dataset)
    if dataset.in_memory:
        return limit
    while finest(limit) > finest(limit // 2):
        try:
            make_plan(dataset, [column_needs(dataset, limit)])
        except MemoryBudgetError:
            limit //= 2
        else:
            break
    return limit
