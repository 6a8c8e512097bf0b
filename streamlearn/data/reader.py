"""The reader of a dataset: rows selected, mapped, checked and weighed as they are read."""

from __future__ import annotations

import numpy as np

from ..errors import SourceError
from .choice import Choice, may_write
from .encoding import Encoding
from .order import HashShare
from .roles import some
from .row_ranges import Ref
from .source import Chunk, Convert, Csr, subjects_of


class Selection:
    """The way from a store's rows to a dataset's: selected, mapped, checked and weighed."""

    def __init__(
        self,
        dataset: Choice,
        shares: tuple[HashShare, ...],
        only: str | None = None,
        convert: Convert | None = None,
    ) -> None:
        """`shares`: those of the dataset that its store has not chosen by.

        `only`: without features, the target one of the dataset's columns.

        `convert`: what to put features through, if the chunks have not been through it.
        """
        self._dataset, self._shares, self._convert = dataset, shares, convert
        self._n_columns = len(dataset.columns) if only is None else 0
        self._reweigh = dataset.reweigh if only is None else None

    def make(self, chunk: Chunk, ref: Ref) -> Chunk:
        """The dataset's chunk of `ref`, from that of its store."""
        data = self._dataset
        if chunk.X.shape[1] != self._n_columns:
            raise SourceError(
                f"{data.place(ref)} has {chunk.X.shape[1]} columns, expected {self._n_columns}"
            )
        if self._convert is not None:
            chunk.X = _converted(chunk.dense, self._convert)
        if self._shares:
            subjects = subjects_of(chunk, data.siblings)
            keep = self._shares[0].keeps(subjects)
            for share in self._shares[1:]:
                keep &= share.keeps(subjects)
            # Rows of an array in memory are the user's own, rows read are the reader's.
            chunk = chunk.where(keep, in_place=not data.in_memory)
        if self._n_columns and data.maps:
            for f in data.maps:
                mapped: object
                if isinstance(f, Encoding):
                    subjects = subjects_of(chunk, data.siblings)
                    mapped = f.encode(chunk.X, subjects, in_place=may_write(data, f))
                else:
                    mapped = f(chunk.X)
                chunk.X = mapped if isinstance(mapped, Csr) else np.asarray(mapped)
            self._check_mapped(chunk, ref)
        return chunk if self._reweigh is None else self._reweigh(chunk)

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


def _converted(X: np.ndarray, convert: Convert) -> np.ndarray:
    """X as a reader gives it that puts each column through `convert` as it decodes it."""
    out = np.empty(X.shape[::-1], np.float32)
    columns = [X[:, j] for j in range(X.shape[1])]
    for column in columns:
        column.flags.writeable = False
    convert(columns, range(X.shape[1]), out, 0)
    return out.T


class DatasetReader:
    """An open dataset: one task's files and buffers."""

    def __init__(self, dataset: Choice, only: str | None = None) -> None:
        """`only`: that column, of strings perhaps, as the target, and no features."""
        data = dataset
        columns = data.columns if only is None else ()
        if only is None and data.categorical:
            raise SourceError(
                f"the columns {some(data.categorical)} hold strings, which are read once their "
                "levels are known: Dataset.with_levels gives them, Dataset.summary() and the "
                "families that take categories learn them; or leave them out with features="
            )
        store, shares = data.store.choosing(data.shares)
        self._selection = Selection(data, shares, only)
        target = data.target if only is None else only
        dtype = np.dtype(np.uint8) if data.bytes_kept else data.dtype
        if data.convert is None:
            self._reader = store.open(columns, target, data.weight, dtype)
        else:
            open_through = store.open_through
            self._reader = open_through(columns, target, data.weight, dtype, data.convert)

    def __enter__(self) -> DatasetReader:
        return self

    def __exit__(self, *raised: object) -> None:
        self._reader.close()

    def read(self, ref: Ref) -> Chunk:
        """The chunk of `ref`; its arrays are valid until the next read."""
        return self._selection.make(self._reader.read(ref.start, ref.stop), ref)
