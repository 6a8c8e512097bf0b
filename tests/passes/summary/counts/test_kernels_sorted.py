"""Runs and bins of sorted columns: what numpy counts, compiled and as Python."""

import numpy as np
import pytest

from streamlearn.passes.summary.counts.kernels_bins import N_BINS, place_values
from streamlearn.passes.summary.counts.kernels_sorted import bins_of_columns, runs_of_columns

COLUMNS = np.array(
    [
        [-np.inf, -2.0, -2.0, 0.0, 0.0, 5.0, np.inf, np.nan],
        [np.nan] * 8,
        [1.0] * 8,
        [-np.inf, -np.inf, -3.0, -1.0, 1e-45, 1.0, 1.0000001, np.inf],
    ]
)


def python(function):
    return getattr(function, "py_func", function)


def runs_of(V, function):
    at, lengths = np.zeros((2, V.size), np.intp)
    ends = np.zeros(len(V) + 1, np.intp)
    function(V, at, lengths, ends)
    return V.ravel()[at[: ends[-1]]], lengths[: ends[-1]], ends


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [runs_of_columns, python(runs_of_columns)])
def test_runs_are_the_distinct_finite_values_and_their_counts(function, dtype):
    V = COLUMNS.astype(dtype)
    values, lengths, ends = runs_of(V, function)
    for j, row in enumerate(V):
        own = slice(ends[j], ends[j + 1])
        wanted, counts = np.unique(row[np.isfinite(row)], return_counts=True)
        np.testing.assert_array_equal(values[own], wanted)
        np.testing.assert_array_equal(lengths[own], counts)
    assert ends[-1] == len(values)


@pytest.mark.parametrize("function", [runs_of_columns, python(runs_of_columns)])
def test_no_rows_have_no_runs(function):
    values, _, ends = runs_of(np.empty((3, 0)), function)
    assert not len(values)
    assert not ends.any()


@pytest.mark.parametrize("function", [bins_of_columns, python(bins_of_columns)])
@pytest.mark.parametrize("level", [45, 47])
def test_bins_are_those_of_single_values_joined(function, level):
    V = np.sort(np.random.default_rng(0).normal(size=(3, 60)) * [[1e-3], [1.0], [1e9]], axis=1)
    V[0, 20:30] = 0.0
    V[0].sort()
    values, _, ends = runs_of(V, python(runs_of_columns))
    few, levels = np.array([False, True, False]), np.full(3, level)
    n = len(values)
    inside, numbers, lengths = np.zeros(n, bool), np.empty(n, np.uint16), np.empty(n, np.intp)
    bin_ends, low, high = np.zeros(4, np.intp), V.min(axis=1), V.max(axis=1)
    function(values, ends, few, levels, low, high, inside, numbers, lengths, bin_ends)
    known = np.repeat(few, np.diff(ends))
    np.testing.assert_array_equal(inside, ~known & (values != 0.0))
    assert bin_ends[1] == bin_ends[2]
    assert lengths[: bin_ends[-1]].sum() == inside.sum()
    each = np.empty(int(inside.sum()), np.uint16)
    kept = [int(inside[ends[j] : ends[j + 1]].sum()) for j in range(3)]
    python(place_values)(values[inside], np.cumsum([0, *kept]), levels, low, high, each)
    np.testing.assert_array_equal(np.repeat(numbers[: bin_ends[-1]], lengths[: bin_ends[-1]]), each)
    for j in (0, 2):
        own = numbers[bin_ends[j] : bin_ends[j + 1]].astype(int)
        assert (np.diff(own) > 0).all()
        assert 0 <= own[0]
        assert own[-1] < N_BINS
