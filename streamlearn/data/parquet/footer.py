"""Footers of parquet files: what is kept of all of them, and the parsed ones of a few."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import SourceError
from ...numeric.malloc import trim_heaps
from ..files.listing import READ_AHEAD
from ..files.remote import RemoteFile, as_os_errors
from ..files.versions import Versions, info_version, local_version
from .footer_layout import DamagedFooter, Layout, read_layout
from .kernels_footer import DATA_AT, DICTIONARY_AT, NBYTES, PLAIN_NBYTES
from .pages.excerpt import ColumnPages, find_pages
from .pages.reader import USABLE, known_columns
from .thrift import list_head

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_MAGIC = b"PAR1"
_BYTES_PER_CHUNK = 960
"""Resident bytes per column chunk of a parsed footer (measured: 850), and of its layout (64)."""
_KEPT = 3 << 19
_WHOLE = 1 << 18
"""Bytes of a footer that is parsed as a whole."""
_BLOCK = 1 << 17
"""Bytes of a block of row groups of a larger one."""
_PAGED_GROUPS = 8
"""Row groups whose pages a process remembers: those that its lanes are in."""
_SCHEMAS = 8
"""Different schemas looked through for one like a file's."""


Bytes: TypeAlias = io.BufferedReader | RemoteFile
"""An open file, here or behind a URL."""


class Largest(NamedTuple):
    """Bytes of the largest chunk of a column."""

    packed: int
    """Bytes stored."""
    plain: int
    """Bytes decompressed."""

    @property
    def nbytes(self) -> int:
        """Bytes of both, which the library holds."""
        return self.packed + self.plain

    def or_of(self, other: Largest) -> Largest:
        """The most of either kind."""
        return Largest(max(self.packed, other.packed), max(self.plain, other.plain))


class FileFacts(NamedTuple):
    """Facts of one parquet file that the store remembers."""

    schema: pa.Schema
    group_rows: list[int]
    parsed_nbytes: tuple[int, int]
    """Resident bytes of its footer, parsed: of one block, of all."""
    stored: dict[str, float]
    """Compressed bytes per column."""
    largest: dict[str, Largest]
    known: frozenset[str]
    """The columns whose pages are decoded here, none of them by the library."""
    digest: str


class Split(NamedTuple):
    """A large footer, parsed a block of row groups at a time."""

    start: int
    """Position of the footer in the file, in bytes."""
    nbytes: int
    list_at: int
    """Position of the list of row groups in it."""
    starts: np.ndarray
    """(g + 1,) int64: positions in it of each row group, and of the end of the last."""
    per_block: int


