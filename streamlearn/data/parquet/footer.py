"""Footers of parquet files: what is kept of all of them, and the parsed ones of a few."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import SourceError
from ...numeric.malloc import trim_heaps
from ..files.listing import READ_AHEAD
from ..files.remote import RemoteFile, as_os_errors
from ..files.versions import Versions, info_version, local_version
from .footer_blocks import Blocks, find_blocks
from .pages.excerpt import ColumnPages, find_pages
from .thrift import NotUnderstood, list_head

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_MAGIC = b"PAR1"
_BYTES_PER_CHUNK = 900
"""Resident bytes per column chunk of a parsed footer (measured: 850)."""
_KEPT = 3 << 19
_WHOLE = 1 << 18
"""Bytes of a footer that is parsed as a whole."""
_BLOCK = 1 << 17
"""Bytes of a block of row groups of a larger one."""
_SAMPLED_GROUPS = 8
_PAGED_GROUPS = 8
"""Row groups whose pages a process remembers: those that its lanes are in."""
_SCHEMAS = 8
"""Different schemas looked through for one like a file's."""


class FileFacts(NamedTuple):
    """What the store remembers of one parquet file."""

    schema: pa.Schema
    group_rows: list[int]
    parsed_nbytes: tuple[int, int]
    """Resident bytes of its footer, parsed: of one block, of all."""
    stored: dict[str, float]
    """Compressed bytes per column."""
    largest: dict[str, int]
    """Compressed and decompressed bytes of the column's largest chunk."""
    digest: str


class Split(NamedTuple):
    """A large footer, parsed a block of row groups at a time."""

    start: int
    """Position of the footer in the file, in bytes."""
    nbytes: int
    blocks: Blocks
    per_block: int


def kept_nbytes(files: Sequence[FileFacts]) -> int:
    """Bytes of the parsed footers a process keeps."""
    block, whole = zip(*(facts.parsed_nbytes for facts in files), strict=True)
    return max(max(block), min(sum(whole), _KEPT))


class Footers:
    """The footers of a store's files; one parsed copy per process, of the row groups in use."""

    def __init__(
        self,
        fs: AbstractFileSystem,
        paths: list[str],
        names: list[str],
        split: dict[int, Split] | None = None,
        versions: Versions | None = None,
    ) -> None:
        self.fs, self.paths, self.names = fs, paths, names
        self.versions = Versions(fs, paths, names) if versions is None else versions
        self._split: dict[int, Split] = split or {}
        self._parsed: OrderedDict[tuple[int, int], tuple[Any, int]] = OrderedDict()
        self._pages: OrderedDict[tuple[int, int], dict[str, ColumnPages]] = OrderedDict()
        self._schemas: list[pa.Schema] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Footers, (self.fs, self.paths, self.names, self._split, self.versions)

    def open_raw(self, file: int, cache: str = "readahead") -> Any:
        """What the library opens: a local path, or an fsspec file, in the version that is known."""
        if self.fs is None:
            self.versions.compare(file, local_version(self.paths[file]))
            return self.paths[file]
        with as_os_errors():
            self.fs.invalidate_cache(self.paths[file])
            opened = self.fs.open(self.paths[file], "rb", block_size=READ_AHEAD, cache_type=cache)
        raw = RemoteFile(opened)
        try:
            self.versions.compare(file, info_version(raw.info(self.fs, self.paths[file])))
        except BaseException:
            raw.close()
            raise
        return raw

    def block(self, file: int, group: int) -> tuple[int, int]:
        """(block, row group in it) of a row group of the file."""
        split = self._split.get(file)
        return (0, group) if split is None else divmod(group, split.per_block)

    def parsed(self, file: int, block: int = 0) -> Any:
        """The footer with the row groups of this block alone, for the library."""
        with self._lock:
            if (file, block) in self._parsed:
                self._parsed.move_to_end((file, block))
                return self._parsed[file, block][0]
        with self._reading(file) as stream:
            footer = pq.read_metadata(pa.BufferReader(self._footer(stream, file, block)))
        size = footer.num_row_groups * footer.num_columns * _BYTES_PER_CHUNK
        with self._lock:
            self._parsed[file, block] = footer, size
            while len(self._parsed) > 1 and sum(n for _, n in self._parsed.values()) > _KEPT:
                self._parsed.popitem(last=False)
        return footer

    def facts(self, file: int) -> FileFacts:
        """What its footer says, read once; large ones are split into blocks for later."""
        with self._reading(file) as stream:
            start, content = _whole_footer(stream, self.names[file])
            blocks = _blocks_of(content)
            if blocks is not None:
                n = len(blocks.rows)
                per_block = max(1, n * _BLOCK // len(content))
                self._split[file] = Split(start, len(content), blocks, per_block)
                trim_heaps()  # 3 MiB after 600 row groups of 50 columns
            footer = self.parsed(file)
            rows = blocks.rows if blocks else _group_rows(footer)
            schema = self._shared(_arrow_schema(footer).remove_metadata())
        stored, largest = _column_sizes(lambda g: self.row_group(file, g), rows)
        size = _BYTES_PER_CHUNK * footer.num_columns
        parsed = size * footer.num_row_groups, size * len(rows)
        digest = hashlib.sha256(content).hexdigest()[:32]
        return FileFacts(schema, rows, parsed, stored, largest, digest)

    def _shared(self, schema: pa.Schema) -> pa.Schema:
        """One copy of the schema of all files that are written alike."""
        with self._lock:
            for known in self._schemas:
                if known.equals(schema, check_metadata=True):
                    return known
            if len(self._schemas) < _SCHEMAS:
                self._schemas.append(schema)
        return schema

    def row_group(self, file: int, group: int) -> Any:
        """What the footer says of a row group."""
        block, index = self.block(file, group)
        return self.parsed(file, block).row_group(index)

    def pages(self, file: int, group: int, names: Sequence[str]) -> dict[str, ColumnPages] | None:
        """Where the pages of these columns lie in a row group of a local file.

        Found once a process, by a look at each page's header; None if that is not understood.
        """
        with self._lock:
            known = dict(self._pages.get((file, group), {}))
        missing = [name for name in names if name not in known]
        if missing:
            block, index = self.block(file, group)
            with self._reading(file) as stream:
                footer = self._footer(stream, file, block)[len(_MAGIC) : -2 * len(_MAGIC)]
                try:
                    known |= find_pages(stream.fileno(), footer, index, missing)
                except NotUnderstood:
                    return None
            with self._lock:
                self._pages[file, group] = known
                self._pages.move_to_end((file, group))
                while len(self._pages) > _PAGED_GROUPS:
                    self._pages.popitem(last=False)
        return known

    def _footer(self, stream: Any, file: int, block: int) -> bytes:
        """A file of no rows with the footer of this block."""
        split = self._split.get(file)
        if split is None:
            return _as_file(_whole_footer(stream, self.names[file])[1])
        a = block * split.per_block
        b = min(a + split.per_block, len(split.blocks.rows))
        starts = split.blocks.starts
        parts = [(0, split.blocks.list_at), (starts[a], starts[b]), (starts[-1], split.nbytes)]
        head, groups, tail = (_read_at(stream, split.start + int(i), int(j - i)) for i, j in parts)
        return _as_file(head + list_head(b - a) + groups + tail)

    @contextmanager
    def _reading(self, file: int) -> Iterator[Any]:
        """The file's bytes, of one version; errors name it."""
        try:
            if self.fs is not None:
                with self.open_raw(file) as stream:
                    yield stream
                return
            with open(self.paths[file], "rb") as stream:
                self.versions.note(file, stream.fileno())
                yield stream
                self.versions.compare(file, local_version(stream.fileno()))
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                f"{self.names[file]} is not a whole parquet file ({error}); it is cut off or still "
                "being written: write it again or leave it out"
            ) from error


