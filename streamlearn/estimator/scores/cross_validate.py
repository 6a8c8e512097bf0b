"""Cross-validation over data larger than memory: splits by a hash of the row number."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid

from ...data.dataset import Dataset
from ...data.order import HashShare
from ...engine.scratch.materialise import materialised
from ...engine.together.lockstep import Lockstep, n_served
from ...errors import MemoryBudgetError
from ...solvers.split_errors import JUDGES, TRAINS, Split
from ...solvers.splits import split_shares
from ..model import Model
from ..planning import plan
from ..rows.encoding import is_encoded
from ..rows.inputs import features_of, open_training
from ..rows.levels import as_trained
from .metrics import check_gain
from .paths import Candidate, FitsPaths, fits_of
from .scoring import evaluate_models


@dataclass(frozen=True)
class AllBut(HashShare):
    """The rows whose share does not lie in [low, high): the training rows of a split."""

    def keeps(self, rows: range | np.ndarray) -> np.ndarray:
        return ~super().keeps(rows)


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """Scores of every candidate on every split."""

    parameters: list[Candidate]
    """One set of parameters per candidate."""
    scores: np.ndarray
    """(candidates, splits); greater is better."""
    scoring: str
    n_passes: int
    """Reads of (parts of) the data, all fits, summaries and scores together; one that serves
    several splits counts once."""
    n_score_passes: int
    """Reads among them that scored: one for all splits and candidates of the same features, or one
    a split where the rows are in memory."""
    seconds: float

    @property
    def mean(self) -> np.ndarray:
        """(candidates,) mean score over the splits."""
        return self.scores.mean(axis=1)

    @property
    def std(self) -> np.ndarray:
        """(candidates,) standard deviation over the splits."""
        return self.scores.std(axis=1)

    @property
    def best_index(self) -> int:
        """The candidate of highest mean score (the first of equals)."""
        return int(self.mean.argmax())

    @property
    def best_parameters(self) -> dict[str, object]:
        """The parameters of the best candidate."""
        return self.parameters[self.best_index]

    def __repr__(self) -> str:
        head = (
            f"{self.scoring} over {self.scores.shape[1]} splits, {self.n_passes} reads "
            f"({self.n_score_passes} of them to score), {self.seconds:.1f} s"
        )
        lines = [
            f"{'*' if k == self.best_index else ' '} {mean:.6g} +/- {std:.2g}  "
            + (", ".join(f"{key}={value!r}" for key, value in parameters.items()) or "as given")
            for k, (mean, std, parameters) in enumerate(
                zip(self.mean, self.std, self.parameters, strict=True)
            )
        ]
        return "\n".join([head, *lines])


def cross_validate(
    model: object,
    dataset: object,
    cv: int = 5,
    param_grid: Mapping[str, Sequence] | Sequence[Mapping[str, Sequence]] | None = None,
    seed: int = 0,
    scoring: str | None = None,
    *,
    y: object = None,
    sample_weight: object = None,
) -> CrossValidation:
    """Score a model, or each of a grid of its parameters, on rows it was not trained on.

    The split that holds a row out is a hash of its number and the seed: there is no copy and no
    index.  The fits of the splits go in lockstep: what they all read of the table they read at
    once, and their scores too, so that they take about the reads of one split, as many of them at a
    time as the memory budget has room for.  Each is the fit of its own to the rows outside the
    split, bit for bit.  What each fit reads for itself stays apart: sweeps in random order, copies
    of its rows in memory or in scratch, the columns that only it has selected (ShareBoost), words
    whose codes are its own, and scores of rows in memory.  All candidates of a split are scored in
    one shared read.  Candidates come one after the other, but for those that one fit gives:

    - `JensenShannonBoostClassifier` has it from one fit for all values of ``n_learners``;
    - `ProjectionPursuitRegressor` from one fit for two values of ``tau``, if the budget has room;
    - `ShareBoostClassifier` fits each, as its models of fewer columns are corrected less far on the
      way to those of more; so does `SVMMixtureClassifier`, whose EM of one candidate gives no other
      model, and so do `SuperSparseRegressor` and `SuperSparseClassifier`;
    - `AdditiveClassifier` and `AdditiveRegressor` fit each: their knots, levels and means of
      targets are learned from the rows outside the split alone.

    The estimators whose names end in CV share more where they choose, and with
    ``random_state=seed`` their splits are the same as these: `AdditiveClassifierCV` and
    `AdditiveRegressorCV` train all candidates for all splits in shared reads, with the knots of
    all rows.  One of them that is itself scored here is scored on other splits than those in which
    it chooses, each of which has its rows.

    Parameters
    ----------
    model : estimator
        Not changed; clones are trained.
    dataset : Dataset, path, array, ...
        Anything `fit` takes as X.
    cv : int
        Number of splits.
    param_grid : dict or list of dict, optional
        Parameter name -> values to try, as for `GridSearchCV`.
    seed : int
        Seed of the splits.
    scoring : str, optional
        Default ``"accuracy"`` for classifiers and ``"r2"`` for regressors.  Any metric of `score`,
        with ``neg_`` before a loss: ``"roc_auc"``, ``"neg_log_loss"``,
        ``"neg_mean_absolute_error"``, ...
    y, sample_weight : as in `fit`, optional

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressor, cross_validate
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> y = np.sin(6 * X[:, 0])
    >>> scores = cross_validate(AdditiveRegressor(), X, cv=3, param_grid={"C": [0.1, 10]}, y=y)
    >>> scores.best_parameters, scores.mean.round(2)
    ({'C': 10}, array([0.85, 1.  ]))
    """
    if not hasattr(model, "predict"):
        name = getattr(model, "__name__", type(model).__name__)
        raise TypeError(
            f"cross_validate scores predictions, which {name} does not make; give an estimator "
            "that has predict"
        )
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise ValueError(f"cv must be a number of splits, at least 2, got {cv!r}")
    scoring = scoring or ("accuracy" if is_classifier(model) else "r2")
    candidates = list(ParameterGrid(param_grid)) if param_grid is not None else [{}]
    for parameters in candidates:
        check_gain(clone(model).set_params(**parameters), scoring)
    started = time.perf_counter()
    opened = open_training(clone(model), dataset, y, sample_weight)
    edges, seed = split_shares(cv, seed, around_choice=hasattr(model, "cv"))
    with materialised(opened) as rows:
        fits = _within_budget(model, fits_of(model, candidates), candidates, rows)

        def fit_without(split: int) -> tuple[list[Model], int]:
            """The candidates' models, and the reads that were made for them."""
            train, _ = splits[split]
            with Split(split, cv, seed="seed").named(TRAINS):
                return fit_all(train)

        def score(split: int, models: Sequence[Model]) -> tuple[np.ndarray, int]:
            with Split(split, cv, seed="seed").named(JUDGES):
                return scores_of_split(models, splits[split][1], scoring)

        def fit_all(train: Dataset) -> tuple[list[Model], int]:
            fitted: dict[int, Model] = {}
            n_reads = 0
            for numbers in fits:
                members = [candidates[k] for k in numbers]
                of_all = clone(model).set_params(**_joint(model, members)).fit(train)
                n_reads += of_all.n_passes_ - of_all._n_served
                models = of_all._models_of(members) if len(members) > 1 else [of_all]
                fitted |= zip(numbers, models, strict=True)
            return [fitted[k] for k in range(len(candidates))], n_reads

        splits = [without_split(rows, edges, split, seed) for split in range(cv)]
        lockstep = Lockstep()
        fitted = lockstep.run([partial(fit_without, split) for split in range(cv)])
        scored = lockstep.run([partial(score, k, models) for k, (models, _) in enumerate(fitted)])
    scores = np.column_stack([of_split for of_split, _ in scored])
    n_score_passes = sum(n_reads for _, n_reads in scored)
    n_passes = sum(n_reads for _, n_reads in fitted) + n_score_passes
    n_passes -= (cv * len(fits) - 1) * rows.passes_before  # made once, and every fit counts them
    seconds = time.perf_counter() - started
    return CrossValidation(candidates, scores, scoring, n_passes, n_score_passes, seconds)


