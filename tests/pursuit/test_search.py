"""Steps of all columns at once against each column's own, written down plainly."""

from functools import partial

import numpy as np
import pytest

from streamlearn.numeric.bases.means import Pieces
from streamlearn.numeric.rows.dense import flat_rows
from streamlearn.passes.summary.counts.quantiles import Cdf, quantiles
from streamlearn.pursuit.boosting.kernels import bins_of_columns
from streamlearn.pursuit.boosting.reads import score_bins
from streamlearn.pursuit.kernels import N_CELLS, ScaledColumns, dot_columns, scale_columns
from streamlearn.pursuit.regression.kernels_splines import add_splines, splines_of_columns
from streamlearn.pursuit.regression.kernels_supsmu import counts_of_columns
from streamlearn.pursuit.regression.reads import score_steps
from streamlearn.pursuit.regression.smoothers import PSpline
from streamlearn.pursuit.regression.supsmu import SuperSmoother
from streamlearn.pursuit.search import (
    COARSE,
    FINE,
    N_FINE,
    N_TRIALS,
    Cells,
    Strength,
    Trial,
    best_steps,
    score_moves,
)
from streamlearn.pursuit.tables import cells_of, empty_tables, steepest

TAILS = 0.001, 0.999


def either(function):
    return pytest.mark.parametrize("function", [function, getattr(function, "py_func", function)])


def scaled(X):
    """Columns on their own scale, whose cells' means are their middles."""
    low, high = X.min(0), X.max(0)
    scale = np.where(X.std(0) > 0, X.std(0), np.inf)
    middle = low[:, None] + (high - low)[:, None] * (np.arange(N_CELLS) + 0.5) / N_CELLS
    return ScaledColumns(
        low, high, X.mean(0), scale, (middle - X.mean(0)[:, None]) / scale[:, None]
    )


def drawn(n, p=11, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, 1] = np.round(X[:, 1])  # few cells
    return X, np.sin(2 * X[:, 0]) + X[:, 2] + 0.3 * rng.standard_normal(n), rng.random(n) + 0.5


def tables_at(X, columns, trial, pair):
    """Tables of pairs by (alpha'z, z_m), from rows in hand."""
    Z = (X - columns.center) / columns.scale
    t = Z @ trial.alpha
    state = empty_tables(X.shape[1])
    i = np.clip((t - trial.low) * (N_CELLS / (trial.high - trial.low)), 0, N_CELLS - 1).astype(int)
    np.add.at(state["places"], i, np.column_stack([np.ones(len(t)), t]))
    for m in range(X.shape[1]):
        share = (X[:, m] - columns.low[m]) / (columns.high[m] - columns.low[m])
        j = np.clip(share * N_CELLS, 0, N_CELLS - 1).astype(int)
        np.add.at(state["cells"][m], (i, j), pair)
    return state


def plain_cells(state, columns, m, trial, scale):
    """The occupied cells of one column's table, and those for coarse steps."""
    reach = np.array(
        [trial.high - trial.low, (columns.high[m] - columns.low[m]) / columns.scale[m]]
    )
    reach = reach / (2 * N_CELLS)

    def places(places):
        n = len(places)
        middle = trial.low + (trial.high - trial.low) / n * (np.arange(n) + 0.5)
        return np.where(places[:, 0] > 0, places[:, 1] / np.maximum(places[:, 0], 1e-300), middle)

    def occupied(s, z, table, reach):
        i, j = np.nonzero(table.any(axis=2))
        ends = np.array([0, len(i)])
        return Cells(np.array([m]), ends, s[i], z[j], scale * table[i, j], reach[None])

    table = state["cells"][m]
    cells = occupied(places(state["places"]), columns.means[m], table, reach)
    if len(cells.s) <= N_CELLS**2 // 4:
        return cells, cells
    twos = table[::2] + table[1::2]
    s = places(state["places"].reshape(-1, 2, 2).sum(1))
    z = columns.means[m].reshape(-1, 2).mean(1)
    return cells, occupied(s, z, twos[:, ::2] + twos[:, 1::2], 2 * reach)


def plain_best_step(alpha, m, cells, steps, cost_of, strength, penalty):
    """The best of a_m + steps, of a_m = 0 and of no step of one column, and the step."""
    others = np.delete(alpha, m)
    shifts = np.append(steps, [-alpha[m], 0.0])
    values = alpha[m] + shifts
    values[np.abs(values) < 1e-9] = 0.0
    if not others.any():
        shifts, values = shifts[values != 0], values[values != 0]
    cost, low, high, fits = cost_of(cells, np.zeros(len(shifts), np.intp), shifts)
    rest = np.broadcast_to(others[others != 0], (len(values), np.count_nonzero(others)))
    total = cost + strength.of(np.column_stack([rest, values]), penalty)
    k = int(total.argmin())
    new = alpha.copy()
    new[m] = round(float(values[k]), 10)
    largest = 1.0 if penalty == "paper" else float(np.abs(new).max())
    change = float(total[k] - total[-1])
    return Trial(new / largest, low[k] / largest, high[k] / largest, fits[k], change), shifts[k]


