"""Each kernel that reads bytes of files, compiled and as Python: the same answers of both.

`CASES` has the arguments of each kernel; one that is new and has none there fails.
"""

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile.parquet_file import take_apart
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_kit import as_python, byte_kernels

from streamlearn.data.parquet import kernels_footer as kf
from streamlearn.data.parquet.pages.kernels import HEADER

N = 60
"""Rows of the files."""
TABLES = {
    "few": np.arange(N, dtype=np.float32) % 5,
    "many": np.arange(N, dtype=np.float32),
    "runs": np.repeat(np.float32([2.5, -1.0]), N // 2),
}


def written(name, compression):
    """The bytes of a file of one column."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"x": TABLES[name]}), sink, compression=compression,
        use_dictionary=name != "many", data_page_size=64,
    )  # fmt: skip
    return sink.getvalue().to_pybytes()


def chunk(name):
    """Pages with their headers, packed by snappy."""
    raw = written(name, "snappy")
    column = pq.ParquetFile(pa.BufferReader(raw)).metadata.row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    return raw[start : start + column.total_compressed_size]


def body(name, compression):
    """The last page without its header."""
    _, pages = take_apart(written(name, compression))
    return bytes(pages[0, 0][-1][1])


def footer(name):
    raw = written(name, "none")
    n = int.from_bytes(raw[-8:-4], "little")
    return raw[-8 - n : -8]


SOURCES = {
    "chunk": chunk,
    "page": lambda name: body(name, "none"),
    "block": lambda name: body(name, "snappy"),
    "footer": footer,
}


def places(raw):
    """Where lists and structs of a footer begin, whatever its bytes have become."""
    root = struct_at(raw, 0)
    _, _, schema = kf.list_head(raw, root[2, 1])
    _, _, groups = kf.list_head(raw, root[4, 1])
    _, _, chunks = kf.list_head(raw, struct_at(raw, groups)[1, 1])
    return [0, root[2, 1], schema, groups, struct_at(raw, chunks)[3, 1]]


def struct_at(raw, at):
    fields = whole(kf.N_FIELDS, 2)
    kf.read_fields(raw, at, fields, whole(kf.DEEPEST), whole(kf.DEEPEST))
    return fields


def values(*shape):
    return np.zeros(shape, np.float32)


def whole(*shape):
    return np.zeros(shape, np.int64)


def halves(raw):
    """Two chunks: the bytes, and none."""
    return np.array([0, len(raw), len(raw)])


YES, PAIR = np.ones(2, bool), np.arange(2)
CASES = {
    "kernels.decode_chunks": (
        "chunk",
        lambda raw, at: (raw, halves(raw), YES, YES, np.zeros(512, np.uint8), values(8),
                         values(2, N), np.zeros(2, bool)),
    ),
    "kernels.decode_mapped": (
        "chunk",
        lambda raw, at: (raw, halves(raw), YES, YES, np.zeros(512, np.uint8), values(2, 8) + 3,
                         np.array([5, 2]), PAIR, at % 3, N, values(2, N + 3), np.zeros(2, bool)),
    ),
    "kernels.read_dictionaries": (
        "chunk",
        lambda raw, at: (raw, halves(raw), YES, np.zeros(512, np.uint8), values(2, 8), whole(2)),
    ),
    "kernels.decode_chunk": (
        "chunk",
        lambda raw, at: (raw, at % 4 > 0, at % 5 > 0, np.zeros(512, np.uint8), values(8), -1,
                         values(N)),
    ),
    "kernels.copy_numbers": (
        "page", lambda raw, at: (raw, at, values(max(0, len(raw) - at) // 4 + at % 2)),
    ),
    "kernels.read_header": ("chunk", lambda raw, at: (raw, at, whole(HEADER))),
    "kernels.skip_levels": ("page", lambda raw, at: (raw, N - at % 2)),
    "kernels.read_run": ("page", lambda raw, at: (raw, at)),
    "kernels.decode_indices": (
        "page", lambda raw, at: (raw, at, values(8) + np.arange(8, dtype="f4"), 5, values(N)),
    ),
    "kernels.unpack": (
        "page",
        lambda raw, at: (raw, at, at % 4, values(8) + np.arange(8, dtype="f4"), 5,
                         values(max(0, len(raw) - at) * 8 // max(at % 4, 1))),
    ),
    "kernels_bytes.read_varint": ("page", lambda raw, at: (raw, at)),
    "kernels_bytes.inflate": (
        "block", lambda raw, at: (raw, np.zeros(raw[0] if len(raw) else 0, np.uint8)),
    ),
    "kernels_footer.skip": (
        "footer", lambda raw, at: (raw, at, at % 14, whole(kf.DEEPEST), whole(kf.DEEPEST)),
    ),
    "kernels_footer.list_head": ("footer", lambda raw, at: (raw, at)),
    "kernels_footer.read_fields": (
        "footer",
        lambda raw, at: (raw, at, whole(kf.N_FIELDS, 2), whole(kf.DEEPEST), whole(kf.DEEPEST)),
    ),
    "kernels_footer.number": (
        "footer",
        lambda raw, at: (raw, struct_at(raw, at), at % kf.N_FIELDS, kf.INT32, 99),
    ),
    "kernels_footer.read_schema": (
        "footer",
        lambda raw, at: (raw, at, 2, whole(2), whole(2), np.zeros(2, bool), whole(2, 2)),
    ),
    "kernels_footer.read_groups": (
        "footer",
        lambda raw, at: (raw, at, np.array([4]), YES[:1], whole(2), whole(1),
                         whole(1, 1, kf.N_FACTS)),
    ),
    "kernels_footer.read_chunk": (
        "footer",
        lambda raw, at: (raw, struct_at(raw, at), whole(kf.N_FACTS)),
    ),
}  # fmt: skip
"""Kernel -> the bytes that it reads, and its arguments for some of them and a place in them."""


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled: kernels have no name")
def test_every_kernel_that_reads_bytes_has_a_case():
    assert byte_kernels().keys() == CASES.keys()


def answer(name, raw, at):
    """What the kernel returns, and what it has written."""
    module, own = KERNELS[name]
    arguments = CASES[name][1](raw, at)
    with np.errstate(all="ignore"):
        returned = getattr(module, own)(*arguments)
    arrays = [a.tobytes() for a in arguments if isinstance(a, np.ndarray)]
    return np.asarray(returned if returned is not None else 0).tolist(), arrays


KERNELS = byte_kernels()


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled to compare with")
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_compiled_and_as_python(name, data):
    """Whole bytes, cut ones and changed ones, from any place on."""
    source = SOURCES[CASES[name][0]](data.draw(st.sampled_from(sorted(TABLES))))
    raw = np.frombuffer(source, np.uint8).copy()
    begins = places(raw) if CASES[name][0] == "footer" else [0, 1]
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: len(raw) - data.draw(st.sampled_from([0, 0, 0, 1, 2, 9, len(raw) // 2, len(raw)]))]
    at = int(data.draw(st.sampled_from(begins) | st.integers(0, max(len(raw) - 1, 0))))
    compiled = answer(name, raw.copy(), at)
    with as_python():
        assert answer(name, raw.copy(), at) == compiled
