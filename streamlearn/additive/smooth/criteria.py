"""The weights of the penalties, from a quadratic model of the losses: REML, or GCV.

    losses(theta) = value + g'(theta - theta_0) + 1/2 (theta - theta_0)'H (theta - theta_0)

With S = sum_j lambda_j S_j and V = (H + S)^-1 the optimum is theta = V (H theta_0 - g).  The losses
over a dispersion psi are minus a log-likelihood: 1 for classes and counts.  Else psi is what makes
the mean square of slopes that of curvatures, sum s l'^2 = psi sum s l'', with n - edf rows for n.
Of the squared error that is twice the residual variance, of other losses Pearson's statistic.

"reml" maximises the marginal likelihood of the weights by the generalised Fellner-Schall update
(Wood & Fasiolo 2017; H is taken as it is),

    lambda_j <- psi gamma_j / theta'S_j theta,     gamma_j = rank(S_j) - lambda_j tr(V S_j),

whose fixed points are that likelihood's stationary points.  Newton's step on its logarithm is taken
first (`weight_steps`), and the update where that makes it no larger.  "gcv" minimises n D / (n -
edf)^2, D the losses, or where psi is known (UBRE) D / psi + edf, by its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ...numeric.links import LOG, LOGIT
from ...numeric.losses import Loss
from .optimum import Fit
from .penalties import LINE_WEIGHT, Penalties, inverse_of
from .weight_steps import LONGEST, newton_step

FAINT = 0.1
"""Degrees of freedom below which a penalty that grows leaps towards its end."""
RANGE = (-18.0, 18.0)
"""Limits of a weight's logarithm, less the one at which the penalty equals the curvature."""
MOST_UPDATES = 200
ROUNDING = 1e-12
"""Relative error of a likelihood's logarithm."""
EARLY_UPDATES = 8
"""Updates of a choice that is made again at the next point of a sample."""
SETTLED = 1e-4
"""Largest change of a penalty's degrees of freedom at which updates end."""
LEAST_ROWS = 1e-3
"""Share of the rows that is left for the dispersion, whatever the degrees of freedom are."""


class Quadratic(NamedTuple):
    """The losses near theta_0, as a read measured them."""

    theta: np.ndarray
    """(dim + 1,) theta_0, the intercept last."""
    value: float
    g: np.ndarray
    """(dim + 1,)."""
    H: np.ndarray
    """(dim + 1, dim + 1)."""
    squares: float
    """sum s l'^2."""
    curvature: float
    """sum s l''."""
    weight: float
    """n = sum s."""
    exact: bool
    """Whether the losses are quadratic, so that the model holds everywhere."""
    known: bool
    """Whether the dispersion psi is known to be 1."""
    least: float
    """Least weight that is chosen, of a penalty whose mean eigenvalue is 1; 0: any.

    Where all rows of some values are of one class (or all counts 0) the marginal likelihood grows
    as their decisions leave for infinity, where no curvature is left, and weights would leave for
    0.  `LINE_WEIGHT` holds neighbours back that differ by a hundred log-odds, which no table tells.
    """

    def at(self, theta: np.ndarray) -> float:
        """The model's losses."""
        step = theta - self.theta
        return self.value + float(self.g @ step + 0.5 * step @ self.H @ step)

    def moved(self, theta: np.ndarray) -> Quadratic:
        """The same model, written about another point."""
        g = self.g + self.H @ (theta - self.theta)
        return self._replace(theta=theta, value=self.at(theta), g=g)

    def dispersion(self, theta: np.ndarray, edf: float) -> float:
        """psi at a point with so many degrees of freedom."""
        if self.known:
            return 1.0
        rows = max(self.weight - edf, LEAST_ROWS * self.weight)
        if self.exact:
            # a perfect fit leaves rounding alone, of which a smaller psi would be made
            scale = abs(self.value) + 0.5 * float(theta @ self.H @ theta)
            least = max(np.finfo(float).eps * scale, np.finfo(float).tiny)
            return 2.0 * max(self.at(theta), least) / rows
        if not self.curvature > 0:
            return 1.0
        return self.squares / self.curvature * self.weight / rows


def least_weight(loss: Loss) -> float:
    """`Quadratic.least` of a loss: those have one whose decisions are log-odds or logarithms."""
    return LINE_WEIGHT if loss.link in (LOG, LOGIT) else 0.0


