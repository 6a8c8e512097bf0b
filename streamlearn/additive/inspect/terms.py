"""A fitted sum of terms: its attributes, what it answers, and what is said of each term."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, NotRequired, TypedDict

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...data.levels import Coder
from ...data.source import Chunk, Csr
from ...estimator import predicting
from ...estimator.facts import Parts
from ...estimator.model import Model
from ...estimator.report.figures import Figure
from ...estimator.restored import n_outputs
from ...estimator.rows.encoding import column_names
from ...numeric.bases.bsplines import Bases, evaluate, select_columns
from ...numeric.bases.means import mean_sizes
from ...numeric.bases.registry import LEVELS
from ...numeric.checks import check_array, check_offsets, check_records
from ...numeric.losses import Loss
from ...passes.summary.facts import ColumnFacts, ends_of
from ...passes.summary.summary import Summary
from ..basis.kernels import margins_rows, present
from ..basis.kernels_bars import bars_of_columns
from ..basis.kernels_csr import dense_coordinates
from ..objective import Problem
from ..pairs import PairTable, pair_margins, pair_tables, purified
from ..smooth.posterior import Posterior
from .figures import figures_of
from .heat_maps import maps_of
from .uncertainty import Uncertainty

if TYPE_CHECKING:
    from ..stochastic.partial_fit import Stream

N_BARS = 32
"""Bars of the density of a column that is drawn as a line."""
STEPS = np.arange(N_BARS + 1) / N_BARS


class AdditiveState(TypedDict):
    """The tree of a saved model; what is not required some models or older files do not have."""

    bases: Bases
    coef: np.ndarray
    intercept: np.ndarray
    shifts: np.ndarray
    importances: np.ndarray
    densities: Densities | list[Density]
    pair_density: NotRequired[np.ndarray]
    means: NotRequired[np.ndarray | None]
    edits: NotRequired[object]
    stream: NotRequired[Stream | None]
    posterior: NotRequired[Posterior | None]
    criterion: NotRequired[str | None]
    column_of_mean: NotRequired[int]
    """Number of the column that the mean of a regressor goes by; -1: there is none."""


class Terms(Uncertainty):
    """A mixin: f(x) = b + sum_d f_d(x_d) of a trained model."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    classes_: np.ndarray
    levels_: dict[str, list[str]]
    _pair_density = np.empty(0)
    """Share of the training rows at the nodes of every pair, pair after pair."""

    @property
    @abstractmethod
    def _loss(self) -> Loss:
        """The loss whose sum is minimised."""

    @property
    def _is_joint(self) -> bool:
        """Whether the multinomial loss was requested; for two classes it is the one curve."""
        return False

    @property
    def _has_level(self) -> np.ndarray:
        """(p,) bool: the columns in which a missing value has a meaning."""
        bases = self.bases_.main
        return bases.has_missing | (bases.kind == LEVELS)

    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None:
        """Set the fitted attributes: terms less their training means, which go to the intercept."""
        theta = problem.by_output(theta)
        W = purified(problem.bases, theta[:, :-1], means)
        b = theta[:, -1] - theta[:, :-1] @ problem.reference.c
        first = problem.bases.first
        n_bases, constant = np.diff(first), problem.bases.sums_to_one
        used = np.flatnonzero(n_bases)
        shifts = np.zeros((len(W), len(n_bases)))
        if len(used):
            shifts[:, used] = np.add.reduceat(W * means, first[used], axis=1)
        # the splines of a column sum to 1; others have no constant among them
        W -= np.repeat(np.where(constant, shifts, 0.0), n_bases, axis=1)
        self._shifts = np.where(constant, 0.0, shifts)
        b += shifts.sum(axis=1)
        self.bases_ = problem.bases
        self.coef_ = W
        self.intercept_ = b + problem.target_mean

    def _keep_fit(
        self,
        problem: Problem,
        theta: np.ndarray,
        means: np.ndarray,
        summary: Summary,
        density: np.ndarray | None = None,
    ) -> None:
        """`_keep` with the means of the summary's rows, and how they lie along each column.

        `density` (dim,): the means of the functions, where there are pairs.
        """
        pairs = slice(problem.bases.main.dim, None)
        if density is not None:
            means = np.append(means[: problem.bases.main.dim], density[pairs])
        self._pair_density = means[pairs].copy()
        self._keep(problem, theta, means)
        self._keep_distribution(summary)

    def _keep_distribution(self, summary: Summary) -> None:
        """The facts of the rows that pictures and importances need."""
        facts = summary.columns
        self._densities = densities(facts, self.bases_.main)
        self._importances = mean_sizes(self.bases_, facts.distributions(), self.coef_, self._shifts)
        for i, pair in enumerate(self.pair_tables_):
            sizes = np.abs(pair.by_output).mean(axis=2)
            self._importances[self.bases_.n_columns + i] = (sizes * pair.density).sum()

    @property
    def pair_tables_(self) -> list[PairTable]:
        """The terms of two columns at their nodes; none without `interactions`."""
        return pair_tables(self.bases_, self.coef_, self._pair_density)

    @property
    def densities_(self) -> list[Density]:
        """The shares of the training rows along each column."""
        return self._densities.by_column(self.knots_)

    # Using it.

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        F = np.empty((chunk.n_rows, len(self.coef_)))
        margins_rows(chunk.X, self.bases_, self.coef_, F)
        F += self.intercept_ - self._shifts.sum(axis=1)
        return F[:, 0] if F.shape[1] == 1 else F

    def explain(self: Model, X: object) -> np.ndarray:
        """Contribution of each term to the decision of each row.

        The terms and `intercept_` add up to `decision_function` (a regressor's `predict`; with
        a loss of counts or amounts its logarithm).  Every term is 0 on average over the training
        rows, so each says how the row differs from them; an offset, or the logarithm of an
        exposure, stands in its own column.

        Parameters
        ----------
        X : anything `predict` takes

        Returns
        -------
        array of shape (n, p), or (n, p, K) with more than two classes
            Pairs of `interactions` are so many more terms after those of the columns.  A lazy dask
            array for a dask collection.  Of a Dataset an answer over the memory budget is refused:
            ``predict_to(X, path, what="explanation")`` writes it to disk.
        """
        return predicting.answer(self, X, "explanation")

    def _explain_chunk(self, chunk: Chunk) -> np.ndarray:
        bases, X, K = self.bases_, present(chunk.X, self.bases_), len(self.coef_)
        if isinstance(X, Csr):
            X, bases = dense_coordinates(X, bases), bases._replace(prepared=True)
        terms = np.zeros((chunk.n_rows, len(bases.degree), K))
        F = np.empty((chunk.n_rows, K))
        for d in np.flatnonzero(np.diff(bases.main.first)):
            own = slice(*bases.first[d : d + 2])
            margins_rows(X[:, d : d + 1], select_columns(bases, [d]), self.coef_[:, own], F)
            terms[:, d] = F - self._shifts[:, d]
        for i, (d, e) in enumerate(bases.pair_columns):
            terms[:, bases.n_columns + i] = pair_margins(X[:, [d, e]], bases, i, self.coef_)
        return terms[:, :, 0] if K == 1 else terms

    @property
    def term_importances_(self) -> np.ndarray:
        """(p,) mean distance of each term from 0 over the training rows; of K classes their mean.

        From the summary's distribution of each column: no read.  Those of pairs follow, as the
        mean over their nodes, weighted by the rows there.
        """
        return self._importances

    @property
    def term_names_(self) -> list[str]:
        """Names of the terms: those of the columns, then ``a & b`` of each pair."""
        names = column_names(self)
        return names + [f"{names[d]} & {names[e]}" for d, e in self.bases_.pair_columns]

    def _parts(self) -> Parts:
        measure = "mean distance from 0 over the training rows"
        return Parts.by_size("terms", measure, self.term_names_, self.term_importances_)

    def _figures(self) -> tuple[str, Sequence[Figure]]:
        said, curves = figures_of(self)
        if edited := self._edited_terms:
            said += f" Edited after the fit, so that no bands are known of it: {', '.join(edited)}."
        if not self.pair_tables_:
            return said, curves
        said += (
            " A term of two columns is a map of what both do together and neither does alone: blue "
            "adds to the decision, orange takes from it. Beside it lies the share of the rows."
        )
        return said, [*curves, *maps_of(self)]

    def shape_function(
        self,
        column: int | str | tuple[int | str, int | str],
        grid: object,
        *,
        return_std: bool = False,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The learned curve of a column, or the term of a pair, at the values `grid`.

        Its mean over the training rows is 0; the terms and the intercept add up to the decision.

        Parameters
        ----------
        column : int or str, or a tuple of two
            Number or name of the column, or of both columns of a pair of `interactions`.
        grid : array-like of shape (m,), or two of them
            Of a column of categories: their names.  NaN (None) is the level of missing values.
            Of a pair: the m values of one column, and those of the other.
        return_std : bool
            Also the curve's standard deviation, if the model knows its covariance.

        Returns
        -------
        array of shape (m,), or (m, K) with more than two classes; or two of them
        """
        check_is_fitted(self)
        if isinstance(column, tuple):
            if return_std:
                self._known("the standard deviation of a pair")
            return self._pair_values(column, grid)
        d = self._column(column)
        curve = self._curve(d, grid := self._values(d, grid))
        return (curve, self._curve_deviation(d, grid)) if return_std else curve

    def _values(self, d: int, grid: object) -> np.ndarray:
        """Values of column d as numbers: of categories their codes."""
        if self.bases_.kind[d] != LEVELS:
            return np.asarray(grid)
        name = str(self.feature_names_in_[d])
        return Coder(name, self.levels_[name]).of_values(np.asarray(grid, object))

    def _pair_values(self, columns: tuple[int | str, ...], grid: object) -> np.ndarray:
        found, grids = self._pair(columns), list(grid) if isinstance(grid, Sequence) else []
        if len(grids) != 2 or np.ndim(grids[0]) != 1 or np.shape(grids[0]) != np.shape(grids[1]):
            raise ValueError(
                f"a pair takes as many values of one column as of the other, got {grid!r}; give "
                "a list of two arrays of one length"
            )
        known = {self._column(c): values for c, values in zip(columns, grids, strict=True)}
        both = [self._values(d, known[d]) for d in self.bases_.pair_columns[found]]
        X = np.column_stack(both).astype(np.float64)
        f = pair_margins(X, self.bases_, found, self.coef_)
        return f[:, 0] if f.shape[1] == 1 else f

    def _pair(self, columns: Sequence[int | str]) -> int:
        """The number of the pair of two columns."""
        pairs = self.bases_.pair_columns
        wanted = tuple(sorted(self._column(column) for column in columns))
        if wanted not in pairs:
            raise ValueError(
                f"{tuple(columns)!r} is no pair of this model, which has "
                f"{self.term_names_[self.n_features_in_ :][:10]}"
            )
        return pairs.index((wanted[0], wanted[1]))

    def _curve(self, d: int, grid: object) -> np.ndarray:
        phi = evaluate(self.bases_, d, np.asarray(grid))
        f = phi @ self.coef_[:, slice(*self.bases_.first[d : d + 2])].T - self._shifts[:, d]
        return f[:, 0] if f.shape[1] == 1 else f

    def _column(self, column: int | str) -> int:
        if isinstance(column, str):
            names = [str(name) for name in getattr(self, "feature_names_in_", [])]
            if column not in names:
                raise ValueError(f"no column {column!r}; the columns are {names[:10]}")
            return names.index(column)
        if not -self.n_features_in_ <= column < self.n_features_in_:
            raise ValueError(f"column {column} of {self.n_features_in_} columns")
        return int(column) % self.n_features_in_

    @property
    def knots_(self) -> list[np.ndarray]:
        """Breakpoints of every column; none if it is constant.  Those of categories are codes."""
        bases = self.bases_.main
        knots = bases.knots
        finite = np.isfinite(knots)
        ends = np.concatenate([[0], np.cumsum(finite)])[bases.first_knot].tolist()
        kept = knots[finite]
        return [kept[a:z] for a, z in zip(ends[:-1], ends[1:], strict=True)]

    def _state(self) -> dict[str, object]:
        return {
            "bases": self.bases_,
            "coef": self.coef_,
            "intercept": self.intercept_,
            "shifts": self._shifts,
            "densities": self._densities,
            "importances": self._importances,
            "pair_density": self._pair_density,
        }

    def _restore(self, tree: AdditiveState) -> None:
        self.bases_ = bases = tree["bases"]
        p, k = self.n_features_in_, n_outputs(self)
        if not isinstance(bases, Bases) or bases.n_columns != p:
            raise ValueError(f"the bases are not of {p} columns")
        check_array("coef", tree["coef"], (k, bases.dim))
        check_array("intercept", tree["intercept"], (k,))
        n_terms = len(bases.degree)
        check_array("shifts", tree["shifts"], (k, n_terms))
        check_array("importances", tree["importances"], (n_terms,))
        density = tree.get("pair_density", np.empty(0))
        check_array("pair_density", density, (bases.dim - bases.main.dim,))
        densities = tree["densities"]
        if not isinstance(densities, Densities):  # of an archive of 0.1.0
            check_records("densities", densities, Density)
            densities = Densities.of(densities)
        if len(densities.bars) != p:
            raise ValueError(f"the densities are not of {p} columns")
        self.coef_, self.intercept_ = tree["coef"], tree["intercept"]
        self._shifts, self._pair_density = tree["shifts"], density
        self._densities, self._importances = densities, tree["importances"]


class Density(NamedTuple):
    """Shares of the rows between edges, or at values."""

    at: np.ndarray
    """(m + 1,) edges, or (m,) values."""
    share: np.ndarray
    """(m,) adding up to 1 but for what lies outside the edges, or is missing."""
    missing: float
    """Share of the rows without a value."""


class Densities(NamedTuple):
    """The `Density` of every column, as arrays."""

    bars: np.ndarray
    """(p, N_BARS) shares between evenly spaced edges from the first breakpoint to the last."""
    at: np.ndarray
    """Values that have a coefficient each, column after column, and"""
    share: np.ndarray
    """their shares, and"""
    ends: np.ndarray
    """(p + 1,) where those of each column begin and end; a column without has bars."""
    missing: np.ndarray
    """(p,) shares of the rows without a value."""

    def check(self) -> None:
        """Raise ValueError unless the arrays agree: for those from a file."""
        p = len(self.missing)
        check_array("densities.bars", self.bars, (p, N_BARS))
        check_array("densities.missing", self.missing, (p,))
        check_array("densities.at", self.at, (None,))
        check_array("densities.share", self.share, (len(self.at),))
        check_offsets("densities.ends", self.ends, p, len(self.at))

    @classmethod
    def of(cls, columns: list[Density]) -> Densities:
        """The arrays of the densities of single columns."""
        by_value = [len(one.at) == len(one.share) for one in columns]
        none = np.empty(0)
        counted = [one for one, few in zip(columns, by_value, strict=True) if few]
        at = np.concatenate([none, *(one.at for one in counted)])
        share = np.concatenate([none, *(one.share for one in counted)])
        bars = [np.zeros(N_BARS) if few else one.share
                for one, few in zip(columns, by_value, strict=True)]  # fmt: skip
        sizes = np.array([len(one.at) * few for one, few in zip(columns, by_value, strict=True)])
        missing = np.array([one.missing for one in columns], np.float64)
        return cls(np.array(bars).reshape(-1, N_BARS), at, share, ends_of(sizes), missing)

    def by_column(self, knots: list[np.ndarray]) -> list[Density]:
        """A record a column; `knots` are its breakpoints, none if it is constant."""
        out = []
        for d, (a, z) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            at, share = self.at[a:z], self.share[a:z]
            if a == z and self.bars[d].any():
                low, high = knots[d][0], knots[d][-1]
                at, share = low + STEPS * (high - low), self.bars[d]
                at[-1] = high
            out.append(Density(at, share, float(self.missing[d])))
        return out


def densities(facts: ColumnFacts, bases: Bases) -> Densities:
    """The density of every column: at its values if each has a breakpoint, else in 32 bars."""
    p = len(facts)
    is_finite = np.isfinite(bases.knots)
    n_points = np.diff(np.concatenate([[0], np.cumsum(is_finite)])[bases.first_knot])
    low, high = np.zeros((2, p))
    used = np.flatnonzero(n_points)
    if len(used):
        low[used] = bases.knots[bases.first_knot[used]]
        high[used] = bases.knots[bases.first_knot[used] + n_points[used] - 1]
    bars, n_at = np.zeros((p, N_BARS)), np.zeros(p, np.intp)
    # a value that has a breakpoint is the column's own value: these are few enough to keep
    keeps = (bases.kind == LEVELS) | facts.few
    values, shares, sizes = [], [], np.zeros(p, np.intp)
    for a, z in facts.blocks():
        pieces = facts.pieces(a, z)
        edges = low[a:z, None] + STEPS * (high[a:z, None] - low[a:z, None])
        edges[:, -1] = high[a:z]
        at, share = np.empty((2, len(pieces.lo)))
        bars_of_columns(pieces, edges, bars[a:z], at, share, n_at[a:z])
        for d in a + np.flatnonzero(keeps[a:z] & (n_points[a:z] > 0) & (facts.count[a:z] > 0)):
            begin, n = pieces.ends[d - a], n_at[d]
            own = at[begin : begin + n]
            part: np.ndarray = share[begin : begin + n]
            if bases.kind[d] == LEVELS:  # some may be there in rows that weigh nothing alone
                part = np.bincount(own.astype(np.intp), part, n_points[d])
                own = np.arange(n_points[d], dtype=np.float64)
            elif n != n_points[d]:
                continue
            values.append(own.copy())
            shares.append(part.copy())
            sizes[d] = n_points[d]
    total = facts.count + facts.missing
    missing = facts.missing / np.where(total > 0, total, 1)
    bars[(sizes > 0) | (n_points == 0) | (facts.count == 0)] = 0.0
    none = np.empty(0)
    ends = ends_of(sizes)
    return Densities(
        bars, np.concatenate([none, *values]), np.concatenate([none, *shares]), ends, missing
    )
