"""A fitted sum of terms: its attributes, what it answers, and what is said of each term."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...data.levels import Coder
from ...data.source import Chunk, Csr
from ...estimator import predicting
from ...estimator.restored import n_outputs
from ...numeric.bases.bsplines import Bases, evaluate, select_columns
from ...numeric.bases.means import Pieces, Spread, mean_functions, mean_sizes, spread_points
from ...numeric.bases.registry import LEVELS
from ...numeric.checks import check_array, check_records
from ...passes.summary.summary import Summary
from ..basis.column_bases import pieces_of
from ..basis.kernels import margins_rows, present
from ..basis.kernels_bars import bars_of_columns
from ..basis.kernels_csr import dense_coordinates
from ..objective import Problem

N_BARS = 32
"""Bars of the density of a column that is drawn as a line."""
STEPS = np.arange(N_BARS + 1) / N_BARS


class Terms:
    """A mixin: f(x) = b + sum_d f_d(x_d) of a trained model."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    levels_: dict[str, list[str]]

    @property
    def _has_level(self) -> np.ndarray:
        """(p,) bool: the columns in which a missing value has a meaning."""
        return self.bases_.has_missing | (self.bases_.kind == LEVELS)

    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None:
        """Set the fitted attributes: terms less their training means, which go to the intercept."""
        theta = problem.by_output(theta)
        W, b = theta[:, :-1].copy(), theta[:, -1] - theta[:, :-1] @ problem.reference.c
        first = problem.bases.first
        self._shifts = np.zeros((len(W), len(first) - 1))
        for d, (a, z) in enumerate(zip(first[:-1], first[1:], strict=True)):
            shift = W[:, a:z] @ means[a:z]
            if problem.bases.local[d]:
                W[:, a:z] -= shift[:, None]  # the splines of a column sum to 1
            else:  # others have no constant among them
                self._shifts[:, d] = shift
            b += shift
        self.bases_ = problem.bases
        self.coef_ = W
        self.intercept_ = b + problem.target_mean

    def _keep_fit(self, problem: Problem, theta: np.ndarray, summary: Summary) -> None:
        """`_keep` with the means of the summary's rows, and how they lie along each column."""
        pieces = pieces_of(summary)
        points = spread_points(problem.bases, pieces)
        self._keep(problem, theta, mean_functions(problem.bases, points))
        self._keep_distribution(summary, pieces, points)

    def _keep_distribution(self, summary: Summary, pieces: Pieces, points: Spread) -> None:
        """What pictures and importances need of the rows, which lie at `points`."""
        self.densities_ = densities(summary, self.knots_, pieces)
        self._importances = term_importances(self, points)

    # Using it.

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        F = np.empty((chunk.n_rows, len(self.coef_)))
        margins_rows(chunk.X, self.bases_, self.coef_, F)
        F += self.intercept_ - self._shifts.sum(axis=1)
        return F[:, 0] if F.shape[1] == 1 else F

    def explain(self, X: object) -> np.ndarray:
        """What each term adds to the decision of each row.

        The terms and `intercept_` add up to `decision_function` (a regressor's `predict`; with
        loss="poisson" or "gamma" its logarithm).  Every term is 0 on average over the training
        rows, so each says how the row differs from them; an offset, or the logarithm of an
        exposure, stands in its own column.

        Parameters
        ----------
        X : anything `predict` takes

        Returns
        -------
        array of shape (n, p), or (n, p, K) with more than two classes
            A lazy dask array for a dask collection.  Of a Dataset an answer over the memory budget
            is refused: ``predict_to(X, path, what="explanation")`` writes it to disk.
        """
        return predicting.answer(self, X, "explanation")

    def _explain_chunk(self, chunk: Chunk) -> np.ndarray:
        bases, X, K = self.bases_, present(chunk.X, self.bases_), len(self.coef_)
        if isinstance(X, Csr):
            X, bases = dense_coordinates(X, bases), bases._replace(prepared=True)
        terms = np.zeros((chunk.n_rows, len(bases.degree), K))
        F = np.empty((chunk.n_rows, K))
        for d in np.flatnonzero(np.diff(bases.first)):
            own = slice(*bases.first[d : d + 2])
            margins_rows(X[:, d : d + 1], select_columns(bases, [d]), self.coef_[:, own], F)
            terms[:, d] = F - self._shifts[:, d]
        return terms[:, :, 0] if K == 1 else terms

    @property
    def term_importances_(self) -> np.ndarray:
        """(p,) mean distance of each term from 0 over the training rows; of K classes their mean.

        From the summary's distribution of each column: no read.
        """
        return self._importances

    def shape_function(self, column: int | str, grid: object) -> np.ndarray:
        """The learned curve of a column at the values `grid`.

        Its mean over the training rows is 0; the terms and the intercept add up to the decision.

        Parameters
        ----------
        column : int or str
            Number or name of the column.
        grid : array-like of shape (m,)
            Of a column of categories: their names.  NaN (None) is the level of missing values.

        Returns
        -------
        array of shape (m,), or (m, K) with more than two classes
        """
        check_is_fitted(self)
        d = self._column(column)
        if self.bases_.kind[d] == LEVELS:
            name = str(self.feature_names_in_[d])
            grid = Coder(name, self.levels_[name]).of_values(np.asarray(grid, object))
        return self._curve(d, grid)

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
        knots = self.bases_.knots
        finite = np.isfinite(knots)
        ends = np.concatenate([[0], np.cumsum(finite)])[self.bases_.first_knot].tolist()
        kept = knots[finite]
        return [kept[a:z] for a, z in zip(ends[:-1], ends[1:], strict=True)]

    def _state(self) -> dict[str, Any]:
        return {
            "bases": self.bases_,
            "coef": self.coef_,
            "intercept": self.intercept_,
            "shifts": self._shifts,
            "densities": self.densities_,
            "importances": self._importances,
        }

    def _restore(self, tree: dict[str, Any]) -> None:
        self.bases_ = bases = tree["bases"]
        p, k = self.n_features_in_, n_outputs(self)
        if not isinstance(bases, Bases) or len(bases.degree) != p:
            raise ValueError(f"the bases are not of {p} columns")
        check_array("coef", tree["coef"], (k, bases.dim))
        check_array("intercept", tree["intercept"], (k,))
        check_array("shifts", tree["shifts"], (k, p))
        check_array("importances", tree["importances"], (p,))
        check_records("densities", tree["densities"], Density)
        self.coef_, self.intercept_ = tree["coef"], tree["intercept"]
        self._shifts = tree["shifts"]
        self.densities_, self._importances = tree["densities"], tree["importances"]


