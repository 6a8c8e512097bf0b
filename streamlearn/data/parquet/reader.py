"""Decoding row groups into a chunk's buffer.

Measured on 2 M x 50 float32 (snappy, row groups of 65,536 rows): two columns in a call take 0.65 of
the time of whole row groups (dictionary pages: 1.07) and hold 2 MB of Arrow memory instead of 50.
Four are as fast and wait half as often for the interpreter's lock, which two threads notice;
one 4 GB file on two threads: 54 MB in all, 26 of them chunks and 14 its footer.  ``pre_buffer``,
``memory_map`` and Arrow's own threads are off: each holds more than it gains.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import SourceError
from ...numeric.huge_pages import zeros
from ...numeric.malloc import BLOCK_BYTES
from ..memory.arrow_values import dictionaries_of
from ..source import Chunk, Convert
from .arrays import decode_numbers, join, ready_numbers, target_values
from .files import BATCH_ROWS, PAGE_BUFFER, PAGES_TO_ARROW, ParquetFiles, columns_at_once
from .filter import RowFilter
from .footer import Parsed
from .footer_layout import Layout
from .kernels_footer import ENCODINGS
from .pages.excerpt import ColumnPages, decode_run, read_run
from .pages.headers import check_pages
from .pages.kernels import BIT_PACKED, INDICES, OLD_INDICES, PLAIN, RLE
from .pages.reader import USABLE, PageReader
from .thrift import MAGIC

_BY_WORDS = sum(1 << encoding for encoding in (PLAIN, OLD_INDICES, RLE, BIT_PACKED, INDICES))
"""Encodings of pages, and of their levels, that the library reads into dictionaries of words."""

Batch = list[tuple[str, list[pa.Array]]]
"""Columns and their Arrow arrays."""


class ParquetReader:
    """One task's open file and buffers.  Holds one file at a time, by at most two handles."""

    def __init__(
        self,
        store: ParquetFiles,
        row_filter: RowFilter | None,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
        convert: Convert | None = None,
    ) -> None:
        self._store, self._row_filter = store, row_filter
        self._target, self._weight = target, weight
        self._dtype, self._convert, self._n_columns = np.dtype(dtype), convert, len(names)
        self._row_of = {name: i for i, name in enumerate(names)}
        self._filtering = frozenset(store.filter_names)
        wanted = {*names, *self._filtering, *filter(None, (target, weight))}
        # In the order of the file, whatever order the features are asked for in.
        self._read = [c.name for c in store.columns if c.name in wanted - store.partitions.keys()]
        self._constant = [name for name in store.partitions if name in wanted]
        self._buffer = np.empty(0, self._dtype if convert is None else np.float32)
        self._weights = np.empty(0)
        self._file: pq.ParquetFile | None = None
        self._pages: PageReader | None = None
        self._footer: Parsed | None = None
        self._opened: tuple[int, int, bool] | None = None
        self._group: _Held | _Excerpts | _Stream | None = None

    def read(self, start: int, stop: int) -> Chunk:
        n, p, store = stop - start, self._n_columns, self._store
        if self._buffer.size < n * p:
            kind = self._buffer.dtype
            self._buffer = np.empty(0, kind)  # the old one goes before the new one comes
            self._buffer = zeros((n * p,), kind)
        if self._weight is not None and len(self._weights) < n:
            self._weights = np.empty(n)
        X = self._buffer[: n * p].reshape(p, n)
        keep = np.ones(n, bool) if store.filtered else None
        targets: list[np.ndarray] = []
        starts, live = store.boundaries(), store.live()
        first = int(np.searchsorted(starts, start, side="right")) - 1
        for unit in range(first, len(starts) - 1):
            a, b = max(start, int(starts[unit])), min(stop, int(starts[unit + 1]))
            if a >= b:
                break
            here = slice(a - start, b - start)
            if not live[unit]:
                keep[here] = False  # type: ignore[index]
                targets.append(np.zeros(b - a))
                continue
            try:
                self._fill(unit, a, b, X, targets, here, keep)
            except SourceError:
                raise
            except (OSError, ValueError, EOFError, SystemError, pa.ArrowException) as error:
                self.close()
                said = " ".join(str(error).split())
                raise SourceError(
                    f"cannot read {store.place(a, b)}: {said}; the file is damaged, was changed "
                    "since it was opened, or cannot be reached"
                ) from error
        chunk = Chunk(
            X=X.T,
            y=join(targets) if self._target is not None else None,
            weight=self._weights[:n] if self._weight is not None else None,
            rows=range(start, stop),
        )
        return chunk if keep is None else chunk.where(keep, in_place=True)

    def close(self) -> None:
        if isinstance(self._group, _Excerpts):
            self._group.close()
        opened, self._group, self._opened = self._opened, None, None
        if self._file is not None:
            self._file.close()
            give_back()  # the pool would keep a row group's worth
        if self._pages is not None:
            self._pages.close()
        self._file = self._pages = None
        if opened is not None:
            self._store.footers.versions.check(opened[0])

    def _fill(
        self,
        unit: int,
        start: int,
        stop: int,
        X: np.ndarray,
        targets: list[np.ndarray],
        here: slice,
        keep: np.ndarray | None,
    ) -> None:
        """Rows [start, stop) of one unit into X[:, here] and its like, some columns at a time."""
        store, filtering = self._store, {}
        file, _ = store.unit(unit)
        base = int(store.boundaries()[unit])
        for name in self._constant:
            value = store.partitions[name][file]
            if name in self._row_of:
                values = np.full(stop - start, value, self._dtype)
                self._put([self._row_of[name]], [values], X, here)
            if name == self._target:
                targets.append(np.full(stop - start, value, store.partitions[name].dtype))
            if name == self._weight:
                self._weights[here] = value
        for batch in self._columns(unit, start - base, stop - base, X, here.start):
            for name, pieces in batch:
                if sum(map(len, pieces)) != stop - start:
                    raise ValueError(
                        f"column {name!r} ends before the row group's {stop - base} rows"
                    )
                if name in self._row_of and self._convert is None:
                    decode_numbers(pieces, X[self._row_of[name], here], name, store, start)
                if name == self._target:
                    targets.append(target_values(pieces))
                if name == self._weight:
                    decode_numbers(pieces, self._weights[here], name, store, start)
                if name in self._filtering:
                    filtering[name] = pieces
            if self._convert is not None:
                features = [(name, pieces) for name, pieces in batch if name in self._row_of]
                which = [self._row_of[name] for name, _ in features]
                ready = [ready_numbers(p, self._dtype, n, store, start) for n, p in features]
                self._put(which, ready, X, here)
                del features, ready
            del batch, pieces
        if keep is not None and self._row_filter is not None:
            constants = {key: store.partitions[key][file] for key in self._constant}
            keep[here] = self._row_filter.mask(filtering, constants, stop - start)

    def _put(self, which: list[int], columns: list[np.ndarray], X: np.ndarray, here: slice) -> None:
        """Features' values into X[:, here], or what `convert` makes of them."""
        if self._convert is None:
            for d, values in zip(which, columns, strict=True):
                X[d, here] = values
        elif which:
            self._convert(columns, which, X, here.start)

    def _columns(self, unit: int, start: int, stop: int, X: np.ndarray, at: int) -> Iterator[Batch]:
        """The columns' Arrow arrays of rows [start, stop) of the row group, some at a time.

        But for those that went through `convert` straight into ``X[:, at:]``.
        """
        store = self._store
        file, group = store.unit(unit)
        n_rows = int(store.boundaries()[unit + 1] - store.boundaries()[unit])
        if start == 0 and stop == n_rows:
            self._group = None
            opened, group = self._open(file, group, streamed=False)
            yield from self._decode(opened, group, n_rows, (X, at))
            return
        if self._group is None or self._group.unit != unit or self._group.at > start:
            self._group = None
            give_back()  # the pool would keep the row group just dropped beside the one to come
            if store.held_nbytes(self._read, n_rows):
                opened, group = self._open(file, group, streamed=False)
                held: Batch = []
                for batch in self._decode(opened, group, n_rows, None):
                    held += batch
                self._group = _Held(unit, held)
            elif (pages := self._excerpted(file, group)) is not None:
                opened, index = self._open(file, group, streamed=False)
                footer, numbers = self._footer, self._pages
                assert footer is not None
                assert numbers is not None
                words = {name for name in pages if self._by_words(footer, name)}
                facts = footer.layout, index
                self._group = _Excerpts(unit, store.paths[file], pages, numbers, facts, words)
            else:
                opened, group = self._open(file, group, streamed=True)
                self._check_pages(group, self._read)
                self._group = _Stream(opened, unit, group, self._read, stop - start)
        yield from self._group.take(start, stop)

    def _excerpted(self, file: int, group: int) -> dict[str, ColumnPages] | None:
        """The pages of the columns that are read, in their order; None if they are streamed."""
        pages = self._store.pages(file, group, self._read)
        return None if pages is None else {name: pages[name] for name in self._read}

    def _decode(
        self, opened: pq.ParquetFile, group: int, n_rows: int, into: tuple[np.ndarray, int] | None
    ) -> Iterator[Batch]:
        """Whole columns of a row group, some at a time: from their pages where those are known."""
        step = columns_at_once(n_rows)
        for i in range(0, len(self._read), PAGES_TO_ARROW * step):
            names = self._read[i : i + PAGES_TO_ARROW * step]
            if self._pages is not None:
                facts = self._footer.layout, group  # type: ignore[union-attr]
                if into is not None and self._convert is not None:
                    wanted = {n: self._row_of[n] for n in names if self._feature_alone(n)}
                    done = self._pages.map(*facts, wanted, self._convert, self._dtype, *into)
                    names = [name for name in names if name not in done]
                kept = into is None or not self._filtering.isdisjoint(names)
                known = self._pages.read(*facts, names, lasting=kept)
                names = [name for name in names if name not in known]
                if known:
                    yield [(name, [array]) for name, array in known.items()]
                del known
            for j in range(0, len(names), step):
                some = names[j : j + step]
                self._check_pages(group, some)
                table = opened.read_row_group(group, columns=some, use_threads=False)
                if table.nbytes >= BLOCK_BYTES and not self._store.levels.keys().isdisjoint(some):
                    give_back()
                yield [(name, table.column(name).chunks) for name in some]
                del table  # these columns are let go before the next ones are decoded

    def _check_pages(self, group: int, names: Sequence[str]) -> None:
        """Refuse columns that do not keep to their sizes; remote files are not looked at."""
        if not USABLE or self._store.fs is not None:
            return
        file, _, _ = self._opened  # type: ignore[misc]
        layout, schema = self._footer.layout, self._footer.schema  # type: ignore[union-attr]
        columns = {schema.names.index(name) for name in names}
        with open(self._store.paths[file], "rb", buffering=0) as raw:
            for leaf in np.flatnonzero(np.isin(layout.column_of, list(columns))).tolist():
                check_pages(raw.fileno(), layout, group, leaf)

    def _feature_alone(self, name: str) -> bool:
        """Whether a column's values are wanted as a feature, and for nothing else."""
        roles = (self._target, self._weight, *self._filtering)
        return name in self._row_of and name not in roles and name not in self._store.levels

    def _by_words(self, footer: Parsed, name: str) -> bool:
        """Whether a column is read as a dictionary and indices: words that many rows may share."""
        is_one = name == self._target or name in self._store.levels or name in self._filtering
        return is_one and _has_dictionaries(footer, name)

    def _open(self, file: int, group: int, *, streamed: bool) -> tuple[pq.ParquetFile, int]:
        """The file with the part of its footer that has this row group, whose number is there."""
        store = self._store
        block, index = store.footers.block(file, group)
        if self._opened != (file, block, streamed):
            self.close()
            # Streamed columns take turns at the file: a shared read-ahead would be thrown away.
            raw = store.footers.open_raw(file, "none" if streamed else "readahead")
            footer = store.footers.parsed(file, block)
            self._file = pq.ParquetFile(
                raw,
                metadata=footer.library,
                read_dictionary=[n for n in self._read if self._by_words(footer, n)] or None,
                buffer_size=PAGE_BUFFER
                if streamed and store.fs is None
                else 16 * PAGE_BUFFER * streamed,
                pre_buffer=False,
            )
            if USABLE and isinstance(raw, str) and not streamed:
                self._pages = PageReader(raw, footer.schema)
            self._footer = footer
            self._opened = file, block, streamed
        return self._file, index


