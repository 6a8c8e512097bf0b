"""Any fitted model as a few prototypes: regression on its own answers, on any number of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.source import Chunk, Csr, Ref, SourceReader
from ..engine.plan import Needs
from ..engine.run import Run
from ..engine.scratch import scratch_allowed
from ..engine.settle import settled
from ..estimator.certificate import warn_unless_converged
from ..estimator.fitting import conclude, replan
from ..estimator.inputs import is_named, open_data
from ..estimator.planning import plan_fit, summary_state_bytes
from ..passes.fold import Fold, run_fold
from ..passes.sample import SampledRead
from ..passes.summary import collect_summary
from .estimators import SuperSparseClassifier, SuperSparseRegressor
from .model import settled_number, similarity_for
from .prototypes import Problem
from .sample import SampleObjective


class Deviation(NamedTuple):
    """How a compressed model differs from its original, over rows."""

    agreement: float
    """Share of rows that both give the same class; 1 for regressors."""
    rms: float
    """Root of the mean squared difference of the decisions."""
    largest: float
    """Largest difference of a decision."""
    weight: float
    """Sum of the rows' weights; without weights their number."""


def compress(
    estimator: Any,
    X: Any,
    n_prototypes: int,
    *,
    similarity: Any = "rbf",
    gamma: Any = "scale",
    degree: int = 3,
    coef0: float = 1.0,
    ridge: float = 1e-6,
    repulsion: float = 0.0,
    init: Any = "rows",
    neighbours: Any = None,
    schedule: str = "all",
    n_passes: int = 20,
    tol: float = 1e-3,
    random_state: int = 0,
) -> SuperSparseClassifier | SuperSparseRegressor:
    """A super-sparse model that answers as a fitted one does (Biggio 2015, section III).

    The targets are the estimator's own decisions, so no labels are needed and any rows will do: the
    more like those to come, the better.  Rows that fit the sample are read once; else one read
    evaluates the estimator and keeps its answers in scratch, so that it is not evaluated again
    (without scratch it is, in each read), and the search reads a few times more.

    Parameters
    ----------
    estimator : fitted classifier or regressor
        With `decision_function`, or `predict_proba` (two classes: 2p - 1), or a regressor's
        `predict`.  Of scikit-learn, of this package, or of the same form.
    X : array-like, frame, sparse matrix, dask collection, path or Dataset
        Unlabelled rows; a target column of a Dataset is left unread.
    n_prototypes : int
    similarity, gamma, degree, coef0, ridge, repulsion, init, neighbours, schedule, n_passes, \
tol, random_state
        As in `SuperSparseRegressor`.  ``gamma="scale"`` is what an `SVC` fitted to the same rows
        uses by default.

    Returns
    -------
    SuperSparseClassifier or SuperSparseRegressor
        Fitted, without probabilities, with one attribute more: `deviation_`, a NamedTuple of
        ``agreement``, ``rms``, ``largest`` and ``weight``.

    Raises
    ------
    TypeError
        If the estimator has no numbers to regress on.
    NotFittedError
        If it is not fitted.

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
    kind = SuperSparseRegressor
    parameters: dict[str, Any] = {}
    if hasattr(estimator, "classes_"):
        kind, parameters = SuperSparseClassifier, {"loss": "squared_error"}
    model = kind(
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
        **parameters,
    )
    model._validate_params()
    if hasattr(estimator, "classes_"):
        model.classes_ = np.asarray(estimator.classes_)
    answers = answers_of(estimator)
    with settled(replace(open_data(X), target=None)) as dataset:
        dataset = _with_features_of(estimator, dataset, model)
        costs = _Costs(model, dataset)
        run = Run(dataset, plan_fit(costs, dataset), name="compress", identity={})
        with run:
            _fit(model, run, dataset, answers, costs)
    warn_unless_converged("compress", model.certificate_)
    return model


class _Costs(NamedTuple):
    """What `plan_fit` asks of a model, with the answers that are kept."""

    model: Any
    dataset: Any

    def _needs(self, dataset: Any, summary: Any = None) -> list[Needs]:
        T = self.model._n_targets()
        row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1) + 8 * T + 16
        spooled = 0 if self._sample_rows(dataset) >= dataset.n_physical_rows else row
        (own,) = self.model._needs(dataset, summary)
        kept = spooled if scratch_allowed() else 0
        return [
            replace(own, step_bytes_per_row=own.step_bytes_per_row + row + 16 * T),
            Needs("answers", 0, 2 * row + 16 * T, scratch_bytes_per_row=kept, passes=(0, 1)),
        ]

    def _moments_only(self) -> bool:
        return False

    def _sample_rows(self, dataset: Any) -> int:
        return self.model._sample_rows(dataset)


def _fit(model: Any, run: Run, dataset: Any, answers: Callable, costs: _Costs) -> None:
    """Summary and sample, answers, search, and what the outcome differs by."""
    read = SampledRead(run.fold, model._sample_rows(dataset), model.random_state)
    summary = collect_summary(read, dataset, summary_state_bytes(run.plan))
    if summary.n_rows == 0 or not summary.total_weight > 0:
        raise ValueError("compress needs at least one row of positive weight in X")
    summary.require_finite(lambda row: dataset.store.place(row, row + 1))
    replan(run, costs._needs(dataset, summary))
    sample = read.sample().chunk()
    weight = sample.n_rows if sample.weight is None else float(sample.weight.sum())
    whole = weight >= summary.total_weight * (1 - 1e-12)
    sample.y = answers(sample.X)
    shift = np.array([settled_number(mean) for mean in sample.y.mean(axis=0)])
    model.similarity_ = similarity_for(model, summary.columns)
    problem = Problem(model.similarity_, float(model.ridge), 0, shift)
    rows = SampleObjective.of_chunk(problem, sample)
    reading: Any = run
    source: Any = AnsweredSource(dataset, answers)
    if whole:
        reading, source = _InMemory(run, sample), None
    elif scratch_allowed():
        source, _ = run.spool(
            source,
            _as_it_is,
            n_columns=dataset.n_features,
            dtype=dataset.dtype,
            layout="rows",
            name="answers",
        )
    model._keep(problem, model._search(reading, source, rows, whole, None))
    certificate = model._finish(reading, source, rows, whole)
    classify = hasattr(model, "classes_")
    model.deviation_ = reading.fold(deviation_fold(model, classify), source, name="deviation")
    conclude(model, run, certificate)


def _as_it_is(chunk: Chunk) -> Chunk:
    return chunk


class _InMemory:
    """Reads of rows that are all in the sample: no pass over the data."""

    def __init__(self, run: Run, sample: Chunk) -> None:
        self._sample, self.record = sample, run.record

    def fold(self, fold: Fold, source: Any = None, *, name: str) -> Any:
        return run_fold(fold, [self._sample])


def deviation_fold(model: Any, classify: bool) -> Fold[np.ndarray, Deviation]:
    """Fold: the `Deviation` of a fitted model from ``chunk.y``, the original's decisions."""
    return Fold(partial(np.zeros, 4), partial(_compare, model, classify), _add, _share)


