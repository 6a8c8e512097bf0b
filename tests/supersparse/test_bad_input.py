"""What cannot be done is named: what was got, what was expected."""

import numpy as np
import pytest

import streamlearn as sl


def table(n=60):
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    return X, X[:, 0] + 0.1 * rng.standard_normal(n)


def wrong_shape(X, Z):
    return np.ones((len(Z), len(X) + 1))


def not_finite(X, Z):
    S = np.ones((len(X), len(Z)))
    S[1, 0] = np.nan
    return S


def changes_rows(X, Z):
    X -= 1.0
    return X @ Z.T


def changes_prototypes(X, Z):
    Z[:] = 0.0
    return X @ Z.T


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wrong_shape, r"similarity wrong_shape returned an array of shape .* expected \(60, 3\)"),
        (not_finite, r"similarity not_finite returned nan at \[1, 0\]"),
        (changes_rows, "similarity changes_rows changes its input"),
        (changes_prototypes, "similarity changes_prototypes changes its input"),
        ((np.dot,), "a tuple must be"),
        ((np.dot, 3), "a tuple must be"),
        ((lambda X, Z: X @ Z.T, lambda X, Z, R: X), "vjp .* returned an array of shape"),
    ],
)
def test_similarities(function, message):
    with pytest.raises(ValueError, match=message):
        sl.SuperSparseRegressor(3, similarity=function).fit(*table())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_prototypes": 61}, "n_prototypes=61 is more than n_samples=60"),
        ({"init": np.ones((3, 5))}, r"init has shape \(3, 5\); expected .*\(10, 2\)"),
        ({"init": np.full((10, 2), np.inf)}, "all finite"),
        ({"similarity": "linear", "repulsion": 0.1}, "repulsion=0.1 with similarity='linear'"),
        ({"n_prototypes": 0}, "The .n_prototypes. parameter .*Got 0"),
        ({"ridge": -1.0}, "The .ridge. parameter .*Got -1.0"),
    ],
)
def test_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        sl.SuperSparseRegressor(**parameters).fit(*table())


def test_chi2_needs_values_that_are_not_negative():
    X, y = table()
    with pytest.raises(ValueError, match="x1.*holds -.*chi2"):
        sl.SuperSparseRegressor(3, similarity="chi2").fit(X - [0.0, 0.5], y)


def test_one_class_and_no_weight():
    X, _ = table()
    with pytest.raises(ValueError, match="1 class .*at least 2 classes"):
        sl.SuperSparseClassifier(3).fit(X, np.ones(60))
    with pytest.raises(ValueError, match="weights must contain at least one non-zero"):
        sl.SuperSparseClassifier(3).fit(X, X[:, 0] > 0.5, np.zeros(60))


def test_equal_rows_and_prototypes_are_legal():
    """Three distinct rows: no more prototypes than that are of use, equal ones do no harm."""
    X = np.repeat(np.eye(3), 20, axis=0)
    y = np.repeat([1.0, 2.0, 4.0], 20)
    model = sl.SuperSparseRegressor(5, ridge=0.0).fit(X, y)
    assert len(model.prototypes_) == 3
    np.testing.assert_allclose(model.predict(np.eye(3)), [1.0, 2.0, 4.0], atol=1e-5)
    model = sl.SuperSparseRegressor(4, init=np.ones((4, 3))).fit(X, y)
    np.testing.assert_allclose(model.predict(np.eye(3)), [1.0, 2.0, 4.0], atol=0.05)


def test_a_model_with_a_callable_is_not_saved(tmp_path):
    model = sl.SuperSparseRegressor(2, similarity=lambda X, Z: np.exp(-abs(X[:, :1] - Z[:, 0])))
    model.fit(*table())
    with pytest.raises(TypeError, match="cannot be saved"):
        sl.save(model, tmp_path / "model.slm")


def test_probabilities_need_log_loss():
    X, _ = table()
    model = sl.SuperSparseClassifier(3, loss="squared_error").fit(X, X[:, 0] > 0.5)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="use loss='log_loss'"):
        model.predict_to(X, "nowhere", "probability")
