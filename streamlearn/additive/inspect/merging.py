"""Models fitted to parts of the rows as one model of all of them, without a read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...engine.plan import Plan
from ...estimator.certificate import Certificate
from ...estimator.rows.encoding import feature_names, with_target_means
from ...numeric.bases.means import Pieces, mean_sizes
from ...numeric.bases.roughness import make_reference, make_roughness, reference_at_zero
from ...numeric.checks import check_array, check_number, check_records
from ...numeric.links import LOG
from ...numeric.losses import LOSS_PARAMETERS
from ...passes.summary.summary import Summary
from ..objective import Problem
from ..smooth.merging import Part, merge_parts
from ..smooth.penalties import Penalties, make_penalties
from .densities import Densities, join_densities, pieces_of
from .editing import Editable, edits_in_words
from .terms import AdditiveState

NO_SAY = {
    "solver", "tol", "max_passes", "warm_start", "covariance", "random_state",
    "n_bases", "knots", "max_levels", "loss", *LOSS_PARAMETERS,
}  # fmt: skip
"""Parameters that may differ between the parts: they lead to the optimum, or to the bases and the
loss, which are compared themselves."""

Merged = dict[str, float]
"""Record of one fit, by plain values that a file can hold."""


class Mergeable(Editable):
    """A mixin: a trained model that can be joined with models of other rows."""

    penalty_order: int
    penalty_scale: str
    intercept_scaling: float
    select: bool
    early_stopping: bool
    merged_: list[Merged]
    plan_: Plan
    n_passes_: int
    history_: list[dict[str, object]]
    get_params: Callable[..., dict[str, object]]
    _mean_of_targets: float | None = None
    """The mean of the targets, which the intercept's penalty leaves out; under the log link its
    logarithm; 0 of classes.  None: the model comes from an older file."""
    _row_weight: float | None = None
    """The sum of the rows' weights.  None: the model comes from an older file."""

    def _keep(self, problem: Problem, theta: np.ndarray, means: np.ndarray) -> None:
        super()._keep(problem, theta, means)
        self._mean_of_targets, self.merged_ = float(problem.target_mean), []

    def _keep_distribution(self, summary: Summary) -> None:
        super()._keep_distribution(summary)
        self._row_weight = float(summary.total_weight)

    def _state(self) -> dict[str, object]:
        return super()._state() | {
            "merged": self.merged_,
            "target_mean": self._mean_of_targets,
            "total_weight": self._row_weight,
        }

    def _restore(self, tree: AdditiveState) -> None:
        super()._restore(tree)
        merged, mean, weight = (
            tree.get("merged", []),
            tree.get("target_mean"),
            tree.get("total_weight"),
        )
        check_records("merged", merged, dict)
        if mean is not None:
            check_array("target_mean", np.array(mean), ())
        if weight is not None:
            check_number("total_weight", weight, 0.0)
        self.merged_ = list(merged)
        self._mean_of_targets, self._row_weight = mean, weight

    def merge(self, *others: Self) -> Self:
        """Join with models of other rows into one model of all rows; no read.

            theta = (sum_p H_p + S)^-1 sum_p (H_p + S_p) theta_p

        H_p is the curvature of part p's losses at its optimum theta_p and S_p its penalty, which
        the covariance of its coefficients holds: each part counts by its information.  For the
        squared error the result is the fit to all rows, with its covariance, and with `smoothness`
        the smoothness is chosen anew for the sum.  Other losses leave an error that goes as one
        over the rows of the parts, and so falls below the standard errors: of the log-loss on
        halves of 4,000 rows an eighth of one, of 64,000 a thirtieth (root mean squares of one
        table).  The parts' `tol` is in it too.

        The models are of other rows of the same table: of the same columns, levels, classes, loss
        and penalty, and on the same breakpoints.  Parts get the breakpoints of the first one by
        ``warm_start=True``, from a copy of it or from its file; what differs is refused by name.
        Each knows its covariance: ``covariance=True``, or `smoothness`.  Shapes, pairs,
        calibration, ``class_weight="balanced"`` and early stopping cannot be joined.

        Nothing is proved of the result: its `certificate_` says that it was merged, what the fits
        cost together, and `history_` is empty.  Means and densities are those of all rows, by
        weight, as the parts knew them; importances follow from them to a few percent.  A fit to all
        rows with ``warm_start=True`` begins at it and proves it, or what it lacked.

        Parameters
        ----------
        *others : fitted models of the same kind
            Merged ones too; not edited ones.

        Returns
        -------
        model of the same kind
            A copy; its `merged_` has a dict for each of the fits that were joined: "rows" (by
            weight) and "relative_gap" of its certificate.

        Examples
        --------
        >>> import numpy as np
        >>> from copy import deepcopy
        >>> from streamlearn import AdditiveRegressor
        >>> X = np.random.default_rng(0).random((600, 2))
        >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
        >>> how = dict(C=10, covariance=True, warm_start=True)
        >>> first = AdditiveRegressor(**how).fit(X[:400], y[:400])
        >>> second = deepcopy(first).fit(X[400:], y[400:])
        >>> merged = first.merge(second)
        >>> of_all = deepcopy(first).fit(X, y)
        >>> bool(abs(merged.predict(X) - of_all.predict(X)).max() < 1e-3)
        True
        >>> [part["rows"] for part in merged.merged_]
        [400.0, 200.0]
        """
        if not others:
            raise ValueError("merge() got no other model; name one or more, first.merge(second)")
        parts: list[Mergeable] = [self, *others]
        for n, part in enumerate(parts):
            _check_part(part, n)
        is_sparse = [_of_sparse_rows(part) for part in parts]
        for n, (part, sparse) in enumerate(zip(parts[1:], is_sparse[1:], strict=True)):
            _check_alike(self, part, n + 1)
            if sparse != is_sparse[0]:
                raise ValueError(
                    f"model {n + 1} was fitted to {'sparse' if sparse else 'dense'} rows, model 0 "
                    "was not; fit all parts to rows of one kind"
                )
        rows = np.array([part._row_weight for part in parts])
        shares = rows / rows.sum()
        problem = self._joined_problem(parts, shares, is_sparse[0])
        means = sum(a * part._means for a, part in zip(shares, parts, strict=True))
        fits = [
            Part(
                part.coef_,
                part.intercept_ - part._shifts.sum(axis=1),
                part._posterior,
                float(part._mean_of_targets or 0.0),
            )
            for part in parts
        ]
        penalties = self._penalties(problem)
        theta, posterior = merge_parts(fits, problem, penalties, self._criterion, means)
        merged = copy(self)
        merged._keep(problem, theta, means)
        merged._posterior, merged._row_weight = posterior, float(rows.sum())
        merged._keep_densities(parts, shares)
        merged.merged_ = [record for part in parts for record in part._records()]
        merged.certificate_ = _certificate(parts, len(merged.merged_))
        merged.history_, merged.n_passes_ = [], merged.certificate_.n_passes
        merged.plan_ = replace(self.plan_, n_rows=sum(part.plan_.n_rows for part in parts))
        return merged

    def _joined_problem(
        self, parts: Sequence[Mergeable], shares: np.ndarray, is_sparse: bool
    ) -> Problem:
        """The problem of all rows, by the shares of them that each part had."""
        references = [part._posterior.reference for part in parts]
        c = (
            references[0]
            if is_sparse
            else sum(a * r for a, r in zip(shares, references, strict=True))
        )
        roughness = make_roughness(
            self.bases_, self.penalty_order, self.penalty_scale, c if is_sparse else None
        )
        t = np.array([part._mean_of_targets for part in parts])
        mean = np.log(shares @ np.exp(t)) if self._loss.link is LOG else shares @ t
        return Problem(
            self.bases_,
            roughness,
            make_reference(roughness, c),
            self._loss,
            self._weight,
            float(self.intercept_scaling),
            len(self.coef_),
            float(mean),
            single=False,
        )

    def _penalties(self, problem: Problem) -> Penalties:
        """The penalties as the posteriors of the fits weigh them, in the units of the losses."""
        order, scale, select = self.penalty_order, self.penalty_scale, self.select
        if self._criterion is None:  # the penalty of one C is whole
            order, scale, select = 1, "paper", False
        intercept = 1.0 / (self._weight * problem.intercept_scaling**2)
        return make_penalties(problem.bases, problem.roughness, order, scale, intercept, select)

    def _keep_densities(self, parts: Sequence[Mergeable], shares: np.ndarray) -> None:
        """Set where the rows of all parts lie, and the sizes of the terms there."""
        by_part = [part.densities_ for part in parts]
        columns = [
            join_densities(own, shares, knots)
            for *own, knots in zip(*by_part, self.knots_, strict=True)
        ]
        self._densities = Densities.of(columns)
        # bars know the size of a curve but roughly where many rows have one value: they are held
        # against the parts' own curves, whose sizes are known
        told = sum(a * part._sizes_by_density() for a, part in zip(shares, parts, strict=True))
        known = sum(a * part._importances for a, part in zip(shares, parts, strict=True))
        ratio = np.divide(known, told, out=np.ones_like(self._importances), where=told > 0)
        self._importances = ratio * self._sizes_by_density()

    def _sizes_by_density(self) -> np.ndarray:
        """(p,) mean size of each term over the density of its column."""
        pieces = Pieces.of([pieces_of(density) for density in self.densities_])
        return mean_sizes(self.bases_, [pieces], self.coef_, self._shifts)

    def _records(self) -> list[Merged]:
        """The records of the fits that the model is made of."""
        if self.merged_:
            return self.merged_
        gap, rows = self.certificate_.relative_gap, self._row_weight
        assert gap is not None  # it converged, and was not edited
        assert rows is not None
        return [{"rows": rows, "relative_gap": gap}]


