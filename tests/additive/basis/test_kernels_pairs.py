"""Passes over terms of two columns against the products written out, in every dense form."""

import numpy as np
import pytest

from streamlearn.additive.basis import kernels as ker
from streamlearn.additive.basis import kernels_pairs
from streamlearn.additive.basis.functions import tiles
from streamlearn.additive.basis.kernels_loss import loss_code, targets_by_class
from streamlearn.additive.basis.pair_terms import looks_up_pairs, pair_terms
from streamlearn.numeric.bases.bsplines import as_columns, evaluate, make_bases, nodes_of
from streamlearn.numeric.bases.pairs import add_pairs
from streamlearn.numeric.bases.registry import LEVELS, SPLINE
from streamlearn.numeric.bases.roughness import make_roughness
from streamlearn.numeric.losses import LogLoss, SquaredError, slope, value
from streamlearn.numeric.rows.dense import flat_rows

M = 1501
PAIRS = np.array([[0, 1], [1, 4], [2, 3], [0, 5], [0, 4]])
"""Numbers, few values, categories, a constant column (3), and columns that several pairs share."""


NODES = {"alike": None, "each its own": np.array([6, 11, 32, 17, 24])}
"""The most nodes of a column in each pair: column 0 has them in three pairs."""


def case(dtype=np.float64, missing=False, nodes="alike"):
    """X, its bases and Phi (M, dim): splines by `evaluate`, pairs by lines at their nodes."""
    rng = np.random.default_rng(0)
    X = rng.random((M, 7)).astype(dtype)
    X[:, 2] = X[:, 2] > 0.7
    X[:, 3] = 4
    X[:, 4], X[:, 5] = rng.integers(0, 5, M), rng.integers(0, 9, M)
    knots = [np.linspace(0, 1, 24), np.linspace(0, 1, 10) ** 2, [0, 1], [4.0]]
    knots += [np.arange(5), np.arange(9), np.linspace(0, 1, 6)]
    if missing:
        knots[0], knots[4] = np.append(knots[0], np.inf), np.append(knots[4], np.inf)
        X[::7, 0] = X[::5, 4] = np.nan
    knots = [np.asarray(k, np.float32) for k in knots]
    degrees, kinds = [1] * 6 + [3], [SPLINE] * 5 + [LEVELS, SPLINE]
    main = make_bases(knots, degrees, kinds)
    c = np.full(main.dim, 0.1)
    bases, _, _ = add_pairs(main, make_roughness(main, 1), c, PAIRS, 1, "integral", NODES[nodes])
    blocks = [evaluate(main, d, X[:, d]) for d in range(7)]
    for d, e, most in bases.pairs.tolist():
        lines = [
            np.array([np.interp(u, nodes_of(bases, a, most), line)
                      for line in np.eye(len(nodes_of(bases, a, most)))]).reshape(-1, M)
            for a in (d, e) for u in [blocks[a] @ np.arange(blocks[a].shape[1])]
        ]  # fmt: skip
        blocks.append(np.einsum("ai,bi->iab", *lines).reshape(M, -1))
    return X, bases, np.hstack(blocks)


