"""Terms added one after the other, refitted together (Table 3), for one strength of the penalty."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from ..data.source import Chunk
from .columns import Columns, bounds, dense_block, project, unit
from .kernels import add_splines, spline_values
from .ridge_reads import Measured, RidgeAsk, Term, pull
from .search import Trial, seek
from .smoothers import GAMMA, LEAST, Fit, fit_penalised, fit_splines, full_gram, penalty
from .tables import add_slopes, steepest, table_room

JOINT_GRID = 10.0 ** np.linspace(-2, 2, 17)
"""What the terms' own penalties are multiplied by when all terms are fitted together."""


class Settings(NamedTuple):
    """What all models of a path share."""

    columns: Columns
    mean: float
    """Of the target."""
    n_terms: int
    n_bases: int
    penalty: str
    refit: bool
    stop: str | None
    tol: float
    n_models: int


class Grown(NamedTuple):
    """A fitted model of one strength of the penalty."""

    tau: float
    terms: tuple[Term, ...]
    intercept: float
    gcv: float
    """GCV cost of the whole model over the sum of weights."""
    validation_loss: float
    """Mean squared error on held-out rows; NaN without any."""
    history: list[dict[str, Any]]
    """One record per term."""
    converged: bool


class LossAsk(NamedTuple):
    """A request for the mean squared error on held-out rows."""

    terms: tuple[Term, ...]
    intercept: float


class Joint:
    """The normal equations of all terms, put together from what their reads measured."""

    def __init__(self) -> None:
        self.grams: list[list[np.ndarray]] = []
        self.moments: list[np.ndarray] = []
        self.mus: list[float] = []
        self.alphas: list[np.ndarray] = []
        self.yy = 0.0

    def with_term(self, new: Measured, thetas: list[np.ndarray], mu: float, alpha) -> Joint:
        """One more term, whose sums were taken of the residuals of the others."""
        out = Joint()
        out.yy = self.yy if self.moments else new.rr
        moment = new.moment.copy()
        for cross, theta in zip(new.cross, thetas, strict=True):
            moment += cross.T @ theta
        out.grams = [
            [*row, cross] for row, cross in zip(self.grams, new.cross, strict=True)
        ] + [[*(cross.T for cross in new.cross), new.gram]]
        out.moments, out.mus = [*self.moments, moment], [*self.mus, mu]
        out.alphas = [*self.alphas, alpha]
        return out

    @property
    def extra_df(self) -> float:
        """Parameters of the directions: one entry of each is fixed by its scale."""
        return float(sum(np.count_nonzero(alpha) - 1 for alpha in self.alphas))

    def fit(self, n: float) -> Fit:
        """All terms at once; their own penalties, times one factor of least GCV cost."""
        G, b = np.block(self.grams), np.concatenate(self.moments)
        sizes = [len(moment) for moment in self.moments]
        P, at = np.zeros_like(G), 0
        for size, mu in zip(sizes, self.mus, strict=True):
            P[at : at + size, at : at + size] = mu * penalty(size)
            at += size
        return fit_penalised(
            G[None], b[None], self.yy, n, P[None], JOINT_GRID, np.ones(1), self.extra_df
        )


def grow(settings: Settings, tau: float, sample: Chunk, validates: bool) -> Generator:
    """Generator: yields `RidgeAsk` and `LossAsk`, returns `Grown`."""
    columns, live = settings.columns, settings.columns.live
    joint, terms = Joint(), ()
    best = Grown(tau, terms, settings.mean, np.inf, np.nan, [], True)
    history: list[dict[str, Any]] = []
    if validates:
        loss = yield LossAsk(terms, settings.mean)
        best = best._replace(validation_loss=loss)
    df, converged = 0.0, True
    for _ in range(settings.n_terms if len(live) else 0):
        starts, slopes = start_trials(settings, terms, sample)
        found = yield from seek(
            _Asking(settings, terms, tau), starts, slopes, settings.penalty, settings.tol
        )
        new, trial = found.measured, found.trial
        own = fit_splines(new.gram[None], new.moment[None], new.rr, new.n)
        if not history:
            best = best._replace(gcv=new.rr / new.n)
        thetas = [term.theta for term in terms]
        joint = joint.with_term(new, thetas, float(own.mu[0]), trial.alpha)
        if settings.refit:
            fit = joint.fit(new.n)
            thetas, gcv = np.split(fit.theta[0], len(terms) + 1), float(fit.cost[0]) / new.n
            rss = float(fit.rss[0])
        else:
            thetas, df, rss = [*thetas, own.theta[0]], df + float(own.df[0]), float(own.rss[0])
            left = 1.0 - (GAMMA * df + joint.extra_df) / new.n
            gcv = rss / max(left, LEAST) ** 2 / new.n
        places = [*((term.alpha, term.low, term.high) for term in terms), trial[:3]]
        terms = tuple(Term(*place, theta) for place, theta in zip(places, thetas, strict=True))
        record = {
            "tau": tau,
            "term": len(terms),
            "costs": found.costs,
            "n_reads": found.n_reads,
            "weight": found.weight,
            "mean_squared_error": rss / new.n,
            "gcv": gcv,
            "n_nonzero": int(np.count_nonzero(trial.alpha)),
        }
        loss = np.nan
        if validates:
            loss = yield LossAsk(terms, settings.mean)
            record["validation_loss"] = loss
        history.append(record)
        converged &= found.converged
        grown = Grown(tau, terms, settings.mean, gcv, loss, history, converged)
        if settings.stop == "gcv" and not gcv < best.gcv * (1 - settings.tol):
            break
        if settings.stop == "validation" and not loss < best.validation_loss:
            break
        best = grown
    return best._replace(history=history)


class _Asking(NamedTuple):
    """Makes the requests of one term's search."""

    settings: Settings
    terms: tuple[Term, ...]
    tau: float

    def __call__(self, trials: tuple[Trial, ...], weight: float | None, slopes: Any) -> RidgeAsk:
        live = self.settings.columns.live
        room = table_room(len(self.settings.columns.scale), self.settings.n_models)
        chosen = steepest(slopes, trials[0].alpha, live, room)
        return RidgeAsk(
            self.terms,
            self.settings.mean,
            trials,
            chosen,
            weight,
            self.tau,
            self.settings.penalty,
            self.settings.n_bases,
            len(chosen) < len(live),
        )


def start_trials(
    settings: Settings, terms: tuple[Term, ...], sample: Chunk
) -> tuple[tuple[Trial, ...], np.ndarray]:
    """The single column that explains most of a sample's residuals, and the slopes there."""
    columns = settings.columns
    X = dense_block(sample.X, 0, sample.n_rows)
    w = np.ones(len(X)) if sample.weight is None else sample.weight
    r = sample.y - settings.mean
    for term in terms:
        f = np.zeros(len(r))
        spline_values(project(X, columns, term.alpha), term.low, term.high, term.theta, f)
        r = r - f
    live = columns.live
    band = np.zeros((len(live), 4, settings.n_bases))
    moment = np.zeros((len(live), settings.n_bases))
    for k, m in enumerate(live.tolist()):
        t = project(X, columns, unit(columns, m))
        add_splines(t, *bounds(columns, m), w, w * r, band[k], moment[k])
    fit = fit_splines(full_gram(band), moment, float(w @ r**2), float(w.sum()))
    k = int(fit.cost.argmin())
    start = Trial(unit(columns, live[k]), *bounds(columns, live[k]), fit.theta[k])
    slopes = np.zeros(len(columns.scale))
    add_slopes(slopes, X, columns, pull(project(X, columns, start.alpha), r, start) * w)
    return (start,), slopes