class Density(NamedTuple):
    """Shares of the rows between edges, or at values."""

    at: np.ndarray
    """(m + 1,) edges, or (m,) values."""
    share: np.ndarray
    """(m,) adding up to 1 but for what lies outside the edges, or is missing."""
    missing: float
    """Share of the rows without a value."""


def densities(summary: Summary, knots: list[np.ndarray], pieces: Pieces) -> list[Density]:
    """The density of every column: at its values if each has a breakpoint, otherwise in 32 bars."""
    ends = np.array([(k[0], k[-1]) if len(k) else (0.0, 0.0) for k in knots]).reshape(-1, 2)
    edges = ends[:, :1] + STEPS * (ends[:, 1:] - ends[:, :1])
    edges[:, -1] = ends[:, 1]
    bars, n_at = np.zeros((len(knots), N_BARS)), np.zeros(len(knots), np.intp)
    at, share = np.empty(len(pieces.lo)), np.empty(len(pieces.lo))
    bars_of_columns(pieces, edges, bars, at, share, n_at)
    out = []
    for d, (column, points) in enumerate(zip(summary.columns, knots, strict=True)):
        total = column.count + column.missing
        missing = column.missing / total if total else 0.0
        own = slice(pieces.ends[d], pieces.ends[d] + n_at[d])
        if not len(points) or not column.count:
            density = Density(np.empty(0), np.empty(0), missing)
        elif column.levels is not None:  # some may be there in rows that weigh nothing alone
            where = at[own].astype(np.intp)
            density = Density(points, np.bincount(where, share[own], len(points)), missing)
        elif n_at[d] == len(points):
            density = Density(at[own].copy(), share[own].copy(), missing)
        else:
            density = Density(edges[d], bars[d], missing)
        out.append(density)
    return out


def term_importances(model: Any, points: Spread) -> np.ndarray:
    """(p,) mean of |f_d| over the rows, which lie at `points`; averaged over the outputs."""
    return mean_sizes(model.bases_, points, model.coef_, model._shifts)
