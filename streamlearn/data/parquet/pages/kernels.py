"""A parquet column chunk decoded from its bytes: headers, snappy, levels, dictionary indices.

Bytes come from files: every read is checked against their length, and what is not known, or breaks
a rule, is a negative or false answer, never an error.
"""

from __future__ import annotations

import numpy as np

from ....numeric.jit import kernel
from .kernels_bytes import WORD, copy_bytes, inflate, load_word, read_varint

HEADER = 7
"""Numbers that `read_header` tells of a page: type, decompressed and compressed bytes, values,
encoding, encodings of the definition and of the repetition levels."""
DATA, DICTIONARY, DATA_2 = 0, 2, 3
"""Types of pages."""
PLAIN, OLD_INDICES, RLE, BIT_PACKED, INDICES = 0, 2, 3, 4, 8
"""Encodings; dictionary pages of old writers say `OLD_INDICES` for `PLAIN`."""
_DEEPEST = 8
_NARROW = 15
"""Bits of an index: four and half a byte are at most a word."""


@kernel
def decode_chunks(raw, at, snappy, has_levels, room, table, out, understood):
    """Decode chunk i, ``raw[at[i]:at[i + 1]]``, into ``out[i]``; whether it was understood also.

    Several in one call, as each call waits for the interpreter's lock.
    """
    for i in range(len(out)):
        chunk = raw[at[i] : at[i + 1]]
        understood[i] = decode_chunk(chunk, snappy[i], has_levels[i], room, table, -1, out[i])


@kernel
def decode_mapped(raw, at, snappy, has_levels, room, tables, counts, which, start, n, out, known):
    """Decode the chunks of n values whose dictionaries are known into ``out[which[i], start:]``.

    ``tables[which[i]]`` says what the ``counts[i]`` values of chunk i's dictionary stand for.
    """
    for i in range(len(which)):
        chunk, d = raw[at[i] : at[i + 1]], which[i]
        values = out[d, start : start + n]
        known[i] = counts[i] >= 0 and decode_chunk(
            chunk, snappy[i], has_levels[i], room, tables[d], counts[i], values
        )


@kernel
def read_dictionaries(raw, at, snappy, room, tables, counts):
    """Write each chunk's dictionary into ``tables[i]``, its length into ``counts[i]``; -1: none."""
    header = np.zeros(HEADER, np.int64)
    for i in range(len(counts)):
        chunk = raw[at[i] : at[i + 1]]
        counts[i] = -1
        begin = read_header(chunk, 0, header)
        plain, packed, n = header[1], header[2], header[3]
        told = header[4] == PLAIN or header[4] == OLD_INDICES
        if begin < 0 or header[0] != DICTIONARY or not told or n > tables.shape[1]:
            continue
        if min(plain, packed, n) < 0 or packed > len(chunk) - begin:
            continue
        page = chunk[begin : begin + packed]
        if snappy[i]:
            if plain > len(room) or not inflate(page, room[:plain]):
                continue
            page = room[:plain]
        if copy_numbers(page, 0, tables[i, :n]):
            counts[i] = n


@kernel
def decode_chunk(raw, snappy, has_levels, room, table, n_given, out):
    """Write a column chunk's values into `out` in place; return whether it was understood.

    `room` is for a page decompressed, `table` for the dictionary: a power of two, or empty.  It may
    already say what the dictionary's `n_given` values stand for; then all must be by it.
    """
    header, at, done, n_known = np.zeros(HEADER, np.int64), 0, 0, -1
    while done < len(out):
        at = read_header(raw, at, header)
        kind, plain, packed, n = header[0], header[1], header[2], header[3]
        if at < 0 or min(plain, packed, n) < 0 or packed > len(raw) - at:
            return False
        page = raw[at : at + packed]
        at += packed
        if kind == DICTIONARY and n_given >= 0:
            if n_known >= 0 or done or n != n_given:
                return False
            n_known = n
            continue
        if snappy:
            if plain > len(room) or not inflate(page, room[:plain]):
                return False
            page = room[:plain]
        elif plain != packed:
            return False
        if kind == DICTIONARY:
            told = header[4] == PLAIN or header[4] == OLD_INDICES
            if n_known >= 0 or done or not told or n > len(table):
                return False
            if not copy_numbers(page, 0, table[:n]):
                return False
            n_known = n
        elif kind == DATA and n <= len(out) - done and min(header[5], header[6]) >= 0:
            start = 0
            if has_levels:
                start = skip_levels(page, n) if header[5] == RLE else -1
            values = out[done : done + n]
            done += n
            if start < 0:
                return False
            if header[4] == PLAIN:
                if n_given >= 0 or not copy_numbers(page, start, values):
                    return False
            elif header[4] != INDICES and header[4] != OLD_INDICES:
                return False
            elif not decode_indices(page, start, table, n_known, values):
                return False
        else:
            return False
    return True


