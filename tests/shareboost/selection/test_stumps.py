"""Edges and bins of the search for stumps, against loops over columns."""

import numpy as np
import pytest

import streamlearn as sl
from streamlearn.shareboost.selection.kernels import running_sums
from streamlearn.shareboost.selection.stumps import N_BINS, first_edges, make_edges, peaks_of


@pytest.mark.parametrize("kernel", [running_sums, getattr(running_sums, "py_func", running_sums)])
def test_running_sums_are_those_of_each_column(kernel):
    rng, ends = np.random.default_rng(0), np.array([0, 3, 3, 4, 9])
    sums = rng.standard_normal((9, 4))
    wanted = [np.cumsum(sums[a:z], axis=0) for a, z in zip(ends[:-1], ends[1:], strict=True)]
    kernel(sums, ends)
    np.testing.assert_array_equal(sums, np.concatenate(wanted))


def test_first_edges_are_values_or_quantiles_of_each_column():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 6)).astype(np.float32)
    X[:, 1], X[:, 3] = rng.integers(0, 4, 900), 2.5
    X[:, 4] *= rng.random(900) < 0.2
    summary = sl.open_dataset(X).summary()
    edges = first_edges(summary, X.dtype)
    assert edges.value.dtype == X.dtype
    for d, x in enumerate(X.T):
        own, facts = edges.value[edges.column == d], summary.columns[d]
        if len(np.unique(x)) <= 256:
            np.testing.assert_array_equal(own, np.unique(x)[:-1])
        else:
            cuts = np.unique(facts.quantile(np.arange(1, N_BINS) / N_BINS).astype(X.dtype))
            np.testing.assert_array_equal(own, cuts[(cuts >= x.min()) & (cuts < x.max())])


def test_bins_of_some_columns_hold_their_edges_alone():
    column, value = np.array([4, 0, 4, 2, 0, 4]), np.array([3.0, 2.0, 1.0, 7.0, 1.0, 3.0])
    edges = make_edges(column, value)
    np.testing.assert_array_equal(edges.value, [1.0, 2.0, 7.0, 1.0, 3.0])  # one 3 of column 4
    bins = edges.bins(np.array([0, 4]))
    np.testing.assert_array_equal(bins.edges, [1.0, 2.0, 1.0, 3.0])
    np.testing.assert_array_equal(bins.first, [0, 3, 6])


def test_peaks_do_not_reach_over_the_end_of_a_column():
    score = np.array([1.0, 2.0, -np.inf, 3.0, 3.0, 1.0, -np.inf, 0.0, -np.inf])
    np.testing.assert_array_equal(np.flatnonzero(peaks_of(score)), [1, 4])