def _check_part(part: Mergeable, n: int) -> None:
    """Refuse a model whose fit does not say what a sum needs."""
    check_is_fitted(part)
    name = f"model {n}"
    for parameter, is_set, why in (
        ("calibration", getattr(part, "calibration", None) is not None,
         "is of decisions before they were joined; leave it out, and calibrate the merged model"),
        ("early_stopping", part.early_stopping, "ends before the optimum; leave it out"),
        ("class_weight", isinstance(getattr(part, "class_weight", None), str),
         "weighs the classes by the counts of its own rows; give a dict of the weights"),
    ):  # fmt: skip
        if is_set:
            raise ValueError(f"{name} has {parameter}={getattr(part, parameter)!r}, which {why}")
    if part.edits_:
        raise ValueError(
            f"{name} was edited after the fit: {edits_in_words(part.edits_)}; merge the models "
            "before their edits and edit the result"
        )
    if part.bases_.pairs is not None:
        raise ValueError(
            f"{name} has {len(part.bases_.pairs)} interactions, from which each fit took what is "
            "of single columns by its own rows; fit the parts with interactions=0"
        )
    if vars(part).get("_posterior") is None or vars(part).get("_stream") is not None:
        raise ValueError(
            f"{name} does not know the covariance of its coefficients, which weighs the parts; "
            "fit it with covariance=True or smoothness='reml'"
        )
    if part._mean_of_targets is None or part._row_weight is None or part._means is None:
        raise ValueError(
            f"{name} comes from the file of an older version, which does not hold the mean of its "
            "targets; fit it again"
        )
    if not (part.certificate_.converged or part.merged_):
        raise ValueError(
            f"{name} stopped short of its optimum ({part.certificate_.reason}); raise max_passes "
            "or tol and fit it again"
        )


