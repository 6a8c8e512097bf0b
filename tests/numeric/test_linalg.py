import numpy as np
import pytest

from streamlearn.numeric.linalg import factor_spd


@pytest.mark.parametrize("shape", [(30,), (30, 1), (30, 4)])
def test_solves_from_the_upper_triangle(shape):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30))
    A = A @ A.T + np.eye(30)
    b = rng.normal(size=shape)
    before = b.copy()
    upper = np.triu(A) + np.tril(np.full_like(A, np.nan), -1)
    np.testing.assert_allclose(factor_spd(upper)(b), np.linalg.solve(A, b), rtol=1e-9)
    np.testing.assert_array_equal(b, before)


def test_refuses_what_is_not_positive():
    with pytest.raises(ValueError, match="not positive definite.*lower C"):
        factor_spd(-np.eye(3))
