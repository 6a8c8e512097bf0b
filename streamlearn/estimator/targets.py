"""Targets as the kernels take them: float64 codes of classes, or float64 numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.select import keep_rows
from ..data.source import Chunk, Csr, Ref, SourceReader
from ..errors import SourceError

MAX_SHOWN = 5


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


@dataclass(frozen=True)
class CodedSource:
    """A dataset whose chunks carry `y` as float64: class codes, or the number itself.

    Has what the engine asks of a source; anything else is asked of ``.dataset``.
    """

    dataset: Any
    classes: np.ndarray | None
    """Sorted labels; None for a regression target."""

    def __getattr__(self, name: str) -> Any:
        # Only names this class lacks come here; "dataset" itself is missing while unpickling.
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def with_slice_rows(self, n_rows: int) -> CodedSource:
        return replace(self, dataset=self.dataset.with_slice_rows(n_rows))

    def with_columns(self, names: Any) -> CodedSource:
        return replace(self, dataset=self.dataset.with_columns(names))

    def as_bytes(self) -> CodedSource:
        return replace(self, dataset=self.dataset.as_bytes())

    def where_hash(self, lo: float, hi: float, seed: int) -> CodedSource:
        return replace(self, dataset=self.dataset.where_hash(lo, hi, seed))

    def reader(self) -> CodedReader:
        return CodedReader(self, self.dataset.reader())

    def code(self, chunk: Chunk, ref: Ref) -> Chunk:
        """Replace the chunk's labels by their codes; rows of weight 0 that no sum can take go."""
        if chunk.weight is not None and not chunk.weight.all() and not is_finite(chunk):
            in_place = not self.dataset.store.in_memory
            chunk = keep_rows(chunk, chunk.weight > 0, in_place=in_place)
        if chunk.y is None:
            return chunk
        if self.classes is None:
            chunk.y = np.asarray(chunk.y, dtype=np.float64)
            return chunk
        codes = encode(chunk.y, self.classes)
        if codes.min(initial=0.0) < 0:
            codes = self._checked(codes, chunk, ref)
        chunk.y = codes
        return chunk

    def _checked(self, codes: np.ndarray, chunk: Chunk, ref: Ref) -> np.ndarray:
        """Codes some of which are of no class, those of absent rows as 0."""
        unknown = codes < 0
        if chunk.weight is not None:
            unknown &= chunk.weight > 0  # a row of weight 0 is absent, its label with it
        if unknown.any():
            labels = sorted({repr(label) for label in chunk.y[unknown].tolist()})[:MAX_SHOWN]
            raise SourceError(
                f"{self.dataset.place(ref)}: target holds {', '.join(labels)}, expected one of the "
                f"{len(self.classes)} classes of the training data "
                f"({', '.join(map(repr, self.classes[:MAX_SHOWN].tolist()))}...); "
                "leave these rows out or train with them"
            )
        return np.maximum(codes, 0.0)


class CodedReader:
    """Reads chunks with coded targets."""

    def __init__(self, source: CodedSource, reader: SourceReader) -> None:
        self._source, self._reader = source, reader

    def read(self, ref: Ref) -> Chunk:
        return self._source.code(self._reader.read(ref), ref)

    def __enter__(self) -> CodedReader:
        self._reader = self._reader.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._reader.__exit__(*exc)
