"""`fit`, the same for all families: check, plan, read the summary, train, certify."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import is_classifier

from ..config import config_context, get_config
from ..data.dataset import Dataset
from ..engine.checkpoint.stopping import orderly_end
from ..engine.checkpoint.store import VERSIONS
from ..engine.plan import Needs, Plan
from ..engine.planning import Counted, make_plan, plan_within, with_counts
from ..engine.run import Run
from ..engine.scratch.materialise import materialised
from ..errors import LackError, SourceError, leave_out
from ..numeric.parametric import Parametric, class_name
from ..passes.sample import SampledRead
from ..passes.summary.labels import Labels
from ..passes.summary.reading import collect_summary, facts_nbytes
from ..passes.summary.summary import Summary
from ..solvers import splits
from ..solvers.calibration import calibrate, score_fold
from .callbacks import Tasks
from .certificate import Certificate, warn_unless_converged
from .model import Estimator
from .planning import SUMMARY, all_needs, plan_fit, summary_needs, summary_state_bytes
from .predicting import decide
from .restored import Fitted, check_fitted
from .rows import encoding
from .rows.class_weights import weigh_classes
from .rows.inputs import open_scored, open_training
from .rows.levels import settle_training
from .rows.spread import check_spread, check_target, warn_of_target
from .rows.targets import coded, words_refused
from .rows.weights import check_weights, warn_of_weights

_FITTED = (
    "classes",
    "levels",
    "encoding",
    "certificate",
    "history",
    "n_passes",
    "plan",
    "calibration",
)
"""Attributes, less their last underscore, that a fitted estimator has if its family gives them."""


def fit(
    model: Estimator,
    X: object,
    y: object,
    sample_weight: object,
    *,
    validation: object,
    checkpoint: str | os.PathLike[str] | None,
) -> None:
    """Train `model` in place."""
    model._validate_params()
    with ExitStack() as stack:
        stack.enter_context(config_context())  # the settings of the fit, looked up once
        stack.enter_context(orderly_end())
        tasks = Tasks(model)
        opened = open_training(model, X, y, sample_weight)
        dataset = settle_training(model, opened, stack, checkpoint, plan_fit=plan_fit)
        dataset, held_out = hold_out(model, dataset, validation)
        if held_out is not None:
            held_out = stack.enter_context(materialised(held_out))
        dataset, calibration_rows = hold_out_calibration(model, dataset)
        dataset, held_out = weigh_classes(model, dataset, held_out, checkpoint, find_classes)
        columns = dataset
        encoding.learn_targets(model, dataset, checkpoint, find_classes)
        dataset = encoding.training_features(model, dataset)
        run = stack.enter_context(
            Run(
                dataset,
                plan_fit(model, dataset),
                name=type(model).__name__,
                identity={} if checkpoint is None else identity(model, dataset, held_out),
                checkpoint=checkpoint,
                max_seconds=get_config().max_seconds,
                on_record=tasks.record,
            )
        )
        fitted = run.finished
        if fitted is None:
            train(model, run, dataset, columns, held_out, calibration_rows)
            run.finish(fitted_tree(model))
        else:
            restore_fitted(model, fitted)
        model._n_served = run.n_served
        tasks.end()
        if not model.certificate_.converged:
            remedies = model._remedies(dataset)
            warn_unless_converged(type(model).__name__, model.certificate_, remedies)


def train(
    model: Estimator,
    run: Run,
    dataset: Dataset,
    columns: Dataset,
    held_out: Dataset | None,
    calibration_rows: Dataset | None = None,
) -> None:
    """Summary, checks, the family's own fit, and the certificate with what it cost.

    `columns` are the dataset's before its encoding.
    """
    vars(model).pop("calibration_", None)  # of an earlier fit
    limit = summary_state_bytes(run.plan)
    summary, read = _summarise(model, run, dataset, limit)
    check_summary(dataset, summary, missing=model._accepts_missing or model._encodes)
    if encoding.is_encoded(model):
        model.encoding_ = encoding.learn_missing(model.encoding_, summary)
        missing = model.encoding_.missing
        if missing is not None and missing.any():  # features that the rows read so far do not have
            dataset = encoding.training_features(model, columns)
            run.read_from(dataset)
            replan(run, partial(all_needs, model, dataset))
            summary, read = _summarise(model, run, dataset, limit)
        held_out, calibration_rows = (
            None if rows is None else encoding.encoded(model, rows)
            for rows in (held_out, calibration_rows)
        )
    if model._counts_copies:
        warn_of_weights(type(model).__name__, summary)
    if model._moments_only():
        check_spread(summary)
    if is_classifier(model):
        model.classes_ = find_classes(summary.target)
    elif summary.target.kind == "string":
        raise words_refused(dataset.target)
    else:
        check_target(summary.target)
        warn_of_target(summary.target, summary.n_rows - summary.n_absent, dataset.kind)
    classes = getattr(model, "classes_", None)
    if held_out is None and calibration_rows is None:  # whose chunks may have more rows
        count_rows(run, summary, summary_needs(model, dataset, limit))
    more = summary.columns.nbytes > facts_nbytes(dataset, model._moments_only())
    replan(run, partial(all_needs, model, dataset, summary), always=more)
    validation = None if held_out is None else coded(held_out, classes)
    source = coded(dataset, classes)
    sample = (source.function(read.sample().chunk()),) if isinstance(read, SampledRead) else ()
    outcome = model._fit(run, source, summary, validation, *sample)
    if encoding.is_encoded(model):
        model.encoding_ = model.encoding_.of_model()
    if calibration_rows is not None and classes is not None:
        fold = score_fold(partial(decide, model), 1 if len(classes) == 2 else len(classes))
        histograms = run.fold(fold, coded(calibration_rows, classes), name="calibration")
        assert model.calibration is not None  # rows were held out for it
        model.calibration_ = calibrate(model.calibration, list(histograms))
    conclude(model, run, outcome)


def _summarise(
    model: Estimator, run: Run, dataset: Dataset, limit: int
) -> tuple[Summary, SampledRead | Callable[..., Summary]]:
    """The summary of the features, and the read that may have kept a sample of them."""
    wanted = model._sample_rows(dataset)
    read = SampledRead(run.fold, wanted, model.random_state) if wanted else run.fold
    # a sample keeps rows as every family takes them
    rows = dataset if wanted else dataset.as_bytes()
    return collect_summary(read, rows, limit, model._moments_only()), read


def conclude(model: Estimator, run: Run, outcome: Certificate) -> None:
    """Set what every fitted model tells of its reads; `outcome` is the certificate without them."""
    model.history_ = list(run.history)
    model.plan_ = run.plan
    model.n_passes_ = run.n_passes
    model.certificate_ = replace(
        outcome,
        converged=bool(outcome.converged),  # a comparison of numpy numbers is none
        n_passes=model.n_passes_,
        rows_read=run.rows_read,
        bytes_read=run.bytes_read,
        seconds=run.seconds,
        peak_memory_bytes=run.peak_memory_bytes,
        memory_before_bytes=run.memory_before_bytes,
    )


def count_rows(run: Run, summary: Summary, needs: Needs) -> None:
    """Tell the run how many of the source's rows its summary, of these `needs`, was given."""
    if summary.n_rows < run.source.n_physical_rows:
        run.counted = Counted(summary.n_rows, summary.most_rows)
        run.plan = with_counts(run.plan, run.source, needs, run.counted)


