"""Terms added one after the other, refitted together (Table 3), for one strength of the penalty."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk
from ...passes.fold import run_fold
from ..columns import bounds, dense_block, project, unit
from ..kernels import ScaledColumns
from ..search import Found, Strength, Trial, seek
from ..tables import MOST_TABLES, add_slopes, steepest, table_room
from .reads import Measured, RidgeAnswer, RidgeRequest, Term, ridge_fold, row_slopes
from .smoothers import GAMMA, LEAST_DIVISOR, Fit, PSpline, full_gram, search_gamma
from .supsmu import SuperSmoother

N_STARTS = 3
"""Number of columns whose best step is compared, to start from the most promising one."""
START_COLUMNS = 64
"""Number of columns that are fitted to the sample together, which bounds the temporaries."""
SAMPLE_TABLES = 16
"""Number of columns whose steps are compared there."""

Record = dict[str, object]


class Settings(NamedTuple):
    """The settings of all models of a path."""

    columns: ScaledColumns
    mean: float
    """Mean of the target."""
    n_terms: int
    smoother: PSpline | SuperSmoother
    penalty: str
    refit: bool
    backfit: int
    stop: str | None
    tol: float
    n_models: int
    share: float
    """Share of the rows that go into tables."""


class Grown(NamedTuple):
    """A fitted model of one strength of the penalty."""

    tau: float
    terms: tuple[Term, ...]
    intercept: float
    gcv: float
    """GCV cost of the whole model, divided by the sum of weights."""
    validation_loss: float
    """Mean squared error on held-out rows; NaN without any."""
    history: list[Record]
    """One record for each search of a term."""
    converged: bool


class LossRequest(NamedTuple):
    """A request for the mean squared error on held-out rows."""

    terms: tuple[Term, ...]
    intercept: float


class Joint:
    """The normal equations of all terms, joined from the sums of their reads."""

    def __init__(self) -> None:
        self.grams: list[list[np.ndarray]] = []
        self.moments: list[np.ndarray] = []
        self.mus: list[float] = []
        self.alphas: list[np.ndarray] = []
        self.yy = 0.0

    def with_term(
        self, new: Measured, thetas: Sequence[np.ndarray], mu: float, alpha: np.ndarray
    ) -> Joint:
        """The equations with one more term, whose sums are those of the others' residuals."""
        out = Joint()
        out.yy = self.yy or new.rr
        moment = new.moment.copy()
        for cross, theta in zip(new.cross, thetas, strict=True):
            moment += cross.T @ theta
        out.grams = [[*row, cross] for row, cross in zip(self.grams, new.cross, strict=True)] + [
            [*(cross.T for cross in new.cross), full_gram(new.band)]
        ]
        out.moments, out.mus = [*self.moments, moment], [*self.mus, mu]
        out.alphas = [*self.alphas, alpha]
        return out

    def taking(self, order: slice | list[int]) -> Joint:
        """The equations of the terms in another order, or of some of them."""
        at = np.arange(len(self.moments))[order].tolist()
        out = Joint()
        out.yy = self.yy
        out.grams = [[self.grams[i][j] for j in at] for i in at]
        out.moments = [self.moments[i] for i in at]
        out.mus = [self.mus[i] for i in at]
        out.alphas = [self.alphas[i] for i in at]
        return out

    @property
    def extra_df(self) -> float:
        """Number of parameters of the directions, of which the scale fixes one entry each."""
        return float(sum(np.count_nonzero(alpha) - 1 for alpha in self.alphas))

    def fit(self, smoother: PSpline | SuperSmoother, n: float) -> Fit:
        """The fit of all terms together."""
        return smoother.fit_together(self.grams, self.moments, self.mus, self.yy, n, self.extra_df)


class State(NamedTuple):
    """A model while it grows."""

    terms: tuple[Term, ...]
    joint: Joint
    dfs: tuple[float, ...]
    """Degrees of freedom of the ridge functions, each fitted alone."""
    rss: float
    """Residual sum of squares, divided by the sum of weights."""
    gcv: float
    """GCV cost of the whole model, divided by the sum of weights."""


