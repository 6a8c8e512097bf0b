"""The path: its models, pruning, what validation picks, the certificate."""

import numpy as np
import pytest
from scipy.special import softmax
from shareboost_kit import loss_of, optimum, planted

import streamlearn as sl

ONE = dict(columns_per_pass=1)


def test_pruning_takes_out_a_column_that_others_replace():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((800, 2))
    y = (A.sum(axis=1) + 0.1 * rng.standard_normal(800) > 0).astype(int)
    mixed = A.sum(axis=1) + 0.3 * rng.standard_normal(800)  # best alone, useless beside the two
    X = np.column_stack([mixed, A, rng.standard_normal((800, 3))])
    plain = sl.ShareBoostClassifier(3, ridge=1e-4, **ONE).fit(X, y)
    pruned = sl.ShareBoostClassifier(3, ridge=1e-4, prune=True, **ONE).fit(X, y)
    assert plain.choices_[0] == (0,)
    assert pruned.choices_[:2] == [(1,), (2,)]
    alone = sl.ShareBoostClassifier(2, ridge=1e-4).fit(X[:, 1:3], y)
    assert pruned.at(2).support_.tolist() == [1, 2]
    assert pruned.at(2).certificate_.objective == pytest.approx(
        alone.certificate_.objective, rel=1e-2
    )


def test_gap_bounds_the_distance_to_the_best_matrix_of_a_norm():
    X, y, _ = planted(300, 10, columns=(1, 4, 6))
    model = sl.ShareBoostClassifier(2, ridge=1e-3, tol=1e-12).fit(X, y)
    value, W, _ = optimum(X, y, 4, lambda W: (1e-3 * (W**2).sum(), 2e-3 * W))
    norm = np.abs(W).max(axis=0).sum()
    distance = model.certificate_.objective - value
    assert 0 < distance <= model.gap(norm)
    assert model.gap(0.0) == pytest.approx(0.0, abs=1e-6)


def test_the_path_and_the_number_that_validation_picks():
    X, y, _ = planted(160, 40, K=3, spread=1.0)
    Xv, *_ = planted(2000, 40, K=3, spread=1.0)
    held_out = planted(1500, 40, K=3, spread=1.0, seed=0)[:2]
    model = sl.ShareBoostClassifier(20, **ONE).fit(X, y, validation=held_out)
    path = model.path_
    assert path["n"].tolist() == list(range(21))
    best = int(path["validation_loss"].argmin())
    assert len(model.choices_) == best < 20
    for n in (0, 3, 20):
        at = model.at(n)
        assert len(at.choices_) == n
        V = held_out[0][:, [c for (c,) in at.choices_]]
        assert loss_of(V, held_out[1], at.coef_, at.intercept_) == pytest.approx(
            path["validation_loss"][n], rel=1e-9
        )
        assert 1 - at.score(*held_out) == pytest.approx(path["validation_error"][n], abs=1e-12)
    assert model.at(3).choices_ == model.at(20).choices_[:3]
    assert len(model.choices_) == best  # at() left it alone
    q = softmax(model.decision_function(Xv), axis=1)
    p = q * (np.e - (np.e - 1) * q)
    np.testing.assert_allclose(
        model.predict_proba(Xv), p / p.sum(axis=1, keepdims=True), atol=1e-12
    )
