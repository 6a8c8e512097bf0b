"""Columns decoded from their pages, against pyarrow's own reading of the same bytes."""

import contextlib
import gc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile.parquet_file import end_of_file, put_together, take_apart
from hostile.thrift import put
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_kit import as_python

from streamlearn.additive.basis.kernels import coordinates_rows
from streamlearn.data.open import open_dataset
from streamlearn.data.parquet import footer as parquet_footer
from streamlearn.data.parquet import kernels_footer
from streamlearn.data.parquet.footer import Footers
from streamlearn.data.parquet.pages import kernels as page_kernels
from streamlearn.data.parquet.pages.kernels_bytes import inflate
from streamlearn.data.parquet.pages.reader import USABLE, PageReader
from streamlearn.errors import SourceError
from streamlearn.numeric.bases.bsplines import Coordinates, make_bases

pytestmark = pytest.mark.skipif(not USABLE, reason="this system's files are left to the library")
N = 5_000


def make_columns(dtype):
    random = np.random.default_rng(0)
    normal = random.standard_normal(N)
    columns = {
        "one": np.full(N, 2.5),
        "two": random.integers(0, 2, N),
        "five": random.integers(0, 5, N),
        "runs": np.repeat(random.integers(0, 300, N // 50), 50),
        "many": random.integers(0, 1000, N),
        "all": normal,
        "sorted": np.sort(normal),
        "odd": np.resize([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40], N),
    }
    if dtype.kind != "f":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        columns["odd"] = np.resize(np.array([least, most, 1], dtype), N)
        columns = {name: np.floor(c) if c.dtype == float else c for name, c in columns.items()}
        columns["runs"], columns["many"] = columns["runs"] % 120, columns["many"] % 120
    return {name: values.astype(dtype) for name, values in columns.items()}


def write(path, columns, *, nullable=True, **options):
    kinds = {name: pa.from_numpy_dtype(values.dtype) for name, values in columns.items()}
    schema = pa.schema([pa.field(name, kind, nullable) for name, kind in kinds.items()])
    table = pa.table([pa.array(values) for values in columns.values()], schema)
    pq.write_table(table, path, **options)
    return str(path)


def read(path, names=None, lasting=True):
    """{name: array} of the columns that are known, of the file's first row group."""
    footer = Footers(None, [str(path)], ["t"]).parsed(0)
    pages = PageReader(path, footer.schema)
    try:
        found = pages.read(footer.layout, 0, names or footer.schema.names, lasting=lasting)
        return {name: np.array(array) for name, array in found.items()}
    finally:
        pages.close()


def bits(values):
    return np.ascontiguousarray(values).tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("compression", ["snappy", "none"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nullable": False},
        {"use_dictionary": False},
        {"use_dictionary": False, "nullable": False},
        {"data_page_size": 512, "write_batch_size": 100},
        {"dictionary_pagesize_limit": 2_000, "write_batch_size": 64},  # pages of both kinds
        {"version": "1.0"},
        {"write_statistics": False},
        {"write_page_checksum": True},
    ],
    ids=str,
)
def test_the_librarys_own_bits(tmp_path, dtype, compression, options):
    columns = make_columns(np.dtype(dtype))
    path = write(tmp_path / "a.parquet", columns, compression=compression, **options)
    found = read(path)
    if dtype == "u4" and options.get("version") == "1.0":  # which knows no such type
        columns = {name: values.astype(np.int64) for name, values in columns.items()}
    assert list(found) == list(columns)
    for name, values in columns.items():
        assert bits(found[name]) == bits(values), name
    again = read(path, ["sorted", "one", "five"], lasting=False)  # neither all nor side by side
    for name, values in again.items():
        assert bits(values) == bits(columns[name]), name


@pytest.mark.parametrize("n_values", [1, 2, 3, 255, 256, 257, 4096, 60_000])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 63, 1000, 70_000])
def test_every_width_of_indices(tmp_path, n, n_values):
    values = np.random.default_rng(n).integers(0, n_values, n).astype(np.float32)
    path = write(tmp_path / "a.parquet", {"x": values}, row_group_size=n)
    assert bits(read(path)["x"]) == bits(values)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"compression": "zstd"},
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "use_byte_stream_split": True},
    ],
    ids=str,
)
def test_what_is_not_known_is_left(tmp_path, options):
    columns = make_columns(np.dtype("f4"))
    path = write(tmp_path / "a.parquet", columns, **options)
    assert read(path) == {}
    with open_dataset(path).reader() as reader:
        chunk = reader.read(open_dataset(path).refs()[0])
    assert bits(chunk.X.T) == bits(np.array(list(columns.values())))


