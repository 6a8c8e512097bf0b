"""Measures of a model on data, in two reads of bounded memory: the summary, and sums over bins.

Rows are binned by a score s at equal steps of s / (1 + |s|): 4,096 bins, less than 0.0005 wide at
0, 0.002 at 1.  The score of a class is the log-odds of its probability, or its decision; of a
regressor the prediction, less the target's mean, in its standard deviations.  What is said of rows
is exact but for which of the rows of one bin comes first.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk, Source
from ...engine.plan import Needs
from ...engine.reads import planned_reads
from ...engine.summary import column_needs, state_limit
from ...numeric.links import logit
from ...passes.fold import Fold, nbytes_of
from ...passes.summary.reading import collect_summary, facts_nbytes
from ...passes.summary.summary import Summary
from ...passes.sums import add_sums
from .. import fitting
from ..predicting import decide
from ..restored import n_outputs, output_labels
from ..row_size import model_bytes
from ..rows.inputs import open_scored, used_columns
from ..rows.targets import coded
from .figures import Reported
from .segments import MOST_COLUMNS, MOST_VALUES, Cut, add_losses, cuts_of, empty_sums

N_BINS = 4096
CELLS = 48
"""Cells of the map of targets by predictions, along each side."""
MOST_CLASSES = 12
"""Classes that have curves and a row in the table of confusions: those of most rows."""
LARGEST = 1e300
LEAST = 1e-15
"""Probability from which the logarithm is taken, at least."""


class Sums(NamedTuple):
    """The sums of the second read, which are weights of rows or weighted sums."""

    curves: np.ndarray
    """(C, 3, bins) rows, rows of the class and probabilities, by the class's score."""
    confusion: np.ndarray
    """(C + 1, C + 1) rows by class and predicted class; last: all other classes."""
    deciles: np.ndarray
    """(4, bins) rows, losses, errors (residuals) and expectations (targets), by the prediction's
    score."""
    residuals: np.ndarray
    """(bins,) rows by residual."""
    map: np.ndarray
    """(CELLS, CELLS) rows by target and prediction."""
    segments: list[np.ndarray]


class Frame(NamedTuple):
    """The facts of the data and the model that the second read needs."""

    model: Reported
    classes: np.ndarray
    """(C,) codes of the classes that have curves."""
    has_probability: bool
    centre: float
    spread: float
    """Mean and standard deviation of a number's target."""
    cuts: list[Cut]


class Measured(NamedTuple):
    """A model on data."""

    summary: Summary
    frame: Frame
    sums: Sums


def measure(model: Reported, data: object, y: object, sample_weight: object) -> Measured:
    """Two planned reads of the data."""
    if n_outputs(model) > 1 and not hasattr(model, "classes_"):
        raise ValueError(
            f"a report on data is of one prediction a row, and this {type(model).__name__} has one "
            f"for each of the quantiles {output_labels(model)}; leave data out, or fit one quantile"
        )
    dataset = used_columns(model, open_scored(model, data, y, sample_weight))
    limit = state_limit(dataset)

    def needs(rows: Source) -> list[Needs]:
        width = len(getattr(model, "classes_", (0,)))
        most = max(MOST_VALUES + 1, *(len(words) + 1 for words in rows.levels.values()), 0)
        state = nbytes_of(_empty(min(width, MOST_CLASSES), [])) + 24 * most * MOST_COLUMNS
        each = measured_bytes(model)
        return [
            column_needs(rows, limit),
            Needs(
                "report",
                state,
                each,
                model_bytes=model_bytes(model),
                driver_bytes=2 * state,
                facts_bytes=facts_nbytes(rows),
            ),
        ]

    with planned_reads(dataset, needs, f"{type(model).__name__}-report") as (rows, reads):
        summary = collect_summary(reads.fold, rows, limit)
        missing = model._accepts_missing or model._encodes
        fitting.check_summary(dataset, summary, missing=missing)
        frame = _frame(model, summary)
        start = partial(_empty, len(frame.classes), frame.cuts)
        fold: Fold[Sums, Sums] = Fold(start, partial(_add, frame), add_sums)
        sums = reads.fold(fold, coded(rows, getattr(model, "classes_", None)), name="report")
    return Measured(summary, frame, sums)


