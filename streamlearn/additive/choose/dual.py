"""Dual coordinate descent of many fits of one table in the same reads.

A model is one for Newton's method too (`newton`): a problem with its own C, and the split that it
leaves out.  Rows of that split weigh nothing, so that their dual variables are bounded by 0.  The
variables of all models lie side by side in one row state, and the models share the coordinates of
each group of rows, their norms, and the rows that are cached (`dual.descent`).

Each model has turns of its own, whatever the others do: it is visited, one read after the other,
until its estimated gap is small enough; the next read measures both of its values; and the model is
done, or is visited again.  So there are as many reads as the slowest model takes alone, and a model
that is done costs no more arithmetic.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypedDict

import numpy as np

from ...data.order import Order
from ...data.source import Chunk, Source
from ...engine.run import Run
from ...passes.fold import Fold, RowState
from ...solvers.newton import Evaluation, relative_gap
from ...solvers.split_errors import NO_ROWS, TRAINS, Split
from ..dual import descent
from ..dual.cached_rows import (
    Cache,
    CachedRows,
    CacheState,
    MovedRows,
    RowsInHand,
    distance_from_settled,
    nothing_moved,
    start_cache,
    stored,
)
from ..dual.descent import Coefficients, Reading, alpha_width, empty_certificate
from ..objective import Problem, add_dual_values, add_losses, weights
from ..training import Trust, better
from .newton import SplitModel, Splits

ALPHA = "alpha of splits"
"""Row state of the dual variables of all models of a group."""
VISITED, MEASURED, DONE = "visited", "measured", "done"
"""Turns of a model in a read."""


class Turns(NamedTuple):
    """The models of a read, and the turn of each."""

    models: list[SplitModel]
    """Models of one `n_bases`."""
    splits: Splits
    turns: list[str]
    width: int
    """Dual variables of a row: at least those of the models, which lie side by side."""

    def of(self, turn: str) -> list[int]:
        """Numbers of the models whose turn it is."""
        return [k for k, own in enumerate(self.turns) if own == turn]

    def columns(self) -> list[slice]:
        """Places of each model's dual variables in a row."""
        ends = np.cumsum([0, *(alpha_width(model.problem) for model in self.models)]).tolist()
        return [slice(a, z) for a, z in pairwise(ends)]


class TurnsState(CacheState):
    """A read in progress."""

    models: list[Coefficients]
    sums: list[tuple[np.ndarray, ...]]
    """For each model losses and dual values, as `empty_certificate` has them."""
    weight: np.ndarray
    """(cv,) weights of the rows outside each split."""


Found = tuple[list[Evaluation], MovedRows, np.ndarray]
"""For each model its point and both values, estimated or measured; of models that are done none
is new.  The dual variables of cached rows, and the weight outside each split."""


def turns_fold(
    turns: Turns, thetas: list[np.ndarray], moved: MovedRows | None, reading: Reading
) -> Fold[TurnsState, Found]:
    """Fold, order-sensitive: one read in which each model has its turn, from its point on.

    `moved`: what rows cached in the read before have become; None: all variables are 0, whatever
    other models have left in the row state.
    """
    cached = reading.cache is not None
    return Fold(
        partial(_start, turns, thetas, reading),
        partial(_add, turns, moved, reading),
        finish=partial(_finish, turns),
        rows=(RowState(ALPHA, "float32", turns.width),),
        stored=stored if cached else None,
        close=partial(_leave_cached, turns, reading) if cached else None,
    )


def _start(turns: Turns, thetas: list[np.ndarray], reading: Reading) -> TurnsState:
    empty = [(m.problem.n_outputs, m.problem.dim) for m in turns.models]
    return {
        "models": [{"W": at[:, :-1].copy(), "b": at[:, -1].copy()} for at in thetas],
        "sums": [empty_certificate(*shape) for shape in empty],
        "weight": np.zeros(turns.splits.cv),
        **start_cache(reading.cache, turns.width),
    }


