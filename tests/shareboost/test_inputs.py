"""Bad and unusual input is named, or does no harm."""

import numpy as np
import pandas as pd
import pytest
from shareboost_kit import as_dataset, planted

import streamlearn as sl
from streamlearn.errors import MemoryBudgetError, SourceError


def fit(X, y, n=3, **kw):
    return sl.ShareBoostClassifier(n, **kw).fit(X, y)


def test_constant_columns_are_never_selected_and_fewer_are_no_error():
    X, y, _ = planted(300, 6, columns=(1, 4))
    X[:, [0, 3]] = [7.0, 0.1]
    model = fit(X, y, 20, tol=1e-12, ridge=1e-3)
    assert sorted(model.support_) == [1, 2, 4, 5]
    assert model.certificate_.converged
    assert "no candidate is left" in model.certificate_.reason


def test_only_constant_columns_leave_the_intercept():
    y = np.repeat([0, 1, 2], [50, 30, 20])
    for candidates in ("columns", "stumps"):
        model = fit(np.ones((100, 2)), y, candidates=candidates)
        assert model.choices_ == []
        assert (model.predict(np.ones((5, 2))) == 0).all()
        assert model.transform(np.ones((5, 2))).shape == (5, 0)


def test_a_budget_that_holds_no_block_of_columns_is_refused():
    X, y, _ = planted(400, 3000, K=4, columns=(1, 4))
    data = as_dataset(X.astype(np.float32), y, rows=64)
    with sl.config_context(memory_budget="20MiB"):
        assert {1, 4} & set(fit(data, None, 2).support_)
    with (
        sl.config_context(memory_budget="1MiB"),
        pytest.raises(MemoryBudgetError, match=r"budget is 1.0 MiB; raise memory_budget"),
    ):
        fit(data, None, 2)


def test_labels_unseen_in_early_chunks():
    X, y, _ = planted(600, 6, columns=(1, 4))
    order = np.argsort(y, kind="stable")
    by_class = fit(as_dataset(X[order], y[order], rows=50), None, 2)
    mixed = fit(X, y, 2)
    assert by_class.choices_ == mixed.choices_
    np.testing.assert_allclose(by_class.coef_, mixed.coef_, rtol=1e-7)


def test_infinity_is_named_by_column_in_training_and_in_use():
    X, y, _ = planted(300, 6, columns=(1, 4))
    frame = pd.DataFrame(X.copy(), columns=list("abcdef"))
    model = fit(frame, y, 2)
    assert list(model.get_feature_names_out()) == ["b", "e"]
    frame.loc[17, "e"] = np.inf
    with pytest.raises(SourceError, match="'e'.*row 17"):
        fit(frame, y, 2)
    for use in (model.predict, model.transform):
        with pytest.raises(SourceError, match="'e', row 17"):
            use(frame)
    frame["e"], frame.loc[3, "a"] = X[:, 4], np.inf  # a column that is not used is not looked at
    model.predict(frame)


def test_options_that_do_not_go_together_are_refused():
    X, y, _ = planted(100, 4, columns=(1, 2))
    groups = [0, 0, 1, 1]
    with pytest.raises(ValueError, match="candidates='stumps' has none"):
        fit(X, y, groups=groups, candidates="stumps")
    with pytest.raises(ValueError, match=r"shape \(3,\), expected \(4,\)"):
        fit(X, y, groups=groups[:3])
    with pytest.raises(ValueError, match="not at groups"):
        fit(X, y, groups=groups, rule="lookahead")
    with pytest.raises(ValueError, match="not at pieces"):
        fit(X, y, candidates="pieces", rule="lookahead")
    with pytest.raises(ValueError, match="takes pairs"):
        fit(X[:, :1], y, candidates="products")


