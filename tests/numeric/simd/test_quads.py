"""Four numbers at once are four numbers, compiled and as Python."""

import numpy as np
import pytest

from streamlearn.numeric.jit import kernel
from streamlearn.numeric.simd.quads import add_multiple, add_outer


def outer(out, left):
    add_outer(out, 1, left, 2, 0.3)


def multiple(out):
    add_multiple(out, 1, 0.7, 0.1, 1.0, 3.0, 27.0)


@pytest.mark.parametrize("function", [outer, kernel(outer)])
def test_outer(function):
    left = np.array([9.0, 9.0, 0.1, 0.7, 9.0])
    out = np.arange(6.0)
    function(out, left)
    expected = np.arange(6.0)
    expected[1:5] += np.outer([0.1, 0.7], [1, 0.3]).ravel()
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("function", [multiple, kernel(multiple)])
def test_multiple(function):
    out = np.arange(6.0)
    function(out)
    expected = np.arange(6.0)
    expected[1:5] += 0.7 * np.array([0.1, 1.0, 3.0, 27.0])
    np.testing.assert_array_equal(out, expected)
