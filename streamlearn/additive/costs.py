"""The costs of a fit, and the solver they allow, by data, parameters and the budget set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from ..config import format_bytes, get_config
from ..data.source import Chunk, Source, level_counts
from ..engine.plan import Needs
from ..numeric.bases.basis import Basis
from ..numeric.bases.registry import make_basis
from ..numeric.losses import LOSSES, Loss, make_loss
from ..numeric.simd.gather import CLASSES, LANES
from ..numeric.targets import NUMBER
from ..passes.fold import nbytes_of
from ..passes.summary.summary import Summary
from ..solvers.lbfgs import PAIRS
from .basis.column_bases import HasShape, Shape
from .basis.functions import tile_nbytes
from .basis.kernels import empty_sums
from .basis.pair_terms import pass_nbytes
from .basis.resolution import CURVATURE_NBYTES, count_of_splines
from .dual.descent import GROUP, empty_certificate
from .dual.partitions import count_partitions
from .newton.blocks import blocks_nbytes
from .newton.curvature import empty_grams, empty_mass
from .newton.parts import parts_nbytes
from .pairs import (
    Parameters,
    check_interactions,
    has_pairs,
    most_screened,
    planned_nodes,
    planned_sizes,
)

NEWTON_DIM = 8000
"""Largest number of coefficients for which "auto" solves with matrices."""
GRAM_SECONDS, SOLVE_SECONDS = 5e-10, 8e-11
"""Seconds of one product that Newton adds up in the sample's Gram of linear splines, and of one
multiplication of its Cholesky factors.  Like the three that follow from fits of 2,000 to 100,000
generated rows of 20 to 400 columns; constants, so that every machine chooses the same solver."""
NEWTON_STEPS, MORE_STEPS = 6, 3
"""Grams and factors of a fit, and more of them where the sample is not all rows."""
DUAL_SECONDS: dict[str, float] = {"log_loss": 4e-7}
"""Seconds of all visits of dual CD to one value of rows in memory, for each smooth loss that was
measured, to `DUAL_TOL` with C up to `DUAL_C`."""
DUAL_TOL, DUAL_C, DUAL_ROUNDS = 1e-4, 1.0, 30
"""Smallest tolerance, largest C and fewest reads allowed with which "auto" takes it."""
TIMES_FASTER, LEAST_SECONDS = 2.5, 1.0
"""Least gain in predicted time for which "auto" leaves Newton, which ends at the optimum itself: a
ratio, and seconds that Newton would take."""
UNSET_BUDGET = 1 << 30
"""Bytes that a choice counts on when no budget is set; never the memory that is free just now."""
GRAM_NBYTES = 16 << 20
"""Largest state of a read that sums up a Gram for squared error; else Newton reads more often."""
GROWN_NBYTES = CURVATURE_NBYTES
"""Largest state of a Newton read that sums up the curvature of rows outside the sample."""
COLD_NBYTES = 6 << 20
"""Kernels that `warm` leaves out, being for bases other than splines."""
PENALTY_MATRICES = 3
"""Matrices of each pair that a problem carries: its penalty, inverse and factor."""
CACHED_ROW_NBYTES = 64
"""Bytes of a cached row of dual-cd: target, weight, norms, places in the orders of visits."""
SAMPLE_ROWS, SAMPLE_NBYTES, MOST_SAMPLE_NBYTES = 50_000, 8 << 20, 32 << 20


class Choice(NamedTuple):
    """A solver and why it was taken."""

    solver: str
    """One of `METHODS`, or "gram"."""
    reason: str


class Size(NamedTuple):
    """The numbers of rows, columns and coefficients on which the cost of a fit depends."""

    dim: int
    """Coefficients per output; before the summary as if no column had few values."""
    n_outputs: int
    """1 before the classes are known; of several quantiles their number."""
    n_columns: int
    row_nbytes: float
    n_rows: int
    loss: Loss
    in_memory: bool
    sparse: bool
    pair_dim: int = 0
    """Coefficients of the pairs among them."""
    pair_squares: int = 0
    """Sum of the squares of the numbers of functions of the penalties that pairs have."""
    drawn_rows: int = 0
    """Rows of the sample that was asked for, where fewer coefficients are known since."""
    label_nbytes: int = 24
    """Bytes of a row's target, and of its weight and number where rows have such."""
    is_bound: bool = False
    """Whether the coefficients are the most that a fit with pairs may have, and could be fewer."""

    @property
    def coordinates_nbytes(self) -> float:
        """Bytes of a row's coordinates, float32; a sparse row's take at most what it decodes to."""
        return self.row_nbytes if self.sparse else 4.0 * self.n_columns

    @property
    def copied_by_output(self) -> int:
        """Bytes of a row's dual variables and decisions that quantiles, which take turns, copy."""
        return 16 * self.n_outputs if self.n_outputs > 1 and self.loss.target is NUMBER else 0


