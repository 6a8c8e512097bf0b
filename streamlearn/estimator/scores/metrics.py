"""Scores of predictions by name, each a sum over rows that any number of readers may share.

Names and formulas are those of scikit-learn; ``neg_`` before a loss makes greater better.  A name
may carry a number: ``mean_pinball_loss(0.9)``, ``mean_tweedie_deviance(1.5)``, ``lift(2)``, or
``mean_negative_binomial_deviance(0.5)`` and its D2, which scikit-learn lacks.

Metrics that rank rows keep at most 8,192 different scores apart (`passes.score_groups`): they are
exact up to there, and beyond are known to within an error that is warned of where it is above
`LARGEST_ERROR`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...data.source import Chunk
from ...numeric.ranking import Ranked, area_under_roc, average_precision, lift
from ...passes.score_groups import STATE_BYTES, ScoreGroups, grouped_scores, merge_groups
from ..model import Model
from ..restored import n_outputs, output_labels
from ..row_size import NUMBER_BYTES, decision_bytes, label_bytes, probability_bytes
from ..rows.targets import encode
from .deviances import (
    Deviance,
    explained_sums,
    merge_explained,
    negative_binomial,
    positive,
    share_explained,
    tweedie,
)

LARGEST_ERROR = 1e-3
"""Error of a ranking metric, from rows that were not told apart, that is let pass in silence."""

Sums = Any
"""Sums that a metric adds up: an array, or `ScoreGroups` of each class."""


class Scored(Protocol):
    """The attributes of a fitted model that metrics look at."""

    classes_: np.ndarray
    loss: object
    quantile: float | Sequence[float]
    power: float
    dispersion: float

    def _top(self, decision: np.ndarray) -> np.ndarray: ...
    def _probability(self, decision: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Metric:
    """A score as sums over rows."""

    sums: Callable[[Scored, Chunk, np.ndarray, np.ndarray], Sums]
    """(model, chunk, decisions, weights) -> sums of this chunk."""
    finish: Callable[[Sums], float]
    """The score, from the sums of all rows; NaN if these rows do not define it."""
    merge: Callable[[Sums, Sums], Sums] = np.add
    classifies: bool = True
    of_probabilities: bool = False
    of_two_classes: bool = False
    ranks: bool = False
    """Whether the sums are `ScoreGroups`, one for each class that is ranked."""
    copies: int = 2
    """Numbers for each prediction of a row, beside it, while that is judged."""

    def state_bytes(self, n_classes: int) -> int:
        """Bytes of the sums, at most."""
        return (1 if n_classes < 3 else n_classes) * STATE_BYTES if self.ranks else 64

    def row_bytes(self, model: object) -> float:
        """Bytes of a row beside its decisions while it is judged."""
        if not self.classifies:
            return self.copies * decision_bytes(model)
        if self.of_probabilities:
            return NUMBER_BYTES + probability_bytes(model)
        several = n_outputs(model) > 1
        if not self.ranks:  # codes of labels, which are looked up among several classes
            return NUMBER_BYTES + max(label_bytes(model), NUMBER_BYTES * (3 if several else 2))
        # orders, and what is sorted by them
        sorts = 10 * NUMBER_BYTES + several * decision_bytes(model)
        return NUMBER_BYTES + max(sorts, several * probability_bytes(model))


class _Deviances(NamedTuple):
    """Deviances with a parameter, which a loss has too."""

    deviance: Deviance
    loss: str
    parameter: str
    example: float
    least: float
    """Smallest value of the parameter; 0 is excluded."""

    def check(self, what: str, given: float | None) -> None:
        """Refuse a parameter outside its range; `what`: "mean" or "d2"."""
        if given is not None and not (given >= self.least and given > 0):
            noun = "deviance" if what == "mean" else "score"
            least = f"of at least {self.least:g}" if self.least else "above 0"
            raise ValueError(
                f"{what}_{self.loss}_{noun}({given:g}) needs a {self.parameter} {least}"
            )


TWEEDIE = _Deviances(tweedie, "tweedie", "power", 1.5, 1.0)
NEGATIVE_BINOMIAL = _Deviances(negative_binomial, "negative_binomial", "dispersion", 0.5, 0.0)

# Classes.


def _codes(model: Scored, chunk: Chunk, what: str) -> np.ndarray:
    """(m,) codes of the labels, each of which must be one of the model's classes."""
    codes = encode(chunk.target, model.classes_).astype(np.intp)
    if (codes < 0).any():
        label = chunk.target[codes < 0].tolist()[0]
        raise ValueError(
            f"{what}: label {label!r} was not in the training data, so it has no probability; "
            "leave its rows out or score accuracy"
        )
    return codes


