"""Where a parquet footer keeps its row groups, so that a few can be parsed without the others.

A parsed footer takes about ten times its bytes (8 GB in 611 row groups of 51 columns: 2.7 MB, 27
parsed), of which one task needs a few row groups at a time.  The footer is one struct in Thrift's
compact protocol: version, schema, number of rows, list of row groups, and the rest; a shorter list
in its place makes it a valid footer again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .thrift import NotUnderstood, list_start, read_number, read_struct

_ROW_GROUPS, _NUM_ROWS = 4, 3
"""Fields of the footer and of a row group."""


class Blocks(NamedTuple):
    """The parts of a footer, as positions in it."""

    list_at: int
    """Position at which the list of row groups begins."""
    starts: np.ndarray
    """(g + 1,) int64: where each row group begins, and the last ends."""
    rows: list[int]
    """Rows of each row group."""


def find_blocks(footer: bytes) -> Blocks:
    """Find the row groups of a footer (the bytes between the data and its length)."""
    try:
        fields, _ = read_struct(footer, 0)
        if fields.get(_ROW_GROUPS, (0, 0))[0] != 9:
            raise NotUnderstood("it has no list of row groups")
        list_at = fields[_ROW_GROUPS][1]
        n, _, at = list_start(footer, list_at)
        starts, rows = [at], []
        for _ in range(n):
            fields, at = read_struct(footer, at)
            starts.append(at)
            rows.append(read_number(footer, fields[_NUM_ROWS][1]))
    except (IndexError, KeyError, RecursionError) as error:
        raise NotUnderstood("it ends early, or lacks a field") from error
    return Blocks(list_at, np.array(starts, np.int64), rows)