@kernel
def copy_numbers(page, at, out):
    """Copy the numbers from `at` to the page's end into `out`; return whether they are as many."""
    if len(page) - at != out.itemsize * len(out):
        return False
    copy_bytes(page, at, out, 0, len(page) - at)
    return True


@kernel
def read_header(data, at, header):
    """Write the `HEADER` of the page that begins at `at`; return where it ends, -1 if unknown.

    It is a struct in Thrift's compact protocol: 1 the type, 2 and 3 its bytes, 5 or 7 a
    struct of 1 the number of values, 2 the encoding, 3 and 4 those of the levels; of version 2,
    the struct 8, only the number of values is told; the rest is skipped.
    """
    for i in range(HEADER):
        header[i] = -1
    fields, depth = np.zeros(_DEEPEST, np.int64), 0
    while 0 <= at < len(data):
        head = np.int64(data[at])
        at += 1
        if head == 0:
            if depth == 0:
                return at
            depth -= 1
            continue
        kind = head & 15
        if head >> 4:
            fields[depth] += head >> 4
        else:
            field, at = read_varint(data, at)
            fields[depth] = field >> 1
        if at < 0:  # a value that takes a byte would begin again at 0
            return -1
        if 4 <= kind <= 6:
            value, at = read_varint(data, at)
            number = -1 if value & 1 else value >> 1  # an odd one stands for a number below zero
            if kind != 5:  # of another width: every reader skips it
                continue
            if depth == 0 and 1 <= fields[0] <= 3:
                header[fields[0] - 1] = number
            elif depth == 1 and (fields[0] == 5 or fields[0] == 7) and 1 <= fields[1] <= 4:
                header[2 + fields[1]] = number
            elif depth == 1 and fields[0] == 8 and fields[1] == 1:
                header[3] = number
        elif kind == 8:
            n, at = read_varint(data, at)
            at = at + n if at >= 0 else at
        elif kind == 12:
            depth += 1
            if depth == _DEEPEST:
                return -1
            fields[depth] = 0
        elif kind == 3:
            at += 1
        elif kind == 7:
            at += 8
        elif kind != 1 and kind != 2:
            return -1
        if at < 0:
            return -1
    return -1


@kernel
def skip_levels(page, n):
    """Return where the definition levels of `n` values end; -1 unless one run says all are there.

    Four bytes say how long they are, then come a run's length and its level.
    """
    if len(page) < 6:
        return -1
    nbytes = 0
    for i in range(4):
        nbytes |= np.int64(page[i]) << np.int64(8 * i)
    run, at = read_run(page, 4)
    if run != 2 * n or at >= len(page) or page[at] != 1 or nbytes != at - 3:
        return -1
    return at + 1


@kernel
def read_run(page, at):
    """Return (header, where it ends) of a run of levels or indices; the end is -1 if it is bad.

    A header is unsigned, of 32 bits in at most five bytes; a run has a value at least, and fewer
    than 2^31: the library refuses others.
    """
    run, end = read_varint(page, at)
    if end > at + 5 or run < 2 or run >= 1 << 32 or (run & 1 and run >> 1 >= 1 << 28):
        return np.int64(0), -1
    return run, end


