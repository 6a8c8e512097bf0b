"""Headers of pages checked against the footer before the library reads what they say.

The library allocates what a header names, before it looks at the bytes.  A read of some 256 bytes
a page tells whether a column chunk keeps to the sizes of the footer, with which the plan counts,
and where its pages lie.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..footer_layout import Layout
from ..kernels_footer import DATA_AT, DICTIONARY_AT, N_VALUES, NBYTES, PLAIN_NBYTES
from .kernels import DATA, DATA_2, DICTIONARY, HEADER, read_header
from .prefixes import check_words, is_by_prefixes

_WINDOWS = 256, 1 << 16, 1 << 20
"""Bytes read of a header: what most take, and the most that any may take (statistics of words)."""
_SLACK = 100
"""Bytes that old writers left out of a chunk's size: those of a dictionary page's header."""
_SMALL = 1 << 20
"""Decompressed bytes that a page may take whatever the footer says."""


class Page(NamedTuple):
    """The fields of a page's header."""

    kind: int
    n_values: int
    plain_nbytes: int
    """Bytes of its content decompressed."""
    start: int
    """Position in the file of its header."""
    stop: int
    """Position in the file of the end of its content."""


def walk_pages(file: int, layout: Layout, group: int, leaf: int) -> Iterator[Page]:
    """The pages of a column chunk up to its last value.

    Parameters
    ----------
    file : int
        Handle of the file.
    layout : Layout
        Its footer.
    group, leaf : int
        Row group, and leaf of the schema.

    Raises
    ------
    ValueError
        Unless the pages keep to the chunk's size and number of values, and words by prefixes to
        what `check_words` lets them take.
    """
    facts = layout.facts[group, leaf]
    at = int(facts[DATA_AT])
    if facts[DICTIONARY_AT]:
        at = min(at, int(facts[DICTIONARY_AT]))
    stop, n_left = at + int(facts[NBYTES]), int(facts[N_VALUES])
    header = np.empty(HEADER, np.int64)
    while at < stop and n_left > 0:
        for window in _WINDOWS:
            raw = np.frombuffer(bytearray(os.pread(file, window, at)), np.uint8)
            nbytes = read_header(raw, 0, header)
            if nbytes >= 0 or len(raw) < window:
                break
        kind, plain, packed, n = header[:4].tolist()
        if nbytes < 0 or min(plain, packed) < 0:
            raise ValueError(f"the bytes from {at} on are no page's header")
        end = at + nbytes + packed
        if end > stop + _SLACK or plain > max(facts[PLAIN_NBYTES], _SMALL):
            raise ValueError(
                f"the page at byte {at} has {packed} bytes, {plain} decompressed; by the footer "
                f"all pages of this column have {facts[NBYTES]} and {facts[PLAIN_NBYTES]}"
            )
        most = {DATA: n_left, DATA_2: n_left, DICTIONARY: plain}.get(kind, n)
        if kind in (DATA, DATA_2, DICTIONARY) and not 0 <= n <= most:
            raise ValueError(
                f"the page at byte {at} has {n} values; there is room for {most} in {plain} bytes"
            )
        if kind in (DATA, DATA_2) and layout.single[leaf] and is_by_prefixes(raw):
            check_words(file, layout, group, leaf, at, end)
        yield Page(kind, n, plain, at, end)
        n_left -= n if kind in (DATA, DATA_2) else 0
        at = end


def is_of_first_version(file: int, layout: Layout, group: int, leaf: int) -> bool:
    """Whether the first data page of a column chunk is of the first version, and understood."""
    try:
        pages = walk_pages(file, layout, group, leaf)
        return next((page.kind for page in pages if page.kind != DICTIONARY), None) == DATA
    except ValueError:
        return False


def check_pages(file: int, layout: Layout, group: int, leaf: int) -> None:
    """Raise ValueError unless the pages of a column chunk are as `walk_pages` asks."""
    for _ in walk_pages(file, layout, group, leaf):
        pass
