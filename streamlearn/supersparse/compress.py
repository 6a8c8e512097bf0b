"""Any fitted model as a few prototypes, by regression on its own answers."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..config import get_config
from ..data.dataset import Dataset
from ..data.source import Chunk, Csr, Source
from ..engine.checkpoint.stopping import orderly_end
from ..engine.plan import Needs
from ..engine.run import Run
from ..engine.scratch.folder import scratch_allowed
from ..engine.scratch.materialise import materialised
from ..errors import CheckpointError
from ..estimator.certificate import warn_unless_converged
from ..estimator.fitting import conclude, fitted_tree, identity, replan, restore_fitted
from ..estimator.planning import all_needs, plan_fit, summary_state_bytes
from ..estimator.rows.class_weights import class_factors
from ..estimator.rows.inputs import open_data
from ..passes.fold import Fold, Result, State, run_fold
from ..passes.sample import SampledRead
from ..passes.summary.reading import collect_summary, column_blocks, state_nbytes
from ..passes.summary.summary import Summary
from .answers import (
    Answers,
    answered,
    answers_of,
    counts_fold,
    weigh_answers,
    with_features_of,
)
from .estimators import SuperSparseClassifier, SuperSparseRegressor
from .parameters import LEAST_RIDGE, ridge_for, rounded_number, scale_for, similarity_for
from .prototypes import Problem
from .sample import SampleObjective
from .search import Recording

PROBE_ROWS, PROBE_NBYTES = 64, 1 << 20
"""Number of rows, and their bytes at most, for which a resumed compression evaluates the original
model again."""


def compress(
    estimator: object,
    X: object,
    n_prototypes: int,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    **parameters: Any,  # whatever the constructor takes
) -> SuperSparseClassifier | SuperSparseRegressor:
    """A super-sparse model that answers as a fitted one does (Biggio 2015, section III).

    The targets are the estimator's own decisions, so no labels are needed and any rows will do: the
    more like those to come, the better.  Rows that fit into the sample are read once.  Otherwise
    one read evaluates the estimator and caches its answers in scratch, and the search reads a few
    times more; without scratch each of these reads evaluates the estimator.

    Parameters
    ----------
    estimator : fitted classifier or regressor
        An estimator of scikit-learn, of this package, or of the same form.  Its decisions are those
        of `decision_function`, or of `predict_proba` (2p - 1 for two classes), or of a regressor's
        `predict`.
    X : array-like, frame, sparse matrix, dask collection, path or Dataset
        Rows without labels; a target column of a Dataset is not read.
    n_prototypes : int
        Number of prototypes.
    checkpoint : path, optional
        Folder or URL where the compression keeps its progress.  Run the same line again after a
        kill, and it goes on to the same bits; run it after the end, and the model is there without
        a read.
    **parameters
        Parameters of `SuperSparseRegressor`: `similarity`, `gamma`, `ridge`, `init`, `n_passes`,
        ...  An `SVC` fitted to the same rows uses ``gamma="scale"`` by default, and rows as they
        are: so is `scaling` "none" here, unless it is given, and `ridge` 1e-6, as decisions have
        no noise.  `class_weight`, of a classifier:
        factors of the rows' weights by the class that the estimator gives them, "balanced" by the
        weights of these classes, for one more read; each read evaluates the estimator then.

    Returns
    -------
    SuperSparseClassifier or SuperSparseRegressor
        Fitted, without probabilities, with one attribute more: `deviation_`, a NamedTuple of
        ``agreement``, ``rms``, ``largest`` and ``weight``.

    Raises
    ------
    TypeError
        If the estimator has no numbers to regress on, or a parameter is unknown.
    NotFittedError
        If it is not fitted.
    CheckpointError
        If the checkpoint was made with other parameters, other data, or a model that gives other
        answers.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from streamlearn import compress
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> svm = SVC(C=10).fit(X, y)
    >>> small = compress(svm, X, 10)
    >>> small.prototypes_.shape, bool(small.deviation_.agreement >= 0.99)
    ((10, 2), True)
    """
    check_is_fitted(estimator)
    model: SuperSparseClassifier | SuperSparseRegressor
    parameters = {"scaling": "none", "ridge": LEAST_RIDGE, **parameters}
    if hasattr(estimator, "classes_"):
        model = SuperSparseClassifier(n_prototypes, loss="squared_error", **parameters)
        model.classes_ = np.asarray(estimator.classes_)
    elif "class_weight" in parameters:
        raise TypeError(
            f"class_weight weighs classes, but the {type(estimator).__name__} to compress predicts "
            "numbers; leave it out"
        )
    else:
        model = SuperSparseRegressor(n_prototypes, **parameters)
    model._validate_params()
    answers = answers_of(estimator)
    with ExitStack() as stack:
        stack.enter_context(orderly_end())
        dataset = replace(open_data(X), target=None)
        if dataset.categorical:
            raise ValueError(
                f"compress takes tables of numbers, but {dataset.categorical[0]!r} holds strings; "
                f"a {type(model).__name__} takes them: fit one to the same targets instead"
            )
        dataset = stack.enter_context(materialised(dataset))
        model.levels_ = {}
        dataset = with_features_of(estimator, dataset, model)
        costs = _Costs(model, dataset)
        run = Run(
            dataset,
            plan_fit(costs, dataset),
            name="compress",
            identity=identity(model, dataset, None) | {"original": type(estimator).__name__},
            checkpoint=checkpoint,
            max_seconds=get_config().max_seconds,
        )
        with run:
            finished = run.finished
            if finished is None:
                probe = _fit(model, run, dataset, answers, costs, checkpoint)
                tree = {"model": fitted_tree(model), "deviation": model.deviation_, "probe": probe}
                run.finish(tree)
            else:
                _check_original(answers, finished["probe"], checkpoint)
                restore_fitted(model, finished["model"])
                model.deviation_ = finished["deviation"]
    warn_unless_converged("compress", model.certificate_, model._remedies(dataset))
    return model


class _Costs(NamedTuple):
    """The costs of a model's fit, with those of the answers in scratch."""

    model: SuperSparseClassifier | SuperSparseRegressor
    dataset: Dataset

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        T = self.model._n_targets()
        row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1) + 8 * T + 16
        stored = 0 if self._sample_rows(dataset) >= dataset.n_physical_rows else row
        (own,) = self.model._needs(dataset, summary)
        scratch = stored if scratch_allowed() else 0
        return [
            replace(own, step_bytes_per_row=own.step_bytes_per_row + row + 16 * T),
            Needs("answers", 0, 2 * row + 16 * T, scratch_bytes_per_row=scratch, passes=(0, 1)),
            *([] if self._class_weight is None else [self._weighing(dataset, 2 * row + 16 * T)]),
        ]

    @property
    def _class_weight(self) -> object:
        return getattr(self.model, "class_weight", None)

    def _weighing(self, dataset: Source, row: float) -> Needs:
        """A read that evaluates the estimator; the summary's, which does too, holds as much."""
        reads = int(self._class_weight == "balanced")
        return Needs("class-weights", state_nbytes(dataset, True), row, passes=(reads, reads))

    @property
    def _encodes(self) -> bool:
        return False

    def _moments_only(self) -> bool:
        return self.model._moments_only()

    def _n_fits(self, dataset: Source) -> tuple[int, int]:
        return self.model._n_fits(dataset)

    def _sample_rows(self, dataset: Source) -> int:
        return self.model._sample_rows(dataset)