def _correct(model: Scored, chunk: Chunk, decision: np.ndarray, weight: np.ndarray) -> np.ndarray:
    right = encode(chunk.target, model.classes_) == model._top(decision)
    return np.array([weight[right].sum(), weight.sum()])


def _log_loss(model: Scored, chunk: Chunk, decision: np.ndarray, weight: np.ndarray) -> np.ndarray:
    codes = _codes(model, chunk, "log loss")
    p = model._probability(decision)[np.arange(len(codes)), codes]
    return np.array([-weight @ np.log(np.maximum(p, np.finfo(np.float64).eps)), weight.sum()])


def _brier(model: Scored, chunk: Chunk, decision: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Two classes: (p - y)^2 of the second; more: its sum over the classes."""
    codes = _codes(model, chunk, "Brier score")
    error = model._probability(decision).copy()
    error[np.arange(len(codes)), codes] -= 1.0
    each = np.einsum("ij,ij->i", error, error)
    return np.array([weight @ each * (0.5 if error.shape[1] == 2 else 1.0), weight.sum()])


def _ranks(
    model: Scored, chunk: Chunk, decision: np.ndarray, weight: np.ndarray
) -> tuple[ScoreGroups, ...]:
    """Rows by decision; of several classes by the probability, or decision, of each."""
    codes = _codes(model, chunk, "a ranking")
    if decision.ndim == 1:
        return (grouped_scores(decision, codes == 1, weight),)
    scores = model._probability(decision) if hasattr(model, "predict_proba") else decision
    return tuple(grouped_scores(s, codes == k, weight) for k, s in enumerate(scores.T))


def _merge_ranks(a: tuple[ScoreGroups, ...], b: tuple[ScoreGroups, ...]) -> tuple[ScoreGroups, ...]:
    return tuple(merge_groups(x, y) for x, y in zip(a, b, strict=True))


def _mean_rank(
    measure: Callable[[np.ndarray, np.ndarray], Ranked], name: str, sums: tuple[ScoreGroups, ...]
) -> float:
    """The mean over the classes that are ranked; a warning if it is known too roughly."""
    found = [measure(groups.positive, groups.negative) for groups in sums]
    inexact = [g.dropped > 0 for g in sums]
    error = float(np.mean([r.error if e else 0.0 for r, e in zip(found, inexact, strict=True)]))
    value = float(np.mean([r.value for r in found]))
    if error > LARGEST_ERROR:
        warnings.warn(
            f"{name} is {value:.6g} to within {error:.2g}: scores that differ by less than about "
            "one part in "
            f"{2.0 ** (52 - max(g.dropped for g in sums)):.3g} were not told apart; score fewer "
            "rows for an exact value",
            UserWarning,
            stacklevel=2,
        )
    return value


# Numbers.


def _squared_error(
    model: Scored, chunk: Chunk, decision: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    return np.array([weight @ (chunk.target - decision) ** 2, weight.sum()])


def _absolute_error(
    model: Scored, chunk: Chunk, decision: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    return np.array([weight @ np.abs(chunk.target - decision), weight.sum()])


def _pinball(
    quantile: float | None, model: Scored, chunk: Chunk, decision: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """The pinball loss at `quantile`; None: at the model's own quantile, or else at the median.

    Of a model of several quantiles the mean over them.
    """
    own: float | Sequence[float] = 0.5 if quantile is None else quantile
    if quantile is None and getattr(model, "loss", None) == "quantile":
        own = model.quantile
    q, rest = np.atleast_1d(own), chunk.target[:, None] - decision.reshape(len(decision), -1)
    each = np.where(rest > 0, q * rest, (q - 1.0) * rest).mean(axis=1)
    return np.array([weight @ each, weight.sum()])


def _deviance(
    kind: _Deviances,
    parameter: float | None,
    explains: bool,
    model: Scored,
    chunk: Chunk,
    decision: np.ndarray,
    weight: np.ndarray,
) -> np.ndarray:
    """The deviances of a parameter, None: the model's own; `explains`: beside those of the mean."""
    own: float = getattr(model, kind.parameter) if parameter is None else parameter
    of, zeros = f"a deviance of {kind.parameter} {own:g}", kind.deviance is not tweedie or own < 2
    y, mean, weight = positive(of, zeros, chunk, decision, weight)
    if explains:
        return explained_sums(kind.deviance, own, y, mean, weight)
    return np.array([weight @ kind.deviance(own, y, mean), weight.sum()])


def _explained(model: Scored, chunk: Chunk, decision: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weight, mean and scatter of y, and the squared error."""
    total = weight.sum()
    mean = weight @ chunk.target / total if total else 0.0
    scatter = weight @ (chunk.target - mean) ** 2
    return np.array([total, mean, scatter, weight @ (chunk.target - decision) ** 2])


def _merge_explained(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Chan, Golub & LeVeque 1983."""
    total = a[0] + b[0]
    if total == 0:
        return a
    shift = b[1] - a[1]
    mean = a[1] + shift * (b[0] / total)
    return np.array([total, mean, a[2] + b[2] + shift**2 * (a[0] * b[0] / total), a[3] + b[3]])


def _r2(sums: np.ndarray) -> float:
    _, _, scatter, error = sums
    if scatter == 0:  # as scikit-learn: a constant target is explained, or not at all
        return 1.0 if error == 0 else 0.0
    return float(1 - error / scatter)


def _mean(sums: np.ndarray) -> float:
    return float(sums[0] / sums[1])


def _negative(finish: Callable[[Sums], float], sums: Sums) -> float:
    return -finish(sums)


def _ranking(
    name: str,
    measure: Callable[[np.ndarray, np.ndarray], Ranked],
    *,
    of_two_classes: bool = False,
) -> Metric:
    return Metric(
        _ranks,
        partial(_mean_rank, measure, name),
        _merge_ranks,
        of_two_classes=of_two_classes,
        ranks=True,
    )


def _pinball_at(quantile: float | None) -> Metric:
    if quantile is not None and not 0 < quantile < 1:
        raise ValueError(f"mean_pinball_loss({quantile:g}) needs a quantile between 0 and 1")
    return Metric(partial(_pinball, quantile), _mean, classifies=False, copies=5)


def _mean_deviance(kind: _Deviances, parameter: float | None) -> Metric:
    kind.check("mean", parameter)
    return Metric(partial(_deviance, kind, parameter, False), _mean, classifies=False, copies=6)


def _explained_deviance(kind: _Deviances, parameter: float | None) -> Metric:
    kind.check("d2", parameter)
    return Metric(
        partial(_deviance, kind, parameter, True),
        share_explained,
        partial(merge_explained, kind.deviance),
        classifies=False,
        copies=8,
    )


def _lift_of(part: float | None) -> Metric:
    part = 1 if part is None else part
    if part not in range(1, 11):
        raise ValueError(f"lift({part:g}) needs a tenth of the rows, from 1 (highest) to 10")
    return _ranking(f"lift({part:g})", partial(lift, part=int(part)), of_two_classes=True)


GAINS: dict[str, Metric] = {
    "accuracy": Metric(_correct, _mean),
    "roc_auc": _ranking("roc_auc", area_under_roc),
    "average_precision": _ranking("average_precision", average_precision),
    "r2": Metric(_explained, _r2, _merge_explained, classifies=False),
}
LOSSES: dict[str, Metric] = {
    "log_loss": Metric(_log_loss, _mean, of_probabilities=True),
    "brier_score": Metric(_brier, _mean, of_probabilities=True),
    "mean_squared_error": Metric(_squared_error, _mean, classifies=False),
    "mean_absolute_error": Metric(_absolute_error, _mean, classifies=False),
    "mean_poisson_deviance": _mean_deviance(TWEEDIE, 1.0),
    "mean_gamma_deviance": _mean_deviance(TWEEDIE, 2.0),
}
NUMBERED: dict[str, Callable[[float | None], Metric]] = {
    "lift": _lift_of,
    "mean_pinball_loss": _pinball_at,
    "d2_tweedie_score": partial(_explained_deviance, TWEEDIE),
    "d2_negative_binomial_score": partial(_explained_deviance, NEGATIVE_BINOMIAL),
    "mean_tweedie_deviance": partial(_mean_deviance, TWEEDIE),
    "mean_negative_binomial_deviance": partial(_mean_deviance, NEGATIVE_BINOMIAL),
}
"""Metrics of a number, which may stand in brackets: a tenth of the rows, a quantile, a power, a
dispersion."""
OF_QUANTILES = "mean_pinball_loss"
"""The metric of a model of several quantiles, with its own levels."""
NUMBERED_LOSSES = (
    OF_QUANTILES,
    "mean_tweedie_deviance",
    "mean_negative_binomial_deviance",
)
OF_LOSSES = {
    "d2_tweedie_score": TWEEDIE,
    "d2_negative_binomial_score": NEGATIVE_BINOMIAL,
    "mean_tweedie_deviance": TWEEDIE,
    "mean_negative_binomial_deviance": NEGATIVE_BINOMIAL,
}
"""Metrics whose number, where none is given, is a parameter of the model's loss."""
NAMES = (
    *GAINS,
    "lift",
    "d2_tweedie_score",
    "d2_negative_binomial_score",
    *(f"{sign}{name}" for name in (*LOSSES, *NUMBERED_LOSSES) for sign in ("", "neg_")),
)
"""All names, without their numbers."""
_NUMBER = re.compile(r"(?P<name>\w+)\((?P<number>\d+(\.\d+)?(e[+-]?\d+)?)\)")


def find_metric(name: str) -> Metric:
    """The metric of a name."""
    found = _NUMBER.fullmatch(name)
    plain, number = (found["name"], float(found["number"])) if found else (name, None)
    if plain not in NAMES or (number is not None and plain.removeprefix("neg_") not in NUMBERED):
        raise ValueError(f"scoring={name!r} is not known; use one of {', '.join(NAMES)}")
    own = plain.removeprefix("neg_")
    if own in NUMBERED:
        metric = NUMBERED[own](number)
    else:
        metric = GAINS.get(own) or LOSSES[own]
    if own == plain:
        return metric
    return replace(metric, finish=partial(_negative, metric.finish))


def is_loss(name: str) -> bool:
    """Whether a metric is smaller for better models."""
    return name.split("(")[0] in (*LOSSES, *NUMBERED_LOSSES)


def check_metric(model: Model, name: str) -> None:
    """Refuse a metric that is unknown or does not fit the model."""
    metric = find_metric(name)
    classifies = model.__sklearn_tags__().estimator_type == "classifier"
    if metric.classifies != classifies:
        fitting = [key for key in NAMES if find_metric(key).classifies == classifies]
        raise ValueError(
            f"scoring={name!r} does not fit {type(model).__name__}; use one of {', '.join(fitting)}"
        )
    if metric.of_probabilities:
        model._check_probability()
    if metric.of_two_classes and len(getattr(model, "classes_", (0, 1))) > 2:
        raise ValueError(
            f"scoring={name!r} is about two classes, and this model has {len(model.classes_)}; use "
            "roc_auc or average_precision, which are means over the classes"
        )
    if not classifies and n_outputs(model) > 1 and name.removeprefix("neg_") != OF_QUANTILES:
        raise ValueError(
            f"scoring={name!r} is of one prediction a row, and this model has one for each of the "
            f"quantiles {output_labels(model)}; use '{OF_QUANTILES}', their mean, or "
            f"'neg_{OF_QUANTILES}'"
        )
    if name.removeprefix("neg_") in OF_LOSSES:
        kind = OF_LOSSES[name.removeprefix("neg_")]
        if getattr(model, "loss", None) != kind.loss:
            raise ValueError(
                f"scoring={name!r} takes the {kind.parameter} of loss={kind.loss!r}, which "
                f"{type(model).__name__} was not given; name it: '{name}({kind.example})'"
            )


def check_gain(model: Model, name: str) -> None:
    """Refuse a metric by which models cannot be chosen."""
    check_metric(model, name)
    if is_loss(name):
        raise ValueError(f"scoring must be greater for better models; use 'neg_{name}'")
