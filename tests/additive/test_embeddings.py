import dask.array
import numpy as np
import pandas as pd
import pytest
from additive_kit import as_dataset, table
from oracles import dense_splines
from scipy import sparse
from sklearn.base import clone

import streamlearn as sl
from streamlearn import SplineEmbedding
from streamlearn.numeric.bases.roughness import times


@pytest.mark.parametrize(
    ("degree", "order", "scale"), [(1, 1, "integral"), (3, 2, "paper"), (2, 0, "integral")]
)
def test_inner_products_are_those_of_the_penalty(degree, order, scale):
    """Psi Psi' = (Phi - c) P^-1 (Phi - c)'."""
    X, _ = table(60)
    embedding = SplineEmbedding(6, degree=degree, penalty_order=order, penalty_scale=scale).fit(X)
    Psi = embedding.transform(X).toarray()
    A = dense_splines(embedding.bases_, X) - embedding._reference.c
    kernel = A @ times(embedding._roughness.L, embedding._roughness, A).T
    np.testing.assert_allclose(Psi @ Psi.T, kernel, rtol=1e-9, atol=1e-9)


def test_splines_sum_to_one_and_few_values_are_indicators():
    X, _ = table(300)
    embedding = SplineEmbedding(6, degree=3, output="phi").fit(X)
    Phi = embedding.transform(X).toarray()
    first = embedding.bases_.first
    np.testing.assert_array_equal(np.diff(first), [6, 6, 3, 0, 6])  # 3 values; constant; mostly 0
    sums = np.add.reduceat(Phi, first[[0, 1, 2, 4]], axis=1)
    np.testing.assert_allclose(sums, 1, rtol=1e-12)
    np.testing.assert_array_equal(Phi[:, first[2] : first[3]], X[:, [2]] == [0, 1, 2])


def test_reference_is_the_mean_of_few_values_and_close_to_it_elsewhere():
    X, _ = table(2000)
    embedding = SplineEmbedding(6).fit(X)
    mean = dense_splines(embedding.bases_, X).mean(axis=0)
    few = slice(*embedding.bases_.first[2:4])
    np.testing.assert_allclose(embedding._reference.c[few], mean[few], rtol=1e-12)
    np.testing.assert_allclose(embedding._reference.c, mean, atol=0.02)


def test_sparse_rows_stay_sparse():
    X, _ = table(100)
    rows = sparse.csr_array(X)
    Psi = SplineEmbedding(6).fit_transform(rows)
    assert Psi.nnz <= 6 * rows.nnz
    assert not SplineEmbedding(6).fit(rows).transform(sparse.csr_array((3, 5))).nnz


def test_same_features_from_arrays_and_datasets_whatever_the_chunks():
    X, _ = table(200)
    a = SplineEmbedding(6).fit(X).transform(X)
    b = SplineEmbedding(6).fit(as_dataset(X)).transform(X)
    assert (a != b).nnz == 0


def test_weights_are_copies_and_0_is_absent():
    X, _ = table(200)
    weight = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    a = SplineEmbedding(6).fit(X, sample_weight=weight)
    b = SplineEmbedding(6).fit(np.repeat(X, weight.astype(int), axis=0))
    np.testing.assert_allclose(a.bases_.knots, b.bases_.knots, rtol=1e-12)
    np.testing.assert_allclose(a._reference.c, b._reference.c, rtol=1e-10, atol=1e-12)


def test_names_of_the_features():
    import pandas as pd

    X, _ = table(50)
    frame = pd.DataFrame(X, columns=list("abcde"))
    names = SplineEmbedding(5).fit(frame).get_feature_names_out()
    assert list(names[:2]) == ["a_sp_0", "a_sp_1"]
    assert names[-1] == "e_sp_4"
    assert len(names) == SplineEmbedding(5).fit(frame).transform(frame).shape[1]


def test_too_few_splines_for_the_degree():
    with pytest.raises(ValueError, match="n_bases=3 splines of degree 3"):
        SplineEmbedding(3, degree=3).fit(table(20)[0])


@pytest.mark.parametrize("degree", [1, 3])
def test_features_of_a_row_have_the_same_bits_in_any_batch(degree):
    """Products are of blocks of one size: the BLAS takes other paths for few rows than for many."""
    X = np.random.default_rng(0).random((300, 2))
    embedding = SplineEmbedding(20, degree=degree).fit(X)
    whole = embedding.transform(X).toarray()
    for rows in (slice(0, 1), slice(5, 69), slice(63, 300)):
        np.testing.assert_array_equal(embedding.transform(X[rows]).toarray(), whole[rows])


KINDS = [
    sl.SplineEmbedding(4),
    sl.SplineEmbedding(5, degree=2, output="phi"),
    sl.FourierEmbedding(3),
]


@pytest.mark.parametrize("embedding", KINDS)
@pytest.mark.parametrize("kind", ["dataset", "path", "dask"])
def test_rows_that_are_not_in_memory_are_answered_lazily(embedding, kind, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((2_000, 3))
    y = (X[:, 0] > 0.5).astype(float)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    path = tmp_path / "rows.parquet"
    frame.assign(y=y).to_parquet(path, row_group_size=700)
    rows = X if kind == "dask" else frame
    model = clone(embedding).fit(rows)
    expected = model.transform(rows).toarray()
    if kind == "dask":
        lazy = model.transform(dask.array.from_array(X, chunks=(600, 3)))
        np.testing.assert_array_equal(lazy.compute(), expected)
        return
    given = sl.open_dataset(str(path), target="y")
    lazy = model.transform(given if kind == "dataset" else str(tmp_path / "rows.parquet"))
    assert isinstance(lazy, sl.Dataset)
    assert lazy.feature_names == tuple(model.get_feature_names_out())
    chunks = [chunk.copy() for chunk in lazy.iter_chunks()]
    np.testing.assert_array_equal(np.vstack([chunk.X for chunk in chunks]), expected)
    lazy.to_zarr(tmp_path / "out.zarr")
    lazy.to_parquet(tmp_path / "out")
    for out in ("out.zarr", "out"):
        again = sl.open_dataset(str(tmp_path / out), features=None)
        assert again.n_rows == 2_000
    if kind == "dataset":
        np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), y)
        assert sl.SVMMixtureClassifier(1, gate="linear", max_passes=9).fit(lazy).score(lazy) > 0.9


def test_slices_of_a_lazy_embedding_hold_its_features(tmp_path):
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": np.linspace(0, 1, 300_000, dtype=np.float32)}).to_parquet(path)
    model = sl.SplineEmbedding(200).fit(str(path))
    lazy = model.transform(str(path))
    assert lazy.slice_rows * model.n_features_out_ * 8 <= 4 << 20
    with pytest.raises(sl.SourceError, match="infinity in column 'a', row 0.* are counted from"):
        next(model.transform(sl.open_dataset(str(path)).map(_infinite)).iter_chunks())


def _infinite(X):
    return np.full_like(X, np.inf)


@pytest.mark.parametrize("cls", [SplineEmbedding, sl.FourierEmbedding])
def test_dense_output_is_the_sparse_one_and_goes_into_frames(cls):
    X, _ = table(60)
    frame = pd.DataFrame(X, columns=list("abcde"))
    dense = cls(4, sparse_output=False).set_output(transform="pandas")
    out = dense.fit_transform(frame)
    np.testing.assert_array_equal(out, cls(4).fit_transform(frame).toarray())
    assert list(out.columns) == list(dense.get_feature_names_out())
    with pytest.raises(ValueError, match="(?i)dense array|sparse_output=False"):
        cls(4).set_output(transform="pandas").fit_transform(frame)
