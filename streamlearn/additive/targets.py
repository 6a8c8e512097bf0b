"""Targets and weights as the loss takes them: exposure and offset.

A row of exposure e under the log link, mean e e^f, has the half-deviance of the target y / e at the
mean e^f, times e^a with the loss's `homogeneity` a (counts: 1); an offset o of the decision, f + o,
is the target y - o of a loss of the residual.  So neither reaches a solver: they are changes of the
target and of the weight.  A loss that is another one once `rescaled` takes no exposures: each row
would have a loss of its own; the mean, which is the same in all rows, changes its parameter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..data.mapped import MappedSource
from ..data.source import Chunk, Csr, Source
from ..errors import leave_out
from ..estimator.rows.encoding import hint_of, place_of
from ..numeric.links import IDENTITY, LOG, Link
from ..numeric.losses import LOSSES, Loss
from ..numeric.targets import Target
from ..passes.summary.facts import ColumnSummary
from ..passes.summary.labels import Labels
from ..passes.summary.summary import Summary


def names_of(targets: Collection[Target]) -> set[str]:
    """The names of this package's losses that take one of these kinds of target."""
    return {name for name, kind in LOSSES.items() if kind.target in targets}


class Adjustment(NamedTuple):
    """The changes of targets and weights before a solver sees them."""

    loss: Loss
    column: int = -1
    """Number of the column of exposures or offsets; -1: there is none."""
    exposure: bool = False
    """Whether the column holds exposures, which multiply the mean; else it holds offsets."""
    mean: float = 1.0
    """The mean of the target, which a decision of 0 stands for under the log link."""

    @property
    def link(self) -> Link:
        """The loss's link; of a loss that has none, the identity."""
        return self.loss.link or IDENTITY

    @property
    def solved(self) -> Loss:
        """The loss that solvers see, of the changed targets."""
        return self.loss.rescaled(self.mean) if self.link is LOG else self.loss


def adjusted(source: Source, adjustment: Adjustment) -> Source:
    """The source with its rows adjusted; itself if there is nothing to do."""
    if adjustment.column < 0 and adjustment.link is not LOG:
        return source
    return MappedSource(source, partial(adjust, adjustment), reads_features=adjustment.column >= 0)


def adjust(adjustment: Adjustment, chunk: Chunk) -> Chunk:
    """The chunk with new targets and weights; its features are left alone."""
    y, weight = chunk.target, chunk.weight
    factor = weight_factor(adjustment, chunk)
    if adjustment.link is LOG:
        y = y / (adjustment.mean * exposures(adjustment, chunk))
    elif adjustment.column >= 0:
        y = y - column_of(chunk, adjustment.column)
    if factor is not None:
        factor = np.broadcast_to(factor, len(y))
        weight = np.array(factor) if weight is None else weight * factor
    return Chunk(chunk.X, y, weight, chunk.rows, chunk.state, chunk.order)


def weight_factor(adjustment: Adjustment, chunk: Chunk) -> np.ndarray | float | None:
    """The factor of every row's weight, which makes no copies of the row; None: there is none."""
    power = adjustment.loss.homogeneity if adjustment.link is LOG else 0.0
    return (adjustment.mean * exposures(adjustment, chunk)) ** power if power else None


def exposures(adjustment: Adjustment, chunk: Chunk) -> np.ndarray | float:
    """The factor of the mean of every row."""
    if adjustment.column < 0:
        return 1.0
    values = column_of(chunk, adjustment.column)
    if not adjustment.exposure:
        return np.exp(values)
    # of a row of weight 0, which is absent, the exposure may be none
    return values if chunk.weight is None else np.where(chunk.weight > 0, values, 1.0)


def column_of(chunk: Chunk, column: int) -> np.ndarray:
    """(m,) float64 values of one column."""
    X = chunk.X
    if not isinstance(X, Csr):
        return np.asarray(X[:, column], np.float64)
    values = np.zeros(len(X.indptr) - 1)
    stored = np.flatnonzero(X.indices == column)
    values[np.searchsorted(X.indptr, stored, "right") - 1] = X.data[stored]
    return values


def find_column(model: object, name: str, column: int | str, dataset: Source) -> int:
    """The number of the feature that parameter `name` gives, by its name or a column's number."""
    names = [str(feature) for feature in dataset.feature_names]
    if isinstance(column, str):
        if column not in names:
            raise ValueError(
                f"{name}={column!r} is none of the columns {names[:10]}; name a column of X"
                f"{hint_of(column, names)}"
            )
        return names.index(column)
    place = place_of(model, int(column)) if column >= 0 else -1
    if not 0 <= place < len(names):
        raise ValueError(f"{name}={column} is none of the {len(names)} columns of X")
    return place


def without_column(summary: Summary, column: int) -> Summary:
    """The summary with a column that has no say: as if it were constant."""
    if column < 0:
        return summary
    found = summary.columns[column]
    if found.missing or found.levels is not None:
        what = "categories" if found.levels is not None else f"{found.missing:g} missing values"
        raise ValueError(
            f"column {found.name!r} holds {what} and cannot be an exposure or offset; fill them in"
        )
    flat = np.zeros(1), np.array([found.count])
    return replace(summary, columns=summary.columns.with_values(column, *flat))


def check_exposures(name: str | int, summary: ColumnSummary, kind: str) -> None:
    """Refuse exposures that are not above 0; `kind`: that of their source."""
    if not summary.min > 0:
        raise ValueError(
            f"exposure={name!r} must be above 0 in every row, its smallest value is "
            f"{summary.min:.6g}; {leave_out(kind)}"
        )


def check_targets(loss: Loss, labels: Labels, kind: str) -> None:
    """Refuse targets that are not of the loss's kind; `kind`: that of their source."""
    if not loss.target.holds(labels.min, labels.max):
        raise ValueError(
            f"loss={loss.name!r} takes {loss.target.wanted}; the target {labels.name!r} lies "
            f"between {labels.min:.6g} and {labels.max:.6g}; use loss='squared_error', or "
            f"{leave_out(kind)}"
        )
