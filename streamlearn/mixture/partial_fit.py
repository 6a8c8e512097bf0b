"""A call of `partial_fit`: rows of an endless stream, learned from in the order of their coming."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..data.encoding import Encoding
from ..data.source import Source
from ..engine.plan import Needs, Plan
from ..engine.planning import make_plan, plan_within
from ..engine.run import Run
from ..engine.scratch.materialise import materialised
from ..estimator import fitting
from ..estimator.certificate import Certificate
from ..estimator.model import TakesRows
from ..estimator.planning import beside_facts
from ..estimator.rows import encoding, inputs
from ..estimator.rows.class_weights import refuse_balanced, weigh_stream
from ..estimator.rows.spread import check_spread
from ..estimator.rows.streams import ClassOrder, warn_if_sorted, with_waiting
from ..estimator.rows.targets import coded, encode
from ..passes.fold import nbytes_of
from ..passes.shuffling import Waiting, nobody_waits, room_wanted
from ..passes.summary.reading import (
    collect_summary,
    facts_nbytes,
    state_nbytes,
    step_nbytes_per_row,
)
from ..passes.summary.summary import Summary
from . import needs
from .em import online, stream
from .needs import Options
from .objective import Parameters, Problem
from .training import Sampled, em_of_held, start

PRUNED_FROM = 2.0
"""Times nu that a stream's components hold on average before it prunes: at first all are small."""


class Stream(Options, TakesRows, Protocol):
    """An estimator that rows of an endless stream train."""

    certificate_: Certificate
    history_: list[dict[str, object]]
    n_passes_: int
    plan_: Plan | None
    levels_: dict[str, list[str]]
    encoding: Mapping[str, str | float] | None
    encoding_: Encoding
    _accepts_levels: bool
    class_weight: object
    problem_: Problem
    parameters_: Parameters
    online_: online.Online
    _order: ClassOrder
    _waiting: Waiting | None
    _held: Waiting | None

    def _keep(self, problem: Problem, at: Parameters, mass: np.ndarray) -> None: ...


