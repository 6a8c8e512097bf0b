"""`fit`, the same for all families: check, plan, read the summary, train, certify."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..engine.plan import make_plan
from ..engine.run import Run
from ..errors import SourceError
from ..passes.summary import collect_summary
from .certificate import warn_unless_converged
from .inputs import MAX_SHOWN, open_scored, open_training
from .persistence import fitted_tree, restore_fitted
from .planning import needs_of
from .targets import CodedSource

VALIDATION_SEED = 0x76616C6964617465
"""Makes a held-out fraction unrelated to the splits and folds a user draws with small seeds."""


def fit(
    model: Any, X: Any, y: Any, sample_weight: Any, *, validation: Any, checkpoint: Any
) -> None:
    """Train `model` in place."""
    model._validate_params()
    dataset = open_training(model, X, y, sample_weight)
    dataset, held_out = hold_out(model, dataset, validation)
    with Run(
        dataset,
        make_plan(dataset, needs_of(model, dataset)),
        name=type(model).__name__,
        identity=identity(model, dataset, held_out),
        checkpoint=checkpoint,
    ) as run:
        fitted = run.finished
        if fitted is None:
            train(model, run, dataset, held_out)
            run.finish(fitted_tree(model))
        else:
            restore_fitted(model, fitted)
    warn_unless_converged(type(model).__name__, model.certificate_)


def train(model: Any, run: Any, dataset: Any, held_out: Any) -> None:
    """Summary, checks, the family's own fit, and the certificate with what it cost."""
    summary = collect_summary(run.fold, dataset)
    check_features(summary)
    if is_classifier(model):
        model.classes_ = find_classes(model, dataset, summary)
    else:
        check_target(model, dataset, summary)
    classes = getattr(model, "classes_", None)
    validation = None if held_out is None else CodedSource(held_out, classes)
    outcome = model._fit(run, CodedSource(dataset, classes), summary, validation)
    model.history_ = list(run.history)
    model.n_passes_ = run.n_passes
    model.certificate_ = replace(
        outcome,
        n_passes=run.n_passes,
        rows_read=run.rows_read,
        bytes_read=run.bytes_read,
        seconds=run.seconds,
        peak_memory_bytes=run.peak_memory_bytes,
    )


def hold_out(model: Any, dataset: Any, validation: Any) -> tuple[Any, Any]:
    """Training rows and validation rows (None if there are none)."""
    if validation is None:
        return dataset, None
    if isinstance(validation, float):
        if not 0 < validation < 1:
            raise ValueError(f"a validation fraction must lie between 0 and 1, got {validation}")
        held_out = dataset.where_hash(0.0, validation, VALIDATION_SEED)
        return dataset.where_hash(validation, 1.0, VALIDATION_SEED), held_out
    if isinstance(validation, tuple):
        if len(validation) not in (2, 3):
            raise ValueError(
                f"validation must be (X, y) or (X, y, sample_weight), got {len(validation)} items"
            )
        X, y, *weight = validation
        return dataset, open_scored(model, X, y, *(weight or [None]))
    if hasattr(validation, "refs") and hasattr(validation, "target"):
        return dataset, open_scored(model, validation, None, None)
    raise ValueError(
        "validation must be a Dataset with a target, (X, y), or a fraction such as 0.1; got "
        f"{type(validation).__name__}"
    )


def identity(model: Any, dataset: Any, held_out: Any) -> dict[str, Any]:
    """What a checkpoint must agree with: estimator, parameters, data."""
    return {
        "estimator": type(model).__name__,
        "parameters": model.get_params(),
        "data": dataset.fingerprint(),
        "validation": None if held_out is None else held_out.fingerprint(),
    }
