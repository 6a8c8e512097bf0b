"""Arrow columns as numpy without pandas, and one-shot streams written to raw files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SourceError
from .columns import copy_numbers, is_number
from .from_arrays import ArrayStore, Vector, VectorsPart
from .memory_map import read_exactly
from .source import Column, Reader, Store


def arrow_type(dtype: Any) -> str:
    """The `Column.dtype` of an Arrow type."""
    import pyarrow.types as t

    if t.is_boolean(dtype):
        return "bool"
    if t.is_integer(dtype) or t.is_floating(dtype):
        return str(dtype.to_pandas_dtype().__name__)
    if t.is_dictionary(dtype):
        return "dictionary"
    if t.is_string(dtype) or t.is_large_string(dtype) or t.is_string_view(dtype):
        return "string"
    return "timestamp" if t.is_temporal(dtype) else "nested"


def numbers_of(array: Any, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """An Arrow array's values without a copy (bits become bool), and where they are valid."""
    bits, values = array.buffers()
    n, first = len(array), array.offset

    def unpack(buffer: Any) -> np.ndarray:
        begin, end = first // 8, (first + n + 7) // 8
        run = np.frombuffer(buffer, np.uint8, end - begin, begin)
        return np.unpackbits(run, bitorder="little")[first % 8 : first % 8 + n].view(bool)

    valid = None if bits is None or not array.null_count else unpack(bits)
    if n == 0 or values is None:
        return np.zeros(n, dtype), valid
    if dtype == "bool":
        return unpack(values), valid
    return np.frombuffer(values, dtype)[first : first + n], valid


class ArrowVector:
    """A column of a pyarrow Table; nulls of numbers become NaN."""

    def __init__(self, name: str, array: Any) -> None:
        self.array, self.column = array, Column(name, arrow_type(array.type))

    def __len__(self) -> int:
        return len(self.array)

    def fill(self, start: int, stop: int, out: np.ndarray) -> None:
        at = 0
        for run in self.array.slice(start, stop - start).chunks:
            values, valid = numbers_of(run, self.column.dtype)
            piece = out[at : at + len(run)]
            if valid is not None and values.dtype.kind != "f":
                values = np.where(valid, values, values.dtype.type(0))  # what lies there is undefined
            at += len(run)
            copy_numbers(piece, values, f"column {self.column.name!r}, rows {start} to {stop}")
            if valid is not None:
                piece[~valid] = np.nan

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


