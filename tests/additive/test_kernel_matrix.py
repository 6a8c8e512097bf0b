import numpy as np
import pytest
from additive_kit import table
from sklearn.svm import SVC

import streamlearn as sl


def test_order_1_of_linear_splines_is_the_min_kernel_on_the_knots():
    """A12, 4: K = p + M sum min(x, y)."""
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 9, (30, 4)) / 8, rng.integers(0, 9, (20, 4)) / 8
    smallest = np.minimum(X[:, None], Y[None]).sum(axis=2)
    np.testing.assert_allclose(sl.additive_kernel(X, Y, n_bases=9), 4 + 8 * smallest, atol=1e-5)


@pytest.mark.parametrize("shape", [{}, {"degree": 3, "penalty_order": 2}, {"basis": "cosine"}])
def test_it_is_the_product_of_the_explicit_features(shape):
    X, _ = table(60)
    X = X[:, [0, 1]]
    X[:2] = [[0.0, 0.0], [1.0, 1.0]]
    kind = sl.FourierEmbedding if "basis" in shape else sl.SplineEmbedding
    embedding = kind(6, penalty_scale="paper", knots="uniform", **shape).fit(X)
    Psi = embedding.transform(X).toarray()
    centre = np.eye(60) - 1 / 60  # the features are those of the kernel less a constant
    K = sl.additive_kernel(X, n_bases=6, **shape)
    np.testing.assert_allclose(centre @ K @ centre, centre @ Psi @ Psi.T @ centre, atol=1e-5)


def test_a_support_vector_machine_of_kernels_reaches_the_same_optimum():
    X, y = table(120)
    X = X[:, [0, 1]]
    X[:2] = [[0.0, 0.0], [1.0, 1.0]]
    K = sl.additive_kernel(X, n_bases=8)
    svm = SVC(C=0.5, kernel="precomputed", tol=1e-8).fit(K, y)
    a = np.zeros(120)
    a[svm.support_] = svm.dual_coef_[0]
    f = K @ a + svm.intercept_[0]
    best = 0.5 * a @ K @ a + 0.5 * np.maximum(0, 1 - (2 * y - 1) * f).sum()
    model = sl.AdditiveClassifier(
        "hinge", C=0.5, n_bases=8, penalty_scale="paper", knots="uniform", tol=1e-3,
        max_passes=2000, intercept_scaling=3.0,
    ).fit(X, y)  # fmt: skip
    # the paper's features hold the constant: SVC's intercept is free on top, ours nearly so
    assert model.certificate_.primal == pytest.approx(best, rel=2e-2)
    assert (np.sign(f) == np.sign(model.decision_function(X))).mean() > 0.97
    called = SVC(C=0.5, kernel=sl.additive_kernel).fit(X, y)
    assert called.score(X, y) > 0.8


def test_bad_input_is_named():
    X = np.zeros((3, 2))
    with pytest.raises(ValueError, match=r"column 1 has the empty range \[2.0, 1.0\]"):
        sl.additive_kernel(X, low=[0.0, 2.0])
    with pytest.raises(ValueError, match="X has 2 columns, Y has 1"):
        sl.additive_kernel(X, X[:, :1])
    with pytest.raises(ValueError, match="no interval"):
        sl.additive_kernel(X, n_bases=2, degree=2)
