"""ShareBoost on sparse rows: the model of the same rows dense, to rounding, and no more memory."""

import numpy as np
import pytest
from scipy import sparse

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.shareboost.selection import kernels_sparse as kernels
from streamlearn.shareboost.selection.scoring import stride_of

N, P = 500, 60


def rows(seed=0):
    """Counts, most of them 0; the classes depend on two columns, and on the product of two."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.3, (N, P)).astype(np.float64)
    score = X[:, 7] - X[:, 30] + 2 * X[:, 3] * X[:, 11]
    return X, np.digitize(score + 0.1 * rng.standard_normal(N), [-0.5, 0.5])


def both(**params):
    X, y = rows()
    w = np.random.default_rng(1).integers(0, 3, N).astype(float)
    params = {"n_selected": 6, "ridge": 1e-3, **params}
    dense = sl.ShareBoostClassifier(**params).fit(X, y, w)
    return dense, sl.ShareBoostClassifier(**params).fit(sparse.csr_array(X), y, w)


@pytest.mark.parametrize("rule", ["scale-free", "l1", "lookahead"])
@pytest.mark.parametrize("candidates", ["columns", "products"])
def test_the_model_of_sparse_rows_is_that_of_dense_ones(candidates, rule):
    dense, thin = both(candidates=candidates, rule=rule, prune=True)
    X = rows(1)[0]
    assert thin.choices_ == dense.choices_
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=0, atol=1e-7)
    for given in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(
            thin.decision_function(given), dense.decision_function(X), rtol=0, atol=1e-6
        )
        np.testing.assert_allclose(thin.transform(given), dense.transform(X))


def test_groups_and_held_out_rows():
    X, y = rows()
    groups = np.arange(P) // 3
    held_out = rows(2)
    dense, thin = (
        sl.ShareBoostClassifier(4, groups=groups, ridge=1e-3).fit(
            kind(X), y, validation=(kind(held_out[0]), held_out[1])
        )
        for kind in (np.asarray, sparse.csr_array)
    )
    assert thin.choices_ == dense.choices_
    np.testing.assert_allclose(
        thin.path_["validation_loss"], dense.path_["validation_loss"], rtol=1e-9
    )


@pytest.mark.parametrize("candidates", ["stumps", "pieces", "soft-pieces"])
def test_candidates_that_need_absent_values_are_refused_by_name(candidates):
    X, y = rows()
    model = sl.ShareBoostClassifier(candidates=candidates)
    with pytest.raises(TypeError, match=f"{candidates}' look at absent values as at others"):
        model.fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_are_the_products_of_matrices(compiled, dtype):
    X = rows()[0][:40, :9].astype(dtype)
    R = np.random.default_rng(2).standard_normal((40, 3)).astype(dtype)
    thin = sparse.csr_array(X)
    arrays = thin.data, thin.indices, thin.indptr.astype(np.int64)
    gradient, products = kernels.add_sparse_gradient, kernels.add_sparse_products
    if not compiled:
        gradient, products = (getattr(f, "py_func", f) for f in (gradient, products))
    G = np.ones((9, 3))
    gradient(*arrays, R, G)
    np.testing.assert_allclose(G.T - 1, R.astype(float).T @ X, atol=1e-6)
    G = np.zeros((3, 4, 9))
    products(*arrays, R, 2, 6, G)
    wide, R = X.astype(float), R.astype(float)
    for k in range(3):
        np.testing.assert_allclose(G[k], (wide[:, 2:6] * R[:, [k]]).T @ wide, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 8, 15, 30])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sums_brought_near_are_added_to_in_the_order_of_the_rows(n_classes, index):
    """Bit for bit a loop over the stored values, so that none depends on what was brought near."""
    X = rows()[0][:90].astype(np.float32)
    X[30:50] = 0  # rows without a stored value, and many at the end of which none follows
    R = np.random.default_rng(3).standard_normal((90, n_classes)).astype(np.float32)
    thin = sparse.csr_array(X)
    G, plain = np.zeros((2, P, n_classes))
    indices, indptr = thin.indices.astype(index), thin.indptr.astype(np.int64)
    kernels.add_sparse_gradient(thin.data, indices, indptr, R, G)
    for i, j in zip(*X.nonzero(), strict=True):
        plain[j] += R[i] * X[i, j]
    np.testing.assert_array_equal(G, plain)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("n_classes", range(1, 18))
def test_any_number_of_classes_is_added_bit_for_bit(n_classes, compiled):
    """Vectors of eight and the rest of them, with values of the residuals' dtype and of another."""
    rng = np.random.default_rng(4)
    X = sparse.random_array((12, 9), density=0.4, format="csr", rng=rng)
    R = rng.standard_normal((12, n_classes))
    for kinds in (("f4", "f4"), ("f8", "f8"), ("f4", "f8")):
        thin, of_rows = X.astype(kinds[0]), R.astype(kinds[1])
        G, plain = np.ones((2, 9, stride_of(n_classes)))
        add = kernels.add_sparse_gradient
        add = add if compiled else getattr(add, "py_func", add)
        add(thin.data, thin.indices, thin.indptr.astype(np.int64), of_rows, G)
        for i, j in zip(*thin.nonzero(), strict=True):
            plain[j, :n_classes] += of_rows[i] * thin[i, j].astype(kinds[1])
        np.testing.assert_array_equal(G, plain)


def test_wide_rows_are_never_written_out(monkeypatch):
    """5,000 x 50,000 with 100 values a row, 4 MB; dense it has 1 GB: only few columns are."""
    rng = np.random.default_rng(0)
    n, p, stored = 5_000, 50_000, 100
    y = rng.integers(0, 3, n)
    columns = rng.integers(0, p, (n, stored))
    columns[:, 0] = 17 + y
    indptr = np.arange(0, n * stored + 1, stored)
    X = sparse.csr_array((np.ones(n * stored, np.float32), columns.ravel(), indptr), (n, p))
    X.sum_duplicates()
    written = []
    plain = Chunk.of_few_columns

    def seen(chunk):
        written.append(chunk.X.shape[1])
        return plain(chunk)

    monkeypatch.setattr(Chunk, "of_few_columns", seen)
    with sl.config_context(memory_budget="256MiB"):
        model = sl.ShareBoostClassifier(3, ridge=1e-4).fit(X, y)
        assert {17, 18, 19} & set(model.support_.tolist())
        assert model.score(X, y) > 0.99
    assert max(written) < 100
