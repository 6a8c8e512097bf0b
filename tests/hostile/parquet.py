"""Parquet files changed at random, in every part that has a form; read by us and by pyarrow."""

import io
import pickle
import random
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hostile.parquet_file import (
    COLUMNS,
    FACTS,
    ROW_GROUPS,
    SIZES,
    STATISTICS,
    codec_of,
    end_of_file,
    packed,
    put_together,
    take_apart,
    unpacked,
)
from hostile.thrift import BINARY, DOUBLE, LIST, NUMBERS, SET, STRUCT, get, places, read_struct

import streamlearn as sl
from streamlearn.data.parquet import files
from streamlearn.passes.summary.levels import learn_levels

ROWS = 240
CODECS = ("none", "snappy", "snappy", "gzip", "brotli", "zstd", "lz4")
ENCODINGS = {
    "f": ("PLAIN", "BYTE_STREAM_SPLIT"),
    "d": ("PLAIN", "BYTE_STREAM_SPLIT"),
    "i": ("PLAIN", "DELTA_BINARY_PACKED"),
    "n": ("PLAIN", "DELTA_BINARY_PACKED"),
    "s": ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "b": ("PLAIN", "RLE"),
}
"""Encodings without a dictionary that the types of the columns have."""
INTEGERS = (0, 1, -1, 2, 3, 5, 7, 8, 15, 31, 32, 63, 64, 127, 128, 255, 2**15, 2**20, 2**28,
            2**31 - 1, -(2**31), 2**32, 2**40, 2**62, -(2**63))  # fmt: skip
ABOUT_STATISTICS = re.compile(
    "level histogram size mismatch|Unencoded byte array data bytes|Unexpected end of stream"
)
KINDS = ("footer", "footer", "header", "header", "body", "body", "body", "packed", "pages", "raw")
WAYS = ("whole", "slices", "streamed", "through", "column")
"""How the rows are asked for: each takes other ways through the reader."""


def originals():
    """Small files of every codec, page version, encoding and type; with a target or without."""
    found = []
    for number in range(56):
        rng = random.Random(f"original {number}")
        generator = np.random.default_rng(number)
        codec, target = CODECS[number % len(CODECS)], ("y", "s", "c", None)[number % 4]
        columns = {
            "f": pa.array(generator.integers(0, 20, ROWS), pa.float32()),
            "d": pa.array(generator.normal(size=ROWS).round(rng.choice((1, 9)))),
            "i": pa.array(generator.integers(-9, 9, ROWS), rng.choice((pa.int32(), pa.int64()))),
            "n": pa.array([None if x > 7 else x for x in generator.integers(0, 9, ROWS).tolist()]),
            "b": pa.array(generator.integers(0, 2, ROWS) > 0),
            "u": pa.array(generator.integers(0, 9, ROWS), rng.choice((pa.uint8(), pa.int16()))),
        }
        columns = {name: columns[name] for name in rng.sample(sorted(columns), 3)}
        words = [
            None if rng.random() < 0.05 else f"word {k}" for k in generator.integers(0, 5, ROWS)
        ]
        if target == "y":
            columns["y"] = pa.array(generator.integers(0, 3, ROWS))
        elif target == "s":
            columns["s"] = pa.array(words)
        elif target == "c":
            columns["c"] = pa.array(words).dictionary_encode()
        elif number % 8 == 7:
            columns["s"] = pa.array(words)  # a categorical feature
        table = pa.table(columns)
        if rng.random() < 0.5:  # columns that cannot be null have no levels
            fields = [
                f if table.column(f.name).null_count else f.with_nullable(False)
                for f in table.schema
            ]
            table = table.cast(pa.schema(fields))
        dictionary = rng.random() < 0.6
        chosen = {name: rng.choice(ENCODINGS.get(name, ("PLAIN",))) for name in columns}
        file = io.BytesIO()
        pq.write_table(
            table,
            file,
            compression=codec,
            use_dictionary=dictionary,
            column_encoding=None if dictionary else chosen,
            data_page_version=rng.choice(("1.0", "1.0", "2.0")),
            row_group_size=rng.choice((ROWS, 100)),
            data_page_size=rng.choice((200, 1 << 20)),
            write_batch_size=50,
            write_statistics=rng.random() < 0.5,
            write_page_checksum=rng.random() < 0.2,
        )
        footer, pages = take_apart(file.getvalue())
        found.append((target, file.getvalue(), pickle.dumps((footer, pages))))
    return found


ORIGINALS = []


def change_number(rng, value):
    if rng.random() < 0.4:
        return value + rng.choice((-8, -2, -1, 1, 2, 8, 100))
    return rng.choice(INTEGERS)


