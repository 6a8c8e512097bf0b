"""Dual coordinate descent over super-blocks of chunks (Hsieh et al. 2008; Yu et al. 2010).

    maximise D(alpha) = C sum_i s_i dual_value(alpha_i) - 1/2 |w|^2,   w = sum_i alpha_i y_i Psi_i

(regression: alpha_i is the force itself, of either sign, and y_i is left out of w: Ho & Lin 2012).

1. A group of refs, drawn so that its mix of classes is that of all rows, is read into memory.
2. Its dual variables are minimised one at a time, in random order, a few epochs; w follows.
3. Its unsettled rows stay in the memory that the plan leaves, and are visited again and again
   (`cached_rows`).  What their variables became is carried to the next read beside the row state.
4. After all groups the dual value is exact; the primal one is estimated as the rows were left.
5. When the estimate says so, a read measures the primal value at w and rebuilds the dual one from
   alpha alone, so that the gap is proved whatever rounding did to w.

The groups of a large table go to partitions, drawn anew in each read, that all begin at one w and
whose changes of w are added up (`partitions`).

The dual variables are row state: 4 bytes a row and output, 8 for log-loss.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from ...data.row_ranges import Ref, Refs
from ...data.source import Chunk
from ...engine.lanes import RetryingReader
from ...passes.fold import Fold, RowState
from ...passes.sums import add_sums
from ...solvers.newton import Evaluation, relative_gap
from ..basis.kernels import coordinates_rows
from ..objective import (
    Problem,
    add_dual_values,
    add_losses,
    decisions,
    forces_of,
    losses,
    spline_sums,
    weights,
)
from .cached_rows import (
    Cache,
    CachedRows,
    CacheState,
    MovedRows,
    RowsInHand,
    distance_from_settled,
    fetch,
    nothing_moved,
    start_cache,
    stored,
)
from .epochs import DualEpochs, DualState, OutputEpochs, make_epochs
from .partitions import local_problem

ALPHA = "alpha"
GROUP = 4
"""Refs in a super-block; with fewer a class-sorted file never converges."""
EPOCHS, EPOCHS_OF_ALL = 3, 5
"""Visits of a group's rows per read of it; of the only group, when it holds all rows."""
BLOCK = 16
SHARE_OF_VISITS = 0.5
"""Visits of cached rows between groups, per visit of a row of a group."""
LAST_VISITS = 60
"""Largest number of visits of the cached rows after the last group."""
ALL_VISITS = 100
"""The same where all rows are cached: nothing but the certificate is left to read."""
ROUNDS = 100
"""Largest number of times that these begin again, until the estimated gap is small."""
SURELY = 0.5
"""Share of the tolerance at which an estimated gap ends them: the gap itself is mostly larger."""
PAYS = 0.002
"""Share of what these visits have gained that the next one must gain."""
ENOUGH = 0.002
"""Share of the tolerance, relative to the dual value, that a visit of cached rows must gain.

Hinge on MNIST, odd or even, C = 0.01, 30 % of the rows cached, to 1 %: with these three 4 sweeps,
with 20, 0.005 and 0.1 it took 7.
"""


class Coefficients(TypedDict):
    """The model of a sweep in progress, which epochs change in place."""

    W: np.ndarray
    """(K, dim)."""
    b: np.ndarray
    """(K,)."""


class State(Coefficients, CacheState):
    """A sweep in progress: coefficients, sums over the groups, cached rows."""

    dual: np.ndarray
    """(K,) dual values of the rows that were left, without the penalty."""
    loss: np.ndarray
    """(K,) weighted losses of these rows, as they were left."""


class Sweep(NamedTuple):
    """The model at the end of a sweep, and what the sweep measured."""

    W: np.ndarray
    """(K, dim)."""
    b: np.ndarray
    """(K,)."""
    dual: np.ndarray
    """(K,) dual values at the end."""
    primal: np.ndarray
    """(K,) primal values, each row's loss taken when its group, or the cache, was left: too low."""
    moved: MovedRows
    """Dual variables of the rows that were cached: their row state is older."""

    @property
    def theta(self) -> np.ndarray:
        return np.column_stack([self.W, self.b])


