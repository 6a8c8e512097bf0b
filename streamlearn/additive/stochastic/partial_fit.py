"""Learning from rows as they come: averaged PEGASOS, one look at each row."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import NamedTuple, NotRequired, Protocol, TypedDict

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier

from ...data.dataset import Dataset
from ...data.encoding import Encoding
from ...data.order import derive_seed
from ...data.source import Chunk, Source
from ...engine.plan import Needs
from ...engine.planning import make_plan
from ...engine.run import Run
from ...engine.scratch.materialise import materialised
from ...engine.summary import column_needs, state_limit
from ...estimator.certificate import Certificate
from ...estimator.fitting import check_summary, replan
from ...estimator.model import Estimator, HasLabels, Model
from ...estimator.predicting import check_finite
from ...estimator.restored import n_outputs
from ...estimator.rows.class_weights import HasClasses, refuse_balanced, weigh_stream
from ...estimator.rows.encoding import HasColumns, refuse_encoding
from ...estimator.rows.inputs import open_training
from ...estimator.rows.spread import check_target, check_targets_of
from ...estimator.rows.streams import (
    ClassOrder,
    warn_if_beyond,
    warn_if_sorted,
    with_waiting,
)
from ...estimator.rows.targets import coded
from ...numeric.bases.bsplines import Bases
from ...numeric.checks import check_array, check_integer, check_number
from ...passes.fold import Fold
from ...passes.shuffling import (
    Waiting,
    check_waiting,
    let_all_go,
    nobody_waits,
    pass_through,
    room_wanted,
)
from ...passes.summary.facts import ColumnFacts
from ...passes.summary.reading import collect_summary, facts_nbytes
from ...passes.summary.summary import Summary
from ..basis.column_bases import mean_splines
from ..costs import needs, sizes
from ..costs.pair_choice import ROWS_ONCE, no_pairs
from ..costs.solver_choice import require_offered
from ..dual.descent import shuffled
from ..objective import Problem
from ..pairs import AUTO, has_pairs
from ..smooth.model import Parameters, why_moments
from ..targets import Adjustment, adjusted
from .pegasos import Averaged, batch_rows, mean_point, start_averaged, step_batches


class Kind(Protocol):
    """Rows of a stream, by what a problem asks of them."""

    @property
    def dtype(self) -> np.dtype: ...
    @property
    def sparse(self) -> bool: ...


class Learns(Estimator, sizes.HasSize, Parameters, HasClasses, Protocol):
    """An additive estimator, by what a stream of rows asks of it."""

    max_levels: int
    encoding: Mapping[str, str | float] | None
    encoding_: Encoding
    _accepts_levels: bool
    """Largest number of levels of a column of categories."""
    bases_: Bases
    _stream: Stream | None
    _order: ClassOrder

    @property
    def _asks_joint(self) -> bool: ...
    def _adjustment(self, dataset: Source, summary: Summary) -> Adjustment: ...
    def _problem(
        self, dataset: Kind, summary: Summary, adjustment: Adjustment, solver: str
    ) -> Problem: ...
    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None: ...
    def _keep_distribution(self, summary: Summary) -> None: ...


def go_on(
    model: Learns,
    X: object,
    y: object,
    sample_weight: object,
    classes: npt.ArrayLike | None,
    n_rows: float | None,
    shuffle_buffer: int | None,
) -> None:
    """Train `model` in place on rows that are looked at once, in the order of a seeded shuffle.

    Each call is planned, and is one order-sensitive read where the data are.
    """
    model._validate_params()
    check_offered(model)
    with materialised(open_training(model, X, y, sample_weight)) as dataset:
        refuse_encoding(model, dataset)
        vars(model).pop("encoding_", None)  # of an earlier fit
        stream = getattr(model, "_stream", None)
        if stream is not None:
            require_same_columns(model, len(stream["summary"].columns), dataset)
        if is_classifier(model):
            if stream is None:
                set_classes(model, classes)
            dataset = weigh_stream(model, dataset)
        waiting = None if stream is None else stream.get("waiting")
        room = room_wanted(waiting, shuffle_buffer)
        ends = waiting is not None and waiting.n_most > 0 and room == 0
        most = room if waiting is None else max(room, waiting.n_most)
        plan = make_plan(dataset, _phases(model, dataset, stream, most))
        with Run(dataset, plan, name=type(model).__name__, identity={}) as run:
            if stream is None:
                stream = begin(model, run, dataset, n_rows)
                # what the columns hold is known from here on
                replan(run, partial(_phases, model, dataset, stream, most), always=True)
                vars(model).pop("_order", None)
            adjustment = model._adjustment(dataset, stream["summary"])
            kind = _Kind(np.dtype(stream["dtype"]), stream["sparse"])
            problem = model._problem(kind, stream["summary"], adjustment, "pegasos")
            require_same_parameters(model, stream, problem)
            model.bases_ = problem.bases
            checked = copy(model)
            vars(checked).pop("_stream", None)  # tasks do not need it
            if waiting is None or not ends:
                waiting = _with_room(waiting, room, dataset)
            learner = Learner(
                checked, problem, stream["total"], model.random_state, str(dataset.target)
            )
            fold: Fold[Steps, Steps] = Fold(
                partial(_start, stream, _order_of(model), waiting), partial(_step, learner), None
            )
            source = adjusted(coded(dataset, getattr(model, "classes_", None)), adjustment)
            after = run.fold(fold, source, name="partial-fit")
            if ends:
                after = _let_all_go(learner, after)
    state = Averaged(*after["state"])
    n_reads = stream["n_reads"] + 1
    model._stream = {**stream, "state": state, "n_chunks": after["n_chunks"], "n_reads": n_reads}
    model._stream["waiting"] = after["waiting"]
    means = mean_splines(stream["summary"], problem.bases)
    model._keep(problem, mean_point(problem, state, stream["total"]), means)
    model._keep_distribution(stream["summary"])
    model.history_, model.plan_, model.levels_ = [], run.plan, {}
    if stream.get("promised", False):
        come = float(state.seen[0] + after["waiting"].weight.sum())
        warn_if_beyond(come, stream["total"])
    if is_classifier(model):
        model._order = after["order"]
        warn_if_sorted(model._order)
    model.n_passes_ = n_reads
    model.certificate_ = Certificate(
        converged=False,
        criterion="nothing: rows are looked at once",
        solver="pegasos",
        reason=f"partial_fit has learned from rows of weight {state.seen[0]:,.6g}"
        + (f"; {after['waiting'].n_rows:,} rows wait" if after["waiting"].n_rows else "")
        + (f"; {no_pairs(ROWS_ONCE)}" if model.interactions == AUTO else ""),
    )


def _with_room(waiting: Waiting | None, room: int, dataset: Dataset) -> Waiting:
    """The rows that wait, with room for so many."""
    if waiting is None:
        return nobody_waits(dataset.n_features, sparse=bool(dataset.sparse), n_most=room)
    return waiting._replace(n_most=room)


def _phases(model: Learns, dataset: Dataset, stream: Stream | None, room: int) -> list[Needs]:
    """Reads of a call: one that learns, before it in the first call the summary's.

    `room`: rows that may wait.
    """
    size = sizes.size_of(model, dataset, None if stream is None else stream["summary"])
    size = size._replace(n_outputs=n_outputs(model))  # a stream knows its classes from the start
    learning, *_ = needs.needs_of("pegasos", size, 2)
    waiting, facts = None, facts_nbytes(dataset)
    if stream is not None:
        waiting, facts = stream.get("waiting"), stream["summary"].columns.nbytes
    learning = replace(learning, group=0, in_order=True, passes=(1, 1), facts_bytes=facts)
    phases = [with_waiting(learning, waiting, room, size.row_nbytes)]
    if stream is None:
        phases.insert(0, column_needs(dataset, state_limit(dataset)))
    return phases


class Stream(TypedDict):
    """The facts of the rows that `partial_fit` has seen; a plain tree, saved with the model."""

    state: Averaged
    total: float
    """Weight of the whole stream, which C counts on."""
    summary: Summary
    """Summary of the first call's rows."""
    dtype: str
    sparse: bool
    n_reads: int
    n_chunks: int
    promised: NotRequired[bool]
    """Whether `total` was given; older files do not say so."""
    waiting: NotRequired[Waiting]
    """Rows that nothing was learned from yet."""


