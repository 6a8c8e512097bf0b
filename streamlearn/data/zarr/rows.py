"""Runs of rows of one zarr array, each chunk decoded once when they are read in ascending order."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias
from zipfile import BadZipFile

import numpy as np

from ...errors import SourceError
from ...numeric.malloc import return_freed_blocks
from ..columns import as_selector, copy_numbers
from ..files.remote import as_os_errors
from .chunks import Chunks

if TYPE_CHECKING:
    import zarr

Selector: TypeAlias = slice | np.ndarray
"""Some columns, of the array or of the buffer."""

READ_ERRORS = (
    OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError,
    EOFError, ArithmeticError, MemoryError, SystemError, zlib.error, lzma.LZMAError, BadZipFile,
)  # fmt: skip
"""Errors that zarr's stores, metadata and codecs raise over damaged bytes."""

CALL_BYTES = 2 << 20
"""Decoded bytes asked of zarr in one call, unless one chunk is larger.

zarr decodes up to ten chunks of a call at once; all of a call this small are in its overhead."""


class Rows:
    """Rows of chosen columns of one array, in one buffer that reads use again.

    The buffer holds a run of rows that ends where a chunk ends; a read inside it is a view, one
    that goes on from it keeps the rows left and decodes the chunks that follow.  Rows handed out
    are the caller's to change: they are decoded again if they are asked for again.

    Parameters
    ----------
    array : zarr.Array
        (n,) or (n, p).
    columns : sequence of int, or None
        For (n, p): the columns, in the order wanted.
    dtype : dtype
        Of the rows handed out; chunks are converted as they are copied.
    place : str
        The store's name in messages.
    chunks : Chunks, optional
        The array's, as they were when it was opened: `check` compares those that were read.
    """

    def __init__(
        self,
        array: zarr.Array,
        columns: Sequence[int] | None,
        dtype: np.dtype,
        place: str,
        chunks: Chunks | None = None,
    ) -> None:
        self._chunks_known, self._runs_read = chunks, set[int]()
        return_freed_blocks()
        self.array, self.dtype = array, dtype
        self.place = f"{place}, array {'/' + array.path if array.path else 'X'}"
        self.n_rows, self.chunk_rows = int(array.shape[0]), int(array.chunks[0])
        self.groups = column_groups(array, columns)
        self.row_shape = () if columns is None else (len(columns),)
        self.base = self.lo = self.hi = (
            0  # buffer[0] is row base; rows lo to hi are still as stored
        )
        self.buffer = np.empty((0, *self.row_shape), dtype)
        stored = np.dtype(array.dtype)
        # integers too large for a float64 are looked for, so they are decoded apart first
        self.checked = stored.kind in "iu" and stored.itemsize == 8 and dtype.kind == "f"

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows [start, stop), valid until the next read."""
        if not self.lo <= start <= stop <= self.hi:
            c = self.chunk_rows
            end = min(-(-stop // c) * c, self.n_rows)
            kept = self.hi - start if self.lo <= start < self.hi else 0
            first = start if kept else start // c * c
            rest = self.buffer[start - self.base : self.hi - self.base] if kept else None
            self.lo = self.hi = 0
            if len(self.buffer) < end - first:
                if rest is None:
                    self.buffer = np.empty((0, *self.row_shape), self.dtype)
                # room for a run that starts and ends inside chunks; untouched pages cost nothing
                room = min(stop - start + (2 * c if (stop - start) % c else 0), self.n_rows)
                room = max(room, end - first)
                self.buffer = np.empty((room, *self.row_shape), self.dtype)
            if rest is not None:
                self.buffer[:kept] = rest
            del rest
            self._decode(first + kept, end, self.buffer[kept : end - first])
            self.base, self.hi = first, end
        self.lo = stop
        return self.buffer[start - self.base : stop - self.base]

    def check(self) -> None:
        """Raise SourceError if a chunk that was read has changed since the array was opened."""
        if self._chunks_known is not None:
            self._chunks_known.check(self._runs_read)

    def overhead(self, rows: int, aligned: bool = False) -> int:
        """Bytes beside the rows handed out: rest of the run, and what zarr holds in a call.

        `aligned`: reads begin with a chunk or lie inside one, as those of the store's own units do.
        """
        c = min(self.chunk_rows, self.n_rows)
        itemsize = 8 if self.dtype == object else self.dtype.itemsize
        row = itemsize * (self.row_shape[0] if self.row_shape else 1)
        rest = (max(0, c - rows) if aligned else min(2 * c, self.n_rows)) * row
        call = min(max(nbytes for *_, nbytes in self.groups), self._nbytes())
        call = max(call, min(CALL_BYTES, self._nbytes()))
        sharded = self.array.shards is not None
        apart = self.checked or any(not isinstance(dest, slice) for _, dest, _ in self.groups)
        # compressed and decoded chunk; of a shard also the part asked for; the checked copy
        return int(rest + call * (2 + sharded + apart))

    def _nbytes(self) -> int:
        return int(np.prod(self.array.shape)) * np.dtype(self.array.dtype).itemsize

    def _decode(self, first: int, last: int, out: np.ndarray) -> None:
        """Rows [first, last), beginning and ending with a chunk, into `out`, in place."""
        if self._chunks_known is not None:
            self._runs_read.update(self._chunks_known.runs_of(first, last))
        for source, dest, nbytes in self.groups:
            step = self.chunk_rows * max(1, CALL_BYTES // max(nbytes, 1))
            for a in range(first, last, step):
                b = min(a + step, last)
                self._call(a, b, source, dest, out[a - first : b - first])

    def _call(
        self, a: int, b: int, source: Selector | None, dest: Selector, out: np.ndarray
    ) -> None:
        try:
            with as_os_errors():
                self._select(a, b, source, dest, out)
        except SourceError:
            raise
        except READ_ERRORS as error:
            self._name_chunk(a, b, error)

    def _select(
        self, a: int, b: int, source: Selector | None, dest: Selector, out: np.ndarray
    ) -> None:
        from zarr.core.buffer.cpu import NDBuffer

        apart = self.checked or not isinstance(dest, slice)
        whole = out.ndim == 1
        width = len(range(*dest.indices(out.shape[-1]))) if isinstance(dest, slice) else len(dest)
        if apart:
            view = np.empty((b - a,) if whole else (b - a, width), self.array.dtype)
        else:
            view = out if whole else out[:, dest]
        rows = slice(a, b)
        select = self.array.get_basic_selection
        if isinstance(source, np.ndarray):
            select = self.array.get_orthogonal_selection
        select((rows,) if source is None else (rows, source), out=NDBuffer(view))
        if not apart:
            return
        place = f"{self.place}, rows {a} to {b}"
        if isinstance(dest, slice):
            copy_numbers(out if whole else out[:, dest], view, place)
        else:
            for k, j in enumerate(dest):
                copy_numbers(out[:, j], view[:, k], place)

    def _name_chunk(self, a: int, b: int, error: Exception) -> None:
        """Raise the error again for the chunk that causes it, found by reading one at a time."""
        for chunk, selection in self._chunks(a, b):
            try:
                with as_os_errors():
                    self.array.get_basic_selection(selection)
            except READ_ERRORS as cause:
                rows = f"rows {selection[0].start} to {selection[0].stop}"
                raise SourceError(
                    f"{self.place}, chunk {chunk}, {rows} cannot be decoded: {cause}; "
                    "restore the chunk from a copy, or delete it to have it read as the fill value"
                ) from cause
        raise SourceError(f"{self.place}, rows {a} to {b} cannot be read: {error}") from error

    def _chunks(self, a: int, b: int) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        c, shape = self.array.chunks, self.array.shape
        for i in range(a // c[0], -(-b // c[0])):
            rows = slice(i * c[0], min((i + 1) * c[0], shape[0]))
            if len(shape) == 1:
                yield (i,), (rows,)
            else:
                for j in range(-(-shape[1] // c[1])):
                    yield (i, j), (rows, slice(j * c[1], min((j + 1) * c[1], shape[1])))


def column_groups(
    array: zarr.Array, columns: Sequence[int] | None
) -> list[tuple[Selector | None, Selector, int]]:
    """Groups of columns to ask for together, at most `CALL_BYTES` unless one chunk is larger.

    Each is (columns of the array, columns of the buffer, decoded bytes of a row of these chunks).
    """
    itemsize = np.dtype(array.dtype).itemsize
    if columns is None:
        return [(None, slice(None), array.chunks[0] * itemsize)]
    chunk_bytes = int(array.chunks[0]) * int(array.chunks[1]) * itemsize
    order = np.argsort(columns, kind="stable")
    ascending = np.asarray(columns)[order]
    chunk_of = ascending // int(array.chunks[1])
    per_group = max(1, CALL_BYTES // max(chunk_bytes, 1))
    rank = np.cumsum(np.append(False, chunk_of[1:] != chunk_of[:-1])) // per_group
    groups: list[tuple[Selector | None, Selector, int]] = []
    for g in range(int(rank[-1]) + 1):
        inside = np.flatnonzero(rank == g)
        n_chunks = len(np.unique(chunk_of[inside]))
        source, dest = as_selector(ascending[inside]), as_selector(order[inside])
        groups.append((source, dest, chunk_bytes * n_chunks))
    return groups