def _compare(model: Any, classify: bool, sums: np.ndarray, chunk: Chunk) -> np.ndarray:
    if not chunk.n_rows:
        return sums
    mine = model._decision_chunk(chunk)
    theirs = chunk.y.reshape(mine.shape)
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


def answers_of(estimator: Any) -> Callable[[Any], np.ndarray]:
    """A function of rows that gives the estimator's decisions as (n, T) float64."""
    if hasattr(estimator, "classes_"):
        for method in ("decision_function", "predict_proba"):
            if hasattr(estimator, method):
                return partial(_answer, estimator, method, len(estimator.classes_))
        raise TypeError(
            f"{type(estimator).__name__} has neither decision_function nor predict_proba: there "
            "are no numbers to regress on; fit it with probabilities, or use another model"
        )
    if not hasattr(estimator, "predict"):
        raise TypeError(f"{type(estimator).__name__} has no predict; compress needs a predictor")
    return partial(_answer, estimator, "predict", 0)


def _answer(estimator: Any, method: str, n_classes: int, X: Any) -> np.ndarray:
    if isinstance(X, Csr):
        from scipy.sparse import csr_matrix

        X = csr_matrix((X.data, X.indices, X.indptr), X.shape)
    with warnings.catch_warnings():
        # rows come by number here; their columns were put in the estimator's order beforehand
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        out = np.asarray(getattr(estimator, method)(X), np.float64)
    if method == "predict_proba" and n_classes == 2:
        out = 2.0 * out[:, 1] - 1.0
    out = out.reshape(X.shape[0], -1)
    wanted = 1 if n_classes == 2 else n_classes
    if n_classes and out.shape[1] != wanted:
        raise TypeError(
            f"{type(estimator).__name__}.{method} gives {out.shape[1]} columns for {n_classes} "
            "classes; compress needs one for each class (decision_function_shape='ovr')"
        )
    if not n_classes and out.shape[1] != 1:
        raise TypeError(
            f"{type(estimator).__name__}.predict gives {out.shape[1]} columns; compress takes "
            "regressors of one target: compress each output of its own"
        )
    if not np.isfinite(out).all():
        raise ValueError(f"{type(estimator).__name__}.{method} gave values that are not finite")
    return out


def _with_features_of(estimator: Any, dataset: Any, model: Any) -> Any:
    """The columns in the estimator's order; sets the model's feature attributes."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and is_named(dataset):
        dataset = dataset.select([str(name) for name in names])
        model.feature_names_in_ = np.asarray(names, dtype=object)
    wanted = getattr(estimator, "n_features_in_", dataset.n_features)
    if dataset.n_features != wanted:
        raise ValueError(
            f"X has {dataset.n_features} features, but {type(estimator).__name__} was fitted with "
            f"{wanted}"
        )
    model.n_features_in_ = dataset.n_features
    return dataset


@dataclass(frozen=True)
class AnsweredSource:
    """A dataset whose chunks carry an estimator's answers as `y`, evaluated at each read."""

    dataset: Any
    answers: Callable[[Any], np.ndarray]

    def __getattr__(self, name: str) -> Any:
        # Only names this class lacks come here; "dataset" itself is missing while unpickling.
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def with_slice_rows(self, n_rows: int) -> AnsweredSource:
        return replace(self, dataset=self.dataset.with_slice_rows(n_rows))

    def reader(self) -> _AnsweredReader:
        return _AnsweredReader(self, self.dataset.reader())

    def partition_chunk(self, block: Any, ref: Ref) -> Chunk:
        return self.code(self.dataset.partition_chunk(block, ref))

    def code(self, chunk: Chunk) -> Chunk:
        if chunk.n_rows:
            chunk.y = self.answers(chunk.X)
        else:
            chunk.y = np.empty((0, 1))
        return chunk


class _AnsweredReader:
    """Reads chunks with answers."""

    def __init__(self, source: AnsweredSource, reader: SourceReader) -> None:
        self._source, self._reader = source, reader

    def read(self, ref: Ref) -> Chunk:
        return self._source.code(self._reader.read(ref))

    def __enter__(self) -> _AnsweredReader:
        self._reader = self._reader.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._reader.__exit__(*exc)
