"""Changes of a fitted term by hand: its curve gets the values that one asks for.

    minimise  |w' - w|^2  over those w' for which  |Phi w' - v|^2  is least

w are the term's coefficients, Phi (m, n) its functions at the points asked, v (m,) the values
wanted there.  Functions that are 0 at all of these points keep their coefficients, so away from the
points the curve stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ...estimator.certificate import Certificate
from ...estimator.facts import in_words
from ...numeric.bases.bsplines import evaluate, select_columns
from ...numeric.bases.means import Pieces, mean_functions, mean_sizes
from ...numeric.bases.registry import LEVELS
from ...numeric.checks import check_array, check_records
from ..objective import Problem
from ..pairs import pair_functions
from ..purification import purified
from ..smooth.shape import Signs, make_cone
from .densities import pieces_of
from .figures import MISSING, OTHER
from .terms import AdditiveState, Terms

CUT = 1e-5
"""Least singular value, as a share of the largest, of functions that the points asked determine:
coordinates are rounded to float32."""
ROUNDING = 1e-9
MOST_WORDS = 4
"""Categories and edits that are named in words."""

Edit = dict[str, str | int | float | list[float]]
"""Record of one edit, by plain values that a file can hold."""


class Asked(NamedTuple):
    """The values that a term is to have."""

    phi: np.ndarray
    """(m, n) functions of the term at the points asked."""
    values: np.ndarray
    """(m, K) values wanted there."""
    where: str
    """The points in words."""
    elsewhere: np.ndarray
    """(l, n) functions of the term at its breakpoints that were not asked."""


class Editable(Terms):
    """A mixin: a trained model whose terms can be changed by hand."""

    edits_: list[Edit]
    _stream: object
    certificate_: Certificate
    _means: np.ndarray | None = None
    """(dim,) means of the functions over the training rows; older files do not hold them."""

    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None:
        super()._keep(problem, theta, means)
        self._means, self.edits_ = means, []

    def _state(self) -> dict[str, object]:
        return super()._state() | {"means": self._means, "edits": self.edits_}

    def _restore(self, tree: AdditiveState) -> None:
        super()._restore(tree)
        means, edits = tree.get("means"), tree.get("edits", [])
        if means is not None:
            check_array("means", means, (self.bases_.dim,))
        check_records("edits", edits, dict)
        assert isinstance(edits, list | tuple)  # it was checked
        if not all(isinstance(one.get(name), str) for one in edits for name in ("term", "where")):
            raise ValueError("edits do not say of which term they are, and where")
        assert means is None or isinstance(means, np.ndarray)
        self._means, self.edits_ = means, list(edits)

    def edit(
        self,
        term: int | str | tuple[int | str, int | str],
        x: object = None,
        values: npt.ArrayLike = 0.0,
        *,
        tolerance: float = 1e-3,
    ) -> Self:
        """Change the curve of one term by hand; a copy of the model, which stays as it is.

        Between the first and the last of the numbers `x` the curve becomes the broken line through
        the points (x, values), so two numbers and one value flatten it between them; beyond them it
        goes back to what it was within `degree` breakpoints.  A category has the value of its
        level alone.  Then the curve's mean over the training rows moves into the intercept, so that
        every term is still 0 on average and decisions of rows elsewhere stay the same:
        ``shape_function`` says the values less that mean.

        Curves are splines, and what is between their breakpoints is not free: coefficients are
        those of least squares at `x` and at the breakpoints between them, and an edit that they
        cannot follow is refused.

        What was proved of the fit is not true of the copy: its `certificate_` says that it was
        edited, bands of an edited term are NaN, deviations of predictions are refused, and so is
        `partial_fit`.  A new `fit` forgets the edits, with `warm_start` too, which begins at the
        edited curves and ends at the optimum.  `calibration_` stays the one of the fit.

        Parameters
        ----------
        term : int or str, or a tuple of two
            Number or name of the column, or of both columns of a pair of `interactions`.
        x : array-like of shape (m,), or two of them
            Points of the curve; of a column of categories words; NaN (None) is the level of missing
            values, of categories with all other words.  Of a pair: the m values of one column, and
            those of the other, and only these points are asked for.  Default: everywhere.
        values : float or array-like of shape (m,), or (m, K) with more than two classes
            Values wanted there, in units of the decision.  Default 0: without x the term is gone.
        tolerance : float, default=1e-3
            Largest difference from `values` at the points asked that is accepted, as a share of the
            largest change that is asked for.

        Returns
        -------
        model of the same kind
            Its `edits_` list what was changed, by dicts: "term", "where", "points" (how many were
            asked), "before" and "after" (least and greatest value there), "error" (largest
            difference from `values` there), "outside" (largest change at other breakpoints) and
            "intercept" (what moved into it).

        Examples
        --------
        >>> import numpy as np
        >>> from streamlearn import AdditiveRegressor
        >>> X = np.linspace(0, 1, 500)[:, None]
        >>> model = AdditiveRegressor(C=100).fit(X, np.sin(6 * X[:, 0]))
        >>> edited = model.edit(0, [0.5, 1.0], 0.25)
        >>> x = [[0.2], [0.6], [0.9]]
        >>> (edited.predict(x) - model.intercept_).round(2), model.predict(x).round(2)
        (array([0.93, 0.25, 0.25]), array([ 0.93, -0.44, -0.78]))
        """
        check_is_fitted(self)
        if not 0 <= tolerance < np.inf:
            raise ValueError(f"tolerance={tolerance!r} must be a finite number of at least 0")
        is_pair = isinstance(term, tuple)
        if isinstance(term, tuple):
            at = self.bases_.n_columns + self._pair(term)
            asked = self._asked_of_pair(term, at, x, values)
        else:
            at = self._column(term)
            asked = self._asked(at, x, values)
        name, own = self.term_names_[at], slice(*self.bases_.first[at : at + 2])
        change, now = _change(asked, self.coef_[:, own], name, tolerance)
        self._check_shape(at, own, change, name)
        W = self.coef_.copy()
        W[:, own] += change
        touched = [at]
        if is_pair:
            d, e = self.bases_.pair_columns[at - self.bases_.n_columns]
            touched = [at, d, e]
            means = np.zeros(self.bases_.dim)
            means[self.bases_.main.dim :] = self._pair_density
            pure = purified(self.bases_, W, means)
            for t in touched:  # other pairs keep their bits
                part = slice(*self.bases_.first[t : t + 2])
                W[:, part] = pure[:, part]
        edited = copy(self)
        edited.coef_, edited._importances = W, self._importances.copy()
        moved = np.zeros(len(W))
        for t in touched:
            moved += edited._centre(t)
        edited.intercept_ = self.intercept_ + moved
        after = asked.phi @ change.T + now
        outside = np.abs(asked.elsewhere @ change.T)
        record: Edit = {
            "term": name,
            "where": asked.where,
            "points": len(after),
            "before": [float(now.min()), float(now.max())],
            "after": [float(after.min()), float(after.max())],
            "error": float(np.abs(after - asked.values).max()),
            "outside": float(outside.max(initial=0.0)),
            "intercept": float(moved[0]) if len(moved) == 1 else moved.tolist(),
        }
        edited.edits_ = [*self.edits_, record]
        edited._stream = None
        edited.certificate_ = _certificate(self.certificate_, self.edits_, edited.edits_)
        return edited

    def _asked(self, d: int, x: object, values: npt.ArrayLike) -> Asked:
        """The points of a column and the values wanted there."""
        bases, name, knots = self.bases_, self.term_names_[d], self.knots_[d]
        if not len(knots):
            raise ValueError(
                f"column {name!r} was constant in training, or holds an offset or exposure, and "
                "has no curve to edit"
            )
        if not bases.local[d]:
            raise ValueError(
                f"column {name!r} has a basis of functions that are nowhere 0, which no edit can "
                "change at one place alone; fit with basis='bspline'"
            )
        has_missing, K = bool(bases.has_missing[d]), len(self.coef_)
        every = np.append(knots, np.nan) if has_missing else knots
        if x is None:
            given, said = every, "everywhere"
        else:
            given, said = self._given_points(d, x)
        wanted = _wanted(values, len(given), K)
        if bases.kind[d] == LEVELS:
            points, elsewhere = given, every[~_among(every, given)]
        else:
            points, wanted = _on_curve(given, wanted, knots, int(bases.degree[d]))
            there = points[np.isfinite(points)]
            first, last = there.min(initial=np.inf), there.max(initial=-np.inf)
            outside = knots[(knots < first) | (knots > last)]
            is_missing = has_missing and not np.isnan(points).any()
            elsewhere = np.append(outside, np.nan) if is_missing else outside
        phi = evaluate(bases, d, points)
        return Asked(phi, wanted, said, evaluate(bases, d, elsewhere))

    def _given_points(self, d: int, x: object) -> tuple[np.ndarray, str]:
        """The points that were given of column d as numbers, and in words."""
        name = self.term_names_[d]
        is_words = self.bases_.kind[d] == LEVELS
        given = np.atleast_1d(np.asarray(x, object if is_words else np.float64))
        if given.ndim != 1 or not len(given):
            raise ValueError(
                f"x of {name!r} has the shape {given.shape}; give an array of one or more values"
            )
        points = np.asarray(self._values(d, given), np.float64)
        gone = np.isnan(points)
        if is_words:
            unknown = [one for one, n in zip(given, gone, strict=True) if n and not _is_none(one)]
            if unknown:
                raise ValueError(
                    f"{unknown[:5]!r} are no levels of {name!r}, which has "
                    f"{self.levels_[name][:10]}; None is the level of all other words"
                )
            words = [f"{OTHER} or {MISSING}" if n else repr(str(one))
                     for one, n in zip(given, gone, strict=True)]  # fmt: skip
            more = f" and {len(words) - MOST_WORDS} more" if len(words) > MOST_WORDS else ""
            said = ", ".join(words[:MOST_WORDS]) + more
        else:
            if np.isinf(points).any():
                raise ValueError(f"x of {name!r} holds infinity; give numbers between its ends")
            there = points[~gone]
            parts = []
            if len(there):
                low, high = there.min(), there.max()
                parts.append(f"{low:.6g} to {high:.6g}" if low < high else f"at {low:.6g}")
            said = " and ".join(parts + [MISSING] * bool(gone.any()))
        if gone.any() and not self.bases_.has_missing[d]:
            raise ValueError(f"column {name!r} has no level of missing values; leave NaN out of x")
        if gone.sum() > 1 or len(np.unique(points[~gone])) < (~gone).sum():
            raise ValueError(f"x of {name!r} holds a value twice; give each once")
        return points, said

    def _asked_of_pair(
        self, term: tuple[int | str, int | str], at: int, x: object, values: npt.ArrayLike
    ) -> Asked:
        """The points of a pair and the values wanted there."""
        bases, own = self.bases_, slice(*self.bases_.first[at : at + 2])
        n, K = own.stop - own.start, len(self.coef_)
        if x is None:
            return Asked(np.eye(n), _wanted(values, n, K), "everywhere", np.empty((0, n)))
        grids = list(x) if isinstance(x, Sequence) else []
        if len(grids) != 2 or np.shape(grids[0]) != np.shape(grids[1]):
            raise ValueError(
                f"a pair takes as many values of one column as of the other, got {x!r}; give a "
                "list of two arrays of one length"
            )
        columns = [self._column(column) for column in term]
        found = {}
        for d, grid in zip(columns, grids, strict=True):
            # a value may come several times, each with another of the other column
            words = np.atleast_1d(np.asarray(grid, object))
            each = {_key(word): self._given_points(d, [word])[0][0] for word in words}
            found[d] = np.array([each[_key(word)] for word in words])
        X = np.column_stack([found[d] for d in bases.pair_columns[at - self.bases_.n_columns]])
        phi = pair_functions(X, bases, at - self.bases_.n_columns)
        nodes = np.eye(n)[~(phi != 0).any(axis=0)]
        return Asked(phi, _wanted(values, len(X), K), f"at {len(X)} points", nodes)

    def _check_shape(self, d: int, own: slice, change: np.ndarray, name: str) -> None:
        """Refuse a curve that `monotone` or `convex` does not allow."""
        shapes: list[int] = []
        for parameter in ("monotone", "convex"):
            signs: Signs = getattr(self, parameter, None) or {}  # the CV estimators have neither
            found = [sign for column, sign in signs.items() if self._column(column) == d]
            shapes += found[:1] or [0]
        if not any(shapes):
            return
        w = self.coef_[0].copy()
        w[own] += change[0]
        slack = make_cone(self.bases_, {d: (shapes[0], shapes[1])}).G @ w
        if slack.min(initial=0.0) < -ROUNDING * max(float(np.abs(w[own]).max()), 1e-300):
            kinds = {"monotone": shapes[0], "convex": shapes[1]}
            held = " and ".join(f"{kind}={sign}" for kind, sign in kinds.items() if sign)
            raise ValueError(
                f"the edit of {name!r} breaks {held}, to which its curve is held, by "
                f"{-slack.min():.3g} between two breakpoints; ask for values of that shape, also "
                "against the curve beyond them, or fit without it"
            )

    def _centre(self, t: int) -> np.ndarray:
        """Set term t less its mean over the training rows, in place; the mean (K,)."""
        bases, own = self.bases_, slice(*self.bases_.first[t : t + 2])
        if t >= self.bases_.n_columns:  # it has no part in single columns
            table = self.pair_tables_[t - self.bases_.n_columns]
            sizes = np.abs(table.by_output).mean(axis=2)
            self._importances[t] = (sizes * table.density).sum()
            return np.zeros(len(self.coef_))
        alone, pieces = select_columns(bases.main, [t]), self._distribution(t)
        known = self._means
        means = mean_functions(alone, [pieces]) if known is None else known[own]
        mean: np.ndarray = self.coef_[:, own] @ means
        self.coef_[:, own] -= mean[:, None]
        W = np.ascontiguousarray(self.coef_[:, own])
        self._importances[t] = mean_sizes(alone, [pieces], W, np.zeros((len(W), 1)))[0]
        return mean

    def _distribution(self, d: int) -> Pieces:
        """The training rows along column d, as its density knows them."""
        return Pieces.of([pieces_of(self.densities_[d])])

    def _refuse_edits(self, what: str) -> None:
        """Refuse to go on from a model whose edits would be lost in silence."""
        if getattr(self, "edits_", None):  # there are none before the first fit
            raise ValueError(
                f"{what} goes on from what was learned of the rows, and this model was edited "
                f"after that: {edits_in_words(self.edits_)}; go on with the model before its edits "
                "and edit the result"
            )


def edits_in_words(edits: Sequence[Edit]) -> str:
    """The edits, each by its term and where it is."""
    said = ", ".join(f"{edit['term']} ({edit['where']})" for edit in edits[:MOST_WORDS])
    more = len(edits) - MOST_WORDS
    return f"{said} and {more} more" if more > 0 else said


def _certificate(
    before: Certificate, earlier: Sequence[Edit], edits: Sequence[Edit]
) -> Certificate:
    """The certificate of an edited model: what the fit cost, and that nothing is proved."""
    return replace(
        before,
        converged=False,
        primal=None,
        dual=None,
        relative_gap=None,
        objective=None,
        tolerance=None,
        criterion=f"none: edited after the fit: {edits_in_words(edits)}",
        reason=before.reason if earlier else f"before that {in_words(before)}",
    )


def _change(
    asked: Asked, w: np.ndarray, name: str, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """(K, n) the change of the coefficients, and (m, K) the values before it."""
    phi = asked.phi
    now = phi @ w.T
    wanted = asked.values - now
    met = (phi != 0).any(axis=0)
    change = np.zeros_like(w)
    change[:, met] = np.linalg.lstsq(phi[:, met], wanted, rcond=CUT)[0].T
    error = float(np.abs(phi @ change.T - wanted).max())
    most = float(np.abs(wanted).max())
    if error > tolerance * most + ROUNDING * float(np.abs(asked.values).max()):
        raise ValueError(
            f"the curve of {name!r} cannot have these values: at one of {len(phi)} points asked it "
            f"is {error:.3g} off, which is {error / max(most, 1e-300):.2g} of the largest change "
            f"and more than tolerance={tolerance:g}; ask for values at its breakpoints "
            "(knots_), or raise tolerance"
        )
    return change, now


def _wanted(values: npt.ArrayLike, m: int, K: int) -> np.ndarray:
    """(m, K) the values wanted at m points."""
    given = np.asarray(values, np.float64)
    shape = (m,) if K == 1 else (m, K)
    if given.shape not in ((), shape):
        raise ValueError(
            f"values have the shape {given.shape}; give one number, or an array of shape {shape}"
        )
    if not np.isfinite(given).all():
        raise ValueError("values hold NaN or infinity; a curve has finite values")
    return np.broadcast_to(given, shape).reshape(m, K)


def _on_curve(
    x: np.ndarray, values: np.ndarray, knots: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """The points that are asked of a curve of numbers, and the (m, K) values wanted there.

    Those given, the breakpoints between them, and as many between two of these as determine a
    spline of this degree.  Missing values come last.
    """
    gone = np.isnan(x)
    order = np.argsort(x[~gone], kind="stable")
    there, own = x[~gone][order], values[~gone][order]
    if not len(there):
        return x, values
    ends = np.clip(there[[0, -1]], knots[0], knots[-1])
    between = knots[(knots > ends[0]) & (knots < ends[1])]
    cuts = np.union1d(np.clip(there, *ends), between)
    steps = np.arange(degree) / degree
    gaps = (cuts[:-1, None] + np.diff(cuts)[:, None] * steps).ravel()
    points = np.append(gaps, cuts[-1])
    wanted = np.column_stack([np.interp(points, there, column) for column in own.T])
    beyond = (there < knots[0]) | (there > knots[-1])  # where the curve is what it is at its end
    return (
        np.concatenate([points, there[beyond], x[gone]]),
        np.concatenate([wanted, own[beyond], values[gone]]),
    )


def _among(every: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Whether each value, or NaN, is one of some."""
    return np.isin(every, some) | (np.isnan(every) & np.isnan(some).any())


def _is_none(value: object) -> bool:
    """Whether a value stands for what is missing."""
    return value is None or value != value


def _key(value: object) -> object:
    """A value that equals itself, NaN too."""
    return None if _is_none(value) else value
