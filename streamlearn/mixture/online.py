"""Online EM: a small step after every few hundred rows, for endless streams and warm starts.

Cappe & Moulines 2009 average the statistics of the E-step with weights gamma_t = (t + 10)^-0.6;
here those averages are of the mixing coefficients and of the bound's curvature (its diagonal), and
the parameters move by gamma_t times that curvature's Newton step, which for the generative gate's
centres is their closed form to first order.  A step that lowers the objective of its own rows is
halved.  The parameters that count are an average over the later steps (Polyak), which forgets.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data.source import Chunk
from ..numeric.checks import check_array, check_integer, check_number
from ..passes.fold import Fold
from . import selection
from .curvature import Curvature
from .objective import EStep, Parameters, Problem, evaluation_fold

BATCH = 512
"""Rows of a step."""
DELAY, EXPONENT = 10.0, 0.6
FORGET = 3.0
"""The average at step t gives step s a weight that grows as s^3."""
LEARNED = 100
"""Steps that a fit of a sample, or of all rows, counts as."""
LEAST_STEP = 2.0**-8


class Online(NamedTuple):
    """Where a stream has come to."""

    at: Parameters
    average: Parameters
    bend: np.ndarray
    """(R, p + 1) mean curvature of a row, of the bound and the penalty."""
    shares: np.ndarray
    """(n_gates,) mean posteriors."""
    n_steps: int
    n_rows: float
    """Weight of all rows seen."""
    log_likelihood: float
    """Sum over the rows of this read, each before the step that learned from it."""
    n_read: float
    """Their weight."""


def check_online(problem: Problem, state: Any) -> None:
    """Raise ValueError unless a state from a file is one of this problem."""
    if not isinstance(state, Online):
        raise ValueError(f"the state of the stream is a {type(state).__name__}")
    at, average, curvature, *_ = state
    problem.check_parameters(at)
    problem.check_parameters(average)
    check_array("the mean curvature", curvature, at.rows.shape)
    check_array("shares", state.shares, (problem.tree.n_gates,))
    check_integer("n_steps", state.n_steps, 0, 2**62)
    for name in ("n_rows", "log_likelihood", "n_read"):
        check_number(name, getattr(state, name))


def start_online(at: Parameters, n_steps: int = 0) -> Online:
    """Before the first row; `n_steps` of parameters that have learned says how little to move."""
    n = len(at.log_mix)
    return Online(at, at, np.zeros_like(at.rows), np.full(n, 1.0 / n), n_steps, 0.0, 0.0, 0.0)


def online_fold(problem: Problem, state: Online, total: float) -> Fold[Online, Online]:
    """Order-sensitive fold: the stream goes on over these rows; `total` is the weight of all."""
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
    weight = float(len(batch.y)) if batch.weight is None else float(batch.weight.sum())
    seen = state.n_rows + weight
    # the batch's share of the penalty and of nu, as if all rows were like it
    part = weight / max(total, seen)
    own = problem._replace(C=problem.C / part, nu=problem.nu * part)
    here = _measure(own, state.at, batch)
    gamma = (state.n_steps + DELAY) ** -EXPONENT
    keep = 1.0 - gamma if state.n_rows else 0.0
    found = Curvature(own, state.at, batch, 1.0, form="first-order").diagonal / weight
    bend = keep * state.bend + (1.0 - keep) * found
    shares = (1 - gamma) * state.shares + gamma * here.mass / weight
    step = here.gradient / weight / np.maximum(bend, 1e-3 * bend.max(axis=1, keepdims=True))
    target = selection.mixing(own, here._replace(mass=shares * weight))
    size = gamma
    while True:
        moved = Parameters(state.at.rows + size * step, state.at.log_mix)
        if problem.kind != "linear":
            mix = np.exp(state.at.log_mix)
            moved = moved._replace(log_mix=np.log(mix + size * (np.exp(target) - mix)))
        if size < LEAST_STEP * gamma or _measure(own, moved, batch).objective >= here.objective:
            break
        size *= 0.5
    t = state.n_steps + 1
    new = (FORGET + 1.0) / (FORGET + t)
    average = Parameters(
        *[old + new * (now - old) for old, now in zip(state.average, moved, strict=True)]
    )
    likelihood = state.log_likelihood + here.log_likelihood
    return Online(moved, average, bend, shares, t, seen, likelihood, state.n_read + weight)


def prune(problem: Problem, state: Online, total: float) -> tuple[Problem, Online]:
    """Take away the components that hold no more than nu of `total` rows, but the last."""
    while True:
        leaf = selection.leaf_to_prune(problem, state.shares * total)
        if leaf is None:
            return problem, state
        smaller, at = selection.without(problem, state.at, leaf)
        _, average = selection.without(problem, state.average, leaf)
        _, bend = selection.without(problem, Parameters(state.bend, state.at.log_mix), leaf)
        _, keep = problem.tree.without(leaf)
        shares = state.shares[keep]
        state = state._replace(at=at, average=average, bend=bend.rows, shares=shares)
        problem = smaller


def _measure(problem: Problem, at: Parameters, batch: Chunk) -> EStep:
    fold = evaluation_fold(problem, at)
    return fold.finish(fold.step(fold.start(), batch))
