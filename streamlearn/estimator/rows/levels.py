"""String columns of a fit and of what a fitted model is shown: codes of the same levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from ...data.dataset import Dataset
from ...data.memory.stream import StreamStore
from ...engine.plan import Needs, Plan
from ...engine.scratch.materialise import materialised
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
    if isinstance(
        dataset.store.base, StreamStore
    ):  # its rows come once: written first, strings too
        dataset = stack.enter_context(materialised(dataset))
        dataset = _coded(model, dataset, checkpoint, plan_fit)
    else:
        dataset = _coded(model, dataset, checkpoint, plan_fit)
        dataset = stack.enter_context(materialised(dataset))
    model.levels_ = {name: list(words) for name, words in dataset.levels.items()}
    return dataset


def _coded(
    model: Estimator, dataset: Dataset, checkpoint: Checkpoint, plan_fit: PlanFit
) -> Dataset:
    """The dataset with its string columns as codes; sets ``encoding_`` as far as it is known."""
    if model._encodes or model._accepts_levels:
        if getattr(model, "warm_start", False) and hasattr(model, "levels_"):
            encoding.begin_anew(model)
            return as_trained(model, dataset)
        return encoding.learn_levels(model, dataset, checkpoint, partial(plan_fit, model, dataset))
    if not dataset.categorical:
        return dataset
    listed = ", ".join(map(repr, dataset.categorical[:5]))
    raise ValueError(
        f"could not convert string to float: columns {listed} hold strings, "
        f"{type(model).__name__} takes numbers; leave them out with features=, or encode them"
    )


def as_trained(model: TakesRows, dataset: Dataset) -> Dataset:
    """The dataset with its string columns as codes of the model's levels."""
    if encoding.is_encoded(model):
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
