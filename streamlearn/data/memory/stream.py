"""One-shot streams of Arrow batches, written once to raw files and read from there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path

import numpy as np

from ...errors import SourceError
from ..column_types import MEASURED, is_number, is_readable
from ..levels import LevelCoder
from ..store import Column, Reader, Store
from .arrays import ArrayStore
from .arrow import stream_batches
from .memory_map import read_exactly
from .parts import Part, VectorsPart
from .vectors import Vector


class StreamStore(Store):
    """Batches that can be taken once; `write_stream` writes them where they can be read again."""

    kind = "stream"
    in_memory = True

    def __init__(
        self, columns: tuple[Column, ...], batches: Iterator[tuple[list[Vector], int]]
    ) -> None:
        self.batches, self.columns = batches, columns
        self.n_rows = None  # type: ignore[assignment]  # known when it has been read

    def take(self) -> Iterator[tuple[list[Vector], int]]:
        """The batches as their columns and lengths, once."""
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

    def fingerprint(self) -> Mapping[str, object]:
        raise self._unread()

    @staticmethod
    def _unread() -> SourceError:
        return SourceError(
            "a one-shot stream has no rows to go back to before it is written to scratch; "
            "allow scratch space (config_context(scratch=...)), or pass a table or file"
        )


def open_stream(source: object) -> StreamStore:
    """A store over a RecordBatchReader, a polars LazyFrame or any ``__arrow_c_stream__``."""
    return StreamStore(*stream_batches(source))


class WrittenPart(Part):
    """Raw blocks of `block_rows` rows: in each, one column after the other.

    Two files: ``f32`` with the columns that a float32 holds exactly, ``f64`` with the others;
    string columns lie in ``f64`` as codes into `categories` (-1: missing).
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
        self.homes = stream_homes(columns)
        self.coders: Mapping[str, LevelCoder] = {}

    def coded(self, coders: Mapping[str, LevelCoder]) -> WrittenPart:
        """The part with these columns' codes numbered by their levels."""
        part = copy(self)
        part.coders = {**self.coders, **coders}
        part.columns = tuple(
            Column(column.name, "float32") if column.name in coders else column
            for column in self.columns
        )
        return part

    def fill(self, start: int, stop: int, which: Sequence[int], out: np.ndarray) -> None:
        files = {
            name: os.open(Path(self.folder) / name, os.O_RDONLY) for name in self._files(which)
        }
        try:
            for k, j in enumerate(which):
                self._fill_column(files[self.homes[j][0]], start, stop, j, out[:, k])
                coder = self.coders.get(self.columns[j].name)
                if coder is not None:
                    codes = coder.of_words(self.categories[j])
                    out[:, k] = codes[out[:, k].astype(np.intp)]
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
        if self.columns[j].name in self.coders:
            return values
        if j in self.categories:
            names = np.array([*self.categories[j], None], dtype=object)
            return names[values.astype(np.intp)]
        missing = j in self.with_nulls and np.isnan(values).any()
        return values if missing or dtype in MEASURED else values.astype(dtype)

    def overhead(self, which: Sequence[int], rows: int) -> int:
        return 8 * min(rows, self.block_rows)

    def stored(self, names: set[str]) -> int:
        """Bytes of these columns' files that one pass reads."""
        wanted = [
            j for j, column in enumerate(self.columns) if column.name in names and j in self.homes
        ]
        return sum(self.n_rows * int(self.homes[j][0][1:]) // 8 for j in wanted)

    def raw(self, start: int, stop: int) -> bytes:
        out = np.empty((stop - start, len(self.homes)), order="F")
        self.fill(start, stop, sorted(self.homes), out)
        return out.tobytes()


def stream_homes(columns: Sequence[Column]) -> dict[int, tuple[str, int, int]]:
    """Per column kept: its file, its place in a block, and the number of columns in the file."""
    files: dict[str, list[int]] = {"f32": [], "f64": []}
    for j, column in enumerate(columns):
        if column.dtype in ("bool", "int8", "uint8", "int16", "uint16", "float16", "float32"):
            files["f32"].append(j)
        elif is_readable(column.dtype):
            files["f64"].append(j)
    return {
        j: (name, place, len(inside))
        for name, inside in files.items()
        for place, j in enumerate(inside)
    }


def write_stream(store: StreamStore, folder: str | Path, budget_rows: int) -> ArrayStore:
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
    homes = stream_homes(vectors_of)
    codes: dict[int, dict[str, int]] = {j: {} for j in homes if not is_number(vectors_of[j].dtype)}
    with_nulls: set[int] = set()
    widths = {name: width for name, _, width in homes.values()}
    blocks = {
        name: np.empty((w, budget_rows), f"f{int(name[1:]) // 8}") for name, w in widths.items()
    }
    files = {name: (Path(folder) / name).open("wb", buffering=0) for name in widths}
    filled = 0

    def flush() -> None:
        for name, block in blocks.items():
            run = block[:, :filled]
            pieces = (run,) if run.flags.c_contiguous else run
            for piece in pieces:
                view = memoryview(piece.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
                while view.nbytes:
                    view = view[files[name].write(view) :]

    try:
        for vectors, rows in store.take():
            done = 0
            while done < rows:
                m = min(rows - done, budget_rows - filled)
                for j, (name, place, _) in homes.items():
                    out = blocks[name][place, filled : filled + m]
                    if j in codes:
                        out[:] = encode(
                            vectors[j].values(done, done + m), codes[j], vectors_of[j].name
                        )
                        continue
                    vectors[j].fill(done, done + m, out)
                    if np.isnan(out).any():
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
    part = WrittenPart(
        os.path.abspath(folder), vectors_of, n_rows, budget_rows, categories, frozenset(with_nulls)
    )
    return ArrayStore("stream", part, VectorsPart((), n_rows), "stream")


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
