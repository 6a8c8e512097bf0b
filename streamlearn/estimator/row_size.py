"""Bytes of a row while answers are made of it, and of the model that makes them."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

DECIDED, JUDGED = 2, 4
"""Decisions of a row that a step holds at once: with the answer that is made of them, and with
probabilities and what scores take."""
WRITTEN = 5
"""Copies of an answer while it is written: itself, as columns, encoded, and in a growing buffer."""


class RowSize(NamedTuple):
    """Memory of one row of a read that answers."""

    decisions: int = JUDGED
    """Number of the row's decisions at once."""
    answer: int = 0
    """Bytes of what is made of them."""
    kept: int = 0
    """Bytes that the driver keeps of it."""


SCORED = RowSize()


def row_size(what: str, like: np.ndarray, *, written: bool = False) -> RowSize:
    """The size of a row whose answer is kept, or is written and goes; `like`: one without rows."""
    each = row_bytes(like)
    copies = WRITTEN if written else 1
    if what in ("decision", "prediction", "probability"):  # the first copy is among the decisions
        copies -= 1
    decisions = DECIDED if what in ("decision", "prediction") else JUDGED
    return RowSize(decisions, copies * each, 0 if written else each)


def row_bytes(like: np.ndarray) -> int:
    """Bytes of one row of an answer."""
    return like.dtype.itemsize * prod(like.shape[1:])


def model_bytes(model: object) -> int:
    """Bytes of a fitted model's arrays."""
    items = [v for value in vars(model).values() for v in as_items(value)]
    return sum(v.nbytes for v in items if isinstance(v, np.ndarray))


def as_items(value: object) -> tuple[object, ...]:
    """The fields of a NamedTuple, or the value alone."""
    return tuple(value) if isinstance(value, tuple) else (value,)