def forms(X, bases):
    """The rows in each dense form, with the bases that belong to it."""
    yield X, bases
    yield np.asfortranarray(X), bases
    yield ker.coordinates_rows(X, bases), bases._replace(prepared=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("nodes", NODES)
def test_tiles_are_the_functions_written_out(dtype, missing, nodes):
    X, bases, Phi = case(dtype, missing, nodes)
    for rows, own in forms(X, bases):
        found = np.concatenate([tile.A.copy() for tile in tiles(ker.present(rows, own), own)])
        np.testing.assert_allclose(found, Phi, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("nodes", NODES)
def test_passes_are_the_products_with_the_functions_written_out(dtype, missing, nodes):
    X, bases, Phi = case(dtype, missing, nodes)
    rng = np.random.default_rng(1)
    W, b = rng.normal(size=(3, bases.dim)), rng.normal(size=3)
    codes, s, loss = rng.integers(0, 3, M).astype(float), rng.random(M), LogLoss()
    h, r = rng.random(M), rng.normal(size=M)
    for rows, own in forms(X, bases):
        assert looks_up_pairs(ker.present(rows, own), own)
        ker.margins_rows(rows, own, W, F := np.empty((M, 3)))
        np.testing.assert_allclose(F, Phi @ W.T, atol=1e-11)
        sums = ker.empty_sums(3, bases.dim)
        ker.gradient_rows(rows, own, loss, ker.make_point(W, b), codes, s, sums)
        for k in range(3):
            y, f = np.where(codes == k, 1.0, -1.0), Phi @ W[k] + b[k]
            forces = s * [slope(loss, *one) for one in zip(y, f, strict=True)]
            total = s @ [value(loss, *one) for one in zip(y, f, strict=True)]
            np.testing.assert_allclose(sums.value[k], total, rtol=1e-12)
            np.testing.assert_allclose(sums.slope[k], forces.sum(), rtol=1e-11)
            np.testing.assert_allclose(sums.gradient[k], forces @ Phi, atol=1e-10)
        gram = ker.GramSums(np.zeros((bases.dim,) * 2), np.zeros(bases.dim), np.zeros(bases.dim))
        ker.gram_rows(rows, own, h, r, gram)
        np.testing.assert_allclose(np.triu(gram.H), np.triu(Phi.T @ (h[:, None] * Phi)), atol=1e-10)
        np.testing.assert_allclose(gram.g, h @ Phi, atol=1e-10)
        np.testing.assert_allclose(gram.b, r @ Phi, atol=1e-10)


def gram_of(X, bases, h, n_threads=1):
    gram = ker.GramSums(np.zeros((bases.dim,) * 2), np.zeros(bases.dim), np.zeros(bases.dim))
    ker.gram_rows(X, bases, h, h, gram, n_threads)
    return np.triu(gram.H), gram.g, gram.b


def test_threads_share_pairs_and_leave_the_bits():
    X, bases, _ = case()
    h = np.random.default_rng(2).random(M)
    alone = gram_of(X, bases, h)
    for n_threads in (2, 3, 8):
        for a, b in zip(gram_of(X, bases, h, n_threads), alone, strict=True):
            np.testing.assert_array_equal(a, b)
    for n, some in ((0, h[:0]), (1, h[:1])):
        H, g, _ = gram_of(X[:n], bases, some)
        assert np.count_nonzero(g) >= n
        assert (H.diagonal() >= 0).all()


def test_kernels_compiled_and_as_python_agree():
    X, bases, _ = case()
    X = X[:150]
    rows, columns, terms = flat_rows(X), as_columns(bases, X.dtype), pair_terms(bases)
    rng = np.random.default_rng(3)
    W, h, y = rng.normal(size=(1, bases.dim)), rng.random(150), rng.normal(size=150)
    point, code = ker.make_point(W, np.ones(1)), loss_code(SquaredError())
    found = []
    for plain in (False, True):
        margins, gradient, gram = (
            getattr(one, "py_func", one) if plain else one
            for one in (kernels_pairs.margins, kernels_pairs.gradient, kernels_pairs.gram)
        )
        margins(rows, columns, terms, W, F := np.empty((150, 1)))
        gradient(rows, columns, terms, code, point, targets_by_class(y), h,
                 sums := ker.empty_sums(1, bases.dim))  # fmt: skip
        zeros = np.zeros(bases.dim)
        products = ker.GramSums(np.zeros((bases.dim,) * 2), zeros, zeros.copy())
        gram(rows, columns, terms, 0, 1, h, y, products)
        found.append([F, *sums, *products])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


def test_a_pair_with_a_constant_column_has_no_part():
    X, bases, _ = case()
    terms = pair_terms(bases)
    assert len(terms.one) == len(PAIRS) - 1
    assert 3 not in terms.column
    only = bases.main
    c = np.full(only.dim, 0.1)
    empty, _, _ = add_pairs(only, make_roughness(only, 1), c, np.array([[3, 6]]), 1, "integral")
    W = np.random.default_rng(0).normal(size=(1, only.dim))
    both = [np.empty((M, 1)) for _ in range(2)]
    for basis, F in zip((only, empty), both, strict=True):
        ker.margins_rows(X, basis, W, F)
    np.testing.assert_allclose(both[0], both[1], atol=1e-12)
