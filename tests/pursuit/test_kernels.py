"""The pursuit's kernels against their sums written down plainly, compiled and as Python."""

import numpy as np
import pytest
from pursuit.direct import design

from streamlearn.pursuit.boost_reads import Halves, half_of
from streamlearn.pursuit.kernels import (
    N_CELLS,
    add_table,
    halve_rows,
    occupied_cells,
    place_rows,
    weigh_rows,
)
from streamlearn.pursuit.kernels_gcv import least_gcv
from streamlearn.pursuit.kernels_splines import (
    add_by_interval,
    add_cross,
    add_splines,
    spline_values,
    splines_of_cells,
)
from streamlearn.pursuit.smoothers import (
    GRID,
    LEAST,
    PSpline,
    fit_splines,
    full_gram,
    penalty,
    score_splines,
    search_gamma,
)
from streamlearn.pursuit.tables import runs_for_tables, runs_within


def either(function):
    return pytest.mark.parametrize("function", [function, getattr(function, "py_func", function)])


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    t = np.clip(rng.standard_normal(n), -1.9, 1.9)
    return t, rng.random(n), rng.standard_normal(n)


@either(add_by_interval)
def test_sums_by_interval(function):
    t, w, wr = rows()
    t[:3] = -5.0, 2.0, 7.0
    sums = np.zeros(20 * 9)
    function(t, -2.0, 2.0, w, wr, sums)
    j = np.minimum((np.clip(t + 2.0, 0, 4) * 9 / 4.0).astype(int), 8)
    Phi = design(t, -2.0, 2.0, 12)
    for k in range(9):
        P = Phi[j == k, k : k + 4]
        found = sums[20 * k : 20 * k + 20].reshape(5, 4)
        np.testing.assert_allclose(found[:4], P.T @ (w[j == k, None] * P), atol=1e-12)
        np.testing.assert_allclose(found[4], wr[j == k] @ P, atol=1e-12)


@either(add_splines)
@pytest.mark.parametrize("n", [5, 16])
def test_sums_of_splines_and_products(function, n):
    t, w, wr = rows()
    Phi = design(t, -2.0, 2.0, n)
    band, moment = np.zeros((n, 4)), np.zeros(n)
    function(t, -2.0, 2.0, w, wr, band, moment)
    np.testing.assert_allclose(full_gram(band), Phi.T @ (w[:, None] * Phi), atol=1e-12)
    np.testing.assert_allclose(moment, Phi.T @ wr, atol=1e-12)


@either(add_cross)
def test_products_with_another_projection(function):
    t, w, s = rows()
    out = np.zeros((12, 7))
    function(t, -2.0, 2.0, s, -4.0, 4.0, w, out)
    expected = design(t, -2.0, 2.0, 12).T @ (w[:, None] * design(s, -4.0, 4.0, 7))
    np.testing.assert_allclose(out, expected, atol=1e-12)


@either(spline_values)
def test_values_of_a_spline(function):
    t, _, _ = rows()
    theta = np.random.default_rng(1).standard_normal(9)
    out = np.ones(len(t))
    function(t, -2.0, 2.0, theta, out)
    np.testing.assert_allclose(out, 1 + design(t, -2.0, 2.0, 9) @ theta, atol=1e-12)


@either(splines_of_cells)
def test_splines_of_cells(function):
    s, w, z = rows(40)
    pair, shifts = np.column_stack([w, z]), np.array([0.0, 0.3])
    gram, moment = np.zeros((2, 8, 4)), np.zeros((2, 8))
    function(s, z, pair, shifts, np.full(2, -4.0), np.full(2, 4.0), gram, moment)
    Phi = design(s + 0.3 * z, -4.0, 4.0, 8)
    np.testing.assert_allclose(moment[1], Phi.T @ z, atol=1e-12)
    np.testing.assert_allclose(full_gram(gram[1]), Phi.T @ (w[:, None] * Phi), atol=1e-12)


