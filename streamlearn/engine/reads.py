"""Reads of a dataset outside a fit: planned like those of a fit, or here and now where rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..data.choice import Chosen
from ..data.source import Source
from ..passes.fold import Fold, Reads, Result, State, read_all, run_fold
from .plan import Needs
from .planning import make_plan
from .run import Run
from .scratch.materialise import lies_here, materialised


class ReadsHere:
    """Reads in this thread, a chunk after the other, in row order; of rows that are in memory."""

    def __init__(self, dataset: Source) -> None:
        self._dataset = dataset

    def fold(self, fold: Fold[State, Result], source: Source | None = None, *, name: str) -> Result:
        """The fold over all rows; `name` is what a planned read would be called."""
        return run_fold(fold, read_all(self._dataset if source is None else source))


@contextmanager
def planned_reads(
    dataset: Chosen, needs: Callable[[Source], Sequence[Needs]], name: str
) -> Iterator[tuple[Chosen, Reads]]:
    """The dataset as it can be read again and again, and what reads it within the budget.

    Parameters
    ----------
    dataset : Dataset
    needs : callable
        ``needs(dataset)``, what the reads cost, asked once the number of rows is known; a
        dataset in memory is read without a plan.
    name : str
        Tasks and refusals are named by it.

    Raises
    ------
    MemoryBudgetError
        If not even one lane in the finest slices fits.
    """
    if lies_here(dataset):
        yield dataset, ReadsHere(dataset)
        return
    with materialised(dataset) as dataset:
        plan = make_plan(dataset, needs(dataset))
        with Run(dataset, plan, name=name, identity={}) as run:
            yield dataset, run
