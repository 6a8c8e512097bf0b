"""Bytes of a row while answers are made of it, and of the model that makes them."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from ..data.write.sink import WRITER_BYTES
from .restored import n_outputs

NUMBER_BYTES = 8
"""Bytes of a decision, a probability, a weight or a code."""
WRITTEN = 5
"""Copies of an answer while it is written: itself, as columns, encoded, and in a growing buffer."""


class RowSize(NamedTuple):
    """Memory of one row of a read that answers, beside the row's decisions."""

    made: float = 0
    """Bytes of what is made of the decisions, at once."""
    kept: int = 0
    """Bytes that the driver keeps of it."""
    each_chunk: int = 0
    """Bytes of a chunk, whatever its rows."""


def row_size(model: object, what: str, like: np.ndarray, *, written: bool = False) -> RowSize:
    """The size of a row whose answer is kept, or is written and goes; `like`: one without rows."""
    each = row_bytes(like)
    made = _made_bytes(model, what, each)
    if written:
        return RowSize(max(made, WRITTEN * each), 0, WRITER_BYTES)
    return RowSize(made, each)


def _made_bytes(model: object, what: str, each: int) -> float:
    """Bytes of an answer of so many bytes a row, with what it is made of beside the decisions."""
    if what == "prediction":
        found = label_bytes(model)
        return max(found, NUMBER_BYTES + each) if found else 0
    if what == "probability":
        return probability_bytes(model)
    if what == "decision":  # themselves
        return 0
    # a term or a deviation at a time, twice, beside all of them
    return each + 2 * decision_bytes(model)


def decision_bytes(model: object) -> int:
    """Bytes of a row's decisions."""
    return NUMBER_BYTES * n_outputs(model)


def label_bytes(model: object) -> float:
    """Bytes of a row beside its decisions while the number of its class is found."""
    if not hasattr(model, "classes_"):
        return 0  # a decision is the prediction
    calibrated = getattr(model, "calibration_", None) is not None
    return max(NUMBER_BYTES + 1, calibrated * probability_bytes(model))


def probability_bytes(model: object) -> float:
    """Bytes of a row beside its decisions while probabilities are made of them, these included."""
    K = len(getattr(model, "classes_", (0, 0)))
    calibrated = getattr(model, "calibration_", None) is not None and K > 2
    copies = max(getattr(model, "_probability_copies", 2), 2 + calibrated)
    return NUMBER_BYTES * (copies * K + 1) + 1


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