def measured_bytes(model: object) -> int:
    """Bytes of a row while it is measured."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return 8 * 15
    # of each class decisions, probabilities, logarithms, scores; codes, errors, bins, sums
    return 8 * ((4 if hasattr(model, "predict_proba") else 1) * len(classes) + 21)


def _frame(model: Reported, summary: Summary) -> Frame:
    classes = getattr(model, "classes_", None)
    target = summary.target
    if classes is None:
        spread = float(np.sqrt(target.variance)) if target.variance > 0 else 1.0
        return Frame(model, np.empty(0, int), False, target.mean, spread, cuts_of(summary))
    chosen = np.arange(len(classes))
    if len(classes) > MOST_CLASSES and target.classes is not None:
        counts = dict(zip(target.classes.tolist(), target.counts.tolist(), strict=True))
        n = np.array([counts.get(label, 0.0) for label in classes.tolist()])
        chosen = np.sort(np.argsort(-n, kind="stable")[:MOST_CLASSES])
    has = hasattr(model, "predict_proba")
    return Frame(model, chosen, has, 0.0, 1.0, cuts_of(summary))


def _empty(n_classes: int, cuts: list[Cut]) -> Sums:
    n = n_classes + 1
    return Sums(
        curves=np.zeros((n_classes, 3, N_BINS)),
        confusion=np.zeros((n, n)),
        deciles=np.zeros((4, N_BINS)),
        residuals=np.zeros(N_BINS),
        map=np.zeros((CELLS, CELLS)),
        segments=empty_sums(cuts),
    )


def place(score: np.ndarray, n_bins: int = N_BINS) -> np.ndarray:
    """The bin of each score."""
    score = np.clip(score, -LARGEST, LARGEST)
    share = 0.5 * (1.0 + score / (1.0 + np.abs(score)))
    return np.minimum((n_bins * share).astype(np.intp), n_bins - 1)


def borders(n_bins: int = N_BINS) -> np.ndarray:
    """(n + 1,) scores between bins; infinite at both ends."""
    at = 2.0 * np.arange(n_bins + 1) / n_bins - 1.0
    with np.errstate(divide="ignore"):
        return at / (1.0 - np.abs(at))


def _add(frame: Frame, sums: Sums, chunk: Chunk) -> Sums:
    if not chunk.n_rows:
        return sums
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    decision = decide(frame.model, chunk)
    if len(frame.classes):
        loss = _add_classes(frame, sums, decision, chunk.target.astype(np.intp), weight)
    else:
        loss = _add_numbers(frame, sums, frame.model._label(decision), chunk.target, weight)
    add_losses(frame.cuts, sums.segments, chunk, loss, weight)
    return sums


def _add_classes(
    frame: Frame, sums: Sums, decision: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """The loss of each row: the log-loss, or for want of probabilities the error."""
    model, rows = frame.model, np.arange(len(y))
    top = model._top(decision)
    columns = np.column_stack([-decision, decision]) if decision.ndim == 1 else decision
    wrong = (top != y).astype(np.float64)
    if frame.has_probability:
        p = model._probability(decision)
        inside = np.clip(p, LEAST, 1.0 - 2.0**-53)
        scores, loss, expected = logit(inside), -np.log(inside[rows, y]), p[rows, top]
    else:
        p, scores, loss, expected = columns, columns, wrong, 1.0 - wrong
    for code, into in zip(frame.classes, sums.curves, strict=True):
        at = place(scores[:, code])
        for part, of_row in zip(
            into, (weight, weight * (y == code), weight * p[:, code]), strict=True
        ):
            part += np.bincount(at, of_row, N_BINS)
    n = len(frame.classes) + 1
    number = np.full(columns.shape[1], n - 1)
    number[frame.classes] = np.arange(n - 1)
    cells = number[y] * n + number[top]
    np.add(sums.confusion, np.bincount(cells, weight, n * n).reshape(n, n), sums.confusion)
    # two classes: by the probability of the second; more: by that of the class predicted
    by = scores[:, 1] if columns.shape[1] == 2 else scores[rows, top]
    target = (y == 1).astype(np.float64) if columns.shape[1] == 2 else expected
    _add_by_score(sums.deciles, by, (weight, weight * loss, weight * wrong, weight * target))
    return loss


def _add_by_score(into: np.ndarray, score: np.ndarray, parts: tuple[np.ndarray, ...]) -> None:
    at = place(score)
    for part, of_row in zip(into, parts, strict=True):
        part += np.bincount(at, of_row, N_BINS)


def _add_numbers(
    frame: Frame, sums: Sums, prediction: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """The squared error of each row."""
    residual = y - prediction
    scores = (prediction - frame.centre) / frame.spread, (y - frame.centre) / frame.spread
    parts = (weight, weight * residual**2, weight * residual, weight * y)
    _add_by_score(sums.deciles, scores[0], parts)
    own = np.bincount(place(residual / frame.spread), weight, N_BINS)
    np.add(sums.residuals, own, sums.residuals)
    cells = place(scores[1], CELLS) * CELLS + place(scores[0], CELLS)
    rows = np.bincount(cells, weight, CELLS * CELLS).reshape(CELLS, CELLS)
    np.add(sums.map, rows, sums.map)
    return residual**2


class Roc(NamedTuple):
    """A ROC curve from bins."""

    false_rate: np.ndarray
    true_rate: np.ndarray
    area: float
    error: float
    """Largest difference of `area` from the area that single rows instead of bins would give."""


def roc(curve: np.ndarray) -> Roc | None:
    """The curve of one class (3, bins); None if all rows, or none, are of the class."""
    positive, negative = curve[1][::-1], (curve[0] - curve[1])[::-1]
    n, m = positive.sum(), negative.sum()
    if not (n > 0 and m > 0):
        return None
    full = curve[0][::-1] > 0
    hits = np.concatenate([[0.0], np.cumsum(positive[full]) / n])
    alarms = np.concatenate([[0.0], np.cumsum(negative[full]) / m])
    area = float(((alarms[1:] - alarms[:-1]) * 0.5 * (hits[1:] + hits[:-1])).sum())
    return Roc(alarms, hits, area, float(0.5 * (positive @ negative) / (n * m)))


def groups(weight: np.ndarray, n_groups: int = 10) -> np.ndarray:
    """(bins,) group of each bin: runs of about equal weight."""
    before = np.cumsum(weight) - weight
    return np.minimum((n_groups * before / weight.sum()).astype(np.intp), n_groups - 1)


def grouped(sums: np.ndarray, n_groups: int = 10) -> np.ndarray:
    """(parts, groups) sums over the groups that hold rows, by the first part, the weight."""
    group = groups(sums[0], n_groups)
    out = np.array([np.bincount(group, part, n_groups) for part in sums])
    return out[:, out[0] > 0]
