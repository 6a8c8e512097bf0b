"""Layout of a parquet footer's own bytes, read and checked before the library is asked.

The library's getters end the process over some damaged footers (a size statistic of another length,
a row group with a column more), so every number that is used here is read here.  A parsed footer
also takes about ten times its bytes (8 GB in 611 row groups of 51 columns: 2.7 MB, 27 parsed), of
which one task needs a few row groups at a time: a footer is one struct (version, schema, number of
rows, list of row groups, and the rest), and a shorter list in its place makes it a footer again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import kernels_footer as k

_SCHEMA, _ROW_GROUPS = 2, 4
"""Fields of the footer."""
_MOST_ROWS = 1 << 53


class Layout(NamedTuple):
    """The parts of a footer, as positions in it, and what it says of its column chunks."""

    list_at: int
    """Position at which the list of row groups begins."""
    starts: np.ndarray
    """(g + 1,) int64: where each row group begins, and the last ends."""
    rows: np.ndarray
    """(g,) int64: rows of each row group."""
    facts: np.ndarray
    """(g, leaves, `N_FACTS`) int64: of each column chunk, see `kernels_footer`."""
    column_of: np.ndarray
    """(leaves,) int64: the column of the table that each leaf of the schema belongs to."""
    single: np.ndarray
    """(leaves,) bool: whether a leaf is that column, with at most one value a row."""
    elements: tuple[bytes, ...]
    """The schema's elements of the leaves: structs."""

    def leaf_of(self, column: int) -> int | None:
        """The leaf that is this column; None for a nested column."""
        leaves = np.flatnonzero((self.column_of == column) & self.single)
        return int(leaves[0]) if len(leaves) == 1 else None


class DamagedFooter(ValueError):
    """The bytes are no footer that any writer makes."""


def read_layout(footer: bytes) -> Layout:
    """Read a footer (the bytes between the data and its length)."""
    # Kernels are compiled for bytes that can be written, as those of pages are.
    data = np.frombuffer(bytearray(footer), np.uint8)
    room = np.zeros((2, k.DEEPEST), np.int64)
    fields = np.zeros((k.N_FIELDS, 2), np.int64)
    if k.read_fields(data, 0, fields, *room) < 0:
        raise DamagedFooter("its footer ends early, or holds bytes of no known type")
    lists = []
    for field, name in ((_SCHEMA, "schema"), (_ROW_GROUPS, "list of row groups")):
        n, inner, at = k.list_head(data, int(fields[field, 1]))
        if fields[field, 0] != k.LIST or (n and inner != k.STRUCT) or at < 0:
            raise DamagedFooter(f"its footer has no {name}")
        lists.append((n, at))
    (n_nodes, at), (n_groups, groups_at) = lists
    column_of, types = np.zeros((2, n_nodes), np.int64)
    single = np.zeros(n_nodes, bool)
    spans = np.zeros((n_nodes, 2), np.int64)
    leaves = k.read_schema(data, at, n_nodes, column_of, types, single, spans)
    if leaves < 0 or n_groups * leaves > len(data):
        raise DamagedFooter("its schema is no tree of columns, or its row groups lack some of them")
    starts, rows = np.zeros(n_groups + 1, np.int64), np.zeros(n_groups, np.int64)
    facts = np.zeros((n_groups, leaves, k.N_FACTS), np.int64)
    understood = k.read_groups(data, groups_at, types, single, starts, rows, facts)
    if not understood or sum(rows.tolist()) > _MOST_ROWS:
        raise DamagedFooter(
            "what its footer says of a row group or a column in it is impossible: an unknown type, "
            "codec or encoding, a negative size, encryption, or another number of values than rows"
        )
    elements = tuple(footer[a:b] for a, b in spans[:leaves].tolist())
    list_at = int(fields[_ROW_GROUPS, 1])
    return Layout(list_at, starts, rows, facts, column_of[:leaves], single[:leaves], elements)