class Reading(NamedTuple):
    """Order and number of a sweep's visits to rows."""

    n_epochs: int
    """Visits of each group's rows."""
    key: tuple[int, ...]
    """Seed and number of the sweep, or more: with row numbers they draw the later orders."""
    cache: Cache | None = None
    n_partitions: int = 1

    @property
    def rounds(self) -> int:
        """Times that the last visits of cached rows may begin, which know the gap of all rows."""
        holds_all = self.cache is not None and self.cache.holds_all
        return ROUNDS if holds_all and self.n_partitions == 1 else 1

    def orders(self, chunk: Chunk) -> list[np.ndarray]:
        """The orders in which a group's rows are visited."""
        place, m = (*self.key, int(chunk.rows[0])), chunk.n_rows
        orders = [shuffled(m, (*place, epoch)) for epoch in range(1, self.n_epochs)]
        return orders if chunk.order is None else [chunk.order, *orders]

    def due_orders(self, state: CacheState, chunk: Chunk) -> list[np.ndarray]:
        """The orders in which the cached rows are visited after this group; counts them."""
        cached = state["cached"]
        if cached is None or not cached.n:
            return []
        state["n_due"] += SHARE_OF_VISITS * chunk.n_rows * self.n_epochs
        n = int(state["n_due"] // cached.n)
        state["n_due"] -= n * cached.n
        place = *self.key, int(chunk.rows[0])
        return [shuffled(cached.n, (*place, self.n_epochs + visit)) for visit in range(n)]


def alpha_width(problem: Problem) -> int:
    """Dual variables a row: log-loss keeps alpha and C s - alpha, for their relative precision."""
    return problem.n_outputs * int(problem.loss.dual_rule().n_variables)


def start_sweep(problem: Problem) -> Sweep:
    """alpha = 0."""
    K, moved = problem.n_outputs, nothing_moved(alpha_width(problem))
    return Sweep(np.zeros((K, problem.dim)), np.zeros(K), np.zeros(K), np.zeros(K), moved)


def sweep_fold(problem: Problem, before: Sweep, reading: Reading) -> Fold[State, Sweep]:
    """Fold, order-sensitive: one visit of every group from where `before` ended."""
    n = reading.n_partitions
    local = local_problem(problem, n) if n > 1 else problem
    return Fold(
        partial(_start_sweep, before, reading),
        partial(_sweep_group, local, before.moved, reading),
        partial(_join_partitions, before) if n > 1 else None,
        partial(_finish_sweep, problem, before, n),
        (RowState(ALPHA, "float32", alpha_width(problem)),),
        None if reading.cache is None else stored,
        None if reading.cache is None else partial(_leave_cached, local, reading),
    )


def _start_sweep(before: Sweep, reading: Reading) -> State:
    K = len(before.b)
    return {
        "W": before.W.copy(),
        "b": before.b.copy(),
        "dual": np.zeros(K),
        "loss": np.zeros(K),
        **start_cache(reading.cache, before.moved.alpha.shape[1]),
    }


def _sweep_group(
    problem: Problem, moved: MovedRows, reading: Reading, state: State, chunk: Chunk
) -> State:
    fetch_cached(problem, reading.cache, state)
    if chunk.n_rows:
        _visit_group(problem, moved, reading, state, chunk)
    return state


def _visit_group(
    problem: Problem, moved: MovedRows, reading: Reading, state: State, chunk: Chunk
) -> None:
    chunk, prepared = by_rows(problem, chunk)
    y, s, alpha = problem.targets(chunk), weights(chunk), moved.over(chunk, chunk.state[ALPHA])
    epochs = epochs_of(prepared, RowsInHand(chunk.X, (y, s), alpha, None), state)
    epochs.visit(reading.orders(chunk))
    F = left_decisions(prepared, epochs, chunk, state)
    rest = np.ones(chunk.n_rows, bool)
    cached, cache = state["cached"], reading.cache
    if cache is not None:
        far = distance_from_settled(problem, y, s, alpha, F)
        chosen = cache.choose(far, state)
        rest[cached.add(chunk, chosen, (y, s), alpha, epochs.norms)] = False
    kept = s[rest] if len(s) else s
    add_dual_values(problem, y[rest], kept, alpha[rest], state["dual"])
    add_losses(problem, F[rest], y[rest], kept, state["loss"])
    if orders := reading.due_orders(state, chunk):
        epochs_of(prepared, cached.in_hand, state).visit(orders)


def _leave_cached(problem: Problem, reading: Reading, state: State) -> State:
    """Visit the cached rows until that no longer pays, count what they add, and let them go."""
    cached, state["cached"] = state["cached"], None
    if cached.n:
        leave_rows(problem, cached.in_hand, state, (state["dual"], state["loss"]), reading)
        state["moved"] = cached.moved()
    return state


def leave_rows(
    problem: Problem,
    rows: RowsInHand,
    model: Coefficients,
    sums: tuple[np.ndarray, np.ndarray],
    reading: Reading,
) -> None:
    """Visit cached rows until that no longer pays; `model`, their variables, and `sums` in place.

    `sums`: dual values and losses (K,) of the other rows, to which those of these are added.  Where
    every row is cached another read does nothing but such visits, and these may begin again
    (`Reading.rounds`) until the estimated gap is small.
    """
    cache, problem = reading.cache, prepared_problem(problem)
    assert cache is not None  # else no row is cached
    of_dual, of_loss = sums
    others = of_dual.copy(), of_loss.copy()
    for turn in range(reading.rounds):
        of_dual[:], of_loss[:] = others
        again = reading._replace(key=(*reading.key, turn)) if turn else reading
        _visit_until_it_no_longer_pays(problem, rows, model, of_dual, again)
        epochs = epochs_of(problem, rows, model)
        F = left_decisions(problem, epochs, Chunk(rows.X, rows=range(len(rows.alpha))), model)
        add_dual_values(problem, *rows.targets, rows.alpha, of_dual)
        add_losses(problem, F, *rows.targets, of_loss)
        at = estimated(problem, model, sums)
        if abs(relative_gap(at.value, at.bound)).max() <= SURELY * cache.tol:
            break


def _visit_until_it_no_longer_pays(
    problem: Problem, rows: RowsInHand, model: Coefficients, others: np.ndarray, reading: Reading
) -> None:
    """`others`: dual values (K,) of the other rows."""
    cache = reading.cache
    assert cache is not None
    dual, gained = _dual_of(problem, rows, model), 0.0
    for visit in range(ALL_VISITS if cache.holds_all else LAST_VISITS):
        order = shuffled(len(rows.alpha), (*reading.key, visit))
        epochs_of(problem, rows, model).visit([order])
        last, dual = dual, _dual_of(problem, rows, model)
        gained += dual - last
        enough = ENOUGH * cache.tol * abs(dual + others.sum())
        if dual - last < max(enough, 0.0 if cache.holds_all else PAYS * gained):
            break


def estimated(
    problem: Problem, model: Coefficients, sums: tuple[np.ndarray, np.ndarray]
) -> Evaluation:
    """The model's point and values by the dual values and losses (K,) of rows as they were left."""
    theta, (dual, loss) = np.column_stack([model["W"], model["b"]]), sums
    norm, nothing = problem.penalty(theta), np.empty((len(theta), 0))
    return Evaluation(theta, problem.C * loss + norm, nothing, dual - norm)


def _dual_of(problem: Problem, rows: RowsInHand, model: Coefficients) -> float:
    """The cached rows' part of the dual value, of all outputs, less what w takes off."""
    dual = np.zeros(problem.n_outputs)
    add_dual_values(problem, *rows.targets, rows.alpha, dual)
    norm = problem.penalty(np.column_stack([model["W"], model["b"]]))
    return float(dual.sum() - norm.sum())


def epochs_of(
    prepared: Problem, rows: RowsInHand, model: Coefficients
) -> DualEpochs | OutputEpochs:
    state = DualState(rows.alpha, model["W"], model["b"])
    return make_epochs(prepared, rows.X, rows.targets, state, rows.norms)


def left_decisions(
    prepared: Problem, epochs: DualEpochs | OutputEpochs, chunk: Chunk, model: Coefficients
) -> np.ndarray:
    """(m, K) decisions of the rows as the epochs left them."""
    F = epochs.decisions()
    if F is not None:
        return F
    return decisions(prepared, np.column_stack([model["W"], model["b"]]), chunk)


def fetch_cached(problem: Problem, cache: Cache | None, state: CacheState) -> None:
    """Read the cached rows of an interrupted sweep again, in place."""
    stored = state["cached"]
    if cache is None or not isinstance(stored, dict):
        return
    cached = CachedRows(cache.n_most, cache.row_nbytes, stored["alpha"].shape[1])
    prepared, refs = prepared_problem(problem), Refs.of(cache.source.refs())
    with RetryingReader(cache.source) as reader:

        def rows_of(ref: Ref) -> Chunk:
            return by_rows(problem, reader.read(ref))[0]

        fetch(cached, stored, rows_of, refs, lambda rows: (problem.targets(rows), weights(rows)))
    if cached.n:
        empty: Coefficients = {
            "W": np.zeros((problem.n_outputs, problem.dim)),
            "b": np.zeros(problem.n_outputs),
        }
        norms = epochs_of(prepared, cached.in_hand._replace(norms=None), empty).norms
        if norms is not None:
            cached.norms[:] = norms
    state["cached"] = cached


def prepared_problem(problem: Problem) -> Problem:
    return problem._replace(bases=problem.bases._replace(prepared=True))


def by_rows(problem: Problem, chunk: Chunk) -> tuple[Chunk, Problem]:
    """The chunk's rows as row-major coordinates: every epoch takes them like that."""
    bases = problem.bases
    if not bases.prepared:
        X = coordinates_rows(chunk.X, bases, "C")
        chunk = Chunk(X, chunk.y, chunk.weight, chunk.rows, chunk.state, chunk.order)
        bases = bases._replace(prepared=True)
    return chunk, problem._replace(bases=bases)


def _join_partitions(before: Sweep, a: State, b: State) -> State:
    """Both partitions' changes of w, sums and moved variables; `a` in place."""
    a["W"] += b["W"] - before.W
    a["b"] += b["b"] - before.b
    a["dual"] += b["dual"]
    a["loss"] += b["loss"]
    a["n_rows"] += b["n_rows"]
    a["moved"] = a["moved"].joined(b["moved"])
    return a


def _finish_sweep(problem: Problem, before: Sweep, n_partitions: int, state: State) -> Sweep:
    W, b = state["W"], state["b"]
    if n_partitions > 1:
        W = before.W + (W - before.W) / n_partitions
        b = before.b + (b - before.b) / n_partitions
    norm = problem.penalty(np.column_stack([W, b]))
    primal = problem.C * state["loss"] + norm
    return Sweep(W, b, state["dual"] - norm, primal, state["moved"])


def shuffled(n_rows: int, key: tuple[int, ...]) -> np.ndarray:
    """(n_rows,) intp: blocks of neighbouring rows in random order, a function of the key."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
    first = random.permutation(-(-n_rows // BLOCK)) * BLOCK
    order = (first[:, None] + np.arange(BLOCK)).ravel()
    return order[order < n_rows].astype(np.intp, copy=False)


# The certificate.


def certificate_fold(
    problem: Problem, theta: np.ndarray, moved: MovedRows
) -> Fold[tuple[np.ndarray, ...], Evaluation]:
    """Fold: the primal value at `theta` and the dual value of alpha, both by this read alone.

    The evaluation's theta is the given one; its gradient is empty.
    """
    return Fold(
        partial(empty_certificate, problem.n_outputs, problem.dim),
        partial(add_certificate, problem, theta, moved),
        add_sums,
        partial(finish_certificate, problem, theta),
        (RowState(ALPHA, "float32", alpha_width(problem), writes=False),),
    )


def empty_certificate(n_outputs: int, dim: int) -> tuple[np.ndarray, ...]:
    """Losses, dual values, sum alpha y Phi, sum alpha y."""
    return np.zeros(n_outputs), np.zeros(n_outputs), np.zeros((n_outputs, dim)), np.zeros(n_outputs)


def add_certificate(
    problem: Problem,
    theta: np.ndarray,
    moved: MovedRows,
    state: tuple[np.ndarray, ...],
    chunk: Chunk,
    epochs: DualEpochs | OutputEpochs | None = None,
) -> tuple[np.ndarray, ...]:
    """The state with the chunk's losses and forces; `epochs` over its rows may be quicker."""
    if not chunk.n_rows:
        return state
    loss, dual, force, total = state
    y, s, alpha = problem.targets(chunk), weights(chunk), moved.over(chunk, chunk.state[ALPHA])
    forces, w = forces_of(problem, y, alpha), theta[:, :-1]
    F = None if epochs is None else epochs.margins(w)
    if epochs is None or F is None:
        loss += losses(problem, theta, chunk)
        force += spline_sums(problem, forces, chunk)
    else:
        add_losses(problem, F + (theta[:, -1] - w @ problem.reference.c), y, s, loss)
        force += epochs.sums(forces)
    add_dual_values(problem, y, s, alpha, dual)
    total += forces.sum(axis=0)
    return state


def finish_certificate(
    problem: Problem, theta: np.ndarray, state: tuple[np.ndarray, ...]
) -> Evaluation:
    loss, dual, force, total = state
    V = force - total[:, None] * problem.reference.c
    value = problem.penalty(theta) + problem.C * loss
    return Evaluation(theta, value, np.empty((len(value), 0)), dual - problem.half_norm(V, total))
