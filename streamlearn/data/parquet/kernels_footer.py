"""A parquet footer read from its bytes: structs in Thrift's compact protocol, field by field.

Bytes come from files: every read is checked against their length, numbers against their ranges, and
what breaks a rule is a negative answer, never an error.
"""

from __future__ import annotations

import numpy as np

from ...numeric.jit import kernel
from .pages.kernels_bytes import read_varint

TRUE, FALSE, BYTE, INT16, INT32, INT64, DOUBLE, BINARY, LIST, SET, STRUCT = *range(1, 11), 12
"""Types of the protocol: booleans live in the field's own byte, whole numbers are varints."""
DEEPEST = 32
"""Structs and lists inside one another, at most: parquet has six."""
N_FIELDS = 13
"""Fields of a struct that are looked at: 1 to 12."""
TYPE, CODEC, N_VALUES, PLAIN_NBYTES, NBYTES, DATA_AT, DICTIONARY_AT, ENCODINGS, NULLS = range(9)
N_FACTS = 9
"""Numbers kept of a column chunk: type, codec, values, bytes decompressed and as stored, where its
data pages and its dictionary (0: none) begin, a bit for each encoding of its pages, and its nulls
by its statistics (-1: they do not tell)."""
N_TYPES, N_CODECS, N_ENCODINGS = 8, 8, 10
_LARGEST = 1 << 40
"""Rows, values or bytes of a column chunk, at most."""


@kernel
def skip(data, at, kind, left, inner):
    """Return where the value of this type that begins at `at` ends; -1 if it does not.

    `left` and `inner` (`DEEPEST`,) int64 are room: elements left and their type, of each list that
    is open; -1 for a struct.
    """
    depth, n = 0, len(data)
    while True:
        if kind == STRUCT or kind == LIST or kind == SET:
            if depth == DEEPEST:
                return -1
            left[depth] = -1
            if kind != STRUCT:
                left[depth], inner[depth], at = list_head(data, at)
            depth += 1
        elif INT16 <= kind <= INT64:
            while 0 <= at < n and data[at] > 127:
                at += 1
            at += 1
        elif kind == BINARY:
            size, at = read_varint(data, at)
            at = at + size if 0 <= at and size <= n - at else -1
        elif kind == BYTE:
            at += 1
        elif kind == DOUBLE:
            at += 8
        elif kind == TRUE or kind == FALSE:  # in a list it has a byte of its own
            at += depth > 0 and left[depth - 1] >= 0
        else:  # maps: parquet's footers have none
            return -1
        while True:
            if not 0 <= at <= n:
                return -1
            if depth == 0:
                return at
            if left[depth - 1] > 0:
                left[depth - 1] -= 1
                kind = inner[depth - 1]
                break
            if left[depth - 1] == 0:
                depth -= 1
                continue
            if at == n:
                return -1
            head = np.int64(data[at])
            at += 1
            if head == 0:
                depth -= 1
                continue
            if head >> 4 == 0:
                _, at = read_varint(data, at)
                if at < 0:  # a value that takes a byte would begin again at 0
                    return -1
            kind = head & 15
            break


@kernel
def list_head(data, at):
    """Return (length, type of the elements, where they begin) of the list at `at`; -1 if bad."""
    if not 0 <= at < len(data):
        return np.int64(0), np.int64(0), -1
    n, kind = np.int64(data[at]) >> 4, np.int64(data[at]) & 15
    at += 1
    if n == 15:
        n, at = read_varint(data, at)
    if n > len(data) - at:  # each element takes a byte at least
        return np.int64(0), np.int64(0), -1
    return n, kind, at


@kernel
def read_fields(data, at, fields, left, inner):
    """Write type and place of the fields 1, 2, ... of the struct at `at` into `fields` (k, 2).

    Returns where the struct ends, -1 if it is not understood; an absent field is of type 0.
    """
    fields[:] = 0
    field = np.int64(0)
    while 0 <= at < len(data):
        head = np.int64(data[at])
        at += 1
        if head == 0:
            return at
        if head >> 4:
            field += head >> 4
        else:
            zigzag, at = read_varint(data, at)
            field = zigzag >> 1
        if at < 0:
            return -1
        kind = head & 15
        if 0 < field < len(fields):
            fields[field, 0], fields[field, 1] = kind, at
        at = skip(data, at, kind, left, inner)
    return -1


@kernel
def number(data, fields, field, kind, high):
    """Return the whole number of a field of this type; -1 if it is absent or not 0 to `high`."""
    if fields[field, 0] != kind:
        return np.int64(-1)
    zigzag, at = read_varint(data, fields[field, 1])
    value = zigzag >> 1
    return np.int64(-1) if at < 0 or zigzag & 1 or value > high else value


