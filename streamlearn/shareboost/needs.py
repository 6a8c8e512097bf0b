"""The memory of a fit, from metadata alone, before it begins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..config import get_config
from ..data.source import Source
from ..engine.memory import available_bytes
from ..engine.plan import Needs, Plan
from .correction import MEMORY
from .curvature import NEWTON_SIZE
from .reads import GRAM_ROWS
from .selection.candidates import OFFERED, OFFERED_PIECES, Options, most_at_once, n_offered
from .selection.pieces import PIECES
from .selection.scoring import stride_of

SCORE_SHARE = 16
"""One state of a scoring read takes at most one part in so many of the budget; a larger read is cut
into blocks."""
THIN_BYTES = 8 << 20
"""Bytes that a read of the side store holds for its chunk, at most."""
MIN_ROWS = 256
"""Least number of rows in a chunk of the side store."""


class Size(NamedTuple):
    """The numbers that the memory of a fit depends on."""

    n_columns: int
    """Number of candidates that the driver has a gradient of."""
    n_classes: int
    n_selected: int
    n_features: int
    """Largest number of features of everything that is selected."""
    n_stored: int
    """Largest number of columns of the side store that this takes."""
    shortlist: int
    """Largest number of columns that one read fetches."""
    stored_dtype: str
    """Dtype of these columns."""
    base: int
    """Number of other columns that the side store has of every row."""
    itemsize: int
    """Bytes of one number of the data."""
    row_nbytes: float
    """Bytes of a row of the data."""
    slice_rows: int
    n_rows: int
    """Number of physical rows."""
    unit_bytes: int
    """Bytes of a scoring read's state for one column, or for one anchor of pieces."""
    made_bytes: int
    """Bytes that the driver makes of one unit's state."""
    n_units: int
    """Number of columns, or of anchors."""
    copies: int
    """Copies of features while they are made of a chunk's columns."""

    @property
    def side_row_nbytes(self) -> int:
        """Bytes of a row of the side store once everything is selected."""
        item = np.dtype(self.stored_dtype).itemsize
        return 16 + (self.n_stored + 1) * item + self.base * self.itemsize

    @property
    def thin_row_nbytes(self) -> int:
        """Bytes that a read of the side store holds for a row: the row, two copies, and scores.

        Weights of pieces take part in products as numbers of the data's dtype.
        """
        weights = self.n_selected * self.itemsize if self.base else 0
        return 3 * self.side_row_nbytes + weights + 48 * self.n_classes

    @property
    def thin_rows(self) -> int:
        """Rows in a chunk of the side store: a power of two, by the data's size alone."""
        rows = max(MIN_ROWS, THIN_BYTES // self.thin_row_nbytes)
        return 1 << (rows.bit_length() - 1)


def block_of(size: Size, state_bytes: int) -> int:
    """Number of columns (or anchors) scored in one read whose state takes these bytes at most."""
    return max(1, min(size.n_units, state_bytes // max(size.unit_bytes, 1)))


def needs_of(size: Size) -> list[Needs]:
    """The phases of a fit: scoring, fetching, correcting."""
    budget = get_config().memory_budget or available_bytes() // 4
    block = block_of(size, score_state_bytes(size, budget))
    K, item = size.n_classes, size.itemsize
    start = 16 + K * item
    n = 1 + size.n_features
    blocks = size.n_selected * (size.base + 1) ** 2 if size.base else n * n
    # Newton's metric while the coefficients are few, then the blocks of all of them
    metric = 8 * max(min(K * n, NEWTON_SIZE) ** 2, K * blocks if K * n > NEWTON_SIZE else 0)
    path = 8 * K * n * (1 + size.n_selected // 2)
    gradient = 2 * 8 * (K + 4) * size.n_columns
    if size.base:  # moments of every candidate's features, scores of a block of anchors
        features = size.unit_bytes // (8 * K)
        gradient += 12 * features * size.n_units + 40 * features * block
    gradient += block * size.made_bytes
    # a shortlist lies beside the side store while it is compared, and of each row once more
    thin_row = size.thin_row_nbytes + 2 * size.shortlist * item
    thin = size.thin_rows * thin_row / max(min(size.slice_rows, size.n_rows), 1)
    disk = size.side_row_nbytes + size.shortlist * item + start
    # the side store's copy in memory, of all rows that there are, and where its chunks lie
    kept = size.n_rows * (size.side_row_nbytes + 8)
    return [
        Needs(
            "score",
            state_bytes=(block + (size.base > 0)) * size.unit_bytes + 8 * K,
            step_bytes_per_row=2 * K * item
            + 3 * size.row_nbytes * (size.unit_bytes > 8 * stride_of(K)),
            driver_bytes=gradient + path,
            row_state_bytes=start,
            passes=(1, size.n_selected + 1),
            cached_bytes=kept,
        ),
        Needs(
            "fetch",
            state_bytes=8 * (size.shortlist + 1) ** 2,
            # pieces are weighed from a copy of all columns, which the first read writes down
            step_bytes_per_row=(size.shortlist * size.copies + size.base) * item,
            step_bytes=(3 * 8 + 8) * size.shortlist * GRAM_ROWS,
            driver_bytes=gradient + path,
            row_state_bytes=max(size.shortlist, size.base) * item,
            passes=(1, size.n_selected),
            cached_bytes=kept,
        ),
        Needs(
            "correct",
            state_bytes=metric + 8 * K * n,
            step_bytes_per_row=thin,
            driver_bytes=gradient + path + 3 * metric + 2 * MEMORY * 8 * K * n,
            row_state_bytes=0,
            scratch_bytes_per_row=2 * disk,
            passes=(size.n_selected, 100 * size.n_selected),
            cached_bytes=kept,
        ),
    ]


def score_state_bytes(size: Size, budget: int) -> int:
    """Bytes that one state of a scoring read may take."""
    return max(budget // SCORE_SHARE, size.unit_bytes)


def fits_in_memory(plan: Plan) -> bool:
    """Whether the side store fits in what the plan leaves of the budget, and is counted there."""
    return plan.keeps_rows


def size_of(model: Options, dataset: Source, n_units: int, unit_bytes: int, kind: str) -> Size:
    """The size of a fit, from metadata; two classes are assumed while they are not known."""
    d, item = dataset.n_features, dataset.dtype.itemsize
    n_selected = min(model.n_selected, n_units if kind == "columns" else model.n_selected)
    pieces = kind in PIECES
    at_once = max(
        most_at_once(model.columns_per_pass, model.n_selected, n) for n in range(n_selected)
    )
    offered = n_offered(OFFERED_PIECES if pieces else OFFERED, model.rule, at_once)
    n_stored = n_selected
    if kind == "columns":  # each is selected once: the largest groups are all that can be
        groups = model._feature_groups()
        members = np.arange(d) if groups is None else np.asarray(groups)
        sizes = np.sort(np.unique(members, return_counts=True)[1])[::-1]
        offered, n_stored = (int(sizes[:n].sum()) for n in (offered, n_selected))
    row_nbytes = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1)
    n_columns = n_units if kind in ("columns", "stumps", *PIECES) else d * (d - 1) // 2
    return Size(
        n_columns=n_columns,
        n_classes=len(getattr(model, "classes_", (0, 0))),
        n_selected=n_selected,
        n_features=n_selected * (d + 1) if pieces else n_stored,
        n_stored=n_stored,
        shortlist=min(offered, n_columns) if kind == "products" else offered,
        stored_dtype="uint8" if kind == "pieces" else dataset.dtype.name,
        base=d if pieces else 0,
        itemsize=item,
        row_nbytes=row_nbytes,
        slice_rows=dataset.slice_rows or dataset.n_physical_rows,
        n_rows=dataset.n_physical_rows,
        unit_bytes=unit_bytes,
        # of each bin: running sums, gradients, a dozen numbers, and those of use once more
        made_bytes=4 * unit_bytes if kind == "stumps" else 0,
        n_units=n_units,
        # of columns themselves one; else both factors, or a comparison; sparse rows written out
        copies=(1 if kind == "columns" else 3) + dataset.sparse * (1 + (kind == "products")),
    )
