"""Partitions of a dask collection computed one at a time, for the driver's own reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import SourceError
from ..levels import LevelCoder
from ..memory.arrays import ArrayStore
from ..memory.opening import as_store, as_vector
from ..source import Chunk
from ..store import Column, Reader

if TYPE_CHECKING:
    import numpy.typing as npt
    from dask.delayed import Delayed as Delayed


class Block(NamedTuple):
    """One partition, computed: rows and the columns given apart."""

    X: object
    """numpy array, scipy CSR matrix, frame, or list of rows."""
    y: object = None
    sample_weight: object = None


class Known(NamedTuple):
    """Partitions of known lengths, as a reader needs them."""

    kind: str
    partitions: Sequence[Delayed]
    lengths: Sequence[int]
    """Rows of every partition."""
    names: Sequence[str]
    """Names of all columns, features first."""
    levels: Mapping[str, LevelCoder]
    """Coders of the columns that are read as codes."""


def partition_store(
    block: Block,
    names: Sequence[str] | None = None,
    levels: Mapping[str, LevelCoder] = MappingProxyType({}),
) -> ArrayStore:
    """A computed partition as an in-memory store, which may be empty.

    Parameters
    ----------
    block : Block
    names : sequence of str, optional
        Names of the DaskStore's columns (features first): the partition's must be the same.
    levels : mapping
        The DaskStore's.
    """
    X = block.X
    if isinstance(X, list):
        given = (block.y is not None) + (block.sample_weight is not None)
        X = rows_of(X, 0 if names is None else len(names) - given)
    store = as_store(X, block.y, block.sample_weight)
    assert isinstance(store, ArrayStore)  # a partition is a table, not a stream
    found = [column.name for column in store.columns]
    if names is not None and found != list(names):
        raise SourceError(
            f"a partition has the {len(found)} columns {found[:10]}, "
            f"the collection has {len(names)}: {list(names)[:10]}; partitions must agree"
        )
    return store.coded(levels) if levels else store


def rows_of(items: list[npt.ArrayLike], width: int) -> np.ndarray:
    """A bag's partition, a list of rows or of 2-D blocks, as one array."""
    return np.vstack(items) if items else np.empty((0, width))


def describe_block(X: object) -> tuple[tuple[Column, ...], bool]:
    """Columns of a computed block and whether it is sparse: all that the driver asks of it."""
    store = partition_store(Block(X))
    return store.columns, store.sparse


def describe_vector(name: str, values: object) -> str:
    """`Column.dtype` of a computed block of `y` or `sample_weight`."""
    return as_vector(name, values).column.dtype


class DaskReader:
    """The last computed partition, handed out in slices."""

    def __init__(
        self,
        known: Known,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
    ) -> None:
        self.known, self.ask = known, (names, target, weight, dtype)
        self.starts = np.cumsum([0, *known.lengths])
        self.i = -1
        self.reader: Reader | None = None

    def read(self, start: int, stop: int) -> Chunk:
        i = int(np.searchsorted(self.starts, start, side="right")) - 1
        first, last = int(self.starts[i]), int(self.starts[i + 1])
        if stop <= last:
            return self._read(i, start - first, stop - first, start)
        runs = []  # rows of several partitions: copied together
        while start < stop:
            while self.starts[i + 1] <= start:
                i += 1
            first, end = int(self.starts[i]), min(stop, int(self.starts[i + 1]))
            chunk = self._read(i, start - first, end - first, start)
            runs.append(chunk)
            start = end
        return Chunk.join(runs)

    def _read(self, i: int, start: int, stop: int, row: int) -> Chunk:
        if i != self.i:
            self.i, self.reader = -1, None  # the old partition goes before the new one comes
            known = self.known
            store = partition_store(known.partitions[i].compute(), known.names, known.levels)
            if store.n_rows != known.lengths[i]:
                raise SourceError(
                    f"{known.kind}, partition {i} has {store.n_rows} rows, "
                    f"{known.lengths[i]} were announced"
                )
            self.i, self.reader = i, store.open(*self.ask)
        assert self.reader is not None
        chunk = self.reader.read(start, stop)
        chunk.rows = range(row, row + stop - start)
        return chunk.copy()  # the block may be a view of an array the user holds

    def close(self) -> None:
        self.i, self.reader = -1, None