class Parsed(NamedTuple):
    """A footer, or a block of its row groups."""

    library: pq.FileMetaData
    """pyarrow's, for reading.  None of its row groups is looked at: `layout` knows them."""
    layout: Layout
    schema: pa.Schema


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
        self._parsed: OrderedDict[tuple[int, int], tuple[Parsed, int]] = OrderedDict()
        self._pages: OrderedDict[tuple[int, int], dict[str, ColumnPages]] = OrderedDict()
        self._schemas: list[pa.Schema] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Footers], tuple[object, ...]]:
        return Footers, (self.fs, self.paths, self.names, self._split, self.versions)

    def open_raw(self, file: int, cache: str = "readahead") -> str | RemoteFile:
        """The local path, or open fsspec file, that pyarrow reads; in the version that is known."""
        if self.fs is None:
            self.versions.compare(file, local_version(self.paths[file]))
            return self.paths[file]
        return self._open_remote(file, cache)

    def _open_remote(self, file: int, cache: str = "readahead") -> RemoteFile:
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

    def parsed(self, file: int, block: int = 0) -> Parsed:
        """The footer with the row groups of this block alone."""
        with self._lock:
            if (file, block) in self._parsed:
                self._parsed.move_to_end((file, block))
                return self._parsed[file, block][0]
        with self._reading(file) as stream:
            content = self._footer(stream, file, block)
            layout = read_layout(content)
            library = pq.read_metadata(pa.BufferReader(_as_file(content)))
            schema = self._shared(_arrow_schema(library).remove_metadata())
            if (library.num_row_groups, library.num_columns) != layout.facts.shape[:2]:
                raise DamagedFooter("its footer can be read in two ways")
            if layout.column_of.max(initial=-1) >= len(schema):
                raise DamagedFooter("its schema can be read in two ways")
        footer = Parsed(library, layout, schema)
        size = layout.facts.shape[0] * layout.facts.shape[1] * _BYTES_PER_CHUNK
        with self._lock:
            self._parsed[file, block] = footer, size
            while len(self._parsed) > 1 and sum(n for _, n in self._parsed.values()) > _KEPT:
                self._parsed.popitem(last=False)
        return footer

    def facts(self, file: int) -> FileFacts:
        """The facts of a file's footer, read once; a large one is split into blocks for later."""
        with self._reading(file) as stream:
            start, content = _whole_footer(stream, self.names[file])
            layout = read_layout(content)
            _check_places(layout, start)
        n, leaves, _ = layout.facts.shape
        if len(content) > _WHOLE and n > 1:
            per_block = max(1, n * _BLOCK // len(content))
            self._split[file] = Split(start, len(content), layout.list_at, layout.starts, per_block)
            trim_heaps()  # 3 MiB after 600 row groups of 50 columns
        block = self.parsed(file)
        stored, largest = _column_sizes(layout, block.schema.names)
        chunk = _BYTES_PER_CHUNK * leaves
        parsed = chunk * len(block.layout.rows), chunk * n
        digest = hashlib.sha256(content).hexdigest()[:32]
        known = self._known(file, layout, block.schema)
        return FileFacts(block.schema, layout.rows.tolist(), parsed, stored, largest, known, digest)

    def _known(self, file: int, layout: Layout, schema: pa.Schema) -> frozenset[str]:
        """The columns that are decoded from their pages here: of local files alone."""
        if self.fs is not None or not USABLE:
            return frozenset()
        with self._reading(file) as stream:
            assert not isinstance(stream, RemoteFile)
            return known_columns(layout, schema, stream.fileno())

    def _shared(self, schema: pa.Schema) -> pa.Schema:
        """One copy of the schema of all files that are written alike."""
        with self._lock:
            for known in self._schemas:
                if known.equals(schema, check_metadata=True):
                    return known
            if len(self._schemas) < _SCHEMAS:
                self._schemas.append(schema)
        return schema

    def pages(self, file: int, group: int, names: Sequence[str]) -> dict[str, ColumnPages] | None:
        """Places of these columns' pages in a row group of a local file.

        Found once a process, by a look at each page's header; None if that is not understood.
        """
        with self._lock:
            known = dict(self._pages.get((file, group), {}))
        missing = [name for name in names if name not in known]
        if missing:
            block, index = self.block(file, group)
            footer = self.parsed(file, block)
            columns = {name: column for column, name in enumerate(footer.schema.names)}
            with self._reading(file) as stream:
                assert not isinstance(stream, RemoteFile)
                for name in missing:
                    leaf = footer.layout.leaf_of(columns[name])
                    if leaf is None:
                        return None
                    try:
                        known[name] = find_pages(stream.fileno(), footer.layout, index, name, leaf)
                    except ValueError:  # the library reads them, or a read refuses them
                        return None
            with self._lock:
                self._pages[file, group] = known
                self._pages.move_to_end((file, group))
                while len(self._pages) > _PAGED_GROUPS:
                    self._pages.popitem(last=False)
        return known

    def _footer(self, stream: Bytes, file: int, block: int) -> bytes:
        """The footer, with the row groups of this block alone."""
        split = self._split.get(file)
        if split is None:
            return _whole_footer(stream, self.names[file])[1]
        a = block * split.per_block
        b = min(a + split.per_block, len(split.starts) - 1)
        starts = split.starts
        parts = [(0, split.list_at), (starts[a], starts[b]), (starts[-1], split.nbytes)]
        head, groups, tail = (_read_at(stream, split.start + int(i), int(j - i)) for i, j in parts)
        return head + list_head(b - a) + groups + tail

    @contextmanager
    def _reading(self, file: int) -> Iterator[Bytes]:
        """The file's bytes, of one version; errors name it."""
        try:
            if self.fs is not None:
                with self._open_remote(file) as remote:
                    yield remote
                return
            with open(self.paths[file], "rb") as stream:
                self.versions.note(file, stream.fileno())
                yield stream
                self.versions.compare(file, local_version(stream.fileno()))
        except (OSError, pa.ArrowException, DamagedFooter, UnicodeDecodeError) as error:
            raise SourceError(
                f"{self.names[file]} is not a whole parquet file ({error}); it is cut off, damaged "
                "or still being written: write it again or leave it out"
            ) from error


def _whole_footer(stream: Bytes, name: str) -> tuple[int, bytes]:
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


def _arrow_schema(footer: object) -> pa.Schema:
    """The file's schema; `footer.schema` and the footer would keep each other alive."""
    return pq.ParquetFile(pa.BufferReader(b""), metadata=footer).schema_arrow


def _as_file(footer: bytes) -> bytes:
    """A file of no rows: what the library reads a footer from."""
    return b"".join([_MAGIC, footer, len(footer).to_bytes(4, "little"), _MAGIC])


def _read_at(stream: Bytes, start: int, nbytes: int) -> bytes:
    stream.seek(start)
    content: bytes = stream.read(nbytes)
    if len(content) < nbytes:
        raise OSError(f"it ends at byte {start + len(content)}, {start + nbytes} were expected")
    return content


def _check_places(layout: Layout, end: int) -> None:
    """Refuse column chunks that do not lie before byte `end`, where the footer begins."""
    data, dictionary = layout.facts[:, :, DATA_AT], layout.facts[:, :, DICTIONARY_AT]
    begins = np.where((dictionary > 0) & (dictionary < data), dictionary, data)
    if (layout.facts[:, :, NBYTES] > end - begins).any():
        raise DamagedFooter(f"a column in it reaches beyond byte {end}, where its footer begins")


def _column_sizes(layout: Layout, names: list[str]) -> tuple[dict[str, float], dict[str, Largest]]:
    """Compressed bytes per column, and those of its largest chunk, also decompressed."""
    stored: dict[str, float] = dict.fromkeys(names, 0.0)
    largest = dict.fromkeys(names, Largest(0, 0))
    packed, plain = layout.facts[:, :, NBYTES], layout.facts[:, :, PLAIN_NBYTES]
    for leaf, column in enumerate(layout.column_of.tolist()):
        name = names[column]
        stored[name] += float(packed[:, leaf].sum())
        here = Largest(*(int(sizes[:, leaf].max(initial=0)) for sizes in (packed, plain)))
        largest[name] = largest[name].or_of(here)
    return stored, largest


def page_nbytes(footers: Footers, file: int, group: int, names: Sequence[str]) -> int:
    """Bytes held by streaming these columns: the first data page and the dictionary of each.

    Decompressed, the dictionary also decoded; at most the whole column chunks.
    """
    block, index = footers.block(file, group)
    footer, raw = footers.parsed(file, block), footers.open_raw(file, "none")
    total = 0
    wanted = {column for column, name in enumerate(footer.schema.names) if name in names}
    with open(raw, "rb") if isinstance(raw, str) else raw as stream:
        for leaf, column in enumerate(footer.layout.column_of.tolist()):
            if column not in wanted:
                continue
            facts = footer.layout.facts[index, leaf].tolist()
            page = _page_size(stream, facts[DATA_AT])
            if facts[DICTIONARY_AT]:
                page += 2 * _page_size(stream, facts[DICTIONARY_AT])
            whole = facts[PLAIN_NBYTES] + facts[NBYTES]
            total += min(page, whole) if page else whole
    return total


def _page_size(stream: Bytes, offset: int) -> int:
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
