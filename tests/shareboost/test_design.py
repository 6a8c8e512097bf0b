"""Products of selected features: of rows that are mostly 0 as of dense ones."""

import numpy as np
import pytest

from streamlearn.shareboost import design
from streamlearn.shareboost.curvature import _add_hessian, _hessian, _start_hessian
from streamlearn.shareboost.design import CACHED, TARGET, Dense, Layout
from streamlearn.shareboost.kernels import add_sparse_products


def features(share, dtype=np.float64, m=200, n=20):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((m, n)) * (rng.random((m, n)) < share)
    A[:, 0] = 1.0
    return np.asfortranarray(A, dtype)


@pytest.mark.parametrize(
    "kernel", [add_sparse_products, getattr(add_sparse_products, "py_func", add_sparse_products)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["F", "C"])
def test_sparse_products_are_those_of_all_features(kernel, dtype, order):
    A, rng = features(0.05, dtype, 60, 12), np.random.default_rng(1)
    W = rng.standard_normal((60, 3))
    W[::4, 1] = 0.0
    first, second = np.array([0, 1, 1]), np.array([0, 0, 1])
    wanted, out = np.zeros((2, 12, 2, 12)), np.ones((2, 12, 2, 12))
    B = A.astype(np.float64)
    for w, k, j in zip(W.T, first, second, strict=True):
        wanted[k, :, j] += B.T @ (B * w[:, None])
    kernel(np.asarray(A, order=order), W, first, second, np.empty(12, np.intp), np.empty(12), out)
    np.testing.assert_allclose(out, 1.0 + wanted, atol=1e-12)


@pytest.mark.parametrize("share", [0.02, 0.06, 0.11, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_either_way_gives_the_same_products(share, dtype, monkeypatch):
    """The Hessian's products, and the blocks, of which light rows add to the diagonal alone."""
    A, rng = features(share, dtype), np.random.default_rng(1)
    W, H = rng.random((200, 3)), rng.random((200, 2))
    pairs, heavy = np.tril_indices(2), np.ones((200, 2), bool)
    found = []
    for most in (0.0, 1.0):
        monkeypatch.setattr(design, "SPARSE", most)
        whole, blocks = np.zeros((2, 20, 2, 20)), np.zeros((2, 15, 15))
        Dense(A).add_products(W, *pairs, whole)
        Dense(A).add_gram(H, heavy, 2, 17, blocks)
        found.append((whole, blocks))
    (dense, dense_blocks), (sparse, sparse_blocks) = found
    np.testing.assert_allclose(sparse, dense, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sparse_blocks, dense_blocks, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("share", [0.03, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3, 9])
def test_the_hessian_is_that_of_the_softmax_row_by_row(share, n_classes):
    """Nine classes have more pairs than there are features: they are summed in parts."""
    K, m, n = n_classes, 150, 20
    A, rng = features(share, m=m, n=n), np.random.default_rng(2)
    theta = rng.standard_normal((K, n))
    target = np.column_stack([rng.integers(0, K, m), rng.random(m)])
    layout = Layout((TARGET,), tuple(("features", j) for j in range(n - 1)), 0, "f8", "f8")
    chunk = design.Chunk(np.empty((m, 0)), rows=range(m), state={TARGET.name: target, CACHED: A})
    found = _hessian(_add_hessian(layout, theta, _start_hessian(K * n), chunk))[0]
    wanted = np.zeros((K, n, K, n))
    for a, (code, s) in zip(A, target, strict=True):
        z = theta @ a + 1.0
        z[int(code)] -= 1.0  # the margin
        rho = np.exp(z - z.max())
        rho /= rho.sum()
        wanted += s * np.einsum("kj,a,b->kajb", np.diag(rho) - np.outer(rho, rho), a, a)
    np.testing.assert_allclose(found, wanted.reshape(K * n, K * n), atol=1e-10)
