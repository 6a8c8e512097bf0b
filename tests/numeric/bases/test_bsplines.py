import numpy as np
import pytest
from scipy.interpolate import BSpline

from streamlearn.numeric.bases import breakpoints as bp
from streamlearn.numeric.bases.bsplines import (
    as_columns,
    basis_values,
    coordinate,
    coordinate_column,
    evaluate,
    make_bases,
)
from streamlearn.numeric.bases.means import Pieces

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_uniform_basis_is_scipys(degree):
    m = 7
    bases = make_bases([np.linspace(0, 1, m + 1)], [degree])
    x = RNG.random(200)
    knots = np.arange(-degree, m + degree + 1) / m
    expected = BSpline.design_matrix(x, knots, degree).toarray()
    # u is rounded to float32
    np.testing.assert_allclose(evaluate(bases, 0, x), expected, atol=2e-6)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_partition_of_unity_everywhere(degree):
    bases = make_bases([[-2.0, -1.0, 5.0, 5.5]], [degree])
    x = np.concatenate([RNG.normal(0, 9, 100), [-2.0, -1.0, 5.0, 5.5, -1e300, 1e300]])
    phi = evaluate(bases, 0, x)
    np.testing.assert_allclose(phi.sum(1), 1, atol=1e-15)
    assert phi.min() >= -1e-15
    assert phi.shape[1] == bases.dim == 3 + degree


def test_values_are_indicators():
    values = np.array([-3.0, 0.1, 0.2, 7.0, 1e6])
    bases = make_bases([distinct(values, np.float64)], [1])
    np.testing.assert_array_equal(evaluate(bases, 0, values), np.eye(5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_knots", [2, 3, 16, 20, 32, 33, 70])
def test_three_forms_of_the_map_have_equal_bits(dtype, n_knots):
    knots = np.unique(RNG.normal(size=n_knots).astype(np.float32))
    bases = make_bases([knots], [1])
    columns = as_columns(bases, dtype)
    x = np.concatenate([RNG.normal(size=301), knots, [-9, 9, np.finfo(dtype).max]]).astype(dtype)
    u, v = np.empty(len(x), np.float32), np.empty(len(x), np.float32)
    coordinate_column(x, len(x), columns, 0, u)
    getattr(coordinate_column, "py_func", coordinate_column)(x, len(x), columns, 0, v)
    np.testing.assert_array_equal(u, v)
    np.testing.assert_array_equal(u, [coordinate(a, columns, 0) for a in x])
    j = np.searchsorted(knots, x[:301], side="right") - 1
    inside = (j >= 0) & (j < len(knots) - 1)
    j, z, k = j[inside], x[:301][inside].astype(float), knots.astype(float)
    # u rounds to 2^-24 of its size; x - k_j cancels in float32
    np.testing.assert_allclose(u[:301][inside], j + (z - k[j]) / (k[j + 1] - k[j]), rtol=3e-6)


def test_breakpoints_that_collide_in_float32_and_huge_gaps_give_no_nan():
    bases = make_bases([[1.0, 1.0 + 1e-12, 2.0], [-3e38, 0.0, 3e38]], [1, 1])
    for d in range(2):
        phi = evaluate(bases, d, np.array([-3.4e38, 1.0, 1.5, 3.4e38], np.float32))
        assert phi.min() >= 0
        np.testing.assert_allclose(phi.sum(axis=1), 1, rtol=1e-6)


def test_basis_values_python():
    phi, other = np.zeros(4), np.zeros(4)
    for degree in (1, 2, 3):
        for u in np.float32([0, 0.3, 4.99, 5]):
            j = basis_values(u, 5, degree, phi)
            assert j == getattr(basis_values, "py_func", basis_values)(u, 5, degree, other)
            np.testing.assert_array_equal(phi, other)


def distinct(x, dtype):
    return bp.distinct_points(x, np.array([0, len(x)]), dtype)[0]


def quantiles(values, mass, n_intervals, dtype=np.float64):
    """Breakpoints of one column, beside others that are not wanted, or constant."""
    column = (values, values, mass)
    constant = (np.zeros(1), np.zeros(1), np.ones(1))
    pieces = Pieces.of([column, column, constant])
    levels, wanted = np.arange(n_intervals + 1) / n_intervals, np.array([False, True, True])
    x = bp.quantile_points(pieces, wanted, levels)
    assert not x[[0, 2]].any()
    by_python = np.zeros_like(x)
    getattr(bp.quantiles_of_columns, "py_func", bp.quantiles_of_columns)(
        pieces, wanted, levels, by_python
    )
    np.testing.assert_array_equal(x, by_python)
    points, ends = bp.distinct_points(x.ravel(), np.arange(4) * (n_intervals + 1), dtype)
    assert (np.diff(ends)[[0, 2]] == 1).all()
    return points[ends[1] : ends[2]]


def test_quantile_breakpoints_of_distinct_values_are_their_quantiles():
    x = np.sort(RNG.normal(size=1000))
    k = quantiles(x, np.ones(1000), 10)
    assert len(k) == 11
    counts = np.histogram(x, k)[0]
    assert counts.min() >= 98
    assert counts.max() <= 102


def test_one_value_with_most_of_the_mass_takes_one_interval():
    values = np.concatenate([[0.0], np.linspace(1, 2, 99)])
    mass = np.concatenate([[95.0], np.full(99, 5 / 99)])
    k = quantiles(values, mass, 10)
    assert len(k) == 11
    assert (k > 1).sum() >= 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "values",
    [[3.0], [0, 1], [1, 1 + 1e-15], [-1e30, 0, 1, 2, 3, 1e30], [1e9 + i for i in range(40)]],
)
def test_breakpoints_ascend_in_the_rounded_arithmetic(values, dtype):
    mass, values = np.ones(len(values)), np.array(values, np.float64)
    for k in (
        quantiles(values, mass, 19, dtype),
        distinct(bp.uniform_points(values[:1], values[-1:], 19)[0], dtype),
        distinct(values, dtype),
    ):
        assert (np.diff(k.astype(dtype)) > 0).all()
        bases = make_bases([k], [1])
        assert bases.dim == (len(k) if len(k) > 1 else 0)


def test_bad_breakpoints_are_named():
    with pytest.raises(ValueError, match="column 1 do not ascend"):
        make_bases([[0.0, 1.0], [0.0, 0.0]], [1, 1])
    with pytest.raises(ValueError, match="degrees between 1 and 3"):
        make_bases([[0.0, 1.0]], [4])
