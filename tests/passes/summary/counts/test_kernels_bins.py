"""Bins of every column are as fine as its range lets them be, whatever the order of its rows."""

import numpy as np
import pytest
from passes.summary.columns_kit import hard_columns

from streamlearn.data.source import Chunk
from streamlearn.passes.summary.columns import add_columns, columns_of, empty_columns, merge_columns
from streamlearn.passes.summary.counts import kernels, kernels_bins
from streamlearn.passes.summary.counts.kernels_bins import (
    COARSEST,
    HALF,
    LEAST,
    MOST,
    MOST_BINS,
    N_BINS,
    cut_value,
    edges_of,
    join_ring,
    level_of,
    occupied,
    place_values,
)

COLUMNS = hard_columns(3000, np.float64)
MANY = [name for name, x in COLUMNS.items() if len(np.unique(x)) > 256]


def python(function):
    """The function that is compiled."""
    return getattr(function, "py_func", function)


def magnitudes(x):
    bits = np.abs(np.asarray(x, np.float64)).view(np.int64)
    return [min(max(int(b), int(LEAST)), int(MOST)) for b in bits]


def expected(x, weight=None):
    """The level, and number -> count of the bins, in integers of any length."""
    x = x.astype(np.float64)
    weight = np.ones(len(x), int) if weight is None else weight
    if len(np.unique(x)) <= 256:
        return 0, {}
    level = 0
    sides = {sign: magnitudes(x[sign * x > 0]) for sign in (-1, 1)}
    sides = {sign: side for sign, side in sides.items() if side}
    while level < COARSEST and any(
        (max(side) >> level) - (min(side) >> level) >= MOST_BINS for side in sides.values()
    ):
        level += 1
    counts = {}
    for sign, side in sides.items():
        top = max(side) >> level
        for m, w in zip(side, weight[sign * x > 0], strict=True):
            number = N_BINS - 1 - (top - (m >> level)) if sign > 0 else top - (m >> level)
            counts[number] = counts.get(number, 0) + w
    return level, dict(sorted(counts.items()))


def counted(state):
    many = state["bin_of"] >= 0
    ends = np.zeros(len(many) + 1, np.intp)
    numbers, counts = np.empty(10**6, np.uint16), np.empty(10**6, state["bins"].dtype)
    occupied(columns_of(state), many, state["bins"], ends, numbers, counts)
    return [
        (int(level), dict(zip(numbers[a:z].tolist(), counts[a:z].tolist(), strict=True)))
        for level, a, z in zip(state["level"], ends[:-1], ends[1:], strict=True)
    ]


def state_of(X, weight=None):
    return add_columns(
        empty_columns(X.shape[1], weight is not None),
        Chunk(X, weight=weight, rows=range(len(X))),
    )


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of hashes, as Python
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_any_order_and_any_tree_give_the_bins_of_the_definition(dtype, weighted):
    X = np.stack([COLUMNS[name] for name in MANY], axis=1).astype(dtype)
    rng = np.random.default_rng(0)
    w = rng.integers(0, 4, len(X)).astype(float) if weighted else None
    kept = slice(None) if w is None else w > 0
    wanted = [expected(x[kept], None if w is None else w[kept]) for x in X.T]
    assert counted(state_of(X, w)) == wanted
    for trial in range(4):
        order = np.argsort(np.abs(X[:, trial])) if trial < 2 else rng.permutation(len(X))
        cuts = np.sort(rng.integers(0, len(X), 7))
        parts = [
            state_of(X[rows], None if w is None else w[rows]) for rows in np.split(order, cuts)
        ]
        while len(parts) > 1:
            k = rng.integers(len(parts) - 1)
            parts[k : k + 2] = [merge_columns(parts[k], parts[k + 1])]
        assert counted(parts[0]) == wanted


@pytest.mark.parametrize("name", MANY)
def test_a_column_has_the_finest_bins_that_it_has_room_for(name):
    """A thousand places of each sign, or 1/32 of the value: at one level less it has no room."""
    level, _ = expected(COLUMNS[name])
    sides = [magnitudes(COLUMNS[name][sign * COLUMNS[name] > 0]) for sign in (-1, 1)]
    most = max((max(side) >> level) - (min(side) >> level) + 1 for side in sides if side)
    assert most <= MOST_BINS or (level == COARSEST and most <= HALF)
    assert most > MOST_BINS // 2 or level == 0


