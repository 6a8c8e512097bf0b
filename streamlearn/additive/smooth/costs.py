"""The cost of fits that take the curvature of all rows, and which fits may have it."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np

from ...config import format_bytes, get_config
from ...data.source import Source, level_counts
from ...engine.plan import Needs
from ...numeric.bases.pairs import MOST_FUNCTIONS
from ...passes.fold import nbytes_of
from ..basis.resolution import (
    FEWEST,
    ROWS_A_FUNCTION,
    ROWS_A_SPLINE,
    CountOfSplines,
    largest_curvature,
    least_count,
)
from ..costs.needs import PENALTY_MATRICES
from ..costs.sizes import Size, copied_nbytes, held_nbytes_of_sample, sample_rows
from ..costs.solver_choice import NEWTON, Choice, require_offered, solvers_of
from ..pairs import Room, has_pairs
from .model import Parameters, why_shapes
from .moments import empty_moments

MOMENTS_NBYTES = 128 << 20
"""Largest state of a read that sums up the curvature of all rows: 4,000 coefficients of one
output."""

PAIRS_NBYTES, PAIRS_SHARE = 32 << 20, 24
"""Largest matrices of the coefficients of pairs, one an output, with which their smoothness is
chosen, and the times that they must fit in the budget, where one is set."""

TEST_MATRICES = 7
"""Matrices of a pair that its test takes beside those of all coefficients: its part of the
curvature, eigenvectors, their root, products and what LAPACK works on."""

BLAS_NBYTES = 6 << 20
"""Buffers of BLAS for products of such matrices, and pages of LAPACK that nothing else has used."""

LEAST_ROWS = ROWS_A_SPLINE * (FEWEST + 1)
"""Rows from which the smoothness is chosen where nothing is said of it: those from which a column
gets more splines, so that fits of small tables stay as quick as one C makes them."""


def criterion_of(model: Parameters, size: Size, joint: bool) -> str | None:
    """Criterion of the smoothness where neither it nor C is given: "reml" or None.

    "reml" where all of its conditions hold: a smooth loss of one output at a time; Newton's method;
    nothing that one C alone has (pairs, shapes, early stopping, a warm start); 4,200 rows; and a
    curvature of all outputs of at most 4 MiB, and at most a sixty-fourth of the budget set.
    """
    is_free = model.solver in ("auto", NEWTON) and not has_pairs(model)
    return "reml" if is_free and _is_choosable(model, size, joint) else None


def weighs_curves(model: Parameters, size: Size, joint: bool) -> bool:
    """Whether a fit with pairs weighs its curves as "reml" does on the sample.

    On the conditions of `criterion_of`, but with any solver, and the curvature that of the curves.
    """
    return _is_choosable(model, size._replace(dim=size.dim - size.pair_dim), joint)


def _is_choosable(model: Parameters, size: Size, joint: bool) -> bool:
    is_cheap = size.n_outputs * size.dim**2 <= largest_dim() ** 2
    needs_one = model.early_stopping or model.warm_start or why_shapes(model)
    is_smooth = NEWTON in solvers_of(size.loss, joint) and not joint
    return is_smooth and is_cheap and size.n_rows >= LEAST_ROWS and not needs_one


def curves_needs(size: Size) -> Needs:
    """The phase of `sampled.weigh_curves`, which works on the driver, without a read.

    Curves of more coefficients than `largest_dim` are not weighed, whatever may come before the
    summary has counted them.
    """
    K, matrix = size.n_outputs, 8 * (min(size.dim - size.pair_dim, largest_dim()) + 1) ** 2
    rows = min(sample_rows(size), size.n_rows)
    # moments of the rows are summed up for the next point, or each output's model and fits, those
    # of the point before it, and what one fit takes, are there
    summing = int(rows * (96 + 24 * K)) + 4 * K * matrix
    solving = (5 * K + 6) * matrix
    held = held_nbytes_of_sample(size)
    return Needs("curves", 0, driver_bytes=held + max(summing, solving), passes=(0, 0),
                 on_driver=True)  # fmt: skip


def pair_weights_needs(size: Size) -> Needs:
    """The phase of `pair_weights.weigh_pairs`, which works on the driver, without a read.

    Of pairs of as many functions as can be weighed, whatever may come before the screening.
    """
    K, n = size.n_outputs, min(size.pair_dim, largest_pairs(size.n_outputs))
    curves = min(size.dim - size.pair_dim, largest_dim()) + 1
    matrix, own, across = 8 * (curves + n) ** 2, 8 * n**2, 8 * curves * n
    rows = min(sample_rows(size), size.n_rows)
    summing = int(rows * (96 + 24 * K)) + K * matrix
    # the first output's model is taken apart beside the sums of all; or all are there, and the
    # equations of one are solved
    apart = (K + 1) * matrix + 3 * across + 4 * own
    solving = max(apart, K * (own + across) + 3 * own)
    # penalties are scaled: those of each pair, then all in one
    scaling = 2 * PENALTY_MATRICES * 8 * size.pair_squares
    driver = held_nbytes_of_sample(size) + max(summing, solving, scaling)
    return Needs("smoothness of pairs", 0, driver_bytes=driver, passes=(0, 0), on_driver=True)


def largest_pairs(n_outputs: int) -> int:
    """Largest number of functions of all pairs whose smoothness is chosen."""
    budget = get_config().memory_budget
    room = PAIRS_NBYTES if budget is None else min(PAIRS_NBYTES, budget // PAIRS_SHARE)
    return isqrt(room // (8 * n_outputs))


def room_of_pairs(size: Size) -> Room:
    """The functions that pairs may have in all where their smoothness is chosen."""
    most = largest_pairs(size.n_outputs)
    return Room(min(size.n_rows // ROWS_A_FUNCTION, most), most)


def largest_dim() -> int:
    """Largest number of coefficients of one output whose smoothness is chosen by default."""
    return isqrt(largest_curvature() // 8)


def moments_nbytes(size: Size) -> int:
    """Bytes of the curvature of all rows, of every output."""
    return nbytes_of(empty_moments(size.n_outputs, 0)) + 8 * size.n_outputs * size.dim**2


def choose_moments(why: str, size: Size, solver: str, joint: bool) -> Choice:
    """Newton with the curvature of all rows, for what `why` names; refuses what has none."""
    loss = size.loss
    if joint:
        raise ValueError(
            f"{why} takes one output at a time, and multi_class='multinomial' is one problem of "
            "all; use multi_class='ovr'"
        )
    require_offered(loss, solver, joint)
    if not loss.has("curvature"):
        raise ValueError(f"{why} needs a smooth loss, loss={loss.name!r} has no curvature")
    if solver not in ("auto", NEWTON):
        raise ValueError(
            f"{why} takes the curvature of all rows, which solver={solver!r} does not sum up; use "
            "solver='newton'"
        )
    state = moments_nbytes(size)
    if state > MOMENTS_NBYTES:
        raise ValueError(
            f"{why} sums up a matrix of {size.dim} coefficients for each of {size.n_outputs} "
            f"outputs, {format_bytes(state)}, and {format_bytes(MOMENTS_NBYTES)} is the most; "
            "lower n_bases or max_levels, take fewer columns, or leave it out"
        )
    if loss.quadratic:
        return Choice("gram", f"{loss.name.replace('_', ' ')}: one Gram of all rows is exact")
    return Choice(NEWTON, f"newton, as {why} takes the curvature of all rows")


def least_size(size: Size, n_bases: CountOfSplines, dataset: Source) -> Size:
    """The size before the summary: a column of categories may have two levels."""
    n_levels = level_counts(dataset, 1)
    least = np.where(n_levels >= 0, n_levels + 1, least_count(n_bases))
    return size._replace(dim=int(least.sum()))


def matrices_between_reads(n_outputs: int) -> int:
    """Matrices of all coefficients that are there at most between two reads, or after the last.

    Each output's model at two points, and what one choice takes (the inverse of a trial, the next
    one's factor and inverse); at the end each output's model, inverse and covariance, and one more.
    """
    return max(2 * n_outputs + 3, 3 * n_outputs + 1)


def planned_size(size: Size) -> Size:
    """The size before the summary, which counts columns of few values: the most, within reason.

    More coefficients than `choose_moments` takes are refused.  Where a budget is set, and these may
    not fit, they are counted as what half of it has room for: to refuse is for the summary.
    """
    K, budget = size.n_outputs, get_config().memory_budget
    most = min(size.dim, isqrt(MOMENTS_NBYTES // (8 * K)))
    if budget is not None:
        left = max(budget - held_nbytes_of_sample(size), 0)
        one = 8 * matrices_between_reads(K)
        if one * most**2 > left // 4 * 3:
            most = min(most, isqrt(left // 2 // one))
    return size._replace(dim=most)


def either(one: list[Needs], other: list[Needs]) -> list[Needs]:
    """The phases of a fit that runs those of `one` or those of `other`: memory and reads of both.

    The reads, the fewest and the most of either, stand at the last phase.
    """
    reads = [
        [sum(ends) for ends in zip(*(need.passes for need in needs), strict=True)]
        for needs in (one, other)
    ]
    (least, most) = min(reads[0][0], reads[1][0]), max(reads[0][1], reads[1][1])
    phases = [replace(need, passes=(0, 0)) for need in (*one, *other)]
    return [*phases[:-1], replace(phases[-1], passes=(least, most))]


def moments_needs(size: Size, max_passes: int, *, at_end: bool, held: int) -> list[Needs]:
    """The phases of a fit after the summary: its reads, and the work between them.

    `at_end`: of one read where another solver ended.  `held`: bytes of the sample, which stays.
    """
    dim, K = size.dim, size.n_outputs
    matrix = 8 * (dim + 1) ** 2
    state = nbytes_of(empty_moments(K, 0)) + K * (8 * dim**2 + 16 * dim)
    once = at_end or size.loss.quadratic
    rows = 0 if once else min(sample_rows(size), size.n_rows)
    summing = int(rows * (96 + 24 * K)) + (2 * K + 1) * matrix
    # tests of pairs come when each output's model, inverse and covariance are there
    pair = TEST_MATRICES * 8 * min(size.pair_squares, MOST_FUNCTIONS**2)
    solving = max(matrices_between_reads(K) * matrix, 3 * K * matrix + pair) + BLAS_NBYTES
    copied = 0 if once else copied_nbytes(size)
    again = not (once or copied or size.in_memory or size.sparse)
    cached = size.row_nbytes + size.label_nbytes if again else 0
    name = "covariance" if at_end else "smoothness"
    return [
        Needs(
            name,
            state,
            96.0 + 24 * K + copied,  # targets, weights, decisions, losses, slopes, curvatures
            held + (0 if once else K * matrix),
            3 * 8 * K * dim,
            scratch_bytes_per_row=copied + 16 if copied else 0,
            passes=(1, 1 if once else max_passes - 1),
            cached_bytes_per_row=cached,
        ),
        Needs(
            f"{name}, between reads",
            0,
            driver_bytes=held + max(summing, solving),
            passes=(0, 0),
            on_driver=True,
            cached_bytes_per_row=cached,
        ),
    ]