class _Probe(NamedTuple):
    """A few rows and the original's answers, by which a resumed run knows that model again."""

    X: np.ndarray | Csr
    answers: np.ndarray


def _fit(
    model: SuperSparseClassifier | SuperSparseRegressor,
    run: Run,
    dataset: Dataset,
    answers: Answers,
    costs: _Costs,
    checkpoint: str | os.PathLike[str] | None,
) -> _Probe:
    """Summary and sample, answers, search, and the deviation of the outcome."""
    dataset = _weighed(model, run, dataset, answers)
    read = SampledRead(run.fold, model._sample_rows(dataset), model.random_state)
    limit = summary_state_bytes(run.plan)
    summary = collect_summary(read, dataset, limit, costs._moments_only())
    if summary.n_rows == 0 or not summary.total_weight > 0:
        raise ValueError("compress needs at least one row of positive weight in X")
    summary.require_finite(dataset)
    replan(run, partial(all_needs, costs, dataset, summary))
    sample = read.sample().chunk()
    probe = run.restore("original")
    if probe is None:
        probe = _probe(sample, answers)
        run.commit("original", probe)
    else:
        _check_original(answers, probe, checkpoint)
    weight = sample.n_rows if sample.weight is None else float(sample.weight.sum())
    whole = weight >= summary.total_weight * (1 - 1e-12)
    sample.y = answers(sample.X)
    shift = np.array([rounded_number(mean) for mean in sample.target.mean(axis=0)])
    scale = scale_for(model, summary.columns)
    similarity = similarity_for(model, summary.columns, scale)
    problem = Problem(similarity, ridge_for(model, summary.total_weight), 0, shift, scale=scale)
    rows = SampleObjective.of_chunk(problem, sample)
    reading: Recording = run
    source: Source | None = answered(dataset, answers)
    if whole:
        reading, source = _InMemory(run, sample), None
    elif scratch_allowed():
        source, _ = run.cache(source, in_memory=False, name="answers")
    model._keep(problem, model._search(reading, source, rows, whole, None))
    certificate = model._finish(reading, source, rows, whole)
    classify = hasattr(model, "classes_")
    model.deviation_ = reading.fold(deviation_fold(model, classify), source, name="deviation")
    conclude(model, run, certificate)
    return probe