def _in_dictionaries(array: pa.Array) -> Iterable[pa.Array]:
    """Words, or bytes, as the pages of indices beside them have them; numbers as they are."""
    by_bytes = pa.types.is_string(array.type) or pa.types.is_binary(array.type)
    return dictionaries_of(array) if by_bytes else [array]


def give_back() -> None:
    """Give the system what the library's pool keeps of blocks that it has freed.

    8 MiB in use became 21 kept after some hundred slices of a million distinct words, 3 became 30
    where their pages were small.
    """
    pa.default_memory_pool().release_unused()


def _has_dictionaries(footer: Parsed, name: str) -> bool:
    """Whether the library can give a column's words by dictionaries: other encodings it cannot."""
    column = footer.schema.names.index(name)
    used = footer.layout.facts[:, footer.layout.column_of == column, ENCODINGS]
    return not (used & ~_BY_WORDS).any()


class _Held:
    """A small row group, decoded once in its own types; cheaper than a page of every column."""

    at = 0

    def __init__(self, unit: int, columns: Batch) -> None:
        self.unit = unit
        self._columns = columns

    def take(self, start: int, stop: int) -> Iterator[Batch]:
        n = stop - start
        yield [
            (name, pa.chunked_array(pieces).slice(start, n).chunks)
            for name, pieces in self._columns
        ]


