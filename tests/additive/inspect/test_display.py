"""Panels show the learned curves: what is drawn is what `shape_function` says."""

import numpy as np
import pandas as pd
import pytest

import streamlearn as sl

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def rows(n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.random((400, 4))
    X[:, 1] = np.floor(4 * X[:, 1])
    X[:, 3] = 7.0
    return X, np.digitize(np.sin(6 * X[:, 0]) + X[:, 1], np.linspace(0.2, 3, n_classes - 1))


def test_lines_are_the_shape_functions():
    X, y = rows()
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model)
    assert display.names == ["x0", "x1", "x2"]  # the constant column has no curve
    assert display.by_value == [False, True, False]
    for d in (0, 2):
        drawn = display.axes_[d].lines[0].get_ydata()
        np.testing.assert_array_equal(drawn, model.shape_function(d, display.grids[d]))
    heights = [bar.get_height() for bar in display.axes_[1].containers[0]]
    np.testing.assert_array_equal(heights, model.shape_function(1, [0, 1, 2, 3]))


def test_grey_bars_are_the_shares_of_the_rows():
    X, y = rows()
    weight = np.arange(len(y)) % 3.0
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y, weight)
    smooth, few, _, constant = model.densities_
    counts, edges = np.histogram(X[:, 0], smooth.at, weights=weight)
    # bins of the summary are spread evenly
    np.testing.assert_allclose(smooth.share, counts / weight.sum(), atol=0.01)
    assert smooth.share.sum() == pytest.approx(1)
    expected = np.bincount(X[:, 1].astype(int), weight) / weight.sum()
    np.testing.assert_allclose(few.share, expected)
    assert len(constant.at) == 0
    axis = sl.AdditiveDisplay.from_estimator(model, features=[1]).axes_[0]
    tall = np.array([bar.get_height() for bar in axis.containers[1]])
    np.testing.assert_allclose(tall / tall.max(), expected / expected.max())


def test_bars_of_several_classes_stand_side_by_side():
    X, y = rows(n_classes=3)
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y)
    axis = sl.AdditiveDisplay.from_estimator(model, features=[1]).axes_[0]
    curve = model.shape_function(1, np.arange(4.0))
    for k in range(3):
        heights = [bar.get_height() for bar in axis.containers[k]]
        np.testing.assert_array_equal(heights, curve[:, k])
    assert [t.get_text() for t in axis.get_xticklabels()] == ["0", "1", "2", "3"]


def test_one_line_a_class():
    X, y = rows(n_classes=3)
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model, features=[0])
    assert display.curves[0].shape == (200, 3)
    assert [t.get_text() for t in display.axes_[0].get_legend().get_texts()] == ["0", "1", "2"]


def test_categories_have_names_and_missing_values_a_place():
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["b"] = np.array(["red", "green", "blue", None], object)[X[:, 1].astype(int)]
    frame.loc[::5, "c"] = np.nan
    model = sl.AdditiveClassifier(n_bases=8).fit(frame, y)
    display = sl.AdditiveDisplay.from_estimator(model)
    assert display.names == ["a", "b", "c"]
    bars, line = display.axes_[1:]
    ticks = [t.get_text() for t in bars.get_xticklabels()]
    assert ticks == [*model.levels_["b"], "other"]
    heights = [bar.get_height() for bar in bars.containers[0]]
    np.testing.assert_array_equal(heights, model.shape_function("b", [*ticks[:3], None]))
    grey = np.array([bar.get_height() for bar in bars.containers[1]])
    share = frame["b"].value_counts()[model.levels_["b"]].tolist() + [frame["b"].isna().sum()]
    np.testing.assert_allclose(grey / grey.max(), np.array(share) / max(share))
    assert line.lines[1].get_ydata() == model.shape_function("c", [np.nan])
    assert line.lines[1].get_xdata() > np.nanmax(X[:, 2])
    assert model.densities_[2].missing == pytest.approx(0.2)
    assert model.densities_[2].share.sum() == pytest.approx(0.8)


def test_given_axes_and_bad_choices():
    import matplotlib.pyplot as plt

    X, y = rows()
    model = sl.AdditiveRegressor(n_bases=8).fit(X, y)
    _, ax = plt.subplots()
    assert sl.AdditiveDisplay.from_estimator(model, features=[1], ax=ax).figure_ is ax.figure
    with pytest.raises(ValueError, match="1 axes for 2"):
        sl.AdditiveDisplay.from_estimator(model, features=[0, 1], ax=ax)
    with pytest.raises(ValueError, match=r"x3.*constant"):
        sl.AdditiveDisplay.from_estimator(model, features=[3])
