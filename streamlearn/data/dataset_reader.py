"""A dataset's rows, read: selected, mapped, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SourceError
from .roles import some
from .select import keep_rows
from .source import Chunk, Csr, Ref

if TYPE_CHECKING:
    from .dataset import Dataset


class DatasetReader:
    """An open dataset: one task's files and buffers; a context manager."""

    def __init__(self, dataset: Dataset, only: str | None = None) -> None:
        """`only`: that column, of strings perhaps, as the target, and no features."""
        self._dataset = data = dataset
        self._columns = data.columns if only is None else ()
        if only is None and data.categorical:
            raise SourceError(
                f"the columns {some(data.categorical)} hold strings, which are read once their "
                "levels are known: Dataset.with_levels gives them, Dataset.summary() and the "
                "families that take categories learn them; or leave them out with features="
            )
        target = data.target if only is None else only
        more = {} if data.convert is None else {"convert": data.convert}
        dtype = np.dtype(np.uint8) if data.bytes_kept else data.dtype
        self._reader = data.store.open(self._columns, target, data.weight, dtype, **more)

    def __enter__(self) -> DatasetReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._reader.close()

    def read(self, ref: Ref) -> Chunk:
        """The chunk of `ref`; its arrays are valid until the next read."""
        data = self._dataset
        chunk = self._reader.read(ref.start, ref.stop)
        if chunk.X.shape[1] != len(self._columns):
            raise SourceError(
                f"{data.place(ref)} has {chunk.X.shape[1]} columns, expected {len(self._columns)}"
            )
        if data.shares:
            keep = data.shares[0].keeps(chunk.rows)
            for share in data.shares[1:]:
                keep &= share.keeps(chunk.rows)
            # Rows of an array in memory are the user's own, rows read are the reader's.
            chunk = keep_rows(chunk, keep, in_place=not data.store.in_memory)
        if not self._columns:
            return chunk
        for f in data.maps:
            chunk.X = _apply(f, chunk.X)
        if data.maps:
            _check_mapped(data, chunk, ref)
        return chunk


def _apply(f: Callable[[Any], Any], X: np.ndarray | Csr) -> np.ndarray | Csr:
    out = f(X)
    return out if isinstance(out, Csr) else np.asarray(out)


def _check_mapped(data: Dataset, chunk: Chunk, ref: Ref) -> None:
    wanted = (chunk.n_rows, data.n_features)
    if chunk.X.shape != wanted:
        raise SourceError(
            f"map gave an array of shape {chunk.X.shape} for {data.place(ref)}, expected {wanted}; "
            "pass feature_names= if the function changes the columns"
        )
    if isinstance(chunk.X, np.ndarray) and chunk.X.dtype != data.dtype:
        chunk.X = chunk.X.astype(data.dtype)
