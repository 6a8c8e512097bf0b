"""A column beside a zarr X: a target or weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SourceError
from ..column_types import column_type, is_readable
from ..memory.vectors import Vector
from ..store import Column
from .checked_codecs import with_checks
from .chunks import Chunks
from .rows import Rows

if TYPE_CHECKING:
    import zarr


class ZarrVector:
    """A column beside X: numbers, strings, or codes of categories; `mask` marks what is missing."""

    def __init__(
        self,
        name: str,
        array: zarr.Array,
        categories: np.ndarray | None = None,
        mask: zarr.Array | None = None,
    ) -> None:
        self.array, self.categories, self.mask = array, categories, mask
        place = f"zarr array {name!r}"
        flat = array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)
        dtype = column_type(np.dtype(array.dtype), place)
        if not flat or not is_readable(dtype):
            raise SourceError(
                f"{place} has shape {array.shape} and type {array.dtype}; "
                "expected one number or string a row"
            )
        self.column = Column(name, dtype if categories is None else "dictionary")

    def __len__(self) -> int:
        return int(self.array.shape[0])

    @property
    def arrays(self) -> list[zarr.Array]:
        return [array for array in (self.array, self.mask) if array is not None]


class ZarrVectorReader:
    """Values of a `ZarrVector`, or of a vector in memory, run by run."""

    def __init__(
        self, vector: ZarrVector | Vector, place: str, chunks: Mapping[str, Chunks]
    ) -> None:
        self.vector = vector
        arrays = vector.arrays if isinstance(vector, ZarrVector) else []
        self.rows = [
            Rows(
                with_checks(array),
                [0] if array.ndim == 2 else None,
                target_dtype(array),
                place,
                chunks[array.path],
            )
            for array in arrays
        ]

    def check(self) -> None:
        for rows in self.rows:
            rows.check()

    def read(self, start: int, stop: int) -> np.ndarray:
        vector = self.vector
        if not isinstance(vector, ZarrVector):
            return vector.values(start, stop)
        values = self.rows[0].read(start, stop).reshape(-1)
        if vector.categories is not None:
            if len(values) and values.max() >= len(vector.categories):
                raise SourceError(
                    f"{self.rows[0].place}, rows {start} to {stop}: code {values.max()} of "
                    f"{len(vector.categories)} categories; the codes or the categories are damaged"
                )
            missing = values < 0
            if missing.any() and vector.categories.dtype.kind in "biuf":
                return np.where(missing, np.nan, vector.categories[np.maximum(values, 0)])
            labels = vector.categories[np.maximum(values, 0)]
            labels[missing] = None if missing.any() else labels[missing]
            return labels
        if vector.mask is not None:
            missing = self.rows[1].read(start, stop).astype(bool)
            if missing.any() and values.dtype == object:
                values = values.copy()
                values[missing] = None
            elif missing.any():
                values = np.where(missing, np.nan, values)
        return values


def target_dtype(array: zarr.Array) -> np.dtype:
    """The dtype a target is read as: numbers as stored, strings as objects."""
    dtype = np.dtype(array.dtype)
    return np.dtype(object) if dtype.kind in "UTSO" else dtype.newbyteorder("=")