def replan(
    run: Run,
    needs: Callable[[], Sequence[Needs]],
    *,
    always: bool = False,
    done: str = SUMMARY,
) -> None:
    """Hold the run to its budget now that the number of classes and coefficients is known.

    `needs` are asked again for another budget, which a refusal looks for.  `always`: go by the new
    plan even where it runs the same lanes and slices, because what is known now changes its bytes.
    Rows that were counted do so, too.  `done`: the last phase of the plan so far that lies behind.
    """
    now = run.plan

    def make(budget: int | None) -> Plan:
        threads = now.lanes_in_flight
        return make_plan(run.source, needs(), budget=budget, threads=threads, counted=run.counted)

    plan = plan_within(make, now.budget).after(done, now)
    always = always or run.counted is not None
    if always or (plan.lanes_in_flight, plan.slice_rows, plan.keeps_rows) != (
        now.lanes_in_flight,
        now.slice_rows,
        now.keeps_rows,
    ):
        run.replan(plan)


def hold_out_calibration(model: object, dataset: Dataset) -> tuple[Dataset, Dataset | None]:
    """Rows to train on, and those for calibration (None if there is none)."""
    if getattr(model, "calibration", None) is None:
        return dataset, None
    return splits.hold_out(dataset, splits.CALIBRATION_SHARE, splits.CALIBRATION)


