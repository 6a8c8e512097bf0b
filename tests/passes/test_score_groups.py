"""Groups of scores: exact while few, the same however the rows are cut, never too many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlearn.passes.score_groups import grouped_scores, merge_groups


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 3, n)
    return score, rng.random(n) < 0.4, rng.integers(0, 3, n).astype(float)


def test_few_scores_are_kept_apart():
    score = np.array([0.5, -1.0, -0.0, 0.5, 1e-300, 0.0, -np.inf, 3.0, np.inf])
    y = np.array([1, 0, 1, 0, 1, 1, 0, 1, 0], bool)
    found = grouped_scores(score, y, np.arange(1.0, 10.0))
    assert found.dropped == 0
    assert found.positive.tolist() == [0, 0, 9, 5, 1, 8, 0]  # -inf, -1, 0, 1e-300, .5, 3, inf
    assert found.negative.tolist() == [7, 2, 0, 0, 4, 0, 9]


def test_rows_of_no_weight_are_absent():
    score, y, w = rows(200)
    some = w > 0
    for a, b in zip(
        grouped_scores(score, y, w, 16),
        grouped_scores(score[some], y[some], w[some], 16),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    none = grouped_scores(score, y, 0 * w)
    assert len(none.codes) == 0
    same = merge_groups(none, grouped_scores(score, y, w))
    np.testing.assert_array_equal(same.codes, grouped_scores(score, y, w).codes)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100), st.lists(st.integers(0, 300), max_size=4), st.sampled_from([4, 33, 99]))
def test_cuts_and_their_order_change_nothing(seed, cuts, most):
    score, y, w = rows(300, seed)
    whole = grouped_scores(score, y, w, most)
    assert len(whole.codes) <= most
    edges = [0, *sorted(cuts), 300]
    parts = [
        grouped_scores(score[a:z], y[a:z], w[a:z], most)
        for a, z in zip(edges[:-1], edges[1:], strict=True)
    ]
    for order in (parts, parts[::-1]):
        merged = order[0]
        for part in order[1:]:
            merged = merge_groups(merged, part, most)
        assert merged.dropped == whole.dropped
        for a, b in zip(merged[1:], whole[1:], strict=True):
            np.testing.assert_array_equal(a, b)  # whole weights add up without rounding


def test_groups_are_runs_of_the_ordered_scores():
    score, y, _ = rows(300)
    found = grouped_scores(score, y, np.ones(300), 40)
    order = np.argsort(score)
    ends = np.cumsum(found.positive + found.negative).astype(int)[:-1]
    parts = np.split(y[order], ends)
    np.testing.assert_array_equal(found.positive, [part.sum() for part in parts])
    assert found.dropped > 0
    fewer = merge_groups(found, found, 40)
    assert fewer.dropped == found.dropped
    assert 20 < len(fewer.codes) <= 40


@pytest.mark.parametrize("most", [1, 2])
def test_a_single_group(most):
    score, y, w = rows(50)
    found = grouped_scores(score, y, w, most)
    assert found.positive.sum() == (w * y).sum()
    assert len(found.codes) <= most
