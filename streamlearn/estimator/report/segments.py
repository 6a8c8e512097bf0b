"""Segments of the rows that a person can name: a bin, a value or a level of one column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk, Csr
from ...passes.summary.facts import ColumnSummary
from ...passes.summary.summary import Summary
from .svg import number

MOST_COLUMNS = 200
"""Columns that are cut into segments, the first ones of the table."""
MOST_VALUES = 20
"""Values that are segments of their own; a column of more is cut at its deciles."""
FEWEST_ROWS, FEWEST_SHARE = 30.0, 0.005
"""Weight of a segment that is shown: of fewer rows a mean loss says little."""
MOST_SHOWN = 12
ERRORS = 2.0
"""Standard errors by which a segment's mean loss must exceed that of all rows."""


class Cut(NamedTuple):
    """Segments of one column's values; a missing value lies in the last."""

    column: str
    points: np.ndarray
    """Ascending: the values, or the borders between bins."""
    by_value: bool
    names: Sequence[str]
    """Condition that the rows of each segment meet, in words."""

    def places(self, x: np.ndarray) -> np.ndarray:
        """(m,) segment of each value."""
        if self.by_value:
            at = np.minimum(np.searchsorted(self.points, x), len(self.points) - 1)
        else:
            at = np.searchsorted(self.points, x, side="right")
        return np.where(np.isnan(x), len(self.names) - 1, at)


class Segment(NamedTuple):
    """Rows on which the model does worse than on all."""

    name: str
    weight: float
    loss: float
    """Mean loss of its rows."""


def cuts_of(summary: Summary) -> list[Cut]:
    """The segments of the first columns of a table."""
    n = min(len(summary.columns), MOST_COLUMNS)
    return [_cut(summary.columns[j]) for j in range(n)]


def _cut(column: ColumnSummary) -> Cut:
    name, missing = column.name, f"{column.name} is missing"
    if column.levels is not None:
        words = [f"{name} is {word}" for word in column.levels]
        other = f"{name} is missing or another word"
        return Cut(name, np.arange(float(len(words))), True, [*words, other])
    if not column.count:
        return Cut(name, np.empty(0), False, ["", missing])
    if column.values is not None and len(column.values) <= MOST_VALUES:
        values = np.asarray(column.values, np.float64)
        if "=" in name and values.tolist() == [0.0, 1.0]:  # the indicator of a level
            return Cut(name, values, True, [f"not {name}", name, missing])
        return Cut(name, values, True, [*(f"{name} = {number(v)}" for v in values), missing])
    borders = np.unique(column.quantile(np.arange(1, 10) / 10))
    borders = borders[borders > column.min]
    if not len(borders):
        return Cut(name, borders, False, [f"{name} has any value", missing])
    shown = [number(border) for border in borders]
    names = [f"{name} < {shown[0]}"]
    names += [f"{a} \u2264 {name} < {b}" for a, b in zip(shown[:-1], shown[1:], strict=True)]
    return Cut(name, borders, False, [*names, f"{name} \u2265 {shown[-1]}", missing])


def empty_sums(cuts: Sequence[Cut]) -> list[np.ndarray]:
    """Zeros (3, segments) for each column: weight, loss and its square."""
    return [np.zeros((3, len(cut.names))) for cut in cuts]


def add_losses(
    cuts: Sequence[Cut], sums: list[np.ndarray], chunk: Chunk, loss: np.ndarray, weight: np.ndarray
) -> None:
    """Add the losses of the rows of a chunk to their segments."""
    for d, (cut, into) in enumerate(zip(cuts, sums, strict=True)):
        at = cut.places(_column(chunk.X, d))
        for part, of_row in zip(into, (weight, weight * loss, weight * loss**2), strict=True):
            part += np.bincount(at, of_row, len(cut.names))


def _column(X: np.ndarray | Csr, d: int) -> np.ndarray:
    if not isinstance(X, Csr):
        return X[:, d]
    out, own = np.zeros(X.shape[0]), np.flatnonzero(X.indices == d)
    out[np.searchsorted(X.indptr, own, side="right") - 1] = X.data[own]
    return out


def worst(cuts: Sequence[Cut], sums: Sequence[np.ndarray]) -> list[Segment]:
    """The segments whose mean loss exceeds that of all rows by most, less its own uncertainty."""
    if not sums:
        return []
    total, all_loss, _ = sums[0].sum(axis=1)
    found = []
    for cut, part in zip(cuts, sums, strict=True):
        for name, weight, loss, square in zip(cut.names, *part, strict=True):
            if weight < max(FEWEST_ROWS, FEWEST_SHARE * total) or weight > 0.999 * total:
                continue
            mean = loss / weight
            error = np.sqrt(max(square / weight - mean**2, 0.0) / weight)
            excess = mean - ERRORS * error - all_loss / total
            if excess > 0:
                found.append((excess, Segment(name, float(weight), float(mean))))
    found.sort(key=lambda item: -item[0])
    return [segment for _, segment in found[:MOST_SHOWN]]
