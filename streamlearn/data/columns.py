"""Work of every store on columns: turn values into floats, choose some, refuse the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import SourceError
from .column_types import is_number
from .source import Csr
from .store import Column

EXACT_INTEGERS = 2**53
"""Integers up to this size have an exact float64."""


def check_shape(n_rows: int, columns: Sequence[Column], what: str) -> None:
    """Refuse a table without rows or columns, or with one name twice."""
    shape = f"(shape=({n_rows}, {len(columns)}))"
    if not columns:
        raise SourceError(
            f"{what}: 0 feature(s) {shape} while a minimum of 1 is required; "
            "pass at least one column"
        )
    if not n_rows:
        raise SourceError(
            f"no rows in {what}: 0 sample(s) {shape} while a minimum of 1 is required; "
            "pass at least one row"
        )
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})[:5]
        raise SourceError(f"{what}: column names occur more than once: {twice}; rename them")


def find_columns(
    columns: Sequence[Column], places: Mapping[str, int], names: Sequence[str], what: str
) -> list[int]:
    """Positions of the feature columns `names`, which must exist and hold numbers.

    `places` are those of a store's columns, which begin with the features.
    """
    p = len(columns)
    found = [places.get(name, p) for name in names]
    missing = [name for name, j in zip(names, found, strict=True) if j >= p]
    if missing:
        raise SourceError(
            f"{what} has no column {', '.join(map(repr, missing[:5]))}; "
            f"it has {', '.join(repr(column.name) for column in columns[:20])}"
        )
    words = {kind for kind in {columns[j].dtype for j in found} if not is_number(kind)}
    for j in found if words else ():
        if columns[j].dtype in words:
            raise SourceError(
                f"{what}: column {columns[j].name!r} holds {columns[j].dtype} values, which are "
                "read as numbers only once their levels are known (Dataset.with_levels); leave it "
                "out with features=, or encode it as numbers first"
            )
    return found


def copy_numbers(out: np.ndarray, values: np.ndarray, place: str) -> None:
    """Write `values` to `out` (float) in place; integers that a float64 cannot hold are refused."""
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.size:
        low, high = int(values.min()), int(values.max())
        if max(-low, high) > EXACT_INTEGERS:
            raise SourceError(
                f"{place}: integer {high if high > EXACT_INTEGERS else low} is beyond 2**53 and "
                "has no exact float64; leave the column out (is it an identifier?) or scale it"
            )
    np.copyto(out, values, casting="unsafe")


def as_selector(positions: Sequence[int] | np.ndarray) -> slice | np.ndarray:
    """Column positions, as a slice if consecutive: numpy selects a slice without a copy."""
    array = np.asarray(positions, dtype=np.intp)
    if len(array) and np.array_equal(array, np.arange(array[0], array[0] + len(array))):
        return slice(int(array[0]), int(array[-1]) + 1)
    return array


def is_all(positions: Sequence[int], width: int) -> bool:
    """Whether `positions` are all the columns, in their own order."""
    return len(positions) == width and np.array_equal(positions, np.arange(width))


class Buffer:
    """Memory of one reader that each read uses again: (m, k) views of one flat array."""

    def __init__(self, dtype: np.dtype) -> None:
        self.flat = np.empty(0, dtype)

    def take(self, m: int, k: int, order: str = "C") -> np.ndarray:
        if self.flat.size < m * k:
            dtype = self.flat.dtype
            self.flat = np.empty(0, dtype)  # the old one goes before the new one comes
            self.flat = np.empty(m * k, dtype)
        flat = self.flat[: m * k]
        return flat.reshape(m, k) if order == "C" else flat.reshape(k, m).T


def as_target(values: np.ndarray) -> np.ndarray:
    """Target values as a chunk carries them: numbers as stored, strings as str objects or None."""
    return values.astype(object) if values.dtype.kind in "UT" else values


def select_csr(csr: Csr, positions: Sequence[int]) -> Csr:
    """Columns `positions` of a canonical Csr, numbered anew in that order; canonical again."""
    where = np.full(csr.n_columns, -1, csr.indices.dtype)
    where[np.asarray(positions, dtype=np.intp)] = np.arange(len(positions))
    indices = where[csr.indices]
    keep = indices >= 0
    before = np.zeros(len(keep) + 1, np.int64)
    np.cumsum(keep, out=before[1:])
    indptr = before[csr.indptr]
    data, indices = csr.data[keep], indices[keep]
    if (np.diff(np.asarray(positions)) < 0).any():  # the order of columns changed: sort each row
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        order = np.lexsort((indices, rows))
        data, indices = data[order], indices[order]
    return Csr(data, indices, indptr, len(positions))