class _Excerpts:
    """A large row group: of one column at a time, the pages that hold the slice."""

    at = 0

    def __init__(
        self,
        unit: int,
        path: str,
        pages: dict[str, ColumnPages],
        numbers: PageReader,
        facts: tuple[Layout, int],
        words: set[str],
    ) -> None:
        self.unit, self._words = unit, words
        self._file = os.open(path, os.O_RDONLY)
        self._pages, self._numbers, self._facts = pages, numbers, facts

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    __del__ = close

    def take(self, start: int, stop: int) -> Iterator[Batch]:
        for name, pages in self._pages.items():
            first, last = pages.run(start, stop)
            base = int(pages.rows[first])
            if name in self._words:  # pages of both kinds at once would share a growing dictionary
                runs = pages.alike(first, last)
                decoded = (piece for run in runs for piece in self._decoded(name, *run))
                pieces = [some for piece in decoded for some in _in_dictionaries(piece)]
            else:
                pieces = self._decoded(name, first, last)
            some = pa.chunked_array(pieces).slice(start - base, stop - start).chunks
            yield [(name, some)]

    def _decoded(self, name: str, first: int, last: int, by_words: bool = False) -> list[pa.Array]:
        """The values of pages [first, last) of a column."""
        pages = self._pages[name]
        n_rows = int(pages.rows[last] - pages.rows[first])
        raw = read_run(self._file, pages, first, last)
        largest = max(int(pages.plain_nbytes[first:last].max()), pages.dictionary_nbytes)
        array = self._numbers.run(self._facts, name, raw[len(MAGIC) :], largest, n_rows)
        if array is not None:
            return [array]
        pieces = decode_run(raw, pages, first, last, name if by_words else None)
        if name in self._words or largest >= BLOCK_BYTES:
            give_back()
        return pieces