class HasSize(HasShape, Parameters, Protocol):
    """An estimator, by what the size of its fit follows from."""

    basis: str | Basis
    degree: int

    @property
    def _loss(self) -> Loss: ...
    @property
    def _levels(self) -> Sequence[float]: ...


def size_of(model: HasSize, dataset: Source, summary: Summary | None = None) -> Size:
    """The size of a fit, from metadata alone or with the summary."""
    classes = getattr(model, "classes_", None) if summary is not None else None
    if summary is None:
        n_levels = level_counts(dataset, model.max_levels)
        n_numbers, others = int((n_levels < 0).sum()), int((n_levels[n_levels >= 0] + 1).sum())
        n_bases = count_of_splines(
            model.n_bases,
            make_basis(model.basis),
            dataset.n_physical_rows,
            np.full(n_numbers, np.inf),
            others,
        )
        dim = n_numbers * n_bases + others
    else:
        dim = int(_n_bases(summary, model).sum())
    facts = None if summary is None else summary.columns
    pairs = check_interactions(model, dataset)
    weighted = dataset.is_weighted or getattr(model, "class_weight", None) is not None
    pair_dim, pair_squares = 0, 0
    if has_pairs(model):
        nodes = planned_nodes(model, dataset, facts)
        pair_dim, pair_squares = planned_sizes(model, pairs, nodes)
    return Size(
        dim + pair_dim,
        len(classes) if classes is not None and len(classes) > 2 else max(len(model._levels), 1),
        dataset.n_features,
        dataset.decoded_nbytes / max(dataset.n_physical_rows, 1),
        dataset.n_physical_rows,
        model._loss,
        dataset.in_memory,
        dataset.sparse,
        pair_dim,
        pair_squares,
        label_nbytes=8 * (1 + weighted + (dataset.n_rows is None)),
        is_bound=most_screened(model) > 0 or (summary is None and len(pairs) > 0),
    )


def _n_bases(summary: Summary, model: HasShape) -> np.ndarray:
    """(p,) coefficients of each column."""
    facts, n_bases = summary.columns, Shape.of(model, summary).n_bases
    n_levels, n = facts.n_levels, np.diff(facts.present()[1])
    few, missing = facts.few & (n <= n_bases), facts.missing > 0
    n = n + missing
    of_few = np.where(n > 1, n, 0)
    of_many = n_bases + model.degree * missing
    return np.select([n_levels >= 0, few], [n_levels + 1, of_few], of_many)


NEWTON, DUAL, LBFGS, PEGASOS = "newton", "dual-cd", "lbfgs", "pegasos"
METHODS: dict[str, str] = {
    NEWTON: "curvature",
    DUAL: "dual_rule",
    LBFGS: "curvature",
    PEGASOS: "slope_bound",
}
"""The method of a loss that each solver needs, beside ``value`` and ``slope``.  Of the solvers that
may serve a loss the first is for small problems, the second for large ones."""
WHY_NOT = {
    NEWTON: "needs a smooth loss of one output at a time",
    LBFGS: "needs a smooth loss",
    DUAL: "needs a loss whose dual variables can be minimised one at a time",
    PEGASOS: "needs a loss of bounded slope and one output at a time",
}


def solvers_of(loss: Loss, joint: bool = False) -> tuple[str, ...]:
    """The solvers that may serve a loss; `joint`: as the multinomial loss of K classes."""
    if joint:
        return (LBFGS,)
    return tuple(solver for solver, method in METHODS.items() if loss.has(method))


