"""The scoring read: how much each candidate promises, from the gradient of the loss (eq. 7).

Let x_r be a feature minus its mean, because the intercept moves along, and G_r = sum_i R_i x_ir
with the residuals R of `objective`.  A step along it lowers

    L by at least |G_r|_1^2 / (2 c_r),        c_r = var x_r and what penalties add

(`Penalty.curvature`).  This is twice what the paper proves, because the Hessian of a log-sum-exp is
a covariance, which is at most |v|_inf^2.  So the scale-free rule selects the largest
z_r = |G_r|_1 / sqrt(c_r), where the paper selects the largest |G_r|_1.

When R changes, every z_r changes by at most delta = sqrt(sum_i share_i |rho_i' - rho_i|_1^2)
(Cauchy-Schwarz), so columns that cannot have become the best are not read again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from ...data.source import Chunk, Csr
from ...numeric.huge_pages import zeros
from ...passes.fold import Fold, RowState
from ...passes.sums import add_sums
from ..reads import Reader
from .candidates import Choice, SingleColumns
from .kernels_sparse import NUMBERS, add_sparse_gradient

TILE = 1024
"""Columns multiplied or written at a time: bits do not depend on the number read at once."""
FULL_READ = 0.5
"""Share of the bytes of a full read from which on all columns are read."""
FLAT = 1e-12
"""Variance divided by mean square, below which a column is constant but for rounding."""

State = dict[str, np.ndarray]
Step = tuple[int, np.ndarray, float]
"""Number of a feature within a candidate, step (K,) of its coefficients, and its mean."""
Bound: TypeAlias = "Callable[[np.ndarray], np.ndarray]"
"""`Penalty.curvature` of features, from their variances."""
Gradient: TypeAlias = "tuple[np.ndarray | slice, np.ndarray, np.ndarray]"
"""Numbers of the features that were read, their G (K, n), and the sum of R (K,)."""


class Shortlist(NamedTuple):
    """The best candidates, beginning with the best."""

    choices: list[Choice]
    scores: np.ndarray
    gains: np.ndarray
    """Least decrease of the objective by each alone."""
    steps: list[Step]
    """Step of each that has that gain."""
    variances: list[np.ndarray]
    """(width,) variances of the features of each."""
    largest: float
    """Upper bound of |G_r|_1 of all candidates, for the certificate."""


def residual_state(dtype: str, n_classes: int) -> RowState:
    return RowState("residual", dtype, n_classes, writes=False)


def gradient_fold(
    n_columns: int, n_classes: int, state: RowState
) -> Fold[State, tuple[np.ndarray, np.ndarray]]:
    """Fold of G (K, columns), for the columns read, and the sum of R (K,)."""
    return Fold(partial(_start, n_columns, n_classes), _add_gradient, add_sums, _gradient, (state,))


def stride_of(n_classes: int) -> int:
    """Sums from those of one column to those of the next: whole cache lines if an eighth more."""
    whole = -(-n_classes // NUMBERS) * NUMBERS
    return whole if 8 * whole <= 9 * n_classes else n_classes


def _start(n_columns: int, n_classes: int) -> State:
    # a value of a sparse row adds to all classes of its column, which lie beside each other
    return {"G": zeros((n_columns, stride_of(n_classes))), "total": np.zeros(n_classes)}


def _add_gradient(state: State, chunk: Chunk) -> State:
    R = chunk.state["residual"]
    if isinstance(chunk.X, Csr):
        add_sparse_gradient(*chunk.X[:3], R, state["G"])
    else:
        G, _ = _gradient(state)
        for a in range(0, G.shape[1], TILE):
            G[:, a : a + TILE] += R.T @ chunk.X[:, a : a + TILE].astype(R.dtype, copy=False)
    state["total"] += R.sum(axis=0, dtype=np.float64)
    return state


def _gradient(state: State) -> tuple[np.ndarray, np.ndarray]:
    total = state["total"]
    return state["G"].T[: len(total)], total


class ListSearch:
    """Candidates that are listed one by one: columns, groups of them, products of pairs.

    Parameters
    ----------
    gradient : callable
        ``gradient(which)`` reads the `Gradient` of these features, or of all (None).
    choice_of : callable
        ``choice_of(number)`` is the choice of a candidate's number.
    mean, variance : (n,)
        Mean and variance of the features.
    usable : (n,) bool
        Whether a feature can be selected.
    rule, bound
        The estimator's rule, and c above as a function of variances.
    group_of : (n,) int, optional
        Group of each feature; the candidates are then the groups, scored by the sum.
    cost : callable, optional
        ``cost(which)`` is the share of a full read's bytes.  Without it all features are read.
    """

    def __init__(
        self,
        gradient: Callable[[np.ndarray | None], Gradient],
        choice_of: Callable[[int], Choice],
        mean: np.ndarray,
        variance: np.ndarray,
        usable: np.ndarray,
        *,
        rule: str,
        bound: Bound,
        n_classes: int,
        group_of: np.ndarray | None = None,
        cost: Callable[[np.ndarray], float] | None = None,
    ) -> None:
        self._gradient, self._choice_of, self._cost = gradient, choice_of, cost
        self.mean, self.variance, self.usable = mean, variance, usable
        self._denominator = np.where(usable, bound(variance), 1.0)
        self._norm = np.ones_like(mean) if rule == "l1" else np.sqrt(self._denominator)
        self._group_of = group_of
        n = len(mean)
        self.G = np.zeros((n_classes, n))
        self._slack = np.full(n, np.inf)
        self.open = usable.copy()

    @property
    def n_open(self) -> int:
        return len(self._per_candidate(self.open.astype(float)).nonzero()[0])

    def state(self) -> dict[str, np.ndarray]:
        return {"G": self.G, "slack": self._slack, "open": self.open}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.G, self._slack, self.open = state["G"], state["slack"], state["open"]

    def moved(self, delta: float) -> None:
        """The residuals have changed by `delta`."""
        self._slack += delta

    def close(self, choice: Choice) -> None:
        """Never offer this one again."""
        self.open[self._features(self._number(choice))] = False

    def reopen(self, choice: Choice) -> None:
        self.open[self._features(self._number(choice))] = True

    def search(self, n: int) -> Shortlist:
        """The n best, exactly; every column that may be one of them is read."""
        which = self._candidates(n)
        part, G, total = self._gradient(which)
        numbers = np.arange(self.G.shape[1])[part]
        for a in range(0, len(numbers), TILE):  # the classes of a column lie beside each other
            tile = numbers[a : a + TILE]
            self.G[:, tile] = G[:, a : a + TILE] - np.outer(total, self.mean[tile])
        self._slack[part] = 0.0
        l1 = np.abs(self.G).sum(axis=0)
        # those that were not read now are known to be worse than the n best of those that were
        fresh = self.open & (self._slack == 0.0)
        score = np.where(fresh, l1 / self._norm, 0.0)
        total_score = self._per_candidate(score)
        order = np.argsort(-total_score, kind="stable")[:n]
        order = order[total_score[order] > 0]
        upper = np.where(self.usable, l1 + self._slack * np.sqrt(self.variance), 0.0)
        steps, gains, variances = [], [], []
        for number in order:
            inside = self._features(int(number))
            gain = np.where(self.open[inside], l1[inside] ** 2 / (2 * self._denominator[inside]), 0)
            at = int(gain.argmax())
            j = inside[at]
            step = -l1[j] / self._denominator[j] * np.sign(self.G[:, j])
            steps.append((at, step, float(self.mean[j])))
            gains.append(gain[at])
            variances.append(self.variance[inside])
        choices = [self._choice_of(int(number)) for number in order]
        largest = float(upper.max(initial=0.0))
        return Shortlist(choices, total_score[order], np.array(gains), steps, variances, largest)

    def _candidates(self, n: int) -> np.ndarray | None:
        """Features that may be among the n best; None if all are to be read."""
        unknown = not np.isfinite(self._slack[self.open]).all()
        if self._cost is None or unknown or not self.open.any():
            return None
        l1 = np.abs(self.G).sum(axis=0)
        # a little more than the theory requires, because the sums themselves are rounded
        slack = self._slack * np.sqrt(self.variance) * (1 + 1e-5) + 1e-6 * l1
        lower = self._per_candidate(np.where(self.open, (l1 - slack) / self._norm, 0.0))
        upper = self._per_candidate(np.where(self.open, (l1 + slack) / self._norm, 0.0))
        alive = np.flatnonzero(self._per_candidate(self.open.astype(float)))
        if len(alive) <= n:
            return None
        needed = np.partition(lower[alive], len(alive) - n)[len(alive) - n]
        may = upper >= needed
        part = np.flatnonzero(self.open & self._per_feature(may))
        return part if self._cost(part) < FULL_READ else None

    def _per_candidate(self, values: np.ndarray) -> np.ndarray:
        if self._group_of is None:
            return values
        return np.bincount(self._group_of, values)

    def _per_feature(self, values: np.ndarray) -> np.ndarray:
        return values if self._group_of is None else values[self._group_of]

    def _features(self, number: int) -> np.ndarray:
        if self._group_of is None:
            return np.array([number])
        return np.flatnonzero(self._group_of == number)

    def _number(self, choice: Choice) -> int:
        if len(choice) == 1:
            return int(choice[0])
        p = int((1 + (1 + 8 * len(self.mean)) ** 0.5) / 2 + 0.5)
        i, j = map(int, choice)
        return i * p - i * (i + 1) // 2 + j - i - 1


def column_gradient(
    read: Reader, state: RowState, block: int, which: np.ndarray | None
) -> Gradient:
    """The gradient of columns, read in blocks of at most `block`."""
    columns = np.arange(len(read.names)) if which is None else which
    parts, total = [], np.zeros(state.width)
    for a in range(0, len(columns), block):
        part = columns[a : a + block]
        fold = gradient_fold(len(part), state.width, state)
        G, total = read(fold, part, "score")
        parts.append(G)
    return columns, parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1), total


def column_of(number: int) -> Choice:
    return (number,)


def group_kind(groups: object, n_columns: int) -> SingleColumns:
    """The kind of plain columns, or of groups numbered from 0."""
    if groups is None:
        return SingleColumns()
    labels = np.asarray(groups)
    if labels.shape != (n_columns,):
        raise ValueError(
            f"groups has shape {labels.shape}, expected ({n_columns},): the group of each column"
        )
    return SingleColumns(np.unique(labels, return_inverse=True)[1])
