"""Smoothness of each pair of columns: chosen on a sample of rows, beside curves that are weighed.

A pair has one penalty (`numeric.bases.pairs`), lambda_j S_j, and outputs share it.  The restricted
likelihood of all terms at once takes the inverse of a matrix of all coefficients at every update,
so what can be done once is done before the first.  The curves keep their weights: they leave the
quadratic model of the losses by their Schur complement, (H, g) of the pairs beside the best curves.
With the eigenvalues e of each pair's block of H against S_j the degrees of freedom are sums, and an
update of all weights (Fellner-Schall, `criteria`) takes one Cholesky factor an output,

    lambda_j <- sum_k psi_k gamma_kj / sum_k w_kj'S_j w_kj,    gamma_kj = sum e / (e + lambda_j).

That holds the other pairs still, which gives overlapping ones a few degrees too many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from ...numeric.bases.pairs import scale_pairs
from ...numeric.bases.roughness import make_reference
from ...passes.fold import run_fold
from ..newton.curvature import add_penalty
from ..objective import Problem
from .criteria import LEAST_ROWS, Quadratic
from .moments import moments_fold, quadratic
from .sampled import LEAST, MOST, Curves
from .weight_steps import LONGEST, extrapolated

MOST_UPDATES = 60
STEADY = 0.05
"""Largest change of a pair's degrees of freedom, beside one and them, at which updates end."""
Block = tuple[slice, np.ndarray]
ROUNDS = 2
"""Quadratic models of losses that are not: at the curves alone, and with the pairs beside them."""


class Beside(NamedTuple):
    """The losses and curves' penalties of one output, as a function of the pairs' coefficients w.

    value - force'w + 1/2 w'H w, at the best curves and intercept, offset - across w.
    """

    model: Quadratic
    """The losses alone, without their curvature."""
    value: float
    force: np.ndarray
    """(n,)."""
    H: np.ndarray
    """(n, n)."""
    offset: np.ndarray
    """(dim + 1 - n,) curves and intercept without pairs."""
    across: np.ndarray
    """(dim + 1 - n, n)."""
    edf: float
    """Degrees of freedom of the curves and the intercept."""
    roots: list[np.ndarray]
    """The eigenvalues of each pair's block of H against its penalty."""

    def dispersion(self, w: np.ndarray, edf: float) -> float:
        """psi, with so many degrees of freedom of pairs."""
        model, edf = self.model, self.edf + edf
        if not model.exact:
            return model.dispersion(model.theta, edf)
        losses = self.value - float(self.force @ w) + 0.5 * float(w @ self.H @ w)
        return max(2.0 * losses / max(model.weight - edf, LEAST_ROWS * model.weight), 1e-300)


def weigh_pairs(curves: Curves, problem: Problem, n_threads: int) -> Problem:
    """The problem of curves and pairs, each pair's penalty weighed as "reml" does on the sample.

    State 16 K dim^2 bytes at most, and some matrices of the pairs.
    """
    weights = _weights(curves, problem._replace(single=False, C=1.0), n_threads)
    roughness = scale_pairs(problem.bases, problem.roughness, weights)
    reference = make_reference(roughness, problem.reference.c)
    by_term = None if problem.by_term is None else np.append(problem.by_term, weights)
    return problem._replace(roughness=roughness, reference=reference, by_term=by_term)


def _weights(curves: Curves, own: Problem, n_threads: int) -> np.ndarray:
    """(m,) the weights of the pairs' penalties."""
    main, theta, sample, null, _ = curves
    n, blocks = own.dim - main.dim, _blocks(own)
    at = np.column_stack([theta[:, :-1], np.zeros((len(theta), n)), theta[:, -1]])
    log: np.ndarray | None = None
    for _ in range(1 if own.loss.quadratic else ROUNDS):
        moments = run_fold(moments_fold(own, at, null, n_threads), [sample])
        models = []
        for k in range(own.n_outputs):  # one matrix of all coefficients more than there are sums
            models.append(_beside(main, quadratic(own, at[k], moments.pop(0)), blocks))
        log, W = _updated(models, blocks, log)
        at = np.array([_with_curves(model, w) for model, w in zip(models, W, strict=True)])
    assert log is not None  # there is a round
    weights: np.ndarray = np.clip(np.exp(log), LEAST, MOST)
    return weights