def solver_table() -> dict[str, tuple[str, ...]]:
    """Name of each loss of this package -> its solvers: the table of the documentation."""
    made = {name: make_loss(name) for name in LOSSES}
    joint = {f"multinomial {n}": solvers_of(x, True) for n, x in made.items() if x.multinomial}
    return {name: solvers_of(loss) for name, loss in made.items()} | joint


def require_offered(loss: Loss, solver: str, joint: bool) -> tuple[str, ...]:
    """The solvers of a loss; refuses one that is none of them."""
    offered = solvers_of(loss, joint)
    if not offered:
        raise ValueError(
            f"no solver may serve loss={loss!r}, which has none of the methods "
            f"{', '.join(sorted(set(METHODS.values())))}; write one of them"
        )
    if solver not in ("auto", *offered):
        lacks = "" if loss.has(METHODS[solver]) else f", which has no method {METHODS[solver]}"
        raise ValueError(
            f"solver={solver!r} {WHY_NOT[solver]}, got loss={loss.name!r}{lacks}"
            + (" with multi_class='multinomial'" if joint else "")
            + f"; use solver={' or '.join(map(repr, offered))}"
        )
    return offered


def choose(loss: Loss, solver: str, size: Size, joint: bool = False, easy: bool = False) -> Choice:
    """The solver to use; `joint`: of the multinomial loss.

    `easy`: whether the parameters are among those for which dual CD has been measured.
    """
    offered = require_offered(loss, solver, joint)
    matrix = 8 * size.dim**2
    if loss.quadratic and solver in ("auto", NEWTON) and matrix <= GRAM_NBYTES:
        name = loss.name.replace("_", " ")
        return Choice("gram", f"{name}: one Gram of all rows is exact")
    if solver != "auto":
        return Choice(solver, "")
    large = next((one for one in (DUAL, LBFGS) if one in offered), PEGASOS)
    if NEWTON not in offered:
        why = "the classes are one multinomial problem" if joint else f"{loss.name} is not smooth"
        return Choice(large, f"{large} as {why}")
    room = room_of_matrices()
    if size.dim > NEWTON_DIM:
        return Choice(large, f"{large} as up to {size.dim} coefficients are over {NEWTON_DIM}")
    if matrix > room:
        return Choice(
            large, f"{large} as a matrix of {format_bytes(matrix)} is over half of the budget"
        )
    newton, dual = newton_seconds(size), dual_seconds(loss, size)
    if DUAL in offered and easy and newton > max(TIMES_FASTER * dual, LEAST_SECONDS):
        return Choice(
            DUAL,
            f"{DUAL} as it is predicted to take {dual:.2g} s for up to {size.dim} coefficients, "
            f"{NEWTON} {newton:.2g} s",
        )
    return Choice(NEWTON, f"newton as {loss.name} is smooth, with at most {size.dim} coefficients")


def room_of_matrices() -> int:
    """Largest matrix with which "auto" solves: half of the budget set."""
    return (get_config().memory_budget or UNSET_BUDGET) // 2


def newton_seconds(size: Size) -> float:
    """Seconds of Newton's steps on a sample of dense rows, without the reads."""
    rows = min(size.n_rows, sample_rows(size))
    steps = NEWTON_STEPS + (MORE_STEPS if rows < size.n_rows else 0)
    products = 2.0 * rows * size.n_columns**2
    return steps * (GRAM_SECONDS * products + SOLVE_SECONDS * size.dim**3 / 3)


def dual_seconds(loss: Loss, size: Size) -> float:
    """Seconds of dual CD for a smooth loss; infinite where no measurement says it."""
    if size.sparse or not holds_rows(size):
        return np.inf
    return DUAL_SECONDS.get(loss.name, np.inf) * size.n_rows * size.n_columns


def sample_rows(size: Size) -> int:
    """Rows of the sample: 40 a coefficient and 50,000 at least, as far as 32 MiB go."""
    if size.drawn_rows:
        return size.drawn_rows
    row = size.row_nbytes + 16
    most = int(MOST_SAMPLE_NBYTES / row)
    wanted = max(SAMPLE_ROWS, 40 * size.dim, min(160 * size.dim, int(SAMPLE_NBYTES / row)))
    return max(min(wanted, most), 1)


