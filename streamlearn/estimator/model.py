"""Estimators of all families, by what the functions of this room ask of them.

`StreamEstimator` (`base`) has these members and imports those functions, so they cannot name it.
Attributes that end in an underscore are there once a model is fitted, and some of them in some
families only: a function that uses one of those asks for it first, or says who its models are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from ..data.encoding import Encoding
from ..data.source import Chunk, Source
from ..engine.plan import Needs, Plan
from ..engine.run import Run
from ..passes.summary.summary import Summary
from ..solvers.calibration import Calibration
from .certificate import Certificate

if TYPE_CHECKING:
    from sklearn.utils import Tags


class TakesRows(Protocol):
    """An estimator, by what the rows that it is given are checked against."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    """(n_features_in_,) names of the columns, of a model that was trained on named ones."""
    encoding_: Encoding
    """Rules that make the features, of a family that encodes."""

    @property
    def encoding(self) -> Mapping[str, str | float] | None: ...
    @property
    def _accepts_sparse(self) -> bool: ...
    @property
    def _why_dense(self) -> str: ...
    @property
    def _accepts_levels(self) -> bool: ...


class HasLabels(Protocol):
    """A fitted model, by what its number of outputs follows from."""

    classes_: np.ndarray
    """(K,) sorted labels, of a classifier."""


class Model(TakesRows, HasLabels, Protocol):
    """A fitted model, by what its answers and scores are made of."""

    @property
    def term_names_(self) -> Sequence[str]: ...
    @property
    def _encodes(self) -> bool: ...
    @property
    def _accepts_missing(self) -> bool: ...
    def __sklearn_tags__(self) -> Tags: ...
    def _decision_chunk(self, chunk: Chunk) -> np.ndarray: ...
    def _decision_row_nbytes(self, dataset: Source) -> float: ...
    def _label(self, decision: np.ndarray) -> np.ndarray: ...
    def _check_probability(self) -> None: ...
    def _probability(self, decision: np.ndarray) -> np.ndarray: ...
    def _check_deviation(self) -> None: ...
    def _deviation_chunk(self, chunk: Chunk) -> np.ndarray: ...
    def _explain_chunk(self, chunk: Chunk) -> np.ndarray: ...
    def _used_columns(self) -> Sequence[int] | None: ...


class HasCosts(Protocol):
    """An estimator, by what the plan of its fit is made of."""

    @property
    def _encodes(self) -> bool: ...
    def _moments_only(self) -> bool: ...
    def _sample_rows(self, dataset: Source) -> int: ...
    def _n_fits(self, dataset: Source) -> tuple[int, int]: ...
    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]: ...


class Estimator(Model, HasCosts, Protocol):
    """An estimator, by what fits and files ask of it."""

    certificate_: Certificate
    history_: list[dict[str, object]]
    plan_: Plan | None
    n_passes_: int
    _n_served: int
    levels_: dict[str, list[str]]
    calibration: str | None
    """A parameter of families whose decisions can be calibrated."""
    calibration_: Calibration
    """Curves that held-out rows gave, where `calibration` asks for them."""
    max_levels: int
    """A parameter of families that take categories."""
    random_state: int
    """A parameter of families that ask for a sample."""
    _later_parameters: Mapping[str, object]

    @property
    def _counts_copies(self) -> bool: ...
    @property
    def get_params(self) -> Callable[..., dict[str, object]]: ...
    def _validate_params(self) -> None: ...
    def _remedies(self, dataset: Source) -> dict[str, object]: ...
    def fit(self, X: object) -> Self: ...
    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        *sample: Chunk,
    ) -> Certificate: ...
    def _state(self) -> object: ...
    def _restore(self, tree: object) -> None: ...