def _add(
    turns: Turns, moved: MovedRows | None, reading: Reading, state: TurnsState, chunk: Chunk
) -> TurnsState:
    problem = turns.models[0].problem  # of which coordinates depend on the bases alone
    descent.fetch_cached(problem, reading.cache, state)
    if not chunk.n_rows:
        return state
    chunk, prepared = descent.by_rows(problem, chunk)
    alpha = chunk.state[ALPHA]
    if moved is None:
        alpha[:] = 0
    else:
        moved.over(chunk, alpha)
    y = prepared.targets(chunk)
    weight = _weights(turns.splits, chunk)
    hand = RowsInHand(chunk.X, (y, weights(chunk)), alpha, None)
    state["weight"] += [weight[split].sum() for split in range(turns.splits.cv)]
    F: dict[int, np.ndarray] = {}
    orders, far, norms = reading.orders(chunk), np.full(chunk.n_rows, np.inf), None
    for k in turns.of(VISITED):
        part = _Own(turns, k, hand._replace(norms=norms), weight)
        own, rows = state["models"][k], part.rows
        epochs = descent.epochs_of(part.problem, rows, own)
        epochs.visit(orders)
        norms = epochs.norms
        F[k] = descent.left_decisions(part.problem, epochs, chunk, own)
        part.put_back()
        distance = distance_from_settled(part.problem, *rows.targets, rows.alpha, F[k])
        far = np.minimum(far, distance)
    rest = np.ones(chunk.n_rows, bool)
    cached, cache = state["cached"], reading.cache
    if cache is not None and F:
        chosen = cache.choose(far, state)
        rest[cached.add(chunk, chosen, hand.targets, alpha, norms)] = False
    for k, decisions in F.items():
        part = _Own(turns, k, hand, weight)
        (y, s), (loss, dual, *_) = part.rows.targets, state["sums"][k]
        add_dual_values(part.problem, y[rest], s[rest], part.rows.alpha[rest], dual)
        add_losses(part.problem, decisions[rest], y[rest], s[rest], loss)
    for k in turns.of(MEASURED):
        part = _Own(turns, k, hand, weight)
        own, (_, s) = state["models"][k], part.rows.targets
        rows_of_model = Chunk(chunk.X, chunk.y, s, chunk.rows, {descent.ALPHA: part.rows.alpha})
        theta, still = np.column_stack([own["W"], own["b"]]), nothing_moved(0)
        descent.add_certificate(part.problem, theta, still, state["sums"][k], rows_of_model)
    if F and (orders := reading.due_orders(state, chunk)):
        weight = _cached_weights(turns, cached)
        for k in F:
            part = _Own(turns, k, cached.in_hand, weight)
            descent.epochs_of(part.problem, part.rows, state["models"][k]).visit(orders)
            part.put_back()
    return state


class _Own:
    """One model's part of rows in hand: its weights, and a copy of its dual variables."""

    def __init__(
        self, turns: Turns, k: int, rows: RowsInHand, weight: dict[int, np.ndarray]
    ) -> None:
        model = turns.models[k]
        self.problem: Problem = descent.prepared_problem(model.problem)
        self._all = rows.alpha[:, turns.columns()[k]]
        own = np.ascontiguousarray(self._all)
        self.rows = rows._replace(targets=(rows.targets[0], weight[model.split]), alpha=own)

    def put_back(self) -> None:
        """Write the dual variables to where they were copied from."""
        self._all[:] = self.rows.alpha


def _weights(splits: Splits, chunk: Chunk) -> dict[int, np.ndarray]:
    """For each split the weights of the rows outside it."""
    return {f: s for f, s in splits.weights(chunk).items() if s is not None}


def _cached_weights(turns: Turns, cached: CachedRows) -> dict[int, np.ndarray]:
    _, weight = cached.targets
    rows = Chunk(cached.X, weight=weight if len(weight) else None, rows=cached.numbers)
    return _weights(turns.splits, rows)


def _leave_cached(turns: Turns, reading: Reading, state: TurnsState) -> TurnsState:
    """Visit the cached rows, for each model until that no longer pays, and let them go."""
    cached, state["cached"] = state["cached"], None
    if not cached.n:
        return state
    weight = _cached_weights(turns, cached)
    for k in turns.of(VISITED):
        part = _Own(turns, k, cached.in_hand, weight)
        loss, dual, *_ = state["sums"][k]
        own = state["models"][k]
        descent.leave_rows(part.problem, part.rows, own, (dual, loss), reading)
        part.put_back()
    state["moved"] = cached.moved()
    return state


