"""The pursuit's kernels against their sums written down plainly, compiled and as Python."""

import numpy as np
import pytest
from pursuit.direct import design

from streamlearn.numeric.rows.dense import flat_rows
from streamlearn.pursuit.boosting.kernels import (
    add_margins,
    add_trials,
    halve_numbers,
    halve_rows,
    split_rows,
    weigh_rows,
)
from streamlearn.pursuit.boosting.rows import Halves, half_of
from streamlearn.pursuit.kernels import (
    N_CELLS,
    Cells,
    ScaledColumns,
    add_tables,
    count_cells,
    occupied_cells,
    place_rows,
    project_rows,
)
from streamlearn.pursuit.regression.kernels_splines import (
    add_by_interval,
    add_cross,
    add_splines,
    least_gcv,
    spline_values,
    splines_of_cells,
)
from streamlearn.pursuit.regression.smoothers import (
    GRID,
    LEAST_DIVISOR,
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
    pair, shifts, at = np.column_stack([w, z]), np.array([0.0, 0.3, 0.3]), np.array([0, 0, 1])
    cells = Cells(np.arange(2), np.array([0, 25, 40]), s, z, pair, np.zeros((2, 2)))
    gram, moment = np.zeros((3, 8, 4)), np.zeros((3, 8))
    function(cells, at, shifts, np.full(3, -4.0), np.full(3, 4.0), gram, moment)
    for k, own in ((1, slice(25)), (2, slice(25, 40))):
        Phi = design(s[own] + 0.3 * z[own], -4.0, 4.0, 8)
        np.testing.assert_allclose(moment[k], Phi.T @ z[own], atol=1e-12)
        expected = Phi.T @ (w[own, None] * Phi)
        np.testing.assert_allclose(full_gram(gram[k]), expected, atol=1e-12)


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
    # all of r'r; GCV's divisor at its floor
    np.testing.assert_allclose(cost, 3.0 / LEAST_DIVISOR**2)
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
        band,
        moment,
        diagonals,
        GRID[None],
        np.full(1, 0.1),
        300.0,
        150.0,
        2.0,
        LEAST_DIVISOR,
        cost,
        theta,
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


def columns_of(n, low=-1.5, high=1.5):
    """Columns of which the last is constant."""
    scale = np.append(np.linspace(0.5, 2.0, n - 1), np.inf)
    return ScaledColumns(*(np.full(n, v) for v in (low, high, 0.1)), scale, np.zeros((n, N_CELLS)))


LAYOUTS = {
    "columns": np.asfortranarray,
    "rows": np.ascontiguousarray,
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
}


@pytest.fixture(params=LAYOUTS)
def table(request):
    """More rows than a tile."""
    X = np.random.default_rng(3).standard_normal((1500, 5)).astype(np.float32)
    return LAYOUTS[request.param](X)


def z_of(X, columns):
    return (np.clip(X, columns.low, columns.high) - columns.center) / columns.scale


@either(project_rows)
def test_projections(function, table):
    columns, alpha = columns_of(5), np.array([0.3, 0.0, -1.0, 0.0, 0.5])
    t = np.full(len(table), 7.0)
    function(flat_rows(table), alpha, columns, t)
    np.testing.assert_allclose(t, z_of(table.astype(float), columns) @ alpha, atol=1e-12)


@either(weigh_rows)
def test_weights_of_rows(function):
    n = 1100
    F, w, _ = rows(n)
    y, w[5] = (np.arange(n) % 3).astype(float), 0.0
    F[5] = 50.0
    half = (np.arange(n) % 2).astype(np.int8)
    v, kind = np.full(n, 7.0), np.full(n, 7, np.uint8)
    squares, largest = np.zeros((2, 2)), np.full(2, -np.inf)
    function(F, y, 2, w, half, np.array([2.0, 3.0]), v, kind, squares, largest)
    c = (y == 2).astype(int)
    cost = np.where(c == 1, -F, F)
    e = np.exp(np.minimum(cost - np.array([2.0, 3.0])[c], 0))
    np.testing.assert_allclose(v, w * e, rtol=1e-14)
    np.testing.assert_array_equal(kind, 2 * half + c)
    for h in (0, 1):
        for d in (0, 1):
            expected = (w * e * e)[(half == h) & (c == d)].sum()
            np.testing.assert_allclose(squares[h, d], expected)
    assert largest.tolist() == [cost[(c == d) & (w > 0)].max() for d in (0, 1)]


@either(add_trials)
def test_histograms_of_projections(function, table):
    n, columns = len(table), columns_of(5)
    alphas = np.array([[1.0, 0, 0, 0, 0], [0.2, -1.0, 0, 0.5, 0]])
    ranges = np.array([[-2.0, 2.5], [-1.0, 1.0]])
    v, kind = rows(n)[1], np.random.default_rng(1).integers(0, 4, n).astype(np.uint8)
    sums, first = np.zeros((2, 2, 9, 2)), np.empty(n)
    function(flat_rows(table), alphas, columns, ranges, v, kind, sums, first)
    Z = z_of(table.astype(float), columns)
    np.testing.assert_allclose(first, Z @ alphas[0], atol=1e-12)
    expected = np.zeros_like(sums)
    for k, (low, high) in enumerate(ranges):
        b = np.clip((Z @ alphas[k] - low) * 9 / (high - low), 0, 8).astype(int)
        np.add.at(expected[k], (kind >> 1, b, kind & 1), v)
    np.testing.assert_allclose(sums, expected, atol=1e-12)


def test_python_and_compiled_sums_of_a_read_have_equal_bits(table):
    n, columns = len(table), columns_of(5)
    F, w, _ = rows(n)
    y, half = (np.arange(n) % 2).astype(float), (np.arange(n) % 3 == 0).astype(np.int8)
    alphas = np.array([[1.0, 0, 0.3, 0, 0], [0.2, -1.0, 0, 0.5, 0]])
    ranges, offset = np.array([[-2.0, 2.5], [-1.0, 1.0]]), np.array([1.5, 1.0])
    found = []
    for pick in (lambda kernel: kernel, lambda kernel: kernel.py_func):
        v, kind, first = np.empty(n), np.empty(n, np.uint8), np.empty(n)
        squares, largest, sums = np.zeros((2, 2)), np.full(2, -np.inf), np.zeros((2, 2, 9, 2))
        pick(weigh_rows)(F, y, 1, w, half, offset, v, kind, squares, largest)
        pick(add_trials)(flat_rows(table), alphas, columns, ranges, v, kind, sums, first)
        found.append((v, kind, squares, largest, sums, first))
    for compiled, plain in zip(*found, strict=True):
        np.testing.assert_array_equal(compiled, plain)


@either(add_margins)
def test_margins_by_class(function):
    F, w, _ = rows(300)
    F[:2], kind = (-9.0, 9.0), (np.arange(300) % 4).astype(np.uint8)
    margins = np.zeros((16, 2))
    function(F, w, kind, 1.5, margins)
    for c in (0, 1):
        own = kind & 1 == c
        expected, _ = np.histogram(np.clip(F[own], -1.5, 1.5), 16, (-1.5, 1.5), weights=w[own])
        np.testing.assert_allclose(margins[:, c], expected)


@either(split_rows)
def test_weights_of_the_rows_of_runs(function):
    v, kind = rows(20)[1], (np.arange(20) % 4).astype(np.uint8)
    parts = np.full((3, 20), 7.0)
    function(v, kind, np.array([[2, 5], [9, 14]]), *parts)
    here = np.r_[2:5, 9:14]
    np.testing.assert_array_equal(parts[0, here], np.where(kind & 1, 0, v)[here])
    np.testing.assert_array_equal(parts[1, here], np.where(kind & 1, v, 0)[here])
    np.testing.assert_array_equal(parts[2, here], np.where(kind < 2, v, 0)[here])


def plain_half(h, seed):
    z = h * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    return (z >> np.uint64(63)).astype(np.int8)


@either(halve_numbers)
def test_halves_are_those_of_the_plain_hash(function):
    h = np.arange(200, dtype=np.uint64) * np.uint64(0xABCDEF12345)
    half = np.empty(200, np.int8)
    with np.errstate(over="ignore"):
        function(h, np.uint64(99), half)
    np.testing.assert_array_equal(half, plain_half(h, 99))
    drawn = half_of(Halves(3, np.empty(0, np.intp)), flat_rows(np.zeros((4000, 1))), range(4000))
    assert abs(drawn.mean() - 0.5) < 0.03
    numbers = np.arange(100, 4000)
    again = half_of(Halves(3, np.empty(0, np.intp)), flat_rows(np.zeros((3900, 1))), numbers)
    np.testing.assert_array_equal(again, drawn[100:])


@either(halve_rows)
def test_halves_by_content(function, table):
    """Of the float32 bits, whatever the layout and the precision of the store."""
    which, h = np.array([0, 3, 4]), np.zeros(len(table), np.uint64)
    for m in which.tolist():
        bits = np.ascontiguousarray(table[:, m]).view(np.uint32).astype(np.uint64)
        h = (h ^ (bits + np.uint64(m + 1))) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    for X in (table, table.astype(np.float64)):
        half = np.empty(len(X), np.int8)
        with np.errstate(over="ignore"):
            function(flat_rows(X), which, np.uint64(99), half)
        np.testing.assert_array_equal(half, plain_half(h, 99))
    assert 0.45 < half.mean() < 0.55


@either(add_tables)
def test_a_table_of_the_rows_of_runs(function):
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
    columns, X = columns_of(3, -2.0, 2.0), np.column_stack([x, -x, x])
    tables, chosen = np.zeros((1, N_CELLS, N_CELLS, 2)), np.array([2])
    for turned in (np.asfortranarray(X), X):
        tables[:] = 0.0
        function(flat_rows(turned), chosen, columns, runs, first, kept, row, values, tables)
    table = tables[0]
    i = ((t + 2) * scale).astype(int)
    j = ((x + np.float32(2)) * np.float32(scale)).astype(int)
    expected = np.zeros_like(table)
    np.add.at(expected, (i[here], j[here]), np.column_stack([w, r])[here])
    np.testing.assert_allclose(table, expected, atol=1e-12)


@either(occupied_cells)
def test_cells_that_are_not_empty(function):
    tables = np.zeros((2, 3, 4, 2))
    tables[0, 0, 2] = 1.0, 0.0
    tables[0, 2, 1] = 0.0, -2.0
    tables[1, 1, 3] = 3.0, 4.0
    count, ends = count_cells if function is occupied_cells else count_cells.py_func, np.zeros(3)
    count(tables, ends)
    assert ends.tolist() == [0, 2, 3]
    s, z, pair = np.empty(3), np.empty(3), np.empty((3, 2))
    function(tables, np.arange(3.0), np.arange(8.0).reshape(2, 4), 10.0, s, z, pair)
    assert s.tolist() == [0, 2, 1]
    assert z.tolist() == [2, 1, 7]
    assert pair.tolist() == [[10, 0], [0, -20], [30, 40]]


def test_runs_of_a_block_are_those_of_its_span():
    rows = range(700, 700 + 20_000)
    runs = runs_for_tables(rows, 0.4)
    part = slice(8192, 16_384)
    own = runs_for_tables(rows[part], 0.4)
    np.testing.assert_array_equal(runs_within(runs, part), own)