def held_nbytes_of_sample(size: Size) -> int:
    """Bytes of the sample's rows, targets and numbers, which stay to the end of the fit."""
    return int(min(sample_rows(size), size.n_rows) * (size.row_nbytes + 16))


def work_nbytes_of_sample(size: Size) -> int:
    """Bytes of what Newton takes of each row of the sample, between its reads."""
    return int(min(sample_rows(size), size.n_rows) * (48 + 8 * size.n_outputs))


def copied_nbytes(size: Size) -> float:
    """Bytes of a row's values in the scratch copy that Newton's reads go to; 0: there is none."""
    return size.coordinates_nbytes if get_config().scratch and not size.in_memory else 0.0


def sample_share(sample: Chunk, total_weight: float) -> float:
    """The share of the rows, by weight, that a sample holds."""
    weight = sample.n_rows if sample.weight is None else float(sample.weight.sum())
    return 1.0 if weight >= total_weight * (1 - 1e-12) else weight / total_weight


def may_grow(n_outputs: int, dim: int) -> bool:
    """Whether lanes may sum up curvature: a function of the problem alone, as it decides bits."""
    return 8 * n_outputs * dim**2 <= GROWN_NBYTES


def grown_nbytes(size: Size) -> int:
    """Bytes of the curvature that lanes may sum up; a bound of the size may prove to allow it."""
    if may_grow(size.n_outputs, size.dim):
        return nbytes_of(empty_grams(size.n_outputs, size.dim))
    return GROWN_NBYTES + 16 * size.n_outputs * size.dim if size.is_bound else 0


def needs_of(solver: str, size: Size, max_passes: int) -> list[Needs]:
    """The phases of a fit after the summary."""
    dim, K = size.dim, size.n_outputs
    model, matrix = 3 * 8 * K * dim, 8 * dim**2
    sums = nbytes_of(empty_sums(K, dim))
    step = 3 * sums  # a chunk's own sums, point and forces
    per_row = 48.0 + 24 * K  # targets, weights, decisions, probabilities, slopes
    if solver == "gram":
        state = sums + nbytes_of(empty_grams(K, dim))
        return [Needs("gram", state, per_row, matrix, model, step_bytes=step)]
    if solver in (NEWTON, LBFGS):
        rows = min(sample_rows(size), size.n_rows)
        sample = held_nbytes_of_sample(size) + work_nbytes_of_sample(size)
        pairs = 2 * PAIRS * 8 * K * (dim + 1)
        held = 0
        if solver == NEWTON:
            held = matrix
        else:  # products with the sample: vectors as long as the problem, and as its rows
            pairs += 8 * 8 * K * (dim + 1) + parts_nbytes(rows, K * (dim + 1))
            pairs += blocks_nbytes(dim)
            sample += 3 * 8 * K * rows
        grown = 0
        if solver == NEWTON:
            grown = grown_nbytes(size)
        state = sums + max(grown, nbytes_of(empty_mass(K, dim)))
        passes = (1, max_passes - 1)
        driver = sample + pairs + held + grown
        copied = copied_nbytes(size)
        disk = copied + 16 if copied else 0
        again = size.n_rows > rows and not (copied or size.in_memory or size.sparse)
        return [
            Needs(
                solver,
                state,
                per_row + copied,
                driver,
                model,
                scratch_bytes_per_row=disk,
                passes=passes,
                step_bytes=step,
                cached_bytes_per_row=size.row_nbytes + size.label_nbytes if again else 0,
            )
        ]
    if solver == PEGASOS:
        return [
            Needs(
                PEGASOS,
                (2 * 3 + 4) * 8 * K * (dim + 8),
                per_row + 24,
                0,
                model,
                group=GROUP,
                passes=(1, max_passes - 1),
            ),
            Needs("certificate", sums, per_row, 0, model, step_bytes=step),
        ]
    if solver == DUAL and holds_rows(size):
        return [Needs(DUAL, 0, per_row + 2 * size.row_nbytes, held_nbytes(size) + sums, model)]
    width = 4 * K * size.loss.dual_rule().n_variables
    visited = 24 * K + size.copied_by_output
    u = size.coordinates_nbytes
    cached = 0 if size.in_memory else u + 16
    changed = 8.0 + width  # number and dual variables of a cached row
    partitions = count_partitions(u * size.n_rows)
    return [
        Needs("cache", 0, 2.0 * u + 16, 0, 0, scratch_bytes_per_row=cached, passes=(0, 1)),
        Needs(
            DUAL,
            2 * 8 * K * (dim + 8),
            per_row + u + size.copied_by_output,
            0,
            model,
            row_state_bytes=width,
            group=GROUP,
            scratch_bytes_per_row=cached,
            passes=(1, max_passes - 2),
            chosen_bytes_per_row=u + CACHED_ROW_NBYTES + visited,
            carried_bytes_per_row=(2 if partitions == 1 else 3) * changed,
            partitions=partitions,
        ),
        Needs(
            "certificate",
            nbytes_of(empty_certificate(K, dim)),
            per_row + 16,
            0,
            model,
            row_state_bytes=width,
            step_bytes=step,
            chosen_bytes_per_row=changed,
        ),
    ]


