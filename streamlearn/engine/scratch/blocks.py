"""The scratch cache: what later reads need, in a form that kernels take as it is.

One file per lane holds a block per ref: X as raw bytes, then target, weight and row numbers.  It is
read into a buffer made once; nothing is memory-mapped, for touched pages would count as resident.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...data.row_ranges import Ref, Refs
from ...data.source import Chunk, Csr, Source
from ...passes.fold import Fold
from .folder import scratch_write


class Piece(NamedTuple):
    """One array of a block."""

    at: int
    dtype: str
    """``json``: an array of objects (string targets)."""
    n: int
    """Elements; bytes if ``json``."""


class Block(NamedTuple):
    """The rows of one ref."""

    file: str
    n_rows: int
    first_row: int
    """Of contiguous rows; -1: piece ``rows`` numbers them."""
    pieces: dict[str, Piece]


class _Format(NamedTuple):
    """What every step of a spooling read needs to know."""

    folder: str
    convert: Callable[[Chunk], Chunk]
    n_columns: int
    dtype: str
    layout: str
    also: Fold[Any, Any] | None


def spool_fold(
    folder: Path,
    convert: Callable[[Chunk], Chunk],
    n_columns: int,
    dtype: Any,
    layout: str,
    also: Fold[Any, Any] | None,
) -> Fold[Any, Any]:
    """A fold that writes converted chunks to a file per lane; state (blocks, state of `also`)."""
    if layout not in ("columns", "rows"):
        raise ValueError(f'layout must be "columns" or "rows", got {layout!r}')
    form = _Format(str(folder), convert, n_columns, np.dtype(dtype).name, layout, also)
    can_merge = also is None or also.merge is not None
    merge = partial(_merge, form) if can_merge else None
    return Fold(partial(_start, form), partial(_step, form), merge)


def _start(form: _Format) -> dict[str, Any]:
    file = f"lane-{secrets.token_hex(8)}.bin"  # a lane that is run again writes another file
    return {"file": file, "blocks": [], "also": None if form.also is None else form.also.start()}


def _step(form: _Format, state: dict[str, Any], chunk: Chunk) -> dict[str, Any]:
    chunk = form.convert(chunk)
    if chunk.X.shape != (chunk.n_rows, form.n_columns):
        raise ValueError(
            f"spooled chunk is {chunk.X.shape}, expected {(chunk.n_rows, form.n_columns)}"
        )
    path = Path(form.folder, state["file"])
    with scratch_write(path, chunk.X.nbytes), open(path, "ab", buffering=0) as file:
        state["blocks"].append(write_block(file, path.name, chunk, form.dtype, form.layout))
    if form.also is not None:
        state["also"] = form.also.step(state["also"], chunk)
    return state


def _merge(form: _Format, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    a["blocks"] += b["blocks"]
    if form.also is not None and form.also.merge is not None:
        a["also"] = form.also.merge(a["also"], b["also"])
    return a


def write_block(file: BinaryIO, name: str, chunk: Chunk, dtype: str, layout: str) -> Block:
    """Append a chunk to the file called `name`."""
    X = chunk.X
    if isinstance(X, Csr):
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
    else:
        wanted = X.astype(dtype, copy=False)
        arrays = {"X": wanted.T if layout == "columns" else wanted}
    if chunk.y is not None:
        arrays["y"] = chunk.y
    if chunk.weight is not None:
        arrays["weight"] = chunk.weight
    if not isinstance(chunk.rows, range):
        arrays["rows"] = chunk.rows
    pieces = {key: _write_piece(file, array) for key, array in arrays.items()}
    first = chunk.rows.start if isinstance(chunk.rows, range) else -1
    return Block(name, chunk.n_rows, first, pieces)


def _write_piece(file: BinaryIO, array: np.ndarray) -> Piece:
    at = file.seek(0, 2)
    if array.dtype.hasobject:
        raw: Any = json.dumps(array.tolist()).encode()
        piece = Piece(at, "json", len(raw))
    else:
        array = np.ascontiguousarray(array)
        raw = array.reshape(-1).view(np.uint8)
        piece = Piece(at, array.dtype.str, array.size)
    view = memoryview(raw)
    while len(view):
        view = view[file.write(view) :]
    return piece


def open_spool(
    folder: Path, source: Source, state: dict[str, Any], n_columns: int, layout: str
) -> tuple[ScratchSource, Any]:
    """The source that was spooled, and the state of the fold computed meanwhile."""
    return ScratchSource(str(folder), source, state["blocks"], n_columns, layout), state["also"]


class ScratchSource(Source):
    """A source of spooled blocks: the refs of the source it came from, so lanes and bits agree."""

    def __init__(
        self, folder: str, origin: Source, blocks: Sequence[Block], n_columns: int, layout: str
    ) -> None:
        self.folder, self.n_rows, self.n_columns, self.layout = (
            folder,
            origin.n_rows,
            n_columns,
            layout,
        )
        self._refs = Refs.of(origin.refs())
        self.blocks = dict(zip(self._refs.starts.tolist(), blocks, strict=True))
        """The block of each ref, by the ref's first row."""

    @property
    def n_features(self) -> int:
        return self.n_columns

    @property
    def stored_nbytes(self) -> int:
        return sum(block_nbytes(block) for block in self.blocks.values())

    @property
    def sparse(self) -> bool:
        return any("indptr" in block.pieces for block in self.blocks.values())

    def refs(self) -> Refs:
        return self._refs

    def reader(self) -> ScratchReader:
        return ScratchReader(self)


