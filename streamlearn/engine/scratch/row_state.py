"""Row-aligned state on disk: one file per name and generation, indexed by physical row.

A pass reads generation g and writes g + 1, never in place, so that a task that is run again reads
what it read the first time.  Tasks write disjoint rows of one file.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...data.row_ranges import Ref
from ...data.source import Chunk
from ...errors import CheckpointError, ScratchError
from ...passes.fold import RowState
from ..checkpoint.manifest import KeptRows, Partial
from ..checkpoint.store import Checkpoint
from .folder import ScratchFolder, scratch_write


@dataclass(frozen=True)
class RowFile:
    """Files from and to which one pass reads and writes one row state."""

    name: str
    dtype: str
    width: int
    read_path: str | None
    """None: no generation yet, all zeros."""
    write_path: str | None = None
    """None: the pass only reads."""
    kept: bool = False
    """Whether the file read was found in a checkpoint, so that others may have changed it."""
    continues: bool = False
    """Whether the file written goes on with one that was found in a checkpoint."""

    @property
    def row_nbytes(self) -> int:
        return np.dtype(self.dtype).itemsize * self.width


class RowStates:
    """The current generation of every row state of a run, and the one a read writes next.

    Files lie under the checkpoint if that is a folder, else in scratch; under a checkpoint that is
    a URL each finished generation is copied.
    """

    def __init__(self, checkpoint: Checkpoint | None, scratch: ScratchFolder) -> None:
        self._checkpoint, self._scratch = checkpoint, scratch
        self._current: dict[str, RowFile] = {}
        for name, kept in (checkpoint.manifest["rows"] if checkpoint is not None else {}).items():
            path = self._path(kept["file"])
            if checkpoint is not None and checkpoint.is_url:
                checkpoint.download(kept["file"], path)
            self._current[name] = RowFile(name, kept["dtype"], kept["width"], path, kept=True)

    def current(self, name: str) -> RowFile:
        """The generation that a read would read now."""
        if name not in self._current:
            raise KeyError(f"no read has written row state {name!r}; there is {[*self._current]}")
        return self._current[name]

    def can_keep_parts(self, rows: tuple[RowState, ...]) -> bool:
        """Whether an unfinished read can be resumed: not if its rows go to an object store."""
        url = self._checkpoint is not None and self._checkpoint.is_url
        return not (url and any(row.writes for row in rows))

    def files(self, rows: tuple[RowState, ...], partial: Partial | None) -> tuple[RowFile, ...]:
        """Files of one read, one per row state; goes on with the file of an unfinished attempt."""
        files = []
        for name, dtype, width, writes in rows:
            now = self._current.get(name, RowFile(name, dtype, width, None))
            if (now.dtype, now.width) != (dtype, width):
                raise ValueError(
                    f"row state {name!r} is {now.width} x {now.dtype} a row, a fold asks for "
                    f"{width} x {dtype}; use another name"
                )
            if writes:
                kept = partial["rows"][name]["file"] if partial is not None else None
                path = self._path(kept or f"rows-{secrets.token_hex(8)}.bin")
                now = replace(now, write_path=path, continues=kept is not None)
            files.append(now)
        return tuple(files)

    def advance(self, files: tuple[RowFile, ...]) -> list[str]:
        """Make written files current; give the replaced paths, to be removed after the commit."""
        replaced = []
        for file in files:
            if file.write_path is None:
                continue
            Path(file.write_path).touch()  # a source without rows writes nothing
            if file.read_path is not None:
                replaced.append(file.read_path)
            self._current[file.name] = RowFile(
                file.name, file.dtype, file.width, file.write_path, kept=file.continues
            )
            if self._checkpoint is not None:
                base = os.path.basename(file.write_path)
                if self._checkpoint.is_url:
                    self._checkpoint.upload(file.write_path, base)
                entry: KeptRows = {"file": base, "dtype": file.dtype, "width": file.width}
                self._checkpoint.manifest["rows"][file.name] = entry
        return replaced

    def remove(self, paths: list[str]) -> None:
        for path in paths:
            Path(path).unlink(missing_ok=True)

    def _path(self, file: str) -> str:
        if self._checkpoint is not None and not self._checkpoint.is_url:
            return self._checkpoint.path(file)
        return str(self._scratch.path / file)


class RowAccess:
    """The row-state files of one task, open."""

    def __init__(self, files: tuple[RowFile, ...], durable: bool = False) -> None:
        self._files = files
        self._durable = durable
        self._handles: dict[str, int] = {}

    def __enter__(self) -> RowAccess:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if self._durable and error is None:
                for file in self._files:
                    if file.write_path is not None and file.write_path in self._handles:
                        with scratch_write(file.write_path, file.row_nbytes):
                            os.fsync(self._handles[file.write_path])
        finally:
            for handle in self._handles.values():
                os.close(handle)
            self._handles.clear()

    def load(self, chunk: Chunk, parts: Sequence[tuple[Ref, int]]) -> None:
        """Fill ``chunk.state``; the chunk is made of `parts`: refs, and how many rows of each."""
        for file in self._files:
            values = np.empty((chunk.n_rows, file.width), dtype=file.dtype)
            for ref, at, chosen in _placed(chunk, parts):
                if chosen is None:
                    self._read_into(file, ref.start, values[at])
                else:
                    values[at] = self.read_span(file, ref.start, ref.stop)[chosen]
            chunk.state[file.name] = values

    def store(self, chunk: Chunk, parts: Sequence[tuple[Ref, int]]) -> None:
        """Write ``chunk.state`` as the next generation of the rows of `parts`."""
        for file in self._files:
            if file.write_path is None:
                continue
            values = chunk.state[file.name]
            for ref, at, chosen in _placed(chunk, parts):
                span = values[at]
                if chosen is not None:  # rows not chosen are carried over as they are
                    span = self.read_span(file, ref.start, ref.stop)
                    span[chosen] = values[at]
                self.write_span(file, ref.start, span)

    def read_span(self, file: RowFile, start: int, stop: int) -> np.ndarray:
        """Rows [start, stop) of the generation that is read; zero where it was never written."""
        span = np.empty((stop - start, file.width), dtype=file.dtype)
        self._read_into(file, start, span)
        return span

    def _read_into(self, file: RowFile, start: int, span: np.ndarray) -> None:
        """`read_span` of the rows from `start` on into `span`, contiguous, in place."""
        flat, done = span.reshape(-1).view(np.uint8), 0
        if file.read_path is not None and len(flat):
            view = flat.data
            handle, at = self._open(file.read_path, os.O_RDONLY), start * file.row_nbytes
            while done < len(view):
                n = os.preadv(handle, [view[done:]], at + done)
                if n == 0:  # past the end: those rows were never written
                    break
                done += n
        flat[done:] = 0
        if file.kept and not np.isfinite(span).all():
            raise CheckpointError(
                f"row state {file.name!r} in {file.read_path} holds numbers that are not finite "
                f"for rows {start} to {start + len(span)}: it was changed by others; do not trust "
                "the checkpoint, remove it to start anew"
            )

    def write_span(self, file: RowFile, start: int, values: np.ndarray) -> None:
        """Write rows from `start` on into the next generation."""
        assert file.write_path is not None
        if values.dtype != np.dtype(file.dtype) or values.shape[1:] != (file.width,):
            raise ValueError(
                f"row state {file.name!r} must stay ({file.width} x {file.dtype}) a row, the step "
                f"left {values.shape} x {values.dtype}"
            )
        if values.nbytes == 0:
            return
        with scratch_write(file.write_path, values.nbytes):
            handle = self._open(file.write_path, os.O_RDWR | os.O_CREAT)
            view, at = np.ascontiguousarray(values).data.cast("B"), start * file.row_nbytes
            done = 0
            while done < len(view):
                done += os.pwrite(handle, view[done:], at + done)

    def _open(self, path: str, flags: int) -> int:
        if path not in self._handles:
            try:
                self._handles[path] = os.open(path, flags, 0o666)
            except FileNotFoundError as error:
                raise ScratchError(
                    f"{path} is gone: its folder was removed while the fit went on; leave it there "
                    "until the fit ends, and run the same line again"
                ) from error
        return self._handles[path]


def _placed(
    chunk: Chunk, parts: Sequence[tuple[Ref, int]]
) -> Iterator[tuple[Ref, slice, np.ndarray | None]]:
    """For each part: its ref, its place in the chunk, and which rows of the ref (None = all)."""
    start, numbers = 0, chunk.numbers
    for ref, n_rows in parts:
        at = slice(start, start + n_rows)
        start += n_rows
        whole = n_rows == ref.n_rows
        yield ref, at, None if whole else numbers[at] - ref.start
