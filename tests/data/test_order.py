"""Draws from row numbers and seeds: pure, so tested without any data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlearn.data.order import (
    HashShare,
    Order,
    derive_seed,
    exact_share,
    kept_rows,
    row_hash,
    row_share,
)

MASK = 2**64 - 1


def splitmix(z):
    """The finaliser in Python's integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@given(st.integers(0, 2**62), st.integers(0, 2**40))
def test_hash_is_splitmix64_of_row_and_seed(row, seed):
    golden = 0x9E3779B97F4A7C15
    stream = splitmix((seed * golden + 1) & MASK)
    want = splitmix(((row + 1) * golden + stream) & MASK)
    assert int(row_hash(range(row, row + 1), seed)[0]) == want


def test_hash_of_a_range_is_that_of_its_numbers_and_argument_is_kept():
    rows = np.arange(5, 5000, 3)
    kept = rows.copy()
    np.testing.assert_array_equal(row_hash(range(5, 5000, 3), 7), row_hash(rows, 7))
    np.testing.assert_array_equal(rows, kept)


def test_shares_are_uniform_and_seeds_independent():
    a, b = row_share(range(100_000), 0), row_share(range(100_000), 1)
    assert 0 <= a.min() <= a.max() < 1
    counts = np.histogram(a, 20, (0, 1))[0]
    assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000)
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(100_000)
    # seeds next to each other are not shifted copies
    assert len(np.intersect1d(row_hash(range(1000), 0), row_hash(range(1000), 1))) == 0


def test_derived_seeds_differ():
    seeds = {derive_seed(s, p, q) for s in range(10) for p in range(10) for q in range(3)}
    assert len(seeds) == 300


@pytest.mark.parametrize("wanted", [1, 2, 999, 5000, 5001])
def test_exact_share_keeps_exactly_that_many(wanted):
    before = (HashShare(0.0, 0.5, 3),)
    n = 10_000
    high = exact_share(before, n, wanted, seed=9)
    have = kept_rows((*before, HashShare(0.0, high, 9)), n)
    assert have == min(wanted, kept_rows(before, n))


@given(st.integers(1, 40), st.integers(1, 7), st.integers(0, 5))
def test_groups_draw_each_ref_once(n_refs, group, seed):
    refs = [None] * n_refs
    groups = Order(seed, group).groups(refs, 2)
    assert sorted(i for g in groups for i in g) == list(range(n_refs))
    assert all(len(g) == group for g in groups[:-1])
    assert groups == Order(seed, group).groups(refs, 2)


def test_passes_and_seeds_have_other_orders():
    refs = [None] * 50
    drawn = {
        tuple(map(tuple, Order(seed, 4).groups(refs, k))) for seed in range(3) for k in range(3)
    }
    assert len(drawn) == 9


def test_labels_spread_a_sorted_file_over_the_groups():
    # 36 refs of class 0, then 12 of class 1: each group of four has one of class 1
    labels = np.zeros((48, 2))
    labels[:36, 0] = labels[36:, 1] = 100
    for group in Order(0, 4, labels).groups([None] * 48, 1):
        assert abs(labels[group].sum(axis=0)[1] - 100) <= 100
    every_eight = np.array(sum(Order(0, 8, labels).groups([None] * 48, 1), []))
    share = labels[every_eight].reshape(6, 8, 2).sum(axis=1)[:, 1] / 800
    assert share.min() >= 0.125
    assert share.max() <= 0.375


def test_labels_of_other_refs_are_refused():
    with pytest.raises(ValueError, match="labels of 3 refs for 4"):
        Order(0, 2, np.ones((3, 2))).groups([None] * 4, 0)
    with pytest.raises(ValueError, match="group=0 refs; a group holds at least one"):
        Order(0, 0)


@given(st.integers(0, 300), st.integers(1, 40))
def test_permutation_moves_whole_blocks(n_rows, block):
    order = Order(1, 4).permutation(n_rows, 2, 3, block)
    assert order.dtype == np.intp
    np.testing.assert_array_equal(np.sort(order), np.arange(n_rows))
    breaks = np.flatnonzero(np.diff(order) != 1) + 1
    assert all(order[i] % block == 0 for i in breaks)


def test_permutations_differ_by_seed_pass_and_group():
    drawn = {
        Order(s, 1).permutation(200, k, g, 1).tobytes()
        for s in range(3)
        for k in range(3)
        for g in range(3)
    }
    assert len(drawn) == 27
