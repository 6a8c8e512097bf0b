"""The scikit-learn surface every family shares, and the five methods a family supplies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from ..data.source import Source
from . import fitting, predicting
from .callbacks import CallbackSupportMixin, with_callbacks
from .certificate import more_of
from .facts import Parts, ShowsFacts, facts_of
from .report.figures import Figure
from .report.report import write_report
from .rows.inputs import is_dask
from .scores import scoring
from .scores.metrics import is_loss
from .scores.paths import FitsPaths

if TYPE_CHECKING:
    from sklearn.utils import Tags


class StreamEstimator(FitsPaths, CallbackSupportMixin, ShowsFacts, BaseEstimator):
    """An estimator trained by passes over data that need not fit in memory.

    A family is a subclass with constructor parameters, `_parameter_constraints` and five methods::

        _needs(dataset, summary=None) -> list[Needs]
            What its phases cost.  Called with metadata alone before anything is read (`summary`
            None: the least that any data can need), and again with it, when ``self.classes_`` is
            set: then the plan can only shrink the number of lanes and slices, or be refused.
        _fit(run, dataset, summary, validation=None) -> Certificate
            Reads `dataset` through `run`, sets the fitted attributes.  Chunks carry y as float64:
            codes 0..K-1 of ``self.classes_``, or the regression target.  `validation` is None or a
            source coded the same way, whose loss goes into ``run.record``.
        _decision_chunk(chunk) -> (m,) or (m, K) float64
            A classifier's decisions (two classes: (m,), positive for the second), a regressor's
            predictions, in a new array.  A pure function of fitted attributes and ``chunk.X``.
        _state() -> tree                    what `_decision_chunk` needs, as a plain tree
        _restore(tree) -> None              the inverse, on an estimator with the same parameters

    A family that is a sum of terms also has ``_explain_chunk(chunk) -> (m, p)`` or (m, p, K): what
    each adds to the decision.  One with a parameter `calibration` (None, "sigmoid" or "isotonic")
    has its decisions calibrated on held-out rows: `calibration_` is there when probabilities are
    asked for.

    Everything else is here: parameters, inputs, names, labels, plan, checkpoint, certificate,
    prediction over arrays, datasets and dask collections, scores, saving.
    """

    _parameter_constraints: dict[str, list[object]] = {}
    _later_parameters: ClassVar[dict[str, object]] = {"encoding": None, "class_weight": None}
    """Parameters that checkpoints of older versions do not have, and what they stood for."""
    _n_served: int = 0
    """Reads among `n_passes_` that one made for another fit of a cross-validation served."""
    _accepts_levels = False
    """Whether columns of categories are taken, as the numbers of their levels."""
    _encodes = False
    """Whether there is a parameter `encoding`, and chunks are the features that it makes."""

    def _store(self, arguments: dict[str, object]) -> None:
        """Keep the arguments of a constructor, its `locals()`, under their own names.

        The types of the attributes are declared in the class, for all of its subclasses once.
        """
        for name, value in arguments.items():
            if name != "self":
                setattr(self, name, value)

    @property
    def _accepts_sparse(self) -> bool:
        """Whether chunks may be `Csr`."""
        return False

    @property
    def _counts_copies(self) -> bool:
        """Whether weights all twice as large give another model, as twice as many rows would."""
        return True

    @property
    def _why_dense(self) -> str:
        """Reason for refusing sparse rows and the remedy, followed by "; "; "" says nothing."""
        return ""

    @property
    def _accepts_missing(self) -> bool:
        """Whether NaN may be among the features; `_has_level` (p,) bool then says where."""
        return False

    def _decision_row_nbytes(self, dataset: Source) -> float:
        """Bytes of a row of the dataset that `_decision_chunk` takes beside its answer."""
        return 0.0

    def _sample_rows(self, dataset: Source) -> int:
        """Rows of a seeded sample that `_fit` wants as a fifth argument, a coded `Chunk`; 0 = none.

        They are kept in memory during the summary's read, drawn by `random_state`.
        """
        return 0

    def _n_fits(self, dataset: Source) -> tuple[int, int]:
        """Fewest and most reads of one kind, such as the summary: of fits that one is made of."""
        return 1, 1

    def _remedies(self, dataset: Source) -> dict[str, object]:
        """Parameters with values, each of which helps where the fit to `dataset` stopped short."""
        return {**self._own_remedies(dataset), **more_of(self.get_params(deep=False))}

    def _own_remedies(self, dataset: Source) -> dict[str, object]:
        """Parameters with values that help in this family alone."""
        return {}

    def _moments_only(self) -> bool:
        """Whether `_fit` needs no quantiles or distinct values of columns: a smaller summary."""
        return False

    @with_callbacks
    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        validation: object = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit to rows in memory, on disk or on a cluster.

        Parameters
        ----------
        X : array-like, frame, sparse matrix, dask collection, path or Dataset
            Anything `open_dataset` takes.
        y : array-like of shape (n,) or str
            Targets, or the name of the column that holds them; not with a Dataset that has one.
        sample_weight : array-like of shape (n,) or str
            Finite weights >= 0, or the name of their column; 0 means the row is absent, k means k
            copies of it.
        validation : Dataset, (X, y) or float
            Rows whose loss is recorded after each pass; a fraction is held out by a hash of the row
            number.
        checkpoint : path
            Folder or URL where the fit keeps its progress.  Run the same line again after a kill,
            and it goes on; run it after the end, and the model is there without a read.

        Returns
        -------
        self
        """
        fitting.fit(self, X, y, sample_weight, validation=validation, checkpoint=checkpoint)
        return self

    def predict(self, X: object) -> np.ndarray:
        """Predict for each row.

        Arrays, frames, paths and Datasets give an array; a dask collection gives a lazy dask array.
        """
        return predicting.answer(self, X, "prediction")

    def predict_to(
        self,
        X: object,
        path: str | os.PathLike[str],
        what: str = "prediction",
        *,
        overwrite: bool = False,
    ) -> None:
        """Write an answer for each row to a folder of parts, in row order.

        Parameters
        ----------
        X : anything `predict` takes
        path : path or URL
            ``*.zarr`` gives zarr, anything else a folder of parquet files; complete when it holds
            ``_SUCCESS``.
        what : {"prediction", "decision", "probability", "explanation", "deviation", "uncertainty"}
            "deviation": standard deviations, of a model that knows its covariance; "uncertainty":
            predictions and their deviations in two columns, of such a regressor.
        overwrite : bool
            An existing target is refused unless this is True.
        """
        predicting.write_answers(self, X, path, what, overwrite=overwrite)

    def score(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        metric: str | None = None,
    ) -> float:
        """Accuracy of a classifier, R^2 of a regressor, or a metric by name, in one read.

        Of several quantiles it is minus their mean pinball loss, the one metric that they have.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        metric : str, optional
            Classifiers: ``"accuracy"``, ``"roc_auc"``, ``"average_precision"``, ``"log_loss"``,
            ``"brier_score"``, or ``"lift(1)"`` to ``"lift(10)"``: the frequency of the second class
            in a tenth of the rows, the first being the tenth of highest decisions, over that in all
            rows.  Regressors: ``"r2"``, ``"mean_squared_error"``, ``"mean_absolute_error"``,
            ``"mean_pinball_loss(0.9)"``, ``"mean_poisson_deviance"``, ``"mean_gamma_deviance"``,
            ``"mean_tweedie_deviance(1.5)"`` or ``"mean_negative_binomial_deviance(0.5)"``.
            Of both the share explained: ``"d2_tweedie_score(1.5)"`` and
            ``"d2_negative_binomial_score(0.5)"``.
            With ``neg_`` before a loss, greater is better.  Several classes are ranked one against
            the rest, and the mean taken.  Rankings are exact up to 8,192 different scores; beyond,
            a warning tells their error where it is above 0.001.
        """
        own = scoring.suitable_metrics(self)[0]
        name = metric or (f"neg_{own}" if is_loss(own) else own)
        return scoring.evaluate(self, X, y, sample_weight, scoring=(name,))[name]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._accepts_sparse
        tags.input_tags.allow_nan = self._accepts_missing or self._encodes
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "certificate_")

    def _facts(self) -> list[tuple[str, str]]:
        return facts_of(self)

    def _parts(self) -> Parts:
        """The parts of the fitted model, with sizes; none for a family without parts."""
        return Parts("", "", [])

    def _figures(self) -> tuple[str, Sequence[Figure]]:
        """A sentence about the pictures of the fitted model in the report, and the pictures."""
        return "", []

    def report(
        self,
        data: object = None,
        y: object = None,
        sample_weight: object = None,
        *,
        output: str | os.PathLike[str] | None = None,
    ) -> str:
        """Show the fitted model on one HTML page that needs nothing from elsewhere.

        The facts and the certificate, how the fit went, what the model consists of and pictures of
        what it learned.  With `data`, in two reads within the memory budget: what is in the rows,
        scores, ROC and calibration or residuals, errors by decile, and the segments of one column
        on which the mean loss is worst.

        Parameters
        ----------
        data : anything `score` takes, optional
            Rows with their target, best those that the fit has not seen.
        y, sample_weight : as in `fit`
        output : path, optional
            File for the page; one that exists is replaced.

        Returns
        -------
        str
            The path of the file, or without `output` the page itself.
        """
        return write_report(self, data, y, sample_weight, output)

    def _label(self, decision: np.ndarray) -> np.ndarray:
        """Predictions from what `_decision_chunk` returned."""
        return decision


