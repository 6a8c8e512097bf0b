"""A fitted sum of terms: its attributes, what it answers, and what is said of each term."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...data.encoding import Encoding
from ...data.levels import Coder
from ...data.source import Chunk, Csr, Source
from ...estimator import predicting
from ...estimator.facts import Parts
from ...estimator.model import Model
from ...estimator.report.figures import MOST_ROWS, Figure
from ...estimator.restored import n_outputs
from ...estimator.rows.encoding import (
    feature_names,
    hint_of,
    is_encoded,
    n_features,
    place_of,
)
from ...numeric.bases.bsplines import Bases, evaluate, select_columns
from ...numeric.bases.means import mean_sizes
from ...numeric.bases.registry import LEVELS
from ...numeric.checks import check_array, check_records
from ...numeric.losses import Loss
from ...passes.summary.summary import Summary
from ..basis.column_bases import closed, takes_missing
from ..basis.kernels import margins_rows, present
from ..basis.kernels_csr import dense_coordinates
from ..objective import Problem
from ..pairs import PairTable, pair_functions, pair_margins, pair_tables
from ..purification import purified
from ..smooth.posterior import Posterior
from .densities import CountedDensities, Densities, Density
from .figures import figures_of
from .heat_maps import maps_of
from .importances import importance_errors
from .uncertainty import Uncertainty

if TYPE_CHECKING:
    from ..stochastic.partial_fit import Stream


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
    merged: NotRequired[list[dict[str, float]]]
    target_mean: NotRequired[float | None]
    total_weight: NotRequired[float | None]
    stream: NotRequired[Stream | None]
    posterior: NotRequired[Posterior | None]
    criterion: NotRequired[str | None]
    multi_class: NotRequired[str]
    """Way in which a classifier's classes were fitted."""
    column_of_mean: NotRequired[int]
    """Number of the column that the mean of a regressor goes by; -1: there is none."""


