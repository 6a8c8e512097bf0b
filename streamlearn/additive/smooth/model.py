"""Additive models whose smoothness is chosen term by term, and that know their covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.utils._param_validation import StrOptions

from ...data.source import Chunk, Source
from ...engine.run import Run
from ...numeric.losses import Loss
from ...numeric.targets import CLASS
from ..newton.reads import CachedReads
from ..objective import Problem
from ..training import Outcome, Watch, caches_in_scratch
from .criteria import CRITERIA, Criterion, fit_at
from .fitting import Task, fit_smooth, point_of
from .moments import moments_fold
from .penalties import make_penalties
from .posterior import Posterior, make_posterior
from .shape import SHAPES, Signs, in_cone, make_cone

SMOOTHNESS: dict[str, list[object]] = {
    "smoothness": [StrOptions(set(CRITERIA)), None],
    "select": ["boolean"],
    "covariance": ["boolean"],
    **SHAPES,
}


class Parameters(Protocol):
    """The parameters of an estimator that decide on its smoothness."""

    smoothness: str | None
    select: bool
    covariance: bool
    C: float | None
    solver: str
    interactions: int | str | Sequence[Sequence[int | str]]
    penalty_order: int
    penalty_scale: str
    early_stopping: bool
    tol: float
    max_passes: int
    monotone: Signs | None
    convex: Signs | None
    warm_start: bool


def check_smoothness(model: Parameters) -> None:
    """Refuse parameters that have no say beside the others."""
    if model.monotone or model.convex:
        for name, value, why in (
            ("smoothness", model.smoothness, "is chosen for curves that nothing holds"),
            ("covariance", model.covariance, "is of coefficients that nothing holds"),
            ("early_stopping", model.early_stopping, "has no certificate of the shape"),
            ("warm_start", model.warm_start, "may begin at curves of another shape"),
        ):
            if value not in (None, False):
                raise ValueError(
                    f"{name}={value!r} {why}; leave it out, or leave out monotone and convex"
                )
    if model.smoothness is None:
        if model.select:
            raise ValueError(
                "select=True is a choice of the terms' smoothness, and smoothness=None chooses "
                "none; use smoothness='reml'"
            )
        return
    why = f"smoothness={model.smoothness!r}"
    if model.C not in (None, 1.0):
        raise ValueError(
            f"{why} weighs each term by itself, so C has no say; leave C={model.C!r} out"
        )
    if model.early_stopping:
        raise ValueError(
            f"{why} holds curves back by their penalties, and early_stopping=True would end before "
            "these are known; leave it out"
        )


def why_shapes(model: Parameters) -> str:
    """The shapes that curves are held to; empty: none."""
    if model.monotone:
        return f"monotone={model.monotone}"
    return f"convex={model.convex}" if model.convex else ""


def why_moments(model: Parameters, criterion: str | None) -> str:
    """Reason for which a fit takes the curvature of all rows, in words; empty: there is none.

    `criterion`: what chooses the smoothness (`smooth.costs.criterion_of`).
    """
    if why := why_shapes(model):
        return why
    if criterion is not None:
        return f"smoothness={criterion!r}"
    return "covariance=True" if model.covariance else ""


def goes_by_moments(model: Parameters, criterion: str | None) -> bool:
    """Whether the fit itself takes the curvature of all rows, and not a read after its end."""
    return criterion is not None or bool(why_shapes(model))


class Given(NamedTuple):
    """The facts that a fit knows before its reads."""

    null: np.ndarray
    """(K,) best constant decision of each output."""
    means: np.ndarray
    """(dim,) means of the functions over the rows."""
    sample: Chunk | None = None
    share: float = 1.0
    """Share of the rows, by weight, that the sample holds."""
    start: np.ndarray | None = None
    """(K, dim + 1) the point of an earlier fit."""
    weights: list[np.ndarray] | None = None
    """Weights of each output's penalties, of a fit to the sample."""
    n_reads: int = 1
    """Reads that the fit has made."""
    shapes: Mapping[int, tuple[int, int]] = {}
    """Signs of the slope and the bend of columns."""


def train_smooth(
    model: Parameters,
    criterion: str | None,
    run: Run,
    source: Source,
    problem: Problem,
    watch: Watch,
    given: Given,
) -> tuple[Outcome, Posterior | None]:
    """Fit with the smoothness that `criterion` chooses, or in the shapes that are given."""
    intercept = 1.0 / problem.intercept_scaling**2
    order, scale = (model.penalty_order, model.penalty_scale) if criterion else (1, "paper")
    penalties = make_penalties(
        problem.bases, problem.roughness, order, scale, intercept, model.select
    )
    weights = None if criterion else np.ones(len(penalties.each))
    if criterion is not None:
        chooses = CRITERIA[criterion]
    else:
        choose = partial(in_cone, make_cone(problem.bases, given.shapes))
        chooses = Criterion(choose, choose, True)
    again = given.share < 1.0 and not problem.loss.quadratic
    to_scratch = again and caches_in_scratch(source)
    found = fit_smooth(
        Task(
            problem,
            penalties,
            chooses,
            given.null,
            model.tol,
            max(model.max_passes - given.n_reads, 1),
            weights,
        ),
        CachedReads(run, source, problem.bases, in_memory=again, to_scratch=to_scratch),
        watch,
        sample=given.sample,
        start=given.start,
        weights=given.weights,
        n_threads=run.n_threads,
    )
    if criterion is None:  # the covariance is of coefficients that nothing holds
        return found.outcome, None
    return found.outcome, make_posterior(penalties, found.points, found.fits, problem, given.means)


def posterior_at(
    run: Run, source: Source, problem: Problem, theta: np.ndarray, given: Given
) -> Posterior:
    """The posterior of a fit with one C, by one more read at its end."""
    theta = problem.by_output(theta)
    # in the losses' own units the penalty's weight is 1 / C, that of a line in it the same
    intercept = 1.0 / (problem.C * problem.intercept_scaling**2)
    penalties = make_penalties(problem.bases, problem.roughness, 1, "paper", intercept, False)
    weights = np.full(len(penalties.each), 1.0 / problem.C)
    problem = problem._replace(C=1.0)
    found = run.fold(moments_fold(problem, theta, given.null), source, name="covariance")
    points, fits = [], []
    for at in theta:
        point = point_of(problem, at, found.pop(0))
        fit = fit_at(point.model, penalties, weights)
        psi = point.model.dispersion(at, fit.edf)
        points.append(point)
        fits.append(fit._replace(theta=at, psi=psi))
    posterior = make_posterior(penalties, points, fits, problem, given.means)
    if problem.by_term is None:
        return posterior
    chosen = np.ones(penalties.n_terms)  # those of pairs may be left at 1
    chosen[: len(problem.by_term)] = problem.by_term
    return posterior._replace(weights=posterior.weights * chosen)


def null_decisions(loss: Loss, shares: np.ndarray | None) -> np.ndarray:
    """(K,) best constant decisions; `shares` (K,) of +1 in each output, None of a regression.

    A regression's target is less its mean, or over it: 0 is what is best, or near it.
    """
    if shares is None or loss.target is not CLASS:
        return np.zeros(1)

    def of(p: float) -> float:
        def loss_of(f: float) -> float:
            return p * loss.value(1.0, f) + (1.0 - p) * loss.value(-1.0, f)

        return float(minimize_scalar(loss_of, bracket=(-1.0, 1.0)).x)

    return np.array([of(float(p)) for p in shares])
