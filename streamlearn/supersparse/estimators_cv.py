"""Super-sparse machines that choose their number of prototypes by errors on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from ..data.source import Chunk, Source, subjects_of_many
from ..passes.fold import Fold
from ..passes.sums import add_sums
from ..solvers.splits import split_of_content
from .estimators import SuperSparseClassifier, SuperSparseRegressor
from .prototypes import Problem, targets
from .search import Outcome, Recording
from .selection import SelectedPrototypes
from .similarity import Neighbours, SimilarityParameter, block_rows, dense_blocks


class SuperSparseRegressorCV(SelectedPrototypes, SuperSparseRegressor):
    """A `SuperSparseRegressor` whose number of prototypes is found by cross-validation.

    All splits and all numbers are searched in the same reads, about as many as one fit takes.  A
    row's split is a hash of its features, so copies of a row stay together; of rows at risk, of the
    number of their subject.

    Parameters
    ----------
    n_prototypes : sequence of int, optional
        The numbers to choose from; default: 1, 2, 5, 10, 20, 32, up to a tenth of the rows.
    cv : int, default=3
        Number of splits.
    tradeoff : float, default=0.0
        Fall of the mean squared error that one more prototype must bring: rho of eq. 8.
    similarity, gamma, degree, coef0, ridge, repulsion, init, neighbours, scaling, \
schedule, n_passes, tol, random_state, encoding
        As in `SuperSparseRegressor`; `init` by name only.

    Attributes
    ----------
    n_prototypes_ : int
        The chosen number.
    curve_ : Curve
        ``n_prototypes`` (M,), ``loss`` (M, cv) on held-out rows, ``objective`` (M,).
    prototypes_, coef_, intercept_, increase_, similarity_, certificate_, history_, n_passes_
        The attributes of a `SuperSparseRegressor` with that number, trained on all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import SuperSparseRegressorCV
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = SuperSparseRegressorCV((1, 3, 5), tradeoff=1e-3).fit(X, np.sin(6 * X[:, 0]))
    >>> model.n_prototypes_
    3
    """

    _parameter_constraints: dict[str, list[object]] = {
        **SuperSparseRegressor._parameter_constraints,
        **SelectedPrototypes._parameter_constraints,
    }

    def __init__(
        self,
        n_prototypes: Sequence[int] | None = None,
        *,
        cv: int = 3,
        tradeoff: float = 0.0,
        similarity: SimilarityParameter = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float | str = "auto",
        repulsion: float = 0.0,
        init: npt.ArrayLike = "rows",
        neighbours: Neighbours | None = None,
        scaling: str = "auto",
        schedule: str = "all",
        n_passes: int = 20,
        tol: float = 1e-3,
        random_state: int = 0,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self._store(locals())


class SuperSparseClassifierCV(SelectedPrototypes, SuperSparseClassifier):
    """A `SuperSparseClassifier` whose number of prototypes is found by cross-validation.

    It is like `SuperSparseRegressorCV`, but its loss is the share of errors; `tradeoff` is the
    share that one more prototype must save.

    Parameters
    ----------
    n_prototypes, cv, tradeoff
        As in `SuperSparseRegressorCV`.
    loss, class_weight, similarity, gamma, degree, coef0, ridge, repulsion, init, neighbours, \
scaling, schedule, n_passes, tol, random_state, encoding
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
    (4, 0.99)
    """

    _parameter_constraints: dict[str, list[object]] = {
        **SuperSparseClassifier._parameter_constraints,
        **SelectedPrototypes._parameter_constraints,
    }

    def __init__(
        self,
        n_prototypes: Sequence[int] | None = None,
        *,
        loss: str = "log_loss",
        cv: int = 3,
        tradeoff: float = 0.0,
        similarity: SimilarityParameter = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float | str = "auto",
        repulsion: float = 0.0,
        init: npt.ArrayLike = "rows",
        neighbours: Neighbours | None = None,
        scaling: str = "auto",
        schedule: str = "all",
        n_passes: int = 20,
        tol: float = 1e-3,
        random_state: int = 0,
        class_weight: object = None,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self._store(locals())

    def _losses(
        self,
        run: Recording,
        dataset: Source | None,
        problem: Problem,
        outcomes: dict[tuple[int, int], Outcome],
        sizes: list[int],
    ) -> np.ndarray:
        """(M, splits) shares of errors on held-out rows, by one more read."""
        points = [
            (split, outcomes[split, m].Z, outcomes[split, m].theta)
            for m in sizes
            for split in range(self.cv)
        ]
        counts = run.fold(
            errors_fold(problem, points, self.cv, self.random_state), dataset, name="errors"
        )
        shares: np.ndarray = counts[:, 0] / np.where(counts[:, 1] > 0, counts[:, 1], np.nan)
        return shares.reshape(len(sizes), self.cv)


def errors_fold(
    problem: Problem,
    points: Sequence[tuple[int, np.ndarray, np.ndarray]],
    n_splits: int,
    seed: int,
) -> Fold[np.ndarray, np.ndarray]:
    """Fold of the weights of errors on held-out rows, and of those rows: (len(points), 2).

    A point is (split, prototypes, theta).  A state takes 16 bytes for each point.
    """
    return Fold(
        partial(np.zeros, (len(points), 2)),
        partial(_count_errors, problem, tuple(points), n_splits, seed),
        add_sums,
    )


def _count_errors(
    problem: Problem,
    points: Sequence[tuple[int, np.ndarray, np.ndarray]],
    n_splits: int,
    seed: int,
    sums: np.ndarray,
    chunk: Chunk,
) -> np.ndarray:
    if not chunk.n_rows:
        return sums
    Y = targets(problem, chunk.target)
    subjects = subjects_of_many(chunk, problem.siblings)
    size = block_rows(chunk.X.shape[1], max(len(Z) for _, Z, _ in points))
    for rows, buffer in dense_blocks(chunk.X, size, problem.scale):
        B = buffer[: rows.stop - rows.start]
        u = np.ones(len(B)) if chunk.weight is None else chunk.weight[rows]
        own = None if subjects is None else subjects[rows]
        of_rows = split_of_content(B, n_splits, seed, own)
        for k, (split, Z, theta) in enumerate(points):
            apart = of_rows == split
            F = problem.similarity.values(B[apart], Z) @ theta[:-1] + theta[-1]
            y = Y[rows][apart]
            wrong = (F > 0) != (y > 0) if F.shape[1] == 1 else F.argmax(1) != y.argmax(1)
            sums[k] += u[apart] @ wrong.reshape(-1), u[apart].sum()
    return sums
