"""A store of blocks in scratch: what a dask collection or a large array in memory becomes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from ...data.source import Chunk, Csr
from ...data.store import Column, Reader, Store
from ...numeric.huge_pages import zeros
from .blocks import Block, block_nbytes, read_piece, rows_checksum, write_block
from .folder import scratch_write

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Ask(NamedTuple):
    """The columns of a store that are written: features and their dtype, target, weight."""

    names: tuple[str, ...]
    target: str | None
    weight: str | None
    dtype: str
    slice_rows: int


def write_rows(store: Store, start: int, stop: int, ask: Ask, folder: str) -> list[Block]:
    """Write rows [start, stop) of a store to a new file, in blocks of `ask.slice_rows` rows."""
    name = f"part-{secrets.token_hex(8)}.bin"
    blocks: list[Block] = []
    if start == stop:
        return blocks
    reader = store.open(ask.names, ask.target, ask.weight, np.dtype(ask.dtype))
    n_bytes = int((stop - start) * store.row_nbytes(ask.names, np.dtype(ask.dtype)))
    path = Path(folder, name)
    try:
        with scratch_write(path, n_bytes), open(path, "xb", buffering=0) as file:
            for first in range(start, stop, ask.slice_rows):
                chunk = reader.read(first, min(first + ask.slice_rows, stop))
                block = write_block(file, name, chunk, ask.dtype, "columns")
                blocks.append(block._replace(checksum=rows_checksum(chunk)))
    finally:
        reader.close()
    return blocks


class ScratchStore(Store):
    """Blocks of rows in raw files, each column together; read without a copy in between."""

    def __init__(
        self, origin: Store, ask: Ask, folder: str, parts: Sequence[Sequence[Block]]
    ) -> None:
        wanted = {*ask.names, ask.target, ask.weight}
        self.kind, self.sparse = origin.kind, origin.sparse
        self.columns: tuple[Column, ...] = tuple(c for c in origin.columns if c.name in wanted)
        self.folder, self.ask = folder, ask
        self.blocks = tuple(block for part in parts for block in part)
        self.starts = np.cumsum([0, *(block.n_rows for block in self.blocks)], dtype=np.int64)
        self.n_rows = int(self.starts[-1])
        self._units = np.cumsum([0, *(sum(b.n_rows for b in part) for part in parts)])
        # What is computed anew for a resume, by a graph whose files may have changed, is known by
        # its rows alone; a table in memory has a hash of its own, with or without scratch.
        checksums = repr([block.checksum for block in self.blocks]).encode()
        computed = {"rows_hash": hashlib.blake2b(checksums, digest_size=16).hexdigest()}
        self._fingerprint = {**computed, **origin.fingerprint()}
        self.passes_before = 1 + origin.passes_before
        self.levels = dict(origin.levels)

    def boundaries(self) -> np.ndarray:
        return np.unique(self._units).astype(np.int64)

    def row_nbytes(self, names: Sequence[str], dtype: np.dtype) -> float:
        if not self.sparse:
            return super().row_nbytes(names, dtype)
        return self.stored_nbytes(names) / max(self.n_rows, 1)

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        if not self.sparse:
            return 0
        return max((block_nbytes(block) for block in self.blocks), default=0)

    def stored_nbytes(self, names: Sequence[str]) -> int:
        if self.sparse:
            return sum(block_nbytes(block) for block in self.blocks)
        share = len(set(names) & set(self.ask.names)) * np.dtype(self.ask.dtype).itemsize
        apart = 8 * sum(name in (self.ask.target, self.ask.weight) for name in names)
        return self.n_rows * (share + apart)

    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> Reader:
        which = [self.ask.names.index(name) for name in names]
        return ScratchStoreReader(self, which, target, weight, np.dtype(dtype))

    def place(self, start: int, stop: int) -> str:
        return f"{self.kind}, rows {start} to {stop}"

    def fingerprint(self) -> Mapping[str, object]:
        return self._fingerprint


class ScratchStoreReader:
    """Reads columns of blocks straight into one buffer, made once."""

    def __init__(
        self,
        store: ScratchStore,
        which: list[int],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
    ) -> None:
        self._store, self._which, self._dtype = store, which, dtype
        self._target, self._weight = target, weight
        self._file: BinaryIO | None = None
        self._name = ""
        self._buffer = np.empty(0, dtype)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._name = None, ""

    def read(self, start: int, stop: int) -> Chunk:
        store, m, p = self._store, stop - start, len(self._which)
        if len(self._buffer) < m * p and not store.sparse:
            self._buffer = zeros((m * p,), self._dtype)
        X = self._buffer[: m * p].reshape(p, m) if not store.sparse else None
        first = int(np.searchsorted(store.starts, start, side="right")) - 1
        sparse, y, weight = [], [], []
        at = start
        while at < stop:
            while store.starts[first + 1] <= at:
                first += 1
            block, base = store.blocks[first], int(store.starts[first])
            end = min(stop, base + block.n_rows)
            rows = slice(at - base, end - base)
            file = self._open(block.file)
            if X is None:
                sparse.append(self._sparse(file, block, rows))
            else:
                self._fill(file, block, rows, X[:, at - start : end - start])
            if self._target is not None:
                y.append(read_piece(file, block.pieces["y"])[rows])
            if self._weight is not None:
                weight.append(read_piece(file, block.pieces["weight"])[rows])
            at = end
        return Chunk(
            X.T if X is not None else self._join(sparse),
            np.concatenate(y) if self._target is not None else None,
            np.concatenate(weight) if self._weight is not None else None,
            range(start, stop),
        )

    def _open(self, name: str) -> BinaryIO:
        if self._file is None or self._name != name:
            self.close()
            self._file = open(Path(self._store.folder, name), "rb", buffering=0)
            self._name = name
        return self._file

    def _fill(self, file: BinaryIO, block: Block, rows: slice, out: np.ndarray) -> None:
        """Columns of one block, each read where it belongs."""
        piece = block.pieces["X"]
        stored = np.dtype(piece.dtype)
        for row, j in zip(out, self._which, strict=True):
            part = piece._replace(
                at=piece.at + (j * block.n_rows + rows.start) * stored.itemsize,
                n=rows.stop - rows.start,
            )
            if stored == row.dtype:
                read_piece(file, part, row)
            else:
                row[:] = read_piece(file, part)

    def _sparse(self, file: BinaryIO, block: Block, rows: slice) -> csr_matrix:
        import scipy.sparse as sp

        data, indices, indptr = (
            read_piece(file, block.pieces[key]) for key in ("data", "indices", "indptr")
        )
        shape = (block.n_rows, len(self._store.ask.names))
        return sp.csr_matrix((data, indices, indptr), shape=shape)[rows]

    def _join(self, parts: list[csr_matrix]) -> Csr:
        import scipy.sparse as sp

        rows = sp.vstack(parts, format="csr")
        if self._which != list(range(rows.shape[1])):
            rows = rows[:, self._which]
            rows.sort_indices()
        indptr = rows.indptr.astype(np.int64)
        return Csr(rows.data.astype(self._dtype, copy=False), rows.indices, indptr, rows.shape[1])
