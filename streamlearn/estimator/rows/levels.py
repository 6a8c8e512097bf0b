"""String columns of a fit and of what a fitted model is shown: codes of the same levels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from ...data.dask.store import DaskStore
from ...data.dataset import Dataset
from ...data.memory.stream import StreamStore
from ...engine.plan import Needs, Plan
from ...engine.planning import make_plan
from ...engine.run import Run
from ...engine.scratch.materialise import fold_partitions, materialised
from ...errors import MemoryBudgetError
from ...passes.summary.levels import STATE_NBYTES, STEP_NBYTES_PER_ROW, learn_levels
from ..model import Estimator, TakesRows
from . import encoding
from .encoding import Checkpoint

PlanFit = Callable[[Estimator, Dataset, Sequence[Needs]], Plan]
"""``plan_fit(model, dataset, before)``, the plan of what comes before a fit and of the fit."""


def settle_training(
    model: Estimator,
    dataset: Dataset,
    stack: ExitStack,
    checkpoint: Checkpoint = None,
    *,
    plan_fit: PlanFit,
) -> Dataset:
    """The dataset over scratch if need be, its string columns as codes; sets ``levels_``.

    Under a checkpoint the levels are kept in its folder ``levels``.  `plan_fit` is asked where the
    read of the levels is refused, so that the budget named is enough for the fit too.
    """
    learn = encoding.learn_levels if model._encodes else partial(_coded, plan_fit)
    if isinstance(
        dataset.store.base, StreamStore
    ):  # its rows come once: written first, strings too
        dataset = learn(model, stack.enter_context(materialised(dataset)), checkpoint)
    else:
        dataset = stack.enter_context(materialised(learn(model, dataset, checkpoint)))
    model.levels_ = {name: list(words) for name, words in dataset.levels.items()}
    return dataset


def _coded(
    plan_fit: PlanFit, model: Estimator, dataset: Dataset, checkpoint: Checkpoint
) -> Dataset:
    """One read of each string column, and no other: its levels."""
    if not dataset.categorical:
        return dataset
    if not model._accepts_levels:
        listed = ", ".join(map(repr, dataset.categorical[:5]))
        raise ValueError(
            f"could not convert string to float: columns {listed} hold strings, "
            f"{type(model).__name__} takes numbers; leave them out with features=, or encode them"
        )
    if getattr(model, "warm_start", False) and hasattr(model, "levels_"):
        return as_trained(model, dataset)
    most = model.max_levels
    if isinstance(dataset.store, DaskStore):
        coded = learn_levels(dataset, most, fold_partitions)
    elif dataset.in_memory:
        coded = learn_levels(dataset, most)
    else:
        needs = Needs("levels", STATE_NBYTES, STEP_NBYTES_PER_ROW)
        name = f"{type(model).__name__}-levels"
        try:
            plan = make_plan(dataset, [needs])
        except MemoryBudgetError:
            plan = plan_fit(model, dataset, [needs])
        with Run(
            dataset,
            plan,
            name=name,
            identity={"max_levels": most},
            checkpoint=None if checkpoint is None else f"{os.fspath(checkpoint)}/levels",
        ) as run:
            if run.finished is None:
                coded = learn_levels(dataset, most, run.fold)
                run.finish({name: list(words) for name, words in coded.levels.items()})
            else:
                coded = dataset.with_levels(run.finished)
    coded.store.passes_before = dataset.store.passes_before + 1  # a copy of the store: its own
    return coded


def as_trained(model: TakesRows, dataset: Dataset) -> Dataset:
    """The dataset with its string columns as codes of the model's levels."""
    if getattr(model, "encoding_", None) is not None:
        return encoding.with_coders(model, dataset)
    levels = getattr(model, "levels_", {})
    new = [name for name in dataset.categorical if name not in levels]
    if new:
        raise ValueError(
            f"column {new[0]!r} holds strings, but numbers when {type(model).__name__} was "
            "trained; convert it to the type it had"
        )
    plain = [name for name in levels if name not in dataset.categorical]
    if plain:
        raise ValueError(
            f"column {plain[0]!r} holds no strings, but categories when {type(model).__name__} was "
            "trained; convert it (astype(str), or a frame with that column)"
        )
    return dataset.with_levels({name: levels[name] for name in dataset.categorical})
