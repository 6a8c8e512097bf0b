"""Filters of parquet rows: row groups ruled out by their statistics, the rest row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import SourceError
from ..memory.arrow_values import dictionary_indices
from .files import ParquetFiles

_ROW = "__streamlearn_row__"
_WRITTEN = 1 << 20
"""Bytes of words that are written out at once: five hundred rows may share a word of a megabyte."""


class RowFilter:
    """A pyarrow expression over the columns of a store.

    Parameters
    ----------
    filters : pyarrow.compute.Expression, list of tuples, or list of such lists
        As ``[("x", ">", 0)]``; tuples of one list are joined by "and", lists by "or".
    types : dict of str to pyarrow.DataType
        The store's columns.
    """

    def __init__(self, filters: object, types: Mapping[str, pa.DataType]) -> None:
        import pyarrow.compute as pc  # here alone: a megabyte that reads without filters spare

        try:
            is_expression = isinstance(filters, pc.Expression)
            self.expression = filters if is_expression else pq.filters_to_expression(filters)
            said = str(self.expression)
            # An expression does not tell which columns it reads: drop each, see if it binds.
            named = {name: kind for name, kind in types.items() if name in said}
            self._select(_empty(named))
        except (ValueError, TypeError, pa.ArrowException) as error:
            raise SourceError(
                f"filters={filters!r} cannot be used on the columns {_list(types)}: {error}"
            ) from error
        self.types = {
            name: kind
            for name, kind in named.items()
            if not self._binds({k: v for k, v in named.items() if k != name})
        }
        self.names = tuple(self.types)

    def __str__(self) -> str:
        return str(self.expression)

    def _select(self, table: pa.Table) -> pa.Table:
        from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

        source = Declaration("table_source", TableSourceNodeOptions(table))
        kept = Declaration("filter", FilterNodeOptions(self.expression), inputs=[source])
        return kept.to_table(use_threads=False)

    def _binds(self, types: Mapping[str, pa.DataType]) -> bool:
        try:
            self._select(_empty(types))
        except (ValueError, pa.ArrowException):
            return False
        return True

    def mask(
        self, columns: Mapping[str, list[pa.Array]], constants: Mapping[str, object], n_rows: int
    ) -> np.ndarray:
        """(n_rows,) bool: the rows for which the expression is true (null counts as false)."""
        keep = np.zeros(n_rows, bool)
        stored = {name: pa.chunked_array(columns[name]) for name in self.types if name in columns}
        for start, stop in _runs(stored.values(), n_rows):
            arrays = {}
            for name, kind in self.types.items():
                if name in stored:
                    values = stored[name].slice(start, stop - start)
                    arrays[name] = values if values.type == kind else values.cast(kind)
                else:
                    arrays[name] = pa.repeat(_scalar(constants[name], kind), stop - start)
            arrays[_ROW] = pa.array(np.arange(start, stop, dtype=np.int64))
            for piece in filter(len, self._select(pa.table(arrays)).column(_ROW).chunks):
                rows = np.frombuffer(piece.buffers()[1], np.int64, len(piece), 8 * piece.offset)
                keep[rows] = True
        return keep

    def live_units(self, store: ParquetFiles) -> np.ndarray:
        """(u,) bool: row groups not ruled out by their statistics and folder names."""
        import pyarrow.compute as pc
        import pyarrow.dataset as ds
        from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem

        schema = pa.schema(list(self.types.items()))
        fs = LocalFileSystem() if store.fs is None else PyFileSystem(FSSpecHandler(store.fs))
        live: set[tuple[int, int]] = set()
        for file, path in enumerate(store.paths):
            told = pc.scalar(True)
            for key, values in store.partitions.items():
                if key in self.types and values[file] is not None and values[file] == values[file]:
                    told = told & (pc.field(key) == _scalar(values[file], self.types[key]))
            fragment = ds.ParquetFileFormat().make_fragment(path, fs, partition_expression=told)
            try:
                groups = fragment.subset(self.expression, schema=schema).row_groups
            except (OSError, ValueError, pa.ArrowException) as error:
                raise SourceError(f"filters on {store.names[file]}: {error}") from error
            live.update((file, group.id) for group in groups)
        return np.array([store.unit(u) in live for u in range(len(store.boundaries()) - 1)], bool)


def _runs(columns: Iterable[pa.ChunkedArray], n_rows: int) -> list[tuple[int, int]]:
    """Runs of rows whose words, shared in dictionaries, take about `_WRITTEN` bytes written out."""
    import pyarrow.compute as pc

    nbytes = np.zeros(n_rows, np.int64)
    for column in columns:
        at = 0
        for piece in column.chunks if pa.types.is_dictionary(column.type) else ():
            places = dictionary_indices(piece)
            lengths = pc.fill_null(pc.binary_length(piece.dictionary), 0).to_numpy()
            some = places >= 0
            nbytes[at : at + len(piece)][some] += lengths[places[some]].astype(np.int64)
            at += len(piece)
    blocks = np.cumsum(nbytes) // _WRITTEN
    cuts = np.flatnonzero(np.diff(blocks)) + 1
    return list(pairwise([0, *cuts.tolist(), n_rows]))


def _empty(types: Mapping[str, pa.DataType]) -> pa.Table:
    return pa.table(
        {_ROW: pa.array([], pa.int64())} | {k: pa.array([], v) for k, v in types.items()}
    )


def _scalar(value: object, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(value.item() if isinstance(value, np.generic) else value, kind)


def _list(types: Mapping[str, pa.DataType]) -> str:
    names = list(types)
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
