"""Blocks of rows give the products of the whole, and the same bits whatever rows are with them."""

import numpy as np
import pytest
from scipy import sparse

from streamlearn.data.source import Csr
from streamlearn.numeric.rows.blocks import block_rows, blocks, products, square_norms


def csr(X):
    A = sparse.csr_array(X)
    return Csr(A.data, A.indices, A.indptr.astype(np.int64), A.shape[1])


def table(m=5000, p=3, dtype=np.float64):
    return np.random.default_rng(0).standard_normal((m, p)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.ascontiguousarray, np.asfortranarray, csr])
def test_products(form, dtype):
    X, A, factor = table(dtype=dtype), table(3, 2), np.array([1.0, 0.0, 5.0])
    np.testing.assert_allclose(products(form(X), A), X.astype(float) @ A, rtol=0, atol=1e-13)
    expected = (X.astype(float) * factor) @ A
    np.testing.assert_allclose(products(form(X), A, factor=factor), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, csr])
def test_shift(form):
    X, A, shift = table() + 1e9, table(3, 2), np.full(3, 1e9)
    np.testing.assert_allclose(products(form(X), A, shift), (X - 1e9) @ A, rtol=0, atol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 5, 20])
@pytest.mark.parametrize("p", [1, 3, 54, 784])
def test_a_row_does_not_depend_on_its_neighbours(p, k):
    X = table(2 * block_rows(p) + 5, p, np.float32)
    A = table(p, k)
    whole = products(X, A)
    for a, b in ((0, 1), (1, 70), (70, len(X) - 3), (len(X) - 3, len(X))):
        np.testing.assert_array_equal(products(X[a:b], A), whole[a:b])


def test_blocks_fit_a_cache_and_are_filled_up():
    assert [block_rows(p) for p in (1, 54, 784, 10**6)] == [4096, 2048, 128, 64]
    for rows, B in blocks(np.ones((150, 784))):
        assert B.shape == (128, 784)
        assert not B[rows.stop - rows.start :].any()
    assert not list(blocks(np.empty((0, 3))))


@pytest.mark.parametrize("form", [np.asarray, csr])
def test_square_norms(form):
    X = table(40)
    ((_, B),) = blocks(form(X))
    np.testing.assert_allclose(square_norms(B)[:40], (X**2).sum(axis=1), rtol=1e-14)
