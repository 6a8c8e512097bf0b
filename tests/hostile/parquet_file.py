"""A parquet file taken apart into pages and put together again, with right offsets and sizes."""

import pyarrow as pa
from hostile.thrift import get, put, read_struct, write_struct

I32, I64 = 5, 6
CODECS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
DICTIONARY, DATA_2 = 2, 3
ROW_GROUPS, COLUMNS, FACTS = 4, 1, 3
CODEC, PLAIN_NBYTES, NBYTES, DATA_AT, DICTIONARY_AT, STATISTICS, SIZES = 4, 6, 7, 9, 11, 12, 16
"""Fields of a footer, a row group, a column chunk and what it says of itself."""


def take_apart(raw):
    """(footer, {(row group, column): [[header, body], ...]}) of a whole file."""
    n = int.from_bytes(raw[-8:-4], "little")
    footer, _ = read_struct(raw[-8 - n : -8])
    pages = {}
    for g, group in enumerate(get(footer, ROW_GROUPS)[1]):
        for c, chunk in enumerate(get(group, COLUMNS)[1]):
            facts = get(chunk, FACTS)
            at = min(get(facts, DATA_AT), get(facts, DICTIONARY_AT) or get(facts, DATA_AT))
            end, found = at + get(facts, NBYTES), []
            while at < end:
                header, at = read_struct(raw, at)
                n = get(header, 3)
                found.append([header, raw[at : at + n]])
                at += n
            pages[g, c] = found
    return footer, pages


def put_together(footer, pages):
    """The data of a file of these pages; the footer says where they are."""
    out = bytearray(b"PAR1")
    for g, group in enumerate(get(footer, ROW_GROUPS)[1]):
        for c, chunk in enumerate(get(group, COLUMNS)[1]):
            facts, start, plain = get(chunk, FACTS), len(out), 0
            chunk = pages[g, c]
            is_by_dictionary = bool(chunk) and get(chunk[0][0], 1) == DICTIONARY
            for number, (header, body) in enumerate(chunk):
                head = write_struct(header)
                if number == 0 and is_by_dictionary:
                    put(facts, DICTIONARY_AT, I64, len(out))
                elif number == is_by_dictionary:
                    put(facts, DATA_AT, I64, len(out))
                plain += len(head) + (get(header, 2) or 0)
                out += head + body
            put(facts, NBYTES, I64, len(out) - start)
            put(facts, PLAIN_NBYTES, I64, plain)
    return bytes(out)


def end_of_file(footer):
    text = write_struct(footer)
    return text + len(text).to_bytes(4, "little") + b"PAR1"


def codec_of(footer, place):
    g, c = place
    return CODECS[get(get(get(get(footer, ROW_GROUPS)[1][g], COLUMNS)[1][c], FACTS), CODEC)]


def levels_nbytes(header):
    """Bytes before the compressed part of a page: the levels, in pages of version 2."""
    own = get(header, 8)
    return 0 if own is None else (get(own, 5) or 0) + (get(own, 6) or 0)


MOST_PLAIN = 1 << 20
"""Bytes that a page of the originals has at most: one that says more has been changed before."""


def unpacked(header, body, codec):
    """A page's bytes, decompressed."""
    n = levels_nbytes(header)
    own = get(header, 8)
    if codec is None or own is not None and get(own, 7) is False:
        return bytes(body)
    rest = get(header, 2) - n
    if not 0 <= rest <= MOST_PLAIN:
        raise ValueError(f"the page says that {rest} bytes are compressed in it")
    packed = pa.Codec(codec).decompress(body[n:], rest, asbytes=True) if rest else b""
    return bytes(body[:n]) + packed


def packed(header, plain, codec):
    """The body of a page with these bytes; its header says their sizes."""
    n, own = levels_nbytes(header), get(header, 8)
    body = plain
    if codec is not None and not (own is not None and get(own, 7) is False):
        body = plain[:n] + (pa.Codec(codec).compress(plain[n:], asbytes=True) if plain[n:] else b"")
    put(header, 2, I32, len(plain))
    put(header, 3, I32, len(body))
    return body
