"""The scratch cache: what later reads need, in a form that kernels take as it is.

One file per lane holds a block per ref: X as raw bytes, then target, weight and row numbers.  It is
read into a buffer made once; nothing is memory-mapped, for touched pages would count as resident.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypedDict

import numpy as np

from ...data.row_ranges import Ref, Refs
from ...data.source import Chunk, Csr, Source
from ...passes.fold import Fold, Result, State
from .folder import scratch_write

_ORDER: dict[str, Literal["F", "C"]] = {"columns": "F", "rows": "C"}


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
    """Number of the first row, if the rows are contiguous; -1 where piece ``rows`` numbers them."""
    pieces: dict[str, Piece]
    checksum: int = 0
    """CRC of the rows (`rows_checksum`), where they are what a checkpoint's data is known by."""


class RowForm(NamedTuple):
    """The form in which a run caches rows, so that kernels take them as they are."""

    convert: Callable[[Chunk], Chunk] | None
    """Picklable; its X is an array of its own.  None: the rows stay as they are read."""
    n_columns: int
    """Columns of X after it."""
    dtype: str
    """Type of a dense X after it."""
    layout: str = "columns"
    """The axis along which a dense X is contiguous afterwards: "columns" or "rows"."""

    def own(self, chunk: Chunk) -> Chunk:
        """The chunk in this form, in arrays of its own."""
        if self.convert is None:
            return chunk.copy()
        chunk = self.of(chunk)
        bare = Chunk(np.empty((chunk.n_rows, 0)), chunk.y, chunk.weight, chunk.rows).copy()
        return replace(bare, X=chunk.X, state=chunk.state)

    def of(self, chunk: Chunk) -> Chunk:
        """The chunk in this form."""
        if self.convert is None:
            return chunk
        chunk = self.convert(chunk)
        if chunk.X.shape != (chunk.n_rows, self.n_columns):
            raise ValueError(
                f"cached chunk is {chunk.X.shape}, expected {(chunk.n_rows, self.n_columns)}"
            )
        if isinstance(chunk.X, Csr):
            return chunk
        X = chunk.X.astype(self.dtype, _ORDER[self.layout], copy=False)
        return Chunk(X, chunk.y, chunk.weight, chunk.rows, chunk.state)


class Cached(TypedDict):
    """The chunks that one lane has written, and the state of the fold that went with them."""

    file: str
    blocks: list[Block]
    also: Any
    """A state of whatever fold that is; None without one."""


def cache_fold(
    folder: str, form: RowForm, also: Fold[State, Result] | None
) -> Fold[Cached, Cached]:
    """A fold that writes chunks to a file per lane; state (blocks, state of `also`)."""
    can_merge = also is None or also.merge is not None
    merge = partial(_merge, also) if can_merge else None
    return Fold(partial(_start, also), partial(_step, folder, form, also), merge)


def _start(also: Fold[State, Result] | None) -> Cached:
    file = f"lane-{secrets.token_hex(8)}.bin"  # a lane that is run again writes another file
    return {"file": file, "blocks": [], "also": None if also is None else also.start()}


def _step(
    folder: str, form: RowForm, also: Fold[State, Result] | None, state: Cached, chunk: Chunk
) -> Cached:
    chunk, path = form.of(chunk), Path(folder, state["file"])
    with scratch_write(path, chunk.X.nbytes), open(path, "ab", buffering=0) as file:
        state["blocks"].append(write_block(file, path.name, chunk, form.dtype, form.layout))
    if also is not None:
        state["also"] = also.step(state["also"], chunk)
    return state


def _merge(also: Fold[State, Result] | None, a: Cached, b: Cached) -> Cached:
    a["blocks"] += b["blocks"]
    if also is not None and also.merge is not None:
        a["also"] = also.merge(a["also"], b["also"])
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


def rows_checksum(chunk: Chunk) -> int:
    """CRC of a chunk's values, target and weight."""
    X, checksum = chunk.X, 0
    for array in (*(X[:3] if isinstance(X, Csr) else (X.T,)), chunk.y, chunk.weight):
        if array is not None and array.dtype.hasobject:
            checksum = zlib.crc32(json.dumps(array.tolist()).encode(), checksum)
        elif array is not None:
            checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return checksum


def _write_piece(file: BinaryIO, array: np.ndarray) -> Piece:
    at = file.seek(0, 2)
    if array.dtype.hasobject:
        view = memoryview(json.dumps(array.tolist()).encode())
        piece = Piece(at, "json", len(view))
    else:
        array = np.ascontiguousarray(array)
        view = array.reshape(-1).view(np.uint8).data
        piece = Piece(at, array.dtype.str, array.size)
    while len(view):
        view = view[file.write(view) :]
    return piece


class ScratchSource(Source):
    """A source of cached blocks: the refs of the source it came from, so lanes and bits agree."""

    def __init__(self, folder: str, origin: Source, blocks: Sequence[Block], form: RowForm) -> None:
        self.folder, self.n_rows = folder, origin.n_rows
        self.n_columns, self.layout = form.n_columns, form.layout
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

    def __exit__(self, *raised: object) -> None:
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
        rows: np.ndarray | range = arrays.get("rows", range(block.first_row, block.first_row + m))
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