def _joint(model: object, members: Sequence[Candidate]) -> Candidate:
    if len(members) > 1 and isinstance(model, FitsPaths):
        return model._joint(members)
    return members[0]


def _within_budget(
    model: object, fits: list[list[int]], candidates: Sequence[Candidate], rows: Dataset
) -> list[list[int]]:
    """The fits, but those that have no room together one by one."""
    found: list[list[int]] = []
    for numbers in fits:
        together = [numbers]
        if len(numbers) > 1:
            joint = _joint(model, [candidates[k] for k in numbers])
            try:
                plan(clone(model).set_params(**joint), rows)
            except MemoryBudgetError:
                together = [[k] for k in numbers]
        found += together
    return found


def without_split(
    rows: Dataset, edges: np.ndarray, split: int, seed: int
) -> tuple[Dataset, Dataset]:
    """The rows outside a split, and those in it."""
    low, high = float(edges[split]), float(edges[split + 1])
    train = replace(rows, shares=(*rows.shares, AllBut(low, high, seed)), _counted=[])
    return train, rows.where_hash(low, high, seed)


def scores_of_split(
    models: Sequence[Model], apart: Dataset, scoring: str, *, known_only: bool = False
) -> tuple[np.ndarray, int]:
    """Scores of fitted models on the same rows, and the reads made: one for the same features.

    The models may be of different candidates, or several of one fit.  `known_only`: as in
    `evaluate_models`.
    """
    scores, groups = np.empty(len(models)), _alike(models)
    before = n_served()
    for alike in groups:
        members = [models[k] for k in alike]
        shown = features_of(members[0], as_trained(members[0], apart))
        results = evaluate_models(members, shown, [scoring], known_only=known_only)
        scores[alike] = [result[scoring] for result in results]
    return scores, len(groups) - (n_served() - before)


def _alike(models: Sequence[Model]) -> list[list[int]]:
    """Numbers of models whose features are the same, as they are for the same rows and choices."""
    found: dict[str, list[int]] = {}
    for k, model in enumerate(models):
        deciding = [getattr(model, "encoding", None), getattr(model, "max_levels", None)]
        seed = getattr(model, "random_state", None) if is_encoded(model) else None
        found.setdefault(repr((deciding, seed)), []).append(k)
    return list(found.values())
