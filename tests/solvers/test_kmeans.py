"""k-means against loops over rows, scikit-learn, and its own laws."""

import numpy as np
import pytest
from engine_kit import open_run
from scipy import sparse
from scipy.cluster.vq import kmeans2

from streamlearn.data.memory.opening import open_arrays
from streamlearn.data.open import dataset_of
from streamlearn.data.source import Csr
from streamlearn.solvers import kmeans

THREE = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])


def three(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return np.repeat(THREE, n // 3, axis=0) + rng.standard_normal((n, 2))


def csr(X):
    A = sparse.csr_array(X)
    return Csr(A.data, A.indices, A.indptr.astype(np.int64), A.shape[1])


def streamed(X, centres, *, weight=None, chunk_rows=64, **options):
    options = {"max_passes": 50, "tol": 0.0, "name": "lloyd"} | options
    name = None if weight is None else "sample_weight"
    source = dataset_of(open_arrays(X, None, weight), None, name)
    source = source.with_slice_rows(chunk_rows)
    with open_run(source, None) as run:
        return *kmeans.lloyd(run, source, centres, **options), run.n_passes


def sorted_rows(V):
    return V[np.lexsort(V.T)]


@pytest.mark.parametrize("form", [np.asarray, csr])
def test_seeds_are_rows_one_in_each_heap(form):
    X = three()
    centres = kmeans.plus_plus(form(X), None, 3, np.random.default_rng(1))
    assert centres.dtype == np.float64
    assert all((X == centre).all(axis=1).any() for centre in centres)
    nearest = ((centres[:, None] - THREE) ** 2).sum(-1).argmin(axis=1)
    assert sorted(nearest) == [0, 1, 2]


def test_seeds_are_drawn_by_weight():
    X = np.array([[0.0], [1.0], [5.0]])
    for seed in range(20):
        centres = kmeans.plus_plus(X, np.array([1.0, 2.0, 0.0]), 2, np.random.default_rng(seed))
        assert sorted(centres[:, 0]) == [0.0, 1.0]
    first = [
        kmeans.plus_plus(X, np.array([1.0, 9.0, 0.0]), 1, np.random.default_rng(seed))[0, 0]
        for seed in range(400)
    ]
    assert np.mean(first) == pytest.approx(0.9, abs=0.06)


@pytest.mark.parametrize("form", [np.asarray, csr])
@pytest.mark.parametrize("at", [0.0, 1e6])
def test_fewer_distinct_rows_than_centres_give_fewer(form, at):
    X = np.repeat(np.array([[1.0, 2.0], [3.0, 4.0]]) + at, 50, axis=0)
    centres = kmeans.plus_plus(form(X), None, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(sorted_rows(centres), X[[0, -1]])


def test_seeds_need_weight():
    with pytest.raises(ValueError, match="positive weight"):
        kmeans.plus_plus(three(), np.zeros(300), 2, np.random.default_rng(0))


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, np.float32, csr])
def test_distances(form):
    X = three()
    V = X[[3, 150]]
    expected = ((X[:, None] - V) ** 2).sum(-1)
    got = kmeans.distances(form(X), V)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)
    if form is not np.float32:
        assert got[3, 0] == got[150, 1] == 0.0
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)
    scaled = kmeans.distances(form(X), V, np.array([2.0, 0.5]))
    np.testing.assert_allclose(
        scaled, (((X[:, None] - V) * [2, 0.5]) ** 2).sum(-1), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_streamed_is_scipy_and_in_memory(form):
    X = three(seed=3)
    start = X[[0, 1, 2]]
    expected, label = kmeans2(X, start, iter=100, minit="matrix")
    centres, inertia, counts, n_passes = streamed(form(X), start)
    np.testing.assert_allclose(centres, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(counts, np.bincount(label))
    assert inertia == pytest.approx(((X - expected[label]) ** 2).sum())
    assert n_passes < 50
    rows, at, n = kmeans.lloyd_rows(X, None, start, 100)
    np.testing.assert_allclose(rows, centres, rtol=1e-10, atol=1e-10)
    assert at == pytest.approx(inertia, rel=1e-10)
    np.testing.assert_array_equal(n, counts)


def test_inertia_never_rises():
    X = np.random.default_rng(0).standard_normal((500, 4))
    centres = kmeans.plus_plus(X, None, 7, np.random.default_rng(0))
    seen = []
    for _ in range(12):
        centres, inertia, _ = kmeans.lloyd_rows(X, None, centres, 1)
        seen.append(inertia)
    assert (np.diff(seen) <= 1e-12 * seen[0]).all()
    assert seen[-1] < 0.9 * seen[0]


def test_weights_are_copies_and_zero_is_absent():
    X = three(90)
    weight = np.random.default_rng(0).integers(0, 3, 90).astype(float)
    X[weight == 0] += 1e3
    some = np.flatnonzero(weight)[:3]
    a = streamed(X, X[some], weight=weight)
    b = streamed(np.repeat(X, weight.astype(int), axis=0), X[some])
    for got, expected in zip(a[:3], b[:3], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_scale_is_scaled_columns():
    X, scale = three(), np.array([100.0, 0.01])
    centres, inertia, counts, _ = streamed(X, X[:3], scale=scale)
    expected = streamed(X * scale, X[:3] * scale)
    np.testing.assert_allclose(centres * scale, expected[0], rtol=1e-9, atol=1e-9)
    assert inertia == pytest.approx(expected[1])
    np.testing.assert_array_equal(counts, expected[2])


def test_an_empty_cluster_begins_anew_at_the_farthest_row():
    X = three()
    start = np.array([[3.0, 3.0], [1e4, 1e4]])
    once = streamed(X, start, max_passes=1)[0]
    far = X[((X - start[0]) ** 2).sum(axis=1).argmax()]
    np.testing.assert_array_equal(once[1], far)
    np.testing.assert_array_equal(streamed(X, start, max_passes=1, chunk_rows=7)[0][1], far)
    assert streamed(X, start)[2].min() > 0


def test_duplicates_leave_fewer_clusters():
    X = np.repeat([[1.0, 2.0], [3.0, 4.0]], 30, axis=0)
    start = np.array([[0.0, 0.0], [1.0, 2.0], [9.0, 9.0], [50.0, 50.0]])
    centres, inertia, counts, _ = streamed(X, start)
    np.testing.assert_array_equal(sorted_rows(centres), X[[0, -1]])
    assert inertia == 0.0
    assert counts.tolist() == [30.0, 30.0]


def test_lloyd_needs_a_read():
    with pytest.raises(ValueError, match="max_passes=0"):
        streamed(three(), THREE, max_passes=0)
