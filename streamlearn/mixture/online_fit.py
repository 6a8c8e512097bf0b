"""`partial_fit`: one call's rows added to what a stream has taught."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimator import fitting, inputs
from ..estimator.certificate import Certificate
from ..estimator.targets import CodedSource
from . import needs, online, training


def partial_fit(model: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
    """Advance `model` by the rows of one call, in place."""
    new = not hasattr(model, "certificate_")
    opens = inputs.open_training if new else inputs.open_scored
    dataset = opens(model, X, y, sample_weight)
    summary = dataset.summary()
    fitting.check_summary(dataset, summary)
    if new:
        found = np.unique(classes) if classes is not None else fitting.find_classes(summary.labels)
        if len(found) < 2:
            raise ValueError(f"classes holds {len(found)} class, a classifier needs at least 2")
        model.classes_ = found
        model.history_, model.n_passes_ = [], 0
    source = CodedSource(dataset, model.classes_)
    problem, state = _begin(model, source, summary, new)
    with source.reader() as reader:
        for ref in source.refs():
            chunk = reader.read(ref)
            state = online.advance(problem, 0.0, state, chunk)
    model.online_ = state
    mass = state.shares / state.shares[problem.tree.n_branches :].sum()
    model._keep(problem, state.average, mass)
    model.n_passes_ += 2
    model.history_.append(
        {
            "phase": "partial_fit",
            "iteration": state.n_steps,
            "log_likelihood": state.log_likelihood,
            "n_components": problem.tree.n_leaves,
        }
    )
    model.plan_ = None
    model.certificate_ = Certificate(
        converged=True,
        criterion="none: an endless stream",
        solver="online-em",
        n_passes=model.n_passes_,
        reason=f"{state.n_rows:g} rows were seen",
    )


def _begin(model: Any, source: Any, summary: Any, new: bool) -> tuple[Any, online.Online]:
    if not new:
        state = getattr(model, "online_", None)
        state = state or online.start_online(model.parameters_, online.LEARNED)
        return model.problem_, state._replace(log_likelihood=0.0, n_read=0.0)
    with source.reader() as reader:
        first = next(chunk for ref in source.refs() if (chunk := reader.read(ref)).n_rows)
        rows = training.Sampled(
            first, needs.sample_share(first, summary.total_weight), form="first-order"
        )
        problem, at = training.start(model, None, source, summary, rows, 0)
    return problem, online.start_online(at)
