"""The number of prototypes, by cross-validation with all splits in the same reads.

    m* = argmin_m  L(m) + tradeoff m,   L the mean loss over the splits' held-out rows

(Biggio 2015, eq. 8.)  For each split, and for all rows, prototypes are first found for the largest
m.  Then the one whose removal raises the objective least, while the others stay, is removed and the
others move again, and so on: the paper's descent by warm starts.  That happens on the sample; the
reads refine and measure all splits and all m at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..data.source import Source
from ..numeric.checks import check_integer
from ..numeric.sequences import integers_of
from ..solvers.split_errors import TRAINS, Split
from .descent import descend, warm_start
from .equations import error_of, removal_order
from .model import ModelState, SuperSparseModel
from .prototypes import Candidate, Found, Problem, candidates_fold
from .sample import SampleObjective, first_prototypes
from .search import RADII, Incumbent, Outcome, Recording, drive, refine

DEFAULT_PROTOTYPES = (1, 2, 5, 10, 20, 32)
"""Numbers tried by default: with that of the estimators that do not choose."""
NUMBERS = "numbers of prototypes to choose from, for example (2, 5, 10, 20), or None"
MOST_PROTOTYPES, ROWS_PER_PROTOTYPE = 32, 10
"""Largest number of prototypes tried by default, and fewest rows for each of them."""


class Curve(NamedTuple):
    """Loss against the number of prototypes."""

    n_prototypes: np.ndarray
    """(M,) numbers of prototypes, ascending."""
    loss: np.ndarray
    """(M, splits) mean squared error, or share of errors, on held-out rows."""
    objective: np.ndarray
    """(M,) values of Omega on all rows."""


class SelectionState(ModelState):
    """The tree of a saved model that chose its number of prototypes."""

    curve: Curve
    n_prototypes: int


class SelectedPrototypes(SuperSparseModel):
    """A mixin that chooses the number of prototypes by cross-validation."""

    cv: int
    tradeoff: float
    _parameter_constraints: dict[str, list[object]] = {
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
            return [m for m in DEFAULT_PROTOTYPES if m <= most]
        sizes = sorted(set(integers_of("n_prototypes", self.n_prototypes, NUMBERS)))
        if not sizes or sizes[0] < 1:
            raise ValueError(f"n_prototypes={self.n_prototypes!r}; expected {NUMBERS}")
        return sizes

    def _most_prototypes(self) -> int:
        return max(self._sizes(MOST_PROTOTYPES * ROWS_PER_PROTOTYPE))

    def _candidate_sizes(self) -> list[int]:
        return self._sizes(MOST_PROTOTYPES * ROWS_PER_PROTOTYPE) * (len(RADII) * (self.cv + 1))

    def _search(
        self,
        run: Recording,
        dataset: Source | None,
        rows: SampleObjective,
        whole: bool,
        validation: Source | None,
    ) -> Outcome:
        sizes = self._sizes(rows.n_rows)
        splits = rows.splits(self.cv, self.random_state)
        jobs, searches = [], []
        for split in [*range(self.cv), -1]:
            part = rows if split < 0 else rows.part(splits != split)
            if split >= 0:
                check_split(part, sizes[-1], Split(split, self.cv), rows.n_rows)
            for m, Z in descent(part, sizes, self):
                trail: list[Incumbent] = []
                jobs.append((split, m))
                searches.append(
                    refine(
                        part,
                        Z,
                        whole=whole,
                        tol=self.tol,
                        max_reads=self.n_passes - 2,
                        trail=trail,
                        held_out=split,
                    )
                )

        def read(candidates: list[Candidate], n: int) -> list[Found]:
            fold = candidates_fold(rows.problem, candidates, self.cv, self.random_state)
            return run.fold(fold, dataset, name=f"prototypes-{n}")

        outcomes = dict(zip(jobs, drive(read, searches), strict=True))
        loss = self._losses(run, dataset, rows.problem, outcomes, sizes)
        objective = np.array([outcomes[-1, m].objective for m in sizes])
        self.curve_ = Curve(np.array(sizes), loss, objective)
        for k, m in enumerate(sizes):
            run.record(
                n_prototypes=m, loss=float(np.nanmean(loss[k])), objective=float(objective[k])
            )
        # argmin takes the smallest of equal ones
        best = int(np.argmin(np.nanmean(loss, axis=1) + self.tradeoff * np.array(sizes)))
        self.n_prototypes_ = sizes[best]
        chosen = outcomes[-1, self.n_prototypes_]
        if validation is not None:
            (found,) = run.fold(
                candidates_fold(rows.problem, [Candidate(chosen.Z)]), validation, name="validation"
            )
            run.record(validation_loss=error_of(found.equations, chosen.theta))
        return chosen

    def _losses(
        self,
        run: Recording,
        dataset: Source | None,
        problem: Problem,
        outcomes: dict[tuple[int, int], Outcome],
        sizes: list[int],
    ) -> np.ndarray:
        """(M, splits) losses, from the equations of held-out rows that the reads have summed."""
        return np.array(
            [
                [
                    error_of(outcomes[split, m].held_out, outcomes[split, m].theta)
                    for split in range(self.cv)
                ]
                for m in sizes
            ]
        )

    def _state(self) -> SelectionState:
        return {**super()._state(), "curve": self.curve_, "n_prototypes": self.n_prototypes_}

    def _restore(self, tree: SelectionState) -> None:  # type: ignore[override]  # more of it
        super()._restore(tree)
        if not isinstance(tree["curve"], Curve):
            raise ValueError(f"the curve is a {type(tree['curve']).__name__}")
        check_integer("n_prototypes", int(tree["n_prototypes"]), 1, len(self.prototypes_))
        self.curve_, self.n_prototypes_ = tree["curve"], tree["n_prototypes"]


def descent(
    sample: SampleObjective, sizes: Sequence[int], model: SelectedPrototypes
) -> list[tuple[int, np.ndarray]]:
    """The prototypes of each size m, largest first, each begun where the last one ended."""
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


def check_split(part: SampleObjective, m: int, split: Split, n_rows: int) -> None:
    """Refuse more prototypes than a split has training rows."""
    if m > part.n_rows:
        lack = f"n_prototypes is up to {m} but n_samples={part.n_rows} of {n_rows} are left"
        raise split.lacks(TRAINS, lack, "use fewer prototypes")
