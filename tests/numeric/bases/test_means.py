"""Means of functions over histograms against one column, one point at a time."""

import numpy as np
import pytest

from streamlearn.numeric.bases.bsplines import evaluate, make_bases
from streamlearn.numeric.bases.fourier import Cosine
from streamlearn.numeric.bases.means import (
    Pieces,
    _views,
    add_means,
    add_sizes,
    mean_functions,
    mean_sizes,
)
from streamlearn.numeric.bases.registry import SPLINE, kind_of
from streamlearn.numeric.bases.roughness import reference_at_zero

COSINE = kind_of(Cosine())


@pytest.fixture(params=[(SPLINE, 1), (SPLINE, 2), (SPLINE, 3), (COSINE, 1)])
def bases(request):
    kind, degree = request.param
    knots = [np.array([-1.0, 0.5, 2.0, 7.0]), np.empty(0), np.array([0.0, 1.0, 3.0])]
    knots[2] = np.append(knots[2], np.full(degree, np.inf))
    return make_bases(knots, [degree, 1, degree], [kind, SPLINE, kind], 4)


# without the compiler numpy warns of inf - inf, the place of what is missing among the knots
@pytest.mark.filterwarnings("ignore:invalid value encountered in scalar subtract")
def test_means_are_those_of_the_pieces(bases):
    lo, hi, mass = np.array([-3.0, 0.2, 1.0]), np.array([-1.0, 0.2, 6.0]), np.array([1.0, 5.0, 2.0])
    missing = (np.append(lo, np.inf), np.append(hi, np.inf), np.append(mass, 3.0))
    got = mean_functions(bases, [Pieces.of([(lo, hi, mass), (lo, hi, mass), missing])])
    points = (np.arange(50_000) + 0.5) / 50_000
    x = lo[:, None] * (1 - points) + hi[:, None] * points
    expected = []
    for d, extra in ((0, 0.0), (2, 3.0)):
        total = sum(
            m * evaluate(bases, d, row).mean(axis=0) for m, row in zip(mass, x, strict=True)
        )
        total = total + extra * evaluate(bases, d, np.array([np.nan]))[0]
        expected.append(total / (mass.sum() + extra))
    # splines exactly, to the rounding of evaluate's coordinates; others by 8 points an interval
    atol = 2e-7 if bases.kind[0] == SPLINE else 2e-2
    np.testing.assert_allclose(got, np.concatenate(expected), atol=atol)


def test_blocks_and_python_give_the_same_means(bases):
    lo, hi, mass = np.array([-3.0, 0.2, 1.0]), np.array([-1.0, 0.2, 6.0]), np.array([1.0, 5.0, 2.0])
    columns = [(lo, hi, mass), (lo - 1, hi, mass), (lo + 2, hi + 2, mass)]
    whole = mean_functions(bases, [Pieces.of(columns)])
    parts = [Pieces.of(columns[:2]), Pieces.of(columns[2:])]
    np.testing.assert_array_equal(mean_functions(bases, parts), whole)
    W, shifts = np.random.default_rng(0).normal(size=(2, bases.dim)), np.zeros((2, 3))
    sizes = mean_sizes(bases, [Pieces.of(columns)], W, shifts)
    np.testing.assert_array_equal(mean_sizes(bases, parts, W, shifts), sizes)
    out, out_sizes = np.zeros(bases.dim), np.zeros(3)
    getattr(add_means, "py_func", add_means)(Pieces.of(columns), 0, *_views(bases), out)
    getattr(add_sizes, "py_func", add_sizes)(
        Pieces.of(columns), 0, *_views(bases), W, shifts, out_sizes
    )
    local = np.repeat(bases.local, np.diff(bases.first))
    np.testing.assert_allclose(out[local], whole[local], rtol=1e-12)
    np.testing.assert_allclose(out_sizes[bases.local], sizes[bases.local], rtol=1e-12)


def test_no_mass_means_zero(bases):
    none = (np.empty(0),) * 3
    assert not mean_functions(bases, [Pieces.of([none] * 3)]).any()


def test_pieces_as_wide_as_float64_have_means():
    bases = make_bases([[-1.0, 0.0, 1.0]], [1])
    pieces = Pieces.of([(np.array([-1.7e308]), np.array([1.7e308]), np.ones(1))])
    np.testing.assert_allclose(mean_functions(bases, [pieces]), [0.5, 0, 0.5], atol=1e-15)


def test_reference_at_zero_is_one_point(bases):
    expected = [evaluate(bases, d, np.zeros(1))[0] for d in (0, 2)]
    np.testing.assert_allclose(reference_at_zero(bases), np.concatenate(expected), atol=1e-15)


def test_means_over_bins_are_near_those_over_rows():
    bases = make_bases([np.linspace(0, 1, 6)], [2])
    x, edges = np.random.default_rng(0).random(4000), np.linspace(0, 1, 257)
    rows = evaluate(bases, 0, x).mean(0)
    bins = [(edges[:-1], edges[1:], np.histogram(x, edges)[0])]
    binned = mean_functions(bases, [Pieces.of(bins)])
    np.testing.assert_allclose(binned, rows, atol=1e-3)
    exact = mean_functions(bases, [Pieces.of([(x, x, np.ones(4000))])])
    np.testing.assert_allclose(exact, rows, atol=1e-12)


def test_mean_sizes_are_those_of_the_curves():
    rng = np.random.default_rng(3)
    knots = [np.linspace(0, 1, 5), np.arange(4.0), [0.0, 1.0]]
    bases = make_bases(knots, [2, 1, 1], [SPLINE, SPLINE, COSINE], 3)
    values = [np.sort(rng.random(6)), np.arange(4.0), np.sort(rng.random(5))]
    mass = [rng.random(len(v)) for v in values]
    W, shifts = rng.normal(size=(2, bases.dim)), rng.normal(size=(2, 3))
    pieces = [(v, v, m) for v, m in zip(values, mass, strict=True)]
    sizes = mean_sizes(bases, [Pieces.of(pieces)], W, shifts)
    for d in range(3):
        own = slice(*bases.first[d : d + 2])
        f = evaluate(bases, d, values[d]) @ W[:, own].T - shifts[:, d]
        expected = mass[d] @ np.abs(f).mean(axis=1) / mass[d].sum()
        assert sizes[d] == pytest.approx(expected, rel=1e-6)