def _weighed(
    model: SuperSparseClassifier | SuperSparseRegressor,
    run: Run,
    dataset: Dataset,
    answers: Answers,
) -> Dataset:
    """The rows with the weights that `class_weight` gives them, from which the run reads now."""
    class_weight = getattr(model, "class_weight", None)
    if class_weight is None:
        return dataset
    if len(column_blocks(dataset, summary_state_bytes(run.plan), True)) > 1:
        raise ValueError(
            f"class_weight={class_weight!r} needs the answers to all {dataset.n_features} columns "
            "at once, which the summary reads in blocks; raise memory_budget, or give weights"
        )
    n_classes = len(model.classes_)
    counts = np.ones(n_classes)
    if class_weight == "balanced":
        counts = run.restore("class-weights")
        if counts is None:
            counts = run.fold(counts_fold(answers, n_classes), dataset, name="class-weights")
            run.commit("class-weights", counts)
    there = counts > 0
    factors = np.ones(n_classes)
    factors[there] = class_factors(class_weight, model.classes_[there], counts[there])
    weighed = dataset.reweighed(partial(weigh_answers, answers, factors))
    run.read_from(weighed)
    return weighed


def _probe(sample: Chunk, answers: Answers) -> _Probe:
    n_rows = max(1, min(PROBE_ROWS, PROBE_NBYTES // (8 * sample.X.shape[1])))
    X = sample.take(np.arange(min(n_rows, sample.n_rows))).X
    return _Probe(X, answers(X))


def _check_original(answers: Answers, probe: _Probe, place: str | os.PathLike[str] | None) -> None:
    """Refuse a checkpoint of another model, which is recognised by its answers."""
    now = answers(probe.X)
    if now.shape == probe.answers.shape and np.allclose(now, probe.answers, rtol=1e-6, atol=1e-9):
        return
    raise CheckpointError(
        f"checkpoint {place} belongs to another model: the one given answers otherwise on the "
        f"{len(now)} rows that are stored to tell; use another folder, or remove this one to start "
        "anew"
    )


class _InMemory:
    """Reads of rows that are all in the sample, without a pass over the data."""

    def __init__(self, run: Run, sample: Chunk) -> None:
        self._sample, self.record = sample, run.record

    def fold(self, fold: Fold[State, Result], source: Source | None = None, *, name: str) -> Result:
        return run_fold(fold, [self._sample])


class Deviation(NamedTuple):
    """The difference of a compressed model from its original, over some rows."""

    agreement: float
    """Share of rows that both give the same class; 1 for regressors."""
    rms: float
    """Root of the mean squared difference of the decisions."""
    largest: float
    """Largest difference of a decision."""
    weight: float
    """Sum of the rows' weights; without weights their number."""


def deviation_fold(
    model: SuperSparseClassifier | SuperSparseRegressor, classify: bool
) -> Fold[np.ndarray, Deviation]:
    """Fold of the `Deviation` of a fitted model from ``chunk.y``, the original's decisions."""
    return Fold(partial(np.zeros, 4), partial(_compare, model, classify), _add, _share)


def _compare(
    model: SuperSparseClassifier | SuperSparseRegressor,
    classify: bool,
    sums: np.ndarray,
    chunk: Chunk,
) -> np.ndarray:
    if not chunk.n_rows:
        return sums
    mine = model._decision_chunk(chunk)
    theirs = chunk.target.reshape(mine.shape)
    u = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    same = np.ones(chunk.n_rows, bool)
    if classify:
        both = [d > 0 if d.ndim == 1 else d.argmax(axis=1) for d in (mine, theirs)]
        same = both[0] == both[1]
    off = np.abs(mine - theirs)
    squares = off**2 if off.ndim == 1 else (off**2).sum(axis=1)
    largest = off[u > 0].max(initial=0.0)
    return _add(sums, np.array([u.sum(), u @ same, u @ squares, largest]))


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = a + b
    out[3] = max(a[3], b[3])
    return out


def _share(sums: np.ndarray) -> Deviation:
    weight, same, squares, largest = sums.tolist()
    total = max(weight, np.finfo(np.float64).tiny)
    return Deviation(same / total, float(np.sqrt(squares / total)), largest, weight)