def test_doubles_after_an_odd_number_of_floats(tmp_path):
    columns = {
        name: np.arange(7, dtype=kind) for name, kind in zip("abcd", ["f4", "f8"] * 2, strict=True)
    }
    path = write(tmp_path / "a.parquet", columns)
    found = read(path, ["a", "b", "d"], lasting=False)
    for name, values in found.items():
        assert bits(values) == bits(columns[name]), name
    footer = Footers(None, [str(path)], ["t"]).parsed(0)
    pages = PageReader(path, footer.schema)
    kept = pages.read(footer.layout, 0, ["a", "b", "d"], lasting=False)
    addresses = [array.buffers()[1].address for array in kept.values()]
    pages.close()
    assert all(address % 8 == 0 for address in addresses[1:])


def test_other_types_and_holes_are_left(tmp_path):
    holes = pa.array([None if i % 7 == 3 else float(i) for i in range(N)], pa.float32())
    table = pa.table(
        {
            "x": np.arange(N, dtype=np.float32),
            "holes": holes,
            "truth": np.arange(N) % 3 == 1,
            "day": np.arange(N).astype("M8[s]"),
            "half": np.arange(N).astype(np.float16),
            "word": pa.array([f"w{i % 3}" for i in range(N)]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert list(read(str(tmp_path / "a.parquet"))) == ["x"]
    nested = table.append_column("list", pa.array([[1.0, 2.0]] * N))
    nested = nested.append_column("pair", pa.array([{"a": 1.0, "b": 2.0}] * N))
    pq.write_table(nested, tmp_path / "b.parquet")
    found = read(str(tmp_path / "b.parquet"))  # leaves and columns are not the same numbers
    assert list(found) == ["x"]
    assert bits(found["x"]) == bits(np.arange(N, dtype=np.float32))


def test_a_column_with_holes_in_a_later_row_group(tmp_path):
    random = np.random.default_rng(0)
    values = random.standard_normal((4, 3_000)).astype(np.float32)
    holes = random.random(3_000) < 0.01
    holes[:1_000] = False
    table = pa.table({"x": pa.array(values[0], mask=holes), "z": values[1], "y": values[2]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1_000)
    data = open_dataset(tmp_path / "a.parquet", target="y")
    with data.reader() as reader:
        X = np.concatenate([reader.read(ref).X for ref in data.refs()])
    assert bits(X[:, 0]) == bits(np.where(holes, np.float32(np.nan), values[0]))
    assert bits(X[:, 1]) == bits(values[1])


def test_filters_and_slices_see_the_same_rows(tmp_path):
    columns = make_columns(np.dtype("f4"))
    path = write(tmp_path / "a.parquet", columns, row_group_size=1_000)
    some = open_dataset(path, filters=[("five", ">", 2), ("sorted", "<", 0.5)])
    keep = (columns["five"] > 2) & (columns["sorted"] < 0.5)
    expected = np.array(list(columns.values())).T[keep]
    for data in (some, open_dataset(path, filters=[("five", ">", 2), ("sorted", "<", 0.5)])):
        with data.reader() as reader:
            X = np.concatenate([reader.read(ref).X.copy() for ref in data.refs()])
        assert bits(X) == bits(expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "none"},
        {"use_dictionary": False},
        {"dictionary_pagesize_limit": 2_000, "write_batch_size": 64},  # pages of both kinds
        {"data_page_size": 512, "write_batch_size": 100},
        {"compression": "gzip"},
    ],
    ids=str,
)
def test_coordinates_by_way_of_the_dictionary(tmp_path, dtype, options, monkeypatch):
    done, by_pages = set(), PageReader.map
    monkeypatch.setattr(
        PageReader, "map", lambda *args: done.update(names := by_pages(*args)) or names
    )
    columns = make_columns(np.dtype(dtype))
    columns["odd"] = np.where(np.isfinite(columns["odd"]), columns["odd"], 3)
    path = write(tmp_path / "a.parquet", columns, row_group_size=2_000, **options)
    knots = [np.linspace(-1, 4, 6), np.array([0.0, 0.5, 2.0]), np.array([0.0])] * 3
    data = open_dataset(path, target="five", chunk_rows=4_000)
    bases = make_bases(knots[: data.n_features], [1] * data.n_features)
    with data.reader() as plain, data.through(Coordinates(bases)).reader() as mapped:
        for ref in data.refs():
            expected = coordinates_rows(plain.read(ref).X, bases)
            chunk = mapped.read(ref)
            used = bases.n_intervals > 0
            assert bits(chunk.X[:, used]) == bits(expected[:, used])
            assert bits(chunk.y) == bits(columns["five"][ref.start : ref.stop])
    by_dictionary = options.get("use_dictionary", True) and options.get("compression") != "gzip"
    assert ({"one", "two", "odd"} <= done) == by_dictionary


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_or_read_as_numbers(data):
    """No byte of a chunk, whatever it becomes, leads a read beyond what is there."""
    sink = pa.BufferOutputStream()
    random = np.random.default_rng(data.draw(st.integers(0, 9)))
    kind = data.draw(st.sampled_from(["dictionary", "plain", "compressible"]))
    n = 200
    values = {
        "dictionary": random.integers(0, 5, n).astype(np.float32),
        "plain": random.random(n, dtype=np.float32),
        "compressible": np.repeat(random.random(n // 20, dtype=np.float32), 20),
    }[kind]
    table = pa.table({"x": values})
    pq.write_table(table, sink, use_dictionary=kind == "dictionary", data_page_size=128)
    file = sink.getvalue()
    column = pq.ParquetFile(pa.BufferReader(file)).metadata.row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    raw = np.frombuffer(file, np.uint8)[start : start + column.total_compressed_size].copy()
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    room, places = np.empty(column.total_uncompressed_size, np.uint8), np.zeros(256, np.float32)
    answers = []
    for function in (page_kernels.decode_chunk, plain_body("decode_chunk")):
        out = np.zeros(n, np.float32)
        answers.append((function(raw, True, True, room, places, -1, out), bits(out)))
    assert answers[0] == answers[1]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 40), st.data())
def test_snappy_blocks(piece, repeats, data):
    content = np.frombuffer(piece * repeats, np.uint8)
    packed = np.frombuffer(pa.Codec("snappy").compress(content.tobytes()), np.uint8).copy()
    out = np.empty(len(content), np.uint8)
    assert inflate(packed, out)
    assert bits(out) == bits(content)
    cut = packed[: data.draw(st.integers(0, len(packed) - 1))]
    assert not inflate(cut, out) or not len(content)
    assert not inflate(packed, np.empty(len(content) + 1, np.uint8))
    for _ in range(3):
        broken = packed.copy()
        broken[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
        both = [np.zeros(len(content), np.uint8) for _ in range(2)]
        functions = inflate, getattr(inflate, "py_func", inflate)
        assert len({f(broken, room) for f, room in zip(functions, both, strict=True)}) == 1
        assert bits(both[0]) == bits(both[1])


@pytest.mark.parametrize("width", range(26))
def test_plain_and_compiled_unpacking(width):
    random = np.random.default_rng(width)
    n = 61
    indices = random.integers(0, 1 << width, n)
    packed = np.packbits(
        ((indices[:, None] >> np.arange(width)) & 1).astype(np.uint8), None, "little"
    )
    page = np.concatenate([np.full(3, 255, np.uint8), packed])
    if width > 16:
        places = np.arange(1 << width, dtype=np.float32)
    else:
        places = random.random(1 << width).astype(np.float32)
    for function in (page_kernels.unpack, plain_body("unpack")):
        out = np.zeros(n, np.float32)
        assert function(page, 3, width, places, len(places), out)
        assert bits(out) == bits(places[indices])
        if width:
            assert not function(page, 3, width, places, int(indices.max()), out)


def plain_body(name):
    function = getattr(page_kernels, name)
    return getattr(function, "py_func", function)


def test_a_broken_page_is_the_librarys_to_name(tmp_path):
    path = write(tmp_path / "a.parquet", {"x": np.repeat(np.arange(50.0), 100)})
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    with open(path, "r+b") as file:
        file.seek(column.dictionary_page_offset)
        file.write(b"\xff" * 16)
    data = open_dataset(path)
    assert read(path) == {}
    with pytest.raises(SourceError, match="row group 0"), data.reader() as reader:
        reader.read(data.refs()[0])


def varint(value, n_bytes=0):
    """A number of variable length, in more bytes than it needs if `n_bytes` says so."""
    out = bytearray()
    while value > 127 or len(out) + 1 < n_bytes:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


RUNS = {
    "of 16": varint(32),
    "in five bytes": varint(32, 5),
    "in six bytes": varint(32, 6),
    "of 31 bits": varint(2**32 - 2),
    "of 32 bits": varint(2**32),
    "of 33 bits": varint(2**33 + 32),
    "of none": varint(0),
    "two packed eights": varint(5),
    "two packed eights in five bytes": varint(5, 5),
    "two packed eights in six bytes": varint(5, 6),
    "no packed eights": varint(1),
    "most packed eights": varint(2 * (2**28 - 1) + 1),
    "more packed eights": varint(2 * 2**28 + 1),
    "packed eights of 33 bits": varint(2**32 + 5),
}
"""What is said of a run: its header, as files of others may have it."""


@pytest.fixture(params=[False, True], ids=["compiled", "python"])
def both_kinds(request):
    with as_python() if request.param else contextlib.nullcontext():
        yield


@pytest.mark.usefixtures("both_kinds")
@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("n_words", [1, 2])
@pytest.mark.parametrize("name", RUNS)
def test_runs_are_as_long_as_the_library_lets_them_be(tmp_path, name, n_words, nullable):
    """With one word an index has no bits, so that no bytes limit how many are packed."""
    values = {"x": np.resize(np.arange(n_words, dtype=np.float32), 16)}
    path = write(tmp_path / "t", values, nullable=nullable, compression="none")
    with open(path, "rb") as file:
        footer, pages = take_apart(file.read())
    (_, (header, body)) = pages[0, 0]
    levels = body[: 4 + int.from_bytes(body[:4], "little")] if nullable else b""
    width = n_words - 1
    indices = bytes([width]) + RUNS[name] + bytes([0b01010101] * 2 * width)
    pages[0, 0][1][1] = levels + indices
    for field in (2, 3):
        put(header, field, 5, len(levels + indices))
    with open(path, "wb") as file:
        file.write(put_together(footer, pages) + end_of_file(footer))
    try:
        expected = pq.read_table(path).column("x").to_numpy()
    except OSError:
        with pytest.raises(SourceError, match="cannot read .*t, row group 0"):
            list(open_dataset(path).iter_chunks())
        return
    (chunk,) = open_dataset(path).iter_chunks()
    np.testing.assert_array_equal(chunk.X[:, 0], expected)


def test_footers_are_let_go(tmp_path, monkeypatch):
    """A parsed footer takes megabytes; what is asked of it must not keep it beyond its turn."""
    path = write(tmp_path / "t.parquet", make_columns(np.dtype("f4")), row_group_size=100)
    for name, size in (("_WHOLE", 0), ("_BLOCK", 4000), ("_KEPT", 0)):
        monkeypatch.setattr(parquet_footer, name, size)
    gc.collect()
    gc.disable()
    try:
        before = count_footers()
        data = open_dataset(path)
        assert sum(chunk.n_rows for chunk in data.iter_chunks()) == N
        assert count_footers() - before <= 2
    finally:
        gc.enable()


def count_footers():
    # not isinstance: among the objects are proxies of others that are gone
    return sum(type(found) is pq.FileMetaData for found in gc.get_objects())


@pytest.mark.parametrize("kind", range(16))
@pytest.mark.parametrize("as_python", [False, True])
def test_a_field_number_without_an_end_ends_the_search(kind, as_python):
    """A position of -1 and a value of one byte would make a loop."""

    def of(kernel):
        return kernel.py_func if as_python else kernel

    data = np.frombuffer(bytearray([kind]) + b"\xff" * 30, np.uint8)
    room = np.zeros((2, kernels_footer.DEEPEST), np.int64)
    fields = np.zeros((kernels_footer.N_FIELDS, 2), np.int64)
    assert of(kernels_footer.read_fields)(data, 0, fields, *room) == (1 if kind == 0 else -1)
    end = of(kernels_footer.skip)(data, 0, kernels_footer.STRUCT, *room)
    assert end == (1 if kind == 0 else -1)
    header = np.zeros(page_kernels.HEADER, np.int64)
    assert of(page_kernels.read_header)(data, 0, header) == (1 if kind == 0 else -1)