def _check_alike(first: Mergeable, part: Mergeable, n: int) -> None:
    """Refuse a model that is no fit of the same problem to other rows."""
    if type(part) is not type(first):
        raise ValueError(
            f"model {n} is a {type(part).__name__}, model 0 a {type(first).__name__}; merge models "
            "of one kind"
        )
    for n_of, model in ((0, first), (n, part)):
        if names := with_target_means(model):
            raise ValueError(
                f"column {names[0]!r} of model {n_of} is encoded by means of the targets of its "
                "own rows, so its terms are of other features in every part; fit the parts with "
                f"encoding={{{names[0]!r}: 'levels'}}"
            )
    for what, of in (
        ("columns", feature_names),
        ("classes", lambda model: np.asarray(getattr(model, "classes_", ())).tolist()),
        ("levels", lambda model: model.levels_),
        ("loss", lambda model: model._loss),
        ("criterion of the smoothness", lambda model: model._criterion),
    ):
        one, other = of(first), of(part)
        if one != other:
            raise ValueError(
                f"the {what} of model {n}: {_short(other)}, of model 0: {_short(one)}; merge fits "
                "of the same problem to parts of the rows"
            )
    one, other = first.get_params(deep=False), part.get_params(deep=False)
    for name in sorted(one.keys() - NO_SAY):
        if one[name] != other[name]:
            raise ValueError(
                f"{name}={other[name]!r} in model {n}, {one[name]!r} in model "
                "0; merge fits of the same problem to parts of the rows"
            )
    if not _same(first.bases_, part.bases_):
        names = feature_names(first)
        others = [
            names[d]
            for d, (a, b) in enumerate(zip(first.knots_, part.knots_, strict=True))
            if not np.array_equal(a, b) or first.bases_.has_missing[d] != part.bases_.has_missing[d]
        ]
        raise ValueError(
            f"model {n} has other breakpoints than model 0 in {others[:5]}; fit it with "
            "warm_start=True from a copy of model 0, or from its file: deepcopy(first).fit(X, y)"
        )


def _same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether the fields of two records are equal."""
    pairs = zip(one, other, strict=True)
    return all(
        np.array_equal(a, b)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        else bool(a == b)
        for a, b in pairs
    )


def _short(value: object) -> str:
    return repr(value[:10] if isinstance(value, list) else value)


def _of_sparse_rows(part: Mergeable) -> bool:
    """Whether the fit was to sparse rows, whose functions are less their values at 0."""
    return np.array_equal(part._posterior.reference, reference_at_zero(part.bases_))


def _certificate(parts: Sequence[Mergeable], n_fits: int) -> Certificate:
    """The certificate of a merged model: what the fits cost, and that nothing is proved."""
    own = [part.certificate_ for part in parts]
    largest = max(own, key=lambda one: one.peak_memory_bytes - one.memory_before_bytes)
    exact = parts[0]._loss.quadratic
    return Certificate(
        converged=False,
        criterion=f"none: merged from {n_fits} fits to parts of the rows",
        solver="merge",
        reason="the losses of all parts by their curvature at their optima, "
        + ("exact for the squared error" if exact else "to second order"),
        n_passes=sum(one.n_passes for one in own),
        rows_read=sum(one.rows_read for one in own),
        bytes_read=sum(one.bytes_read for one in own),
        seconds=sum(one.seconds for one in own),
        peak_memory_bytes=largest.peak_memory_bytes,
        memory_before_bytes=largest.memory_before_bytes,
    )
