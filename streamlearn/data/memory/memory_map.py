"""A memory map read through its file: pages touched through a mapping count as resident memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import SourceError
from ..column_types import column_type, is_plain
from ..columns import copy_numbers, is_all
from ..store import numbered_columns
from .parts import Part

READ_BYTES = 1 << 20
"""Bytes read at a time where the file's dtype or columns are not the chunk's."""


def read_exactly(file: int, out: np.ndarray, offset: int, path: str) -> None:
    """Fill contiguous `out`, in place, from the bytes at `offset`."""
    view = memoryview(out.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while view.nbytes:
        n = os.preadv(file, [view], offset)
        if not n:
            raise SourceError(f"{path} ends at byte {offset}; it was cut after it was opened")
        view, offset = view[n:], offset + n


def mapped_files(arrays: Iterable[object]) -> list[str]:
    """The files behind arrays: of memory maps, and of views of them."""
    found: dict[str, None] = {}
    for array in arrays:
        while isinstance(array, np.ndarray):
            path = array.filename if isinstance(array, np.memmap) else None
            if path is not None and os.path.isfile(path):
                found[os.path.abspath(path)] = None
                if isinstance(array.base, mmap.mmap):
                    # of pages that are clean, the next write through the map moves the file's times
                    array.base.flush()
            array = array.base
    return list(found)


class MapPart(Part):
    """A C- or F-contiguous 2-D array in a file, at `offset` bytes; `stride` rows a column (F)."""

    in_memory = False

    def __init__(self, path: str, offset: int, X: np.ndarray) -> None:
        dtype = column_type(X.dtype, Path(path).name)
        if not is_plain(dtype):
            raise SourceError(f"{path}: expected numbers, got {X.dtype}")
        self.path, self.offset, self.dtype = path, offset, X.dtype
        self.n_rows, self.width = X.shape
        self.columns = numbered_columns(self.width, dtype)
        self.order = "C" if X.flags.c_contiguous else "F"
        self.stride = X.strides[1]

    @classmethod
    def of(cls, X: Any) -> MapPart | None:
        """None if the file does not hold what the mapping shows, row by row or column by column."""
        path, mapping = X.filename, X._mmap
        by_columns = X.ndim == 2 and X.strides[0] == X.itemsize and X.strides[1] > 0
        if path is None or mapping is None or not X.size or X.mode == "c":
            return None  # copy-on-write pages may differ from the file
        if not (X.flags.c_contiguous or by_columns):
            return None
        # A slice keeps the offset of the whole: its place in the file is its place in the mapping.
        start = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
        offset = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
        offset += X.__array_interface__["data"][0] - start
        path = os.path.abspath(path)
        return cls(path, offset, X) if os.path.isfile(path) else None

    def fill(self, start: int, stop: int, which: Sequence[int], out: np.ndarray) -> None:
        file = self._open()
        try:
            if self.order == "C":
                self._fill_rows(file, start, stop, which, out)
            else:
                self._fill_columns(file, start, stop, which, out)
        finally:
            os.close(file)

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise SourceError(f"the file of the memory map cannot be opened: {error}") from error

    def _fill_rows(
        self, file: int, start: int, stop: int, which: Sequence[int], out: np.ndarray
    ) -> None:
        row = self.width * self.dtype.itemsize
        whole = is_all(which, self.width)
        if whole and out.dtype == self.dtype and out.flags.c_contiguous:
            return read_exactly(file, out, self.offset + start * row, self.path)
        step = max(1, READ_BYTES // row)
        block = np.empty((min(step, stop - start), self.width), self.dtype)
        for a in range(start, stop, step):
            run = block[: min(step, stop - a)]
            read_exactly(file, run, self.offset + a * row, self.path)
            place = f"{self.path}, rows {a} to {a + len(run)}"
            for k, j in enumerate(which) if not whole else ():
                copy_numbers(out[a - start : a - start + len(run), k], run[:, j], place)
            if whole:
                copy_numbers(out[a - start : a - start + len(run)], run, place)
        return None

    def _fill_columns(
        self, file: int, start: int, stop: int, which: Sequence[int], out: np.ndarray
    ) -> None:
        size = self.dtype.itemsize
        direct = out.dtype == self.dtype and out.strides[0] == size
        block = np.empty(0 if direct else stop - start, self.dtype)
        for k, j in enumerate(which):
            run = out[:, k] if direct else block
            read_exactly(file, run, self.offset + j * self.stride + start * size, self.path)
            if not direct:
                copy_numbers(out[:, k], run, f"{self.path}, column {j}, rows {start} to {stop}")

    def values(self, start: int, stop: int, j: int) -> np.ndarray:
        out = np.empty((stop - start, 1), self.dtype.newbyteorder("="))
        file = self._open()
        try:
            if self.order == "C":
                self._fill_rows(file, start, stop, [j], out)
            else:
                self._fill_columns(file, start, stop, [j], out)
        finally:
            os.close(file)
        return out[:, 0]

    def overhead(self, which: Sequence[int], rows: int) -> int:
        row = self.width * self.dtype.itemsize
        return rows * self.dtype.itemsize if self.order == "F" else max(READ_BYTES, row)

    def stored(self, names: set[str]) -> int:
        """Bytes in the file that one pass over these columns reads."""
        wanted = sum(column.name in names for column in self.columns)
        columns = self.width if self.order == "C" else wanted
        return self.n_rows * columns * self.dtype.itemsize

    def raw(self, start: int, stop: int) -> bytes:
        out = np.empty((stop - start, self.width), self.dtype, order=self.order)  # type: ignore[call-overload]
        file = self._open()
        try:
            fill = self._fill_rows if self.order == "C" else self._fill_columns
            fill(file, start, stop, range(self.width), out)
        finally:
            os.close(file)
        return out.tobytes()
