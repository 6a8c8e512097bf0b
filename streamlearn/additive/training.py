"""The ways to the optimum: one Gram, streamed Newton or L-BFGS, dual coordinate descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..config import get_config
from ..data.order import Order, derive_seed
from ..data.source import Chunk, Source
from ..engine.run import Run
from ..engine.scratch.folder import scratch_allowed
from ..passes.fold import both
from ..passes.summary.summary import Summary
from ..solvers.newton import Evaluation, newton, relative_gap
from .dual.cached_rows import Cache, coordinate_form
from .dual.descent import (
    EPOCHS,
    EPOCHS_OF_ALL,
    Reading,
    Sweep,
    certificate_fold,
    start_sweep,
    sweep_fold,
)
from .newton.curvature import gram_fold, gram_optimum
from .newton.sampled import SampleObjective, StreamedObjective, beyond, with_functions
from .objective import Problem, evaluation_fold, loss_fold

PATIENCE = 3
"""Reads without a better validation loss after which early stopping stops."""


class Outcome(NamedTuple):
    """The end of a fit."""

    theta: np.ndarray
    """(K, dim + 1)."""
    primal: np.ndarray
    dual: np.ndarray
    reason: str
    """Reason for which the fit ended or, with `converged` False, stopped short."""
    converged: bool
    criterion: str = "relative duality gap"


class Trust(NamedTuple):
    """Belief in the estimated gaps of a dual fit, from the certificates that failed."""

    factor: float = 1.0
    """An estimate counts as small enough below this times the tolerance."""
    failed: int = 0
    """Number of the sweep, counted from 1, whose certificate failed last."""

    def promises(self, estimate: float, tol: float, sweep: int) -> bool:
        """Whether a certificate after this sweep is worth its read.

        An estimate below 0 is of rows that were left long before: the gap is not known.  One
        estimate that was far too low says little of those that come when the model hardly moves,
        so the plain tolerance counts again once twice as many sweeps are made.
        """
        plain = self.failed and sweep >= 2 * self.failed
        factor = max(self.factor, 1.0) if plain else self.factor
        return abs(estimate) <= tol * factor

    def after(self, estimate: float, gap: float, sweep: int) -> Trust:
        """Belief that remains when a certificate measured `gap` where `estimate` was promised."""
        factor = max(0.9 * estimate / gap, 0.05) if estimate > 0 else self.factor
        return Trust(min(self.factor, factor), sweep)


class Watch:
    """Keeps one record per read of the solver, and the loss of held-out rows."""

    def __init__(
        self,
        run: Run,
        problem: Problem,
        validation: Source | None,
        early_stopping: bool,
        check: Callable[[Chunk], None] | None = None,
    ) -> None:
        """`check`: refuses held-out rows that the problem cannot take, a chunk at a time."""
        self._run, self._problem, self._validation = run, problem, validation
        self._early_stopping, self._check = early_stopping, check
        self.state: dict[str, Any] = {"read": 0, "best_loss": np.inf, "best_read": 0, "best": None}

    def __call__(self, at: Evaluation, gap: np.ndarray) -> str:
        """Record a measured point; a reason to stop, or empty."""
        return self._look(at, **_measured(at, gap))

    def swept(self, sweep: Sweep, gap: float) -> str:
        """Record what a sweep estimates; a reason to stop, or empty."""
        at = Evaluation(sweep.theta, sweep.primal, np.empty((len(sweep.b), 0)), sweep.dual)
        fields = {"estimated_objective": plain(sweep.primal), "dual": plain(sweep.dual)}
        return self._look(at, **fields, estimated_gap=gap)

    def passed(self, theta: np.ndarray, bound: np.ndarray) -> str:
        """Record an epoch whose point was not measured; a reason to stop, or empty."""
        at = Evaluation(theta, np.full(len(bound), np.nan), np.empty((len(bound), 0)), bound)
        return self._look(at, dual=plain(bound))

    def certified(self, at: Evaluation, gap: np.ndarray) -> None:
        """Record a certificate of the last sweep."""
        self._run.record(read=self.state["read"], **_measured(at, gap))

    def _look(self, at: Evaluation, **fields: object) -> str:
        state = self.state
        state["read"] += 1
        fields = {"read": state["read"], **fields}
        if self._validation is None:
            self._run.record(**fields)
            return ""
        fold = loss_fold(self._problem, at.theta, self._check)
        loss = self._run.fold(fold, self._validation, name=f"validation-{state['read']}")
        self._run.record(**fields, validation_loss=loss)
        if loss < state["best_loss"]:
            state.update(best_loss=loss, best_read=state["read"], best=at)
        if self._early_stopping and state["read"] - state["best_read"] >= PATIENCE:
            return f"the validation loss has not fallen for {PATIENCE} reads"
        return ""

    def outcome(self, at: Evaluation, tol: float, reason: str) -> Outcome:
        """The report of a fit that ended at `at`."""
        gap = float(relative_gap(at.value, at.bound).max())
        if reason.startswith("the validation loss"):
            best = self.state["best"]
            return Outcome(best.theta, best.value, at.bound, reason, True, "validation loss")
        if gap <= tol:
            reason = f"relative gap {gap:.2g} <= tol {tol:.2g}"
        return Outcome(at.theta, at.value, at.bound, reason, gap <= tol)


def _measured(at: Evaluation, gap: np.ndarray) -> dict[str, object]:
    return {
        "objective": plain(at.value),
        "dual": plain(at.bound),
        "relative_gap": float(gap.max()),
    }


def plain(x: np.ndarray) -> float | list[float]:
    """One number, or a list of K."""
    return float(x[0]) if len(x) == 1 else x.tolist()


def fit_gram(run: Run, source: Source, problem: Problem, watch: Watch, tol: float) -> Outcome:
    """Squared error: one read; a Newton step from 0 with the curvature of all rows is exact."""
    zero = np.zeros((1, problem.dim + 1))
    fold = both(evaluation_fold(problem, zero), gram_fold(problem, zero))
    at, [[gram, total]] = run.fold(fold, source, name="gram")
    at = gram_optimum(problem, gram, total, at)
    watch(at, relative_gap(at.value, at.bound))
    return watch.outcome(at, max(tol, 1e-8), "")


def fit_newton(
    run: Run,
    source: Source,
    problem: Problem,
    sample: Chunk,
    watch: Watch,
    *,
    start: np.ndarray | None,
    tol: float,
    max_reads: int,
    share: float,
    seed: int,
    may_grow: bool,
    matrix_free: bool = False,
) -> Outcome:
    """The sample's optimum, then reads of all rows with directions from the sample.

    `matrix_free`: directions by conjugate gradients.  For the sample's own optimum its curvature is
    exact and nothing corrects them; if the sample is all rows they go no further than `tol`.
    Between reads every step corrects the next ones (L-BFGS).
    """
    if share >= 1.0:  # the sample is all rows: no read but the one that proves its optimum
        problem = problem._replace(single=False)
    if not matrix_free:
        sample = with_functions(problem, sample)
    rows = SampleObjective(problem, sample, share, matrix_free=matrix_free, n_threads=run.n_threads)
    at = problem.by_problem(
        np.zeros((problem.n_outputs, problem.dim + 1)) if start is None else start
    )
    if share >= 1.0:
        at = rows.minimise(at, tol=tol if matrix_free else beyond(tol))
    elif start is None:  # a last fit's optimum is nearer than the sample's
        at = rows.minimise(at)
    streamed = StreamedObjective(
        run,
        source,
        problem,
        rows,
        seed=derive_seed(seed, 1),
        may_grow=may_grow,
        to_scratch=share < 1.0 and caches_in_scratch(source),
        tol=tol,
    )
    solution = newton(
        streamed,
        at,
        tol=tol,
        max_reads=max_reads,
        watch=watch,
        always_corrects=matrix_free,
    )
    return watch.outcome(solution.at, tol, solution.reason)


def fit_dual(
    run: Run,
    source: Source,
    problem: Problem,
    order: Order,
    watch: Watch,
    *,
    tol: float,
    max_reads: int,
) -> Outcome:
    """Sweeps over super-blocks, and a certificate whenever the estimate promises one."""
    row_nbytes = cached_x_nbytes(source)
    if not problem.bases.prepared:
        source, problem = as_coordinates(run, source, problem)
        max_reads -= problem.bases.prepared
    source = run.planned(source)
    n_groups = -(-len(source.refs()) // order.group)
    n_parts = min(run.plan.partitions, n_groups)
    n_epochs = EPOCHS if n_groups > 1 else EPOCHS_OF_ALL
    cache = None
    if run.plan.chosen_rows:
        cache = Cache(-(-run.plan.chosen_rows // n_parts), row_nbytes, tol, source, n_parts)
        n_epochs = 1 if cache.holds_all else n_epochs
    kept = run.restore("dual-cd")
    if kept is None:
        kept = {"sweep": start_sweep(problem), "n_sweeps": 0, "n_reads": 0, "at": None}
        kept |= {"trust": tuple(Trust()), "watch": watch.state}
    watch.state = kept["watch"]
    while True:
        n = kept["n_sweeps"]
        reading = Reading(n_epochs, (order.seed, n), cache, n_parts)
        fold = sweep_fold(problem, kept["sweep"], reading)
        sweep: Sweep = run.sweep(
            fold, source, order, pass_index=n, n_partitions=n_parts, name=f"dual-{n + 1}"
        )
        kept |= {"sweep": sweep, "n_sweeps": n + 1, "n_reads": kept["n_reads"] + 1}
        estimate = float(relative_gap(sweep.primal, sweep.dual).max())
        reason = watch.swept(sweep, estimate)
        last = kept["n_reads"] + 2 > max_reads
        trust = Trust(*kept["trust"])
        if trust.promises(estimate, tol, n + 1) or last or reason:
            theta = watch.state["best"].theta if reason else sweep.theta
            name = f"certificate-{n + 1}"
            measure = certificate_fold(problem, theta, sweep.moved)
            at: Evaluation = run.fold(measure, source, name=name)
            if reason:
                watch.state["best"] = at
            kept["n_reads"] += 1
            kept["at"] = at = better(kept["at"], at)
            gap = relative_gap(at.value, at.bound)
            watch.certified(at, gap)
            if gap.max() <= tol or last or reason:
                break
            kept["trust"] = tuple(trust.after(estimate, float(gap.max()), n + 1))
        run.commit("dual-cd", kept)
    return watch.outcome(at, tol, reason or f"max_passes: {max_reads} reads were made")


def as_coordinates(run: Run, source: Source, problem: Problem) -> tuple[Source, Problem]:
    """Rows as coordinates in a scratch copy, and the problem of these, where it is worth a read."""
    if not worth_caching(source):
        return source, problem
    copy, _ = run.cache(source, coordinate_form(problem), in_memory=False, name="cache")
    return copy, problem._replace(bases=problem.bases._replace(prepared=True))


def better(a: Evaluation | None, b: Evaluation) -> Evaluation:
    """The better point and the better bound of each output, from two certificates."""
    if a is None:
        return b
    lower = b.value < a.value
    return Evaluation(
        np.where(lower[:, None], b.theta, a.theta),
        np.where(lower, b.value, a.value),
        b.gradient,
        np.maximum(a.bound, b.bound),
    )


def cached_x_nbytes(source: Source) -> float:
    """Bytes of a cached row's coordinates: 4 a value; a sparse row as much as it has decoded."""
    if source.sparse:
        return float(source.decoded_nbytes / max(source.n_physical_rows, 1))
    return 4.0 * source.n_features


def worth_caching(source: Source) -> bool:
    """Whether many reads should go to a scratch copy: not of rows in memory, nor if forbidden."""
    return scratch_allowed() and not source.in_memory


def caches_in_scratch(source: Source) -> bool:
    """Whether Newton's few reads go to a copy too: only where the settings name a place for it."""
    return bool(get_config().scratch) and worth_caching(source)


def labels_of_refs(dataset: Source, planned: Source, summary: Summary) -> np.ndarray:
    """(n_refs, K) class weights of the refs a sweep draws; finer refs have those of their whole.

    Targets of too many values to be counted have one class of no weight: any order is as good.
    """
    labels, refs = summary.ref_labels, planned.refs()
    if labels is None:
        return np.zeros((len(refs), 1))
    at = np.searchsorted(dataset.refs().starts, refs.starts, "right") - 1
    return labels[at]
