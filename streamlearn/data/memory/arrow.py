"""Arrow columns as numpy without pandas: tables, polars frames, one-shot streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...errors import SourceError
from ..column_types import arrow_type, is_number
from ..columns import copy_numbers
from ..levels import Word
from ..store import Column
from .arrow_values import encode_arrow, numbers_of
from .vectors import Vector

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Table: TypeAlias = "pa.Table | pa.RecordBatch | pl.DataFrame"
"""Rows in memory whose columns Arrow can share."""

BATCH_ROWS = 16384
"""Rows a polars LazyFrame is asked for at a time."""


class ArrowVector(Vector):
    """A column of a pyarrow Table; nulls of numbers become NaN."""

    def __init__(self, name: str, array: pa.ChunkedArray) -> None:
        self.array, self.column = array, Column(name, arrow_type(array.type))

    def __len__(self) -> int:
        return len(self.array)

    def fill(self, start: int, stop: int, out: np.ndarray) -> None:
        at = 0
        for run in self.array.slice(start, stop - start).chunks:
            values, valid = numbers_of(run, self.column.dtype)
            piece = out[at : at + len(run)]
            if valid is not None and values.dtype.kind != "f":
                values = np.where(
                    valid, values, values.dtype.type(0)
                )  # what lies there is undefined
            at += len(run)
            copy_numbers(piece, values, f"column {self.column.name!r}, rows {start} to {stop}")
            if valid is not None:
                piece[~valid] = np.nan

    def encoded(self, start: int, stop: int) -> Iterator[tuple[np.ndarray, Iterable[Word]]]:
        """The rows' strings as (indices, words), a run at a time."""
        for run in self.array.slice(start, stop - start).chunks:
            yield from encode_arrow(run)

    def values(self, start: int, stop: int) -> np.ndarray:
        run = self.array.slice(start, stop - start)
        if not is_number(self.column.dtype):
            values = np.empty(len(run), dtype=object)
            values[:] = run.to_pylist()
            return values
        if run.null_count:
            self.fill(start, stop, out := np.empty(stop - start))
            return out
        pieces = [numbers_of(chunk, self.column.dtype)[0] for chunk in run.chunks]
        return np.concatenate(pieces) if pieces else np.empty(0, self.column.dtype)


def table_vectors(table: Table) -> tuple[list[Vector], int]:
    """The columns of a pyarrow Table or RecordBatch, or of a polars frame (shared, not copied)."""
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif not isinstance(table, pa.Table):  # pa.table(frame) would import pandas
        table = pa.RecordBatchReader.from_stream(table).read_all()
    vectors: list[Vector] = [
        ArrowVector(name, column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return vectors, table.num_rows


def array_vector(name: str, values: object) -> Vector:
    """A pyarrow (Chunked)Array or polars Series as one column."""
    import pyarrow as pa

    if not isinstance(values, pa.ChunkedArray):
        values = pa.chunked_array(
            [pa.array(values) if not isinstance(values, pa.Array) else values]
        )
    return ArrowVector(name, values)


def stream_batches(
    source: pl.LazyFrame | pa.RecordBatchReader,
) -> tuple[tuple[Column, ...], Iterator[tuple[list[Vector], int]]]:
    """Columns, and batches of them, of a polars LazyFrame or any ``__arrow_c_stream__``."""
    import pyarrow as pa

    if type(source).__name__ == "LazyFrame":
        try:
            frames = source.collect_batches(chunk_size=BATCH_ROWS, lazy=True)
        except AttributeError:
            raise SourceError(
                "this polars cannot stream a LazyFrame (collect_batches is missing); "
                "upgrade polars, call .collect() if it fits in memory, or .sink_parquet(path)"
            ) from None
        schema = pa.RecordBatchReader.from_stream(source.limit(0).collect()).schema
        return schema_columns(schema), map(table_vectors, frames)
    reader = source
    if not isinstance(source, pa.RecordBatchReader):
        reader = pa.RecordBatchReader.from_stream(source)
    return schema_columns(reader.schema), (table_vectors(batch) for batch in reader)


def schema_columns(schema: pa.Schema) -> tuple[Column, ...]:
    return tuple(Column(field.name, arrow_type(field.type)) for field in schema)