def check_summary(dataset: Dataset, summary: Summary, *, missing: bool = False) -> None:
    """Refuse data without rows, or with features or targets that are missing or not finite."""
    if summary.n_rows == 0:
        raise LackError(
            "Found array with 0 sample(s) (no rows are left after filters and splits) while a "
            "minimum of 1 is required",
            "widen the filters",
        )
    if not summary.total_weight > 0:
        raise LackError(
            "Sample weights must contain at least one non-zero number: a row of weight 0 is absent",
            "give some rows a weight",
        )

    check_weights(summary)
    summary.require_finite(dataset, missing=missing)
    labels = summary.target
    if labels.first_bad is not None:
        row = labels.first_bad
        what = "missing" if labels.kind == "string" else "NaN (missing)"
        raise SourceError(
            f"the target {labels.name!r} holds {labels.missing:g} {what} and "
            f"{labels.infinite:g} inf (infinite) values, the first in row {row} "
            f"({dataset.store.place(row, row + 1)}); {leave_out(dataset.kind)}"
        )


def find_classes(labels: Labels) -> np.ndarray:
    """The sorted classes of a classifier's target."""
    if labels.classes is None or (
        labels.classes.dtype.kind == "f" and (labels.classes % 1 != 0).any()
    ):
        raise ValueError(
            f"Unknown label type: continuous. The target {labels.name!r} holds numbers that are no "
            "class labels; use a regressor, or bin them first"
        )
    classes: np.ndarray = labels.classes[
        labels.counts > 0
    ]  # a label whose rows all weigh 0 is absent
    if len(classes) < 2:
        raise LackError(
            f"the target {labels.name!r} holds 1 class ({classes.tolist()[0]!r}), a classifier "
            "needs at least 2 classes",
            "check the target, the filters and the weights",
        )
    return classes


def hold_out(
    model: Estimator, dataset: Dataset, validation: object
) -> tuple[Dataset, Dataset | None]:
    """Training rows and validation rows (None if there are none)."""
    if validation is None:
        return dataset, None
    if isinstance(validation, float):
        if not 0 < validation < 1:
            raise ValueError(f"a validation fraction must lie between 0 and 1, got {validation}")
        return splits.hold_out(dataset, validation, splits.VALIDATION)
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


def identity(model: Estimator, dataset: Dataset, held_out: Dataset | None) -> dict[str, object]:
    """The facts on which a checkpoint must agree: estimator, parameters, data, file versions."""
    return {
        "estimator": type(model).__name__,
        "parameters": plain_parameters(model),
        "data": dataset.fingerprint(),
        "validation": None if held_out is None else held_out.fingerprint(),
        VERSIONS: {
            f"{name} {file}": version
            for name, part in (("data:", dataset), ("validation:", held_out))
            if part is not None
            for file, version in part.versions().items()
        },
    }


def fitted_tree(model: Estimator) -> dict[str, object]:
    """The fitted attributes as a plain tree."""
    names = getattr(model, "feature_names_in_", None)
    return {
        # by name: which of them there are depends on family and parameters
        **{name: getattr(model, f"{name}_", None) for name in _FITTED},
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": model.n_features_in_,
        "state": model._state(),
    }


def share_fitted(model: object, other: object, names: Sequence[str]) -> None:
    """Give `other` those of the model's fitted attributes of these names that it has."""
    vars(other).update({name: value for name, value in vars(model).items() if name in names})


def restore_fitted(model: Estimator, tree: Fitted) -> None:
    """Make `model` what it was when `fitted_tree` was taken.

    The tree may come from anywhere: what is in it is checked here and by the family's `_restore`,
    which raise one of `archive.MALFORMED` before a kernel sees it.
    """
    check_fitted(model, tree)
    for name in _FITTED:
        value = tree.get(name)
        if value is not None:
            setattr(model, f"{name}_", value)
    if tree["feature_names"] is not None:
        model.feature_names_in_ = np.array(tree["feature_names"], dtype=object)
    model.n_features_in_ = tree["n_features"]
    model._restore(tree["state"])


def plain_parameters(model: Estimator) -> dict[str, object]:
    """The constructor parameters as JSON takes them: a loss or basis by its class and numbers.

    Parameters that came later (`_later_parameters`) are left out where they ask for nothing: older
    checkpoints do not say them.
    """
    return {
        name: [class_name(type(value)), *value] if isinstance(value, Parametric) else value
        for name, value in model.get_params(deep=False).items()
        if name not in model._later_parameters or value != model._later_parameters[name]
    }