def grow(
    settings: Settings, tau: float, sample: Chunk, validates: bool
) -> Generator[RidgeRequest | LossRequest, RidgeAnswer | float, Grown]:
    """Add terms to a model of one tau; `validates` if there are held-out rows."""
    history: list[Record] = []
    state, loss = State((), Joint(), (), np.inf, np.inf), np.inf
    if validates:
        loss = yield from loss_of((), settings.mean)
    converged, started = True, False
    for number in range(1, settings.n_terms + 1 if len(settings.columns.live) else 1):
        start, slopes = start_trial(settings, state.terms, tau, sample)
        found, grown = yield from add_term(settings, state, tau, start, slopes)
        if not started:
            new = found.answer.measured[found.place]
            state = state._replace(gcv=new.rr / new.n)
            started = True
        record = _record(tau, number, "grow", found, grown)
        new_loss = np.nan
        if validates:
            new_loss = yield from loss_of(grown.terms, settings.mean)
            record["validation_loss"] = new_loss
        history.append(record)
        converged &= found.converged
        if settings.stop == "gcv" and not grown.gcv < state.gcv * (1 - settings.tol):
            break
        if settings.stop == "validation" and not new_loss < loss:
            break
        state, loss = grown, new_loss
    for _ in range(settings.backfit if len(state.terms) > 1 else 0):
        for number in range(1, len(state.terms) + 1):
            # the first term is searched again from where it is, and becomes the last
            first, rest = state.terms[0], without_first(state)
            again = Trial(first.alpha, first.low, first.high, first.theta)
            found, moved = yield from add_term(settings, rest, tau, again, None)
            history.append(_record(tau, number, "backfit", found, moved))
            if moved.gcv < state.gcv:
                state = moved
            else:
                state = rotated(state)
    if validates and settings.backfit and len(state.terms) > 1:
        loss = yield from loss_of(state.terms, settings.mean)
    return Grown(tau, state.terms, settings.mean, state.gcv, float(loss), history, converged)


def loss_of(
    terms: tuple[Term, ...], intercept: float
) -> Generator[LossRequest, RidgeAnswer | float, float]:
    """The mean squared error on held-out rows."""
    loss = yield LossRequest(terms, intercept)
    assert isinstance(loss, float)
    return loss


def add_term(
    settings: Settings, state: State, tau: float, start: Trial, slopes: np.ndarray | None
) -> Generator[RidgeRequest, RidgeAnswer, tuple[Found[RidgeAnswer], State]]:
    """Search one more term of a model and fit all together: the search's end, and the model."""
    requests_of = _Requests(settings, state.terms, tau)
    search: Generator[RidgeRequest, RidgeAnswer, Found[RidgeAnswer]]
    search = seek(requests_of.make, (start,), slopes, settings.penalty, settings.tol)
    found = yield from search
    new, trial = found.answer.measured[found.place], found.trial
    own = settings.smoother.fit(new.band[None], new.moment[None], new.rr, new.n)
    thetas = [term.theta for term in state.terms]
    joint = state.joint.with_term(new, thetas, float(own.mu[0]), trial.alpha)
    dfs = (*state.dfs, float(own.df[0]))
    if settings.refit:
        fit = joint.fit(settings.smoother, new.n)
        thetas = np.split(fit.theta[0], len(thetas) + 1)
        rss, gcv = float(fit.rss[0]), float(fit.cost[0]) / new.n
    else:
        thetas, rss = [*thetas, own.theta[0]], float(own.rss[0])
        left = 1.0 - (GAMMA * sum(dfs) + joint.extra_df) / new.n
        gcv = rss / max(left, LEAST_DIVISOR) ** 2 / new.n
    places: list[Term | Trial] = [*state.terms, trial]
    terms = tuple(
        Term(place.alpha, place.low, place.high, theta, settings.smoother)
        for place, theta in zip(places, thetas, strict=True)
    )
    return found, State(terms, joint, dfs, rss / new.n, gcv)


