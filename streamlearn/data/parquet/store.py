"""Parquet files as one store.

Row groups are the units.  `reader` decodes their columns a few at a time straight into the chunk's
own column-major buffer, `filter` tells which rows a filter leaves; a reader holds one chunk and
about a megabyte beside it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..files.listing import find_files
from ..files.remote import one_name
from ..source import Convert
from .files import ParquetFiles
from .filter import RowFilter
from .reader import ParquetReader

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_LISTED = 256
"""Files that a fingerprint names one by one, at most."""


def open_parquet(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    filters: object = None,
    storage_options: Mapping[str, object] | None = None,
) -> ParquetStore:
    """A store of parquet files; reads their footers, in parallel."""
    fs, paths, root, folders = find_files(source, storage_options)
    return ParquetStore(fs, paths, root, folders, filters)


class ParquetStore(ParquetFiles):
    """Rows of parquet files, those that a filter leaves."""

    def __init__(
        self,
        fs: AbstractFileSystem,
        paths: list[str],
        root: str,
        folders: list[str],
        filters: object,
    ) -> None:
        super().__init__(fs, paths, root)
        self.folders = folders
        self.row_filter: RowFilter | None = None
        if filters is not None:
            self._add_filter(filters)

    def _add_filter(self, filters: object) -> None:
        types = {field.name: field.type for field in self._schema}
        for key, values in self.partitions.items():
            types[key] = (
                pa.string() if values.dtype == object else pa.from_numpy_dtype(values.dtype)
            )
        self.row_filter = RowFilter(filters, types)
        self.filter_names = self.row_filter.names
        self.check(self.filter_names)
        self._live = self.row_filter.live_units(self)
        self.filtered = True

    def open(
        self,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
    ) -> ParquetReader:
        return ParquetReader(self, self.row_filter, names, target, weight, dtype)

    def open_through(
        self,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
        convert: Convert,
    ) -> ParquetReader:
        return ParquetReader(self, self.row_filter, names, target, weight, dtype, convert)

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "kind": self.kind,
            "files": _listed(self.names),
            "footers": _listed(self._digests),
            "n_rows": self.n_rows,
            "columns": [[column.name, column.dtype] for column in self.columns],
            "filter": None if self.row_filter is None else str(self.row_filter),
        }

    def locations(self) -> tuple[str, ...]:
        return tuple(one_name(self.fs, path) for path in (*self.folders, *self.paths))

    def versions(self) -> Mapping[str, str]:
        return self.footers.versions.listed()


def _listed(said: list[str]) -> list[str] | dict[str, object]:
    """A list short enough to be written with every commit of a checkpoint, or its hash."""
    if len(said) <= _LISTED:
        return said
    return {"n": len(said), "hash": hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]}