def change_bytes(rng, value):
    """Bytes with some changed, some more, or some less."""
    value, kind = bytearray(value), rng.randrange(6)
    if kind == 0:
        value = value[: rng.randrange(len(value) + 1)]
    elif kind == 1:
        at = rng.randrange(len(value) + 1)
        value[at:at] = rng.randbytes(rng.choice((1, 2, 8)))
    elif value:
        for _ in range(rng.choice((1, 1, 1, 4))):
            at = min(rng.randrange(len(value)), rng.randrange(len(value)))  # more at the beginning
            if kind == 2:
                value[at] = rng.choice((0, 1, 2, 3, 7, 31, 32, 33, 127, 128, 254, 255))
            elif kind == 3:
                value[at] = value[at] + rng.choice((-1, 1, 2)) & 255
            else:
                value[at] ^= 1 << rng.randrange(8)
    return bytes(value)


def change_struct(rng, fields):
    """One field, or one element of a list, becomes another, vanishes, or comes twice."""
    found = list(places(fields))
    where, at, inner = rng.choice(found)
    way = rng.randrange(12)
    if way == 0:
        del where[at]
        return
    if way == 1:
        where.insert(at, pickle.loads(pickle.dumps(where[at])))
        return
    if way == 2:
        other, place, same = rng.choice(found)
        if same == inner and (inner is not None or other[place][1] == where[at][1]):
            value = pickle.loads(pickle.dumps(other[place]))
            where[at] = value if inner is not None else [where[at][0], *value[1:]]
        return
    kind = where[at][1] if inner is None else inner
    value = where[at][2] if inner is None else where[at]
    if kind in NUMBERS:
        value = change_number(rng, value)
    elif kind in (BINARY, DOUBLE):
        value = change_bytes(rng, value)
        value = value if kind == BINARY else (value + bytes(8))[:8]
    elif kind in (1, 2):
        value = not value
    elif kind in (LIST, SET) and value[1] and rng.random() < 0.5:
        value[1].pop(rng.randrange(len(value[1])))
    elif kind in (STRUCT, LIST, SET) or value is None:
        if kind == STRUCT and value:
            change_struct(rng, value)
        return
    if inner is None:
        where[at][2] = value
        if rng.random() < 0.02:
            where[at][0] += rng.choice((-1, 1, 2))
    else:
        where[at] = value


def changed(rng, raw, content):
    """The bytes of a file that is not what it was."""
    footer, pages = pickle.loads(content)
    after = []
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        kind = rng.choice(KINDS)
        if kind in ("footer", "raw"):
            after.append(kind)
            continue
        where = rng.choice(list(pages))
        chunk = pages[where]
        page = chunk[rng.randrange(len(chunk))]
        if kind == "header":
            change_struct(rng, page[0])
        elif kind == "packed":
            page[1] = change_bytes(rng, page[1])
            if rng.random() < 0.5:
                fix_length(page)
        elif kind == "body":
            change_body(rng, page, codec_of(footer, where))
        else:
            change_pages(rng, pages, where)
    data = put_together(footer, pages)
    for kind in after:
        if kind == "footer":
            change_struct(rng, footer)
    raw = data + end_of_file(footer)
    if "raw" in after:
        raw = change_bytes(rng, raw) if rng.random() < 0.5 else change_end(rng, raw)
    return raw


def fix_length(page):
    for field in page[0]:
        if field[0] == 3:
            field[2] = len(page[1])


def change_body(rng, page, codec):
    """What a page says once it is decompressed; compressed again, with sizes that are right."""
    try:
        plain = unpacked(*page, codec)
        page[1] = packed(page[0], change_bytes(rng, plain), codec)
    except (OSError, TypeError, ValueError, MemoryError, pa.ArrowException):
        # an earlier change is in the way
        page[1] = change_bytes(rng, page[1])


def change_pages(rng, pages, where):
    """Pages that are absent, come twice, or lie in another column."""
    chunk = pages[where]
    way, at = rng.randrange(4), rng.randrange(len(chunk))
    if way == 0 and len(chunk) > 1:
        del chunk[at]
    elif way == 1:
        chunk.insert(rng.randrange(len(chunk) + 1), pickle.loads(pickle.dumps(chunk[at])))
    elif way == 2:
        chunk[at] = pickle.loads(pickle.dumps(rng.choice(pages[rng.choice(list(pages))])))
    else:
        rng.shuffle(chunk)


def change_end(rng, raw):
    """Bytes of the footer or its length."""
    n = int.from_bytes(raw[-8:-4], "little") + 8
    return raw[: len(raw) - n] + change_bytes(rng, raw[len(raw) - n :])


def same_numbers(columns, which, out, at):
    for values, d in zip(columns, which, strict=True):
        out[d, at : at + len(values)] = values


