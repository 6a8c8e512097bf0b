"""Targets as the kernels take them: float64 codes of classes, or float64 numbers."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.base import is_regressor

from ...data.mapped import MappedSource
from ...data.source import Chunk, Csr, Source
from ...errors import SourceError

MAX_SHOWN = 5
"""Labels that an error message lists, at most."""


def encode(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Codes 0..K-1 of labels, as float64; -1 for a label that is none of the (sorted) classes."""
    if y.dtype == object or classes.dtype == object:
        code = {label: k for k, label in enumerate(classes.tolist())}
        return np.fromiter((code.get(label, -1) for label in y.tolist()), np.float64, len(y))
    if len(classes) == 2:  # a fifth of the search's time
        second = y == classes[1]
        codes, known = second.astype(np.float64), second | (y == classes[0])
        if not known.all():
            codes[~known] = -1.0
        return codes
    at = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return np.where(classes[at] == y, at, -1).astype(np.float64)


def is_finite(chunk: Chunk) -> bool:
    """Whether features and a numeric target are free of NaN and infinity."""
    values = [chunk.X.data if isinstance(chunk.X, Csr) else chunk.X]
    if chunk.y is not None and chunk.y.dtype.kind == "f":
        values.append(chunk.y)
    with np.errstate(over="ignore", invalid="ignore"):
        # A NaN or an infinity makes the sum one; a sum that is too large is looked into.
        return all(np.isfinite(v.sum()) or np.isfinite(v).all() for v in values)


def words_refused(target: str | None) -> ValueError:
    """The refusal of a target of words where a regressor learns or is judged."""
    return ValueError(
        f"the target {target!r} holds strings, a regressor needs numbers; choose a numeric column, "
        "or a classifier"
    )


def check_kind(model: object, dataset: Source) -> None:
    """Refuse, before the rows are read, a target of strings for a regressor."""
    target = dataset.target
    if is_regressor(model) and target is not None and dataset.column_types[target] == "string":
        raise words_refused(target)


def coded(dataset: Source, classes: np.ndarray | None) -> MappedSource:
    """The dataset with `y` as float64: codes of the sorted classes, or (None) the number itself."""
    code = partial(code_targets, classes, not dataset.in_memory, target=dataset.target)
    return MappedSource(dataset, code)


def code_targets(
    classes: np.ndarray | None, in_place: bool, chunk: Chunk, *, target: str | None = None
) -> Chunk:
    """Replace the chunk's labels by their codes; rows of weight 0 that no sum can take go.

    `in_place`: the chunk's X may be changed.
    """
    if chunk.weight is not None and not chunk.weight.all() and not is_finite(chunk):
        chunk = chunk.where(chunk.weight > 0, in_place=in_place)
    if chunk.y is None:
        return chunk
    if classes is None:
        if chunk.y.dtype == object:
            raise words_refused(target)
        chunk.y = np.asarray(chunk.y, dtype=np.float64)
        return chunk
    codes = encode(chunk.y, classes)
    if codes.min(initial=0.0) < 0:
        codes = _checked(codes, classes, chunk)
    chunk.y = codes
    return chunk


def _checked(codes: np.ndarray, classes: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Codes some of which are of no class, those of absent rows as 0."""
    unknown = codes < 0
    if chunk.weight is not None:
        unknown &= chunk.weight > 0  # a row of weight 0 is absent, its label with it
    if unknown.any():
        labels = sorted({repr(label) for label in chunk.target[unknown].tolist()})[:MAX_SHOWN]
        raise SourceError(
            f"target holds {', '.join(labels)}, expected one of the {len(classes)} classes of the "
            f"training data ({', '.join(map(repr, classes[:MAX_SHOWN].tolist()))}...); "
            "leave these rows out or train with them"
        )
    return np.maximum(codes, 0.0)