def test_groups_are_selected_whole():
    X, y, _ = planted(400, 9, columns=(3, 4, 5))
    model = fit(X, y, 1, groups=np.arange(9) // 3)
    assert model.choices_ == [(1,)]
    assert model.support_.tolist() == [3, 4, 5]
    assert model.transform(X).shape == (400, 3)
    np.testing.assert_array_equal(model.get_support(), np.arange(9) // 3 == 1)


@pytest.mark.parametrize("candidates", ["columns", "products", "stumps", "pieces", "soft-pieces"])
def test_transform_gives_a_dataset_for_what_lies_on_disk(tmp_path, candidates):
    X, y, _ = planted(300, 5, columns=(1, 4))
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    path = str(tmp_path / "rows.parquet")
    frame.to_parquet(path)
    data = sl.open_dataset(path, target="y")
    model = fit(data, None, 2, candidates=candidates, n_anchors=4, n_radii=2, ridge=1e-3)
    selected = model.transform(data)
    assert list(selected.feature_names) == list(model.get_feature_names_out())
    chunks = np.concatenate([chunk.X.copy() for chunk in selected.iter_chunks()])
    np.testing.assert_array_equal(chunks, model.transform(frame.drop(columns="y")))
    again = sl.ShareBoostClassifier(2, ridge=1e-3).fit(selected)
    assert 0 < len(again.choices_) <= 2
    assert model.score(path, "y") == pytest.approx((model.predict(path) == y).mean())
    copy = sl.load(_saved(model, tmp_path))
    np.testing.assert_array_equal(copy.predict_proba(data), model.predict_proba(data))
    assert copy.at(1).choices_ == model.at(1).choices_


def _saved(model, folder):
    sl.save(model, folder / "model.slm")
    return folder / "model.slm"


def test_only_the_columns_selected_are_read_to_predict(tmp_path, monkeypatch):
    X, y, _ = planted(200, 8, columns=(1, 4))
    pd.DataFrame(X, columns=list("abcdefgh")).assign(y=y).to_parquet(tmp_path / "a.parquet")
    model = fit(sl.open_dataset(tmp_path / "a.parquet", target="y"), None, 2)
    few = pd.DataFrame(X, columns=list("abcdefgh"))[list("abcdefgh")]
    few.loc[:, "a"] = np.inf
    np.testing.assert_array_equal(model.predict(few), model.predict(tmp_path / "a.parquet"))


def test_display():
    import matplotlib.pyplot as plt

    X, y, _ = planted(300, 6, columns=(1, 4))
    model = sl.ShareBoostClassifier(4).fit(X, y, validation=0.2)
    display = sl.ShareBoostDisplay.from_estimator(model)
    assert display.weights.shape == (4, model.coef_.shape[1])
    assert np.abs(display.weights).max() == 1
    assert len(display.axes_) == 2
    plt.close(display.figure_)
    whole = sl.ShareBoostClassifier(2, groups=[0, 0, 1, 1, 2, 2]).fit(X, y)
    display = sl.ShareBoostDisplay.from_estimator(whole)
    assert display.weights.shape == (4, 2)
    assert set(display.names) <= {"group 0", "group 1", "group 2"}
    plt.close(display.figure_)
    pieces = sl.ShareBoostClassifier(2, candidates="pieces", n_anchors=3, ridge=1e-3).fit(X, y)
    display = sl.ShareBoostDisplay.from_estimator(pieces)
    assert display.weights.shape == (4, 2)
    assert display.weights.min() >= 0
    assert display.names[0].startswith("near ")
    plt.close(display.figure_)
    with pytest.raises(ValueError, match="got 1 axes, the display draws on two"):
        sl.ShareBoostDisplay.from_estimator(model, ax=plt.figure().add_subplot())
    plt.close("all")
    with pytest.raises(ValueError, match="no column"):
        sl.ShareBoostDisplay.from_estimator(model.at(0))


def test_a_ridge_of_the_data_counts_copies():
    """A weight of k is k copies; weights far from one a row are warned of."""
    X, y, _ = planted(300, 8, columns=(1, 4))
    w = np.random.default_rng(0).integers(0, 3, 300)
    weighted = sl.ShareBoostClassifier(3).fit(X, y, w.astype(float))
    copied = sl.ShareBoostClassifier(3).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.choices_ == copied.choices_
    np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=1e-4)
    with pytest.warns(UserWarning, match="ShareBoostClassifier weighs its penalty"):
        sl.ShareBoostClassifier(3).fit(X, y, w / 100.0)