def plain_moves(alpha, tables, cost_of, strength, penalty):
    """`score_moves` from (column, cells, coarse cells), a column at a time."""
    found = [
        (*plain_best_step(alpha, m, coarse, COARSE, cost_of, strength, penalty), m, cells)
        for m, cells, coarse in tables
    ]
    found.sort(key=lambda f: (f[0].predicted, f[2]))
    fine = [
        plain_best_step(alpha, m, cells, shift + FINE, cost_of, strength, penalty)[0]
        for _, shift, m, cells in found[:N_FINE]
    ]
    fine.sort(key=lambda t: t.predicted)
    return tuple(t for t in fine[: 2 * N_TRIALS] if t.predicted < 0)


COSTS = {
    "splines": partial(score_steps, PSpline(16), 900.0, 1e3),
    "running lines": partial(score_steps, SuperSmoother(32), 900.0, 1e3),
    "histograms": partial(score_bins, 13, 0.02),
}
ALPHAS = {"one column": [3], "three": [0, 3, 7], "all": range(11)}


@pytest.mark.parametrize("penalty", ["scale-free", "paper"])
@pytest.mark.parametrize("used", ALPHAS)
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("n", [40, 6000])
def test_steps_of_all_columns_are_those_of_each(cost, used, penalty, n):
    """To rounding: the penalty of a direction is summed over a zero more."""
    X, r, w = drawn(n)
    columns, alpha = scaled(X), np.zeros(11)
    alpha[list(ALPHAS[used])] = np.linspace(1.0, -0.5, len(ALPHAS[used]))
    t = (X - columns.center) / columns.scale @ alpha
    trial = Trial(alpha, t.min(), t.max(), np.empty(0))
    pair = np.column_stack([w, w * r]) if cost != "histograms" else np.eye(2)[(r > 0).astype(int)]
    state = tables_at(X, columns, trial, pair)
    every = np.arange(11)
    cells, coarse = cells_of(state, columns, every, trial, 1.5)
    each = [(m, *plain_cells(state, columns, m, trial, 1.5)) for m in every]
    assert (len(coarse.s) < len(cells.s)) == (n == 6000)
    for k in range(11):
        own, expected = slice(*cells.ends[k : k + 2]), each[k][1]
        np.testing.assert_array_equal(cells.s[own], expected.s)
        np.testing.assert_array_equal(cells.z[own], expected.z)
        np.testing.assert_array_equal(cells.pair[own], expected.pair)
    strength = Strength(20.0, 2.0) if cost != "histograms" else Strength(0.02, 0.001)
    steps = np.tile(COARSE, (11, 1))
    at = np.argsort(coarse.columns)
    found = best_steps(alpha, coarse, at, steps, COSTS[cost], strength, penalty)
    for m, _, own in each:
        one, shift = plain_best_step(alpha, m, own, COARSE, COSTS[cost], strength, penalty)
        assert found.shift[m] == shift
        assert found.change[m] == pytest.approx(one.predicted, abs=1e-9 * abs(20.0))
    moves = score_moves(alpha, cells, coarse, COSTS[cost], strength, penalty)
    expected = plain_moves(alpha, each, COSTS[cost], strength, penalty)
    assert len(moves) == len(expected)
    for move, other in zip(moves, expected, strict=True):
        np.testing.assert_array_equal(move.alpha, other.alpha)
        np.testing.assert_allclose(move.theta, other.theta, rtol=1e-12)
        assert move[1:3] == pytest.approx(other[1:3], rel=1e-14)
        assert move.predicted == pytest.approx(other.predicted, rel=1e-9)


def test_columns_of_the_next_tables():
    """Those in use, then those of steepest cost without its part along alpha, then the first."""
    slopes, alpha = np.array([3.0, -5.0, 1.0, 0.0, 5.0, 9.0]), np.zeros(6)
    alpha[3] = 1.0
    live = np.array([0, 1, 2, 3, 4])
    assert steepest(slopes, alpha, live, 3).tolist() == [1, 3, 4]
    assert steepest(slopes, alpha, live, 2).tolist() == [1, 3]
    assert steepest(None, alpha, live, 2).tolist() == [0, 3]
    assert steepest(slopes, alpha, live, 5).tolist() == live.tolist()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "function", [bins_of_columns, dot_columns, splines_of_columns, counts_of_columns]
)
@pytest.mark.parametrize("compiled", [True, False])
def test_sums_by_each_column(function, compiled, order):
    X, r, w = drawn(60)
    columns, live = scaled(X), np.array([0, 1, 4])
    columns.scale[:] *= 1.5
    Z = (X - columns.center) / columns.scale
    rows, call = flat_rows(np.asarray(X, order=order)), function if compiled else function.py_func
    if function is dot_columns:
        found = np.ones(11)
        call(rows, live, columns, w, found)
        expected = np.ones(11)
        expected[live] += w @ Z[:, live]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        return
    band = {splines_of_columns: 4, counts_of_columns: 1}.get(function, 0)
    gram, moment = np.zeros((3, 9, band)), np.zeros((3, 9))
    sums = np.zeros((3, 9, 2))
    if function is bins_of_columns:
        call(rows, live, columns, np.column_stack([w, r]), sums)
    else:
        call(rows, live, columns, w, r, gram, moment)
    for k, m in enumerate(live):
        low, high = (
            (of[m] - columns.center[m]) / columns.scale[m] for of in (columns.low, columns.high)
        )
        if function is splines_of_columns:
            G, b = np.zeros((9, 4)), np.zeros(9)
            add_splines(Z[:, m].copy(), low, high, w, r, G, b)
            np.testing.assert_allclose(gram[k], G, atol=1e-12)
            np.testing.assert_allclose(moment[k], b, atol=1e-12)
            continue
        place = np.clip(((Z[:, m] - low) / (high - low) * 9).astype(int), 0, 8)
        own = (gram[k, :, 0], moment[k]) if band else sums[k].T
        np.testing.assert_allclose(own[0], np.bincount(place, w, 9), atol=1e-12)
        np.testing.assert_allclose(own[1], np.bincount(place, r, 9), atol=1e-12)