def test_levels_and_places_compiled_and_as_python():
    values = np.array([-3e300, -7.25, -1e-320, 1e-320, 0.3, 5.0, 1e300])
    for low, below, above, high in ((-7.25, -0.5, 0.3, 5.0), (0.0, -np.inf, 5.0, 5.5),
                                    (-3e300, -1e-320, 1e-320, 1e300)):  # fmt: skip
        levels = {f(np.int64(0), low, below, above, high) for f in (level_of, python(level_of))}
        assert len(levels) == 1
    for level in (np.int64(20), np.int64(47)):
        for value in values:
            assert cut_value(value, level) == python(cut_value)(value, level)
            assert abs(cut_value(value, level)) <= max(abs(value), 2.0**-126)
    found = []
    for function in (place_values, python(place_values)):
        places = np.empty(len(values), np.uint16)
        function(values, np.array([0, 7]), np.array([47]), values[:1], values[-1:], places)
        found.append(places.tolist())
    assert found[0] == found[1] == sorted(found[0])
    for value, place in zip(values, found[0], strict=True):
        lower, upper = edges_of(np.int64(place), np.int64(47), values[0], values[-1])
        same = python(edges_of)(np.int64(place), np.int64(47), values[0], values[-1])
        assert (lower, upper) == same
        assert min(lower, 2.0**128) <= value or value < -(2.0**128)
        assert value <= upper or value > 2.0**128


def test_rings_are_joined_compiled_and_as_python():
    rng = np.random.default_rng(0)
    first, last = 5 * HALF + HALF - 700, 5 * HALF + HALF + 600  # around the end of the ring
    for function in (join_ring, python(join_ring)):
        ring = np.zeros(HALF, np.int64)
        numbers = np.arange(first, last + 1)
        counts = rng.integers(0, 5, len(numbers))
        ring[numbers % HALF] = counts
        function(ring, first << 3, (last << 3) + 7, np.int64(3), np.int64(5))
        joined = np.zeros(HALF, np.int64)
        np.add.at(joined, (numbers >> 2) % HALF, counts)
        np.testing.assert_array_equal(ring, joined)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("level", [20, 29, 40, 46, 47])
def test_a_tile_is_placed_as_its_values_are(dtype, level):
    rng = np.random.default_rng(level)
    plain = rng.standard_normal(100).astype(dtype)
    extreme = np.array([0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 1.0], dtype)
    limits = kernels.make_limits(dtype)
    for values in (plain, np.concatenate([plain, extreme])):
        bits = values.view(kernels.integers_of(dtype))
        scans = [f(bits, limits.magnitude, limits.shift)
                 for f in (kernels.scan_bits, python(kernels.scan_bits))]  # fmt: skip
        assert scans[0] == scans[1]
        top, near, _, _, zeros = scans[0]
        own = np.abs(values[values != 0])
        ends = np.array([near, top]).astype(bits.dtype).view(dtype)
        np.testing.assert_array_equal(ends, [own.min(), own.max()])
        nearest = [f(bits, limits.magnitude)
                   for f in (kernels.scan_nearest, python(kernels.scan_nearest))]  # fmt: skip
        assert nearest[0] == nearest[1]
        below, above = np.array(nearest[0]).astype(bits.dtype).view(dtype)
        assert (-below, above) == (values[values < 0].max(), values[values > 0].min())
        ring_place = kernels_bins.ring_place
        for f in (kernels.find_bins, python(kernels.find_bins)):
            where = np.empty(len(values), np.uint16)
            f(bits, near, top, zeros, np.int64(level), limits, where)
            wanted = [ring_place(x, np.int64(level)) if x != 0 else -1 for x in values.tolist()]
            np.testing.assert_array_equal(np.where(values == 0, -1, where.astype(int)), wanted)
            assert (where[values == 0] >= N_BINS).all()