@pytest.mark.parametrize("noise", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("few", [False, True])
def test_costs_from_bands_are_those_of_the_eigenvalue_problem(noise, few):
    t, w, e = rows(2000)
    t = np.round(t) if few else t
    r, n = np.sin(2 * t) + noise * e, float(w.sum())
    band, moment = np.zeros((3, 16, 4)), np.zeros((3, 16))
    for k in range(3):
        add_splines(t * (1 + 0.1 * k), -4.0, 4.0, w, w * r, band[k], moment[k])
    rr, gamma = float(w @ r**2), search_gamma(n)
    fit = fit_splines(full_gram(band), moment, rr, n, gamma)
    cost, theta = score_splines(band, moment, rr, n, gamma)
    np.testing.assert_allclose(cost, fit.cost, rtol=1e-9)
    np.testing.assert_allclose(theta, fit.theta, atol=1e-7 * np.abs(fit.theta).max())


def test_costs_of_directions_without_rows():
    cost, theta = PSpline(8).score(np.zeros((2, 8, 4)), np.zeros((2, 8)), 3.0, 1.0, 1.4)
    assert np.isfinite(cost).all()
    assert not theta.any()


def test_costs_of_a_single_distinct_projection():
    """Where only the mean is fitted, rounding of a large penalty must not pass for a better fit."""
    t, w, r = np.full(50, 0.3), np.ones(50), rows(50)[2]
    band, moment = np.zeros((1, 16, 4)), np.zeros((1, 16))
    add_splines(t, -4.0, 4.0, w, w * r, band[0], moment[0])
    rr = float(r @ r)
    fit = fit_splines(full_gram(band), moment, rr, 50.0, 2.0)
    cost, _ = score_splines(band, moment, rr, 50.0, 2.0)
    assert cost[0] == pytest.approx(fit.cost[0], rel=1e-3)


@either(least_gcv)
def test_least_cost_by_dense_solves(function):
    t, w, wr = rows()
    band, moment = np.zeros((1, 6, 4)), np.zeros((1, 6))
    add_splines(t, -2.0, 2.0, w, wr, band[0], moment[0])
    P = penalty(6)
    diagonals = np.zeros((6, 4))
    for d in range(3):
        diagonals[: 6 - d, d] = np.diagonal(P, d)
    cost, theta = np.empty(1), np.empty((1, 6))
    function(
        band, moment, diagonals, GRID[None], np.full(1, 0.1), 300.0, 150.0, 2.0, LEAST, cost, theta
    )
    G, b = full_gram(band[0]) + 0.1 * np.eye(6), moment[0]
    expected = []
    for mu in GRID:
        x = np.linalg.solve(G + mu * P, b)
        df = np.trace(np.linalg.solve(G + mu * P, G))
        expected.append(((300.0 + x @ G @ x - 2 * b @ x) / (1 - 2 * df / 150.0) ** 2, x))
    best = min(range(len(GRID)), key=lambda k: expected[k][0])
    assert cost[0] == pytest.approx(expected[best][0], rel=1e-10)
    np.testing.assert_allclose(theta[0], expected[best][1], atol=1e-8)


@either(weigh_rows)
def test_weights_of_rows(function):
    F, w, _ = rows(50)
    y = (np.arange(50) % 3).astype(float)
    half = (np.arange(50) % 2).astype(np.int8)
    pair, searched = np.full((50, 2), 7.0), np.full(50, 7.0)
    squares, largest = np.zeros((2, 2)), np.full(2, -np.inf)
    function(F, y, 2, w, half, np.array([2.0, 3.0]), pair, searched, squares, largest)
    c = (y == 2).astype(int)
    cost = np.where(c == 1, -F, F)
    v = np.exp(np.minimum(cost - np.array([2.0, 3.0])[c], 0))
    np.testing.assert_allclose(pair[np.arange(50), c], w * v)
    assert not pair[np.arange(50), 1 - c].any()
    np.testing.assert_allclose(searched, np.where(half == 0, w * v, 0.0))
    np.testing.assert_allclose(squares[1, 0], (w * v * v)[(half == 1) & (c == 0)].sum())
    assert largest.tolist() == [cost[c == 0].max(), cost[c == 1].max()]


@either(halve_rows)
def test_halves_are_those_of_the_plain_hash(function):
    h = np.arange(200, dtype=np.uint64) * np.uint64(0xABCDEF12345)
    half = np.empty(200, np.int8)
    with np.errstate(over="ignore"):
        function(h, np.uint64(99), half)
    z = h * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(99)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    np.testing.assert_array_equal(half, (z >> np.uint64(63)).astype(np.int8))
    drawn = half_of(Halves(3, np.empty(0, np.intp)), np.zeros((4000, 1)), range(4000))
    assert abs(drawn.mean() - 0.5) < 0.03


def test_a_table_of_the_rows_of_runs():
    t, w, r = rows(3000)
    w[::7] = 0.0
    x = rows(3000, 1)[0].astype(np.float32)
    runs = np.array([[0, 1000], [1500, 2400]])
    kept, row, values = np.empty(1900, np.int32), np.empty(1900, np.int32), np.empty(3800)
    first, places = np.empty(3, np.int64), np.zeros((N_CELLS, 2))
    scale = N_CELLS / 4.0
    n = place_rows(t, w, r, w, runs, -2.0, scale, kept, row, values, first, places)
    here = np.zeros(3000, bool)
    here[:1000] = here[1500:2400] = True
    here &= w > 0
    assert n == here.sum()
    table = np.zeros((N_CELLS, N_CELLS, 2))
    add_table(x, -2.0, scale, runs, first, kept, row, values, table.reshape(-1))
    i = ((t + 2) * scale).astype(int)
    j = ((x + np.float32(2)) * np.float32(scale)).astype(int)
    expected = np.zeros_like(table)
    np.add.at(expected, (i[here], j[here]), np.column_stack([w, r])[here])
    np.testing.assert_allclose(table, expected, atol=1e-12)


@either(occupied_cells)
def test_cells_that_are_not_empty(function):
    table = np.zeros((3, 4, 2))
    table[0, 2] = 1.0, 0.0
    table[2, 1] = 0.0, -2.0
    s, z, pair = np.empty(12), np.empty(12), np.empty((12, 2))
    n = function(table, np.arange(3.0), np.arange(4.0), 10.0, s, z, pair)
    assert n == 2
    assert s[:2].tolist() == [0, 2]
    assert z[:2].tolist() == [2, 1]
    assert pair[:2].tolist() == [[10, 0], [0, -20]]


def test_runs_of_a_block_are_those_of_its_span():
    rows = range(700, 700 + 20_000)
    runs = runs_for_tables(rows, 0.4)
    part = slice(8192, 16_384)
    own = runs_for_tables(rows[part], 0.4)
    np.testing.assert_array_equal(runs_within(runs, part), own)