class Terms(Uncertainty):
    """A mixin: f(x) = b + sum_d f_d(x_d) of a trained model."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    classes_: np.ndarray
    levels_: dict[str, list[str]]
    encoding_: Encoding
    """Rules that make the features, where a column needs one."""
    _pair_density = np.empty(0)
    """Share of the training rows at the nodes of every pair, pair after pair."""

    @property
    @abstractmethod
    def _loss(self) -> Loss:
        """The loss whose sum is minimised."""

    @property
    @abstractmethod
    def _levels(self) -> Sequence[float]:
        """The quantiles that are fitted together, where several are."""

    @property
    def _is_joint(self) -> bool:
        """Whether the outputs are those of one multinomial problem of more than two classes."""
        return False

    @property
    def _has_level(self) -> np.ndarray:
        """(p,) bool: the columns in which a missing value has a meaning."""
        return takes_missing(self.bases_.main)

    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None:
        """Set the fitted attributes: terms less their training means, which go to the intercept."""
        theta = problem.by_output(theta).copy()
        theta[:, :-1] = closed(problem.bases, theta[:, :-1])
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
    ) -> None:
        """`_keep` with the means of the functions, those of pairs their joint density.

        And with how the summary's rows lie along each column.
        """
        self._pair_density = means[problem.bases.main.dim :].copy()
        self._keep(problem, theta, means)
        self._keep_distribution(summary)

    def _keep_distribution(self, summary: Summary) -> None:
        """The facts of the rows that pictures and importances need."""
        counted = CountedDensities(summary.columns, self.bases_.main)
        # one walk over the distributions: to write them out takes longer than to count them
        blocks = counted.distributions()
        self._importances = mean_sizes(self.bases_, blocks, self.coef_, self._shifts)
        self._densities = counted.finish()
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

    def _decision_row_nbytes(self, dataset: Source) -> float:
        # a chunk with missing values is copied, with what kernels take for them
        has_missing = bool(self.bases_.has_missing.any())
        return has_missing * dataset.decoded_nbytes / max(dataset.n_physical_rows, 1)

    def explain(self: Model, X: object) -> np.ndarray:
        """Contribution of each term to the decision of each row.

        The terms and `intercept_` add up to `decision_function` (a regressor's `predict`; with
        a loss of counts or amounts its logarithm).  Every term is 0 on average over the training
        rows, so each says how the row differs from them; an offset, or the logarithm of an
        exposure, stands in its own column.  Of several quantiles they add up to each curve's value
        before predictions are put in order.

        Parameters
        ----------
        X : anything `predict` takes

        Returns
        -------
        array of shape (n, p), or (n, p, K) with more than two classes, or K quantiles
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
    def term_importance_errors_(self) -> np.ndarray:
        """(p,) standard errors of `term_importances_`, of a model that knows its covariance.

        Those of pairs are after those of the columns.

        The standard deviation over 400 draws of the coefficients from their posterior, of a fixed
        seed, with the rows where the density of the column has them; K classes count as
        independent.  It takes the smoothness as known: of a term so weak that other rows would have
        it smoothed to nothing it says a quarter to a half.  NaN of terms that were edited.

        An importance is at least 0, and what a curve has of noise is in it: that of noise alone is
        above 0 by about its error.
        """
        self._known("term_importance_errors_")
        return self._importance_errors(range(len(self.term_importances_)))

    def _importance_errors(self, terms: Sequence[int]) -> np.ndarray:
        """The standard errors of the importances of some terms."""
        by_output = importance_errors(self, self._posterior, terms)
        return np.sqrt((by_output**2).sum(axis=0)) / len(by_output)

    @property
    def term_names_(self) -> list[str]:
        """Names of the terms: those of the columns, then ``a & b`` of each pair."""
        names = feature_names(self)
        return names + [f"{names[d]} & {names[e]}" for d, e in self.bases_.pair_columns]

    def _parts(self) -> Parts:
        measure = "mean distance from 0 over the training rows"
        sizes = self.term_importances_
        errors = np.full(len(sizes), np.nan)
        if hasattr(self, "effective_dof_"):  # it knows its covariance
            shown = np.argsort(-sizes, kind="stable")[:MOST_ROWS]
            errors[shown] = self._importance_errors(shown.tolist())
        return Parts.by_size("terms", measure, self.term_names_, sizes, errors)

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
        if hasattr(self, "effective_dof_"):  # it knows its covariance
            said += (
                " Half widths are those of bands that cover a map 95 times in 100, on average over "
                "the rows: what is smaller may be noise."
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
            Also the term's standard deviation, if the model knows its covariance.

        Returns
        -------
        array of shape (m,), or (m, K) with more than two classes, or K quantiles; or two of them
        """
        check_is_fitted(self)
        if isinstance(column, tuple):
            values = self._pair_values(column, grid)
            if not return_std:
                return values
            found, X = self._pair_rows(column, grid)
            phi = pair_functions(X, self.bases_, found)
            return values, self._term_deviation(self.bases_.n_columns + found, phi)
        d = self._column(column)
        curve = self._curve(d, grid := self._values(d, grid))
        return (curve, self._curve_deviation(d, grid)) if return_std else curve

    def _values(self, d: int, grid: object) -> np.ndarray:
        """Values of column d as numbers: of categories their codes."""
        if self.bases_.kind[d] != LEVELS:
            return np.asarray(grid)
        name = feature_names(self)[d]
        return Coder(name, self.levels_[name]).of_values(np.asarray(grid, object))

    def _pair_values(self, columns: tuple[int | str, ...], grid: object) -> np.ndarray:
        found, X = self._pair_rows(columns, grid)
        f = pair_margins(X, self.bases_, found, self.coef_)
        return f[:, 0] if f.shape[1] == 1 else f

    def _pair_rows(self, columns: tuple[int | str, ...], grid: object) -> tuple[int, np.ndarray]:
        """The number of the pair of two columns, and rows (m, 2) of these at the values `grid`."""
        found, grids = self._pair(columns), list(grid) if isinstance(grid, Sequence) else []
        if len(grids) != 2 or np.ndim(grids[0]) != 1 or np.shape(grids[0]) != np.shape(grids[1]):
            raise ValueError(
                f"a pair takes as many values of one column as of the other, got {grid!r}; give "
                "a list of two arrays of one length"
            )
        known = {self._column(c): values for c, values in zip(columns, grids, strict=True)}
        both = [self._values(d, known[d]) for d in self.bases_.pair_columns[found]]
        return found, np.column_stack(both).astype(np.float64)

    def _pair(self, columns: Sequence[int | str]) -> int:
        """The number of the pair of two columns."""
        pairs = self.bases_.pair_columns
        wanted = tuple(sorted(self._column(column) for column in columns))
        if wanted not in pairs:
            raise ValueError(
                f"{tuple(columns)!r} is no pair of this model, which has "
                f"{self.term_names_[self.bases_.n_columns :][:10]}"
            )
        return pairs.index((wanted[0], wanted[1]))

    def _curve(self, d: int, grid: object) -> np.ndarray:
        phi = evaluate(self.bases_, d, np.asarray(grid))
        f = phi @ self.coef_[:, slice(*self.bases_.first[d : d + 2])].T - self._shifts[:, d]
        return f[:, 0] if f.shape[1] == 1 else f

    def _column(self, column: int | str) -> int:
        if isinstance(column, str):
            is_named = is_encoded(self) or hasattr(self, "feature_names_in_")
            names = feature_names(self) if is_named else []
            if column not in names:
                raise ValueError(
                    f"no column {column!r}; the columns are {names[:10]}{hint_of(column, names)}"
                )
            return names.index(column)
        p = self.n_features_in_
        if not -p <= column < p:
            raise ValueError(f"column {column} of {p} columns")
        return place_of(self, int(column) % p)

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
        p, k = n_features(self), n_outputs(self)
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