def fit_at(model: Quadratic, penalties: Penalties, weights: np.ndarray) -> Fit:
    """The optimum of the model with these weights."""
    V, solve, log_det = inverse_of(penalties.added(weights, model.H.copy()))
    theta = solve(model.H @ model.theta - model.g)
    sizes = np.array([penalty.size for penalty in penalties.each])
    gamma = sizes - weights * penalties.traces(V)
    # a fixed penalty's degrees are free, but for what it takes
    edf = float(gamma.sum()) + 1.0 - penalties.intercept * float(V[-1, -1])
    psi = model.dispersion(theta, edf)
    return Fit(weights, theta, V, gamma, edf, psi, log_det, 0.0 * theta)


def reml(
    model: Quadratic, penalties: Penalties, start: Fit | None, most: int = MOST_UPDATES
) -> Fit:
    """The fit with the weights of largest marginal likelihood, from those of `start`."""
    low, high, log, free = _begin(model, penalties, start)
    fit = _started(model, penalties, start, log)
    may_leap, reach = free.copy(), LONGEST
    for _ in range(most):
        gamma, sums = np.maximum(fit.gamma, 1e-300), penalties.sums(fit.theta)
        plain = np.log(fit.psi * gamma) - np.log(np.maximum(sums, 1e-300)) - log
        plain = np.where(free, np.clip(plain, -LONGEST, LONGEST), 0.0)
        # a weight at its limit stays there, whatever the others do
        inside = free & (np.clip(log + plain, low, high) != log)
        step = np.zeros(len(log))
        step[inside] = newton_step(penalties, fit, np.flatnonzero(inside))
        # the likelihood of a term that vanishes is flat: nothing says how far it is to the end
        leaps = may_leap & (gamma < FAINT) & (plain > 0.0)
        near = np.clip(step, -reach, reach)
        nearer = 0.25 * float(np.abs(near).max(initial=0.0))
        steps = [np.where(leaps, LONGEST, near), near, np.clip(near, -nearer, nearer), plain]
        moves = [np.clip(log + of, low, high) - log for of in steps]
        if not (np.abs(moves[0]) * np.maximum(fit.gamma, 0.0) > SETTLED).any():
            return fit
        before = fit.lean()
        del fit  # its matrix is not there beside those of the next
        first = int(not leaps.any())
        fit, n = _moved(model, penalties, before, moves[first:])
        if first + n > 0:
            may_leap &= ~leaps
        reach = min(2.0 * reach, LONGEST) if first + n < 2 else nearer
        log = np.log(fit.weights)
    return fit


def _moved(
    model: Quadratic, penalties: Penalties, before: Fit, moves: list[np.ndarray]
) -> tuple[Fit, int]:
    """The fit after the first move that does not lower the likelihood, or the last; its number."""
    for n, move in enumerate(moves[:-1]):
        fit = fit_at(model, penalties, before.weights * np.exp(move))
        if _is_likelier(model, penalties, before, fit):
            return fit, n
        del fit
    return fit_at(model, penalties, before.weights * np.exp(moves[-1])), len(moves) - 1


def _is_likelier(model: Quadratic, penalties: Penalties, before: Fit, after: Fit) -> bool:
    """Whether the likelihood at the dispersion before has not fallen, but for rounding."""

    def height(fit: Fit) -> float:
        penalty = float(fit.weights @ penalties.sums(fit.theta))
        penalty += penalties.intercept * float(fit.theta[-1]) ** 2
        return model.at(fit.theta) + 0.5 * penalty

    sizes = np.array([penalty.size for penalty in penalties.each])
    here, there = height(before), height(after)
    ranks = float(sizes @ np.log(after.weights / before.weights))
    change = (there - here) / before.psi + 0.5 * (after.log_det - before.log_det - ranks)
    return change <= ROUNDING * (1.0 + abs(here) / before.psi)


def _started(model: Quadratic, penalties: Penalties, start: Fit | None, log: np.ndarray) -> Fit:
    """The fit with the weights exp(log), which may be the start itself."""
    weights = np.exp(log)
    if start is not None and np.allclose(start.weights, weights, rtol=1e-12, atol=0.0):
        return start
    return fit_at(model, penalties, weights)


