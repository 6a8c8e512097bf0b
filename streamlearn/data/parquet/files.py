"""Facts from the footers of parquet files: row groups, columns, sizes, places of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

import numpy as np

from ...errors import SourceError
from ..column_types import CATEGORIES, MEASURED, NUMBERS, SINGLE, arrow_type
from ..files.listing import READ_AHEAD, hive_values, parse_partition, relative
from ..levels import BLOCK_WORDS, LevelCoder
from ..store import Column, Store
from .footer import FileFacts, Footers, Largest, kept_nbytes, page_nbytes
from .pages.excerpt import ColumnPages
from .pages.reader import ROWS_PER_PLACE, USABLE

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_HELD = 1 << 18
"""Decoded bytes a column up to which a sliced row group is held whole."""
_SLACK = 1.35
"""Resident over allocated bytes in the library's pool (measured: up to 1.23)."""
CODING_NBYTES = 40
"""Bytes of a row of a string column while it becomes codes or objects: indices, code, pointers."""
WORD_NBYTES = 160
"""Bytes of a word beside its characters, as a Python object and in the library's dictionary."""
_FOUND_NBYTES = 100
"""Bytes of a word in a dictionary that grows by doubling, beside its page: its place by a hash, and
where it begins."""
_POOL = 8 << 20
"""Bytes that the library's pool and page decoders keep beside their results (measured: 7.5 MiB)."""

PAGE_BUFFER = 1 << 16
"""Bytes read at a time of a column that is streamed."""
BATCH_ROWS = 1 << 14
"""Rows decoded at a time of a column that is streamed: the library keeps its last batch of each."""
_AT_ONCE = 1 << 20
"""Bytes of float32 decoded in one call."""
PAGES_TO_ARROW = 2
"""Columns read by their pages for every one that takes as much memory in the library."""