class _Stream:
    """A row group read forward in slices: one page of each column is held."""

    def __init__(
        self, file: pq.ParquetFile, unit: int, group: int, names: list[str], batch: int
    ) -> None:
        self.unit, self.at = unit, 0
        self._names = names
        self._batches = [
            file.iter_batches(
                min(batch, BATCH_ROWS), row_groups=[group], columns=[name], use_threads=False
            )
            for name in names
        ]
        self._rest: list[list[pa.Array]] = [[] for _ in names]

    def take(self, start: int, stop: int) -> Iterator[Batch]:
        if self.at < start:
            for _ in self.take(self.at, start):  # decoded and dropped: pages cannot be skipped
                pass
        n_rows = stop - start
        for i, name in enumerate(self._names):
            pieces, have = self._rest[i], sum(map(len, self._rest[i]))
            while have < n_rows:
                batch = next(self._batches[i], None)
                if batch is None:
                    break
                array = batch.column(batch.schema.names.index(name))
                pieces.append(array)
                have += len(array)
            self._rest[i] = []
            if have > n_rows:
                last = pieces.pop()
                cut = len(last) - (have - n_rows)
                pieces.append(last.slice(0, cut))
                self._rest[i] = [last.slice(cut)]
            yield [(name, pieces)]
        self.at = stop