def gcv(model: Quadratic, penalties: Penalties, start: Fit | None, most: int = MOST_UPDATES) -> Fit:
    """The fit with the weights of least generalised cross-validation, from those of `start`."""
    low, high, log, free = _begin(model, penalties, start)

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        every = log.copy()
        every[free] = x
        score, slope = gcv_score(model, penalties, fit_at(model, penalties, np.exp(every)))
        return score, slope[free]

    if free.any():
        bounds = list(zip(low[free], high[free], strict=True))
        found = minimize(value, log[free], jac=True, method="L-BFGS-B", bounds=bounds)
        log[free] = found.x
    return fit_at(model, penalties, np.exp(log))


def gcv_score(model: Quadratic, penalties: Penalties, fit: Fit) -> tuple[float, np.ndarray]:
    """The logarithm of GCV, or UBRE, of a fit, and its slopes in the logarithms of the weights."""
    theta, V = fit.theta, fit.V
    losses = model.at(theta) if model.exact else _working_losses(model, theta)
    VP = np.zeros_like(V)  # of V H V = V - V P V each penalty takes one block
    VP[:, -1] = penalties.intercept * V[:, -1]
    for p, w in zip(penalties.each, fit.weights.tolist(), strict=True):
        VP[:, p.at] += w * (V[:, p.at] @ p.S)
    taken = [float(((VP[p.at] @ V[:, p.at]) * p.S).sum()) for p in penalties.each]
    forces = V @ penalties.times(fit.weights, theta)
    of_losses = np.array(
        [w * forces[p.at] @ p.S @ theta[p.at]
         for p, w in zip(penalties.each, fit.weights, strict=True)]
    )  # fmt: skip
    of_edf = -fit.weights * (penalties.traces(V) - np.array(taken))
    if model.known:
        scale = 1.0 / model.weight
        return scale * (losses + fit.edf), scale * (of_losses + of_edf)
    rows = max(model.weight - fit.edf, LEAST_ROWS * model.weight)
    tiny = np.finfo(float).tiny
    score = float(np.log(max(losses, tiny)) - 2.0 * np.log(rows))
    return score, of_losses / max(losses, tiny) + 2.0 * of_edf / rows


Choose = Callable[[Quadratic, Penalties, Fit | None], Fit]
"""The best weights for a model, from those of a start, if there is one."""


class Criterion(NamedTuple):
    """A choice of weights."""

    choose: Choose
    """The choice at a point of all rows."""
    early: Choose
    """The same with few updates: for a model that the next point replaces at little cost."""
    takes_matrix: bool
    """Whether a choice uses the inverse at its start, which is in memory beside others then."""


CRITERIA = {
    "reml": Criterion(reml, partial(reml, most=EARLY_UPDATES), True),
    "gcv": Criterion(gcv, gcv, False),
}
"""Criteria by the values of the parameter `smoothness`."""


def start_weights(model: Quadratic, penalties: Penalties) -> np.ndarray:
    """(m,) weights at which each penalty is about the curvature."""
    return np.exp(_begin(model, penalties, None)[2])


def _begin(
    model: Quadratic, penalties: Penalties, start: Fit | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(m,) least, largest and first logarithms of the weights, and which are free."""
    equal, least = [], []
    for penalty in penalties.each:
        curvature, trace = float(np.trace(model.H[penalty.at, penalty.at])), np.trace(penalty.S)
        equal.append(curvature / float(trace) if curvature > 0 else 1.0)
        least.append(model.least * penalty.size / float(trace))
    middle = np.log(np.array(equal))
    low = np.maximum(middle + RANGE[0], np.log(np.maximum(least, np.finfo(float).tiny)))
    high = np.maximum(middle + RANGE[1], low)
    log = middle if start is None else np.log(start.weights)
    free = penalties.free
    log = np.where(free, np.clip(log, low, high), np.log(LINE_WEIGHT))
    return np.where(free, low, log), np.where(free, high, log), log, free


def _working_losses(model: Quadratic, theta: np.ndarray) -> float:
    """1/2 sum s l'' (z - f)^2 of the working targets z = f_0 - l' / l''.

    Of that sum at theta_0, 1/2 sum s l'^2 / l'', the read has 1/2 psi n, to the leading order.
    """
    step = theta - model.theta
    own = 0.5 * model.squares / max(model.curvature, 1e-300) * model.weight
    change = float(model.g @ step + 0.5 * step @ model.H @ step)
    return max(own + change, 1e-12 * own)