@kernel
def read_schema(data, at, n, top, types, single, spans):
    """Write into `top` which column of the table each leaf of the schema belongs to.

    `types` are theirs, `single` says whether a leaf is that column, with at most one value a row,
    `spans` (n, 2) where its element begins and ends.  Returns the number of leaves; -1 if the `n`
    elements from `at` on are no schema: a tree, each of whose nodes comes before those below it,
    and each of whose leaves has a type.
    """
    left, inner = np.zeros(DEEPEST, np.int64), np.zeros(DEEPEST, np.int64)
    fields = np.zeros((N_FIELDS, 2), np.int64)
    leaves, column, columns, open_nodes = 0, -1, np.int64(0), np.int64(0)
    for i in range(n):
        begin = at
        at = read_fields(data, at, fields, left, inner)
        if at < 0:
            return -1
        below = number(data, fields, 5, INT32, n) if fields[5, 0] else np.int64(0)
        if below < 0 or fields[4, 0] != BINARY:
            return -1
        if i == 0:
            columns = below
            continue
        is_column = open_nodes == 0
        if is_column:
            column += 1
            open_nodes = 1
        open_nodes += below - 1
        if below == 0 and fields[1, 0]:
            types[leaves] = number(data, fields, 1, INT32, N_TYPES - 1)
            if types[leaves] < 0:
                return -1
            top[leaves] = column
            spans[leaves, 0], spans[leaves, 1] = begin, at
            single[leaves] = is_column and number(data, fields, 3, INT32, 1) >= 0
            leaves += 1
        elif below == 0:
            return -1
    return leaves if n > 0 and open_nodes == 0 and column + 1 == columns else -1


@kernel
def read_groups(data, at, types, single, starts, rows, facts):
    """Write where row groups begin, their rows, their chunks' facts; return whether it is a list.

    `facts` is (row groups, leaves of the schema, `N_FACTS`), `starts` one longer than `rows`.
    """
    left, inner = np.zeros(DEEPEST, np.int64), np.zeros(DEEPEST, np.int64)
    fields, own = np.zeros((N_FIELDS, 2), np.int64), np.zeros((N_FIELDS, 2), np.int64)
    for g in range(len(rows)):
        starts[g] = at
        at = read_fields(data, at, fields, left, inner)
        if at < 0 or fields[1, 0] != LIST:
            return False
        rows[g] = number(data, fields, 3, INT64, _LARGEST)
        n, kind, here = list_head(data, fields[1, 1])
        if rows[g] < 0 or here < 0 or kind != STRUCT or n != facts.shape[1]:
            return False
        for c in range(n):
            here = read_fields(data, here, own, left, inner)
            if here < 0 or own[3, 0] != STRUCT or own[8, 0] or own[9, 0]:  # encrypted
                return False
            read_fields(data, own[3, 1], own, left, inner)
            if not read_chunk(data, own, facts[g, c]) or facts[g, c, N_VALUES] < rows[g]:
                return False
            facts[g, c, NULLS] = -1
            if own[12, 0] == STRUCT and read_fields(data, own[12, 1], own, left, inner) >= 0:
                facts[g, c, NULLS] = number(data, own, 3, INT64, _LARGEST)
            if facts[g, c, TYPE] != types[c] or single[c] and facts[g, c, N_VALUES] > rows[g]:
                return False
    starts[len(rows)] = at
    return True


@kernel
def read_chunk(data, fields, facts):
    """Write the facts of the column chunk with these fields but its nulls; return if all are legal.

    Those are told by the statistics of its values, a struct of their own.
    """
    facts[TYPE] = number(data, fields, 1, INT32, N_TYPES - 1)
    facts[CODEC] = number(data, fields, 4, INT32, N_CODECS - 1)
    facts[N_VALUES] = number(data, fields, 5, INT64, _LARGEST)
    facts[PLAIN_NBYTES] = number(data, fields, 6, INT64, _LARGEST)
    facts[NBYTES] = number(data, fields, 7, INT64, _LARGEST)
    facts[DATA_AT] = number(data, fields, 9, INT64, np.int64(1) << 60)
    facts[DICTIONARY_AT] = facts[ENCODINGS] = facts[NULLS] = 0
    if fields[11, 0]:
        facts[DICTIONARY_AT] = number(data, fields, 11, INT64, np.int64(1) << 60)
    n, kind, at = list_head(data, fields[2, 1])
    if facts.min() < 0 or fields[2, 0] != LIST or kind != INT32 or at < 0:
        return False
    for _ in range(n):
        zigzag, at = read_varint(data, at)
        if at < 0 or zigzag & 1 or zigzag >> 1 >= N_ENCODINGS:
            return False
        facts[ENCODINGS] |= np.int64(1) << (zigzag >> 1)
    return True