def plain_scaling(least, most, cdf, standardize):
    """The scaling of one column by its distribution function, with numpy."""
    low, high = quantiles(cdf, np.array(TAILS)) if len(cdf.lo) else (0.0, 0.0)
    if not low < high:
        low, high = (least, most) if len(cdf.lo) else (0.0, 0.0)
    width = high - low
    if not (0 < width < np.inf):
        return low, high, low, np.inf, np.zeros(N_CELLS)
    share = (np.arange(4) + 0.5) / 4
    x = np.clip(cdf.lo[:, None] * (1 - share) + cdf.hi[:, None] * share, low, high).ravel()
    mass = np.repeat(cdf.mass / 4, 4)
    center = float(mass @ (x / mass.sum()))
    scale = float(np.sqrt(mass @ (((x - center) / width) ** 2) / mass.sum())) * width
    if not scale > 0:
        return low, high, low, np.inf, np.zeros(N_CELLS)
    scale = scale if standardize else 1.0
    cell = np.minimum((x - low) * (N_CELLS / width), N_CELLS - 1).astype(np.intp)
    sums = np.bincount(cell, mass, N_CELLS), np.bincount(cell, mass * ((x - low) / width), N_CELLS)
    middle = (np.arange(N_CELLS) + 0.5) / N_CELLS
    mean = np.where(sums[0] > 0, sums[1] / np.where(sums[0] > 0, sums[0], 1.0), middle)
    return low, high, center, scale, (low + width * mean - center) / scale


INF = np.array([np.inf])
DISTRIBUTIONS = {
    "none": Cdf(*np.empty((3, 0))),
    "missing": Cdf(INF, INF, np.ones(1)),
    "one value": Cdf(np.array([7.0]), np.array([7.0]), np.array([3.0])),
    "a rare value": Cdf(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([1e5, 1.0])),
    "pieces": Cdf(np.array([-1.0, 0.0, 2.0]), np.array([-0.5, 0.0, 3.0]), np.array([5, 9, 7.0])),
    "an empty piece": Cdf(np.array([0.0, 1, 4]), np.array([1.0, 1, 9]), np.array([2.0, 0, 3])),
    "far and narrow": Cdf(1e12 + np.arange(5.0), 1e12 + np.arange(5.0), np.arange(1.0, 6)),
    "too wide": Cdf(np.array([-1.7e308, 1.0]), np.array([0.0, 1.7e308]), np.ones(2)),
    "values and missing": Cdf(
        np.array([1.0, 2.0, np.inf]), np.array([1.0, 2.0, np.inf]), np.ones(3)
    ),
}


@either(scale_columns)
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.filterwarnings("ignore:overflow")
def test_scaling_of_all_columns_is_that_of_each(function, standardize):
    """To rounding: numpy sums in pairs, the kernel with what rounding took off."""
    cdfs = list(DISTRIBUTIONS.values())
    least = np.array([cdf.lo[0] if len(cdf.lo) and np.isfinite(cdf.lo[0]) else 0.0 for cdf in cdfs])
    most = np.array(
        [cdf.hi[np.isfinite(cdf.hi)].max(initial=least[k]) for k, cdf in enumerate(cdfs)]
    )
    columns = ScaledColumns(*np.full((4, len(cdfs)), np.nan), np.full((len(cdfs), N_CELLS), np.nan))
    function(Pieces.of(cdfs), least, most, TAILS, standardize, columns)
    for k, (name, cdf) in enumerate(DISTRIBUTIONS.items()):
        there = np.isfinite(cdf.lo)
        expected = plain_scaling(least[k], most[k], Cdf(*(a[there] for a in cdf)), standardize)
        # the mean's rounding, in units of z
        atol = 1e-12 + 8 * np.finfo(float).eps * max(np.abs(expected[:2])) / expected[3]
        for found, own in zip(columns, expected, strict=True):
            np.testing.assert_allclose(found[k], own, rtol=1e-9, atol=atol, err_msg=name)