def table_vectors(table: Any) -> tuple[list[Vector], int]:
    """The columns of a pyarrow Table or RecordBatch, or of a polars frame (shared, not copied)."""
    import pyarrow as pa

    table = pa.table(table)
    vectors: list[Vector] = [
        ArrowVector(name, column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return vectors, table.num_rows


def array_vector(name: str, values: Any) -> Vector:
    """A pyarrow (Chunked)Array or polars Series as one column."""
    import pyarrow as pa

    if not isinstance(values, pa.ChunkedArray):
        values = pa.chunked_array([pa.array(values) if not isinstance(values, pa.Array) else values])
    return ArrowVector(name, values)


class StreamStore(Store):
    """Arrow batches that can be taken once: `spool_stream` writes them where they can be read again."""

    kind = "stream"
    one_shot = True
    in_memory = True
    default_target: str | None = None
    default_weight: str | None = None

    def __init__(self, schema: Any, batches: Iterator[Any]) -> None:
        self.batches = batches
        self.columns = tuple(Column(field.name, arrow_type(field.type)) for field in schema)
        self.n_rows = None  # type: ignore[assignment]  # known when it has been read

    def take(self) -> Iterator[Any]:
        """The batches, once."""
        batches, self.batches = self.batches, None  # type: ignore[assignment]
        if batches is None:
            raise SourceError(
                "this stream has been read before and gives its rows once; "
                "pass a new stream, or a table or file"
            )
        return batches

    def boundaries(self) -> np.ndarray:
        raise self._unread()

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        raise self._unread()

    def stored_nbytes(self, names: Sequence[str]) -> int:
        return 0

    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> Reader:
        raise self._unread()

    def place(self, start: int, stop: int) -> str:
        return f"stream, rows {start} to {stop}"

    def fingerprint(self) -> Mapping[str, Any]:
        raise self._unread()

    @staticmethod
    def _unread() -> SourceError:
        return SourceError(
            "a one-shot stream has no rows to go back to before it is written to scratch; "
            "allow scratch space (config_context(scratch=...)), or pass a table or file"
        )


def open_stream(source: Any) -> StreamStore:
    """A store over a RecordBatchReader, a polars LazyFrame or any ``__arrow_c_stream__``."""
    import pyarrow as pa

    if type(source).__name__ == "LazyFrame":
        if not hasattr(source, "collect_batches"):
            raise SourceError(
                "this polars cannot stream a LazyFrame (collect_batches is missing); "
                "upgrade polars, call .collect() if it fits in memory, or .sink_parquet(path)"
            )
        schema = pa.table(source.limit(0).collect()).schema
        frames = source.collect_batches(chunk_size=BATCH_ROWS, lazy=True)
        return StreamStore(schema, (b for frame in frames for b in pa.table(frame).to_batches()))
    reader = source if isinstance(source, pa.RecordBatchReader) else None
    if reader is None:
        reader = pa.RecordBatchReader.from_stream(source)
    return StreamStore(reader.schema, iter(reader))


BATCH_ROWS = 16384
"""Rows a polars LazyFrame is asked for at a time."""


class SpooledPart:
    """Raw blocks of `block_rows` rows: in each, one column after the other.

    Two files: ``f32`` with the columns that a float32 holds exactly, ``f64`` with the others; string
    columns lie in ``f64`` as codes into `categories` (-1: missing).
    """

    in_memory = False
    order = "F"

    def __init__(
        self,
        folder: str,
        columns: tuple[Column, ...],
        n_rows: int,
        block_rows: int,
        categories: Mapping[int, list[str]],
        with_nulls: frozenset[int],
    ) -> None:
        self.folder, self.columns, self.n_rows = folder, columns, n_rows
        self.block_rows, self.categories, self.with_nulls = block_rows, categories, with_nulls
        self.homes = spool_homes(columns)

    def view(self, start: int, stop: int, which: Sequence[int], dtype: np.dtype) -> Any:
        return None

    def fill(self, start: int, stop: int, which: Sequence[int], out: np.ndarray) -> None:
        files = {name: os.open(Path(self.folder) / name, os.O_RDONLY) for name in self._files(which)}
        try:
            for k, j in enumerate(which):
                self._fill_column(files[self.homes[j][0]], start, stop, j, out[:, k])
        finally:
            for file in files.values():
                os.close(file)

    def _files(self, which: Sequence[int]) -> set[str]:
        return {self.homes[j][0] for j in which}

    def _fill_column(self, file: int, start: int, stop: int, j: int, out: np.ndarray) -> None:
        name, place, width = self.homes[j]
        size = int(name[1:]) // 8
        direct = out.dtype.itemsize == size and out.strides[0] == size
        a = start
        while a < stop:
            block = a // self.block_rows
            first = block * self.block_rows
            rows = min(self.block_rows, self.n_rows - first)  # the last block is shorter
            b = min(stop, first + rows)
            run = out[a - start : b - start] if direct else np.empty(b - a, f"f{size}")
            offset = (first * width + place * rows + a - first) * size
            read_exactly(file, run, offset, str(Path(self.folder) / name))
            if not direct:
                out[a - start : b - start] = run
            a = b

    def values(self, start: int, stop: int, j: int) -> np.ndarray:
        self.fill(start, stop, [j], out := np.empty((stop - start, 1)))
        values, dtype = out[:, 0], self.columns[j].dtype
        if j in self.categories:
            names = np.array([*self.categories[j], None], dtype=object)
            return names[values.astype(np.intp)]
        missing = j in self.with_nulls and np.isnan(values).any()
        return values if missing else values.astype(dtype)

    def overhead(self, which: Sequence[int], rows: int) -> int:
        return 8 * min(rows, self.block_rows)

    def stored(self, names: set[str]) -> int:
        """Bytes of these columns' files that one pass reads."""
        wanted = [j for j, column in enumerate(self.columns) if column.name in names and j in self.homes]
        return sum(self.n_rows * int(self.homes[j][0][1:]) // 8 for j in wanted)

    def raw(self, start: int, stop: int) -> bytes:
        out = np.empty((stop - start, len(self.homes)), order="F")
        self.fill(start, stop, sorted(self.homes), out)
        return out.tobytes()


def spool_homes(columns: Sequence[Column]) -> dict[int, tuple[str, int, int]]:
    """Per column that is kept: its file, its place in a block, and how many columns the file has."""
    files: dict[str, list[int]] = {"f32": [], "f64": []}
    for j, column in enumerate(columns):
        if column.dtype in ("bool", "int8", "uint8", "int16", "uint16", "float16", "float32"):
            files["f32"].append(j)
        elif column.dtype not in ("timestamp", "nested"):
            files["f64"].append(j)
    return {
        j: (name, place, len(inside)) for name, inside in files.items() for place, j in enumerate(inside)
    }


def spool_stream(store: StreamStore, folder: str | Path, budget_rows: int) -> ArrayStore:
    """Write a stream's rows to raw files in `folder`; holds one batch and one block of rows.

    Parameters
    ----------
    store : StreamStore
        Read to its end; cannot be read a second time.
    folder : path
        Exists; gets the files ``f32`` and ``f64``.  The caller removes it.
    budget_rows : int
        Rows of a block: memory is ``budget_rows`` times the bytes of a row, and the stream's batch.

    Returns
    -------
    ArrayStore
        The same columns, readable again and picklable: it holds the folder's name.
    """
    vectors_of, n_rows = store.columns, 0
    homes = spool_homes(vectors_of)
    codes: dict[int, dict[str, int]] = {
        j: {} for j in homes if not is_number(vectors_of[j].dtype)
    }
    with_nulls: set[int] = set()
    widths = {name: width for name, _, width in homes.values()}
    blocks = {name: np.empty((w, budget_rows), f"f{int(name[1:]) // 8}") for name, w in widths.items()}
    files = {name: (Path(folder) / name).open("wb", buffering=0) for name in widths}
    filled = 0

    def flush() -> None:
        for name, block in blocks.items():
            run = block[:, :filled]
            pieces = (run,) if run.flags.c_contiguous else run
            for piece in pieces:
                view = memoryview(piece.reshape(-1).view(np.uint8))
                while view.nbytes:
                    view = view[files[name].write(view) :]

    try:
        for batch in store.take():
            vectors, rows = table_vectors(batch_table(batch))
            done = 0
            while done < rows:
                m = min(rows - done, budget_rows - filled)
                for j, (name, place, _) in homes.items():
                    out = blocks[name][place, filled : filled + m]
                    if j in codes:
                        out[:] = encode(vectors[j].values(done, done + m), codes[j], vectors_of[j].name)
                        continue
                    vectors[j].fill(done, done + m, out)
                    if vectors[j].array.null_count:  # type: ignore[attr-defined]
                        with_nulls.add(j)
                filled, done, n_rows = filled + m, done + m, n_rows + m
                if filled == budget_rows:
                    flush()
                    filled = 0
        flush()
    finally:
        for file in files.values():
            file.close()
    if not n_rows:
        raise SourceError("the stream ended without a row; a minimum of 1 is required")
    categories = {j: list(seen) for j, seen in codes.items()}
    part = SpooledPart(
        os.path.abspath(folder), vectors_of, n_rows, budget_rows, categories, frozenset(with_nulls)
    )
    return ArrayStore("stream", part, VectorsPart((), n_rows), "stream")


def batch_table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


MAX_STRINGS = 65_536
"""Distinct strings of a column that are kept in memory while a stream is written."""


def encode(values: np.ndarray, seen: dict[str, int], name: str) -> np.ndarray:
    """Codes of strings, new ones numbered on; -1 for None."""
    codes = np.empty(len(values))
    for i, value in enumerate(values):
        codes[i] = -1 if value is None else seen.setdefault(value, len(seen))
    if len(seen) > MAX_STRINGS:
        raise SourceError(
            f"stream column {name!r} has more than {MAX_STRINGS} distinct strings; it is no class "
            "label; drop the column from the stream"
        )
    return codes
