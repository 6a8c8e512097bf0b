import math

import numba
import numpy as np
import pytest

from streamlearn.numeric.elementary import decay, exponential, log1p_unit, log_of

CASES = {
    decay: (lambda x: np.exp(-x), np.concatenate([np.linspace(0, 50, 997), [0.0, 300.0, 699.0]])),
    log1p_unit: (np.log1p, np.concatenate([np.linspace(0, 1, 997), 10.0 ** -np.arange(1, 300)])),
    exponential: (np.exp, np.linspace(-699, 699, 997)),
    log_of: (
        np.log,
        np.concatenate([np.linspace(1e-6, 1, 997), 10.0 ** np.arange(-300.0, 300.0)]),
    ),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_error_is_rounding_and_bits_agree(function):
    exact, x = CASES[function]

    @numba.vectorize
    def compiled(x):
        return function(x)

    plain = np.array([function(float(v)) for v in x])
    # 4 units in the last place, absolute near the zeros of the logarithms
    np.testing.assert_allclose(plain, exact(x), rtol=1e-15, atol=5e-16)
    if not numba.config.DISABLE_JIT:
        np.testing.assert_array_equal(compiled(x), plain)


def test_ends():
    assert decay(0.0) == 1.0
    assert 0.0 < decay(1e300) < 1e-300
    assert log1p_unit(1.0) == pytest.approx(math.log(2), abs=1e-16)
    assert log_of(0.0) == pytest.approx(math.log(np.finfo(float).tiny))