def with_temporaries(
    phases: list[Needs], model: Parameters, size: Size, summary: Summary | None, *, pairs: bool
) -> list[Needs]:
    """The phases with what bases other than splines, `pairs`, and missing values take beside."""
    local = make_basis(model.basis).local and not pairs
    compressed = size.sparse and not pairs
    tile = 0 if local and not size.sparse else tile_nbytes(size.dim, compressed=compressed)
    cold = 0 if local else COLD_NBYTES
    copied = 0.0
    if summary is not None and (summary.columns.missing > 0).any():
        copied = size.row_nbytes  # a chunk with its missing values marked; the sample alike
    sample = int(copied * min(sample_rows(size), size.n_rows))
    penalties = 8 * size.pair_squares
    # epochs visit explicit functions; all other passes look up pairs, and `warm` loads what does so
    looked_up = pass_nbytes(size.n_columns, size.pair_dim, size.n_outputs), 0
    beside = {
        phase.name: (tile, cold) if not pairs or phase.name in (DUAL, PEGASOS) else looked_up
        for phase in phases
    }
    return [
        replace(
            phase,
            step_bytes=phase.step_bytes
            + beside[phase.name][0]
            + (penalties if phase.name == DUAL else 0),
            model_bytes=phase.model_bytes
            + PENALTY_MATRICES * penalties * (2 if phase.partitions > 1 else 1),
            step_bytes_per_row=phase.step_bytes_per_row + copied,
            driver_bytes=phase.driver_bytes
            + beside[phase.name][1]
            + (sample + tile if phase.driver_bytes else 0),
        )
        for phase in phases
    ]


def holds_rows(size: Size) -> bool:
    """Whether dual CD keeps a copy of the rows: they are in memory, and it fits with ease.

    Dense rows leave a chunk at a time, so half of the budget may be theirs; parts of sparse ones
    are joined.
    """
    room = (get_config().memory_budget or UNSET_BUDGET) // (4 if size.sparse else 2)
    return size.in_memory and held_nbytes(size) <= room


def held_nbytes(size: Size) -> int:
    """Bytes of the rows that dual CD holds, while parts are joined, with norms and duals."""
    row = 2 * size.row_nbytes if size.sparse else 4 * size.n_columns
    rows = size.n_rows * (row + 64 + 24 * size.n_outputs + size.copied_by_output)
    places = 0
    if size.sparse:  # facts of a place, coefficients, their mean, two points, sums of parts
        whole = LANES if size.n_outputs == 1 else 2
        lanes = 1 if size.n_outputs == 1 else -(-size.n_outputs // CLASSES) * CLASSES
        places = (size.dim + LANES + whole * size.n_columns) * (
            16 + 32 * lanes + 32 * size.n_outputs
        )
    return int(rows + places)


def labels_of_refs(dataset: Source, planned: Source, summary: Summary) -> np.ndarray:
    """(n_refs, K) class weights of the refs a sweep draws; finer refs have those of their whole.

    Targets of too many values to be counted have one class of no weight: any order is as good.
    """
    labels, refs = summary.ref_labels, planned.refs()
    if labels is None:
        return np.zeros((len(refs), 1))
    at = np.searchsorted(dataset.refs().starts, refs.starts, "right") - 1
    return labels[at]
