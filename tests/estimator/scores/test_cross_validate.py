"""Cross-validation by row hash: scores as by hand, reads counted, folds disjoint."""

import dask.array as da
import numpy as np
import pytest
from estimator.ridge import RidgeClassifier, RidgeRegressor
from sklearn.metrics import log_loss, r2_score

import streamlearn as sl
from streamlearn.data.order import row_share
from streamlearn.solvers.splits import split_shares

NAMES = ["a", "b", "c"]


def test_scores_as_by_hand(table, parquet):
    X, _, z = table
    data = sl.open_dataset(parquet, target="z", features=NAMES)
    grid = {"C": [1e-4, 1.0]}
    result = sl.cross_validate(RidgeRegressor(), data, cv=3, param_grid=grid, seed=4)
    share = row_share(range(500), split_shares(3, 4)[1])
    for fold in range(3):
        test = (share >= fold / 3) & (share < (fold + 1) / 3)
        for k, C in enumerate(grid["C"]):
            model = RidgeRegressor(C=C).fit(X[~test], z[~test])
            expected = r2_score(z[test], model.predict(X[test]))
            assert result.scores[k, fold] == pytest.approx(expected, rel=1e-9)
    assert result.best_parameters == {"C": 1.0}
    assert result.n_score_passes == 1
    assert result.n_passes == 2 * 2 + 1  # for all folds: a summary and a Gram a fit, and the scores
    assert "* 0.9" in repr(result)
    assert "3 splits, 5 reads" in repr(result)


def test_splits_are_independent_of_a_split_with_the_same_seed(table, parquet):
    data = sl.open_dataset(parquet, target="label", features=NAMES)
    train, _ = data.split(0.5, seed=0)
    result = sl.cross_validate(RidgeClassifier(), train, cv=2, seed=0, scoring="neg_log_loss")
    with train.reader() as reader:
        rows = np.concatenate([reader.read(ref).rows for ref in train.refs()])
    assert 150 < len(rows) < 350
    X, y = table[0][rows], table[1][rows]
    share = row_share(rows, split_shares(2, 0)[1])
    for fold in range(2):
        test = (share >= fold / 2) & (share < (fold + 1) / 2)
        model = RidgeClassifier().fit(X[~test], y[~test])
        expected = -log_loss(y[test], model.predict_proba(X[test]))
        assert result.scores[0, fold] == pytest.approx(expected, rel=1e-9)


def test_arrays(table):
    X, y, _ = table
    result = sl.cross_validate(RidgeClassifier(), X, cv=2, y=y)
    assert result.scores.shape == (1, 2)
    assert (result.mean > 0.9).all()
    assert "as given" in repr(result)


def test_dask(table):
    X, y, _ = table
    parts = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    lazily = sl.cross_validate(RidgeClassifier(), parts[0], cv=2, y=parts[1])
    here = sl.cross_validate(RidgeClassifier(), X, cv=2, y=y)
    np.testing.assert_array_equal(lazily.scores, here.scores)


def test_bad_arguments(table):
    X, y, _ = table
    with pytest.raises(ValueError, match="cv must be a number of splits, at least 2, got 1"):
        sl.cross_validate(RidgeClassifier(), X, cv=1, y=y)
    with pytest.raises(ValueError, match="does not fit RidgeClassifier"):
        sl.cross_validate(RidgeClassifier(), X, y=y, scoring="r2")
    with pytest.raises(ValueError, match="greater for better models; use 'neg_log_loss'"):
        sl.cross_validate(RidgeClassifier(), X, y=y, scoring="log_loss")
    with pytest.raises(ValueError, match="Invalid parameter 'gamma'"):
        sl.cross_validate(RidgeClassifier(), X, y=y, param_grid={"gamma": [1]})
