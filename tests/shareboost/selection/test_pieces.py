import numpy as np
import pytest

import streamlearn as sl
from streamlearn.shareboost.selection.candidates import SAME_PIECES, Pieces, spread_pieces
from streamlearn.shareboost.selection.kernels import (
    add_squares,
    gather_radii,
    least_above,
    sum_by_radius,
    weigh_rows,
)

RADII = np.array([[0.5, 1.0, 4.0], [0.0, 2.0, 2.0], [1.0, 3.0, 50.0]])


def either(function):
    return pytest.mark.parametrize("function", [function, getattr(function, "py_func", function)])


def case(dtype=np.float64):
    rng = np.random.default_rng(3)
    X, R = rng.standard_normal((40, 2)).astype(dtype), rng.standard_normal((40, 3)).astype(dtype)
    V = np.column_stack([X, np.ones(40), np.zeros((40, 2))]).astype(dtype)
    anchors = X[:3] + dtype(0.1)
    squares = ((X[:, None] - anchors) ** 2).sum(axis=2)
    return X, V, R, anchors, RADII.astype(dtype), squares


@either(least_above)
def test_least_limit_above(function):
    limits = np.array([1.0, 2.0, 2.0, 5.0])
    assert [function(limits, d) for d in (0.5, 1.0, 1.9, 2.0, 4.9, 5.0)] == [0, 1, 1, 3, 3, 4]


@either(weigh_rows)
@pytest.mark.parametrize("soft", [False, True])
def test_weights(function, soft):
    X, _, _, anchors, limits, squares = case()
    out = np.full((40, 3), 7, np.float64 if soft else np.uint8)
    function(X, anchors, limits[:, 1], soft, out)
    inside = squares < limits[:, 1]
    expected = np.where(inside, 1 - squares / limits[:, 1], 0) if soft else inside
    np.testing.assert_allclose(out, expected, atol=1e-14)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("soft", [False, True])
def test_gradients_of_all_radii_from_one_read(compiled, soft):
    add, gather = sum_by_radius, gather_radii
    if not compiled:
        add, gather = (getattr(f, "py_func", f) for f in (add, gather))
    X, V, R, anchors, limits, _ = case()
    sums = np.zeros((3, 3, 6 if soft else 3, 3))
    inner = np.empty((3, sums.shape[2], V.shape[1]))
    for rows in (slice(0, 25), slice(25, 40)):
        add(X[rows], V[rows], R[rows], anchors, limits, inner, sums)
    mean = np.random.default_rng(0).standard_normal((3, 3, 3))
    total, l1 = R.sum(axis=0), np.empty((3, 3, 3))
    gather(sums, total, limits, mean, l1)
    every = [(a, r) for a in range(3) for r in range(3)]
    weights = Pieces(anchors, limits, soft).values(X, [0, 1], every)
    G = (R.T @ spread_pieces(X, weights)).reshape(3, 3, 3, 3).transpose(1, 2, 0, 3)
    np.testing.assert_allclose(sums[:, :, :3], G, atol=1e-12)
    centred = G - total[:, None] * mean[:, :, None, :]
    np.testing.assert_allclose(l1, np.abs(centred).sum(axis=2), atol=1e-12)


@either(add_squares)
@pytest.mark.parametrize("soft", [False, True])
def test_moments_by_radius(function, soft):
    X, V, R, anchors, limits, squares = case(np.float32)
    share = np.abs(R[:, 0]).astype(np.float64)
    sums = np.zeros((3, 3, 5 if soft else 2, 3))
    function(X, V, share, anchors, limits, sums)
    powers = [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)] if soft else [(1, 0), (2, 0)]
    V = V[:, :3].astype(float)
    for a in range(3):
        for r in range(3):
            low = limits[a, r - 1] if r else -1.0
            ring = (squares[:, a] >= low) & (squares[:, a] < limits[a, r])
            for s, (p, q) in enumerate(powers):
                expected = (share * ring * squares[:, a] ** q) @ V**p
                np.testing.assert_allclose(sums[a, r, s], expected, rtol=2e-5, atol=1e-6)


def test_pieces_of_one_read_overlap_little():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 2))
    y = (np.floor(X[:, 0]) % 2 + 2 * (np.floor(X[:, 1]) % 2)).astype(int)
    how = dict(candidates="soft-pieces", n_anchors=20, n_radii=8, ridge=1e-4, columns_per_pass=4)
    model = sl.ShareBoostClassifier(4, **how).fit(X, y)
    weights = model._kind.values(X, [0, 1], model.choices_)
    correlations = np.corrcoef(weights.T) - np.eye(len(weights.T))
    assert len(model.choices_) > 1
    assert np.abs(correlations).max() <= SAME_PIECES + 1e-9


def test_scores_of_soft_pieces_are_continuous():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    line = np.column_stack([np.linspace(-2, 2, 4001), np.full(4001, 0.3)])
    jumps = {}
    for candidates in ("pieces", "soft-pieces"):
        how = dict(candidates=candidates, n_anchors=10, n_radii=4, ridge=1e-3)
        scores = sl.ShareBoostClassifier(6, **how).fit(X, y).decision_function(line)
        jumps[candidates] = np.abs(np.diff(scores)).max()
    assert jumps["soft-pieces"] < 0.05 < jumps["pieces"]
