"""Parquet files as one store.

Row groups are the units.  `reader` decodes their columns a few at a time straight into the
chunk's own column-major buffer, `filter` tells which rows a filter leaves; a reader holds
one chunk and about a megabyte beside it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...errors import SourceError
from ..files.listing import READ_AHEAD, find_files, hive_values, parse_partition, relative
from ..roles import NUMBERS
from ..source import Column, Convert, Store
from .footer import FileFacts, Footers, dtype_name, kept_nbytes, page_nbytes
from .reader import BATCH_ROWS, PAGE_BUFFER, PAGES_TO_ARROW, ParquetReader, columns_at_once

if TYPE_CHECKING:
    from .filter import RowFilter

_HELD = 1 << 18
_SLACK = 1.35
"""Resident over allocated bytes in the library's pool (measured: up to 1.23)."""
CODING_NBYTES = 40
"""Of each row of a string column while it becomes codes: a short word, two indices, the code."""
_LISTED = 256
"""Files named one by one in a fingerprint."""
_POOL = 8 << 20
"""What the library's pool and page decoders keep beside what they hand out (measured: to 7.5)."""


def open_parquet(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    filters: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ParquetStore:
    """A store of parquet files; reads their footers, in parallel."""
    fs, paths, root = find_files(source, storage_options)
    return ParquetStore(fs, paths, root, filters)


class ParquetStore(Store):
    """Rows of parquet files, in the order of the files; folders named ``key=value`` are columns."""

    kind = "parquet"
    converts = True

    def __init__(self, fs: Any, paths: list[str], root: str, filters: Any) -> None:
        self.fs, self.paths, self.root = fs, paths, root
        self.names = [relative(path, root) for path in paths]
        self.footers = Footers(fs, paths, self.names)
        with ThreadPoolExecutor(min(16, len(paths))) as pool:
            footers = list(pool.map(self.footers.facts, range(len(paths))))
        self._lay_out_groups(footers)
        self._compare_schemas(footers)
        self._add_partitions()
        self._stored: dict[str, float] = {}
        self._largest: dict[str, int] = {}
        for footer in footers:
            for name, nbytes in footer.stored.items():
                self._stored[name] = self._stored.get(name, 0.0) + nbytes
                self._largest[name] = max(self._largest.get(name, 0), footer.largest[name])
        self._digests = [footer.digest for footer in footers]
        self._live = np.ones(len(self._group_file), bool)
        self.row_filter: RowFilter | None = None
        if filters is not None:
            self._add_filter(filters)

    def _lay_out_groups(self, footers: list[FileFacts]) -> None:
        rows = np.array([n for f in footers for n in f.group_rows], np.int64)
        file = np.repeat(np.arange(len(footers)), [len(f.group_rows) for f in footers])
        index = np.array([g for f in footers for g in range(len(f.group_rows))], np.int64)
        some = rows > 0  # empty row groups are legal, and nothing
        self._group_file, self._group_index = file[some], index[some]
        self._starts = np.concatenate([[0], np.cumsum(rows[some])]).astype(np.int64)
        self.n_rows = int(self._starts[-1])
        self.shared_nbytes = kept_nbytes(footers)

    def _compare_schemas(self, footers: list[FileFacts]) -> None:
        """The columns of the first file with rows; a difference counts once it is used."""
        with_rows = [i for i, f in enumerate(footers) if any(f.group_rows)] or [0]
        first = with_rows[0]
        self._schema = footers[first].schema.remove_metadata()
        twice = {name for name in self._schema.names if self._schema.names.count(name) > 1}
        if twice:
            raise SourceError(
                f"{self.names[first]} has several columns named {', '.join(sorted(twice))}; "
                "rename them, columns are told apart by name"
            )
        types = {field.name: field.type for field in self._schema}
        self._conflicts: dict[str, str] = {}
        for i in with_rows[1:]:
            schema = footers[i].schema
            if schema.equals(self._schema, check_metadata=False):
                continue
            here = {field.name: field.type for field in schema}
            for name in {**types, **here}:
                if here.get(name) != types.get(name):
                    self._conflicts.setdefault(
                        name,
                        f"files with different schemas: column {name!r} is "
                        f"{here.get(name, 'missing')} in {self.names[i]} and "
                        f"{types.get(name, 'missing')} in {self.names[first]}; write the files "
                        "alike, or leave the column or the file out",
                    )
        new = [name for name in self._conflicts if name not in types]
        self.columns = tuple(
            [Column(name, dtype_name(kind)) for name, kind in types.items()]
            + [Column(name, "float64") for name in new]
        )

    def _add_partitions(self) -> None:
        """Columns told by folder names."""
        found = [hive_values(path, self.root) for path in self.paths]
        keys = list(dict.fromkeys(key for values in found for key in values))
        self.partitions: dict[str, np.ndarray] = {}
        for key in keys:
            if key in self._schema.names:
                continue  # the file itself says it row by row
            missing = [name for name, v in zip(self.names, found, strict=True) if key not in v]
            if missing:
                raise SourceError(
                    f"{missing[0]} does not lie in a folder {key}=..., other files do; "
                    "move it, or open the files apart"
                )
            self.partitions[key] = parse_partition([values[key] for values in found])
        self.columns += tuple(
            Column(key, "string" if v.dtype == object else v.dtype.name)
            for key, v in self.partitions.items()
        )

    def _add_filter(self, filters: Any) -> None:
        from .filter import RowFilter

        types = {field.name: field.type for field in self._schema}
        for key, values in self.partitions.items():
            types[key] = (
                pa.string() if values.dtype == object else pa.from_numpy_dtype(values.dtype)
            )
        self.row_filter = RowFilter(filters, types)
        self.check(self.row_filter.names)
        self._live = self.row_filter.live_units(self)
        self.filtered = True

    # What a Store answers.

    def boundaries(self) -> np.ndarray:
        return self._starts

    def coded(self, coders: Mapping[str, Any]) -> Store:
        store: Any = super().coded(coders)
        store.partitions = {
            key: coders[key].of_values(values) if key in coders else values
            for key, values in self.partitions.items()
        }
        return store

    def live(self) -> np.ndarray:
        return self._live

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._conflicts:
                raise SourceError(self._conflicts[name])

    def unit(self, unit: int) -> tuple[int, int]:
        """(file, row group in it) of a unit."""
        return int(self._group_file[unit]), int(self._group_index[unit])

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        """Pages and decoded columns in flight, the pool's slack; not the shared footers.

        Row groups read whole hold a few columns at a time.  Those larger than `slice_rows` hold, of
        every column, the current page, its dictionary and a batch of rows: the page size is read
        from the first page of the largest row group, and may be exceeded by an odd writer's others.
        """
        stored = [name for name in {*names, *self.filter_names} if name in self._largest]
        rows = np.diff(self._starts)
        largest = max((self._largest[name] for name in stored), default=0)
        held = 0
        wide = 8 if any("64" in c.dtype for c in self.columns if c.name in stored) else 4
        whole = int(rows[rows <= slice_rows].max(initial=0))
        if whole:
            step = columns_at_once(whole)
            held = min(len(stored), step) * (largest + 2 * wide * whole)
            # by their pages: bytes, values, a page and a dictionary
            some = min(len(stored), PAGES_TO_ARROW * step)
            held = max(held, some * (largest + wide * whole) + 2 * wide * whole)
        sliced = rows[rows > slice_rows]
        for n_rows in np.unique(sliced).tolist():
            kept = self.held_nbytes(stored, n_rows)
            held = max(held, kept + largest * (kept > 0))
        if len(sliced) and not self.held_nbytes(stored, int(sliced.max())):
            file, group = self.unit(int(np.argmax(rows)))
            pages = page_nbytes(self.footers, file, group, stored)
            batch = 2 * wide * min(BATCH_ROWS, slice_rows)
            held = max(held, pages + len(stored) * (PAGE_BUFFER + batch))
        if any(name in self.levels for name in stored):
            held += CODING_NBYTES * min(int(rows.max(initial=0)), slice_rows)
        if self.filtered:
            held += 16 * slice_rows * (1 + len(self.filter_names))
        remote = 0 if self.fs is None else 2 * READ_AHEAD + largest
        return int(_SLACK * held) + _POOL + remote

    def held_nbytes(self, names: Sequence[str], n_rows: int) -> int:
        """Bytes of a row group decoded in its own types, if a sliced one is held so; else 0.

        Up to 256 kB a column that takes no more than streaming it: pages, a buffer and a batch.
        """
        types = {column.name: column.dtype for column in self.columns}
        kinds = [types[name] for name in names]
        widths = [np.dtype(kind).itemsize if kind in NUMBERS else 16 for kind in kinds]
        return n_rows * sum(widths) if n_rows * sum(widths) <= _HELD * len(widths) else 0

    def stored_nbytes(self, names: Sequence[str]) -> int:
        read = {*names, *self.filter_names}
        share = np.diff(self._starts)[self._live].sum() / max(self.n_rows, 1)
        return int(share * sum(self._stored.get(name, 0.0) for name in read))

    @property
    def filter_names(self) -> tuple[str, ...]:
        return self.row_filter.names if self.row_filter is not None else ()

    def open(
        self,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
        convert: Convert | None = None,
    ) -> ParquetReader:
        return ParquetReader(self, names, target, weight, dtype, convert)

    def place(self, start: int, stop: int) -> str:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, max(stop - 1, start), side="right")) - 1
        said = []
        for unit in sorted({first, min(last, len(self._group_file) - 1)}):
            file, group = self.unit(unit)
            base = int(self._starts[unit])
            a, b = max(start, base) - base, min(stop, int(self._starts[unit + 1])) - base
            said.append(f"{self.names[file]}, row group {group}, rows {a}..{b}")
        return " to ".join(said)

    def fingerprint(self) -> Mapping[str, Any]:
        return {
            "kind": self.kind,
            "files": _listed(self.names),
            "footers": _listed(self._digests),
            "n_rows": self.n_rows,
            "columns": [[column.name, column.dtype] for column in self.columns],
            "filter": None if self.row_filter is None else str(self.row_filter),
        }


def _listed(said: list[str]) -> list[str] | dict[str, Any]:
    """A list short enough to be written with every commit of a checkpoint, or its hash."""
    if len(said) <= _LISTED:
        return said
    return {"n": len(said), "hash": hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]}
