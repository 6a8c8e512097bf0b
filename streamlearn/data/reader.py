"""The reader of a dataset: rows selected, mapped, checked and weighed as they are read."""

from __future__ import annotations

import numpy as np

from ..errors import SourceError
from .choice import Choice
from .encoding import Encoding
from .roles import some
from .row_ranges import Ref
from .source import Chunk, Csr, subjects_of


class DatasetReader:
    """An open dataset, rows selected, mapped and checked: one task's files and buffers."""

    def __init__(self, dataset: Choice, only: str | None = None) -> None:
        """`only`: that column, of strings perhaps, as the target, and no features."""
        self._dataset = data = dataset
        self._columns = data.columns if only is None else ()
        if only is None and data.categorical:
            raise SourceError(
                f"the columns {some(data.categorical)} hold strings, which are read once their "
                "levels are known: Dataset.with_levels gives them, Dataset.summary() and the "
                "families that take categories learn them; or leave them out with features="
            )
        self._reweigh = data.reweigh if only is None else None
        target = data.target if only is None else only
        dtype = np.dtype(np.uint8) if data.bytes_kept else data.dtype
        store, self._shares = data.store.choosing(data.shares)
        if data.convert is None:
            self._reader = store.open(self._columns, target, data.weight, dtype)
        else:
            open_through = store.open_through
            self._reader = open_through(self._columns, target, data.weight, dtype, data.convert)

    def __enter__(self) -> DatasetReader:
        return self

    def __exit__(self, *raised: object) -> None:
        self._reader.close()

    def read(self, ref: Ref) -> Chunk:
        """The chunk of `ref`; its arrays are valid until the next read."""
        data = self._dataset
        chunk = self._reader.read(ref.start, ref.stop)
        if chunk.X.shape[1] != len(self._columns):
            raise SourceError(
                f"{data.place(ref)} has {chunk.X.shape[1]} columns, expected {len(self._columns)}"
            )
        if self._shares:
            subjects = subjects_of(chunk, data.siblings)
            keep = self._shares[0].keeps(subjects)
            for share in self._shares[1:]:
                keep &= share.keeps(subjects)
            # Rows of an array in memory are the user's own, rows read are the reader's.
            chunk = chunk.where(keep, in_place=not data.in_memory)
        if self._columns and data.maps:
            for f in data.maps:
                mapped: object
                if isinstance(f, Encoding):
                    mapped = f.encode(chunk.X, subjects_of(chunk, data.siblings))
                else:
                    mapped = f(chunk.X)
                chunk.X = mapped if isinstance(mapped, Csr) else np.asarray(mapped)
            self._check_mapped(chunk, ref)
        if self._reweigh is not None:
            chunk = self._reweigh(chunk)
        return chunk

    def _check_mapped(self, chunk: Chunk, ref: Ref) -> None:
        data = self._dataset
        wanted = (chunk.n_rows, data.n_features)
        if chunk.X.shape != wanted:
            raise SourceError(
                f"map gave an array of shape {chunk.X.shape} for {data.place(ref)}, expected "
                f"{wanted}; pass feature_names= if the function changes the columns"
            )
        if isinstance(chunk.X, np.ndarray) and chunk.X.dtype != data.dtype:
            chunk.X = chunk.X.astype(data.dtype)
