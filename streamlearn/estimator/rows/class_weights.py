"""Meaning of `class_weight` in every family: factors of the rows' weights.

A fit with it is the fit of the same rows with these weights given by hand: summary, encoding,
objective and all counts see them.  "balanced" are N / (K N_k), N_k the weight of class k among the
training rows and N that of all of them, so that their sum stays N.  Validation rows take the same
factors, because their loss is compared with the training rows'; rows held out for calibration do
not, so that calibrated probabilities are those of rows as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ...data.dataset import Dataset
from ...data.source import Chunk
from ...engine.plan import Needs
from ...engine.run import Run
from ...numeric.sequences import number_of
from ...passes.fold import read_all, run_fold
from ...passes.summary.labels import Labels
from ...passes.summary.reading import state_nbytes, step_nbytes_per_row, summary_fold
from ...passes.summary.summary import Summary
from .encoding import Checkpoint, in_a_run
from .targets import encode

FACTORS = "a finite number above 0 for each class that it names"
CONSTRAINT: list[object] = [StrOptions({"balanced"}), dict, None]
"""Values that the parameter `class_weight` may have."""


class HasClasses(Protocol):
    """A classifier that knows its classes."""

    class_weight: object
    classes_: np.ndarray


class ClassWeights(NamedTuple):
    """Factors of the weights of rows, by their labels."""

    labels: np.ndarray
    """(K,) ascending."""
    factors: np.ndarray
    """(K,) float64 above 0."""

    def weigh(self, chunk: Chunk) -> Chunk:
        """The chunk with its weights multiplied; labels that are none of these count 1."""
        codes = encode(chunk.target, self.labels).astype(np.intp)
        factor = np.append(self.factors, 1.0)[codes]  # code -1 is the last
        chunk.weight = factor if chunk.weight is None else chunk.weight * factor
        return chunk


def class_factors(class_weight: object, labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(K,) factors that the parameter gives classes of these `counts` (weights)."""
    if isinstance(class_weight, str):
        factors: np.ndarray = counts.sum() / (len(labels) * counts)
        return factors
    assert isinstance(class_weight, Mapping)
    known = labels.tolist()
    unknown = [label for label in class_weight if label not in known]
    if unknown:
        raise ValueError(
            f"class_weight names {unknown[:5]}, which are none of the classes {known[:10]}; "
            "leave them out"
        )
    factors = np.array(
        [number_of("class_weight", class_weight.get(k, 1.0), FACTORS) for k in known]
    )
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(f"class_weight must be finite and above 0, got {class_weight}")
    return factors


def weigh_classes(
    model: object,
    dataset: Dataset,
    held_out: Dataset | None,
    checkpoint: Checkpoint,
    classes_of: Callable[[Labels], np.ndarray],
) -> tuple[Dataset, Dataset | None]:
    """Training and validation rows with the weights that `class_weight` gives them.

    One read of the target alone, and of the weights.  `classes_of(labels)` are the classes, or
    raises.
    """
    class_weight = getattr(model, "class_weight", None)
    if class_weight is None:
        return dataset, held_out
    target = dataset.column(str(dataset.target))
    fold = summary_fold(target, moments_only=True)
    if dataset.in_memory:
        summary: Summary = run_fold(fold, read_all(target))
        labels = summary.target
        classes, counts = classes_of(labels), labels.counts
    else:
        (needs,) = needs_before(model, dataset)

        def learn(run: Run) -> tuple[np.ndarray, np.ndarray]:
            labels = run.fold(fold, target, name="class-weights").target
            return classes_of(labels), labels.counts

        classes, counts = in_a_run(model, dataset, needs, checkpoint, learn)
    factors = class_factors(class_weight, classes, counts[counts > 0])
    weigh = ClassWeights(classes, factors).weigh
    return dataset.reweighed(weigh), None if held_out is None else held_out.reweighed(weigh)


def needs_before(model: object, dataset: Dataset) -> tuple[Needs, ...]:
    """Cost of the read of the target before the summary; empty without `class_weight`."""
    if getattr(model, "class_weight", None) is None or dataset.target is None:
        return ()
    target = dataset.column(dataset.target)
    state = state_nbytes(target, moments_only=True)
    return (Needs("class-weights", state, step_nbytes_per_row(target), passes=(1, 1)),)


def weigh_stream(model: HasClasses, dataset: Dataset) -> Dataset:
    """The rows of one call of `partial_fit` with their weights; ``classes_`` is known."""
    if model.class_weight is None:
        return dataset
    factors = class_factors(model.class_weight, model.classes_, np.ones(len(model.classes_)))
    return dataset.reweighed(ClassWeights(model.classes_, factors).weigh)


def refuse_balanced(model: object) -> None:
    """Refuse what a stream of rows cannot know."""
    if getattr(model, "class_weight", None) == "balanced":
        raise ValueError(
            "class_weight='balanced' needs the counts of all rows, which partial_fit does not "
            "know; give a dict"
        )
