"""How many prototypes: eq. 8 of Biggio 2015, by cross-validation with all folds in the same reads.

    m* = argmin_m  L(m) + tradeoff m,   L the mean loss over the folds' held-out rows

For each fold, and for all rows, prototypes are sought for the largest m, then taken away one at a
time, each time the one whose loss raises the objective least (exact for the others' places), and
moved again: the paper's descent by warm starts.  That happens on the sample; what the reads refine
and measure is all folds and all m at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..data.order import derive_seed
from ..data.source import Chunk
from ..passes.fold import Fold
from .descent import descend, warm_start
from .equations import error_of, removal_order
from .estimators import SuperSparseClassifier, SuperSparseRegressor
from .prototypes import Candidate, Problem, candidates_fold, fold_of, targets
from .rows import block_rows, dense_blocks
from .sample import SampleObjective
from .search import RADII, Outcome, Point, drive, refine
from .start import first_prototypes

MOST_PROTOTYPES, ROWS_PER_PROTOTYPE = 32, 10
"""What is tried if nothing is said."""
FOLDS = 0x70726F746F
"""Makes the folds' seed unrelated to those of splits."""


class Curve(NamedTuple):
    """Loss against the number of prototypes."""

    n_prototypes: np.ndarray
    """(M,) ascending."""
    loss: np.ndarray
    """(M, folds) on the rows held out: mean squared error, or the share of errors."""
    objective: np.ndarray
    """(M,) Omega on all rows."""


