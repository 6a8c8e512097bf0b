"""Measures of ranked rows against scikit-learn and by hand, and their errors by brute force."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from streamlearn.numeric.ranking import area_under_roc, average_precision, lift

MEASURES = {
    "roc_auc": area_under_roc,
    "average_precision": average_precision,
    **{f"lift-{part}": partial(lift, part=part, n_parts=4) for part in (1, 2, 4)},
}


def lift_by_hand(y, part, n_parts):
    """Rows in falling order of their scores, each of weight 1 and none equal."""
    n = len(y) / n_parts
    return y[round((part - 1) * n) : round(part * n)].mean() / y.mean()


@pytest.mark.parametrize("seed", range(5))
def test_rows_with_ties_and_weights_as_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    score, y, w = rng.integers(0, 12, 200), rng.random(200) < 0.3, rng.random(200)
    groups = [score == value for value in np.unique(score)]
    positive = np.array([w[g & y].sum() for g in groups])
    negative = np.array([w[g & ~y].sum() for g in groups])
    expected = roc_auc_score(y, score, sample_weight=w)
    assert area_under_roc(positive, negative).value == pytest.approx(expected, rel=1e-12)
    expected = average_precision_score(y, score, sample_weight=w)
    assert average_precision(positive, negative).value == pytest.approx(expected, rel=1e-12)


def test_lift_by_hand():
    y = np.random.default_rng(1).random(40) < 0.4
    up = y[::-1].astype(float)
    for part in range(1, 11):
        found = lift(up, 1.0 - up, part)
        assert found.value == pytest.approx(lift_by_hand(y, part, 10), rel=1e-12, abs=1e-12)
        assert found.error == pytest.approx(0.0, abs=1e-12)
    together = lift(np.array([12.0]), np.array([18.0]), 3)
    assert together.value == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("sizes", [(4, 4), (2, 3, 3), (1, 6, 1), (5, 3)])
def test_no_order_within_groups_is_further_off_than_the_error(name, sizes):
    measure = MEASURES[name]
    edges = np.cumsum((0, *sizes))
    seen = errors = 0.0
    for labels in np.random.default_rng(3).random((6, 8)) < 0.5:
        if labels.all() or not labels.any():
            continue
        sums = np.array([labels[a:z].sum() for a, z in zip(edges[:-1], edges[1:], strict=True)])
        grouped = measure(sums.astype(float), np.array(sizes) - sums.astype(float))
        for order in permutations(range(sizes[-1])):  # of the last group; one other is reversed
            rows = labels.copy()
            rows[edges[-2] :] = labels[edges[-2] :][list(order)]
            rows[: edges[1]] = np.sort(labels[: edges[1]])[:: 1 - 2 * (order[0] % 2)]
            y = rows.astype(float)
            apart = measure(y, 1.0 - y)
            assert abs(apart.value - grouped.value) <= grouped.error + 1e-12
            seen = max(seen, abs(apart.value - grouped.value))
            errors = max(errors, grouped.error)
    # the orders did differ, but where a part is just a group
    assert seen > 0.01 or errors < 1e-12


@pytest.mark.parametrize("name", MEASURES)
def test_rows_of_one_class_define_nothing(name):
    for sums in ((np.ones(3), np.zeros(3)), (np.zeros(3), np.ones(3)), (np.ones(0), np.ones(0))):
        assert np.isnan(MEASURES[name](*sums).value)