def partial_fit(
    model: Stream,
    X: object,
    y: object,
    sample_weight: object,
    classes: npt.ArrayLike | None,
    shuffle_buffer: int | None,
) -> None:
    """Advance `model` by the rows of one call, in place: planned, two reads where the data are."""
    refuse_balanced(model)
    new = not hasattr(model, "certificate_")
    opens = inputs.open_training if new else inputs.open_scored
    with materialised(opens(model, X, y, sample_weight)) as dataset:
        if new:
            encoding.refuse_encoding(model, dataset)
            if classes is not None:
                model.classes_ = np.unique(classes)
            elif model.class_weight is not None:
                raise ValueError(
                    "the first call of partial_fit needs classes= where there is a class_weight, "
                    "got None; pass all classes that will come"
                )
        dataset = weigh_stream(model, dataset)
        checked = Needs(
            "summary",
            state_nbytes(dataset, moments_only=True),
            step_nbytes_per_row(dataset),
        )
        size = needs.size_of_stream(model, dataset)
        waiting = None if new else model._waiting
        room = room_wanted(waiting, shuffle_buffer)
        ends = waiting is not None and waiting.n_most > 0 and room == 0
        most = room if waiting is None else max(room, waiting.n_most)
        sparse, p = bool(dataset.sparse), dataset.n_features
        held = nobody_waits(p, sparse=sparse, n_most=needs.held_most(size))
        if not new:
            held = model._held or held._replace(n_most=0)
        more = min(held.n_most - held.n_rows, dataset.n_physical_rows + most)
        holds = needs.held_nbytes(size, held.n_rows + more) if held.n_most else 0
        first = min(dataset.slice_rows, dataset.n_physical_rows)
        begins = [needs.first_slice(size, first)] if new else []

        def make(budget: int | None) -> Plan:
            rows = needs.rows_nbytes(size)
            learns = Needs(
                "learning",
                state_bytes=6 * rows + holds,
                # rows of no weight are left out by a copy
                step_bytes_per_row=size.row_nbytes + 16 if dataset.is_weighted else 0.0,
                step_bytes=needs.block_nbytes(size) + (needs.em_nbytes(size) if holds else 0),
                model_bytes=2 * rows + nbytes_of(held),
                in_order=True,
            )
            learns = with_waiting(learns, waiting, most, size.row_nbytes)
            own = beside_facts([*begins, learns], facts_nbytes(dataset, moments_only=True))
            return make_plan(dataset, [checked, *own], budget=budget)

        plan = plan_within(make)
        with Run(dataset, plan, name=type(model).__name__, identity={}) as run:
            summary = collect_summary(run.fold, dataset, moments_only=True)
            fitting.check_summary(dataset, summary)
            if new:
                check_spread(summary)
                _set_classes(model, summary, classes)
            source = run.planned(coded(dataset, model.classes_))
            problem, state = _begin(model, source, summary, new)
            if waiting is None:
                waiting = nobody_waits(p, sparse=sparse, n_most=room)
            elif not ends:
                waiting = waiting._replace(n_most=room)
            order = ClassOrder(np.zeros(len(model.classes_))) if new else _order_of(model)
            streamed = stream.Streamed(problem, state, waiting, held, order)
            em = partial(em_of_held, needs.curvature_form(size))
            fold = stream.stream_fold(streamed, em, model.random_state)
            streamed = run.fold(fold, source, name="partial-fit")
            if ends:
                streamed = stream.let_all_go_on(streamed, em, model.random_state)
            problem, state, order = streamed.problem, streamed.state, streamed.order
            model._waiting = waiting = streamed.waiting
            model._held = streamed.held if streamed.held.n_most else None
    if state.n_rows >= PRUNED_FROM * problem.nu * problem.tree.n_leaves:
        problem, state = online.prune(problem, state, state.n_rows)
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
    model.plan_, model.levels_ = plan, {}
    labels = summary.target
    if not (ends or room) and labels.classes is not None:  # else as they were learned from
        where = encode(labels.classes, model.classes_).astype(np.intp)
        for counts in labels.by_ref:
            order = order.with_part(np.bincount(where, counts, len(model.classes_)))
    model._order = order
    warn_if_sorted(order)
    model.certificate_ = Certificate(
        converged=True,
        criterion="none: an endless stream",
        solver="online-em",
        n_passes=model.n_passes_,
        reason=f"{state.n_rows:g} rows were learned from"
        + (f"; {waiting.n_rows:,} rows wait" if waiting.n_rows else ""),
    )


def _order_of(model: Stream) -> ClassOrder:
    """Spread of the classes over the stream so far; a saved model forgets it."""
    return getattr(model, "_order", ClassOrder(np.zeros(len(model.classes_))))


def _set_classes(model: Stream, summary: Summary, classes: npt.ArrayLike | None) -> None:
    """Set what the first call knows: the classes, no reads so far."""
    found = np.unique(classes) if classes is not None else fitting.find_classes(summary.target)
    if len(found) < 2:
        raise ValueError(f"classes holds {len(found)} class, a classifier needs at least 2")
    model.classes_ = found
    model.history_, model.n_passes_ = [], 0


def _begin(
    model: Stream, source: Source, summary: Summary, new: bool
) -> tuple[Problem, online.Online]:
    if not new:
        state = getattr(model, "online_", None)
        state = state or online.start_online(model.parameters_, online.FITTED_STEPS)
        return model.problem_, state._replace(log_likelihood=0.0, n_read=0.0)
    with source.reader() as reader:
        first = next(chunk for ref in source.refs() if (chunk := reader.read(ref)).n_rows)
        rows = Sampled(first, needs.sample_share(first, summary.total_weight), form="first-order")
        problem, at = start(model, None, source, summary, rows, 0)
    return problem, online.start_online(at)