class SelectedPrototypes:
    """A mixin: the number of prototypes by cross-validation."""

    _parameter_constraints: dict[str, list[Any]] = {
        "n_prototypes": ["array-like", None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "tradeoff": [Interval(Real, 0, None, closed="left")],
        "n_passes": [Interval(Integral, 4, None, closed="left")],
        "init": [StrOptions({"k-means", "rows"})],
    }

    def _sizes(self, n_rows: int) -> list[int]:
        """The numbers of prototypes to try, ascending."""
        if self.n_prototypes is None:
            most = min(MOST_PROTOTYPES, max(n_rows // ROWS_PER_PROTOTYPE, 1))
            return [m for m in (1, 2, 4, 8, 16, 32) if m <= most]
        sizes = np.asarray(self.n_prototypes)
        if sizes.ndim != 1 or not len(sizes) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
            raise ValueError(
                f"n_prototypes={self.n_prototypes!r}; expected numbers of prototypes to choose "
                "from, for example (2, 5, 10, 20), or None"
            )
        return sorted(set(sizes.tolist()))

    def _most_prototypes(self) -> int:
        return max(self._sizes(MOST_PROTOTYPES * ROWS_PER_PROTOTYPE))

    def _candidate_sizes(self) -> list[int]:
        return self._sizes(MOST_PROTOTYPES * ROWS_PER_PROTOTYPE) * (len(RADII) * (self.cv + 1))

    def _search(self, run, dataset, rows, whole, validation) -> Outcome:
        sizes = self._sizes(rows.n_rows)
        seed = derive_seed(self.random_state, FOLDS)
        folds = fold_of(rows.X, self.cv, seed)
        jobs, trails, searches = [], [], []
        for fold in [*range(self.cv), -1]:
            part = rows if fold < 0 else rows.part(folds != fold)
            check_fold(part, sizes[-1], self.cv, rows.n_rows)
            for m, Z in descent(part, sizes, self):
                trail: list[Point] = []
                jobs.append((fold, m))
                trails.append(trail)
                searches.append(
                    refine(
                        part,
                        Z,
                        whole=whole,
                        tol=self.tol,
                        max_reads=self.n_passes - 2,
                        trail=trail,
                        held_out=fold,
                    )
                )

        def read(candidates: list[Candidate], n: int) -> Any:
            fold = candidates_fold(rows.problem, candidates, self.cv, seed)
            return run.fold(fold, dataset, name=f"prototypes-{n}")

        outcomes = dict(zip(jobs, drive(read, searches), strict=True))
        loss = self._losses(run, dataset, rows.problem, outcomes, sizes, seed)
        objective = np.array([outcomes[-1, m].objective for m in sizes])
        self.curve_ = Curve(np.array(sizes), loss, objective)
        for k, m in enumerate(sizes):
            run.record(
                n_prototypes=m, loss=float(np.nanmean(loss[k])), objective=float(objective[k])
            )
        # of equal ones the smallest
        best = int(np.argmin(np.nanmean(loss, axis=1) + self.tradeoff * np.array(sizes)))
        self.n_prototypes_ = sizes[best]
        chosen = outcomes[-1, self.n_prototypes_]
        if validation is not None:
            (found,) = run.fold(
                candidates_fold(rows.problem, [Candidate(chosen.Z)]), validation, name="validation"
            )
            run.record(validation_loss=error_of(found.equations, chosen.theta))
        return chosen

    def _losses(self, run, dataset, problem, outcomes, sizes, seed) -> np.ndarray:
        """(M, folds) from the equations of the rows held out, which the reads have summed up."""
        return np.array(
            [
                [
                    error_of(outcomes[fold, m].held_out, outcomes[fold, m].theta)
                    for fold in range(self.cv)
                ]
                for m in sizes
            ]
        )

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "curve": self.curve_, "n_prototypes": self.n_prototypes_}

    def _restore(self, tree: dict[str, Any]) -> None:
        super()._restore(tree)
        self.curve_, self.n_prototypes_ = tree["curve"], tree["n_prototypes"]


def descent(
    sample: SampleObjective, sizes: Sequence[int], model: Any
) -> list[tuple[int, np.ndarray]]:
    """(m, prototypes) for each size, largest first, each begun where the last one ended."""
    generator = np.random.Generator(np.random.Philox(key=model.random_state))
    tol, ridge = 1e-3 * model.tol, sample.problem.ridge
    Z = first_prototypes(sample, max(sizes), model.init, generator)
    Z = warm_start(sample, Z, repulsion=model.repulsion, tol=tol, generator=generator)
    out = []
    for m in sorted(sizes, reverse=True):
        if m < len(Z):
            Z = Z[removal_order(sample.equations(Z), ridge, m)]
            Z, _ = descend(sample, Z, tol=tol)
        out.append((m, Z))
    return out


def check_fold(part: SampleObjective, m: int, cv: int, n_rows: int) -> None:
    """Refuse more prototypes than a fold's training rows."""
    if m > part.n_rows:
        raise ValueError(
            f"n_prototypes up to {m} but of n_samples={n_rows} a fold of cv={cv} leaves "
            f"{part.n_rows} to train on; use fewer prototypes or folds"
        )


def errors_fold(
    problem: Problem,
    points: Sequence[tuple[int, np.ndarray, np.ndarray]],
    n_folds: int,
    seed: int,
) -> Fold[np.ndarray, np.ndarray]:
    """Fold: (len(points), 2) weight of the errors on the rows held out, and of those rows.

    A point is (fold, prototypes, theta).  State 16 bytes a point.
    """
    return Fold(
        partial(np.zeros, (len(points), 2)),
        partial(_count_errors, problem, tuple(points), n_folds, seed),
        np.add,
    )


def _count_errors(
    problem: Problem, points: tuple, n_folds: int, seed: int, sums: np.ndarray, chunk: Chunk
) -> np.ndarray:
    if not chunk.n_rows:
        return sums
    Y = targets(problem, chunk.y)
    size = block_rows(chunk.X.shape[1], max(len(Z) for _, Z, _ in points))
    for rows, buffer in dense_blocks(chunk.X, size):
        B = buffer[: rows.stop - rows.start]
        u = np.ones(len(B)) if chunk.weight is None else chunk.weight[rows]
        folds = fold_of(B, n_folds, seed)
        for k, (fold, Z, theta) in enumerate(points):
            apart = folds == fold
            F = problem.similarity.values(B[apart], Z) @ theta[:-1] + theta[-1]
            y = Y[rows][apart]
            wrong = (F > 0) != (y > 0) if F.shape[1] == 1 else F.argmax(1) != y.argmax(1)
            sums[k] += u[apart] @ wrong.reshape(-1), u[apart].sum()
    return sums


class SuperSparseRegressorCV(SelectedPrototypes, SuperSparseRegressor):
    """A `SuperSparseRegressor` whose number of prototypes is found by cross-validation.

    All folds and all numbers are searched in the same reads, about as many as one fit takes.  A
    row's fold is a hash of its features, so copies of a row stay together.

    Parameters
    ----------
    n_prototypes : sequence of int, optional
        The numbers to choose from; default 1, 2, 4, ... up to 32, or a tenth of the rows.
    cv : int, default=3
        Folds.
    tradeoff : float, default=0.0
        What one prototype more must lower the mean squared error by: rho of eq. 8.
    similarity, gamma, degree, coef0, ridge, repulsion, init, neighbours, schedule, n_passes, \
tol, random_state
        As in `SuperSparseRegressor`; `init` by name only.

    Attributes
    ----------
    n_prototypes_ : int
        The number chosen.
    curve_ : Curve
        ``n_prototypes`` (M,), ``loss`` (M, cv) on the rows held out, ``objective`` (M,).
    prototypes_, coef_, intercept_, increase_, similarity_, certificate_, history_, n_passes_
        Of the model with that number, trained on all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import SuperSparseRegressorCV
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = SuperSparseRegressorCV((1, 3, 5), tradeoff=1e-3).fit(X, np.sin(6 * X[:, 0]))
    >>> model.n_prototypes_
    3
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **SuperSparseRegressor._parameter_constraints,
        **SelectedPrototypes._parameter_constraints,
    }

    def __init__(
        self,
        n_prototypes=None,
        *,
        cv=3,
        tradeoff=0.0,
        similarity="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        ridge=1e-6,
        repulsion=0.0,
        init="rows",
        neighbours=None,
        schedule="all",
        n_passes=20,
        tol=1e-3,
        random_state=0,
    ):
        self.cv = cv
        self.tradeoff = tradeoff
        super().__init__(
            n_prototypes,
            similarity=similarity,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            ridge=ridge,
            repulsion=repulsion,
            init=init,
            neighbours=neighbours,
            schedule=schedule,
            n_passes=n_passes,
            tol=tol,
            random_state=random_state,
        )


class SuperSparseClassifierCV(SelectedPrototypes, SuperSparseClassifier):
    """A `SuperSparseClassifier` whose number of prototypes is found by cross-validation.

    As `SuperSparseRegressorCV`, with the share of errors for the loss: `tradeoff` is the share that
    one prototype more must save.

    Parameters
    ----------
    n_prototypes, cv, tradeoff
        As in `SuperSparseRegressorCV`.
    loss, similarity, gamma, degree, coef0, ridge, repulsion, init, neighbours, schedule, \
n_passes, tol, random_state
        As in `SuperSparseClassifier`; `init` by name only.

    Attributes
    ----------
    n_prototypes_, curve_, prototypes_, coef_, intercept_, increase_, similarity_, classes_, \
certificate_, history_, n_passes_
        As in `SuperSparseRegressorCV` and `SuperSparseClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from streamlearn import SuperSparseClassifierCV
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = SuperSparseClassifierCV((2, 4, 8), tradeoff=1e-3).fit(X, y)
    >>> model.n_prototypes_ in (4, 8), model.score(X, y) > 0.98
    (True, True)
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **SuperSparseClassifier._parameter_constraints,
        **SelectedPrototypes._parameter_constraints,
    }

    def __init__(
        self,
        n_prototypes=None,
        *,
        loss="log_loss",
        cv=3,
        tradeoff=0.0,
        similarity="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        ridge=1e-6,
        repulsion=0.0,
        init="rows",
        neighbours=None,
        schedule="all",
        n_passes=20,
        tol=1e-3,
        random_state=0,
    ):
        self.cv = cv
        self.tradeoff = tradeoff
        super().__init__(
            n_prototypes,
            loss=loss,
            similarity=similarity,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            ridge=ridge,
            repulsion=repulsion,
            init=init,
            neighbours=neighbours,
            schedule=schedule,
            n_passes=n_passes,
            tol=tol,
            random_state=random_state,
        )

    def _losses(self, run, dataset, problem, outcomes, sizes, seed) -> np.ndarray:
        """(M, folds) shares of errors on the rows held out: one read more."""
        points = [
            (fold, outcomes[fold, m].Z, outcomes[fold, m].theta)
            for m in sizes
            for fold in range(self.cv)
        ]
        counts = run.fold(errors_fold(problem, points, self.cv, seed), dataset, name="errors")
        shares = counts[:, 0] / np.where(counts[:, 1] > 0, counts[:, 1], np.nan)
        return shares.reshape(len(sizes), self.cv)
