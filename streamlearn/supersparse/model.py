"""The common part of the super-sparse estimators: cost, sample, search and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import ClassVar, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions

from ..config import get_config
from ..data.encoding import Encoding
from ..data.source import Chunk, Csr, Source
from ..engine.plan import Needs
from ..engine.run import Run
from ..estimator.certificate import Certificate
from ..estimator.facts import Parts
from ..estimator.report.figures import MOST_COLUMNS, MOST_ROWS, Figure, HeatMap
from ..estimator.restored import n_outputs
from ..estimator.rows.encoding import feature_names, n_features
from ..estimator.rows.streams import WithoutStream
from ..numeric.checks import check_array, check_number
from ..numeric.sequences import numbers_of
from ..passes.fold import nbytes_of
from ..passes.summary.summary import Summary
from .descent import warm_start
from .equations import error_of
from .parameters import (
    CONSTRAINTS,
    check_rows,
    ridge_for,
    rounded_number,
    scale_for,
    similarity_for,
)
from .prototypes import Candidate, Found, Problem, candidates_fold, empty_candidates
from .sample import SampleObjective, first_prototypes
from .search import MOVES, RADII, Incumbent, Outcome, Recording, drive, refine
from .similarity import (
    BLOCK_NBYTES,
    Neighbours,
    Similarity,
    SimilarityParameter,
    block_rows,
    dense_blocks,
    make_similarity,
)

SAMPLE_ROWS, ROWS_PER_ENTRY = 20_000, 20
"""Number of rows in the sample, if memory suffices: 20,000, or 20 for each number of a
prototype."""
UNSET_BUDGET = 1 << 30
"""Budget in bytes that is assumed when none is set; never the memory that happens to be free."""
BUDGET_SHARE = 8
"""The sample takes at most one part in so many of the budget."""


class ModelState(TypedDict):
    """The tree of a saved model."""

    gamma: float
    centre: np.ndarray | None
    scale: NotRequired[np.ndarray | None]  # older models took rows as they are
    prototypes: np.ndarray
    increase: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray


class SuperSparseModel(WithoutStream):
    """A mixin of the estimators; `equations` says what is minimised."""

    n_prototypes: int | Sequence[int] | None
    similarity: SimilarityParameter
    gamma: float | str
    degree: int
    coef0: float
    ridge: float | str
    repulsion: float
    init: npt.ArrayLike
    neighbours: Neighbours | None
    scaling: str
    schedule: str
    n_passes: int
    tol: float
    random_state: int
    n_features_in_: int
    feature_names_in_: np.ndarray
    classes_: np.ndarray
    encoding_: Encoding
    certificate_: Certificate
    _parameter_constraints: dict[str, list[object]] = {
        **CONSTRAINTS,
        "n_prototypes": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means", "rows"}), "array-like"],
    }
    _accepts_sparse = True
    _encodes = True
    _no_stream: ClassVar[str] = (
        "a read scores several places for the prototypes on all rows and keeps the best, and "
        "scores of different rows cannot be compared; use fit"
    )
    _later_parameters: ClassVar[dict[str, object]] = {
        "encoding": None,
        "class_weight": None,
        "scaling": "none",
    }

    # What it costs.

    def _most_prototypes(self) -> int:
        assert isinstance(self.n_prototypes, int | np.integer)  # sequences are for ...CV
        return int(self.n_prototypes)

    def _candidate_sizes(self) -> list[int]:
        """Number of prototypes of each candidate in one read."""
        return [self._most_prototypes()] * len(RADII)

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
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

    def _sample_row_bytes(self, dataset: Source) -> int:
        m, p = self._most_prototypes(), dataset.n_features
        stored = 0 if isinstance(self.similarity, str) else m
        return 8 * (3 * p + 2 * m + stored + 16)

    def _moments_only(self) -> bool:
        return True  # the similarity needs means, variances and least values, which take one read

    def _sample_rows(self, dataset: Source) -> int:
        room = (get_config().memory_budget or UNSET_BUDGET) // BUDGET_SHARE
        wanted = max(SAMPLE_ROWS, ROWS_PER_ENTRY * self._most_prototypes() * dataset.n_features)
        return max(min(wanted, room // self._sample_row_bytes(dataset)), 1)

    # Fitting.

    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        sample: Chunk | None = None,
    ) -> Certificate:
        assert sample is not None  # `_sample_rows` is at least 1
        problem = self._problem(summary)._replace(siblings=dataset.siblings)
        rows = SampleObjective.of_chunk(problem, sample)
        whole = rows.weight >= summary.total_weight * (1 - 1e-12)
        self._keep(problem, self._search(run, dataset, rows, whole, validation))
        return self._finish(run, dataset, rows, whole)

    def _search(
        self,
        run: Recording,
        dataset: Source | None,
        rows: SampleObjective,
        whole: bool,
        validation: Source | None,
    ) -> Outcome:
        m = self._most_prototypes()
        check_rows(m, rows.n_rows, whole)
        generator = np.random.Generator(np.random.Philox(key=self.random_state))
        Z = first_prototypes(rows, m, self._init(rows), generator)
        trail: list[Incumbent] = []
        Z = warm_start(rows, Z, repulsion=self.repulsion, tol=1e-3 * self.tol, generator=generator)
        one = refine(rows, Z, whole=whole, tol=self.tol, max_reads=self.n_passes - 1, trail=trail)
        problem = rows.problem

        def read(candidates: list[Candidate], n: int) -> list[Found]:
            return run.fold(candidates_fold(problem, candidates), dataset, name=f"prototypes-{n}")

        def after(n: int) -> None:
            fields: dict[str, float] = {"read": n, "objective": trail[-1].objective}
            if validation is not None:
                fold = candidates_fold(problem, [Candidate(trail[-1].Z)])
                (found,) = run.fold(fold, validation, name=f"validation-{n}")
                fields["validation_loss"] = error_of(found.equations, trail[-1].theta)
            run.record(**fields)

        (outcome,) = drive(read, [one], after)
        return outcome

    def _init(self, rows: SampleObjective) -> npt.ArrayLike:
        """The parameter `init`, checked if it is an array."""
        if isinstance(self.init, str):
            return self.init
        shape = (self._most_prototypes(), rows.X.shape[1])
        Z = numbers_of("init", self.init, f"'rows', 'k-means' or an array of shape {shape}", 2)
        if Z.shape != shape or not np.isfinite(Z).all():
            raise ValueError(
                f"init has shape {Z.shape}; expected n_prototypes x columns = {shape}, all finite"
            )
        return Z if rows.problem.scale is None else Z * rows.problem.scale

    def _problem(self, summary: Summary) -> Problem:
        classes = getattr(self, "classes_", None)
        T = self._n_targets()
        shift = np.zeros(T)
        if classes is None:
            shift[:] = rounded_number(summary.target.mean)
        scale = scale_for(self, summary.columns, self.encoding_)
        return Problem(
            similarity_for(self, summary.columns, scale),
            ridge_for(self, summary.total_weight),
            0 if classes is None else len(classes),
            shift,
            self.schedule == "paper",
            self.neighbours,
            scale,
        )

    def _keep(self, problem: Problem, outcome: Outcome) -> None:
        scale = problem.scale
        order = np.argsort(-np.abs(outcome.theta[:-1]).max(axis=1), kind="stable")
        self.prototypes_ = outcome.Z[order] if scale is None else outcome.Z[order] / scale
        self.similarity_ = replace(problem.similarity, scale=scale)
        self.increase_ = outcome.increase[order]
        self._set_theta(outcome.theta[[*order, -1]], problem.shift)
        self._outcome = outcome

    def _set_theta(self, theta: np.ndarray, shift: np.ndarray) -> None:
        self.coef_ = np.ascontiguousarray(theta[:-1].T)
        self.intercept_ = theta[-1] + shift

    def _finish(
        self, run: Recording, dataset: Source | None, rows: SampleObjective, whole: bool
    ) -> Certificate:
        """Conclude a search; a classifier refits its coefficients here."""
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

    def _parts(self) -> Parts:
        size = np.abs(self.coef_).max(axis=0)
        names = [f"prototype {j}" for j in range(len(size))]
        return Parts.by_size("prototypes", "largest size of a coefficient", names, size)

    def _figures(self) -> tuple[str, Sequence[Figure]]:
        names, Z = feature_names(self), self.prototypes_
        size = np.abs(self.coef_).max(axis=0)
        low, spread = Z.min(axis=0), np.ptp(Z, axis=0)
        columns = np.arange(Z.shape[1])
        notes = ["each column from its least (0) to its largest value among the prototypes (1)"]
        if len(columns) > MOST_COLUMNS:
            columns = columns[:MOST_COLUMNS]
            notes.append(f"the first {MOST_COLUMNS} of {Z.shape[1]} columns")
        order = np.argsort(-size, kind="stable")[:MOST_ROWS]
        if len(order) < len(Z):
            notes.append(f"the {MOST_ROWS} largest of {len(Z)} prototypes")
        values = ((Z - low) / np.where(spread > 0, spread, 1.0))[np.ix_(order, columns)]
        beta = self.coef_[0] if len(self.coef_) == 1 else size
        rows = [f"{j}: {beta[j]:+.3g}" for j in order]
        said = (
            "The decision is a sum of similarities to the prototypes, each times its coefficient."
        )
        figure = HeatMap("Prototypes and their coefficients", "place", rows,
                         [names[d] for d in columns], values, "; ".join(notes))  # fmt: skip
        return said, [figure]

    def _state(self) -> ModelState:
        similarity = self.similarity_
        return {
            "gamma": similarity.gamma,
            "centre": similarity.centre,
            "scale": similarity.scale,
            "prototypes": self.prototypes_,
            "increase": self.increase_,
            "coef": self.coef_,
            "intercept": self.intercept_,
        }

    def _restore(self, tree: ModelState) -> None:
        Z, gamma, k = tree["prototypes"], tree["gamma"], n_outputs(self)
        check_array("prototypes", Z, (None, n_features(self)))
        check_array("increase", tree["increase"], (len(Z),), finite=False)
        check_array("coef", tree["coef"], (k, len(Z)))
        check_array("intercept", tree["intercept"], (k,))
        check_number("gamma", gamma, 0)
        scale = tree.get("scale")
        if scale is not None:
            check_array("scale", scale, (n_features(self),), low=0)
        if tree["centre"] is not None:
            check_array("centre", tree["centre"], (n_features(self),))
        self.prototypes_, self.increase_ = tree["prototypes"], tree["increase"]
        self.coef_, self.intercept_ = tree["coef"], tree["intercept"]
        self.similarity_ = make_similarity(
            self.similarity,
            gamma=tree["gamma"],
            degree=self.degree,
            coef0=self.coef0,
            centre=tree["centre"],
            scale=scale,
        )

    @property
    def gamma_(self) -> float:
        """The gamma in use."""
        return self.similarity_.gamma


def decisions(
    similarity: Similarity,
    Z: np.ndarray,
    coef: np.ndarray,
    intercept: np.ndarray,
    X: np.ndarray | Csr,
) -> np.ndarray:
    """(n, T) sums of coefficients times similarities; those of a row depend on no other row."""
    F = np.empty((X.shape[0], len(coef)))
    named = similarity.function is None
    for rows, buffer in dense_blocks(X, block_rows(Z.shape[1], len(Z))):
        n = rows.stop - rows.start
        # named ones take the block with its zeros, as the BLAS takes one path for one shape
        S = similarity.values(buffer, Z)[:n] if named else similarity.values(buffer[:n], Z)
        for t, beta in enumerate(coef):
            F[rows, t] = (S * beta).sum(axis=1)
    F += intercept
    return F