def _has_probability(model: StreamClassifier) -> bool:
    """Raise what `hasattr` understands unless this model gives probabilities."""
    model._check_probability()
    return True


class StreamClassifier(ClassifierMixin, StreamEstimator):
    """A `StreamEstimator` for classes; targets may be numbers or strings.

    Families with probabilities override `_probability(decision) -> (m, K)`, and
    `_check_probability` to raise AttributeError (with the reason) where parameters rule them out.
    """

    def decision_function(self, X: object) -> np.ndarray:
        """Decision values: (n,) for two classes, positive for ``classes_[1]``; else (n, K)."""
        return predicting.answer(self, X, "decision")

    @available_if(_has_probability)
    def predict_proba(self, X: object) -> np.ndarray:
        """Probability of each class, columns in the order of ``classes_``."""
        return predicting.answer(self, X, "probability")

    @available_if(_has_probability)
    def predict_log_proba(self, X: object) -> np.ndarray:
        """Logarithm of `predict_proba`: -inf where a probability is 0; lazy for dask."""
        probability = predicting.answer(self, X, "probability")
        if is_dask(probability):
            return probability.map_blocks(_log)
        return _log(probability, out=probability)  # the plan has room for one answer

    def _check_probability(self) -> None:
        raise AttributeError(f"{type(self).__name__} has no probabilities; use decision_function")

    def _label(self, decision: np.ndarray) -> np.ndarray:
        labels: np.ndarray = self.classes_[self._top(decision)]
        return labels

    def _top(self, decision: np.ndarray) -> np.ndarray:
        """(m,) codes of the classes predicted; by the probabilities if they were calibrated."""
        if getattr(self, "calibration_", None) is not None:
            return self.calibration_.probability(decision).argmax(axis=1)
        return (decision > 0).astype(np.intp) if decision.ndim == 1 else decision.argmax(axis=1)

    score = StreamEstimator.score  # the mixin's would predict all rows at once


def _log(probability: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probability, out=out)


class StreamRegressor(RegressorMixin, StreamEstimator):
    """A `StreamEstimator` for real targets."""

    score = StreamEstimator.score  # the mixin's would predict all rows at once
