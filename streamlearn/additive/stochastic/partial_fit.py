"""Learning from rows as they come: averaged PEGASOS, one look at each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ...data.order import derive_seed
from ...engine.plan import make_plan
from ...engine.run import Run
from ...engine.scratch.materialise import materialised
from ...estimator.certificate import Certificate
from ...estimator.fitting import check_summary
from ...estimator.inputs import open_training
from ...estimator.predicting import check_finite
from ...estimator.targets import coded
from ...passes.fold import read_all
from ...passes.summary.summary import collect_summary
from .. import costs as needs
from ..basis.column_bases import mean_splines
from ..dual.descent import shuffled
from ..targets import Adjustment, adjusted
from .pegasos import Averaged, batch_rows, mean_point, start_averaged, step_batches


def go_on(
    model: Any, X: Any, y: Any, sample_weight: Any, classes: Any, n_rows: float | None
) -> None:
    """Train `model` in place on rows that are looked at once, in the order of a seeded shuffle."""
    model._validate_params()
    check_offered(model)
    with materialised(open_training(model, X, y, sample_weight)) as dataset:
        if dataset.categorical:
            raise ValueError(
                f"column {dataset.categorical[0]!r} holds strings, whose levels partial_fit cannot "
                "know from the first rows; use fit, or make numbers of them"
            )
        stream = getattr(model, "_stream", None)
        if stream is None:
            stream = model._stream = begin(model, dataset, classes, n_rows)
        require_same_columns(model, stream["problem"], dataset)
        problem, state, total = stream["problem"], Averaged(*stream["state"]), stream["total"]
        source = adjusted(coded(dataset, getattr(model, "classes_", None)), stream["adjustment"])
        for chunk in read_all(source):
            check_finite(model, chunk)
            key = (derive_seed(model.random_state, stream["n_chunks"]),)
            chunk.order = shuffled(chunk.n_rows, key)
            step_batches(problem, state, chunk, batch_rows(int(total)), total)
            stream["n_chunks"] += 1
    model._keep(problem, mean_point(problem, state, total), stream["means"])
    model._keep_distribution(stream["summary"])
    model.history_, model.plan_ = [], stream["plan"]
    model.n_passes_ = stream["n_reads"] = stream["n_reads"] + 1
    model.certificate_ = Certificate(
        converged=False,
        criterion="nothing: rows are looked at once",
        solver="pegasos",
        reason=f"partial_fit has seen rows of weight {state.seen[0]:,.6g}",
    )


def require_same_columns(model: Any, problem: Any, dataset: Any) -> None:
    """Refuse rows of another width than the first ones."""
    p = len(problem.bases.degree)
    if dataset.n_features != p:
        model.n_features_in_ = p
        raise ValueError(
            f"X has {dataset.n_features} features, but {type(model).__name__} is expecting {p} "
            "features as input"
        )


def check_offered(model: Any) -> None:
    """Refuse parameters that a stream of rows cannot be fitted with."""
    if model.solver not in ("auto", "pegasos"):
        raise ValueError(
            f"partial_fit is solver='pegasos', got solver={model.solver!r}; use fit, or 'auto'"
        )
    if getattr(model, "class_weight", None) == "balanced":
        raise ValueError(
            "class_weight='balanced' needs the counts of all rows, which partial_fit does not "
            "know; give a dict"
        )
    if getattr(model, "calibration", None) is not None:
        raise ValueError(
            f"calibration={model.calibration!r} holds rows out, and partial_fit looks at each row "
            "once; use fit, or calibration=None"
        )
    needs.require_offered(model._loss, "pegasos", model._is_joint)


def begin(model: Any, dataset: Any, classes: Any, n_rows: float | None) -> dict[str, Any]:
    """The state before the first step; knots and centres come from the first rows."""
    plan = make_plan(dataset, needs.needs_of("pegasos", needs.size_of(model, dataset), 2))
    with Run(dataset, plan, name=type(model).__name__, identity={}) as run:
        summary = collect_summary(run.fold, dataset)
    check_summary(dataset, summary, missing=model._accepts_missing)
    if is_classifier(model):
        if classes is None:
            raise ValueError("the first call of partial_fit needs classes=, all that will come")
        model.classes_ = np.unique(np.asarray(classes))
        if len(model.classes_) < 2:
            raise ValueError(f"classes holds 1 class ({classes}); a classifier needs 2 at least")
        weights = model._class_weights(np.ones(len(model.classes_)))
        adjustment = Adjustment(model._loss, weights)
    else:
        adjustment = model._adjustment(dataset, summary)
    problem = model._problem(dataset, summary, adjustment, "pegasos")
    total = float(summary.total_weight if n_rows is None else n_rows)
    state = start_averaged(problem)
    model.bases_, model.levels_ = problem.bases, {}
    return {
        "problem": problem,
        "state": state,
        "total": total,
        "adjustment": adjustment,
        "means": mean_splines(summary, problem.bases),
        "summary": summary,
        "plan": plan,
        "n_reads": 1,
        "n_chunks": 0,
    }
