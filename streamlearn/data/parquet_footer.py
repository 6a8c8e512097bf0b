"""Footers of parquet files: what is kept of all of them, and the parsed ones of a few."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import SourceError
from .files import READ_AHEAD

_BYTES_PER_CHUNK = 900
"""Resident bytes per column chunk of a parsed footer (measured: 850)."""
_KEPT = 16 << 20
_SAMPLED_GROUPS = 8


class FileFacts(NamedTuple):
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


def kept_nbytes(chunks: Sequence[int]) -> int:
    """Bytes of the parsed footers a process keeps, of files with so many column chunks."""
    return _BYTES_PER_CHUNK * max(max(chunks), min(sum(chunks), _KEPT // _BYTES_PER_CHUNK))


class Footers:
    """The footers of a store's files; one parsed copy per process, of the files in use."""

    def __init__(self, fs: Any, paths: list[str], names: list[str]) -> None:
        self.fs, self.paths, self.names = fs, paths, names
        self._parsed: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Footers, (self.fs, self.paths, self.names)

    def open_raw(self, file: int, cache: str = "readahead") -> Any:
        """What the library opens: a local path, or an fsspec file."""
        if self.fs is None:
            return self.paths[file]
        return self.fs.open(self.paths[file], "rb", block_size=READ_AHEAD, cache_type=cache)

    def parsed(self, file: int) -> Any:
        with self._lock:
            if file in self._parsed:
                self._parsed.move_to_end(file)
                return self._parsed[file][0]
        try:
            raw = self.open_raw(file)
            try:
                footer = pq.read_metadata(raw)
            finally:
                if self.fs is not None:
                    raw.close()
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                f"{self.names[file]} is not a whole parquet file ({error}); it is cut off, still "
                "being written or in another format: write it again or leave it out"
            ) from error
        size = footer.num_row_groups * footer.num_columns * _BYTES_PER_CHUNK
        with self._lock:
            self._parsed[file] = footer, size
            while len(self._parsed) > 1 and sum(n for _, n in self._parsed.values()) > _KEPT:
                self._parsed.popitem(last=False)
        return footer

    def facts(self, file: int) -> FileFacts:
        footer = self.parsed(file)
        try:
            schema = footer.schema.to_arrow_schema()
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"{self.names[file]}: its schema cannot be read: {error}") from error
        rows = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
        stored, largest = _column_sizes(footer, rows)
        content = io.BytesIO()
        footer.write_metadata_file(content)
        digest = hashlib.sha256(content.getbuffer()).hexdigest()[:32]
        return FileFacts(schema, rows, len(rows) * footer.num_columns, stored, largest, digest)


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


def dtype_name(kind: pa.DataType) -> str:
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


def page_nbytes(footers: Footers, file: int, group: int, names: Sequence[str]) -> int:
    """Bytes held by streaming these columns: the first data page and the dictionary of each.

    Decompressed, the dictionary also decoded; at most the whole column chunks.
    """
    footer, raw = footers.parsed(file).row_group(group), footers.open_raw(file, "none")
    total = 0
    wanted = set(names)
    with open(raw, "rb") if footers.fs is None else raw as stream:
        for j in range(footer.num_columns):
            chunk = footer.column(j)
            if chunk.path_in_schema not in wanted:
                continue
            page = _page_size(stream, chunk.data_page_offset)
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                page += 2 * _page_size(stream, chunk.dictionary_page_offset)
            whole = chunk.total_uncompressed_size + chunk.total_compressed_size
            total += min(page, whole) if page else whole
    return total


def _page_size(stream: Any, offset: int) -> int:
    """Decompressed bytes of the page that starts here; 0 if its header is not understood.

    The header is Thrift's compact protocol: field 1 the type, 2 the decompressed size, each a byte
    0x15 (next field, int32) and a zigzag number.
    """
    stream.seek(offset)
    head = stream.read(16)
    at, value = 0, 0
    for _ in range(2):
        if at >= len(head) or head[at] != 0x15:
            return 0
        at, value, shift = at + 1, 0, 0
        while at < len(head):
            value |= (head[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if not head[at - 1] & 0x80:
                break
    return value >> 1
