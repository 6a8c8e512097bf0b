"""Fits to parts of the rows as one: the sum of the quadratic models that their covariances hold.

    theta = (sum_p H_p + S)^-1 sum_p (H_p + S_p) theta_p

H_p is the curvature of part p's losses at its optimum theta_p, where their slope is -S_p theta_p,
S_p the penalties there; the part's covariance is psi_p (H_p + S_p)^-1.  The sum of the models is
the model of all rows wherever the losses are quadratic.  Of other losses it is one Newton step from
points that are O(1 / sqrt(n_p)) away, which leaves O(1 / n_p).

Each part's coordinates (w, b) are of its own f = t_p + b + (Phi - c_p)'w, with the mean t_p of its
targets and the means c_p of its functions.  The sum has t and c, those of all rows, so

    b_p = b + t - t_p + (c_p - c)'w.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..objective import Problem
from .criteria import CRITERIA, Quadratic, fit_at, least_weight
from .fitting import Point
from .penalties import Penalties, inverse_of
from .posterior import Posterior, make_posterior


class Part(NamedTuple):
    """A fit to a part of the rows, at its optimum."""

    coef: np.ndarray
    """(K, dim) coefficients of the functions Phi, in f = intercept + Phi'coef."""
    intercept: np.ndarray
    """(K,) constants of f."""
    posterior: Posterior
    target_mean: float
    """Mean of the part's targets, t_p above."""


def merge_parts(
    parts: Sequence[Part],
    problem: Problem,
    penalties: Penalties,
    criterion: str | None,
    means: np.ndarray,
) -> tuple[np.ndarray, Posterior]:
    """The optimum theta (K, dim + 1) of the sum of the parts' models, and its posterior.

    `criterion`: what chooses the weights of the penalties for the sum; None: those of the parts,
    which are the same.  `means` (dim,): the functions' means over all rows.
    """
    points, fits = [], []
    for k in range(problem.n_outputs):
        models = [_model_of(part, k, problem, penalties) for part in parts]
        total = _sum_of(models)
        if criterion is None:
            fit = fit_at(total, penalties, _weights_of(parts[0].posterior, k, penalties))
        else:
            fit = CRITERIA[criterion].choose(total, penalties, None)
        alone = 0.0
        for part, model in zip(parts, models, strict=True):
            gap = part.target_mean - problem.target_mean  # of the constants that are best
            alone += float(part.posterior.null_losses[k]) + 0.5 * model.curvature * gap**2
        points.append(Point(total.moved(fit.theta), alone))
        fits.append(fit)
    posterior = make_posterior(penalties, points, fits, problem, means)
    return np.array([fit.theta for fit in fits]), posterior


def _model_of(part: Part, k: int, problem: Problem, penalties: Penalties) -> Quadratic:
    """The losses of one output near the part's optimum, in the coordinates of the sum."""
    loss, posterior = problem.loss, part.posterior
    psi = float(posterior.scale[k]) * (1.0 if loss.scale_known else 2.0 * loss.deviances)
    weights = _weights_of(posterior, k, penalties)
    w, local = part.coef[k].copy(), problem.bases.local
    for first, own in penalties.by_term():
        if local[first.term]:  # the constant that costs least, which decisions do not see
            S = sum(weights[j] * penalties.each[j].S for j in own)
            pull = S.sum(axis=0)
            w[first.at] -= (pull @ w[first.at]) / pull.sum()
    b = part.intercept[k] + part.coef[k] @ posterior.reference - part.target_mean
    slope = -penalties.times(weights, np.append(w, b))
    H = psi * inverse_of(posterior.covariance[k].copy()).matrix
    H -= penalties.matrix(weights)
    curvature, e = float(H[-1, -1]), posterior.reference - problem.reference.c
    H[:-1, :-1] += np.outer(e, H[-1, :-1])
    H[:-1, :-1] += np.outer(H[:-1, -1] + curvature * e, e)
    H[:-1, -1] += curvature * e
    H[-1, :-1] = H[:-1, -1]
    slope[:-1] += slope[-1] * e
    theta = np.append(w, b + part.target_mean - problem.target_mean - e @ w)
    share = 1.0 - float(posterior.total_freedom[k]) / posterior.weight
    return Quadratic(
        theta,
        float(posterior.losses[k]),
        slope,
        H,
        psi * share * curvature,
        curvature,
        posterior.weight,
        loss.quadratic,
        loss.scale_known,
        least_weight(loss),
    )


def _weights_of(posterior: Posterior, k: int, penalties: Penalties) -> np.ndarray:
    """(m,) the weight of each penalty in the posterior of output k."""
    weights = np.empty(len(penalties.each))
    for first, own in penalties.by_term():
        weights[own[0]] = posterior.weights[k, first.term]
        if len(own) > 1:
            weights[own[1]] = posterior.line_weights[k, first.term]
    return weights


def _sum_of(models: Sequence[Quadratic]) -> Quadratic:
    """The sum of models, about the mean of their points by weight."""
    weight = sum(model.weight for model in models)
    theta = np.sum([model.weight / weight * model.theta for model in models], axis=0)
    models = [model.moved(theta) for model in models]
    return models[0]._replace(
        value=sum(model.value for model in models),
        g=np.sum([model.g for model in models], axis=0),
        H=np.sum([model.H for model in models], axis=0),
        squares=sum(model.squares for model in models),
        curvature=sum(model.curvature for model in models),
        weight=weight,
    )
