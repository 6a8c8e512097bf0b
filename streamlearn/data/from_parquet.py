"""Parquet files as one store.

Row groups are the units.  `parquet_reader` decodes their columns a few at a time straight into the
chunk's own column-major buffer, `parquet_filter` tells which rows a filter leaves; a reader holds
one chunk and about a megabyte beside it.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import SourceError
from .files import READ_AHEAD, find_files, hive_values, relative
from .parquet_reader import BATCH_ROWS, PAGE_BUFFER, ParquetReader, columns_at_once, page_nbytes
from .source import Column, Store

if TYPE_CHECKING:
    from .parquet_filter import RowFilter

_FOOTER_BYTES_PER_CHUNK = 900
"""Resident bytes per column chunk of a parsed footer (measured: 850)."""
_FOOTERS_KEPT = 16 << 20
_POOL = 6 << 20
"""What the library's memory pool and page decoders keep beside what they hand out (measured)."""
_SAMPLED_GROUPS = 8


def open_parquet(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    filters: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ParquetStore:
    """A store of parquet files; reads their footers, in parallel."""
    fs, paths, root = find_files(source, storage_options)
    return ParquetStore(fs, paths, root, filters)


class _Footer(NamedTuple):
    """What the store keeps of one file."""

    schema: pa.Schema
    group_rows: list[int]
    chunks: int
    """Row groups times columns."""
    stored: dict[str, float]
    """Compressed bytes per column."""
    largest: dict[str, int]
    """Compressed and decompressed bytes of the column's largest chunk."""
    digest: str


class ParquetStore(Store):
    """Rows of parquet files, in the order of the files; folders named ``key=value`` are columns."""

    kind = "parquet"

    def __init__(self, fs: Any, paths: list[str], root: str, filters: Any) -> None:
        self.fs, self.paths, self.root = fs, paths, root
        self.names = [relative(path, root) for path in paths]
        self._keep_footers()
        workers = min(16, len(paths))
        with ThreadPoolExecutor(workers) as pool:
            footers = list(pool.map(self._read_footer, range(len(paths))))
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

    # Footers: what is needed of all files is kept in arrays; the parsed ones, of a few files.

    def _keep_footers(self) -> None:
        self._footers: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_footers", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._keep_footers()

    def open_raw(self, file: int, cache: str = "readahead") -> Any:
        """What the library opens: a local path, or an fsspec file."""
        if self.fs is None:
            return self.paths[file]
        return self.fs.open(self.paths[file], "rb", block_size=READ_AHEAD, cache_type=cache)

    def footer(self, file: int) -> Any:
        """The parsed footer; one copy per process, of the files in use."""
        with self._lock:
            if file in self._footers:
                self._footers.move_to_end(file)
                return self._footers[file][0]
        raw = self.open_raw(file)
        try:
            footer = pq.read_metadata(raw)
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                f"{self.names[file]} is not a whole parquet file ({error}); it is cut off, still "
                "being written or in another format: write it again or leave it out"
            ) from error
        finally:
            if self.fs is not None:
                raw.close()
        size = footer.num_row_groups * footer.num_columns * _FOOTER_BYTES_PER_CHUNK
        with self._lock:
            self._footers[file] = footer, size
            while sum(s for _, s in self._footers.values()) > _FOOTERS_KEPT:
                if len(self._footers) == 1:
                    break
                self._footers.popitem(last=False)
        return footer

    def _read_footer(self, file: int) -> _Footer:
        footer = self.footer(file)
        try:
            schema = footer.schema.to_arrow_schema()
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"{self.names[file]}: its schema cannot be read: {error}") from error
        rows = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
        stored, largest = _column_sizes(footer, rows)
        content = io.BytesIO()
        footer.write_metadata_file(content)
        digest = hashlib.sha256(content.getbuffer()).hexdigest()[:32]
        return _Footer(schema, rows, len(rows) * footer.num_columns, stored, largest, digest)

    def _lay_out_groups(self, footers: list[_Footer]) -> None:
        rows = np.array([n for f in footers for n in f.group_rows], np.int64)
        file = np.repeat(np.arange(len(footers)), [len(f.group_rows) for f in footers])
        index = np.array([g for f in footers for g in range(len(f.group_rows))], np.int64)
        some = rows > 0  # empty row groups are legal, and nothing
        self._group_file, self._group_index = file[some], index[some]
        self._starts = np.concatenate([[0], np.cumsum(rows[some])]).astype(np.int64)
        self.n_rows = int(self._starts[-1])
        chunks = [f.chunks for f in footers]
        self.shared_nbytes = _FOOTER_BYTES_PER_CHUNK * max(
            max(chunks), min(sum(chunks), _FOOTERS_KEPT // _FOOTER_BYTES_PER_CHUNK)
        )

    def _compare_schemas(self, footers: list[_Footer]) -> None:
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
            [Column(name, _dtype_name(kind)) for name, kind in types.items()]
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
            self.partitions[key] = _parse_partition([values[key] for values in found])
        self.columns += tuple(
            Column(key, "string" if v.dtype == object else v.dtype.name)
            for key, v in self.partitions.items()
        )

    def _add_filter(self, filters: Any) -> None:
        from .parquet_filter import RowFilter

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
        every column, the current page compressed and not, and its dictionary: the page size is read
        from the first page of the largest row group, and may be exceeded by an odd writer's others.
        """
        stored = [name for name in {*names, *self.filter_names} if name in self._largest]
        rows = np.diff(self._starts)
        largest = max((self._largest[name] for name in stored), default=0)
        held = 0
        wide = 8 if any("64" in c.dtype for c in self.columns if c.name in stored) else 4
        whole = int(rows[rows <= slice_rows].max(initial=0))
        if whole:
            held = min(len(stored), columns_at_once(whole)) * (largest + 2 * wide * whole)
        if rows.max(initial=0) > slice_rows:
            file, group = self.unit(int(np.argmax(rows)))
            pages = page_nbytes(self, file, group, stored)
            held = max(held, pages + len(stored) * (PAGE_BUFFER + 2 * wide * BATCH_ROWS))
        if self.filtered:
            held += 16 * slice_rows * (1 + len(self.filter_names))
        remote = 0 if self.fs is None else 2 * READ_AHEAD + largest
        return int(1.25 * held) + _POOL + remote

    def stored_nbytes(self, names: Sequence[str]) -> int:
        read = {*names, *self.filter_names}
        share = np.diff(self._starts)[self._live].sum() / max(self.n_rows, 1)
        return int(share * sum(self._stored.get(name, 0.0) for name in read))

    @property
    def filter_names(self) -> tuple[str, ...]:
        return self.row_filter.names if self.row_filter is not None else ()

    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> ParquetReader:
        return ParquetReader(self, names, target, weight, dtype)

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
            "files": self.names,
            "footers": self._digests,
            "n_rows": self.n_rows,
            "columns": [[column.name, column.dtype] for column in self.columns],
            "filter": None if self.row_filter is None else str(self.row_filter),
        }


def _column_sizes(footer: Any, rows: list[int]) -> tuple[dict[str, float], dict[str, int]]:
    """Compressed bytes per column, and its largest chunk: from at most eight row groups.

    (A footer can hold millions of column chunks; each costs a microsecond to look at.)
    """
    stored: dict[str, float] = {}
    largest: dict[str, int] = {}
    sampled = (
        {*np.linspace(0, len(rows) - 1, _SAMPLED_GROUPS).astype(int), int(np.argmax(rows))}
        if rows
        else ()
    )
    seen = sum(rows[g] for g in sampled)
    for g in sampled:
        group = footer.row_group(int(g))
        for j in range(group.num_columns):
            chunk = group.column(j)
            name = chunk.path_in_schema
            packed = chunk.total_compressed_size
            stored[name] = stored.get(name, 0.0) + packed * sum(rows) / max(seen, 1)
            largest[name] = max(largest.get(name, 0), packed + chunk.total_uncompressed_size)
    return stored, largest


def _dtype_name(kind: pa.DataType) -> str:
    """The numpy name of a number type, or what `Column.dtype` calls the rest."""
    types = pa.types
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind) or types.is_floating(kind):
        return {"halffloat": "float16", "float": "float32", "double": "float64"}.get(
            str(kind), str(kind)
        )
    if types.is_string(kind) or types.is_large_string(kind):
        return "string"
    if types.is_dictionary(kind):
        return "dictionary"
    if types.is_temporal(kind):
        return "timestamp"
    return "nested" if types.is_nested(kind) else str(kind)


def _parse_partition(values: list[str | None]) -> np.ndarray:
    """Folder names as the smallest type that holds them all exactly: int, float or string."""
    said = [value for value in values if value is not None]
    for kind in (int, float):
        try:
            parsed = [kind(value) for value in said]
        except ValueError:
            continue
        if kind is int and parsed and max(map(abs, parsed)) <= 2**31 and len(said) == len(values):
            low, high = np.min_scalar_type(min(parsed)), np.min_scalar_type(max(parsed))
            return np.array(parsed, np.promote_types(low, high))
        as_float = np.array([np.nan if v is None else float(v) for v in values])
        narrow = as_float.astype(np.float32)
        return narrow if np.array_equal(narrow, as_float, equal_nan=True) else as_float
    return np.array(values, object)
