"""Super-sparse machines that choose their number of prototypes by errors on rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..data.source import Chunk
from ..passes.fold import Fold
from ..passes.sums import add_sums
from ..solvers.splits import split_of_content
from .estimators import SuperSparseClassifier, SuperSparseRegressor
from .prototypes import Problem, targets
from .selection import SelectedPrototypes
from .similarity import block_rows, dense_blocks


class SuperSparseRegressorCV(SelectedPrototypes, SuperSparseRegressor):
    """A `SuperSparseRegressor` whose number of prototypes is found by cross-validation.

    All splits and all numbers are searched in the same reads, about as many as one fit takes.  A
    row's split is a hash of its features, so copies of a row stay together.

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
    >>> model.n_prototypes_, round(model.score(X, y), 2)
    (4, 1.0)
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

    def _losses(self, run, dataset, problem, outcomes, sizes) -> np.ndarray:
        """(M, splits) shares of errors on the rows held out: one read more."""
        points = [
            (split, outcomes[split, m].Z, outcomes[split, m].theta)
            for m in sizes
            for split in range(self.cv)
        ]
        counts = run.fold(
            errors_fold(problem, points, self.cv, self.random_state), dataset, name="errors"
        )
        shares = counts[:, 0] / np.where(counts[:, 1] > 0, counts[:, 1], np.nan)
        return shares.reshape(len(sizes), self.cv)


def errors_fold(
    problem: Problem,
    points: Sequence[tuple[int, np.ndarray, np.ndarray]],
    n_splits: int,
    seed: int,
) -> Fold[np.ndarray, np.ndarray]:
    """Fold: (len(points), 2) weight of the errors on the rows held out, and of those rows.

    A point is (split, prototypes, theta).  State 16 bytes a point.
    """
    return Fold(
        partial(np.zeros, (len(points), 2)),
        partial(_count_errors, problem, tuple(points), n_splits, seed),
        add_sums,
    )


def _count_errors(
    problem: Problem, points: tuple, n_splits: int, seed: int, sums: np.ndarray, chunk: Chunk
) -> np.ndarray:
    if not chunk.n_rows:
        return sums
    Y = targets(problem, chunk.y)
    size = block_rows(chunk.X.shape[1], max(len(Z) for _, Z, _ in points))
    for rows, buffer in dense_blocks(chunk.X, size):
        B = buffer[: rows.stop - rows.start]
        u = np.ones(len(B)) if chunk.weight is None else chunk.weight[rows]
        of_rows = split_of_content(B, n_splits, seed)
        for k, (split, Z, theta) in enumerate(points):
            apart = of_rows == split
            F = problem.similarity.values(B[apart], Z) @ theta[:-1] + theta[-1]
            y = Y[rows][apart]
            wrong = (F > 0) != (y > 0) if F.shape[1] == 1 else F.argmax(1) != y.argmax(1)
            sums[k] += u[apart] @ wrong.reshape(-1), u[apart].sum()
    return sums
