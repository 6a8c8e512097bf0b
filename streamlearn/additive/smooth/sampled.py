"""Smoothness of each curve where pairs are fitted beside them: chosen on a sample of rows.

One C for all gives up either the jagged columns or the smooth ones (`model`), and what it gives up
is more than pairs gain.  The restricted likelihood of all terms at once takes the inverse of a
matrix that the coefficients of pairs make large.  So the curves alone are fitted to the sample, and
each one's penalty gets the weight that this fit chose; then the pairs beside them (`pair_weights`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data.source import Chunk
from ...numeric.bases.roughness import Roughness, make_reference
from ..objective import Problem
from .criteria import CRITERIA
from .fitting import Task, fit_sample
from .model import Parameters
from .penalties import Penalties, make_penalties

LEAST, MOST = 1e-4, 1e6
"""Weights of a curve's penalty: beyond them nothing changes but the condition of the equations."""
TOL = 1e-3
"""Largest relative duality gap of the fit to the sample."""


class Curves(NamedTuple):
    """Main effects that are weighed, and what weighed them."""

    problem: Problem
    theta: np.ndarray
    """(K, dim + 1) the optimum of the sample."""
    sample: Chunk
    null: np.ndarray
    """(K,) best constant decisions."""
    weights: list[np.ndarray]
    """(m,) of each output's penalties, of which the problem's are the geometric means."""


def weigh_curves(
    model: Parameters, problem: Problem, sample: Chunk, null: np.ndarray, n_threads: int
) -> Curves:
    """The problem of main effects with each curve's penalty weighed as "reml" does on the sample.

    `null` (K,): best constant decisions.  Outputs share their penalties: the weights are geometric
    means over them.
    """
    order, scale = model.penalty_order, model.penalty_scale
    intercept = 1.0 / problem.intercept_scaling**2
    own = problem._replace(single=False, C=1.0)
    penalties = make_penalties(own.bases, own.roughness, order, scale, intercept, False)
    task = Task(own, penalties, CRITERIA["reml"], null, TOL, 1)
    theta, each = fit_sample(task, sample, n_threads)
    weights = np.clip(np.exp(np.mean(np.log(each), axis=0)), LEAST, MOST)
    roughness = weighed(problem.roughness, penalties, weights)
    reference = make_reference(roughness, problem.reference.c)
    by_term = np.ones(penalties.n_terms)
    for one, numbers in penalties.by_term():
        by_term[one.term] = weights[numbers[0]]
    problem = problem._replace(roughness=roughness, reference=reference, by_term=by_term)
    return Curves(problem, theta, sample, null, each)


def weighed(roughness: Roughness, penalties: Penalties, weights: np.ndarray) -> Roughness:
    """The penalties times their weights; a straight line that is not chosen keeps its own."""
    table = np.zeros(len(roughness.table), np.intp)
    stacks: list[list[np.ndarray]] = [[np.empty(0)], [np.empty(0)], [np.empty(0)]]
    at = 0
    for one, numbers in penalties.by_term():
        P = np.zeros_like(one.S)
        for j in numbers:
            penalty = penalties.each[j]
            P += penalty.S * (1.0 if penalty.fixed else weights[j])
        R = np.linalg.cholesky(P).T
        inverse = np.linalg.inv(R)
        for stack, matrix in zip(stacks, (P, inverse @ inverse.T, R), strict=True):
            stack.append(np.ascontiguousarray(matrix).ravel())
        table[one.term] = at
        at += P.size
    P, L, R = map(np.concatenate, stacks)
    return Roughness(P, L, R, table, roughness.first)
