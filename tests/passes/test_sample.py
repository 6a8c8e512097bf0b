import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import streamlearn as sl
from streamlearn.passes.fold import read_all, run_fold
from streamlearn.passes.sample import SampledRead, sample_fold, sample_nbytes

N = 6000
X = np.random.default_rng(0).random((N, 4), dtype=np.float32)


def draw(data, n=500, seed=0):
    return run_fold(sample_fold(data, n, seed), read_all(data))


@pytest.mark.parametrize("layout", ["C", "F", "csr"])
def test_rows_are_a_function_of_number_and_seed(layout):
    rows = sparse.csr_array(X) if layout == "csr" else np.array(X, order=layout)
    small, large = (draw(sl.open_dataset(rows, chunk_rows=c)) for c in (64, 4096))
    np.testing.assert_array_equal(small.rows, large.rows)
    values = small.X
    if layout == "csr":
        values = sparse.csr_array(small.X[:3], shape=small.X.shape).toarray()
    np.testing.assert_array_equal(values, X[small.rows])
    assert values.dtype == np.float32
    # a binomial count: five standard deviations
    assert abs(len(small.rows) - 500) < 5 * 500**0.5
    assert small.chunk().n_rows == len(small.rows)
    other = draw(sl.open_dataset(rows, chunk_rows=64), seed=1)
    assert len(np.intersect1d(other.rows, small.rows)) < 100


def test_a_sample_of_a_split_is_not_thinned_by_the_same_seed():
    half, _ = sl.open_dataset(X).split(0.5, seed=0)
    assert abs(len(draw(half, 1000).rows) - 1000 * (1 if half.n_rows else 0.5)) < 160


def test_all_rows_and_no_rows():
    data = sl.open_dataset(X, target="x3", chunk_rows=512)
    everything = draw(data, 2 * N)
    np.testing.assert_array_equal(everything.rows, np.arange(N))
    np.testing.assert_array_equal(everything.y, X[:, 3])
    assert everything.weight is None
    nothing = draw(data, 0)
    assert nothing.X.shape == (0, 3)
    assert nothing.y.shape == (0,)


def test_rows_of_weight_zero_are_absent():
    w = (np.arange(N) % 2).astype(float)
    data = sl.open_dataset(np.column_stack([X, w]), weight="x4", chunk_rows=512)
    sample = draw(data, N)
    np.testing.assert_array_equal(sample.rows, np.arange(1, N, 2))
    np.testing.assert_array_equal(sample.weight, 1.0)


def test_the_sample_outlives_the_reader_s_buffers():
    data = sl.open_dataset(X, chunk_rows=512)
    fold = sample_fold(data, N, 0)
    state = fold.start()
    for chunk in read_all(data):
        chunk.X = np.array(chunk.X)
        state = fold.step(state, chunk)
        chunk.X[:] = -1
    np.testing.assert_array_equal(fold.finish(state).X, X)


@pytest.mark.parametrize("layout", ["C", "csr"])
def test_pieces_do_not_grow_with_the_chunks(layout):
    """Small slices of a long table give a row or two each."""
    rows = sparse.csr_array(X) if layout == "csr" else X
    data = sl.open_dataset(rows, target="x3" if layout == "C" else None, chunk_rows=4)
    fold = sample_fold(data, N // 4, 0)
    states = []
    for half in np.array_split(np.arange(0, N, 4), 2):
        state = fold.start()
        with data.reader() as reader:
            for ref in data.refs()[half[0] // 4 : half[-1] // 4 + 1]:
                state = fold.step(state, reader.read(ref))
        states.append(state)
    merged = fold.merge(*states)
    for state in [*states, merged]:
        assert max(map(len, state.values())) <= 16
    found, expected = fold.finish(merged), draw(data, N // 4)
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert len(found.rows) > N // 5


def test_a_sample_of_many_reads_takes_what_is_planned():
    """Of a read of one column the rows' numbers and targets take more than the column."""
    data = sl.open_dataset(X, target="x3")
    wide = sl.open_dataset(np.repeat(X, 40, axis=1), target="x159")

    def run(fold, rows, *, name):
        return run_fold(fold, read_all(rows))

    read = SampledRead(run, N, 0)
    tracemalloc.start()
    for name in wide.feature_names:
        read(sample_fold(data, 1, 0), wide.with_columns([name]), name="a column")
    held = tracemalloc.get_traced_memory()[0]
    sample = read.sample()
    assert max(held, tracemalloc.get_traced_memory()[1]) < 1.1 * sample_nbytes(wide, N)
    tracemalloc.stop()
    np.testing.assert_array_equal(sample.X, np.repeat(X, 40, axis=1)[:, :-1])
    np.testing.assert_array_equal(sample.y, X[:, 3])
    np.testing.assert_array_equal(sample.rows, np.arange(N))
