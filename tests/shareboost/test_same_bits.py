"""Every kind of candidate ends at the same bits for any number of threads."""

import dask
import numpy as np
import pytest
from shareboost_kit import as_dataset, planted

import streamlearn as sl


@pytest.mark.parametrize(
    "kw",
    [
        {},
        {"candidates": "products"},
        {"candidates": "stumps"},
        {"candidates": "pieces", "n_anchors": 6, "n_radii": 3},
        {"candidates": "soft-pieces", "n_anchors": 6, "n_radii": 3},
        {"rule": "lookahead", "mixed_norm": 1e-3},
        {"groups": np.arange(9) // 3},
    ],
)
def test_threads(kw):
    X, y, _ = planted(2000, 9, columns=(1, 4))
    data = as_dataset(X.astype(np.float32), y, rows=100)
    models = []
    for threads in (1, 3):
        with dask.config.set(num_workers=threads):
            models.append(sl.ShareBoostClassifier(3, ridge=1e-3, **kw).fit(data))
    one, three = models
    assert three.choices_ == one.choices_
    np.testing.assert_array_equal(three.coef_, one.coef_)
    np.testing.assert_array_equal(three.path_["objective"], one.path_["objective"])
