"""A fit: scaling, clusters, EM on a sample in memory, then EM by reads of all rows."""

from __future__ import annotations

import numpy as np

from ..data.encoding import Encoding
from ..data.order import Order, derive_seed
from ..data.source import Chunk, Csr, Source
from ..engine.run import Run
from ..passes.summary.summary import Summary
from ..solvers.kmeans import lloyd
from . import experts, needs
from .em import dual, initial, iteration, online, selection
from .em.curvature import Axes, Curvature, axes_of
from .gate import GATES
from .needs import Options
from .objective import EStep, Parameters, Problem, evaluation_fold, likelihood_fold

LLOYD_READS = 2
"""Number of reads that move the clusters of the sample."""
SAMPLE_ITERATIONS = 100
"""Largest number of iterations on a sample."""
HELD_ITERATIONS = 40
"""Largest number of iterations over the rows that a stream holds, which it soon has twice as many
of."""
SAMPLE_TOL = 1e-4
"""Tolerance of the fit on a sample, whose optimum is not that of all rows."""
CURVATURE_ROWS = 20_000
"""Number of rows of the sample that the curvature is summed over, about."""


def scaling_of(
    scaling: str, summary: Summary, sparse: bool, encoding: Encoding | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(shift, factor) so that (x - shift) * factor are the columns of the requested scaling.

    The indicators of a category share one standard deviation (`Encoding.widths`).  A constant
    column gets the factor 0.  Sparse rows are not shifted.
    """
    if scaling == "none":
        return None, None
    facts = summary.columns
    low, high, mean, variance = (
        np.asarray(values, np.float64)
        for values in (facts.min, facts.max, facts.mean, facts.variance)
    )
    if scaling == "standard":
        shift, squares = mean, np.maximum(variance, 0.0) + (mean**2 if sparse else 0.0)
        width = np.sqrt(squares) if encoding is None else encoding.widths(squares)
    else:
        shift, width = low, high - low
        if sparse:
            width = np.maximum(np.abs(low), np.abs(high))
    size = np.maximum(np.abs(low), np.abs(high))
    flat = (high <= low) | (width <= 1e-12 * size)
    factor = np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, width))
    return (None if sparse else shift), factor


class Sampled:
    """The sample as EM reads it: it gives E-steps, and estimates of the objective's curvature."""

    def __init__(self, rows: Chunk, share: float, *, form: str) -> None:
        self.rows, self.share, self._form = rows, share, form
        self._axes: Axes | None = None

    def problem(self, problem: Problem) -> Problem:
        """The problem with C and nu for fewer rows, whose optimum is near that of all rows."""
        return problem._replace(C=problem.C / self.share, nu=problem.nu * self.share)

    def measure(
        self, problem: Problem, at: Parameters, number: int, last: np.ndarray | None
    ) -> EStep:
        if problem.loss == "hinge":
            if last is None:
                width = int(problem.names[-1] + 1) * problem.n_outputs
                self._alpha = np.zeros((self.rows.n_rows, width), np.float32)
                last = np.zeros((problem.n_experts, at.rows.shape[1]))
            return dual.sweep_rows(problem, at, last, self.rows, self._alpha, number)
        fold = evaluation_fold(problem, at)
        return fold.finish(fold.step(fold.start(), self.rows))

    def curvature(self, problem: Problem, at: Parameters) -> Curvature:
        """The curvature of the sample's own problem."""
        return self._curvature(problem, at, 1.0)

    def curvature_of_all(self, problem: Problem, at: Parameters) -> Curvature:
        """The curvature of the problem of all rows."""
        return self._curvature(problem, at, self.share)

    def _curvature(self, problem: Problem, at: Parameters, share: float) -> Curvature:
        stride = max(1, self.rows.n_rows // CURVATURE_ROWS)
        part = _every(self.rows, stride)
        of = total(part) / total(self.rows)
        if self._form == "shared" and self._axes is None:  # the axes depend on the rows alone
            self._axes = axes_of(problem, part)
        return Curvature(problem, at, part, share * of, form=self._form, axes=self._axes)


def em_of_held(form: str, problem: Problem, at: Parameters, rows: Chunk) -> iteration.State:
    """EM over the rows that a stream holds, each of which stands for itself."""
    held = Sampled(rows, 1.0, form=form)
    return iteration.maximise(
        held.measure,
        held.curvature,
        problem,
        at,
        tol=SAMPLE_TOL,
        max_reads=HELD_ITERATIONS,
        record=_no_record,
    )


def _no_record(state: iteration.State, *, trial: EStep, event: str) -> str:
    return ""


class Streamed:
    """All rows as EM reads them."""

    def __init__(self, model: Options, run: Run, source: Source) -> None:
        self._run, self._source = run, source
        self._order = Order(derive_seed(model.random_state, 1 << 20), needs.GROUP)
        self._width = needs.size_of(model, source).n_duals

    def measure(
        self, problem: Problem, at: Parameters, number: int, last: np.ndarray | None
    ) -> EStep:
        name = f"em-{number}"
        if problem.loss != "hinge":
            return self._run.fold(evaluation_fold(problem, at), self._source, name=name)
        if last is None:
            last = np.zeros((problem.n_experts, at.rows.shape[1]))
        fold = dual.sweep_fold(problem, at, last, self._width, number)
        return self._run.sweep(fold, self._source, self._order, pass_index=number, name=name)


def total(rows: Chunk) -> float:
    """The weight of rows in hand."""
    return float(rows.n_rows) if rows.weight is None else float(rows.weight.sum())


def _every(rows: Chunk, stride: int) -> Chunk:
    """Every `stride`-th row; for sparse rows the first ones, which are as good in a sample."""
    if stride == 1:
        return rows
    if isinstance(rows.X, Csr):
        part = rows.part(0, rows.n_rows // stride)
    else:
        cut = slice(None, None, stride)
        weight = None if rows.weight is None else rows.weight[cut]
        part = Chunk(rows.X[cut], rows.target[cut], weight, rows.rows[cut])
    return part if total(part) > 0 else rows


class Watch:
    """Records each read, and the likelihood of held-out rows after it."""

    def __init__(self, run: Run, phase: str, validation: Source | None = None) -> None:
        self._run, self._phase, self._validation = run, phase, validation

    def __call__(self, state: iteration.State, *, trial: EStep, event: str) -> str:
        """Record a read of EM."""
        point = state.point
        fields: dict[str, str | float] = {
            "phase": self._phase,
            "iteration": state.n_reads,
            "objective": point.objective,
            "log_likelihood": point.log_likelihood,
            "n_components": state.problem.tree.n_leaves,
            "event": event,
        }
        if event == "taken back":
            fields["tried"] = trial.objective
        if self._validation is not None:
            fold = likelihood_fold(state.problem, point.at)
            name = f"validation-{state.n_reads}"
            fields["validation_loss"] = -self._run.fold(fold, self._validation, name=name)
        self._run.record(**fields)
        return ""


def fit(
    model: Options,
    run: Run,
    source: Source,
    summary: Summary,
    validation: Source | None,
    sample: Chunk,
) -> tuple[iteration.State, str]:
    """The state in which EM ended, and the name of the solver."""
    size = needs.size_of(model, source)
    share = needs.sample_share(sample, summary.total_weight)
    rows = Sampled(sample, share, form=needs.curvature_form(size))
    starts: list[iteration.State] = []
    for n in range(model.n_init):
        problem, begun = start(model, run, source, summary, rows, n)
        own = iteration.maximise(
            rows.measure,
            rows.curvature,
            rows.problem(problem),
            begun,
            tol=model.tol if share == 1.0 else SAMPLE_TOL,
            max_reads=SAMPLE_ITERATIONS if share < 1.0 else 10 * model.max_passes,
            record=Watch(run, f"sample-{n + 1}"),
        )
        starts.append(own)
    state = max(starts, key=lambda one: one.point.objective)
    problem = state.problem._replace(C=float(model.C), nu=problem.nu)
    if model.algorithm == "online-em":
        return stream(model, run, source, problem, state.point.at, summary.total_weight)

    measure = Streamed(model, run, source).measure
    reads = max(model.max_passes - run.n_passes, 1)
    watch = Watch(run, "all rows", validation)
    if share == 1.0 and state.converged:
        point = run.fold(evaluation_fold(problem, state.point.at), source, name="em-1")
        final = iteration.State(problem, point, 0, 1, state.reason, True)
        watch(final, trial=point, event="")
    else:
        final = iteration.maximise(
            measure,
            rows.curvature_of_all,
            problem,
            state.point.at,
            tol=model.tol,
            max_reads=reads,
            record=watch,
        )
    return final, solver_name(size)


def stream(
    model: Options, run: Run, source: Source, problem: Problem, at: Parameters, weight: float
) -> tuple[iteration.State, str]:
    """Reads with a step after every few hundred rows, then one read that measures the model."""
    order = Order(derive_seed(model.random_state, 1 << 21), needs.GROUP)
    state, before, reason = online.start_online(at, online.FITTED_STEPS), -np.inf, ""
    last = max(model.max_passes - run.n_passes - 1, 1)
    for n in range(last):
        fold = online.online_fold(problem, state, weight)
        state = run.sweep(fold, source, order, pass_index=n, name=f"online-{n + 1}")
        problem, state = online.prune(problem, state, weight)
        mean = state.log_likelihood / state.n_read
        run.record(
            phase="online",
            iteration=n + 1,
            log_likelihood=state.log_likelihood,
            n_components=problem.tree.n_leaves,
        )
        if mean - before <= model.tol * abs(mean):
            moved = "raised" if mean >= before else "lowered"
            reason = f"a read {moved} the mean log-likelihood by {abs(mean - before):.2g}"
            break
        before = mean
    point = run.fold(evaluation_fold(problem, state.average), source, name="measure")
    final = iteration.State(problem, point, 0, 1, reason or f"{last} reads were made", bool(reason))
    Watch(run, "all rows")(final, trial=point, event="")
    return final, "online-em"


def solver_name(size: needs.Size) -> str:
    """The solver's name, with the form of its curvature."""
    form = needs.curvature_form(size)
    return "em, steps of shared curvature" if form == "shared" else f"em, {form} steps"


def start(
    model: Options, run: Run | None, source: Source, summary: Summary, rows: Sampled, n: int
) -> tuple[Problem, Parameters]:
    """The mixture at clusters of the sample, which reads of all rows move if there is a run."""
    shift, factor = scaling_of(
        model.scaling, summary, isinstance(rows.rows.X, Csr), getattr(model, "encoding_", None)
    )
    few = _every(rows.rows, needs.seed_stride(len(summary.columns), rows.rows.n_rows))
    seeds = Chunk(initial.scaled(few.X, shift, factor), few.y, few.weight, few.rows)
    random = np.random.Generator(np.random.Philox(key=derive_seed(model.random_state, n)))
    centres, tree = initial.clusters(seeds, model.n_components, random)
    if run is not None and rows.share < 1.0 and not tree.n_branches:
        centres = _moved_centres(run, source, centres, shift, factor, f"lloyd-{n + 1}")
        tree = tree._replace(parent=np.zeros(len(centres), np.intp))
    K, p = len(model.classes_), centres.shape[1]
    outputs = experts.n_outputs(K)
    nu = selection.message_length(p, outputs) if model.nu == "mml" else float(model.nu)
    leaves = centres[tree.n_branches :]
    tau = initial.temperature(seeds, leaves) if model.tau == "scale" else float(model.tau)
    problem = Problem(
        GATES[model.gate],
        model.expert_loss,
        tree,
        outputs,
        tau,
        float(model.C),
        nu,
        np.arange(tree.n_leaves),
        shift,
        factor,
    )
    return problem, initial.begin(problem, centres, seeds)


def _moved_centres(
    run: Run,
    source: Source,
    centres: np.ndarray,
    shift: np.ndarray | None,
    factor: np.ndarray | None,
    name: str,
) -> np.ndarray:
    """The centres after k-means over all rows, whose columns are not scaled."""
    scale = np.ones(centres.shape[1]) if factor is None else factor
    back = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
    offset = 0.0 if shift is None else shift
    stored = centres * back + offset
    moved, _, _ = lloyd(
        run, source, stored, scale=factor, max_passes=LLOYD_READS, tol=1e-3, name=name
    )
    return (moved - offset) * scale
