"""Rows made to features: what is written in place, and the bytes that it takes beside them."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamlearn as sl
from streamlearn.data.encoding import Coding, Encoding

N, P = 50_000, 6
NAMES = tuple(f"x{j}" for j in range(P))
LEVELS = tuple("abcdefgh")
WORDS = Coding(1, "indicator", "string", levels=LEVELS)
MEANS = Coding(
    2,
    "target",
    "string",
    hashes=np.arange(8, dtype=np.uint64),
    table=np.arange(9 * 4.0).reshape(9, 4),
    outputs=("=a", "=b", "=c"),
)
TIME = Coding(3, "cyclic", "timestamp")


def of(*codings, missing=(), pick=None):
    empty = np.isin(np.arange(P), missing)
    bare = Encoding(NAMES, tuple(codings))
    made = bare.with_missing(empty, np.arange(float(bare.n_features)))
    return made if pick is None else made._replace(pick=np.array(pick))


ENCODINGS = {
    "plain": of(),
    "holes": of(missing=[0, 4]),
    "words": of(WORDS),
    "means": of(MEANS, missing=[2]),
    "times": of(TIME),
    "all": of(WORDS, MEANS, TIME, missing=[1, 3, 5]),
    "some": of(WORDS, MEANS, missing=[1], pick=[0, 3, 9]),
}


def rows(dtype=np.float32, order="F"):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (N, P)).astype(dtype)
    X[rng.random((N, P)) < 0.1] = np.nan
    return np.asarray(X, order=order)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_what_it_takes_beside_the_features_is_as_counted(name, order, in_place):
    encoding, X = ENCODINGS[name], rows(order=order)
    tracemalloc.start()
    try:
        made = encoding.encode(X, range(N), in_place=in_place)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    own = 0 if made is X else made.nbytes
    beside = N * encoding.beside_nbytes(X.itemsize * P, X.itemsize, in_place)
    # X is among what is counted, unless it is what becomes the features
    held = peak + (0 if made is X else X.nbytes) - own
    assert held <= beside + 10_000
    assert beside <= 1.5 * held + 72 * N  # a column's codes at most, and a mask


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_missing_in_plain_numbers_is_their_mean(order):
    encoding, X = ENCODINGS["plain"], rows(order=order)
    expected = np.where(np.isnan(X), encoding.location.astype(X.dtype), X)
    before = X.copy()
    copied = encoding.encode(X, range(N))
    np.testing.assert_array_equal(X, before)
    assert copied.strides == X.strides
    filled = encoding.encode(X, range(N), in_place=True)
    assert filled is X
    for made in (copied, filled):
        np.testing.assert_array_equal(made, expected)


def test_rows_of_an_array_in_memory_are_not_written_to(tmp_path):
    X = rows()
    before, encoding = X.copy(), ENCODINGS["plain"]
    expected = encoding.encode(X, range(N))
    pq.write_table(pa.table(dict(zip(NAMES, X.T, strict=True))), tmp_path / "a.parquet")
    here, there = sl.open_dataset(X), sl.open_dataset(tmp_path / "a.parquet")
    for data in (here, there, here.split(0.5)[0], there.split(0.5)[0]):
        for chunk in data.with_encoding(encoding).iter_chunks():
            np.testing.assert_array_equal(chunk.X, expected[chunk.numbers])
    np.testing.assert_array_equal(X, before)
    row = X.itemsize * P
    assert there.with_encoding(encoding).overhead_nbytes - there.overhead_nbytes < 10 * N
    assert here.with_encoding(encoding).overhead_nbytes - here.overhead_nbytes >= N * row