def _record(tau: float, number: int, kind: str, found: Found[RidgeAnswer], state: State) -> Record:
    return {
        "tau": tau,
        "search": kind,
        "term": number,
        "costs": found.costs,
        "n_reads": found.n_reads,
        "weight": found.strength.weight,
        "charge": found.strength.charge,
        "mean_squared_error": state.rss,
        "gcv": state.gcv,
        "n_nonzero": int(np.count_nonzero(found.trial.alpha)),
    }


def without_first(state: State) -> State:
    """The model without its first term; its other ridge functions stay as they are."""
    return state._replace(
        terms=state.terms[1:], joint=state.joint.taking(slice(1, None)), dfs=state.dfs[1:]
    )


def rotated(state: State) -> State:
    """The same model with its first term last."""
    order = [*range(1, len(state.terms)), 0]
    return state._replace(
        terms=tuple(state.terms[k] for k in order),
        joint=state.joint.taking(order),
        dfs=tuple(state.dfs[k] for k in order),
    )


class _Requests(NamedTuple):
    """Makes the requests of one term's search."""

    settings: Settings
    terms: tuple[Term, ...]
    tau: float
    most: int = MOST_TABLES

    def make(
        self, trials: tuple[Trial, ...], strength: Strength | None, slopes: np.ndarray | None
    ) -> RidgeRequest:
        live = self.settings.columns.live
        room = table_room(len(self.settings.columns.scale), self.settings.n_models)
        chosen = steepest(slopes, trials[0].alpha, live, min(room, self.most))
        return RidgeRequest(
            self.terms,
            self.settings.mean,
            trials,
            chosen,
            strength,
            self.tau,
            self.settings.penalty,
            self.settings.smoother,
            len(chosen) < len(live),
            self.settings.share,
        )


def start_trial(
    settings: Settings, terms: tuple[Term, ...], tau: float, sample: Chunk
) -> tuple[Trial, np.ndarray]:
    """The single column to start from, guessed from a sample, and the slopes at it.

    Among the few columns that explain most of the residuals, it is the one from which the best step
    leads lowest: where columns matter only together, the first may be noise from which no step
    helps.
    """
    columns, smoother = settings.columns, settings.smoother
    X = dense_block(sample.X, 0, sample.n_rows)
    w = np.ones(len(X)) if sample.weight is None else sample.weight
    r: np.ndarray = sample.target - settings.mean
    for term in terms:
        f = np.zeros(len(r))
        term.add_values(project(X, columns, term.alpha), f)
        r = r - f
    live = columns.live
    n, rr = float(w.sum()), float(w @ r**2)
    costs, fits = np.empty(len(live)), np.empty((len(live), smoother.n_bases))
    for first in range(0, len(live), START_COLUMNS):
        own = slice(first, first + START_COLUMNS)
        moment = np.zeros_like(fits[own])
        band = np.zeros((*moment.shape, smoother.band))
        smoother.add_columns(X, columns, live[own], w, w * r, band, moment)
        costs[own], fits[own] = smoother.score(band, moment, rr, n, search_gamma(n))
    guesses = []
    for k in np.argsort(costs, kind="stable")[:N_STARTS].tolist():
        start = Trial(unit(columns, live[k]), *bounds(columns, live[k]), fits[k])
        slopes = np.zeros(len(columns.scale))
        q = row_slopes(project(X, columns, start.alpha), r, start, smoother) * w
        add_slopes(slopes, X, columns, q)
        cost = sample_cost(settings, terms, tau, sample, start, slopes) if len(live) > 1 else 0.0
        guesses.append((cost, start, slopes))
    _, start, slopes = min(guesses, key=itemgetter(0))
    return start, slopes


def sample_cost(
    settings: Settings,
    terms: tuple[Term, ...],
    tau: float,
    sample: Chunk,
    start: Trial,
    slopes: np.ndarray,
) -> float:
    """The cost on a sample after the first move from a column, by tables of the sample."""
    requests_of = _Requests(settings._replace(share=1.0), terms, tau, SAMPLE_TABLES)
    request = requests_of.make((start,), None, slopes)
    (answer,) = run_fold(ridge_fold(settings.columns, (request,)), [sample])
    cost = float(answer.costs[0]) + answer.strength.at(start.alpha, settings.penalty)
    return cost + min((trial.predicted for trial in answer.moves), default=0.0)