@kernel
def decode_indices(page, at, dictionary, n_known, out):
    """Write what the indices from `at` on stand for into `out`; return whether all are known.

    A byte says how wide they are.  Runs follow: an even number is twice the length of a run of one
    index in whole bytes, an odd one says how many times eight indices are packed bit by bit.
    """
    if at >= len(page):
        return False
    width = np.int64(page[at])
    at += 1
    if n_known < 1 or width > 31 or (1 << width) > len(dictionary):
        return False
    done = 0
    while done < len(out):
        run, at = read_run(page, at)
        if at < 0:
            return False
        if run & 1:
            n = min(8 * (run >> 1), len(out) - done)
            if (run >> 1) * width > len(page) - at:
                return False
            if not unpack(page, at, width, dictionary, n_known, out[done : done + n]):
                return False
            at += (run >> 1) * width
        else:
            n = min(run >> 1, len(out) - done)
            if (width + 7) // 8 > len(page) - at:
                return False
            index = np.uint64(0)
            for i in range((width + 7) // 8):
                index |= np.uint64(page[at + i]) << np.uint64(8 * i)
            if index >= np.uint64(n_known):
                return False
            for i in range(done, done + n):
                out[i] = dictionary[index]
            at += (width + 7) // 8
        done += n
    return True


@kernel
def unpack(page, at, width, dictionary, n_known, out):
    """Write the values of the indices packed from `at` on into `out`; return whether all are known.

    `dictionary` has a place for every index of this width.
    """
    one, bits, last = np.uintp(1), np.uintp(width), np.intp(n_known - 1)
    mask, over, n = (one << bits) - one, np.intp(0), np.uintp(len(out))
    # Indices whose word of eight bytes ends within the page.
    room = 8 * (len(page) - at - WORD) + 8
    whole = n if width == 0 else np.uintp(min(len(out), max(0, room // width)))
    if len(page) - at < WORD:
        whole = np.uintp(0)
    start, byte, seven = np.uintp(at), np.uintp(3), np.uintp(7)
    eights = whole // np.uintp(8) if width <= _NARROW else np.uintp(0)
    # eight indices take `width` bytes; a word holds four, the second four may begin in mid-byte
    two, three, four = bits + bits, bits + bits + bits, np.uintp(4) * bits
    half, rest, here = four >> byte, four & seven, start
    for g in range(eights):
        low, high = load_word(page, here), load_word(page, here + half) >> rest
        here += bits
        a, b, c, d = low & mask, (low >> bits) & mask, (low >> two) & mask, (low >> three) & mask
        i = np.uintp(8 * g)
        out[i], out[i + np.uintp(1)] = dictionary[a], dictionary[b]
        out[i + np.uintp(2)], out[i + np.uintp(3)] = dictionary[c], dictionary[d]
        over |= last - np.intp(a) | last - np.intp(b) | last - np.intp(c) | last - np.intp(d)
        a, b, c, d = (
            high & mask,
            (high >> bits) & mask,
            (high >> two) & mask,
            (high >> three) & mask,
        )
        out[i + np.uintp(4)], out[i + np.uintp(5)] = dictionary[a], dictionary[b]
        out[i + np.uintp(6)], out[i + np.uintp(7)] = dictionary[c], dictionary[d]
        over |= last - np.intp(a) | last - np.intp(b) | last - np.intp(c) | last - np.intp(d)
    for i in range(np.uintp(8) * eights, whole):
        i = np.uintp(i)
        bit = i * bits
        index = (load_word(page, start + (bit >> byte)) >> (bit & seven)) & mask
        over |= last - np.intp(index)  # one below zero makes it so
        out[i] = dictionary[index]
    for i in range(whole, n):
        bit = np.uintp(i) * bits
        first, word = start + (bit >> byte), np.uintp(0)
        for k in range(min(WORD, len(page) - np.intp(first))):
            word |= np.uintp(page[first + np.uintp(k)]) << np.uintp(8 * k)
        index = (word >> (bit & seven)) & mask
        over |= last - np.intp(index)
        out[i] = dictionary[index]
    return over >= 0
