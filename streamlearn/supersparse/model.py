"""What the super-sparse estimators share: cost, sample, search, attributes, decisions."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..config import get_config
from ..data.source import Chunk
from ..engine.plan import Needs
from ..estimator.certificate import Certificate
from ..estimator.restored import n_outputs
from ..numeric.checks import check_array, check_number
from ..passes.fold import nbytes_of
from ..passes.summary.summary import Summary
from .descent import warm_start
from .equations import error_of
from .parameters import CONSTRAINTS, check_rows, settled_number, similarity_for
from .prototypes import Candidate, Problem, candidates_fold, empty_candidates
from .sample import SampleObjective, first_prototypes
from .search import MOVES, RADII, Incumbent, Outcome, drive, refine
from .similarity import BLOCK_NBYTES, Similarity, block_rows, dense_blocks, make_similarity

SAMPLE_ROWS, ROWS_PER_ENTRY = 20_000, 20
"""Rows of the sample: 20,000, or 20 for each number that is sought, as far as memory goes."""
UNSET_BUDGET = 1 << 30
"""What the sample counts on when no budget is set; never the memory that happens to be free."""
BUDGET_SHARE = 8


class SuperSparseModel:
    """A mixin; `equations` says what is minimised."""

    _parameter_constraints: dict[str, list[Any]] = {
        **CONSTRAINTS,
        "n_prototypes": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means", "rows"}), "array-like"],
    }
    _accepts_sparse = True

    def __init__(
        self,
        n_prototypes=10,
        *,
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
        self.n_prototypes = n_prototypes
        self.similarity = similarity
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.repulsion = repulsion
        self.init = init
        self.neighbours = neighbours
        self.schedule = schedule
        self.n_passes = n_passes
        self.tol = tol
        self.random_state = random_state

    # What it costs.

    def _most_prototypes(self) -> int:
        return int(self.n_prototypes)

    def _candidate_sizes(self) -> list[int]:
        """Prototypes of each candidate of one read."""
        return [self._most_prototypes()] * len(RADII)

    def _needs(self, dataset: Any, summary: Summary | None = None) -> list[Needs]:
        m, p, T = self._most_prototypes(), dataset.n_features, self._n_targets()
        rows = min(self._sample_rows(dataset), dataset.n_physical_rows)
        pool = m * (1 + MOVES) if self.neighbours is not None else 0
        state = nbytes_of(
            empty_candidates([(k, p) for k in [*self._candidate_sizes(), pool] if k], T)
        )
        return [
            Needs(
                "prototypes",
                state_bytes=state,
                step_bytes=4 * BLOCK_NBYTES,
                step_bytes_per_row=16.0 * T + 16,
                driver_bytes=rows * self._sample_row_bytes(dataset) + 4 * state,
                model_bytes=state,
                passes=(1, self.n_passes - 1),
            )
        ]

    def _n_targets(self) -> int:
        classes = getattr(self, "classes_", None)
        return 1 if classes is None or len(classes) == 2 else len(classes)

    def _sample_row_bytes(self, dataset: Any) -> int:
        m, p = self._most_prototypes(), dataset.n_features
        kept = 0 if isinstance(self.similarity, str) else m
        return 8 * (3 * p + 2 * m + kept + 16)

    def _moments_only(self) -> bool:
        return True  # the similarity takes means, variances and least values: always one read

    def _sample_rows(self, dataset: Any) -> int:
        room = (get_config().memory_budget or UNSET_BUDGET) // BUDGET_SHARE
        wanted = max(SAMPLE_ROWS, ROWS_PER_ENTRY * self._most_prototypes() * dataset.n_features)
        return max(min(wanted, room // self._sample_row_bytes(dataset)), 1)

    # Fitting.

    def _fit(self, run, dataset, summary, validation=None, sample=None) -> Certificate:
        problem = self._problem(dataset, summary)
        rows = SampleObjective.of_chunk(problem, sample)
        whole = rows.weight >= summary.total_weight * (1 - 1e-12)
        self._keep(problem, self._search(run, dataset, rows, whole, validation))
        return self._finish(run, dataset, rows, whole)

    def _search(self, run, dataset, rows, whole, validation) -> Outcome:
        check_rows(self.n_prototypes, rows.n_rows, whole)
        generator = np.random.Generator(np.random.Philox(key=self.random_state))
        Z = first_prototypes(rows, self.n_prototypes, self._init(rows), generator)
        trail: list[Incumbent] = []
        Z = warm_start(rows, Z, repulsion=self.repulsion, tol=1e-3 * self.tol, generator=generator)
        one = refine(rows, Z, whole=whole, tol=self.tol, max_reads=self.n_passes - 1, trail=trail)
        problem = rows.problem

        def read(candidates: list[Candidate], n: int) -> Any:
            return run.fold(candidates_fold(problem, candidates), dataset, name=f"prototypes-{n}")

        def after(n: int) -> None:
            fields = {"read": n, "objective": trail[-1].objective}
            if validation is not None:
                fold = candidates_fold(problem, [Candidate(trail[-1].Z)])
                (found,) = run.fold(fold, validation, name=f"validation-{n}")
                fields["validation_loss"] = error_of(found.equations, trail[-1].theta)
            run.record(**fields)

        (outcome,) = drive(read, [one], after)
        return outcome

    def _init(self, rows: SampleObjective) -> Any:
        """The parameter, checked if it is an array."""
        if isinstance(self.init, str):
            return self.init
        Z = np.array(self.init, np.float64)
        shape = (self.n_prototypes, rows.X.shape[1])
        if Z.shape != shape or not np.isfinite(Z).all():
            raise ValueError(
                f"init has shape {Z.shape}; expected n_prototypes x columns = {shape}, all finite"
            )
        return Z

    def _problem(self, dataset: Any, summary: Summary) -> Problem:
        classes = getattr(self, "classes_", None)
        T = self._n_targets()
        shift = np.zeros(T)
        if classes is None:
            shift[:] = settled_number(summary.labels.mean)
        self.similarity_ = similarity_for(self, summary.columns)
        return Problem(
            self.similarity_,
            float(self.ridge),
            0 if classes is None else len(classes),
            shift,
            self.schedule == "paper",
            self.neighbours,
        )

    def _keep(self, problem: Problem, outcome: Outcome) -> None:
        order = np.argsort(-np.abs(outcome.theta[:-1]).max(axis=1), kind="stable")
        self.prototypes_ = outcome.Z[order]
        self.increase_ = outcome.increase[order]
        self._set_theta(outcome.theta[[*order, -1]], problem.shift)
        self._outcome = outcome

    def _set_theta(self, theta: np.ndarray, shift: np.ndarray) -> None:
        self.coef_ = np.ascontiguousarray(theta[:-1].T)
        self.intercept_ = theta[-1] + shift

    def _finish(self, run, dataset, rows, whole) -> Certificate:
        outcome = self.__dict__.pop("_outcome")
        return Certificate(
            converged=outcome.converged,
            objective=outcome.objective,
            criterion="regularised mean squared error",
            tolerance=float(self.tol),
            solver="L-BFGS on a sample, tilted by reads",
            reason=outcome.reason,
        )

    # Using it.

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        F = decisions(self.similarity_, self.prototypes_, self.coef_, self.intercept_, chunk.X)
        return F[:, 0] if F.shape[1] == 1 else F

    def _state(self) -> dict[str, Any]:
        similarity = self.similarity_
        return {
            "gamma": similarity.gamma,
            "centre": similarity.centre,
            "prototypes": self.prototypes_,
            "increase": self.increase_,
            "coef": self.coef_,
            "intercept": self.intercept_,
        }

    def _restore(self, tree: dict[str, Any]) -> None:
        Z, gamma, k = tree["prototypes"], tree["gamma"], n_outputs(self)
        check_array("prototypes", Z, (None, self.n_features_in_))
        check_array("increase", tree["increase"], (len(Z),), finite=False)
        check_array("coef", tree["coef"], (k, len(Z)))
        check_array("intercept", tree["intercept"], (k,))
        check_number("gamma", gamma, 0)
        if tree["centre"] is not None:
            check_array("centre", tree["centre"], (self.n_features_in_,))
        self.prototypes_, self.increase_ = tree["prototypes"], tree["increase"]
        self.coef_, self.intercept_ = tree["coef"], tree["intercept"]
        self.similarity_ = make_similarity(
            self.similarity,
            gamma=tree["gamma"],
            degree=self.degree,
            coef0=self.coef0,
            centre=tree["centre"],
        )

    @property
    def gamma_(self) -> float:
        """The gamma in use."""
        return self.similarity_.gamma


def decisions(
    similarity: Similarity, Z: np.ndarray, coef: np.ndarray, intercept: np.ndarray, X: Any
) -> np.ndarray:
    """(n, T) sums of coefficients times similarities; a row's do not depend on its neighbours."""
    F = np.empty((X.shape[0], len(coef)))
    named = similarity.function is None
    for rows, buffer in dense_blocks(X, block_rows(*Z.shape[::-1])):
        n = rows.stop - rows.start
        # named ones take the block with its zeros: the BLAS goes one way for one shape
        S = similarity.values(buffer, Z)[:n] if named else similarity.values(buffer[:n], Z)
        for t, beta in enumerate(coef):
            F[rows, t] = (S * beta).sum(axis=1)
    F += intercept
    return F