class ScratchReader:
    """Reads blocks into one buffer each for X, made once for the largest."""

    def __init__(self, source: ScratchSource) -> None:
        self._source = source
        self._files: dict[str, BinaryIO] = {}
        self._buffers: dict[str, np.ndarray] = {}

    def __enter__(self) -> ScratchReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def read(self, ref: Ref) -> Chunk:
        source = self._source
        block = source.blocks[ref.start]
        if block.file not in self._files:
            self.__exit__(None, None, None)  # lanes are read in order: one file at a time is enough
            self._files[block.file] = open(Path(source.folder, block.file), "rb", buffering=0)
        arrays = {key: self._piece(block, key) for key in block.pieces}
        m, p = block.n_rows, source.n_features
        X: np.ndarray | Csr
        if "indptr" in arrays:
            X = Csr(arrays["data"], arrays["indices"], arrays["indptr"], p)
        elif source.layout == "columns":
            X = arrays["X"].reshape(p, m).T
        else:
            X = arrays["X"].reshape(m, p)
        rows: Any = arrays.get("rows", range(block.first_row, block.first_row + m))
        return Chunk(X, arrays.get("y"), arrays.get("weight"), rows)

    def _piece(self, block: Block, key: str) -> np.ndarray:
        piece = block.pieces[key]
        buffer = self._buffers.get(key)
        dtype = np.dtype("u1" if piece.dtype == "json" else piece.dtype)
        if buffer is None or buffer.dtype != dtype or len(buffer) < piece.n:
            blocks = self._source.blocks.values()
            largest = max(b.pieces[key].n for b in blocks if key in b.pieces)
            self._buffers[key] = buffer = np.empty(largest, dtype)
        return read_piece(self._files[block.file], piece, buffer)


def read_piece(file: BinaryIO, piece: Piece, out: np.ndarray | None = None) -> np.ndarray:
    """One array of a block, in the beginning of `out` if that is given."""
    is_raw = piece.dtype != "json"
    if out is None:
        out = np.empty(piece.n, piece.dtype if is_raw else np.uint8)
    view = out[: piece.n].view(np.uint8).data
    file.seek(piece.at)
    done = 0
    while done < len(view):
        n = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not n:
            raise OSError(f"scratch file {file.name} is cut short")
        done += n
    if is_raw:
        return out[: piece.n]
    values = json.loads(bytes(view))
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def block_nbytes(block: Block) -> int:
    """Bytes of one block on disk."""
    return sum(
        piece.n if piece.dtype == "json" else piece.n * np.dtype(piece.dtype).itemsize
        for piece in block.pieces.values()
    )