def read_ours(path, target, way):
    """(feature names, float64 features, target values) as our reader has them."""
    files._HELD = 0 if way == "streamed" else 1 << 18
    chunk_rows = 37 if way in ("slices", "streamed") else None
    data = sl.open_dataset(path, target=target, chunk_rows=chunk_rows)
    data = learn_levels(data)
    levels = data.levels
    if way == "through":
        data = data.through(same_numbers)
    if way == "column" and target is not None:
        data = data.select(data.feature_names[-1:])
    X, y = [], []
    for chunk in data.iter_chunks():
        X.append(np.array(chunk.X, np.float64))
        if target is not None:
            y += list(chunk.y)
    return data, levels, np.concatenate(X), y


def read_pyarrow(path, data, levels, target, way="whole"):
    """The same of pyarrow's, which reads streams of batches less strictly than row groups."""
    names = list(data.feature_names)
    file = pq.ParquetFile(path)
    wanted = [*names, *([target] if target is not None else [])]
    # by row groups: over several, it goes on in the next where a column ends early
    groups = range(file.num_row_groups)
    if way == "streamed":
        found = {name: [] for name in wanted}
        for g in groups:
            for name in wanted:
                batches = file.iter_batches(37, [g], [name], use_threads=False)
                found[name] += [batch.column(0) for batch in batches]
        table = pa.table({name: pa.chunked_array(pieces) for name, pieces in found.items()})
    else:
        table = pa.concat_tables(
            [file.read_row_group(g, wanted, use_threads=False) for g in groups]
        )
    columns = []
    for name in names:
        values = as_numbers(table.column(name)).to_pylist()
        if name in levels:
            codes = {word: float(code) for code, word in enumerate(levels[name])}
            values = [codes.get(word, np.nan) for word in values]
        numbers = [np.nan if x is None else float(x) for x in values]
        columns.append(np.array(numbers, np.float64))
    X = np.stack(columns, axis=1) if columns else np.empty((len(table), 0))
    with np.errstate(over="ignore", invalid="ignore"):
        through = data.convert is not None
        X = X.astype(np.float32 if through else data.dtype).astype(np.float64)
    return X, [] if target is None else table.column(target).to_pylist()


def as_numbers(column):
    """Times and durations as the numbers that are stored, which Python's objects are not."""
    kind = column.type
    if not pa.types.is_temporal(kind):
        return column
    return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())


def equal_values(a, b):
    if len(a) != len(b):
        return False
    nothing = [x is None or x != x for x in b]
    return all(
        (x is None or x != x) if missing else x == y
        for x, y, missing in zip(a, b, nothing, strict=True)
    )


def case(seed, folder, ours_is_done):
    """What comes of the file with this seed's changes."""
    rng = random.Random(seed)
    target, raw, content = rng.choice(ORIGINALS)
    path = folder / "t.parquet"
    path.write_bytes(changed(rng, raw, content))
    way = rng.choice(WAYS)
    try:
        data, levels, X, y = read_ours(path, target, way)
    except sl.StreamlearnError:
        return "refused"
    ours_is_done()
    verdict = "equal"
    try:
        try:
            X_there, y_there = read_pyarrow(path, data, levels, target, way)
        except OSError as error:
            if not ABOUT_STATISTICS.search(str(error)):
                raise
            verdict = "equal without statistics"
            remove_statistics(path)
            X_there, y_there = read_pyarrow(path, data, levels, target, way)
    except (OSError, ValueError, pa.ArrowException, LookupError) as error:
        return f"LENIENT: pyarrow says {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if X.shape != X_there.shape or not np.array_equal(X, X_there, equal_nan=True):
        return f"WRONG values in X, read {way}"
    if not equal_values(y, y_there):
        return f"WRONG values in y, read {way}"
    return verdict


def remove_statistics(path):
    """Those of the footer are optional; pyarrow refuses a file over bad ones before it reads."""
    raw = path.read_bytes()
    n = int.from_bytes(raw[-8:-4], "little")
    footer, _ = read_struct(raw[-8 - n : -8])
    for group in get(footer, ROW_GROUPS)[1]:
        for chunk in get(group, COLUMNS)[1]:
            facts = get(chunk, FACTS)
            facts[:] = [field for field in facts if field[0] not in (STATISTICS, SIZES)]
    path.write_bytes(raw[: -8 - n] + end_of_file(footer))


def warm(folder):
    """The originals, each read in every way: they are equal, and everything is loaded."""
    ORIGINALS.extend(originals())
    for number, (target, raw, content) in enumerate(ORIGINALS):
        footer, pages = pickle.loads(content)
        assert put_together(footer, pages) + end_of_file(footer) == raw
        path = folder / "t.parquet"
        path.write_bytes(raw)
        for way in WAYS if number < 14 else WAYS[:1]:
            data, levels, X, y = read_ours(path, target, way)
            X_there, y_there = read_pyarrow(path, data, levels, target)
            assert np.array_equal(X, X_there, equal_nan=True), (number, way)
            assert equal_values(y, y_there), (number, way)