def _whole_footer(stream: Any, name: str) -> tuple[int, bytes]:
    """(where it begins, its bytes) of the footer of the file `name`."""
    size = stream.seek(0, io.SEEK_END)
    end = _read_at(stream, max(size - 8, 0), min(size, 8))
    nbytes = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or nbytes > size - 12:
        begin = _read_at(stream, 0, min(size, len(_MAGIC)))
        if not _MAGIC.startswith(begin):
            raise SourceError(
                f"{name} is not a parquet file: it begins with {begin!r} instead of {_MAGIC!r}; "
                "if it is CSV or other text, write it as parquet once (pyarrow.csv.open_csv reads "
                "it in pieces that pyarrow.parquet.ParquetWriter takes)"
            )
        raise OSError(f"its last bytes are {end!r}, not a footer's length and {_MAGIC!r}")
    return size - 8 - nbytes, _read_at(stream, size - 8 - nbytes, nbytes)


def _arrow_schema(footer: Any) -> pa.Schema:
    """The file's schema; `footer.schema` and the footer would keep each other alive."""
    return pq.ParquetFile(pa.BufferReader(b""), metadata=footer).schema_arrow


def _group_rows(footer: Any) -> list[int]:
    return [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]


def _blocks_of(footer: bytes) -> Blocks | None:
    """Positions of the row groups in a footer; None for a footer that is parsed as a whole."""
    if len(footer) <= _WHOLE:
        return None
    try:
        blocks = find_blocks(footer)
    except NotUnderstood:
        return None
    return blocks if len(blocks.rows) > 1 else None


def _as_file(footer: bytes) -> bytes:
    """A file of no rows: what the library reads a footer from."""
    return b"".join([_MAGIC, footer, len(footer).to_bytes(4, "little"), _MAGIC])


def _read_at(stream: Any, start: int, nbytes: int) -> bytes:
    stream.seek(start)
    content: bytes = stream.read(nbytes)
    if len(content) < nbytes:
        raise OSError(f"it ends at byte {start + len(content)}, {start + nbytes} were expected")
    return content


def _column_sizes(
    row_group: Callable[[int], Any], rows: list[int]
) -> tuple[dict[str, float], dict[str, int]]:
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
    for g in sorted(sampled):
        group = row_group(int(g))
        for j in range(group.num_columns):
            chunk = group.column(j)
            name = chunk.path_in_schema
            packed = chunk.total_compressed_size
            stored[name] = stored.get(name, 0.0) + packed * sum(rows) / max(seen, 1)
            largest[name] = max(largest.get(name, 0), packed + chunk.total_uncompressed_size)
    return stored, largest


def page_nbytes(footers: Footers, file: int, group: int, names: Sequence[str]) -> int:
    """Bytes held by streaming these columns: the first data page and the dictionary of each.

    Decompressed, the dictionary also decoded; at most the whole column chunks.
    """
    footer, raw = footers.row_group(file, group), footers.open_raw(file, "none")
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
