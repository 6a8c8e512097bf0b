"""What a fit needs: the largest choices that there can be, each of them once."""

import numpy as np
import pytest

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.passes.fold import RowState
from streamlearn.shareboost.reads import GRAM_ROWS, fetch_fold
from streamlearn.shareboost.selection.candidates import SingleColumns

P = 12
GROUPS = np.array([0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6])


def size(**parameters):
    data = sl.open_dataset(np.zeros((1_000, P), np.float32))
    return sl.ShareBoostClassifier(**parameters)._size(data)


@pytest.mark.parametrize("n, stored", [(1, 5), (2, 7), (4, 9), (7, 12), (40, 12)])
def test_each_group_is_selected_once(n, stored):
    made = size(n_selected=n, groups=GROUPS)
    assert made.n_stored == made.n_features == stored
    assert made.shortlist == P  # all columns are fewer than a read may fetch


@pytest.mark.parametrize("kind, most", [("columns", P), ("products", P * (P - 1) // 2)])
def test_no_more_is_fetched_than_there_is(kind, most):
    assert size(candidates=kind, columns_per_pass=100).shortlist == most


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
