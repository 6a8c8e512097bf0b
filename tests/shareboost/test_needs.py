"""What a fit needs: the largest choices that there can be, each of them once."""

from unittest.mock import patch

import numpy as np
import pytest

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.passes.fold import RowState
from streamlearn.shareboost.reads import GRAM_ROWS, fetch_fold
from streamlearn.shareboost.selection.candidates import SingleColumns
from streamlearn.shareboost.side import Side

P = 12
GROUPS = np.array([0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6])


def size(**parameters):
    data = sl.open_dataset(np.zeros((1_000, P), np.float32))
    return sl.ShareBoostClassifier(**parameters)._size(data)


@pytest.mark.parametrize("n, stored", [(1, 5), (2, 7), (4, 9), (7, 12), (40, 12)])
def test_each_group_is_selected_once(n, stored):
    made = size(n_selected=n, groups=GROUPS)
    assert made.n_stored == made.n_features == stored
    # "auto" selects one at a time until there are nine, and then three are offered for each
    assert made.shortlist == (5 if n < 10 else P)


@pytest.mark.parametrize("kind, most", [("columns", P), ("products", P * (P - 1) // 2)])
def test_no_more_is_fetched_than_there_is(kind, most):
    assert size(candidates=kind, n_selected=100, columns_per_pass=100).shortlist == most


WIDE = 30
"""Columns, more than any shortlist of these fits."""


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("rule", ["scale-free", "lookahead"])
@pytest.mark.parametrize("n, at_once", [(3, "auto"), (10, "auto"), (5, 2), (3, 8), (12, 4)])
def test_a_shortlist_is_planned_as_the_longest_that_a_fit_writes(n, at_once, rule, prune):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, WIDE)).astype(np.float32)
    y = (X @ rng.standard_normal(WIDE) + rng.standard_normal(400) > 0).astype(int)
    model = sl.ShareBoostClassifier(
        n, columns_per_pass=at_once, rule=rule, prune=prune, tol=1e-9, random_state=0
    )
    widths = []

    def spied(*given):
        widths.append(given[3].width)
        return fetch_fold(*given)

    with patch("streamlearn.shareboost.training.fetch_fold", spied):
        model.fit(X, y)
    assert max(widths) == model._size(sl.open_dataset(X)).shortlist < WIDE


@pytest.mark.parametrize("kind", ["pieces", "soft-pieces", "stumps", "products"])
def test_one_candidate_at_a_time_is_a_shortlist_of_one(kind):
    assert size(candidates=kind, n_selected=3).shortlist == 1


def test_correlations_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    X = rng.random((2 * GRAM_ROWS + 100, 3), dtype=np.float32)
    weight = rng.random(len(X))
    state = RowState("fetched", "float32", 3)
    fold = fetch_fold(SingleColumns(), [0, 1, 2], [(0,), (1,), (2,)], state, weight.sum())
    chunk = Chunk(X, None, weight, range(len(X)), {"fetched": np.empty_like(X)})
    found = fold.finish(fold.step(fold.start(), chunk))
    np.testing.assert_array_equal(chunk.state["fetched"], X)
    centred = X - np.average(X, axis=0, weights=weight)
    cov = (centred * weight[:, None]).T @ centred.astype(float)
    scale = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(found, cov / np.outer(scale, scale), atol=1e-12)


def test_the_side_store_in_memory_is_counted_with_the_rows_left_out():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 4)).astype(np.float32)
    table = {f"x{j}": X[:, j] for j in range(4)} | {"y": (X[:, 0] > 0).astype(np.int8)}
    _, train = sl.open_dataset(table, target="y").split(0.9)
    sides = []
    load = Side._load

    def spied(side):
        load(side)
        sides.append(side)

    with patch.object(Side, "_load", spied):
        model = sl.ShareBoostClassifier(3, random_state=0).fit(train)
    (side,) = sides
    held = sum(values.nbytes for chunk in side._chunks for values in chunk.state.values())
    planned = [t.total_bytes for t in dict(model.plan_.terms)["correct"] if "cached" in t.label]
    assert planned
    assert held <= planned[0] <= 1.5 * held