class Steps(TypedDict):
    """State of the fold."""

    state: list[np.ndarray]
    n_chunks: int
    order: ClassOrder
    """Spread of the classes over the chunks, as they are learned from; that of a regressor stays
    empty."""
    waiting: Waiting


class _Kind(NamedTuple):
    """The dtype of a stream's rows, and whether they are sparse."""

    dtype: np.dtype
    sparse: bool


def _order_of(model: object) -> ClassOrder:
    """Spread of the classes over the stream so far; a saved model forgets it."""
    none = ClassOrder(np.zeros(len(getattr(model, "classes_", ()))))
    order: ClassOrder = getattr(model, "_order", none)
    return order


class Learner(NamedTuple):
    """The facts by which the steps of a stream go."""

    model: Model
    """The estimator, as messages name it."""
    problem: Problem
    total: float
    """Weight of the whole stream."""
    seed: int
    target: str
    """Name of the target."""


def _start(stream: Stream, order: ClassOrder, waiting: Waiting) -> Steps:
    state = [part.copy() for part in stream["state"]]
    return {"state": state, "n_chunks": stream["n_chunks"], "order": order, "waiting": waiting}


def _step(learner: Learner, state: Steps, chunk: Chunk) -> Steps:
    if not chunk.n_rows:
        return state
    check_finite(learner.model, chunk)
    if not len(state["order"].counts):  # of numbers
        check_targets_of(chunk.target, learner.target)
    if not state["waiting"].n_most:
        seed = derive_seed(learner.seed, state["n_chunks"])
        chunk.order = shuffled(chunk.n_rows, (seed,))
        return _learned(learner, state, chunk)
    waiting, left = pass_through(state["waiting"], chunk, learner.seed)
    state = {**state, "waiting": waiting}
    for rows in left:
        state = _learned(learner, state, rows)
    return state


