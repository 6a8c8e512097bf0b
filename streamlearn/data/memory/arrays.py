"""Rows in this process's memory, or in a raw file: numpy, memory maps, scipy.sparse, frames, Arrow.

A store here is a *part* that holds the feature columns beside single columns given apart (`y`,
`sample_weight`).  A new in-memory container is one more `Part`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from ...errors import SourceError
from ..columns import Buffer, find_columns
from ..files.remote import one_name
from ..files.versions import Versions
from ..levels import LevelCoder
from ..source import Chunk, Csr
from ..store import Reader, Store
from .parts import Part, SparsePart, VectorsPart

SAMPLED_RUNS, SAMPLED_ROWS = 64, 64
"""The fingerprint hashes this many seeded runs of this many rows: 4,096 rows."""


class ArrayStore(Store):
    """A part with the features, and columns given apart."""

    def __init__(
        self, kind: str, part: Part, extra: VectorsPart, what: str, files: Sequence[str] = ()
    ) -> None:
        """`files` are those that memory maps among the arrays show."""
        self.kind, self.part, self.extra, self.what = kind, part, extra, what
        self.files = Versions(None, files, files)
        self.files.note_all()
        self.n_rows = part.n_rows
        self.columns = part.columns + extra.columns
        self.sparse = isinstance(part, SparsePart)
        self.has_bytes = isinstance(part, SparsePart) and part.data.dtype == np.uint8
        self.in_memory = part.in_memory or bool(extra.columns)

    def coded(self, coders: Mapping[str, LevelCoder]) -> Self:
        store = super().coded(coders)
        store.part = self.part.coded(coders)
        return store

    def boundaries(self) -> np.ndarray:
        return np.array([0, self.n_rows] if self.n_rows else [0], dtype=np.int64)

    def row_nbytes(self, names: Sequence[str], dtype: np.dtype) -> float:
        if not isinstance(self.part, SparsePart):
            return float(len(names) * dtype.itemsize)
        share = len(names) / len(self.part.columns)
        nnz = share * len(self.part.data) / max(self.n_rows, 1)
        return nnz * (dtype.itemsize + self.part.indices.itemsize) + 8

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        which = [self.places[name] for name in names]
        return self.part.overhead(which, min(slice_rows, self.n_rows))

    def stored_nbytes(self, names: Sequence[str]) -> int:
        return self.part.stored(set(names))

    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> Reader:
        return ArrayReader(self, names, target, weight, np.dtype(dtype))

    def place(self, start: int, stop: int) -> str:
        return f"{self.what}, rows {start} to {stop}"

    def fingerprint(self) -> Mapping[str, object]:
        digest = hashlib.blake2b(digest_size=16)
        starts = np.array([0])
        if self.n_rows > SAMPLED_RUNS * SAMPLED_ROWS:
            draw = np.random.Generator(np.random.Philox(key=0))
            starts = draw.integers(0, self.n_rows - SAMPLED_ROWS, SAMPLED_RUNS)
        length = SAMPLED_ROWS if len(starts) > 1 else self.n_rows
        for start in np.sort(starts).tolist():
            for part in (self.part, self.extra):
                digest.update(part.raw(start, start + length))
        return {
            "kind": self.kind,
            "n_rows": self.n_rows,
            "columns": [[column.name, column.dtype] for column in self.columns],
            "rows_hash": digest.hexdigest(),
        }

    def locations(self) -> tuple[str, ...]:
        return tuple(one_name(None, path) for path in self.files.paths)

    def versions(self) -> Mapping[str, str]:
        names = (f"mapped file {i}, {Path(path).name}" for i, path in enumerate(self.files.paths))
        return dict(zip(names, self.files.known, strict=True))


class ArrayReader:
    """Views of an array whose layout and dtype are the chunk's, else copies into one buffer."""

    def __init__(
        self,
        store: ArrayStore,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
    ) -> None:
        self.part, self.dtype, self.files = store.part, dtype, store.files
        self.files.check_all()
        self.which = find_columns(store.part.columns, store.places, names, store.what)
        self.columns = [self._column(store, name) for name in (target, weight)]
        self.buffer = Buffer(dtype)
        self.n_rows = store.n_rows

    @staticmethod
    def _column(store: ArrayStore, name: str | None) -> tuple[Part, int] | None:
        if name is None:
            return None
        j, p = store.places.get(name), len(store.part.columns)
        if j is not None:
            return (store.part, j) if j < p else (store.extra, j - p)
        raise SourceError(
            f"{store.what} has no column {name!r}; "
            f"it has {', '.join(repr(column.name) for column in store.columns[:20])}"
        )

    def read(self, start: int, stop: int) -> Chunk:
        X: np.ndarray | Csr | None
        if isinstance(self.part, SparsePart):
            X = self.part.csr(start, stop, self.which, self.buffer)
        else:
            X = self.part.view(start, stop, self.which, self.dtype)
            if X is None:
                X = self.buffer.take(stop - start, len(self.which), self.part.order)
                self.part.fill(start, stop, self.which, X)
        y, weight = (
            None if at is None else at[0].values(start, stop, at[1]) for at in self.columns
        )
        weight = None if weight is None else weight.astype(np.float64)
        return Chunk(X, y, weight, range(start, stop))

    def close(self) -> None:
        self.buffer = Buffer(self.dtype)
        self.files.check_all()
