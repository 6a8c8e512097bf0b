"""A summary of data: every column, the target, and whether the rows are sorted.

Counts are exact integers (sums of weights if there are weights: weight 0 = the row is absent, k = k
copies) and do not depend on chunking or merge order; moments do only in rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...data.choice import Choice
from ...errors import SourceError, leave_out
from .facts import ColumnFacts, ColumnSummary
from .labels import Labels, OrderBias
from .text import format_summary

MAX_SHOWN = 5
"""Columns that an error about values that are not finite names beside the first."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Facts of a dataset; prints as a table."""

    n_rows: int
    """Rows after selection, those of weight 0 included."""
    total_weight: float
    columns: ColumnFacts
    """Facts of each column: arrays of all, and item j of column j."""
    labels: Labels | None
    n_reads: int = 1
    n_missing_chunks: int = 0
    """Chunks of a zarr store that are not there: their cells are its fill value."""
    n_absent: int = 0
    """Rows of weight 0."""
    most_rows: int | None = field(default=None, compare=False)
    """Rows of the largest chunk, a fact of the reading and none of the rows; None of a summary in
    blocks of columns, whose chunks differ."""

    def __str__(self) -> str:
        return format_summary(
            self.columns,
            self.labels,
            n_rows=self.n_rows,
            total_weight=self.total_weight,
            n_missing_chunks=self.n_missing_chunks,
        )

    __repr__ = __str__

    def __getitem__(self, name: str) -> ColumnSummary:
        return self.columns[self._place_of[name]]

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.columns.names)}

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.columns.names

    @property
    def target(self) -> Labels:
        """Facts of the target, in a summary of data that have one."""
        if self.labels is None:
            raise ValueError("the summary is of data without a target; open them with target=...")
        return self.labels

    @property
    def ref_labels(self) -> np.ndarray | None:
        """(n_refs, K) weight of each class in each ref; None without classes."""
        if self.labels is None or self.labels.classes is None:
            return None
        return self.labels.ref_labels

    @property
    def order_bias(self) -> OrderBias:
        """Whether the rows are sorted by target."""
        return OrderBias(False, 0.0, "") if self.labels is None else self.labels.order_bias

    def require_finite(self, dataset: Choice, *, missing: bool = False) -> None:
        """Raise `SourceError` if a feature of the dataset summarised holds NaN or infinity.

        With `missing` NaN is let pass; in categories it always is.
        """
        columns = self.columns
        is_bad = (columns.infinite > 0) | ((columns.first_bad >= 0) & (not missing))
        bad = np.flatnonzero(is_bad & (columns.n_levels < 0))
        if not len(bad):
            return
        first = columns[int(bad[0])]
        others = [repr(columns.names[j]) for j in bad[1 : MAX_SHOWN + 1]]
        more = f"; also in {', '.join(others)}" if others else ""
        if len(bad) > MAX_SHOWN + 1:
            more += f" and {len(bad) - MAX_SHOWN - 1} other columns"
        row = int(first.first_bad or 0)
        raise SourceError(
            f"column {first.name!r} holds {first.missing:g} NaN (missing) and {first.infinite:g} "
            f"infinite values, the first in row {row} ({dataset.store.place(row, row + 1)})"
            f"{more}; expected finite numbers: {leave_out(dataset.kind)}, or replace the values "
            "(Dataset.map does as they are read)"
        )
