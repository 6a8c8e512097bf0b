"""Online EM: a small step after every few hundred rows, for endless streams and warm starts.

Cappe & Moulines 2009 average the statistics of the E-step with weights gamma_t = (t + 10)^-0.6.
Here those averages are taken of the mixing coefficients and of the diagonal of the bound's
curvature, and the parameters move by gamma_t times the Newton step of that curvature, which for the
generative gate's centres is their closed form to first order.  A step that lowers the objective of
its own rows is halved.  The model is an average over the steps (Polyak) that forgets the early
ones.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk
from ...numeric.checks import check_array, check_integer, check_number
from ...passes.fold import Fold
from ..objective import EStep, Parameters, Problem, evaluation_fold
from . import selection
from .curvature import Curvature

BATCH = 512
"""Number of rows in a step."""
DELAY, EXPONENT = 10.0, 0.6
"""The numbers in gamma_t = (t + DELAY)^-EXPONENT."""
FORGET = 3.0
"""Power of s in the weight of step s in the average."""
FITTED_STEPS = 100
"""Number of steps that a fit of a sample, or of all rows, counts as."""
LEAST_STEP = 2.0**-8
"""Share of a step below which it is not halved again."""


class Online(NamedTuple):
    """The state of a stream."""

    at: Parameters
    """Parameters at which the next step begins."""
    average: Parameters
    """The model."""
    bend: np.ndarray
    """(R, p + 1) mean over the rows of the curvature of bound and penalty, by its name in files."""
    shares: np.ndarray
    """(n_gates,) mean posteriors."""
    n_steps: int
    n_rows: float
    """Weight of all rows seen."""
    log_likelihood: float
    """Sum over the rows of this read, each before the step that it took part in."""
    n_read: float
    """Weight of the rows of this read."""


def check_online(problem: Problem, state: object) -> None:
    """Raise ValueError unless a state from a file is one of this problem."""
    if not isinstance(state, Online):
        raise ValueError(f"the state of the stream is a {type(state).__name__}")
    at, average, curvature, *_ = state
    problem.check_parameters(at)
    problem.check_parameters(average)
    check_array("the mean curvature", curvature, at.rows.shape)
    check_array("shares", state.shares, (problem.tree.n_gates,))
    check_integer("n_steps", state.n_steps, 0, 2**62)
    check_number("n_rows", state.n_rows)
    check_number("log_likelihood", state.log_likelihood)
    check_number("n_read", state.n_read)


def start_online(at: Parameters, n_steps: int = 0) -> Online:
    """The state before the first row; after a fit `n_steps` says how small the steps begin."""
    n = len(at.log_mix)
    return Online(at, at, np.zeros_like(at.rows), np.full(n, 1.0 / n), n_steps, 0.0, 0.0, 0.0)


def after_em(problem: Problem, state: Online, point: EStep, rows: Chunk) -> Online:
    """The state that goes on from where EM over these rows has ended, among all rows seen."""
    curvature = Curvature(problem, point.at, rows, 1.0, form="first-order")
    return state._replace(
        at=point.at,
        average=point.at,
        bend=curvature.diagonal / point.weight,
        shares=point.mass / point.weight,
        n_steps=max(state.n_steps, FITTED_STEPS),
    )


def online_fold(problem: Problem, state: Online, total: float) -> Fold[Online, Online]:
    """Order-sensitive fold that goes on over these rows, whose weight is `total`."""
    begin = state._replace(log_likelihood=0.0, n_read=0.0)
    return Fold(partial(Online, *begin), partial(advance, problem, total), None)


def advance(problem: Problem, total: float, state: Online, chunk: Chunk) -> Online:
    """The state after the chunk's rows, a batch at a time."""
    order = np.arange(chunk.n_rows) if chunk.order is None else chunk.order
    for a in range(0, chunk.n_rows, BATCH):
        batch = chunk.take(np.sort(order[a : a + BATCH]))
        if batch.weight is None or batch.weight.sum() > 0:
            state = _step(problem, total, state, batch)
    return state


def _step(problem: Problem, total: float, state: Online, batch: Chunk) -> Online:
    weight = float(batch.n_rows) if batch.weight is None else float(batch.weight.sum())
    seen = state.n_rows + weight
    # the batch's share of the penalty and of nu, as if all rows were like it
    part = weight / max(total, seen)
    own = problem._replace(C=problem.C / part, nu=problem.nu * part)
    here = _measure(own, state.at, batch)
    gamma = (state.n_steps + DELAY) ** -EXPONENT
    keep = 1.0 - gamma if state.n_rows else 0.0
    found = Curvature(own, state.at, batch, 1.0, form="first-order").diagonal / weight
    curvature = keep * state.bend + (1.0 - keep) * found
    shares = (1 - gamma) * state.shares + gamma * here.mass / weight
    least = 1e-3 * curvature.max(axis=1, keepdims=True)
    step = here.gradient / weight / np.maximum(curvature, least)
    target = selection.mixing(own, here._replace(mass=shares * weight))
    size = gamma
    while True:
        moved = Parameters(state.at.rows + size * step, state.at.log_mix)
        if problem.has_centres:
            mix = np.exp(state.at.log_mix)
            moved = moved._replace(log_mix=np.log(mix + size * (np.exp(target) - mix)))
        if size < LEAST_STEP * gamma or _measure(own, moved, batch).objective >= here.objective:
            break
        size *= 0.5
    t = state.n_steps + 1
    new = (FORGET + 1.0) / (FORGET + t)
    old = state.average
    average = Parameters(
        old.rows + new * (moved.rows - old.rows), old.log_mix + new * (moved.log_mix - old.log_mix)
    )
    likelihood = state.log_likelihood + here.log_likelihood
    return Online(moved, average, curvature, shares, t, seen, likelihood, state.n_read + weight)


def prune(problem: Problem, state: Online, total: float) -> tuple[Problem, Online]:
    """Prune the components that hold no more than nu of `total` rows, except the last one."""
    while True:
        leaf = selection.leaf_to_prune(problem, state.shares * total)
        if leaf is None:
            return problem, state
        smaller, at = selection.without(problem, state.at, leaf)
        _, average = selection.without(problem, state.average, leaf)
        as_rows = Parameters(state.bend, state.at.log_mix)
        _, curvature = selection.without(problem, as_rows, leaf)
        _, keep = problem.tree.without(leaf)
        shares = state.shares[keep]
        state = state._replace(at=at, average=average, bend=curvature.rows, shares=shares)
        problem = smaller


def _measure(problem: Problem, at: Parameters, batch: Chunk) -> EStep:
    fold = evaluation_fold(problem, at)
    return fold.finish(fold.step(fold.start(), batch))