def _finish(turns: Turns, state: TurnsState) -> Found:
    found = []
    for model, turn, own, sums in zip(
        turns.models, turns.turns, state["models"], state["sums"], strict=True
    ):
        if turn == MEASURED:
            theta = np.column_stack([own["W"], own["b"]])
            found.append(descent.finish_certificate(model.problem, theta, sums))
        else:
            loss, dual, *_ = sums
            found.append(descent.estimated(model.problem, own, (dual, loss)))
    return found, state["moved"], state["weight"]


class Progress(TypedDict):
    """The fits between two reads, as a checkpoint keeps them; a list has one item a model."""

    n_reads: int
    thetas: list[np.ndarray]
    """Points (K, dim + 1) at which the next read begins."""
    moved: MovedRows | None
    """Dual variables that the row state does not have yet; None before the first read."""
    turns: list[str]
    n_sweeps: list[int]
    """Reads that have visited the model."""
    trust: list[tuple[float, int]]
    """Fields of `Trust`."""
    estimates: list[float]
    """Estimated gaps for which the models are measured."""
    proved: list[Evaluation | None]
    """The best point and the best bound of all that were measured."""


def fit_together(
    run: Run,
    source: Source,
    turns: Turns,
    order: Order,
    *,
    row_nbytes: float,
    tol: float,
    max_reads: int,
    name: str,
) -> list[Evaluation]:
    """The models' points and proved values, in at most `max_reads` reads of the source.

    `turns`: those of the first read; `row_nbytes`: of a cached row's X.
    """
    n_groups = -(-len(source.refs()) // order.group)
    n_epochs = descent.EPOCHS if n_groups > 1 else descent.EPOCHS_OF_ALL
    cache = None
    if run.plan.chosen_rows:
        cache = Cache(run.plan.chosen_rows, row_nbytes, tol, source)
        n_epochs = 1 if cache.holds_all else n_epochs
    kept: Progress = run.restore(name) or _begin(turns)
    while True:
        n, last = kept["n_reads"], kept["n_reads"] + 1 >= max_reads
        if last:  # what is not measured in the last read is not known
            kept["turns"] = [MEASURED if turn == VISITED else turn for turn in kept["turns"]]
        now = turns._replace(turns=list(kept["turns"]))
        used = cache if now.of(VISITED) else None
        reading = Reading(n_epochs, (order.seed, n), used)
        fold = turns_fold(now, kept["thetas"], kept["moved"], reading)
        found, kept["moved"], weight = run.sweep(
            fold, source, order, pass_index=n, name=f"{name}-{n + 1}"
        )
        if not weight.min() > 0:
            split = Split(int(np.argmin(weight)), turns.splits.cv)
            raise split.lacks(TRAINS, NO_ROWS)
        kept["n_reads"] = n + 1
        for k, at in enumerate(found):
            _next_turn(kept, k, at, tol)
        left = sum(turn != DONE for turn in kept["turns"])
        run.record(read=run.n_passes, models=len(turns.models), models_left=left)
        if not left or last:
            return [at for at in kept["proved"] if at is not None]  # the last read leaves none out
        run.commit(name, kept)


def _begin(turns: Turns) -> Progress:
    """All points at 0, where all dual variables are."""
    n = len(turns.models)
    return {
        "n_reads": 0,
        "thetas": [np.zeros((m.problem.n_outputs, m.problem.dim + 1)) for m in turns.models],
        "moved": None,
        "turns": list(turns.turns),
        "n_sweeps": [0] * n,
        "trust": [(1.0, 0)] * n,
        "estimates": [0.0] * n,
        "proved": [None] * n,
    }


def _gap(at: Evaluation) -> float:
    return float(relative_gap(at.value, at.bound).max())


def _next_turn(kept: Progress, k: int, at: Evaluation, tol: float) -> None:
    """Take note of what a read found of model k, in place: its point, and its turn in the next."""
    turn, trust = kept["turns"][k], Trust(*kept["trust"][k])
    if turn == VISITED:
        kept["thetas"][k] = at.theta
        kept["n_sweeps"][k] += 1
        if trust.promises(_gap(at), tol, kept["n_sweeps"][k]):
            kept["turns"][k] = MEASURED
            kept["estimates"][k] = _gap(at)
    elif turn == MEASURED:
        proved = kept["proved"][k] = better(kept["proved"][k], at)
        gap = _gap(proved)
        kept["turns"][k] = DONE if gap <= tol else VISITED
        trust = trust.after(kept["estimates"][k], gap, kept["n_sweeps"][k])
        kept["trust"][k] = trust.factor, trust.failed