def _blocks(problem: Problem) -> list[Block]:
    """Each pair's place among the pairs' coefficients, and its penalty."""
    p, roughness = problem.bases.n_columns, problem.roughness
    first = (problem.bases.first[p:] - problem.bases.first[p]).tolist()
    begins = roughness.table[p:].tolist()
    return [
        (slice(a, z), roughness.P[begin : begin + (z - a) ** 2].reshape(z - a, z - a))
        for a, z, begin in zip(first[:-1], first[1:], begins, strict=True)
    ]


def _beside(main: Problem, model: Quadratic, blocks: list[Block]) -> Beside:
    """The model of the pairs' coefficients, beside the best curves."""
    H, q = model.H, main.dim
    alone = np.append(np.arange(q), len(H) - 1)
    A, pairs = H[np.ix_(alone, alone)], slice(q, len(H) - 1)
    curvature = A.copy()
    add_penalty(main, A[:-1, :-1])
    A[-1, -1] += 1.0 / main.intercept_scaling**2
    factor, r = cho_factor(A, lower=True), H @ model.theta - model.g
    offset, across = cho_solve(factor, r[alone]), cho_solve(factor, H[alone, pairs])
    # the value at 0 of all coefficients, and what the curves take off it
    value = model.value + 0.5 * float((r - model.g) @ model.theta - r[alone] @ offset)
    own = H[pairs, pairs] - H[pairs][:, alone] @ across
    own = 0.5 * (own + own.T)
    edf = float(np.trace(cho_solve(factor, curvature)))
    roots = [np.maximum(eigh(own[at, at], S, eigvals_only=True), 0.0) for at, S in blocks]
    force = r[pairs] - H[alone, pairs].T @ offset
    lean = model._replace(H=np.empty((0, 0)))
    return Beside(lean, value, force, own, offset, across, edf, roots)


def _updated(
    models: list[Beside], blocks: list[Block], log: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """(m,) logarithms of the weights of largest likelihood, from `log`, and (K, n) the optimum."""
    if log is None:  # where penalty and curvature are about equal
        equal = [
            sum(float(np.trace(model.H[at, at])) for model in models) / float(np.trace(S))
            for at, S in blocks
        ]
        log = np.log(np.clip(np.array(equal) / len(models), LEAST, MOST))
    last, gamma = np.zeros(len(log)), np.full(len(log), np.inf)
    for n in range(MOST_UPDATES):
        weights, before = np.exp(log), gamma
        W = np.array([_optimum(model, blocks, weights) for model in models])
        each = np.array(
            [
                [
                    float((e / (e + weight)).sum())
                    for e, weight in zip(model.roots, weights, strict=True)
                ]
                for model in models
            ]
        )
        gamma = each.sum(axis=0)
        if (np.abs(gamma - before) <= STEADY * (1.0 + gamma)).all():
            break
        psi = np.array(
            [
                model.dispersion(w, edf)
                for model, w, edf in zip(models, W, each.sum(axis=1), strict=True)
            ]
        )
        sums = np.array([[w[at] @ S @ w[at] for at, S in blocks] for w in W]).sum(axis=0)
        step = np.log(np.maximum(psi @ each, 1e-300)) - np.log(np.maximum(sums, 1e-300)) - log
        step = np.clip(step, -LONGEST, LONGEST)
        if n % 3 == 2:
            step = extrapolated(step, last)
        moved = np.clip(log + step, np.log(LEAST), np.log(MOST))
        log, last = moved, moved - log
    return log, W


def _optimum(model: Beside, blocks: list[Block], weights: np.ndarray) -> np.ndarray:
    """(n,) the pairs' coefficients at these weights."""
    A = model.H.copy()
    for (at, S), weight in zip(blocks, weights.tolist(), strict=True):
        A[at, at] += weight * S
    w: np.ndarray = cho_solve(cho_factor(A, lower=True, overwrite_a=True), model.force)
    return w


def _with_curves(model: Beside, w: np.ndarray) -> np.ndarray:
    """(dim + 1,) the pairs' coefficients with the best curves and intercept beside them."""
    others = model.offset - model.across @ w
    return np.concatenate([others[:-1], w, others[-1:]])