def columns_at_once(n_rows: int) -> int:
    """Columns decoded in one call: a megabyte of float32."""
    return max(1, _AT_ONCE // max(4 * n_rows, 1))


class ParquetFiles(Store):
    """Row groups in the order of the files; folders named ``key=value`` are columns.

    `ParquetStore` is this and its readers.
    """

    kind = "parquet"
    converts = True

    def __init__(self, fs: AbstractFileSystem, paths: list[str], root: str) -> None:
        self.fs, self.paths, self.root = fs, paths, root
        self.names = [relative(path, root) for path in paths]
        self.footers = Footers(fs, paths, self.names)
        with ThreadPoolExecutor(min(16, len(paths))) as pool:
            footers = list(pool.map(self.footers.facts, range(len(paths))))
        self._lay_out_groups(footers)
        self._compare_schemas(footers)
        self._add_partitions()
        self._stored: dict[str, float] = {}
        self._largest: dict[str, Largest] = {}
        for footer in footers:
            for name, nbytes in footer.stored.items():
                self._stored[name] = self._stored.get(name, 0.0) + nbytes
                here = footer.largest[name]
                self._largest[name] = self._largest.get(name, here).or_of(here)
        known = [footer.known for footer in footers if any(footer.group_rows)]
        self._known = frozenset.intersection(*known) if known else frozenset()
        self._digests = [footer.digest for footer in footers]
        self._live = np.ones(len(self._group_file), bool)
        self.filter_names: tuple[str, ...] = ()
        """Columns that a filter needs, beside those that are asked for."""

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
            [Column(name, arrow_type(kind)) for name, kind in types.items()]
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

    # What a Store answers.

    def boundaries(self) -> np.ndarray:
        return self._starts

    def coded(self, coders: Mapping[str, LevelCoder]) -> Self:
        store = super().coded(coders)
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

        Row groups read whole hold a few columns at a time; those read by their pages alone take
        nothing of the library's pool.  Of row groups larger than `slice_rows` one
        column's pages that hold a slice are in memory, or (remote and nested ones) of every column
        the current page, its dictionary and a batch of rows.
        """
        stored = [name for name in {*names, *self.filter_names} if name in self._largest]
        rows = np.diff(self._starts)
        sizes = [self._largest[name] for name in stored]
        largest = max((size.nbytes for size in sizes), default=0)
        held, by_pages, found, paged = 0, 0, 0, False
        read = [c for c in self.columns if c.name in stored]
        kinds = [c.dtype for c in read]
        words = [c.name for c in read if c.dtype in CATEGORIES or c.name in self.levels]
        wide = 8 if any("64" in kind for kind in kinds) else 4
        if not set(kinds).isdisjoint(MEASURED):
            wide = 16  # the values as stored, and as seconds
        whole = int(rows[rows <= slice_rows].max(initial=0))
        if whole:
            known = [name for name in stored if name in self._known]
            held = min(len(stored) - len(known), columns_at_once(whole)) * (
                largest + 2 * wide * whole
            )
            by_pages = self._pages_nbytes(known, whole)
        sliced = rows[rows > slice_rows]
        for n_rows in np.unique(sliced).tolist():
            kept = self.held_nbytes(stored, n_rows)
            held = max(held, kept + largest * (kept > 0))
        if len(sliced) and not self.held_nbytes(stored, int(sliced.max())):
            file, group = self.unit(int(np.argmax(rows)))
            pages = self.pages(file, group, stored)
            if pages is not None:
                paged = not whole
                widths = {name: wide + CODING_NBYTES * (name in words) for name in pages}
                each = max(pages[name].held_nbytes(slice_rows, widths[name]) for name in pages)
                held = max(held, each)
                of_words = (pages[name].dictionary_words for name in words if name in pages)
                found = _FOUND_NBYTES * max(of_words, default=0)
            else:
                each = page_nbytes(self.footers, file, group, stored)
                batch = 2 * wide * min(BATCH_ROWS, slice_rows)
                held = max(held, each + len(stored) * (PAGE_BUFFER + batch))
        if words and len(rows):
            n = int(rows.max())
            m, text = min(n, slice_rows), max(self._largest[name].nbytes for name in words)
            # a word that is stored takes four bytes and its characters
            different = min(m, text // 4 + 1)
            if paged and all(name in self.levels for name in words):  # coded some at a time
                different = min(different, BLOCK_WORDS)
            held += CODING_NBYTES * m + WORD_NBYTES * different + text * m // n
        if self.filtered:
            held += 16 * slice_rows * (1 + len(self.filter_names))
        remote = 0 if self.fs is None else 2 * READ_AHEAD + largest
        # what the pool keeps are such tables, once they are let go
        pool = int(_SLACK * held) + max(_POOL, found) if held else 0
        return by_pages + pool + remote

    def _pages_nbytes(self, names: Sequence[str], n_rows: int) -> int:
        """Bytes that decoding these columns of a whole row group takes, all from their pages."""
        if not names:
            return 0
        kinds = {column.name: column.dtype for column in self.columns}
        like = "float32" if all(kinds[name] in SINGLE for name in names) else "float64"
        width = np.dtype(like).itemsize
        some = min(len(names), PAGES_TO_ARROW * columns_at_once(n_rows))
        sizes = [self._largest[name] for name in names]
        packed, plain = max(size.packed for size in sizes), max(size.plain for size in sizes)
        # those of another type than the chunk's are copied before they are converted
        other = sum(kinds[name] != like for name in names)
        columns = some * (packed + width * n_rows) + min(other, some) * width * n_rows
        # of a dictionary's values, what each is mapped to, for every feature
        mapped = (some * width + len(names) * 4) * n_rows // ROWS_PER_PLACE
        return columns + mapped + 2 * plain  # a page and a dictionary, which may be all of a chunk

    def read_together(self, names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
        return (*names, *others)  # target and weight are columns like others

    def pages(self, file: int, group: int, names: Sequence[str]) -> dict[str, ColumnPages] | None:
        """Places of these columns' pages, if slices are read by them; None: streamed."""
        if not USABLE or self.fs is not None:
            return None
        return self.footers.pages(file, group, names)

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