def _let_all_go(learner: Learner, state: Steps) -> Steps:
    """The state after all rows that wait."""
    waiting, rows = let_all_go(state["waiting"], learner.seed)
    state = {**state, "waiting": waiting}
    return _learned(learner, state, rows) if rows.n_rows else state


def _learned(learner: Learner, state: Steps, chunk: Chunk) -> Steps:
    """The state after steps on the chunk's rows, in its order."""
    n_batch = batch_rows(int(learner.total))
    step_batches(learner.problem, Averaged(*state["state"]), chunk, n_batch, learner.total)
    order = state["order"]
    if len(order.counts):
        codes = chunk.target.astype(np.intp)
        order = order.with_part(np.bincount(codes, chunk.weight, len(order.counts)))
    return {**state, "n_chunks": state["n_chunks"] + 1, "order": order}


def check_stream(model: Learns, stream: Stream) -> None:
    """Raise ValueError unless what a file says of a stream is of this model."""
    summary, state = stream["summary"], stream["state"]
    facts = summary.columns if isinstance(summary, Summary) else None
    if not isinstance(facts, ColumnFacts) or len(facts) != model.n_features_in_:
        raise ValueError(f"the stream's summary is not one of {model.n_features_in_} columns")
    k, dim = n_outputs(model), model.bases_.dim
    if not isinstance(state, Averaged):
        raise ValueError(f"the state of the stream is a {type(state).__name__}")
    check_array("the stream's V", state.V, (k, dim + 1))
    check_array("the stream's U", state.U, (k, dim + 1))
    check_array("the stream's conjugate", state.conjugate, (k,))
    check_array("the stream's seen", state.seen, (2,))
    check_number("the stream's total", stream["total"])
    check_integer("the stream's n_chunks", stream["n_chunks"], 0, 2**62)
    check_integer("the stream's n_reads", stream["n_reads"], 0, 2**62)
    if "waiting" in stream:
        check_waiting(stream["waiting"], model.n_features_in_)
    if stream["dtype"] not in ("float32", "float64"):
        raise ValueError(f"the stream's dtype is {stream['dtype']!r}")


def require_same_columns(model: HasColumns, p: int, dataset: Dataset) -> None:
    """Refuse rows of another width than the first ones."""
    if dataset.n_features != p:
        model.n_features_in_ = p
        raise ValueError(
            f"X has {dataset.n_features} features, but {type(model).__name__} is expecting {p} "
            "features as input"
        )


def require_same_parameters(model: object, stream: Stream, problem: Problem) -> None:
    """Refuse basis functions of another number than the stream began with."""
    shape = problem.n_outputs, problem.dim + 1
    if stream["state"].V.shape != shape:
        raise ValueError(
            f"{type(model).__name__} has {shape[1] - 1} basis functions, but its stream began with "
            f"{stream['state'].V.shape[1] - 1}; partial_fit goes on with the parameters it began "
            "with: set them back, or begin anew with a clone"
        )


def check_offered(model: Learns) -> None:
    """Refuse parameters that a stream of rows cannot be fitted with."""
    if model.solver not in ("auto", "pegasos"):
        raise ValueError(
            f"partial_fit is solver='pegasos', got solver={model.solver!r}; use fit, or 'auto'"
        )
    if why := why_moments(model, model.smoothness):
        raise ValueError(
            f"{why} takes the curvature of all rows, and partial_fit sees each row once; use fit"
        )
    refuse_balanced(model)
    if has_pairs(model):
        raise ValueError(
            f"interactions={model.interactions!r} need one more read of all rows, and partial_fit "
            "looks at each row once; use fit, or interactions=0"
        )
    if getattr(model, "calibration", None) is not None:
        raise ValueError(
            f"calibration={model.calibration!r} holds rows out, and partial_fit looks at each row "
            "once; use fit, or calibration=None"
        )
    require_offered(model._loss, "pegasos", model._asks_joint)


def set_classes(model: HasLabels, classes: npt.ArrayLike | None) -> None:
    """Set all the classes that will come, which the first call must say."""
    if classes is None:
        raise ValueError("the first call of partial_fit needs classes=, all that will come")
    model.classes_ = np.unique(np.asarray(classes))
    if len(model.classes_) < 2:
        raise ValueError(f"classes holds 1 class ({classes}); a classifier needs 2 at least")


def begin(
    model: Learns,
    run: Run,
    dataset: Dataset,
    n_rows: float | None,
) -> Stream:
    """The stream before the first step; knots and centres come from the first rows."""
    summary = collect_summary(run.fold, dataset, state_limit(dataset))
    check_summary(dataset, summary, missing=model._accepts_missing)
    if not is_classifier(model):
        check_target(summary.target)
    adjustment = model._adjustment(dataset, summary)
    return {
        "state": start_averaged(model._problem(dataset, summary, adjustment, "pegasos")),
        "total": float(summary.total_weight if n_rows is None else n_rows),
        "promised": n_rows is not None,
        "summary": summary,
        "dtype": dataset.dtype.name,
        "sparse": bool(dataset.sparse),
        "n_reads": 1,
        "n_chunks": 0,
    }
